//! What the JSON lines of an agent mean, as data: rules that match on values and say what to take from where.
//!
//! A path is keys and indices with dots between, from the message on; `each.` begins at the item of the list that a
//! rule goes through. Nothing is parsed but JSON: a rule compares whole values and takes whole values.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What the lines of one agent mean. Every rule that matches a line counts, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineMap {
    /// Path of what a message calls itself.
    pub name: String,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Values that have to be there, by path.
    pub when: BTreeMap<String, Value>,
    /// Path of a list: the rule is tried with each of its items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<String>,
    /// What it means.
    #[serde(flatten)]
    pub emit: Emit,
}

/// What a line means. Each text is a path, but for `why`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "emit", rename_all = "snake_case")]
pub enum Emit {
    /// Known, and nothing to tell.
    Nothing,
    /// A session began.
    Session {
        /// Its name.
        session: String,
        /// The model.
        #[serde(default)]
        model: Option<String>,
    },
    /// Text for the operator, whole or the next piece.
    Message {
        /// The text.
        text: String,
        /// True for a piece, which others may follow.
        #[serde(default)]
        delta: bool,
    },
    /// The model's reasoning, likewise.
    Thought {
        /// The text.
        text: String,
        /// True for a piece.
        #[serde(default)]
        delta: bool,
    },
    /// A tool is called.
    ToolStarted {
        /// The call.
        call: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: String,
    },
    /// A call ended.
    ToolEnded {
        /// The call.
        call: String,
        /// The tool.
        #[serde(default)]
        tool: Option<String>,
        /// What it gave.
        result: String,
        /// Whether the agent calls it a failure.
        #[serde(default)]
        failed: bool,
        /// Path of a boolean that says it, where there is one.
        #[serde(default)]
        failed_at: Option<String>,
    },
    /// A file was changed.
    Edit {
        /// The call.
        call: String,
        /// The file.
        file: String,
    },
    /// Tokens and cost.
    Usage {
        /// True for sums since the beginning.
        #[serde(default)]
        total: bool,
        /// Tokens read.
        input: String,
        /// Tokens written.
        output: String,
        /// Tokens from a cache.
        #[serde(default)]
        cached: Option<String>,
        /// Dollars.
        #[serde(default)]
        cost: Option<String>,
        /// True when `input` counts those from the cache, too.
        #[serde(default)]
        input_has_cached: bool,
    },
    /// The model is tried again.
    Retry {
        /// Which try.
        #[serde(default)]
        attempt: Option<String>,
        /// Why.
        text: String,
    },
    /// Something went wrong, and the agent goes on.
    Problem {
        /// What.
        text: String,
    },
    /// A call of the model failed for good; the outcome, unless one works later.
    ModelFailed {
        /// What it said.
        text: String,
        /// The HTTP status: a number, or text that begins with one.
        #[serde(default)]
        status: Option<String>,
        /// When the provider lets it go on: a time.
        #[serde(default)]
        resets_at: Option<String>,
        /// In how many seconds it does.
        #[serde(default)]
        retry_after: Option<String>,
    },
    /// The agent gave up, for a reason of its own.
    GaveUp {
        /// Why.
        text: String,
    },
    /// It works: what failed before is got over.
    Works,
    /// It was denied something by its own rules.
    Denied,
    /// It came to its end.
    Ended,
}
