//! Runs: made, listed, shown, followed, steered.

use super::{BaseView, Preparation};
use foreman_domain::{
    At, Event, EventSeq, OrderId, Outcome, Revision, RunId, RunState, Spent, Tier, Wall,
};
use foreman_policy::{Bounds, KeyUse, SecretUse, Toolchain};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An answer without content.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Nothing {}

/// What to run, and under which rules.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
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
    /// Hold what is hidden also when it is to be read, not only when it is to be written.
    #[serde(default)]
    pub hold_reads: bool,
    /// Walls that may be missing, by name.
    pub accept_weaker: Vec<Wall>,
    /// Run it without any cage. Never for a run that nobody attends.
    #[serde(default)]
    pub unconfined: bool,
    /// Program and arguments; empty where `agent` says what to run.
    pub argv: Vec<String>,
    /// An agent that has a driver, instead of a program and arguments.
    #[serde(default)]
    pub agent: Option<AgentChoice>,
    /// Variables of the caller that the agent shall see beside the allow-list.
    pub env: Vec<(String, String)>,
    /// The caller's proxy variables (`https_proxy`, `all_proxy`, `no_proxy`), lower-cased names.
    pub proxy: Vec<(String, String)>,
    /// How the worktree is made ready.
    #[serde(default)]
    pub prepare: Preparation,
    /// Toolchains to show; those that the policy names or the repository tells of when absent.
    #[serde(default)]
    pub toolchains: Option<Vec<Toolchain>>,
    /// Secrets to hand to it, by name.
    #[serde(default)]
    pub secrets: Vec<SecretUse>,
}

impl RunCreate {
    /// A run of this command, with nothing else said.
    #[must_use]
    pub fn new(repo: PathBuf, argv: Vec<String>) -> Self {
        Self {
            repo,
            title: None,
            base: None,
            allow: Vec::new(),
            policy: None,
            bounds: Bounds::default(),
            setup: None,
            checks: Vec::new(),
            terminal: None,
            unattended: false,
            hold_reads: false,
            accept_weaker: Vec::new(),
            unconfined: false,
            argv,
            agent: None,
            env: Vec::new(),
            proxy: Vec::new(),
            prepare: Preparation::default(),
            toolchains: None,
            secrets: Vec::new(),
        }
    }
}

/// An agent that is known by name, and what it is to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AgentChoice {
    /// Its name: `pi`, `codex`, `opencode`, `gemini`, `qwen`.
    pub name: String,
    /// What it is to do.
    pub prompt: String,
    /// The model, in the agent's own words; the one of its settings when absent.
    #[serde(default)]
    pub model: Option<String>,
    /// Copies the operator's login and settings of this agent into the run's own home.
    #[serde(default)]
    pub lend_login: bool,
    /// Writes back, when the run has ended, the tokens of it that the agent renewed.
    #[serde(default)]
    pub refresh_login: bool,
    /// A secret that is added, outside of the cage, to what the agent asks of its model.
    #[serde(default)]
    pub key: Option<KeyUse>,
}

/// A policy file's text and the name to use in messages.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PolicySource {
    /// For messages.
    pub name: String,
    /// The TOML text.
    pub text: String,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct TerminalSize {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// Names a run: an id, an unambiguous beginning of one, or `last`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RunRef {
    /// As typed.
    pub run: String,
}

