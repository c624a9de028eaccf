//! Questions of an agent: whether it may do something, by its own rules.

use crate::PermissionAnswer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest text of a question's arguments that a card holds, in bytes.
pub const QUESTION_ARGUMENTS: usize = 2_048;
/// Answers of one question that a card names.
pub const QUESTION_OPTIONS: usize = 8;

/// An answer that the agent offers for a question of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct QuestionOption {
    /// What it means.
    pub answer: PermissionAnswer,
    /// What the agent calls it, cut. Its own words, which promise nothing.
    pub words: String,
}

/// What is known of an agent's question beside its subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct QuestionFacts {
    /// The answers that it offers, at most [`QUESTION_OPTIONS`].
    pub options: Vec<QuestionOption>,
}

impl QuestionFacts {
    /// The agent's words for "and do not ask again", where it offers that.
    #[must_use]
    pub fn always(&self) -> Option<&str> {
        let mut options = self.options.iter();
        options
            .find(|option| option.answer == PermissionAnswer::AllowAlways)
            .map(|option| option.words.as_str())
    }
}
