//! What the scheduler is told, and what it answers.

use crate::{Amounts, BudgetUse, Estimate, Hints, Limits, ScopeClaim, WaitReason};
use foreman_domain::{At, OrderId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that a decision depends on. The order of the lists does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The time.
    pub now: At,
    /// Whether the queue is paused. Gates dispatch and nothing else.
    pub paused: bool,
    /// Orders that the operator dispatched by hand and that did not start yet.
    pub manual: BTreeSet<OrderId>,
    /// Caps and budgets.
    pub limits: Limits,
    /// Every order that is not finished, and at least those finished ones that others depend on.
    pub orders: Vec<OrderFacts>,
    /// What holds a place, a claim or both.
    pub in_flight: Vec<InFlight>,
    /// The budget's book: open reservations, and what was settled within the window.
    pub book: Vec<BudgetUse>,
}

/// What the scheduler knows of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderFacts {
    /// Its id.
    pub id: OrderId,
    /// Where it stands.
    pub standing: Standing,
    /// The repository, by a name that is the same for the same repository (its canonical path).
    pub repository: String,
    /// When it was made; missing sorts last.
    pub created: Option<At>,
    /// Its hints.
    pub hints: Hints,
    /// Its scope claim.
    pub claim: Option<ScopeClaim>,
    /// What must be done before it.
    pub depends_on: Vec<OrderId>,
    /// How many orders name it as their parent, finished ones included. One that has any is a roll-up
    /// and never runs.
    pub children: u32,
    /// The group of attempts side by side that it is part of; attempts of one group do not hold each
    /// other off by their claims, because at most one of them is merged.
    pub group: Option<String>,
    /// What it needs of the budgets.
    pub estimate: Estimate,
    /// When it may be tried again after a failure.
    pub retry: Option<RetryAt>,
    /// Why it cannot be dispatched as it is, as a sentence (a repository that is gone, a file that
    /// does not parse). Isolates this order.
    pub fault: Option<String>,
}

/// Where an order stands, as far as the scheduler cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// In the queue.
    Ready,
    /// Dispatched; not finished.
    InFlight,
    /// Done: what depends on it may start.
    Done,
    /// Failed or cancelled: finished, and not done.
    Closed,
}

/// When and why an order is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryAt {
    /// Not before this time.
    pub at: At,
    /// What failed, as a sentence.
    pub why: String,
}

/// A run that lives, or a dispatched order that still holds its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InFlight {
    /// The order; nothing for a run that was started without one.
    pub order: Option<OrderId>,
    /// The repository, named as in [`OrderFacts::repository`].
    pub repository: String,
    /// The claim.
    pub claim: Option<ScopeClaim>,
    /// The order's group.
    pub group: Option<String>,
    /// The order's kind.
    pub kind: Option<String>,
    /// The order's class.
    pub concurrency_class: Option<String>,
    /// True while a process of the run lives: counts against the caps, and its claim holds whatever
    /// the state or the age of its lease. False for an order whose run is over and that is not
    /// finished (it waits for review): holds a mandatory claim and nothing else.
    pub live: bool,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Orders to start, first things first.
    pub start: Vec<OrderId>,
    /// What each order in `start` reserves. Record it before the launch, settle it after.
    pub reserve: BTreeMap<OrderId, Amounts>,
    /// Every other ready order, in the order of the queue, with what it waits for.
    pub waiting: Vec<(OrderId, WaitReason)>,
    /// Orders that somebody must put right. Each of them is in `waiting` too.
    pub errors: Vec<(OrderId, OrderFault)>,
}

/// What is wrong with an order.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type, thiserror::Error,
)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum OrderFault {
    /// Orders that wait for each other.
    #[error("the orders {} depend on each other in a circle", crate::wait::listed(.members))]
    Cycle {
        /// All of them, by id.
        members: Vec<OrderId>,
    },
    /// Two orders have one id.
    #[error("there is more than one order with the id {id}")]
    DuplicateId {
        /// The id.
        id: OrderId,
    },
    /// The order cannot be used as it is.
    #[error("{message}")]
    Unusable {
        /// Why, as a sentence.
        message: String,
    },
}
