//! The order's state machine: one enum, one pure `next`.

use crate::{CancelCause, FailReason, InterruptReason, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a queued order stands. (The order that a single `foreman run` makes for itself has no state of
/// its own: its run has.)
///
/// | from | event | to |
/// |---|---|---|
/// | Queued | `Claimed{run}` | Dispatched |
/// | Queued, Dispatched, Failed | `Cancelled` | Cancelled |
/// | Dispatched | `Retried` | Queued |
/// | Dispatched | `Done(how)` | Done |
/// | Dispatched | `Failed(reason)` | Failed |
/// | Failed (its result was discarded) | `Restored{run}` | Dispatched |
/// | Failed, Cancelled | `Reopened` | Queued |
///
/// Everything else is [`IllegalOrderTransition`]. Done is final: what depends on it has gone on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum OrderState {
    /// Waits to be dispatched; for what is a wait reason.
    Queued,
    /// Has a run: one that goes on, or one whose commits wait for a review.
    Dispatched {
        /// Which.
        run: RunId,
    },
    /// Its result is in the base branch, or there was none to make.
    Done {
        /// In which way.
        how: OrderDone,
    },
    /// Its run came to an end without a result, and it is not tried again by itself.
    Failed {
        /// Why.
        why: OrderFailure,
    },
    /// Not wanted any more.
    Cancelled,
}

/// How an order was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum OrderDone {
    /// Its commits were merged.
    Merged {
        /// By the run.
        run: RunId,
        /// The base branch's tip after it.
        commit: String,
    },
    /// A clean run without commits.
    NoChanges {
        /// The run.
        run: RunId,
    },
}

/// Why an order is not done and not tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "failure", rename_all = "snake_case")]
pub enum OrderFailure {
    /// Its run failed.
    Run {
        /// The run.
        run: RunId,
        /// Why.
        cause: FailReason,
    },
    /// Its run was stopped.
    Stopped {
        /// The run.
        run: RunId,
        /// By whom or what.
        by: CancelCause,
    },
    /// Its run was lost. Never started again by itself: what an agent did is not done twice.
    Interrupted {
        /// The run.
        run: RunId,
        /// How.
        cause: InterruptReason,
    },
    /// It ended without commits, and with checks that did not pass.
    Checks {
        /// The run.
        run: RunId,
        /// How each check ended, in words.
        checks: Vec<String>,
    },
    /// Its result was discarded.
    Discarded {
        /// The run.
        run: RunId,
    },
}

/// What can happen to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderEvent {
    /// A run was recorded for it.
    Claimed {
        /// Which.
        run: RunId,
    },
    /// Its run failed in a way that may pass, and it has retries left; or nothing of it was started.
    Retried,
    /// Its run's result was taken over, or there was none to take.
    Done(OrderDone),
    /// Its run came to an end without a result.
    Failed(OrderFailure),
    /// The operator does not want it any more.
    Cancelled,
    /// The operator wants it after all.
    Reopened,
    /// Its discarded run was brought back.
    Restored {
        /// Which.
        run: RunId,
    },
}

/// A transition that the table does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an order that is {from} cannot take \"{event}\"")]
pub struct IllegalOrderTransition {
    /// The state's tag.
    pub from: &'static str,
    /// The event, for the log.
    pub event: String,
}

