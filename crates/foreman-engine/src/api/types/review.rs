//! What a run changed, and taking it over.

use super::RunView;
use foreman_domain::{At, RunId, StepResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A diff and what a merge of it must name.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
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
    /// What lies in the worktree and in no commit, and is loaded by itself by an editor, a shell or a tool
    /// that opens it. No merge takes it over. Untrusted text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncommitted: Vec<String>,
    /// Why a merge would be refused now; absent when it would go through.
    pub refusal: Option<String>,
    /// What kind of reason that is, and with it what helps; there exactly when `refusal` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_for: Option<RefusedFor>,
    /// What happened on the way here that a reviewer weighs. Absent where only what came since a
    /// commit is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<GateSummary>,
}

/// What kind of reason refuses a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum RefusedFor {
    /// Some of its checks did not pass, and nothing else is in the way: it can be merged all the same,
    /// with a reason ([`MergeRequest::despite_checks`]).
    Checks,
    /// Its commits contain a secret, or this cannot be told: it needs an explicit word
    /// ([`MergeRequest::with_secrets`]).
    Secret,
    /// The base branch, or the tree where it is checked out, does not take it.
    Repository,
    /// The run does not wait for a review.
    State,
}

/// What a reviewer weighs beside the diff. All sentences are without a final period.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct GateSummary {
    /// Decisions that were made about the run, in words.
    pub amendments: Vec<String>,
    /// Subjects that are held or went undecided.
    pub open: Vec<String>,
    /// Subjects that were refused.
    pub denied: Vec<String>,
    /// That its commits contain secrets that it was handed, or that this cannot be told. Any of these needs an
    /// explicit word to be merged or pushed.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Bounds that were reached, with the figures.
    pub bounds: Vec<String>,
    /// Files outside the scope that its order declared. Untrusted text.
    pub outside_scope: Vec<String>,
    /// Changes that could steer its checks, or that something loads by itself. Untrusted text.
    pub steering: Vec<String>,
    /// Links to commits of other repositories that it changed. Untrusted text.
    pub submodules: Vec<String>,
    /// Its checks, for the commit that is shown.
    pub checks: Vec<CheckResult>,
    /// How many commits the base branch has that the run does not build on.
    pub base_moved: u32,
    /// Its place in the merge queue, or what became of it there last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<MergeEntry>,
}

/// A check and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct CheckResult {
    /// The command, as ordered.
    pub command: String,
    /// The step that it was, or would be.
    pub step: String,
    /// How it ended; absent when it has not, for this commit.
    pub result: Option<StepResult>,
    /// The same as a sentence.
    pub words: String,
    /// The last lines that it said. Untrusted text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tail: Vec<String>,
}

impl CheckResult {
    /// True when it ended well.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        self.result.as_ref().is_some_and(StepResult::is_success)
    }
}

/// What to show of a run's changes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiffRequest {
    /// As typed.
    pub run: String,
    /// Only what came after this commit of the run.
    #[serde(default)]
    pub since: Option<String>,
    /// Only what this one commit of the run changes, by its full name from
    /// [`CommitView::sha`](super::CommitView::sha). Its token reads files of it and merges nothing.
    #[serde(default)]
    pub commit: Option<String>,
    /// With the patch; without it the answer is small however much was changed.
    #[serde(default = "yes")]
    pub patch: bool,
}

fn yes() -> bool {
    true
}

impl DiffRequest {
    /// All that a run changed.
    #[must_use]
    pub fn new(run: impl Into<String>) -> Self {
        Self {
            run: run.into(),
            since: None,
            commit: None,
            patch: true,
        }
    }

    /// Only what came after a commit of it.
    #[must_use]
    pub fn since(self, since: Option<String>) -> Self {
        Self { since, ..self }
    }

    /// Only what one commit of it changes.
    #[must_use]
    pub fn of_commit(self, commit: Option<String>) -> Self {
        Self { commit, ..self }
    }

    /// Without the patch.
    #[must_use]
    pub fn without_patch(self) -> Self {
        Self {
            patch: false,
            ..self
        }
    }
}

/// One file of a run's changes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiffFileRequest {
    /// As typed.
    pub run: String,
    /// From [`DiffView::expect`]; refused when head or base have moved since.
    pub expect: String,
    /// Its path, from [`DiffFile::path`].
    pub path: String,
    /// As [`DiffRequest::commit`], whose token `expect` is then.
    #[serde(default)]
    pub commit: Option<String>,
}

/// What a run changed in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiffFileView {
    /// The unified diff of this file. Untrusted text.
    pub patch: String,
    /// True when `patch` was cut for its size.
    pub truncated: bool,
    /// True for a file that is not text.
    pub binary: bool,
    /// Its size before, in bytes; absent when it was not there.
    pub old_size: Option<u64>,
    /// Its size now, in bytes; absent when it is gone.
    pub new_size: Option<u64>,
}

