//! The vocabulary every other crate speaks: ids, states, events and the closed list of error codes.
//!
//! Pure data and pure functions. Nothing here does IO, knows a clock, a database, a cage or a
//! terminal; time and randomness come in as arguments. Every type is part of the machine interface
//! (JSON lines, RFC 3339 times, opaque string ids), so a change here is a change of a contract.

mod block;
mod event;
mod failure;
mod ids;
mod run;
mod step;
mod text;
mod time;

pub use block::{
    Amendment, AmendmentState, Block, BlockState, Decider, Decision, Holder, Host, Protocol, Scope,
    Subject,
};
pub use event::{ConnectVerdict, Event, EventKind, LogStream, ProcessRef, WIRE_VERSION, Wall};
pub use failure::{Code, ExitCode, Failure};
pub use ids::{AmendmentId, BlockId, Epoch, EventSeq, HoldId, IdError, OrderId, Revision, RunId};
pub use run::{
    CancelCause, FailReason, IllegalTransition, InterruptReason, Outcome, RunEvent, RunState,
};
pub use step::{StepKind, StepName, StepResult};
pub use text::{escape_json, sanitize_line, sanitize_text};
pub use time::At;
