//! Repositories and agent programs on this machine.

use super::ProjectView;
use foreman_domain::At;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Names a repository.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RepoRequest {
    /// Any path inside it.
    pub path: PathBuf,
}

/// A repository, looked at. Nothing of it was run: no hook, filter or monitor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RepoView {
    /// The root of the checkout.
    pub root: PathBuf,
    /// Its name: that of its folder.
    pub name: String,
    /// The branch that is checked out; absent when none is.
    pub branch: Option<String>,
    /// Local branches by name, at most 500. Untrusted text.
    pub branches: Vec<String>,
    /// Paths of its submodules. Untrusted text.
    pub submodules: Vec<String>,
    /// True when its attributes name the large-file filter.
    pub lfs: bool,
    /// True when only a part of it is checked out.
    pub sparse: bool,
    /// Hooks that its operator has installed. No run starts them.
    pub hooks: Vec<String>,
    /// What its git directory takes on the disk; absent when counting it took too long.
    pub size_bytes: Option<u64>,
    /// Commits of the branch that is checked out; absent when there are more than can be counted quickly.
    pub commits: Option<u64>,
    /// Files that are not as they are in the branch, at most as many as could be looked at.
    pub dirty_files: Option<u32>,
    /// Address of the remote of the branch, without credentials. Untrusted text.
    pub remote: Option<String>,
    /// What files of other tools say about making runs ready.
    pub imports: Vec<ImportView>,
    /// What the repository itself says about making its runs ready.
    pub project: ProjectView,
    /// State of its policy file: `absent`, `trusted`, `untrusted`, `changed`.
    pub policy_file: String,
    /// What the operator should know, as sentences.
    pub warnings: Vec<String>,
}

/// What one file would have done when a run is made ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ImportView {
    /// Its path in the repository.
    pub file: String,
    /// Shell commands that it would run, in the cage. Untrusted text.
    pub would_run: Vec<String>,
    /// Patterns of what it would copy. Untrusted text.
    pub would_copy: Vec<String>,
}

/// Asks for the repositories that are known.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct RepoList {}

/// Repositories that had runs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Repos {
    /// The one used last first.
    pub repos: Vec<KnownRepo>,
}

/// A repository that had runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct KnownRepo {
    /// Its root.
    pub path: PathBuf,
    /// Its name: that of its folder.
    pub name: String,
    /// False while nothing is where it was.
    pub reachable: bool,
    /// How many runs it had.
    pub runs: u64,
    /// When its newest run was created.
    pub last_used: At,
    /// State of its policy file: `absent`, `trusted`, `untrusted`, `changed`; absent when it cannot be
    /// read now.
    pub policy_file: Option<String>,
    /// State of what it says about making its runs ready, in the same words.
    pub project_file: Option<String>,
}

/// Asks for agent programs.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AgentsRequest {}

/// Agent programs, found or not.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Agents {
    /// All that are looked for; those that were found first.
    pub agents: Vec<AgentView>,
}

/// An agent program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AgentView {
    /// What it is called.
    pub name: String,
    /// Its program.
    pub program: String,
    /// Where it is; absent when it was not found.
    pub path: Option<PathBuf>,
    /// What it says its version is. Untrusted text.
    pub version: Option<String>,
    /// Where it was looked for.
    pub looked_in: Vec<PathBuf>,
    /// What to do, or what to know about starting it, as a sentence.
    pub hint: String,
    /// The name by which it can be run with its messages understood; absent where it has no driver.
    #[serde(default)]
    pub agent: Option<String>,
    /// Files of its login and settings that are there, which a run sees only when they are lent.
    #[serde(default)]
    pub logins: Vec<PathBuf>,
}
