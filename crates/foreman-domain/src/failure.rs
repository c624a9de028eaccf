//! What a command answers when it cannot do what was asked: a closed code, a sentence, a remedy.

use crate::text::without_error_numbers;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Closed list of reasons a command is refused. Callers switch on this and nothing else.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The command line or the request is not well formed.
    Usage,
    /// An argument, file or repository cannot be used as it is.
    BadInput,
    /// The repository cannot be caged safely or is damaged.
    BadRepository,
    /// A policy file does not parse or contradicts itself.
    BadPolicy,
    /// No such run, block, amendment or file.
    NotFound,
    /// What was shown has moved since: look again and decide again.
    Stale,
    /// Somebody decided this already; the message says who and when.
    AlreadyDecided,
    /// The state does not allow it (diverged base, dirty tree, live run, moved branch).
    Conflict,
    /// A wall that the run needs does not hold on this machine.
    WallMissing,
    /// A bound was asked for that nothing enforces yet.
    NotEnforced,
    /// Another engine holds the data directory, or a newer one wrote it.
    Busy,
    /// The disk is full.
    DiskFull,
    /// The machine refused something that is not the caller's fault: permissions, missing programs.
    Environment,
    /// Our bug.
    Internal,
}

impl Code {
    /// The process exit code that goes with it.
    #[must_use]
    pub fn exit(self) -> ExitCode {
        match self {
            Self::Usage => ExitCode::Usage,
            Self::BadInput
            | Self::BadRepository
            | Self::BadPolicy
            | Self::NotFound
            | Self::NotEnforced => ExitCode::BadInput,
            Self::Stale | Self::AlreadyDecided | Self::Conflict => ExitCode::Conflict,
            Self::WallMissing => ExitCode::WallMissing,
            Self::Busy | Self::DiskFull | Self::Environment => ExitCode::Environment,
            Self::Internal => ExitCode::Bug,
        }
    }
}

/// Exit codes of every command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done.
    Ok = 0,
    /// The agent failed.
    AgentFailed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Bad input, or not found.
    BadInput = 3,
    /// Stale, already decided, or in conflict.
    Conflict = 4,
    /// A wall is missing.
    WallMissing = 5,
    /// Something was denied while nobody attended.
    DeniedUnattended = 6,
    /// The run was cancelled.
    Cancelled = 7,
    /// The run was interrupted.
    Interrupted = 8,
    /// The disk or the environment.
    Environment = 9,
    /// Our bug.
    Bug = 70,
}

/// Which part of an order a refusal is about, so that a form can say it there.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// The repository.
    Repo,
    /// The branch to start from.
    Base,
    /// The agent's command.
    Command,
    /// The prompt.
    Prompt,
    /// What is allowed from the start.
    Allow,
    /// The policy text.
    Policy,
    /// The setup command.
    Setup,
    /// The checks.
    Checks,
    /// Files to copy.
    Copy,
    /// Walls that may be missing.
    Accept,
    /// Variables of the environment.
    Env,
    /// The bound on wall time.
    Wall,
    /// The bound on memory.
    Memory,
    /// The bound on processor time.
    Cpu,
    /// The bound on processes.
    Processes,
    /// The bound on the disk.
    Disk,
    /// The bound on output.
    Output,
    /// The bound on open files.
    OpenFiles,
    /// The scope.
    Scope,
    /// What it depends on.
    DependsOn,
    /// How often it is tried again.
    Retries,
    /// When it comes again.
    Recurrence,
    /// Its kind.
    Kind,
    /// Its class.
    Class,
}

/// A refused command: `{"code", "message", "hint"}` on the wire.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type, thiserror::Error,
)]
#[error("{message}")]
pub struct Failure {
    /// What kind of refusal it is.
    pub code: Code,
    /// What happened, as a sentence without a final period.
    pub message: String,
    /// What to do, as a sentence; absent when there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Which part of an order it is about; absent when it is about no part, or about the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
}

impl Failure {
    /// A refusal without a remedy. The system's error numbers are taken out of the message.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: without_error_numbers(&message.into()),
            hint: None,
            about: None,
        }
    }

    /// The same refusal, about a part of an order.
    #[must_use]
    pub fn about(mut self, about: About) -> Self {
        self.about = Some(about);
        self
    }

    /// The same refusal with a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
