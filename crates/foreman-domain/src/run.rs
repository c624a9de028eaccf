//! The run's state machine: one enum, one pure `next`.

use crate::{At, Breach, Code, Rung, StepName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a run stands.
///
/// | from | event | to |
/// |---|---|---|
/// | Provisioning | `Started{step}` | Running |
/// | Running | `Started{step}` | Running |
/// | Provisioning, Running | `StopAsked` | Stopping |
/// | Provisioning, Running, Stopping | `Ended(outcome)` | Review, NoChanges, Failed, Cancelled, Interrupted |
/// | Review | `MergeStarted` | Merging |
/// | Review | `Moved{head, base}` | Review |
/// | Merging | `Merged` | Merged |
/// | Merging | `MergeRefused` | Review |
/// | Review, NoChanges, Failed, Cancelled, Interrupted | `Discarded` | Discarded |
/// | Discarded | `Restored(outcome)` | the state of that outcome |
///
/// Everything else is [`IllegalTransition`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Worktree, cage and steps are being prepared.
    Provisioning,
    /// A step runs.
    Running {
        /// The step that runs now.
        step: StepName,
    },
    /// Asked to stop; the cage is not empty yet.
    Stopping {
        /// Who or what asked.
        cause: CancelCause,
        /// When the cage is killed if it has not ended by itself.
        deadline: At,
        /// What is done until then, and when.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ladder: Vec<Rung>,
    },
    /// Ended with commits that wait for the operator.
    Review {
        /// Commit at the tip of the run's branch, in hexadecimal.
        head: String,
        /// Commit the run started from, in hexadecimal.
        base: String,
        /// False when the agent itself did not succeed; its commits are shown all the same.
        agent_succeeded: bool,
    },
    /// Ended cleanly without commits.
    NoChanges,
    /// Ended without a result to review.
    Failed {
        /// Why.
        reason: FailReason,
    },
    /// Stopped by the operator.
    Cancelled {
        /// Who or what asked.
        by: CancelCause,
    },
    /// The shim is gone without a terminal result.
    Interrupted {
        /// Why.
        reason: InterruptReason,
    },
    /// Being merged.
    Merging,
    /// Its commits are in the base branch.
    Merged {
        /// The base branch's new tip, in hexadecimal.
        commit: String,
    },
    /// Worktree and branch removed; a snapshot ref keeps the work.
    Discarded {
        /// Name of the snapshot ref.
        snapshot: String,
    },
}

/// Why a run is to stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum CancelCause {
    /// The operator asked.
    Operator,
    /// A bound was reached.
    Bound {
        /// Which bound, with the figures, in words.
        what: String,
        /// The figures; absent where what failed is no bound of the order's (a disk, the network).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        breach: Option<Breach>,
    },
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum FailReason {
    /// Preparing failed. Nothing of the order was started, so it may be tried again.
    Provision {
        /// What failed, as a sentence.
        message: String,
        /// The class of what failed, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        /// What to do, as a sentence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String>,
    },
    /// A wall does not hold, so nothing was started.
    Wall {
        /// Which wall, and what was seen.
        message: String,
    },
    /// The setup command failed.
    Setup {
        /// How it ended.
        message: String,
    },
    /// The agent failed and left no commits.
    Agent {
        /// How it ended.
        message: String,
    },
    /// A bound was reached and nothing was left to review.
    Bound {
        /// Which bound, with the figures, in words.
        message: String,
        /// The figures; absent where what failed is no bound of the order's (a disk, the network).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        breach: Option<Breach>,
    },
    /// The agent's work could not be collected; the worktree is kept.
    Harvest {
        /// What failed, as a sentence.
        message: String,
    },
}

/// Why a run is interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum InterruptReason {
    /// The shim is gone and left no result.
    Lost {
        /// What was found, as a sentence.
        message: String,
    },
}

/// How a run ended, before anybody reviewed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// There are commits to review.
    Changes {
        /// Tip of the run's branch.
        head: String,
        /// Where it started.
        base: String,
        /// Whether the agent's own result was a success.
        agent_succeeded: bool,
    },
    /// Success without commits.
    NoChanges,
    /// No result.
    Failed {
        /// Why.
        reason: FailReason,
    },
    /// Stopped.
    Cancelled {
        /// By whom.
        by: CancelCause,
    },
    /// Lost.
    Interrupted {
        /// Why.
        reason: InterruptReason,
    },
}

/// What can happen to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// A step started.
    Started {
        /// Which.
        step: StepName,
    },
    /// A stop was asked for.
    StopAsked {
        /// By whom.
        cause: CancelCause,
        /// When the cage is killed at the latest.
        deadline: At,
    },
    /// All steps are over.
    Ended(Outcome),
    /// The operator asked to merge what was reviewed.
    MergeStarted,
    /// What there is to review is something else now: brought onto another base, or added to by hand.
    Moved {
        /// The tip.
        head: String,
        /// What it builds on.
        base: String,
    },
    /// The base branch moved to the run's head.
    Merged {
        /// The new tip.
        commit: String,
    },
    /// The merge did not happen.
    MergeRefused {
        /// The state to go back to.
        back: Outcome,
    },
    /// Removed, with a snapshot.
    Discarded {
        /// The snapshot ref.
        snapshot: String,
    },
    /// Brought back from its snapshot.
    Restored(Outcome),
}

/// A transition that the table does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a run that is {from} cannot take \"{event}\"")]
pub struct IllegalTransition {
    /// The state's tag.
    pub from: &'static str,
    /// The event, for the log.
    pub event: String,
}

