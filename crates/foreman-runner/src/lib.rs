//! The runner-context port: how to launch a shim, how the run's repository gets to where it is carried
//! and its commits come back, and how the shim is talked to there.
//!
//! A [`RunnerContext`] is a kind of place. [`Local`] is this machine: the worktree is where it will be
//! used, the shim a detached process, the line to it its unix socket. [`Pipe`] is any place that a byte
//! pipe leads to: the repository goes there as a bundle, the shim is started by a station at the far end,
//! the line to it goes through another pipe, and results come back when they are collected. The engine
//! calls the port and does not know which it is.
//!
//! Whatever the place: a shim outlives the engine and the pipe; what answers is proven by the run's
//! secret; an engine that is no longer in charge is refused; events come by cursor, none lost or doubled;
//! a shim that dies takes its cage along. [`conformance`] is the suite that says so, for any context.
//!
//! What it is not: it knows no database, no policy and no git, and nothing about how a cage is built.

pub mod conformance;
mod local;
mod pipe;
mod port;

pub use foreman_shim::station::Presence;
pub use local::Local;
pub use pipe::{Dial, Dialled, Pipe};
pub use port::{Launch, Line, Place, RunnerContext, RunnerError, Seen, Source};
