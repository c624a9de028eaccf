//! The gate between a run's commits and its base branch.
//!
//! - Checks run in a cage of their own, on a copy of exactly the commit that would be merged, by the
//!   commands of the order ([`rounds`]). Their results count for that commit and no other.
//! - A base that moved is synced with in memory ([`sync`]); what comes of it is checked anew.
//! - A merge is a fast-forward to what was approved, after a pass. The queue of a repository takes one
//!   run after the other through sync, checks and merge ([`queue`]).
//! - A run whose order asks for it is merged without a review only when nothing at all was found that
//!   an operator should weigh ([`by_itself`]).
//!
//! Whatever is under way is in the store first; an engine that dies in the middle leaves nothing that
//! the next one does not finish.

use crate::engine::Engine;
use foreman_domain::Failure;
use std::sync::Arc;

pub(crate) mod by_itself;
pub(crate) mod check_plan;
mod events;
mod first_round;
mod order_files;
mod push;
pub(crate) mod queue;
pub(crate) mod rounds;
pub(crate) mod scope;
mod summary;
pub(crate) mod sync;

impl Engine {
    /// Goes on with what an engine left under way at the gate.
    pub(crate) async fn reconcile_gate(self: &Arc<Self>) -> Result<(), Failure> {
        self.finish_interrupted_syncs().await?;
        self.resume_rounds().await?;
        self.work_queues().await
    }
}
