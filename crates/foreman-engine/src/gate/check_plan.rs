//! What the rounds of checks of a run need to know, kept beside its journal from its start until it is
//! merged, or ends without anything to review: the cage as the order asked for it, the setup, the check
//! commands.
//!
//! It is out of every cage's reach. It holds the order's variables, as the spec did that is removed
//! when a run ends; a run without checks has none.

use crate::details::RunDetails;
use crate::failures::{internal, io};
use crate::spec::check_name;
use foreman_cage::Bind;
use foreman_domain::{Code, Failure, StepKind, StepName};
use foreman_git::CleanCopy;
use foreman_policy::Policy;
use foreman_shim::protocol::{Continues, HoldMode, OnFailure, RunSpec, Stdio, StepSpec};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The plan of all rounds of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CheckPlan {
    /// The run's own spec, without its worktree and with nothing but setup steps.
    spec: RunSpec,
    checks: Vec<String>,
}

/// What is different in each round.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    pub number: u32,
    pub head: &'a str,
    /// The run's record with the round's own files and nonce.
    pub details: &'a RunDetails,
    pub policy: Policy,
    pub hold: HoldMode,
    pub copy: &'a CleanCopy,
    pub before: Continues,
}

impl CheckPlan {
    /// From the spec that the run is started with; `outside` are the paths that its policy shows it.
    pub fn of(spec: &RunSpec, outside: &[Bind], checks: &[String]) -> Self {
        let mut spec = spec.clone();
        spec.cage.binds = outside.to_vec();
        // No model has a part in a check.
        spec.key = None;
        spec.steps.retain(|step| step.kind == StepKind::Setup);
        Self {
            spec,
            checks: checks.to_vec(),
        }
    }

    /// Writes it where only this user can read it, on disk when this returns. Blocking.
    pub fn write(&self, details: &RunDetails) -> Result<(), Failure> {
        let path = place(details);
        let text = serde_json::to_vec(self).map_err(internal)?;
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()))
            .map_err(|error| io(format!("{} cannot be written", path.display()), &error))
    }

    /// Reads it. Blocking.
    pub fn read(details: &RunDetails) -> Result<Self, Failure> {
        let path = place(details);
        let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::new(
                Code::NotFound,
                format!(
                    "how to check the run is not known any more ({} is gone)",
                    path.display()
                ),
            ),
            _ => io(format!("{} cannot be read", path.display()), &error),
        })?;
        serde_json::from_slice(&bytes)
            .map_err(|error| internal(format!("{} is unreadable: {error}", path.display())))
    }

    /// Takes it away; a run that is merged is checked no more. Blocking.
    pub fn forget(details: &RunDetails) {
        let path = place(details);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "a plan of checks stays");
            }
            Ok(()) | Err(_) => {}
        }
    }

    /// True when the run was let start with a wall missing.
    pub fn is_weaker(&self) -> bool {
        !self.spec.cage.accept_weaker.is_empty()
    }

    /// Every command that a round runs, as the order has it.
    pub fn commands(&self) -> Vec<String> {
        let setup = self.spec.steps.iter().map(|step| step.argv.join(" "));
        setup.chain(self.checks.iter().cloned()).collect()
    }

    /// What the shim of a round is started with.
    pub fn spec(&self, round: Round<'_>) -> RunSpec {
        let mut spec = self.spec.clone();
        spec.nonce.clone_from(&round.details.nonce);
        spec.files = round.details.files.clone();
        let shown = round.copy.shadow.binds.iter().map(|bind| Bind {
            source: bind.source.clone(),
            target: bind.target.clone(),
            writable: bind.writable,
        });
        spec.cage.binds.extend(shown);
        spec.policy = round.policy;
        spec.hold = round.hold;
        spec.base = round.head.to_owned();
        spec.continues = Some(round.before);
        for step in &mut spec.steps {
            step.name = of_round(&format!("check-{}", step.name), round.number);
            // Without it a check says nothing.
            step.on_failure = OnFailure::Abort;
        }
        for (index, command) in self.checks.iter().enumerate() {
            spec.steps.push(StepSpec {
                name: check_step(index, self.checks.len(), round.number),
                kind: StepKind::Check,
                argv: vec!["/bin/sh".into(), "-c".into(), command.clone()],
                env: Vec::new(),
                stdio: Stdio::Journal,
                on_failure: OnFailure::Continue,
                conversation: None,
            });
        }
        spec
    }
}

/// Name of the check at `index` of `many` in a round: `check-2`, and `check-2.3` in the third round.
pub(crate) fn check_step(index: usize, many: usize, round: u32) -> StepName {
    of_round(&check_name(index, many).0, round)
}

fn of_round(name: &str, round: u32) -> StepName {
    StepName(match round {
        0 | 1 => name.to_owned(),
        round => format!("{name}.{round}"),
    })
}

fn place(details: &RunDetails) -> PathBuf {
    details.folder().join("checks.json")
}
