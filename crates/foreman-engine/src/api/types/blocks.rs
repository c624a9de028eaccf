//! What is held, and decisions about it.

use foreman_domain::{Amendment, AmendmentId, At, Block, BlockId, Scope, Surface};
use foreman_policy::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Which blocks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct BlockList {
    /// Only of this run.
    pub run: Option<String>,
    /// Also those that ask nothing any more: decided or gone.
    pub all: bool,
}

/// Blocks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Blocks {
    /// Oldest first.
    pub blocks: Vec<BlockView>,
}

/// Names a block: an id, or `b1` when only one run has it open.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct BlockRef {
    /// As typed.
    pub block: String,
}

/// A block as a card shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct BlockView {
    /// The block.
    #[serde(flatten)]
    pub block: Block,
    /// True while it asks the operator something, which is what an inbox shows: it is open; or it is a
    /// bound beyond which more is refused to a run that goes on, and nobody has answered for later runs.
    #[serde(default)]
    pub asks: bool,
    /// Title of its run.
    pub title: String,
    /// Token of what is shown here; `block.amend` and `block.deny` require it.
    pub expect: String,
    /// Rules that would unblock it, narrowest first.
    pub candidates: Vec<Candidate>,
    /// Who decided and when, in words, when it is decided.
    pub decided: Option<String>,
    /// What an operator must know before anything is opened for a run that has secrets, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_notice: Option<String>,
    /// When the agent of its run gives up what waits here, and what it does then, as a sentence; absent where it
    /// waits for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gives_up: Option<String>,
    /// That the agent of its run tries this host by itself, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_itself: Option<String>,
}

/// A rule that would unblock a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Candidate {
    /// Its number on the card, from 1.
    pub number: u32,
    /// What it opens and for how long, in words: "Let this run connect to a.example:443 until it ends".
    pub words: String,
    /// How far it reaches.
    pub scope: Scope,
    /// The rule it would make.
    pub rule: Rule,
    /// Past refused or held actions of this run that it would also have allowed.
    pub also_opens: u32,
    /// True for wildcards, bare addresses, wide folders and whole-project scope.
    pub needs_confirmation: bool,
    /// What it opens beside what is held, in words.
    #[serde(default)]
    pub opens: Vec<String>,
}

/// Let it go on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AmendRequest {
    /// As typed.
    pub block: String,
    /// From [`BlockView::expect`].
    pub expect: String,
    /// Scope; the narrowest that lasts (`run`) when absent.
    pub scope: Option<Scope>,
    /// Number of a candidate; the first of the scope when absent.
    pub rule: Option<u32>,
    /// The second confirmation, for candidates that need one.
    pub confirmed: bool,
    /// When the rule ends by itself; with its scope when absent.
    #[serde(default)]
    pub expires: Option<At>,
    /// For a bound: another limit than the candidate's, as `--bounds` takes it ("6GiB").
    #[serde(default)]
    pub limit: Option<String>,
    /// Where the operator decides it.
    #[serde(default)]
    pub surface: Option<Surface>,
}

/// Refuse it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DenyRequest {
    /// As typed.
    pub block: String,
    /// From [`BlockView::expect`].
    pub expect: String,
    /// What the agent is told; may be empty.
    pub reason: String,
    /// Where the operator decides it.
    #[serde(default)]
    pub surface: Option<Surface>,
}

/// Take the newest decision back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct UndoRequest {
    /// This one; the newest of all runs when absent.
    pub amendment: Option<AmendmentId>,
}

/// Names a recorded decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RevokeRequest {
    /// Its id.
    pub amendment: AmendmentId,
}

/// Which decisions.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AmendmentList {
    /// Also those that are not in force any more.
    #[serde(default)]
    pub all: bool,
}

/// Recorded decisions of all runs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Amendments {
    /// Newest first, at most 1,000.
    pub amendments: Vec<AmendmentView>,
}

/// A recorded decision, and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AmendmentView {
    /// The record.
    #[serde(flatten)]
    pub amendment: Amendment,
    /// Title of the run that it was made in. Untrusted text.
    pub run_title: String,
    /// The repository.
    pub repo: PathBuf,
    /// Connections that its rule let through.
    pub hits: u64,
    /// When the last of them was made.
    pub last_hit_at: Option<At>,
    /// True when the repository's policy file has it, too.
    pub project_written: bool,
}

/// What a decision did.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Decided {
    /// The record.
    pub amendment: Amendment,
    /// The block afterwards, where there is one.
    pub block: Option<BlockId>,
    /// Whether the shim has it in force; false when the run is over.
    pub in_force: bool,
    /// Holds let go.
    pub released: u32,
    /// Holds refused.
    pub refused: u32,
    /// Connections cut.
    pub cut: u32,
    /// Set when the agent had given up by then what was let go: what that means, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<String>,
}
