//! The vocabulary every other crate speaks: ids, states, events and the closed list of error codes.
//!
//! Pure data and pure functions. Nothing here does IO, knows a clock, a database, a cage or a
//! terminal; time and randomness come in as arguments. Every type is part of the machine interface
//! (JSON lines, RFC 3339 times, opaque string ids), so a change here is a change of a contract.

mod agent;
mod block;
mod event;
mod failure;
mod fence;
mod file;
mod ids;
mod message;
mod order;
mod question;
mod record;
mod run;
mod shell;
mod spent;
mod step;
mod stopping;
mod text;
mod tier;
mod time;

pub use agent::{AgentEvent, AgentOutcome, PermissionAnswer};
pub use block::{
    Amendment, AmendmentState, Block, BlockState, BoundKind, Decider, Decision, FileAccess, Holder,
    Host, Protocol, Scope, Subject, Surface,
};
pub use event::{ConnectVerdict, Event, EventKind, LogStream, ProcessRef, WIRE_VERSION, Wall};
pub use failure::{About, Code, ExitCode, Failure};
pub use fence::Fence;
pub use file::{FileFacts, FileTarget, PATHS_NAMED, PathText, SocketFacts};
pub use ids::{
    AmendmentId, BlockId, Epoch, EventSeq, HoldId, IdError, OrderId, Revision, RunEpoch, RunId,
};
pub use message::MessageId;
pub use order::{IllegalOrderTransition, OrderDone, OrderEvent, OrderFailure, OrderState};
pub use question::{QUESTION_ARGUMENTS, QUESTION_OPTIONS, QuestionFacts, QuestionOption};
pub use record::{Packed, RECORD_BYTES, RECORD_EVENTS, Record, Span, last_seq_of, pack};
pub use run::{
    CancelCause, FailReason, IllegalTransition, InterruptReason, Outcome, RunEvent, RunState,
};
pub use shell::ShellId;
pub use spent::{Spent, Tally};
pub use step::{StepKind, StepName, StepResult};
pub use stopping::{Breach, Rung, StopBy};
pub use text::{escape_json, sanitize_line, sanitize_text, without_error_numbers};
pub use tier::Tier;
pub use time::At;
