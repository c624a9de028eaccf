//! Orders: handed in, listed, edited, cancelled, dispatched by hand; the queue's pauses and limits.

use crate::api::{RunCreate, RunView};
use foreman_domain::{At, OrderId, OrderState, RunId};
use foreman_schedule::{Hints, Limits, OrderFault, ScopeClaim, WaitReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What is ordered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderSpec {
    /// What to run, and under which rules. An order's agent has no terminal, and its proxy variables
    /// are those of the engine that dispatches it.
    pub run: RunCreate,
    /// Variables that are taken from the environment of the engine when the order is dispatched.
    #[serde(default)]
    pub env_from: Vec<String>,
    /// What the agent is to do. Takes the place of `{prompt}` in its arguments, or is its last
    /// argument where none has that; also in its variable `FOREMAN_PROMPT`.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Its place in the queue.
    #[serde(default)]
    pub hints: Hints,
    /// The paths that it means to change.
    #[serde(default)]
    pub scope: Option<ScopeClaim>,
    /// Orders, or groups of orders, that must be done before it.
    #[serde(default)]
    pub depends_on: Vec<OrderId>,
    /// The order that it is a part of. One that has parts never runs itself.
    #[serde(default)]
    pub parent: Option<OrderId>,
    /// What its result waits for.
    #[serde(default)]
    pub gate: OrderGate,
    /// What it says it needs of the budgets, in seconds of wall time; its wall bound when absent.
    #[serde(default)]
    pub estimate_wall_seconds: Option<u64>,
}

/// What the result of an order waits for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum OrderGate {
    /// A review by the operator.
    #[default]
    Review,
    /// Its checks: it is merged by itself when all of them pass and nothing speaks against it.
    Checks,
}

/// One order, or several attempts at it side by side.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderDraft {
    /// Its id; made when absent. Of several attempts it is the group's name.
    #[serde(default)]
    pub id: Option<String>,
    /// What is ordered.
    pub spec: OrderSpec,
    /// How many attempts; 1 when absent.
    #[serde(default)]
    pub attempts: Option<u32>,
    /// Different agents, an attempt each; the spec's own arguments when there are none.
    #[serde(default)]
    pub agents: Vec<AgentDraft>,
}

/// One agent of several.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AgentDraft {
    /// Its name, unique within the order: part of the attempt's id.
    pub name: String,
    /// Program and arguments.
    pub argv: Vec<String>,
}

/// A file of orders.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderSource {
    /// Its name, for messages; the ending (`.toml`, `.md`) says what it is.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Where relative paths in it start.
    pub folder: PathBuf,
    /// The repository of orders that name none.
    #[serde(default)]
    pub repo: Option<PathBuf>,
}

/// Orders to hand in: all of them are, or none is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderAdd {
    /// One, by its fields.
    #[serde(default)]
    pub draft: Option<OrderDraft>,
    /// Those of a file.
    #[serde(default)]
    pub source: Option<OrderSource>,
}

/// Names an order: its id, or an unambiguous beginning of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderRef {
    /// As typed.
    pub order: String,
}

/// Changes to an order that has not started. What is absent stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderChanges {
    /// As typed.
    pub order: String,
    /// Its title.
    #[serde(default)]
    pub title: Option<String>,
    /// Any path in its repository.
    #[serde(default)]
    pub repo: Option<PathBuf>,
    /// The branch to start from and to merge into.
    #[serde(default)]
    pub base: Option<String>,
    /// Program and arguments.
    #[serde(default)]
    pub argv: Option<Vec<String>>,
    /// What the agent is to do.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Its place in the queue, whole.
    #[serde(default)]
    pub hints: Option<Hints>,
    /// The paths that it means to change; no patterns for no claim.
    #[serde(default)]
    pub scope: Option<ScopeClaim>,
    /// What must be done before it, whole.
    #[serde(default)]
    pub depends_on: Option<Vec<OrderId>>,
    /// What its result waits for.
    #[serde(default)]
    pub gate: Option<OrderGate>,
}

/// Which orders.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderList {
    /// Also those that are finished, newest first.
    #[serde(default)]
    pub all: bool,
    /// At most so many of those; 50 when absent.
    #[serde(default)]
    pub limit: Option<u32>,
}

