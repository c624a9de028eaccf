//! Several attempts side by side.

use foreman_domain::{OrderId, OrderState, RunId, RunState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to compare.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type,
)]
pub struct CompareRequest {
    /// The name of a group of orders, or runs as typed.
    pub of: Vec<String>,
}

/// Attempts side by side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Comparison {
    /// The group's name, when they are one.
    pub group: Option<String>,
    /// Each attempt, in the order in which they were handed in or typed.
    pub attempts: Vec<Attempt>,
    /// Each two of them that have changes in the same repository.
    pub pairs: Vec<AttemptPair>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Attempt {
    /// Its order.
    pub order: OrderId,
    /// Where its order stands; absent for a run that was started by hand.
    pub order_state: Option<OrderState>,
    /// Its run; absent while it has none.
    pub run: Option<AttemptRun>,
}

/// The run of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AttemptRun {
    /// Its id.
    pub id: RunId,
    /// Its title. Untrusted text.
    pub title: String,
    /// Where it stands.
    pub state: RunState,
    /// What it changed; absent when there is nothing to show.
    pub changes: Option<AttemptChanges>,
    /// Why what it changed cannot be shown.
    pub no_changes: Option<String>,
    /// Its checks and how they ended, as sentences.
    pub checks: Vec<String>,
    /// How many checks did not pass.
    pub failed_checks: u32,
    /// Subjects that were held or refused.
    pub blocks: u32,
    /// Those that still wait.
    pub open_blocks: u32,
    /// Decisions that were made about it.
    pub amendments: u32,
    /// How long it ran, in milliseconds; until now when it is not over.
    pub millis: u64,
}

/// What an attempt changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AttemptChanges {
    /// Its tip.
    pub head: String,
    /// Lines added in all.
    pub added: u64,
    /// Lines removed in all.
    pub removed: u64,
    /// Paths that it changed. Untrusted text.
    pub files: Vec<String>,
    /// What a reviewer must see first.
    pub flags: Vec<String>,
    /// Why a merge would be refused now; absent when it would go through.
    pub refusal: Option<String>,
}

/// Two attempts against each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AttemptPair {
    /// One.
    pub left: RunId,
    /// The other.
    pub right: RunId,
    /// Files that either changed and that differ. Untrusted text.
    pub differ: Vec<String>,
    /// How many of the files that either changed are alike in both.
    pub alike: u32,
}

/// The other attempts at what a run attempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OtherAttempts {
    /// The group's name; absent when the run is no part of one.
    pub group: Option<String>,
    /// Runs of the others that are not at their end: they stay as they are.
    pub left: Vec<RunId>,
}
