//! What the engine keeps about a run beside its log: where its things are and how it was started.

use crate::failures::internal;
use foreman_domain::Failure;
use foreman_git::{Repository, Worktree};
use foreman_policy::Bounds;
use foreman_shim::protocol::{RunFiles, ShimIdentity};
use foreman_store::StoredRun;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of this record; additive changes keep it.
pub(crate) const RECORD_VERSION: u8 = 1;

/// A run's record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunDetails {
    /// [`RECORD_VERSION`].
    pub v: u8,
    /// The repository's root.
    pub repo: PathBuf,
    /// The run's worktree and branch.
    pub worktree: Worktree,
    /// The git directory that it works on.
    pub shadow: PathBuf,
    /// Files shared with the shim.
    pub files: RunFiles,
    /// What the shim was started with.
    pub spec: PathBuf,
    /// Secret of the run's shim.
    pub nonce: String,
    /// Isolation tier in words.
    pub tier: String,
    /// Bounds in force.
    pub bounds: Bounds,
    /// Nobody attends.
    pub unattended: bool,
    /// Check commands, in order.
    pub checks: Vec<String>,
}

impl RunDetails {
    /// As the store keeps it.
    pub fn encode(&self) -> Result<String, Failure> {
        serde_json::to_string(self).map_err(internal)
    }

    /// From what the store kept.
    pub fn of(run: &StoredRun) -> Result<Self, Failure> {
        serde_json::from_str(&run.details)
            .map_err(|error| internal(format!("the record of run {} is unreadable: {error}", run.id)))
    }

    /// Opens the run's repository. Blocking.
    pub fn repository(&self) -> Result<Repository, Failure> {
        Repository::open(&self.repo).map_err(Failure::from)
    }

    /// The folder of the run's files.
    pub fn folder(&self) -> &Path {
        self.files.journal.parent().unwrap_or(Path::new("/"))
    }

    /// Who the run's shim is; `None` before it wrote that down.
    pub fn shim(&self) -> Option<ShimIdentity> {
        serde_json::from_slice(&std::fs::read(&self.files.identity).ok()?).ok()
    }
}