/// One order, as shown.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct OrderView {
    /// Its id.
    pub id: OrderId,
    /// Its title.
    pub title: String,
    /// Where it stands.
    #[serde(flatten)]
    pub state: OrderState,
    /// What it waits for, while it is queued; absent when it is next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Waiting>,
    /// Its repository.
    pub repo: PathBuf,
    /// The branch to start from and to merge into; the one checked out then, when absent.
    pub base: Option<String>,
    /// Its agent: program and arguments.
    pub argv: Vec<String>,
    /// What the agent is to do.
    pub prompt: Option<String>,
    /// Its place in the queue.
    pub hints: Hints,
    /// The paths that it means to change.
    pub scope: Option<ScopeClaim>,
    /// What must be done before it.
    pub depends_on: Vec<OrderId>,
    /// The order that it is a part of.
    pub parent: Option<OrderId>,
    /// What its result waits for.
    pub gate: OrderGate,
    /// Commands that decide whether its result is good.
    pub checks: Vec<String>,
    /// Its group of attempts side by side.
    pub group: Option<String>,
    /// Runs that counted as attempts.
    pub attempts: u32,
    /// The recurring order that made it.
    pub schedule: Option<OrderId>,
    /// Of a recurring order: its next slot.
    pub next_slot: Option<At>,
    /// The file that it came from.
    pub source: Option<String>,
    /// When it was handed in.
    pub created_at: At,
    /// Its last run, as it stands now.
    pub last_run: Option<RunView>,
    /// All its runs, oldest first.
    pub runs: Vec<RunId>,
}

/// What an order waits for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Waiting {
    /// The reason, typed.
    #[serde(flatten)]
    pub reason: WaitReason,
    /// The reason in words.
    pub words: String,
}

/// Orders, and how the queue stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Orders {
    /// In the order of the queue: what runs, what is next, what waits.
    pub orders: Vec<OrderView>,
    /// What is wrong with orders that only somebody can put right.
    pub faults: Vec<FaultyOrder>,
    /// Files of watched folders that gave no orders.
    pub file_faults: Vec<FileFault>,
    /// How the queue stands.
    pub queue: QueueView,
}

/// An order that somebody must put right.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct FaultyOrder {
    /// The order.
    pub order: OrderId,
    /// What is wrong, typed.
    #[serde(flatten)]
    pub fault: OrderFault,
    /// What is wrong, in words.
    pub words: String,
}

/// A file that gave no orders, or did not change those that it had made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct FileFault {
    /// The file.
    pub file: String,
    /// Why.
    pub message: String,
}

/// How the queue stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct QueueView {
    /// True while a process that stays hosts the engine, so that orders are dispatched.
    pub dispatching: bool,
    /// Queued orders, recurring ones not counted.
    pub waiting: u32,
    /// True when nothing is dispatched in any repository.
    pub paused: bool,
    /// Repositories in which nothing is dispatched.
    pub paused_repos: Vec<PathBuf>,
    /// Caps and budgets.
    pub limits: Limits,
    /// Wall time of orders within the budget's window in seconds, what is reserved included.
    pub wall_used_seconds: u64,
    /// Tokens that count in the budget's window.
    #[serde(default)]
    pub tokens_used: u64,
    /// Cost that counts in it, in millionths.
    #[serde(default)]
    pub cost_used_micros: u64,
    /// Watched folders.
    pub watched: Vec<PathBuf>,
}

/// Pauses or resumes dispatching. What runs goes on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct QueuePause {
    /// Only in this repository: any path inside it.
    #[serde(default)]
    pub repo: Option<PathBuf>,
    /// Paused, or not.
    pub paused: bool,
}

/// New caps and budgets. What is absent stays as it is; 0 takes a cap away.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct LimitsChange {
    /// Runs at once.
    #[serde(default)]
    pub total: Option<u32>,
    /// Runs at once in any one repository.
    #[serde(default)]
    pub per_repository: Option<u32>,
    /// Runs at once of a concurrency class.
    #[serde(default)]
    pub per_class: Vec<(String, u32)>,
    /// Runs at once of a kind.
    #[serde(default)]
    pub per_kind: Vec<(String, u32)>,
    /// The kinds that are dispatched; an empty list for all.
    #[serde(default)]
    pub kinds_accepted: Option<Vec<String>>,
    /// Wall time of orders within the window, in seconds.
    #[serde(default)]
    pub budget_wall_seconds: Option<u64>,
    /// Length of the budget's window in seconds.
    #[serde(default)]
    pub window_seconds: Option<u64>,
    /// Tokens of all orders within the window; 0 takes the budget away.
    #[serde(default)]
    pub budget_tokens: Option<u64>,
    /// Cost of all orders within the window in millionths of a US dollar, as their agents tell it; 0 takes the budget away.
    #[serde(default)]
    pub budget_cost_micros: Option<u64>,
}

/// A folder whose order files are to be taken in, or no longer.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct WatchChange {
    /// The folder.
    pub folder: PathBuf,
    /// From now on, or no longer.
    pub watched: bool,
}

/// Watched folders.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct WatchList {}

/// What is watched, and what became of the files.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Watched {
    /// The folders.
    pub folders: Vec<PathBuf>,
    /// The files in them that are known.
    pub files: Vec<WatchedFile>,
    /// What the operator should know, as sentences.
    pub warnings: Vec<String>,
}

/// One file of a watched folder.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct WatchedFile {
    /// The file.
    pub file: String,
    /// Orders that it made.
    pub orders: Vec<OrderId>,
    /// Why it gave none, or did not change those that it had made.
    pub fault: Option<String>,
}
