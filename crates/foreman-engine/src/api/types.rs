//! Requests and answers of the command list.

use foreman_domain::{
    Amendment, AmendmentId, At, Block, BlockId, Event, EventSeq, OrderId, Outcome, RunId, RunState,
    Scope, Wall,
};
use foreman_policy::{Bounds, EgressRule, Layer, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An answer without content.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Nothing {}

/// What to run, and under which rules.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunCreate {
    /// Any path inside a repository or worktree.
    pub repo: PathBuf,
    /// Title; the command line when absent.
    pub title: Option<String>,
    /// Branch to start from and to merge into; the branch checked out at `repo` when absent.
    pub base: Option<String>,
    /// `host:port` items to allow from the start.
    pub allow: Vec<String>,
    /// Text and name of a policy file given with the order.
    pub policy: Option<PolicySource>,
    /// Bounds given on the command line.
    pub bounds: Bounds,
    /// Shell command that prepares the worktree.
    pub setup: Option<String>,
    /// Shell commands that check the result.
    pub checks: Vec<String>,
    /// Terminal size, when the agent is to get a terminal.
    pub terminal: Option<TerminalSize>,
    /// Refuse what no rule allows at once, instead of holding it.
    pub unattended: bool,
    /// Walls that may be missing, by name.
    pub accept_weaker: Vec<Wall>,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables of the caller that the agent shall see beside the allow-list.
    pub env: Vec<(String, String)>,
    /// The caller's proxy variables (`https_proxy`, `all_proxy`, `no_proxy`), lower-cased names.
    pub proxy: Vec<(String, String)>,
}

/// A policy file's text and the name to use in messages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PolicySource {
    /// For messages.
    pub name: String,
    /// The TOML text.
    pub text: String,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalSize {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// Names a run: an id, an unambiguous beginning of one, or `last`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunRef {
    /// As typed.
    pub run: String,
}

/// One run, as shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RunView {
    /// Its id.
    pub id: RunId,
    /// Its order.
    pub order: OrderId,
    /// Its title.
    pub title: String,
    /// Where it stands.
    #[serde(flatten)]
    pub state: RunState,
    /// The repository's main worktree or, for a bare-less checkout, its root.
    pub repo: PathBuf,
    /// The run's branch.
    pub branch: String,
    /// The branch it starts from and merges into.
    pub base_branch: String,
    /// The commit it started from. Not `base` on the wire: the state `review` has a field of that name.
    #[serde(rename = "base_commit")]
    pub base: String,
    /// Its worktree.
    pub worktree: PathBuf,
    /// Isolation tier in words.
    pub tier: String,
    /// Open blocks.
    pub open_blocks: u32,
    /// When it was created.
    pub created_at: At,
    /// When it ended.
    pub ended_at: Option<At>,
    /// The newest event known to the engine.
    pub last_seq: EventSeq,
    /// How it ended, kept also after a merge or discard.
    pub outcome: Option<Outcome>,
    /// Results of its checks, in words, one a line; empty when there were none.
    pub checks: Vec<String>,
    /// How many of them did not pass: failed, or not run.
    #[serde(default)]
    pub failed_checks: u32,
    /// True when something was refused while nobody attended.
    pub denied_unattended: bool,
}

/// Which runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RunList {
    /// At most this many; 50 when absent.
    pub limit: Option<u32>,
}

/// Runs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Runs {
    /// Newest first.
    pub runs: Vec<RunView>,
}

/// Which events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventsRequest {
    /// As typed.
    pub run: String,
    /// The last event the caller has; 0 for none.
    pub after: EventSeq,
    /// At most this many; capped at 512.
    pub limit: u32,
    /// Longest wait for news in milliseconds; capped at 30,000.
    pub wait_ms: u32,
    /// Only these kinds (tags); all when empty.
    pub kinds: Vec<String>,
}

/// A page of events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EventPage {
    /// In order. Without a kind filter also without holes.
    pub events: Vec<Event>,
    /// Cursor for the next page, also when `events` is empty.
    pub cursor: EventSeq,
    /// True when the run is over and no event will follow.
    pub ended: bool,
}

/// A diff and what a merge of it must name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffView {
    /// Token of head, base and policy revision; `run.merge` requires it.
    pub expect: String,
    /// Tip of the run.
    pub head: String,
    /// Where the base branch stands now.
    pub base: String,
    /// Files with added and removed lines.
    pub files: Vec<DiffFile>,
    /// The unified diff. Untrusted text.
    pub patch: String,
    /// True when `patch` was cut for its size.
    pub truncated: bool,
    /// What a reviewer must see first: planted hooks, editor and tool settings, nested repositories.
    pub flags: Vec<String>,
    /// Why a merge would be refused now; absent when it would go through.
    pub refusal: Option<String>,
}

