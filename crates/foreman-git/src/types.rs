//! What goes in and out of this crate, as plain data that the engine stores.

use foreman_domain::At;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a run will start from, found without changing anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    /// Branch to start from and to merge into, short (`main`).
    pub base_branch: String,
    /// Its commit, in hexadecimal.
    pub base_commit: String,
    /// What the operator should know, as sentences without a final period.
    pub warnings: Vec<String>,
    /// True when the base commit has submodules, which [`crate::Repository::fill_submodules`] fills.
    #[serde(default)]
    pub has_submodules: bool,
}

/// A run's linked worktree and branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The run's id as text.
    pub run: String,
    /// Canonical path of the worktree.
    pub path: PathBuf,
    /// The run's branch, short (`foreman/<run>`).
    pub branch: String,
    /// Name of its entry under the common directory's `worktrees`.
    pub admin: String,
    /// Branch it started from and merges into, short.
    pub base_branch: String,
    /// Commit it started from, in hexadecimal.
    pub base_commit: String,
}

/// A path of the host that the cage must show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CageBind {
    /// Canonical path on the host.
    pub source: PathBuf,
    /// Path inside the cage.
    pub target: PathBuf,
    /// Read-only, or read and write.
    pub writable: bool,
}

/// The private copy of git's common directory that a run works on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shadow {
    /// What the cage must bind, in this order: later ones lie inside earlier ones.
    pub binds: Vec<CageBind>,
    /// Variables for every step in the cage.
    pub env: Vec<(String, String)>,
}

/// What was collected from a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Harvest {
    /// Tip of the run, in hexadecimal; the base commit when there is nothing.
    pub head: String,
    /// Commits from the base to the tip.
    pub commits: u32,
    /// True when the last commit is the one that [`Worktree::finish_argv`] makes of leftovers.
    pub finished_by_us: bool,
    /// What the operator should know, as sentences without a final period.
    pub warnings: Vec<String>,
}

/// The three-dot difference of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diff {
    /// Tip of the run, in hexadecimal.
    pub head: String,
    /// Tip of the base branch now, in hexadecimal.
    pub base_now: String,
    /// Files with added and removed lines.
    pub files: Vec<DiffFile>,
    /// The unified diff. Untrusted text.
    pub patch: String,
    /// True when `patch` or `files` was cut for its size.
    pub truncated: bool,
    /// What a reviewer must see first, as sentences without a final period.
    pub flags: Vec<String>,
    /// What lies in the worktree and in no commit, and is loaded by an editor, a shell or a tool that opens
    /// it; as sentences without a final period. No merge takes it over.
    pub uncommitted: Vec<String>,
}

/// The difference of one file of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDiff {
    /// The unified diff. Untrusted text.
    pub patch: String,
    /// True when `patch` was cut for its size.
    pub truncated: bool,
    /// True for a file that is not text.
    pub binary: bool,
    /// Its bytes before; absent when it was not there.
    pub old_size: Option<u64>,
    /// Its bytes now; absent when it is gone.
    pub new_size: Option<u64>,
}

/// One file of a [`Diff`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffFile {
    /// Path in the repository. Untrusted text.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `mode`.
    pub change: String,
    /// Lines added; absent for binary files.
    pub added: Option<u32>,
    /// Lines removed; absent for binary files.
    pub removed: Option<u32>,
    /// True for what nobody writes by hand: lock files, vendored and generated ones.
    #[serde(default)]
    pub generated: bool,
    /// What a reviewer must see about it first, as sentences without a final period.
    #[serde(default)]
    pub flags: Vec<String>,
}

/// A page of the commits of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commits {
    /// Tip of the run, in hexadecimal.
    pub head: String,
    /// Tip of the base branch now, in hexadecimal.
    pub base_now: String,
    /// How many can be listed.
    pub listed: u32,
    /// True when there are more than can be listed.
    pub truncated: bool,
    /// Newest first.
    pub commits: Vec<Commit>,
}

/// A commit of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// Its name, in hexadecimal.
    pub id: String,
    /// The first line of its message, safe to show and cut to a length. Untrusted text.
    pub subject: String,
    /// When it says that it was written; a run may say anything.
    pub authored_at: At,
    /// Its parents: two or more for a merge.
    pub parents: u32,
    /// Files that it changes against its first parent.
    pub files: u32,
    /// Lines added in them; absent where they were not counted for their size.
    pub added: Option<u64>,
    /// Lines removed in them; absent where they were not counted for their size.
    pub removed: Option<u64>,
}
