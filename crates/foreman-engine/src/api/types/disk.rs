//! Disk space: what uses it, what could go, what is kept and why.

use foreman_domain::{At, RunId, RunState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Asks for what uses disk space.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default)]
pub struct DiskRequest {
    /// How long ago a run must have ended for its files to go, in seconds; what is set when absent.
    pub older_than_seconds: Option<u64>,
}

/// What uses disk space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskReport {
    /// The data directory.
    pub data: PathBuf,
    /// Bytes that its file system has left.
    pub free_bytes: Option<u64>,
    /// Bytes of everything below, the database included.
    pub bytes: u64,
    /// Bytes of the database.
    pub database_bytes: u64,
    /// By repository, the largest first.
    pub repositories: Vec<DiskRepository>,
    /// Folders that belong to no recorded run. They are never removed: what they are is unknown.
    pub strangers: Vec<DiskStranger>,
    /// What the engine may remove by itself.
    pub policy: DiskPolicy,
    /// How long ago a run must have ended for its files to go, in seconds, as used here.
    pub older_than_seconds: u64,
    /// Bytes over the quota; absent without one, or below it.
    pub over_bytes: Option<u64>,
    /// Bytes that would go now.
    pub removable_bytes: u64,
    /// What was done lately, newest first.
    pub log: Vec<DiskLogEntry>,
}

/// What a repository's runs use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskRepository {
    /// Its root.
    pub repo: PathBuf,
    /// Bytes of all its runs.
    pub bytes: u64,
    /// Its runs, the largest first.
    pub runs: Vec<DiskRun>,
}

/// What a run uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskRun {
    /// The run.
    pub run: RunId,
    /// Its title. Untrusted text.
    pub title: String,
    /// Where it stands.
    pub state: RunState,
    /// When it ended.
    pub ended_at: Option<At>,
    /// Bytes of its worktree.
    pub worktree_bytes: u64,
    /// Bytes of the git directory that it works on.
    pub shadow_bytes: u64,
    /// Bytes of what its agent keeps of its home.
    #[serde(default)]
    pub home_bytes: u64,
    /// Bytes of its journal and records. They stay.
    pub record_bytes: u64,
    /// Why its worktree stays; absent when it may go, or is gone.
    pub kept: Option<DiskKept>,
    /// True when worktree and git directory may go.
    pub may_go: bool,
    /// A removal that was asked for and is not done; it is tried again.
    pub removal: Option<DiskRemoval>,
}

/// Why a run's files stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum DiskKept {
    /// It is not over, or is being merged.
    Live,
    /// Somebody works on it right now.
    Busy,
    /// It ended a short while ago.
    Recent {
        /// Until when it counts as recent.
        until: At,
    },
    /// Its work was neither merged nor discarded.
    Undecided,
    /// It has commits that its base branch does not have.
    Unlanded {
        /// How many.
        commits: u64,
    },
    /// Its worktree has files that are not in its commits.
    Dirty {
        /// How many.
        files: u64,
        /// The first of them. Untrusted text.
        first: Vec<String>,
    },
    /// Somebody changed the worktree or the branch by hand.
    ByHand {
        /// What, as sentences.
        what: Vec<String>,
    },
    /// It could not be found out whether something would be lost.
    Unknown {
        /// Why, as a sentence.
        why: String,
    },
}

/// A removal that was asked for and is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskRemoval {
    /// Since when.
    pub asked_at: At,
    /// How often it was tried.
    pub tries: u32,
    /// Why the last try did not finish it.
    pub error: Option<String>,
}

/// A folder that belongs to no recorded run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskStranger {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub bytes: u64,
}

/// What the engine may remove by itself.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default)]
pub struct DiskPolicy {
    /// While more than this is used, what may go does, oldest first; nothing goes by itself when absent.
    pub quota_bytes: Option<u64>,
    /// How long ago a run must have ended, in seconds; a week when absent.
    pub keep_seconds: Option<u64>,
}

/// Something that was done about disk space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskLogEntry {
    /// When.
    pub at: At,
    /// The run.
    pub run: RunId,
    /// `removed`, `kept` or `failed`.
    pub action: String,
    /// The snapshot's ref, the reason, or the error.
    pub detail: String,
    /// Bytes that it is about.
    pub bytes: u64,
}

/// Removes what may go.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default)]
pub struct DiskClean {
    /// How long ago a run must have ended, in seconds; what is set when absent.
    pub older_than_seconds: Option<u64>,
    /// Only these runs: those of the preview. All when absent.
    pub runs: Option<Vec<RunId>>,
}

/// What was removed and what was not.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type,
)]
pub struct DiskCleaned {
    /// Runs whose worktree, git directory and branch are gone.
    pub removed: Vec<DiskRemoved>,
    /// Runs whose files stay.
    pub kept: Vec<DiskStays>,
    /// Runs whose files should have gone and did not.
    pub failed: Vec<DiskFailed>,
    /// Bytes that were freed.
    pub freed_bytes: u64,
}

/// A run whose files are gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskRemoved {
    /// The run.
    pub run: RunId,
    /// The ref that keeps what was in them; `foreman restore` brings it back.
    pub snapshot: String,
    /// Bytes that were freed.
    pub bytes: u64,
}

/// A run whose files stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskStays {
    /// The run.
    pub run: RunId,
    /// Why.
    pub kept: DiskKept,
}

/// A run whose files should have gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DiskFailed {
    /// The run.
    pub run: RunId,
    /// Why not, as a sentence.
    pub error: String,
}