/// One file of a diff.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiffFile {
    /// Path in the repository. Untrusted text.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `mode`.
    pub change: String,
    /// Lines added; absent for binary files.
    pub added: Option<u32>,
    /// Lines removed; absent for binary files.
    pub removed: Option<u32>,
    /// True for lock files, vendored and generated ones, by their names and by the attributes that the
    /// base commit has.
    #[serde(default)]
    pub generated: bool,
    /// What a reviewer must see about this file first.
    #[serde(default)]
    pub flags: Vec<String>,
}

impl From<super::RunRef> for DiffRequest {
    fn from(run: super::RunRef) -> Self {
        Self::new(run.run)
    }
}

/// Merge what was reviewed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct MergeRequest {
    /// As typed.
    pub run: String,
    /// From [`DiffView::expect`].
    pub expect: String,
    /// Why it is merged although its checks did not pass; recorded.
    #[serde(default)]
    pub despite_checks: Option<String>,
    /// Merge it although it contains a secret, or although that cannot be told.
    #[serde(default)]
    pub with_secrets: bool,
}

/// Bring a run's commits onto its base branch as it is now, and check them again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SyncRequest {
    /// As typed.
    pub run: String,
}

/// What came of a sync.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SyncView {
    /// The run as it is now.
    #[serde(flatten)]
    pub run: RunView,
    /// What was done.
    pub sync: SyncOutcome,
    /// Its checks, for the commit that there is now.
    pub checks_now: Vec<CheckResult>,
}

/// How a sync ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "sync", rename_all = "snake_case")]
pub enum SyncOutcome {
    /// The run builds on the base branch as it is now.
    UpToDate,
    /// Its commits are on the base branch as it is now.
    Synced {
        /// The tip before.
        old_head: String,
        /// The tip now.
        head: String,
        /// What it builds on now.
        base: String,
        /// True when its commits were replayed, false when they were merged.
        replayed: bool,
        /// Its commits whose changes the base had already.
        dropped: u32,
        /// True when it adds and removes exactly what it did before.
        same_changes: bool,
    },
    /// Run and base branch changed the same. Nothing was moved.
    Conflict {
        /// Tip of the base branch.
        base: String,
        /// The run's commit that does not fit, when they were replayed one by one.
        commit: Option<String>,
        /// The files. Untrusted text.
        paths: Vec<String>,
    },
}

/// Which entries of the merge queue.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct MergeList {
    /// Only of this run.
    #[serde(default)]
    pub run: Option<String>,
    /// Also those that are over.
    #[serde(default)]
    pub all: bool,
    /// Longest wait, in milliseconds, until no entry of `run` is under way; capped at 30,000.
    #[serde(default)]
    pub wait_ms: u32,
}

/// The merge queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Merges {
    /// Those under way in the order in which they are worked on, then those that are over, newest first.
    pub merges: Vec<MergeEntry>,
}

/// An entry of the merge queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct MergeEntry {
    /// Its number.
    pub number: i64,
    /// The run.
    pub run: RunId,
    /// Where it stands.
    #[serde(flatten)]
    pub standing: QueueStanding,
    /// True when the order's own gate put it in, false when the operator did.
    pub by_itself: bool,
    /// Why it may be merged although its checks did not pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub despite_checks: Option<String>,
    /// When it was put in.
    pub queued_at: At,
    /// When it was over.
    pub ended_at: Option<At>,
}

/// Where an entry of the merge queue stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum QueueStanding {
    /// Others of its repository are before it.
    Waiting,
    /// It is being synced, checked or merged.
    Working,
    /// It is in the base branch.
    Merged {
        /// The base branch's tip after it.
        commit: String,
    },
    /// It went back to Review.
    Returned {
        /// Why, as a sentence.
        reason: String,
    },
}

/// What became of a run that may be merged by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "by_itself", rename_all = "snake_case")]
pub enum MergedOrWhyNot {
    /// It is in the base branch.
    Merged {
        /// The base branch's tip after it.
        commit: String,
    },
    /// It waits for a review.
    WhyNot {
        /// Each reason, as a sentence without a final period.
        reasons: Vec<String>,
    },
}

/// Send what was reviewed to a remote.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PushRequest {
    /// As typed.
    pub run: String,
    /// From [`DiffView::expect`].
    pub expect: String,
    /// Name of the remote.
    pub remote: String,
    /// Branch there; the run's own when absent.
    #[serde(default)]
    pub branch: Option<String>,
    /// Replace what the same run pushed there before, if it still is what is there.
    #[serde(default)]
    pub replace: bool,
    /// Push it although it contains a secret, or although that cannot be told.
    #[serde(default)]
    pub with_secrets: bool,
}

/// What was pushed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PushView {
    /// The run.
    pub run: RunId,
    /// The commit.
    pub head: String,
    /// Name of the remote.
    pub remote: String,
    /// Its address, without credentials.
    pub address: String,
    /// The branch there.
    pub branch: String,
    /// Where a pull request is opened; absent when that cannot be known.
    pub web: Option<String>,
    /// What the remote said. Untrusted text.
    pub said: Vec<String>,
}
