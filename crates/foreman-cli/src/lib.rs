//! The command line of Foreman: parses arguments, asks the engine, draws what it answers.
//!
//! It speaks only the engine's declared command list, so that everything here can be done over a
//! control socket too. It knows no SQL, no git and no cage. Text that comes from a cage is hostile
//! wherever it is shown: it goes through [`foreman_domain::sanitize_line`] and never reaches column 0
//! of a terminal, where only our own marks stand (see [`feed`] and [`card`]).
//!
//! Answers go to stdout: sentences, or with `--json` one object (one event a line where events are
//! followed). Refusals go to stderr as a sentence, or with `--json` to stdout as `{"error": …}`.
//! Exit codes are those of [`foreman_domain::ExitCode`].

pub mod answer;
pub mod args;
pub mod card;
pub mod engine;
pub mod error;
pub mod feed;
pub mod keys;
pub mod layout;
mod lent;
mod notify_systemd;
pub mod paint;
pub mod panel;
mod screen;
pub mod terminal;
pub mod unit;
pub mod words;

mod command;
mod demo;
mod watch;

use std::process::ExitCode;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(command::run(std::env::args_os().collect()))
}