impl OrderState {
    /// The state's tag, as stored and shown.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Dispatched { .. } => "dispatched",
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// True for states in which something is still to happen by itself, or by a review.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Queued | Self::Dispatched { .. })
    }

    /// The state after `event`.
    ///
    /// # Errors
    /// [`IllegalOrderTransition`] when the table has no such row; the state is then unchanged.
    pub fn next(&self, event: OrderEvent) -> Result<Self, IllegalOrderTransition> {
        let illegal = |event: OrderEvent| {
            Err(IllegalOrderTransition {
                from: self.tag(),
                event: format!("{event:?}"),
            })
        };
        match (self, event) {
            (Self::Queued, OrderEvent::Claimed { run }) => Ok(Self::Dispatched { run }),
            (
                Self::Queued | Self::Dispatched { .. } | Self::Failed { .. },
                OrderEvent::Cancelled,
            ) => Ok(Self::Cancelled),
            (Self::Dispatched { .. }, OrderEvent::Retried) => Ok(Self::Queued),
            (Self::Dispatched { .. }, OrderEvent::Done(how)) => Ok(Self::Done { how }),
            (Self::Dispatched { .. }, OrderEvent::Failed(why)) => Ok(Self::Failed { why }),
            (
                Self::Failed {
                    why: OrderFailure::Discarded { run: discarded },
                },
                OrderEvent::Restored { run },
            ) if *discarded == run => Ok(Self::Dispatched { run }),
            (Self::Failed { .. } | Self::Cancelled, OrderEvent::Reopened) => Ok(Self::Queued),
            (
                Self::Queued
                | Self::Dispatched { .. }
                | Self::Done { .. }
                | Self::Failed { .. }
                | Self::Cancelled,
                event,
            ) => illegal(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run() -> impl Strategy<Value = RunId> {
        (0_u64..3).prop_map(RunId::from_random)
    }

    fn event() -> impl Strategy<Value = OrderEvent> {
        prop_oneof![
            run().prop_map(|run| OrderEvent::Claimed { run }),
            Just(OrderEvent::Retried),
            run().prop_map(|run| OrderEvent::Done(OrderDone::NoChanges { run })),
            run().prop_map(|run| OrderEvent::Done(OrderDone::Merged {
                run,
                commit: "aa".into()
            })),
            run().prop_map(|run| OrderEvent::Failed(OrderFailure::Discarded { run })),
            run().prop_map(|run| OrderEvent::Failed(OrderFailure::Stopped {
                run,
                by: CancelCause::Operator
            })),
            Just(OrderEvent::Cancelled),
            Just(OrderEvent::Reopened),
            run().prop_map(|run| OrderEvent::Restored { run }),
        ]
    }

    proptest! {
        #[test]
        fn done_is_final_and_a_run_is_only_had_by_a_claim_or_a_restore(
            events in proptest::collection::vec(event(), 0..60)
        ) {
            let mut state = OrderState::Queued;
            for event in events {
                let Ok(next) = state.next(event.clone()) else { continue };
                prop_assert!(!matches!(state, OrderState::Done { .. }), "left Done");
                if let OrderState::Dispatched { run } = &next {
                    let names_it = matches!(
                        &event,
                        OrderEvent::Claimed { run: named } | OrderEvent::Restored { run: named }
                            if named == run
                    );
                    prop_assert!(names_it, "{:?} gave a run", event);
                    prop_assert!(!matches!(state, OrderState::Dispatched { .. }), "claimed twice");
                }
                if matches!(next, OrderState::Done { .. }) {
                    prop_assert!(matches!(state, OrderState::Dispatched { .. }), "done without a run");
                }
                state = next;
            }
        }

        #[test]
        fn a_state_survives_json(
            events in proptest::collection::vec(event(), 0..20)
        ) {
            let state = events.into_iter().fold(OrderState::Queued, |state, event| {
                state.next(event).unwrap_or(state)
            });
            let text = serde_json::to_string(&state).unwrap();
            prop_assert_eq!(serde_json::from_str::<OrderState>(&text).unwrap(), state);
        }
    }

    #[test]
    fn only_a_result_that_was_discarded_comes_back_by_a_restore() {
        let run = RunId::from_random(1);
        let discarded = OrderState::Failed {
            why: OrderFailure::Discarded { run: run.clone() },
        };
        let other = RunId::from_random(2);
        assert!(discarded.next(OrderEvent::Restored { run: other }).is_err());
        assert_eq!(
            discarded.next(OrderEvent::Restored { run: run.clone() }),
            Ok(OrderState::Dispatched { run: run.clone() })
        );
        let stopped = OrderState::Failed {
            why: OrderFailure::Stopped {
                run: run.clone(),
                by: CancelCause::Operator,
            },
        };
        assert!(stopped.next(OrderEvent::Restored { run }).is_err());
    }
}
