//! Where runs are carried: the engine's side of the runner-context port. So far every run is carried on
//! this machine.

use crate::HostOptions;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{Failure, RunId};
use foreman_runner::{Launch, Local, Place, RunnerContext, Source};
use foreman_shim::protocol::{RunSpec, ShimIdentity};
use foreman_shim::secrets::Secret;
use std::io;
use std::sync::Arc;

/// The context of an engine with these options.
pub(crate) fn context(options: &HostOptions) -> Arc<dyn RunnerContext> {
    let options = options.clone();
    Arc::new(Local::finding(move || {
        options
            .find_shim()
            .map_err(|failure| io::Error::new(io::ErrorKind::NotFound, failure.message))
    }))
}

/// Where a run is, as the port has it.
pub(crate) fn place(run: &RunId, details: &RunDetails) -> Place {
    Place {
        run: run.clone(),
        nonce: details.nonce.clone(),
        files: details.files.clone(),
        spec: details.spec.clone(),
    }
}

impl Engine {
    /// Launches a run's shim with this spec, and the secrets that it names; it answers when this returns.
    pub async fn launch(
        &self,
        details: &RunDetails,
        spec: RunSpec,
        secrets: Vec<Secret>,
    ) -> Result<ShimIdentity, Failure> {
        let launch = Launch {
            place: place(&spec.run, details),
            spec,
            source: Source::Here,
            secrets,
        };
        self.runner.launch(&launch).await.or_fail()
    }
}
