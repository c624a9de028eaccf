//! Making a run ready: where it starts from, what is copied, what prepares it, and trying again.

use super::{RunView, TerminalSize};
use foreman_domain::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a run is made ready, beyond its base branch and its setup command.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(default)]
pub struct Preparation {
    /// Files and folders of the operator's checkout to copy into the worktree: paths from its root, in
    /// which `*`, `?` and `**` may be used.
    pub copy: Vec<String>,
    /// Start from the local base branch as it is, without asking its remote.
    pub no_fetch: bool,
    /// Longest wait for the remote, in seconds; 60 when absent.
    pub fetch_seconds: Option<u32>,
    /// Leave out what the repository itself says about preparing, also where it is trusted.
    pub no_project: bool,
}

/// Where the commit that a run starts from was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum BaseSource {
    /// The local branch.
    Local,
    /// The branch of its remote, which the local one is behind.
    Remote,
}

/// The commit that a run starts from, and how fresh it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct BaseView {
    /// Where it was found.
    pub source: BaseSource,
    /// The branch of a remote that the base branch follows: `origin/main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// True when the remote was asked for this run and answered.
    pub fetched: bool,
    /// When the commit was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_at: Option<At>,
    /// Commits that the remote has beyond it, as far as that is known here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Why the run may have started from an old commit, as a sentence; absent when it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

/// Which run to try again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RunRetry {
    /// As typed.
    pub run: String,
    /// Size of the caller's terminal; needed where the agent had one.
    #[serde(default)]
    pub terminal: Option<TerminalSize>,
}

/// A new attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Retried {
    /// It.
    pub run: RunView,
    /// True when the agent has a terminal.
    pub terminal: bool,
}

/// Names a repository.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ProjectRequest {
    /// Any path inside it.
    pub repo: PathBuf,
    /// Token of what was shown, to trust it; absent to look.
    #[serde(default)]
    pub expect: Option<String>,
}

/// One file of a repository that says how its runs are made ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ProjectSource {
    /// Its path in the repository.
    pub file: String,
    /// False when another file comes first and this one is left out.
    pub counts: bool,
    /// Patterns of what it has copied.
    pub copy: Vec<String>,
    /// The shell command that it has run in the cage.
    pub setup: Option<String>,
    /// What of it is not done here, as sentences.
    pub notes: Vec<String>,
}

/// What a repository itself says about making its runs ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ProjectView {
    /// The repository's root.
    pub repo: PathBuf,
    /// The files that were found, in the order in which they are asked.
    pub sources: Vec<ProjectSource>,
    /// Files that would be copied now, with their sizes in bytes; at most 200.
    pub copies: Vec<(String, u64)>,
    /// How many more there are.
    pub more: u64,
    /// What the operator should know about them, as sentences.
    pub warnings: Vec<String>,
    /// The command that would be run in the cage.
    pub setup: Option<String>,
    /// `absent`, `untrusted`, `changed` or `trusted`.
    pub standing: String,
    /// Token of all of it, to trust it.
    pub expect: String,
}
