//! What a live run uses, measured while somebody asks.

use crate::api::{Samples, SamplesRequest};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::Failure;

impl Engine {
    /// What a run used lately.
    pub async fn samples(&self, request: SamplesRequest) -> Result<Samples, Failure> {
        let id = self.find_run(&request.run).await?;
        let run = self.store.run(&id).await.or_fail()?;
        let details = RunDetails::of(&run)?;
        Ok(Samples {
            samples: Vec::new(),
            bounds: details.bounds,
            wall_left_ms: None,
        })
    }
}
