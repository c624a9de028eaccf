//! Recorded decisions of all runs, and what came of them.

use crate::api::{AmendmentList, AmendmentView, Amendments};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::Failure;

/// Decisions that are listed.
const MOST: u32 = 1_000;

impl Engine {
    /// Decisions, newest first.
    pub async fn list_amendments(&self, request: AmendmentList) -> Result<Amendments, Failure> {
        let stored = self.store.amendments(request.all, MOST).await.or_fail()?;
        let mut amendments = Vec::with_capacity(stored.len());
        for one in stored {
            let run = self.store.run(one.amendment.id.run()).await.or_fail()?;
            amendments.push(AmendmentView {
                repo: RunDetails::of(&run)?.repo,
                run_title: run.title,
                amendment: one.amendment,
                hits: 0,
                last_hit_at: None,
                project_written: false,
            });
        }
        Ok(Amendments { amendments })
    }
}
