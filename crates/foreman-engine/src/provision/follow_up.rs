//! Going on from what was reviewed: a new attempt that starts at a run's reviewed commits.

use crate::api::{FollowUp, RunView};
use crate::engine::Engine;
use foreman_domain::{Code, Failure};
use foreman_store::RequestKey;
use std::sync::Arc;

impl Engine {
    /// Makes a new attempt that starts from the reviewed commits of a run.
    pub async fn follow_up(
        self: &Arc<Self>,
        asked: FollowUp,
        _key: &RequestKey,
    ) -> Result<RunView, Failure> {
        let id = self.find_run(&asked.run).await?;
        Err(Failure::new(
            Code::Conflict,
            format!("run {id} cannot be followed up by this version"),
        ))
    }
}
