//! Bringing the base of a run up to date with its remote, without moving anything of the operator's.
//!
//! The remote's branch is fetched by the operator's own git (`operator.rs`) into a quarantine, whose
//! checked packs are moved into the object store only when all of it is there: a fetch that is cut short
//! leaves nothing. No branch, no remote-tracking ref, no `FETCH_HEAD` of the operator's is written; the
//! tip that a run starts from is kept at `refs/foreman/<run>/base`.

use crate::lock::RepositoryLock;
use crate::operator::{Ended, FetchLimits, OperatorGit};
use crate::quarantine::Quarantine;
use crate::worktree::parse_oid;
use crate::{GitError, Preflight, Repository, Worktree, bounded};
use git2::{ErrorCode, Oid};
use std::fs;
use std::sync::atomic::AtomicBool;

/// Longest `FETCH_HEAD` that is read: one line of it is ours.
const FETCH_HEAD: u64 = 64 * 1024;

/// The branch of a remote that a base branch follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// The remote's name, or its address when it has none.
    pub remote: String,
    /// Full name of the branch there.
    pub branch: String,
    /// As git shows it: `origin/main`.
    pub shown: String,
}

/// What came of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// The remote's tip, in hexadecimal; its objects are here.
    Tip(String),
    /// The remote was not reached, or took too long; why, as the end of "X could not be fetched: ".
    Unreached(String),
    /// The caller asked to stop.
    Stopped,
}

/// How a base branch and its remote stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Commits that only the local branch has.
    pub ahead: usize,
    /// Commits that only the remote has.
    pub behind: usize,
}

impl Repository {
    /// What `branch` follows: as configured, else the branch of the same name that `origin` or the only
    /// remote had when it was fetched last. None for a branch without a remote.
    ///
    /// # Errors
    /// [`GitError::Git`] when the configuration cannot be read.
    pub fn upstream(&self, branch: &str) -> Result<Option<Upstream>, GitError> {
        let repo = self.git()?;
        let config = repo
            .config()
            .map_err(GitError::git("read the configuration"))?;
        let remote = config.get_string(&format!("branch.{branch}.remote"));
        let merge = config.get_string(&format!("branch.{branch}.merge"));
        if let (Ok(remote), Ok(merge)) = (remote, merge) {
            let short = merge.strip_prefix("refs/heads/").unwrap_or(&merge);
            let is_plain = remote != "." && !remote.is_empty() && !remote.starts_with('-');
            let shown = format!("{}/{short}", crate::operator::without_credentials(&remote));
            return Ok(is_plain.then(|| Upstream {
                shown,
                branch: merge.clone(),
                remote,
            }));
        }
        let remotes = repo.remotes().map_err(GitError::git("list the remotes"))?;
        let names: Vec<&str> = remotes
            .iter()
            .filter_map(|name| name.ok().flatten())
            .collect();
        let remote = match names.as_slice() {
            [only] => Some(*only),
            several => several.iter().copied().find(|name| *name == "origin"),
        };
        let Some(remote) = remote.filter(|name| !name.starts_with('-')) else {
            return Ok(None);
        };
        let tracked = format!("refs/remotes/{remote}/{branch}");
        Ok(repo.find_reference(&tracked).is_ok().then(|| Upstream {
            remote: remote.to_owned(),
            branch: format!("refs/heads/{branch}"),
            shown: format!("{remote}/{branch}"),
        }))
    }

