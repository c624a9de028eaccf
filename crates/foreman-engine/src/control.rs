//! The control socket: the command list over newline-delimited JSON-RPC 2.0.
//!
//! The server greets first (`welcome`, with process id and epoch), then answers one request after the
//! other on each connection. A request's `id` is chosen by the caller and is its key: asked again
//! under the same id, a command that makes something does not make it twice. Both ends check that the
//! other one belongs to the same user; lines and connections are bounded.

mod client;
mod server;
mod wire;

pub(crate) use client::{CallError, Client};
pub(crate) use server::Server;

/// Commands that only wait: dropped without an answer when hosting ends, so that the caller asks the
/// next engine; everything else is carried to its end.
const WAITING: &[&str] = &[
    "run.events",
    "run.stop",
    "order.cancel",
    "run.shell.read",
    "watch",
];

/// True for commands that only wait.
pub(crate) fn is_waiting(name: &str) -> bool {
    WAITING.contains(&name)
}

/// True for commands that have an effect each time: typed bytes, and ending an engine.
pub(crate) fn may_not_repeat(name: &str) -> bool {
    matches!(name, "run.input" | "shutdown")
}
