//! What a coding agent says and does, in one vocabulary for all of them.
//!
//! Every text in here is the agent's own claim, or the model's: shown, never believed. Where each of them came
//! from is in the output event before it, byte for byte.

use crate::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Something that an agent's driver understood from what the agent printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum AgentEvent {
    /// It began, or went on with, a session of its own.
    Session {
        /// Its name for the session: what resumes it later.
        session: String,
        /// The model that it names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// It says something to the operator. Text that came in pieces is put together.
    Message {
        /// What it says, or a piece of it.
        text: String,
        /// True when it goes on in the next one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        continued: bool,
    },
    /// The model's reasoning, as far as it is shown.
    Thought {
        /// What it says, or a piece of it.
        text: String,
        /// True when it goes on in the next one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        continued: bool,
    },
    /// It calls a tool.
    ToolStarted {
        /// The agent's name for the call.
        call: String,
        /// The tool.
        tool: String,
        /// The arguments as JSON text, cut to 16 KiB.
        arguments: String,
    },
    /// A tool call ended.
    ToolEnded {
        /// The agent's name for the call.
        call: String,
        /// The tool, where this is said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// What it gave, cut to 16 KiB.
        result: String,
        /// True when the agent calls it a failure.
        failed: bool,
    },
    /// A tool call changed a file.
    Edit {
        /// The agent's name for the call.
        call: String,
        /// The file, as the agent names it.
        file: String,
    },
    /// It asks whether it may do something.
    PermissionAsked {
        /// The agent's name for the question.
        request: String,
        /// The tool.
        tool: String,
        /// What it wants to do, as JSON text, cut to 16 KiB.
        arguments: String,
    },
    /// Such a question was answered.
    PermissionAnswered {
        /// The agent's name for the question.
        request: String,
        /// The answer.
        answer: PermissionAnswer,
    },
    /// Tokens and cost. The agent's own count, in the way of its model's provider.
    Usage {
        /// True for a sum since its beginning, false for what came on top.
        total: bool,
        /// Tokens read, without those from a cache where the provider tells them apart.
        input: u64,
        /// Tokens written.
        output: u64,
        /// Tokens read from a cache.
        cached: u64,
        /// Cost in millionths of a US dollar, where it names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_microusd: Option<u64>,
    },
    /// The operator said something to it. It waits, and is given to it when its turn ends.
    Told {
        /// Who said it.
        by: String,
        /// What.
        text: String,
    },
    /// The oldest of what waited was given to it, as its next prompt.
    Given {
        /// How many messages wait still.
        waiting: u32,
    },
    /// It told again what was said in its session before. That is no news, is not counted, and is shown nowhere but
    /// in the output events before this one.
    Replayed {
        /// How many updates it was.
        updates: u32,
    },
    /// Its model's provider lets it do no more for now: by a typed field, never by what a text says.
    Limited {
        /// When it may again, where the provider named a time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resets_at: Option<At>,
        /// In how many seconds from this event it may again, where the provider named those.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_seconds: Option<u64>,
    },
    /// It could not reach its model, or was turned away, and tries again.
    Retry {
        /// Which try this is, where it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
        /// Why.
        why: String,
    },
    /// Something went wrong.
    Problem {
        /// What.
        message: String,
    },
    /// A message that its driver does not know. The output event before it has it whole.
    Unknown {
        /// What the message calls itself; empty where it does not say.
        name: String,
    },
    /// A line that is no message of its protocol: no JSON, or longer than a driver takes.
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
    /// How it ended, as its messages show it; neither its exit code nor its own word for success decides.
    Ended {
        /// How.
        outcome: AgentOutcome,
        /// Why, as a sentence without a final period; empty for a success.
        why: String,
    },
}

/// An answer to an agent that asks for permission.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAnswer {
    /// This once.
    AllowOnce,
    /// And whatever is like it, in this session.
    AllowAlways,
    /// Not this time.
    RejectOnce,
    /// Never in this session.
    RejectAlways,
}

/// How an agent ended.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum AgentOutcome {
    /// It came to the end of what it was asked to do.
    Completed,
    /// It did, and some of what it wanted to do was denied by its own rules.
    CompletedWithDenials,
    /// It gave up.
    AgentError,
    /// Its model could not be reached, or did not answer.
    ModelUnreachable,
    /// Its model turned it away.
    AuthenticationFailed,
    /// It was asked to stop, and did.
    Cancelled,
    /// It was ended from outside.
    Killed,
    /// It is gone without a word about how.
    Lost,
}

impl AgentOutcome {
    /// True when the agent came to the end of its work.
    #[must_use]
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Completed | Self::CompletedWithDenials)
    }
}

impl fmt::Display for AgentOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Completed => "completed",
            Self::CompletedWithDenials => "completed, with denials",
            Self::AgentError => "gave up with an error",
            Self::ModelUnreachable => "could not reach its model",
            Self::AuthenticationFailed => "was turned away by its model's provider",
            Self::Cancelled => "was cancelled",
            Self::Killed => "was killed",
            Self::Lost => "is gone without saying how it ended",
        })
    }
}