    /// Fetches what `upstream` holds now, within `limits`; `said` hears what git says meanwhile.
    ///
    /// # Errors
    /// When the object store cannot be written or git cannot be started. A remote that is not reached is
    /// no error: [`Fetched::Unreached`].
    pub fn fetch_base(
        &self,
        run: &str,
        upstream: &Upstream,
        limits: FetchLimits,
        stop: &AtomicBool,
        said: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Fetched, GitError> {
        let repo = self.git()?;
        let config = self
            .git_at_root()?
            .config()
            .map_err(GitError::git("read the configuration"))?;
        let quarantine = Quarantine::make(&self.objects_dir()?, &format!("{run}-fetch"))?;
        // A git directory of its own, inside the repository's (conditional includes go by its place), so
        // that FETCH_HEAD is written there.
        let git_dir = quarantine.dir().join("fetch");
        fs::create_dir(&git_dir).map_err(GitError::io("cannot make", &git_dir))?;
        let head = git_dir.join("HEAD");
        fs::write(&head, "ref: refs/heads/none\n").map_err(GitError::io("cannot write", &head))?;
        let mut git = OperatorGit::new(self.root(), &config)
            .variable("GIT_DIR", &git_dir)
            .variable("GIT_COMMON_DIR", self.common_dir())
            .variable("GIT_OBJECT_DIRECTORY", quarantine.dir())
            // What arrives stays one pack, however small.
            .setting("fetch.unpackLimit=1")
            // That forced updates are not looked for is ours to know.
            .setting("advice.fetchShowForcedUpdates=false")
            .arg("fetch");
        for arg in [
            "--quiet",
            "--no-tags",
            "--no-prune",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--no-write-commit-graph",
            "--no-show-forced-updates",
            // No remote-tracking ref is moved by the way.
            "--refmap=",
            "--end-of-options",
            &upstream.remote,
            &upstream.branch,
        ] {
            git = git.arg(arg);
        }
        let unreached = |why: String| Ok(Fetched::Unreached(why));
        match git.run(limits, quarantine.dir(), stop, said)? {
            Ended::Done => {}
            Ended::Stopped => return Ok(Fetched::Stopped),
            Ended::Failed(words) => return unreached(words),
            Ended::TooLong => {
                return unreached(format!("no end after {} s", limits.time.as_secs()));
            }
            Ended::TooLarge => {
                return unreached(format!("it is more than {} MiB", limits.bytes >> 20));
            }
        }
        let path = git_dir.join("FETCH_HEAD");
        let text = bounded::read(&path, FETCH_HEAD).map_err(GitError::io("cannot read", &path))?;
        let text = String::from_utf8_lossy(&text);
        let name = text.split_whitespace().next().unwrap_or_default();
        let Ok(tip) = parse_oid(name) else {
            return unreached(format!("{} is not there", upstream.branch));
        };
        quarantine.release()?;
        let _ = repo.odb().and_then(|odb| odb.refresh());
        match repo.find_commit(tip) {
            Ok(_) => Ok(Fetched::Tip(tip.to_string())),
            Err(_) => unreached(format!("{} is not a commit", upstream.branch)),
        }
    }

    /// How the base branch of `pre` stands to the remote's `tip`.
    ///
    /// # Errors
    /// [`GitError::Git`] when the history cannot be read.
    pub fn standing(&self, pre: &Preflight, tip: &str) -> Result<Standing, GitError> {
        let (local, tip) = (parse_oid(&pre.base_commit)?, parse_oid(tip)?);
        let (ahead, behind) = self
            .git()?
            .graph_ahead_behind(local, tip)
            .map_err(GitError::git("compare the base with its remote"))?;
        Ok(Standing { ahead, behind })
    }

    /// What the remote held when it was fetched last, by anybody.
    ///
    /// # Errors
    /// [`GitError::Git`] when the history cannot be read.
    pub fn last_fetched(&self, pre: &Preflight) -> Result<Option<Standing>, GitError> {
        let repo = self.git()?;
        let full = format!("refs/heads/{}", pre.base_branch);
        let tip = repo
            .branch_upstream_name(&full)
            .ok()
            .and_then(|name| repo.refname_to_id(name.as_str().ok()?).ok())
            .or_else(|| {
                let upstream = self.upstream(&pre.base_branch).ok().flatten()?;
                let tracked = format!("refs/remotes/{}", upstream.shown);
                repo.refname_to_id(&tracked).ok()
            });
        tip.map(|tip: Oid| self.standing(pre, &tip.to_string()))
            .transpose()
    }

    /// When a commit was made, in seconds since the epoch.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when it is not here.
    pub fn committed_at(&self, commit: &str) -> Result<i64, GitError> {
        let oid = parse_oid(commit)?;
        match self.git()?.find_commit(oid) {
            Ok(commit) => Ok(commit.time().seconds()),
            Err(error) if error.code() == ErrorCode::NotFound => Err(GitError::NotFound {
                what: format!("commit {oid}"),
            }),
            Err(error) => Err(GitError::git("read the base commit")(error)),
        }
    }

    /// Keeps the commit that a run starts from, before any branch does; [`Self::unmake_worktree`] and
    /// [`Self::snapshot_and_remove`] let go of it.
    ///
    /// # Errors
    /// [`GitError::Git`] when the ref cannot be written.
    pub fn keep_base(&self, worktree: &Worktree) -> Result<(), GitError> {
        // Somebody else's removal takes the folder of the ref away when it is empty.
        let _lock = RepositoryLock::take(self.common_dir())?;
        let log = format!("foreman: base of run {}", worktree.run);
        self.git()?
            .reference(&worktree.kept_base_ref(), worktree.base_oid()?, true, &log)
            .map(|_| ())
            .map_err(GitError::git("keep the base commit"))
    }
}
