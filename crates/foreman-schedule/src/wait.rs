//! Why an order waits: typed, and in words.

use crate::{BudgetKind, Overlap};
use foreman_domain::{At, OrderId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an order in the queue waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "wait", rename_all = "snake_case")]
pub enum WaitReason {
    /// It cannot be used as it is.
    Fault {
        /// Why, as a sentence.
        message: String,
    },
    /// It is part of a circle of dependencies.
    Cycle {
        /// The members of the circle, by id.
        members: Vec<OrderId>,
    },
    /// It is for people: the queue does not start it.
    HumanOnly,
    /// Its time has not come.
    NotBefore {
        /// When it comes.
        at: At,
    },
    /// It failed in a way that may pass and is tried again later.
    Retry {
        /// When.
        at: At,
        /// What failed, as a sentence.
        why: String,
    },
    /// The queue is paused.
    Paused,
    /// A process of its last run still lives.
    LiveRun,
    /// It is a roll-up of other orders and never runs itself.
    HasChildren {
        /// How many.
        children: u32,
    },
    /// Its kind is not among those that are accepted.
    KindNotAccepted {
        /// Its kind.
        kind: String,
    },
    /// What it depends on is not done.
    Dependency {
        /// What is not done, in the order that it names them.
        on: Vec<Unmet>,
    },
    /// As much runs as may.
    Cap {
        /// Which cap.
        which: CapKind,
        /// The cap.
        limit: u32,
    },
    /// Another order holds paths that it means to change.
    Scope {
        /// The holder; nothing for a run that was started without an order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_by: Option<OrderId>,
        /// In what way.
        why: Why,
    },
    /// A budget is short.
    Budget {
        /// Which.
        what: BudgetKind,
        /// What the order needs; nothing when it takes what is left and nothing is left.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needs: Option<u64>,
        /// What is left of the budget.
        left: u64,
        /// When enough of what was spent leaves the window, as far as that is known: not while it is
        /// reserved by runs that live, and never when the order needs more than the whole budget.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<At>,
    },
}

/// A dependency that is not met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Unmet {
    /// The order that it depends on.
    pub order: OrderId,
    /// What keeps it from being met.
    pub state: UnmetState,
}

/// What keeps a dependency from being met.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum UnmetState {
    /// There is no such order.
    Missing,
    /// It is not finished.
    Unfinished,
    /// It failed or was cancelled.
    NotDone,
}

/// Which cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "cap", rename_all = "snake_case")]
pub enum CapKind {
    /// Of all runs.
    Total,
    /// Of the repository's runs.
    Repository,
    /// Of a kind.
    Kind {
        /// The kind.
        kind: String,
    },
    /// Of a concurrency class.
    Class {
        /// The class.
        class: String,
    },
}

/// In what way a scope holds an order off.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(tag = "clash", rename_all = "snake_case")]
pub enum Why {
    /// Both claims may match one path.
    Overlap(Overlap),
    /// The holder's claim is strict and this order declares no scope.
    HolderStrict,
    /// This order's claim is strict and the holder declares no scope.
    OursStrict,
}

/// Ids as a list in words.
pub(crate) fn listed(ids: &[OrderId]) -> String {
    let ids: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
    ids.join(", ")
}

impl WaitReason {
    /// The reason as a phrase that goes on from "waits: ", without a final period.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Fault { message } => message.clone(),
            Self::Cycle { members } => format!(
                "it is in a circle of dependencies: {}; take one of them out",
                listed(members)
            ),
            Self::HumanOnly => {
                "it is for people; `foreman order dispatch` starts it all the same".into()
            }
            Self::NotBefore { at } => format!("not before {at}"),
            Self::Retry { at, why } => format!("tried again at {at}, because {why}"),
            Self::Paused => "the queue is paused".into(),
            Self::LiveRun => "its last run is not over".into(),
            Self::HasChildren { children } => {
                format!("it is the roll-up of {children} other orders and does not run itself")
            }
            Self::KindNotAccepted { kind } => {
                format!("orders of the kind {kind} are not accepted now")
            }
            Self::Dependency { on } => {
                let each: Vec<String> = on.iter().map(Unmet::words).collect();
                each.join("; ")
            }
            Self::Cap { which, limit } => which.words(*limit),
            Self::Scope { held_by, why } => why.words(held_by.as_ref()),
            Self::Budget {
                what,
                needs,
                left,
                until,
            } => budget_words(*what, *needs, *left, *until),
        }
    }

    /// The reason's tag, as it is on the wire.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Fault { .. } => "fault",
            Self::Cycle { .. } => "cycle",
            Self::HumanOnly => "human_only",
            Self::NotBefore { .. } => "not_before",
            Self::Retry { .. } => "retry",
            Self::Paused => "paused",
            Self::LiveRun => "live_run",
            Self::HasChildren { .. } => "has_children",
            Self::KindNotAccepted { .. } => "kind_not_accepted",
            Self::Dependency { .. } => "dependency",
            Self::Cap { .. } => "cap",
            Self::Scope { .. } => "scope",
            Self::Budget { .. } => "budget",
        }
    }
}

impl Unmet {
    fn words(&self) -> String {
        let order = &self.order;
        match self.state {
            UnmetState::Missing => format!("depends on {order}, which does not exist"),
            UnmetState::Unfinished => format!("depends on {order}, which is not done"),
            UnmetState::NotDone => format!("depends on {order}, which failed or was cancelled"),
        }
    }
}

impl CapKind {
    fn words(&self, limit: u32) -> String {
        let runs = if limit == 1 { "run" } else { "runs" };
        match self {
            Self::Total => format!("{limit} {runs} at once is the cap"),
            Self::Repository => format!("{limit} {runs} at once is the cap of its repository"),
            Self::Kind { kind } => format!("{limit} {runs} at once is the cap of the kind {kind}"),
            Self::Class { class } => {
                format!("{limit} {runs} at once is the cap of the concurrency class {class}")
            }
        }
    }
}

impl Why {
    fn words(&self, holder: Option<&OrderId>) -> String {
        let holder = holder.map_or_else(|| "a run without an order".into(), |id| format!("{id}"));
        match self {
            Self::Overlap(Overlap { ours, theirs }) => {
                format!("its scope {ours} meets {theirs}, which {holder} holds")
            }
            Self::HolderStrict => {
                format!("{holder} holds a strict scope and this order declares none")
            }
            Self::OursStrict => {
                format!("its scope is strict and {holder}, which runs, declares none")
            }
        }
    }
}

fn budget_words(what: BudgetKind, needs: Option<u64>, left: u64, until: Option<At>) -> String {
    let unit = match what {
        BudgetKind::Tokens => "tokens",
        BudgetKind::CostMicros => "millionths of the cost budget",
        BudgetKind::WallSeconds => "seconds of run time",
    };
    let short = match needs {
        Some(needs) => format!("needs {needs} {unit} and {left} are left"),
        None => format!("no {unit} are left"),
    };
    match until {
        Some(at) => format!("{short} until {at}"),
        None => short,
    }
}
