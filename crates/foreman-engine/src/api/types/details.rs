//! One run in full: how it was asked for, what its walls and steps did, and what it uses now.

use super::{MergeEntry, OrderView, RunView, TerminalSize, ToolchainView};
use foreman_domain::{At, RunId, RunState, StepKind, StepResult, Wall};
use foreman_policy::{Bounds, SecretUse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything about a run that its row in a list does not say.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RunDetailsView {
    /// The run.
    pub run: RunId,
    /// Program and arguments, as started or to be started. Untrusted text.
    pub argv: Vec<String>,
    /// The agent, where it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether something can be said to it.
    pub talks: Talks,
    /// What the agent is to do, where that was said apart from its arguments. Untrusted text.
    pub prompt: Option<String>,
    /// Bounds in force.
    pub bounds: Bounds,
    /// Who keeps them, in words; absent before it has a cage.
    #[serde(default)]
    pub bounds_kept: Option<String>,
    /// The shell command that prepares its worktree.
    pub setup: Option<String>,
    /// Shell commands that check its result.
    pub checks: Vec<String>,
    /// `host:port` items that were allowed from the start; absent when that is not kept any more.
    pub allow: Option<Vec<String>>,
    /// Walls that may be missing.
    pub accept_weaker: Vec<Wall>,
    /// True when what no rule allows is refused at once.
    pub unattended: bool,
    /// Size of its terminal when it was started; absent without one.
    pub terminal: Option<TerminalSize>,
    /// Names of the variables that were given to it beside the usual ones. Never their values.
    pub env_names: Vec<String>,
    /// Secrets that it was handed, by name, and in which variable. Never their values.
    #[serde(default)]
    pub secrets: Vec<SecretUse>,
    /// What that means, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets_notice: Option<String>,
    /// Toolchains of the operator's that it sees.
    #[serde(default)]
    pub toolchains: Vec<ToolchainView>,
    /// What the probes of its newest start saw.
    pub walls: Vec<ProbedWall>,
    /// Its steps, in the order in which they started.
    pub steps: Vec<StepView>,
    /// The ref that keeps what a discarded run had.
    pub snapshot: Option<String>,
    /// Where its things are.
    pub paths: RunPaths,
    /// Its order; absent for a run that was started by hand.
    pub order: Option<OrderView>,
    /// All runs of its order, oldest first, this one included.
    pub attempts: Vec<SiblingRun>,
    /// The run whose reviewed commits this one started from.
    pub follows: Option<RunId>,
    /// The newest run that started from the reviewed commits of this one.
    pub followed_by: Option<RunId>,
    /// Its newest entry in the merge queue.
    pub merge: Option<MergeEntry>,
}

/// A wall, as the probe from inside the cage found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ProbedWall {
    /// Which.
    pub wall: Wall,
    /// Whether it held.
    pub holds: bool,
    /// What was tried and seen.
    pub detail: String,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub what: StepKind,
    /// Its argument vector; empty for the steps that are our own. Untrusted text.
    pub argv: Vec<String>,
    /// When it started; absent when that event is not kept any more.
    pub started_at: Option<At>,
    /// How it ended.
    pub ended: Option<StepResult>,
    /// How long it ran, in milliseconds.
    pub millis: Option<u64>,
}

/// Where a run's things are on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RunPaths {
    /// The data directory.
    pub data: PathBuf,
    /// Its worktree.
    pub worktree: PathBuf,
    /// The git directory that it works on.
    pub shadow: PathBuf,
    /// Its journal.
    pub journal: PathBuf,
}

/// A run of the same order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SiblingRun {
    /// Which.
    pub run: RunId,
    /// Where it stands.
    #[serde(flatten)]
    pub state: RunState,
    /// When it was created.
    pub created_at: At,
}

/// What a run uses is asked for. It is measured only while somebody asks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SamplesRequest {
    /// As typed.
    pub run: String,
    /// Only what was measured after this; all that is kept when absent.
    #[serde(default)]
    pub after: Option<At>,
    /// Longest wait for a newer one in milliseconds; capped at 30,000.
    #[serde(default)]
    pub wait_ms: u32,
}

/// What a run used, lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Samples {
    /// Oldest first; at most the last 300. Empty for a run that is not live.
    pub samples: Vec<Sample>,
    /// Bounds in force.
    pub bounds: Bounds,
    /// What is left of the wall time bound, in milliseconds; absent without one, or when it is not live.
    pub wall_left_ms: Option<u64>,
}

/// What a run used at one moment. What is absent was not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Sample {
    /// When.
    pub at: At,
    /// Processor time since the sample before, in thousandths of one processor.
    pub cpu_millicores: Option<u32>,
    /// Memory of its processes and of its files in memory.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// What its worktree takes on the disk.
    pub disk_bytes: Option<u64>,
}

/// Says something to the agent of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Say {
    /// The run, as typed.
    pub run: String,
    /// What. At most 16 KiB to an agent that works, 120 KiB to one that goes on.
    pub message: String,
    /// Where a run is gone on from: have the agent start a new session instead of going on with its own.
    #[serde(default)]
    pub afresh: bool,
}

/// What became of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Said {
    /// The run whose agent has it: the one that was named, or the one that goes on from it.
    pub run: RunView,
    /// How it has it.
    pub how: SaidHow,
}

/// How an agent has what was said to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum SaidHow {
    /// It works, and is given it when its turn ends.
    Waits,
    /// It goes on with its own session, in a new run.
    Resumes,
    /// It starts afresh, in a new run, and knows nothing of what was said before.
    Afresh,
}

/// Whether something can be said to the agent of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum Talks {
    /// Now, while it works.
    Now,
    /// Once the run is in review.
    Later,
    /// A new run goes on from this one with it.
    GoesOn,
    /// No.
    No,
}

/// Sends the comments of a review back: a new attempt that starts from what was reviewed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct FollowUp {
    /// The reviewed run, as typed.
    pub run: String,
    /// What is to be done about it: the prompt of the new attempt.
    pub message: String,
}
