//! What the engine keeps about a run beside its log: where its things are and how it was started.

use crate::api::{BaseView, ChangeCounts, ToolchainView};
use crate::failures::{internal, io};
use crate::programs::login::LentFile;
use foreman_domain::{At, Code, Failure, RunId, Spent, Tier};
use foreman_git::{GitError, Repository, Worktree};
use foreman_policy::{Bounds, SecretUse};
use foreman_shim::ProcessIdentity;
use foreman_shim::protocol::{Key, RunFiles, ShimIdentity, cage_identity};
use foreman_store::StoredRun;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a cage may take to end after its shim, before it is killed.
const CAGE_ENDS: Duration = Duration::from_secs(5);

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
    /// The tier itself.
    #[serde(default)]
    pub confinement: Tier,
    /// Bounds in force.
    pub bounds: Bounds,
    /// Nobody attends.
    pub unattended: bool,
    /// Whether what is hidden is held when it is to be read, too.
    #[serde(default)]
    pub hold_reads: bool,
    /// Check commands, in order.
    pub checks: Vec<String>,
    /// The engine ended while it prepared the run: it was no attempt of its order's.
    #[serde(default)]
    pub undone: bool,
    /// Files that it changed outside of its order's declared scope.
    #[serde(default)]
    pub outside_scope: Vec<String>,
    /// How fresh the commit is that it started from.
    #[serde(default)]
    pub freshness: Option<BaseView>,
    /// Files that were copied into its worktree and are nobody's work.
    #[serde(default)]
    pub copied: Vec<String>,
    /// How much its commits change, as counted when they were collected or moved last.
    #[serde(default)]
    pub changes: Option<ChangeCounts>,
    /// What its agent keeps of its home.
    #[serde(default)]
    pub agent_home: Option<PathBuf>,
    /// The agent with a driver that it runs.
    #[serde(default)]
    pub agent: Option<String>,
    /// The run whose reviewed commits it starts from.
    #[serde(default)]
    pub follows: Option<Follows>,
    /// The session of its agent's that it goes on with.
    #[serde(default)]
    pub resumes: Option<Resumes>,
    /// What its agent has used, once it has ended.
    #[serde(default)]
    pub spent: Option<Spent>,
    /// The limit of its model's provider that ended it.
    #[serde(default)]
    pub limited: Option<Limited>,
    /// Why its agent starts afresh although it follows up another run, as a phrase.
    #[serde(default)]
    pub afresh: Option<String>,
    /// Toolchains that it sees.
    #[serde(default)]
    pub toolchains: Vec<ToolchainView>,
    /// Secrets that it is handed, by name.
    #[serde(default)]
    pub secrets: Vec<SecretUse>,
    /// The version of each that it was handed, by name.
    #[serde(default)]
    pub secret_versions: BTreeMap<String, String>,
    /// The secret that is added outside to what it asks of one host, by name.
    #[serde(default)]
    pub key: Option<Key>,
    /// Its agent's login, as it was lent to be written back.
    #[serde(default)]
    pub lent: Vec<LentFile>,
}

/// A limit of a provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limited {
    /// When it is over, where that was said.
    pub until: Option<At>,
}

/// A session of an agent's that a follow-up goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resumes {
    /// The agent's own name for it.
    pub session: String,
    /// The run that it is of.
    pub run: RunId,
    /// What that run's agent kept: copied into the follow-up's own.
    pub home: PathBuf,
}

/// What a follow-up starts from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Follows {
    /// The reviewed run.
    pub run: RunId,
    /// Its commit, which the worktree is made of.
    pub head: String,
    /// What that run built on. While the follow-up works, what it starts from is its base; once it waits
    /// for a review, this is.
    pub base: String,
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

    /// True while nothing is where the run's repository was.
    pub fn repo_is_away(&self) -> bool {
        self.repo.join(".git").symlink_metadata().is_err()
            && self.repo.join("HEAD").symlink_metadata().is_err()
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
        if self.shim().is_some() {
            return self.living_shim().is_some();
        }
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return false;
        };
        processes.flatten().any(|entry| {
            let is_process = entry
                .file_name()
                .as_encoded_bytes()
                .iter()
                .all(u8::is_ascii_digit);
            is_process && self.was_started_as(&entry.path().join("cmdline"))
        })
    }

    /// Kills the run's shim, if it is alive; its cage dies with it.
    pub fn kill_shim(&self) -> Result<(), Failure> {
        match self.living_shim() {
            Some(shim) => kill_process(shim.pid, &format!("the supervisor of run {}", shim.run)),
            None => Ok(()),
        }
    }

    /// The run's shim, while it lives. Never by process id alone: the process must have started when the
    /// shim says that it did, in this boot of the machine, and carry this run's spec.
    pub fn living_shim(&self) -> Option<ShimIdentity> {
        let shim = self.shim()?;
        let is_it = shim.run.as_str() == self.worktree.run
            && shim.is_alive()
            && self.was_started_as(Path::new(&format!("/proc/{}/cmdline", shim.pid)));
        is_it.then_some(shim)
    }

    /// Process 1 of the run's cage, while it lives; `None` also for a cage of a shim that did not say.
    pub fn living_cage(&self) -> Option<ProcessIdentity> {
        let path = cage_identity(&self.files.journal);
        let cage: ProcessIdentity = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        cage.is_alive().then_some(cage)
    }

    /// Returns when no process of a cage is left whose shim is gone. The kernel ends it by itself; one
    /// that is still there after a moment is killed.
    pub async fn cage_has_ended(&self) -> Result<(), Failure> {
        let begun = tokio::time::Instant::now();
        while let Some(cage) = self.living_cage() {
            let waited = begun.elapsed();
            if waited > CAGE_ENDS + CAGE_ENDS {
                return Err(Failure::new(
                    Code::Environment,
                    format!(
                        "the cage of run {} (process {}) does not end",
                        self.worktree.run, cage.pid
                    ),
                ));
            }
            if waited > CAGE_ENDS {
                kill_process(cage.pid, &format!("the cage of run {}", self.worktree.run))?;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    fn was_started_as(&self, cmdline: &Path) -> bool {
        let spec = self.spec.as_os_str().as_encoded_bytes();
        std::fs::read(cmdline)
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == spec))
    }

    /// Who the run's shim is; `None` before it wrote that down.
    pub fn shim(&self) -> Option<ShimIdentity> {
        serde_json::from_slice(&std::fs::read(&self.files.identity).ok()?).ok()
    }
}

fn kill_process(pid: u32, what: &str) -> Result<(), Failure> {
    let number = i32::try_from(pid).map_err(internal)?;
    match kill(Pid::from_raw(number), Signal::SIGKILL) {
        // It has ended meanwhile.
        Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
        Err(error) => Err(io(
            format!("{what} (process {pid}) cannot be killed"),
            &error.into(),
        )),
    }
}
