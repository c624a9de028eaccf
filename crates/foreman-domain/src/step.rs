//! A step is one process-like unit of a run, with exactly one typed terminal result.

use crate::AgentOutcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a step is for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Prepares the worktree, before the agent.
    Setup,
    /// The agent itself.
    Agent,
    /// Commits what the agent left uncommitted.
    Finish,
    /// Packs the run's commits for the host.
    Harvest,
    /// Checks the result.
    Check,
}

/// Name of a step within its run: the kind, and a number where there are several (`check-2`).
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(transparent)]
pub struct StepName(pub String);

impl std::fmt::Display for StepName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// The one terminal result of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum StepResult {
    /// Ended with code 0.
    Succeeded,
    /// Ended with another code.
    Exited {
        /// The code, 1 to 255.
        code: u8,
    },
    /// Ended by a signal.
    Signalled {
        /// The signal's number.
        signal: u8,
    },
    /// Never started: the program was not found or could not be executed in the cage.
    NotStarted {
        /// Why, as a sentence.
        why: String,
    },
    /// Ended by the shim: a bound was reached, or the run was stopped.
    Stopped {
        /// Why, as a sentence.
        why: String,
    },
    /// Ended, and what the agent said on the way is no success, whatever its code.
    Reported {
        /// How its messages say it ended.
        outcome: AgentOutcome,
        /// Why, as a sentence; may be empty.
        why: String,
    },
    /// Not run at all.
    Skipped {
        /// Why, as a sentence.
        why: String,
    },
}

impl StepResult {
    /// True for [`StepResult::Succeeded`] only.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Succeeded)
    }
}