impl RunState {
    /// The state's tag, as stored and shown.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Provisioning => "provisioning",
            Self::Running { .. } => "running",
            Self::Stopping { .. } => "stopping",
            Self::Review { .. } => "review",
            Self::NoChanges => "no_changes",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
            Self::Interrupted { .. } => "interrupted",
            Self::Merging => "merging",
            Self::Merged { .. } => "merged",
            Self::Discarded { .. } => "discarded",
        }
    }

    /// True while a shim is expected to live.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::Provisioning | Self::Running { .. } | Self::Stopping { .. }
        )
    }

    /// The state after `event`.
    ///
    /// # Errors
    /// [`IllegalTransition`] when the table has no such row; the state is then unchanged.
    pub fn next(&self, event: RunEvent) -> Result<Self, IllegalTransition> {
        let illegal = |event: &RunEvent| {
            Err(IllegalTransition {
                from: self.tag(),
                event: format!("{event:?}"),
            })
        };
        match event {
            RunEvent::Started { step } => match self {
                Self::Provisioning | Self::Running { .. } => Ok(Self::Running { step }),
                _ => illegal(&RunEvent::Started { step }),
            },
            RunEvent::StopAsked { cause, deadline } => match self {
                Self::Provisioning | Self::Running { .. } => Ok(Self::Stopping {
                    cause,
                    deadline,
                    ladder: vec![],
                }),
                _ => illegal(&RunEvent::StopAsked { cause, deadline }),
            },
            RunEvent::Ended(outcome) if self.is_live() => Ok(outcome.into()),
            RunEvent::MergeStarted => match self {
                Self::Review { .. } => Ok(Self::Merging),
                _ => illegal(&RunEvent::MergeStarted),
            },
            RunEvent::Moved { head, base } => match self {
                Self::Review {
                    agent_succeeded, ..
                } => Ok(Self::Review {
                    head,
                    base,
                    agent_succeeded: *agent_succeeded,
                }),
                _ => illegal(&RunEvent::Moved { head, base }),
            },
            RunEvent::Merged { commit } => match self {
                Self::Merging => Ok(Self::Merged { commit }),
                _ => illegal(&RunEvent::Merged { commit }),
            },
            RunEvent::MergeRefused { back } => match self {
                Self::Merging => Ok(back.into()),
                _ => illegal(&RunEvent::MergeRefused { back }),
            },
            RunEvent::Discarded { snapshot } => match self {
                Self::Review { .. }
                | Self::NoChanges
                | Self::Failed { .. }
                | Self::Cancelled { .. }
                | Self::Interrupted { .. } => Ok(Self::Discarded { snapshot }),
                _ => illegal(&RunEvent::Discarded { snapshot }),
            },
            RunEvent::Restored(outcome) => match self {
                Self::Discarded { .. } => Ok(outcome.into()),
                _ => illegal(&RunEvent::Restored(outcome)),
            },
            event @ RunEvent::Ended(_) => illegal(&event),
        }
    }
}

impl From<Outcome> for RunState {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Changes {
                head,
                base,
                agent_succeeded,
            } => Self::Review {
                head,
                base,
                agent_succeeded,
            },
            Outcome::NoChanges => Self::NoChanges,
            Outcome::Failed { reason } => Self::Failed { reason },
            Outcome::Cancelled { by } => Self::Cancelled { by },
            Outcome::Interrupted { reason } => Self::Interrupted { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arbitrary_event() -> impl Strategy<Value = RunEvent> {
        let outcome = prop_oneof![
            Just(Outcome::NoChanges),
            any::<bool>().prop_map(|agent_succeeded| Outcome::Changes {
                head: "aa".into(),
                base: "bb".into(),
                agent_succeeded
            }),
            Just(Outcome::Cancelled {
                by: CancelCause::Operator
            }),
        ];
        prop_oneof![
            Just(RunEvent::Started {
                step: StepName("agent".into())
            }),
            Just(RunEvent::StopAsked {
                cause: CancelCause::Operator,
                deadline: At::from_millis(0)
            }),
            outcome.clone().prop_map(RunEvent::Ended),
            Just(RunEvent::MergeStarted),
            Just(RunEvent::Moved {
                head: "cc".into(),
                base: "dd".into()
            }),
            Just(RunEvent::Merged {
                commit: "aa".into()
            }),
            outcome
                .clone()
                .prop_map(|back| RunEvent::MergeRefused { back }),
            Just(RunEvent::Discarded {
                snapshot: "s".into()
            }),
            outcome.prop_map(RunEvent::Restored),
        ]
    }

    proptest! {
        #[test]
        fn merged_is_final_and_only_reached_through_merging(
            events in proptest::collection::vec(arbitrary_event(), 0..40)
        ) {
            let mut state = RunState::Provisioning;
            for event in events {
                let Ok(next) = state.next(event) else { continue };
                prop_assert!(!matches!(state, RunState::Merged { .. }), "left Merged");
                if matches!(next, RunState::Merged { .. }) {
                    prop_assert_eq!(&state, &RunState::Merging);
                }
                if next.is_live() {
                    prop_assert!(state.is_live(), "an ended run came back to life");
                }
                state = next;
            }
        }
    }

    #[test]
    fn a_live_run_cannot_be_merged_or_discarded() {
        let live = RunState::Running {
            step: StepName("agent".into()),
        };
        assert!(live.next(RunEvent::MergeStarted).is_err());
        assert!(
            live.next(RunEvent::Discarded {
                snapshot: "s".into()
            })
            .is_err()
        );
    }
}
