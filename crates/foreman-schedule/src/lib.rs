//! Which order starts next, and why each of the others waits.
//!
//! [`dispatch`] is the whole scheduler: a pure function from a [`Snapshot`] of what is known to a
//! [`Decision`]. It does no IO, reads no clock and draws no random number, so the same snapshot, in
//! whatever order its lists are, gives the same decision. Whoever calls it records the decision and
//! carries it out; nothing here knows how.
//!
//! Contract:
//! - every ready order is either started or waits for exactly one typed [`WaitReason`];
//! - an order that cannot be judged is an [`OrderFault`] of its own and stops no other;
//! - what is started in one decision is checked against itself as well as against what is in flight;
//! - unsure means no: patterns that cannot be compared intersect, needs that are not known take what
//!   is left of a budget.
//!
//! Not here: the state machine of an order, leases, the queue's storage.

mod budget;
mod calendar;
mod claim;
mod dispatch;
mod glob;
mod hints;
mod limits;
mod rank;
mod recurrence;
mod retry;
mod scope;
mod snapshot;
mod wait;

pub use budget::{Amounts, BudgetKind, BudgetUse, Budgets, Estimate};
pub use claim::{CompareScopes, Enforcement, Overlap, ScopeClaim};
pub use dispatch::{dispatch, dispatch_by};
pub use glob::Globs;
pub use hints::{Autonomy, Complexity, Hints, Impact};
pub use limits::Limits;
pub use recurrence::{Cadence, Due, Missed, ON_TIME_SECONDS, Recurrence, RecurrenceError};
pub use retry::{FIRST_WAIT, LONGEST_WAIT, PassingFailure, backoff, retry};
pub use snapshot::{Decision, InFlight, OrderFacts, OrderFault, RetryAt, Snapshot, Standing};
pub use wait::{CapKind, Unmet, UnmetState, WaitReason, Why};