/// One run, as shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
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
    /// How fresh that commit is; absent while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freshness: Option<BaseView>,
    /// Its worktree.
    pub worktree: PathBuf,
    /// Isolation tier in words.
    pub tier: String,
    /// The tier itself.
    #[serde(default)]
    pub confinement: Tier,
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
    /// Processes that were killed when its cage was torn down; absent while that is not known. A run
    /// is only said to have ended when no process of it is left.
    #[serde(default)]
    pub killed: Option<u32>,
    /// False while nothing is where its repository was: the run is kept as it is until it is back.
    #[serde(default = "yes")]
    pub repo_reachable: bool,
    /// Files that it changed outside of the scope that its order declares. Untrusted text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside_scope: Vec<String>,
    /// When its newest event happened.
    #[serde(default)]
    pub last_event_at: Option<At>,
    /// Subjects that were held or refused and stay so.
    #[serde(default)]
    pub subjects_blocked: u32,
    /// Subjects that were held and let go by a decision.
    #[serde(default)]
    pub subjects_allowed: u32,
    /// How much it changed, as counted when its commits were collected or moved last; absent before.
    #[serde(default)]
    pub changes: Option<ChangeCounts>,
    /// Commits that its base branch has and it does not build on, as far as that was looked at last;
    /// absent unless it waits for a review.
    #[serde(default)]
    pub behind: Option<u32>,
    /// Number of its policy.
    #[serde(default)]
    pub revision: Revision,
    /// Name of its repository: that of its folder.
    #[serde(default)]
    pub repo_name: String,
    /// Who keeps its bounds, in words: only where one run is shown, and only once it has a cage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds_kept: Option<String>,
    /// What its agent says that it has used; absent where nothing is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

/// How much a run changed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
pub struct ChangeCounts {
    /// Files.
    pub files: u32,
    /// Lines added; those of binary files are not counted.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

fn yes() -> bool {
    true
}

/// Which runs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RunList {
    /// At most this many; 50 when absent.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Only those that were started before this run, as typed.
    #[serde(default)]
    pub before: Option<String>,
    /// Only those that are not over, however old they are: at work, in a merge, or waiting for a review.
    /// Not together with `before`.
    #[serde(default)]
    pub open: bool,
}

/// Runs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Runs {
    /// Newest first.
    pub runs: Vec<RunView>,
    /// How many older ones there are.
    #[serde(default)]
    pub older: u64,
    /// For `watch`: nothing that changed after these were read is missing from there on.
    #[serde(default)]
    pub cursor: String,
}

/// Which events.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
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
    /// Backwards instead: the newest events before this one, still in ascending order. `after` and
    /// `wait_ms` do not count then.
    #[serde(default)]
    pub before: Option<EventSeq>,
    /// Only those that this lets through, as well.
    #[serde(default)]
    pub filter: EventFilter,
}

/// Which events are let through: those that every list allows. An empty list allows all.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default)]
pub struct EventFilter {
    /// Kinds (tags).
    pub kinds: Vec<String>,
    /// Names of steps.
    pub steps: Vec<String>,
    /// Severities.
    pub severities: Vec<Severity>,
    /// The process, by its number in the cage.
    pub process: Option<u32>,
    /// The host that an action addressed, or a part of its name.
    pub host: Option<String>,
}

/// How much an event asks for attention.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something failed, was refused, or does not hold.
    Error,
    /// Something that the operator should know.
    Warning,
    /// Something waits for the operator, or was decided.
    Decision,
    /// What else happened.
    Info,
    /// What a program wrote.
    Output,
}

/// A page of events.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct EventPage {
    /// In order. Without a kind filter also without holes.
    pub events: Vec<Event>,
    /// Cursor for the next page, also when `events` is empty. Backwards: `before` of the next page, and
    /// everything from it on was looked at.
    pub cursor: EventSeq,
    /// The first event of the page, or absent when there is none.
    #[serde(default)]
    pub first: Option<EventSeq>,
    /// True when there are events before the page that were not looked at.
    #[serde(default)]
    pub has_older: bool,
    /// True when the run is over and no event will follow.
    pub ended: bool,
}

/// Bytes for a terminal.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct InputRequest {
    /// As typed.
    pub run: String,
    /// The bytes, in base64.
    pub bytes: String,
}

/// A terminal's new size.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ResizeRequest {
    /// As typed.
    pub run: String,
    /// The size.
    pub size: TerminalSize,
}
