//! `watch`: long polls for what changed.

use crate::api::{Hints, RunHint, WatchRequest};
use crate::changes::Subject;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{Failure, RunId};
use std::time::Duration;

const LONGEST_WAIT_MS: u32 = 30_000;

impl Engine {
    /// What changed after a cursor.
    pub async fn watch(&self, request: WatchRequest) -> Result<Hints, Failure> {
        let wait = Duration::from_millis(u64::from(request.wait_ms.min(LONGEST_WAIT_MS)));
        let told = self
            .news
            .changes
            .after(self.epoch, request.cursor.as_deref(), wait)
            .await;
        let mut hints = Hints {
            from: told.from.map(|cursor| cursor.to_string()),
            to: told.to.to_string(),
            resync: told.from.is_none(),
            runs: vec![],
            orders: vec![],
            blocks: vec![],
        };
        let mut runs: Vec<RunId> = Vec::new();
        for subject in told.subjects {
            match subject {
                Subject::Run(run) => runs.push(run),
                Subject::Order(order) => hints.orders.push(order),
                Subject::Block(block) => hints.blocks.push(block),
            }
        }
        let mut heads = self.store.heads(&runs).await.or_fail()?;
        let hint = |run: RunId| {
            let head = heads.remove(&run)?;
            Some(RunHint {
                run,
                last_seq: head.last_seq,
                state: head.state,
            })
        };
        hints.runs = runs.into_iter().filter_map(hint).collect();
        Ok(hints)
    }
}
