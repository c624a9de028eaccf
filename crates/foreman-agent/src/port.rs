//! The port itself.

use crate::acp::Acp;
use crate::claude::Claude;
use crate::command::Command;
use crate::map::LineMap;
use foreman_domain::{AgentEvent, PermissionAnswer, QuestionOption, StepResult};
use serde::{Deserialize, Serialize};

/// How what stands for a secret begins, in whatever reaches a driver: values of secrets never do.
pub const SECRET_MARK: &str = "‹secret ";

/// What is said to one agent, and how it is understood. Part of a run's spec.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The agent's name, for messages.
    pub agent: String,
    /// How it speaks.
    pub wire: Wire,
    /// What it is asked to do.
    pub prompt: String,
    /// Its working directory, absolute.
    pub cwd: String,
    /// The session to go on with, by the agent's own name for it.
    #[serde(default)]
    pub resume: Option<String>,
    /// The mode of its session to be set, where the protocol has modes.
    #[serde(default)]
    pub mode: Option<String>,
    /// How long its model may make no progress before it counts as unreachable, in seconds; for as long as it
    /// takes when absent.
    #[serde(default)]
    pub patience: Option<u32>,
}

/// How an agent speaks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "wire", rename_all = "snake_case")]
pub enum Wire {
    /// It prints a JSON object a line and is told nothing after its start.
    Lines {
        /// What its lines mean.
        map: LineMap,
    },
    /// Agent Client Protocol, version 1, over standard input and output.
    Acp,
    /// The stream-json of Claude Code, both ways.
    Claude {
        /// What its lines mean, but for those that ask and the last one.
        map: LineMap,
    },
}

impl Wire {
    /// True when the agent's standard input is part of it; else it has none.
    #[must_use]
    pub fn speaks_both_ways(&self) -> bool {
        match self {
            Self::Lines { .. } => false,
            Self::Acp | Self::Claude { .. } => true,
        }
    }

    /// True when an agent that works can be told something: [`Driver::hears`], as far as it is known before.
    #[must_use]
    pub fn hears(&self) -> bool {
        match self {
            Self::Lines { .. } | Self::Claude { .. } => false,
            Self::Acp => true,
        }
    }
}

/// A line that the agent printed, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It had this many bytes, more than [`crate::LONGEST_LINE`], and is only in the journal.
    TooLong(u64),
}

/// What happens to a conversation, in order.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The agent was started; comes first.
    Begin,
    /// It printed a line.
    Line(Line<'a>),
    /// It has printed nothing for a moment: what was put together may be told.
    Pause,
    /// A question of its was answered.
    Answer {
        /// Which, as in [`Effect::Ask`].
        request: &'a str,
        /// The answer.
        answer: PermissionAnswer,
        /// What it is told besides, where its protocol has a place for it; may be empty.
        reason: &'a str,
    },
    /// Its model makes no progress: this is why it is about to be stopped, as a sentence without a final period.
    Stalled(&'a str),
    /// The operator says something to it. Only for a driver that [`Driver::hears`].
    Say {
        /// Who.
        by: &'a str,
        /// What.
        text: &'a str,
    },
    /// It is to stop what it does.
    Interrupt,
    /// It has ended; comes last.
    End(&'a StepResult),
}

/// What a driver wants done, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell the operator.
    Tell(AgentEvent),
    /// Write a line to the agent's standard input; the end of the line is not in it.
    Send(String),
    /// Close the agent's standard input.
    HangUp,
    /// Have somebody answer: [`Input::Answer`] with the same request. Told already.
    Ask {
        /// The agent's name for the question.
        request: String,
        /// The tool.
        tool: String,
        /// What it wants to do, as JSON text, cut.
        arguments: String,
        /// The answers that it offers.
        options: Vec<QuestionOption>,
    },
    /// A question needs no answer any more: it was taken back, or its agent is being stopped.
    Withdraw {
        /// Which, as in [`Effect::Ask`].
        request: String,
    },
}

/// Whether an agent can be told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hearing {
    /// What is said is given to it when its turn ends, and it does not come to its end before.
    Hears,
    /// So much waits already that nothing more is taken.
    Full,
    /// It has come to its end, or is to stop.
    Over,
    /// Its protocol has no way.
    Never,
}

/// Understands one agent. A fold: see the crate's documentation.
pub trait Driver: Send {
    /// Takes the next input; what is to be done comes behind what is in `out`.
    fn take(&mut self, input: Input<'_>, out: &mut Vec<Effect>);

    /// Whether [`Input::Say`] reaches the agent now. What was taken is told ([`AgentEvent::Told`]), told again when
    /// it was given ([`AgentEvent::Given`]), and named as lost where the agent ends before.
    fn hears(&self) -> Hearing {
        Hearing::Never
    }
}

/// The driver of a conversation.
#[must_use]
pub fn driver(conversation: &Conversation) -> Box<dyn Driver> {
    match &conversation.wire {
        Wire::Lines { map } => Box::new(Command::new(map.clone())),
        Wire::Acp => Box::new(Acp::new(conversation.clone())),
        Wire::Claude { map } => Box::new(Claude::new(map.clone(), conversation)),
    }
}
