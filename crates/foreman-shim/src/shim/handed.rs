//! What a shim is handed in memory: secrets for its steps, and a key that no step gets.

use super::run::{ShimError, process};
use crate::forward::{self, Forwarder};
use crate::protocol::RunSpec;
use crate::redact::Redactor;
use crate::secrets::{self, Secret};
use foreman_cage::gateway::Forward;
use foreman_domain::{Host, StepKind};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// What came in memory with the spec.
pub(super) struct Handed {
    secrets: Vec<Secret>,
    /// What is still to be read: the key. None where a run has neither.
    rest: Option<File>,
}

/// Takes the secrets that a spec names from standard input, and gives them to the steps that are not ours.
pub(super) fn take_secrets(spec: &mut RunSpec) -> Result<Handed, ShimError> {
    if spec.handed_over().is_empty() {
        return Ok(Handed {
            secrets: Vec::new(),
            rest: None,
        });
    }
    // Not by the standard library's stream: it reads ahead.
    let input = io::stdin().as_fd().try_clone_to_owned();
    let mut input = File::from(input.map_err(process("use standard input"))?);
    let secrets =
        secrets::take(&spec.secrets, &mut input).map_err(process("take the run's secrets"))?;
    // Nothing that is started later has them to read again.
    let nothing = File::open("/dev/null").map_err(process("open /dev/null"))?;
    nix::unistd::dup2_stdin(&nothing)
        .map_err(|error| process("close standard input")(error.into()))?;
    for step in &mut spec.steps {
        let is_ours = matches!(step.kind, StepKind::Finish | StepKind::Harvest);
        if !is_ours {
            let pairs = secrets.iter();
            let pairs = pairs.map(|secret| (secret.use_as.variable.clone(), secret.value.clone()));
            step.env.extend(pairs);
        }
    }
    Ok(Handed {
        secrets,
        rest: Some(input),
    })
}

/// Takes the key, which no step gets, and makes what finds all values. Only once all of the cage is forked:
/// those processes are copies of this one.
pub(super) fn take_key(
    spec: &RunSpec,
    handed: Handed,
) -> Result<(Redactor, Option<Forwarder>), ShimError> {
    let Handed { mut secrets, rest } = handed;
    let mut forwarder = None;
    if let (Some(key), Some(mut rest)) = (&spec.key, rest) {
        let taken =
            secrets::take(&[key.handed_as()], &mut rest).map_err(process("take the run's key"))?;
        for secret in &taken {
            let made = Forwarder::new(key, &secret.value);
            forwarder = Some(made.map_err(process("make the run's key ready"))?);
        }
        secrets.extend(taken);
    }
    let redactor = secrets::redactor(&secrets);
    crate::log::redact(redactor.clone());
    Ok((redactor, forwarder))
}

/// The name inside that stands for the host of the run's key.
pub(super) fn forwarded(spec: &RunSpec, forwarder: Option<Forwarder>) -> Option<Forward> {
    let (key, forwarder) = spec.key.as_ref().zip(forwarder)?;
    Some(Forward {
        name: forward::NAME.to_owned(),
        port: forward::PORT,
        host: Host::Name(key.host.clone()),
        host_port: key.port,
        carrier: Arc::new(forwarder),
    })
}
