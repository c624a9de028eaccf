//! What changed, as hints: which run, order or block to look at again.

use foreman_domain::{BlockId, EventSeq, OrderId, RunId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// From where on.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct WatchRequest {
    /// The cursor of the last answer, or of the list that is shown; absent to begin.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Longest wait for the first change in milliseconds; capped at 30,000.
    #[serde(default)]
    pub wait_ms: u32,
}

/// What changed between two cursors, at most twenty answers a second. Everything is named once,
/// however often it changed; nothing that changed in between is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Hints {
    /// The cursor that was asked with. Another one than that of the answer before means a hole.
    pub from: Option<String>,
    /// The cursor to ask on with.
    pub to: String,
    /// True when it is not known what changed before `to`: the cursor was too old or of another
    /// engine. Lists have to be read anew, and nothing else is in this answer.
    pub resync: bool,
    /// Runs that changed, in the order of their newest change.
    pub runs: Vec<RunHint>,
    /// Orders that changed.
    pub orders: Vec<OrderId>,
    /// Blocks that changed.
    pub blocks: Vec<BlockId>,
}

/// A run that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RunHint {
    /// Which.
    pub run: RunId,
    /// Its newest event now.
    pub last_seq: EventSeq,
    /// The tag of its state now.
    pub state: String,
}