/// One file of a diff.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiffFile {
    /// Path in the repository. Untrusted text.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `mode`.
    pub change: String,
    /// Lines added; absent for binary files.
    pub added: Option<u32>,
    /// Lines removed; absent for binary files.
    pub removed: Option<u32>,
}

/// Merge what was reviewed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MergeRequest {
    /// As typed.
    pub run: String,
    /// From [`DiffView::expect`].
    pub expect: String,
}

/// Bytes for a terminal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InputRequest {
    /// As typed.
    pub run: String,
    /// The bytes, in base64.
    pub bytes: String,
}

/// A terminal's new size.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResizeRequest {
    /// As typed.
    pub run: String,
    /// The size.
    pub size: TerminalSize,
}

/// Which blocks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct BlockList {
    /// Only of this run.
    pub run: Option<String>,
    /// Also those already decided or gone.
    pub all: bool,
}

/// Blocks.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Blocks {
    /// Oldest first.
    pub blocks: Vec<BlockView>,
}

/// Names a block: an id, or `b1` when only one run has it open.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlockRef {
    /// As typed.
    pub block: String,
}

/// A block as a card shows it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct BlockView {
    /// The block.
    #[serde(flatten)]
    pub block: Block,
    /// Title of its run.
    pub title: String,
    /// Token of what is shown here; `block.amend` and `block.deny` require it.
    pub expect: String,
    /// Rules that would unblock it, narrowest first.
    pub candidates: Vec<Candidate>,
    /// Who decided and when, in words, when it is decided.
    pub decided: Option<String>,
}

/// A rule that would unblock a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its number on the card, from 1.
    pub number: u32,
    /// What it opens and for how long, in words: "Let this run connect to a.example:443 until it ends".
    pub words: String,
    /// How far it reaches.
    pub scope: Scope,
    /// The rule it would make.
    pub rule: EgressRule,
    /// Past refused or held actions of this run that it would also have allowed.
    pub also_opens: u32,
    /// True for wildcards, bare addresses and whole-project scope.
    pub needs_confirmation: bool,
}

/// Let it go on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
}

/// Refuse it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DenyRequest {
    /// As typed.
    pub block: String,
    /// From [`BlockView::expect`].
    pub expect: String,
    /// What the agent is told; may be empty.
    pub reason: String,
}

/// Take the newest decision back.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct UndoRequest {
    /// This one; the newest of all runs when absent.
    pub amendment: Option<AmendmentId>,
}

/// Names a recorded decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RevokeRequest {
    /// Its id.
    pub amendment: AmendmentId,
}

/// What a decision did.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
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
}

/// Whose policy: a run, or a repository.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PolicyQuery {
    /// A run, as typed.
    pub run: Option<String>,
    /// Any path inside a repository.
    pub repo: Option<PathBuf>,
}

/// A policy in force.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PolicyView {
    /// Its rules.
    pub policy: Policy,
    /// Bounds in force.
    pub bounds: Bounds,
    /// Recorded decisions behind it, newest first.
    pub amendments: Vec<Amendment>,
    /// State of the repository's policy file: `absent`, `trusted`, `untrusted`, `changed`.
    pub project_file: String,
}

/// A destination to explain.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PolicyWhy {
    /// Whose policy.
    #[serde(flatten)]
    pub of: PolicyQuery,
    /// `host:port`, optionally behind `tcp ` or `udp `.
    pub destination: String,
}

/// Which rule decides, or that none matches.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// `allowed`, `held`, `refused`.
    pub verdict: String,
    /// The layer that decided; absent when no rule matches.
    pub layer: Option<Layer>,
    /// The rule that decided; absent when no rule matches.
    pub rule: Option<String>,
    /// The same in words.
    pub words: String,
}

/// Trust a repository's policy file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TrustRequest {
    /// Any path inside the repository.
    pub repo: PathBuf,
    /// Hash of the content that was shown; absent to only show it.
    pub expect: Option<String>,
}

/// A repository's policy file.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TrustView {
    /// The file.
    pub file: PathBuf,
    /// Its text, as found now.
    pub text: String,
    /// Hash of the text, to trust it.
    pub expect: String,
    /// Whether exactly this text is trusted.
    pub trusted: bool,
}

/// What to look at.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DoctorRequest {}

/// What holds here.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// `full`, `reduced`, `none`.
    pub tier: String,
    /// The tier by what it stops, in words.
    pub words: String,
    /// Every wall.
    pub walls: Vec<WallReport>,
    /// Bounds that are enforced here, in words.
    pub bounds: Vec<String>,
    /// What is stored where, live runs, and what does not add up.
    pub notes: Vec<String>,
}

/// One wall.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WallReport {
    /// Which.
    pub wall: Wall,
    /// Whether a live probe saw it hold.
    pub holds: bool,
    /// Whether a run refuses to start without it.
    pub required: bool,
    /// What was tried and seen; the failing step when it does not hold.
    pub detail: String,
    /// What to do when it does not hold.
    pub remedy: Option<String>,
}
