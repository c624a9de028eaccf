//! What the engine keeps about a run beside its log: where its things are and how it was started.

use crate::failures::{internal, io};
use foreman_domain::Failure;
use foreman_git::{GitError, Repository, Worktree};
use foreman_policy::Bounds;
use foreman_shim::protocol::{RunFiles, ShimIdentity};
use foreman_store::StoredRun;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
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
        serde_json::from_str(&run.details).map_err(|error| {
            internal(format!(
                "the record of run {} is unreadable: {error}",
                run.id
            ))
        })
    }

    /// Opens the run's repository. Blocking.
    pub fn repository(&self) -> Result<Repository, Failure> {
        Repository::open(&self.repo).map_err(|error| match error {
            GitError::Unreachable { .. } | GitError::NotARepository { .. } => {
                let failure = Failure::from(error);
                failure
                    .hint("The run's repository is not there any more: put it back at that path.")
            }
            error => error.into(),
        })
    }

    /// The folder of the run's files.
    pub fn folder(&self) -> &Path {
        self.files.journal.parent().unwrap_or(Path::new("/"))
    }

    /// Takes the spec away from a shim that has not read it yet: from here on, one that is not on its
    /// way already never starts. The engine that prepares the run must not do this.
    pub fn void_spec(&self) -> Result<(), Failure> {
        match std::fs::rename(&self.spec, self.spec.with_extension("void")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(
                format!("{} cannot be moved", self.spec.display()),
                &error,
            )),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// True while a process that was started with the run's spec is there, or its shim is.
    pub fn is_on_its_way(&self) -> bool {
        if let Some(shim) = self.shim() {
            return shim.is_alive();
        }
        let spec = self.spec.as_os_str().as_encoded_bytes();
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return false;
        };
        processes.flatten().any(|entry| {
            let is_process = entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit);
            is_process
                && std::fs::read(entry.path().join("cmdline"))
                    .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == spec))
        })
    }

    /// Kills the run's shim, if it is alive; its cage dies with it.
    pub fn kill_shim(&self) -> Result<(), Failure> {
        let Some(shim) = self.shim().filter(ShimIdentity::is_alive) else {
            return Ok(());
        };
        let pid = i32::try_from(shim.pid).map_err(internal)?;
        kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(|error| {
            let what = format!(
                "the supervisor of run {} (process {pid}) cannot be killed",
                shim.run
            );
            io(what, &error.into())
        })
    }

    /// Who the run's shim is; `None` before it wrote that down.
    pub fn shim(&self) -> Option<ShimIdentity> {
        serde_json::from_slice(&std::fs::read(&self.files.identity).ok()?).ok()
    }
}
