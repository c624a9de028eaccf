//! Shells: programs of the operator's in the cage of a live run.

use super::TerminalSize;
use foreman_domain::{LogStream, RunId, ShellId, StepResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A shell to open.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellOpen {
    /// The run, as typed.
    pub run: String,
    /// Chosen by the caller, at random: asking again opens no second one.
    pub shell: ShellId,
    /// Program and arguments; the run's own shell when empty.
    #[serde(default)]
    pub argv: Vec<String>,
    /// Size of its terminal; pipes and no standard input when absent.
    pub terminal: Option<TerminalSize>,
    /// The kind of that terminal (`TERM`).
    #[serde(default)]
    pub term: Option<String>,
}

/// A shell that is open.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellView {
    /// Its run.
    pub run: RunId,
    /// Its id.
    pub shell: ShellId,
}

/// What a shell wrote is asked for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellRead {
    /// The run, as typed.
    pub run: String,
    /// Which.
    pub shell: ShellId,
    /// How many chunks the caller has; they are let go of. A shell that nobody reads for a minute is
    /// ended.
    pub after: u64,
    /// Longest wait for news in milliseconds; capped at 20,000.
    pub wait_ms: u32,
}

/// What a shell wrote.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellWritten {
    /// In order, those after the ones that the caller has.
    pub chunks: Vec<ShellBytes>,
    /// How it ended; set once everything it wrote was read.
    pub ended: Option<StepResult>,
}

/// A piece of what a shell wrote.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellBytes {
    /// Where.
    pub stream: LogStream,
    /// The bytes, in base64. Untrusted.
    pub bytes: String,
}

/// Keys for a shell's terminal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellInput {
    /// The run, as typed.
    pub run: String,
    /// Which.
    pub shell: ShellId,
    /// How many bytes were sent before: what arrives twice is taken once.
    pub at: u64,
    /// The bytes, in base64.
    pub bytes: String,
}

/// New size of a shell's terminal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellResize {
    /// The run, as typed.
    pub run: String,
    /// Which.
    pub shell: ShellId,
    /// The size.
    pub size: TerminalSize,
}

/// Names a shell.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShellRef {
    /// The run, as typed.
    pub run: String,
    /// Which.
    pub shell: ShellId,
}
