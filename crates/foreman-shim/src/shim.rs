//! The supervisor of one run: builds the cage, judges what wants to leave, runs the steps, keeps the
//! journal, answers the engine.
//!
//! Who owns what: `bounds` how much it may use; `arbiter` the policy, blocks, holds and connections behind one lock; `feed` the
//! journal; `plan` the cage and the steps; `server` the engine's connections; `shells` what the operator
//! runs beside a step. They share nothing
//! else but a wish to stop. No part trusts what comes from the cage, and none of them panics.

mod arbiter;
mod blocks;
mod bounds;
mod coalesce;
mod disk;
mod feed;
mod fence;
mod figures;
mod gauge;
mod handed;
mod output;
mod plan;
mod pointer;
mod ports;
mod record;
mod run;
mod self_test;
mod server;
mod shells;
mod stop;
mod ticks;
mod verdict;
mod walls;
mod why_server;

pub(crate) use bounds::where_bounds_are_kept;
pub use run::{ShimError, run};
