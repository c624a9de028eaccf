//! What git has registered for runs in one repository, whoever made it: branches and worktrees. Reads
//! only, but for a branch that holds nothing.

use crate::lock::RepositoryLock;
use crate::worktree::registered_place;
use crate::{GitError, Repository};
use git2::{BranchType, ErrorCode, Oid};
use std::path::PathBuf;

/// Beginning of every run's branch.
const BRANCHES: &str = "foreman/";

/// What is registered under a run's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// What stands where a run's id stands: behind `foreman/` in a branch, or as the name of a
    /// worktree's registration. Untrusted text.
    pub run: String,
    /// Tip of the branch, in hexadecimal; absent when there is none.
    pub branch: Option<String>,
    /// Where the registered worktree is, with its `.git`; absent when there is none.
    pub worktree: Option<PathBuf>,
}

impl Repository {
    /// Every branch below `foreman/`, and every worktree's registration that is named like one of them
    /// or like `is_run` says, sorted.
    ///
    /// # Errors
    /// [`GitError::Git`] when the repository cannot be read.
    pub fn registered(&self, is_run: impl Fn(&str) -> bool) -> Result<Vec<Registered>, GitError> {
        let mut found: Vec<Registered> = Vec::new();
        let repo = self.git()?;
        let references = repo
            .references_glob(&format!("refs/heads/{BRANCHES}*"))
            .map_err(GitError::git("list the runs' branches"))?;
        for reference in references {
            // One that cannot be read hides none of the others.
            let Ok(reference) = reference else { continue };
            let Ok(name) = reference.shorthand() else {
                continue;
            };
            if let Some(run) = name.strip_prefix(BRANCHES) {
                found.push(Registered {
                    run: run.to_owned(),
                    branch: reference.target().map(|oid| oid.to_string()),
                    worktree: None,
                });
            }
        }
        let admins = self.common_dir().join("worktrees");
        for entry in std::fs::read_dir(admins).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let place = registered_place(&entry.path());
            match found.iter_mut().find(|known| known.run == name) {
                Some(known) => known.worktree = place,
                None if is_run(&name) => found.push(Registered {
                    run: name,
                    branch: None,
                    worktree: place,
                }),
                None => {}
            }
        }
        found.sort_by(|left, right| left.run.cmp(&right.run));
        Ok(found)
    }

    /// True when every commit of a run's branch is also in a branch that is no run's: taking the
    /// branch away loses nothing.
    ///
    /// # Errors
    /// [`GitError::Git`] when the repository cannot be read.
    pub fn holds_nothing_of_its_own(&self, tip: &str) -> Result<bool, GitError> {
        let repo = self.git()?;
        let failed = |error| GitError::git("compare a run's branch with the others")(error);
        let tip = Oid::from_str(tip).map_err(failed)?;
        for branch in repo.branches(Some(BranchType::Local)).map_err(failed)? {
            let (branch, _) = branch.map_err(failed)?;
            let name = branch.name_bytes().map_err(failed)?;
            if name.starts_with(BRANCHES.as_bytes()) {
                continue;
            }
            let Some(other) = branch.get().target() else {
                continue;
            };
            if other == tip || repo.graph_descendant_of(other, tip).map_err(failed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes a run's branch away that holds nothing of its own, is at this tip, and is checked out
    /// nowhere. Answers whether it did: one that moved, or holds something, stays.
    ///
    /// # Errors
    /// [`GitError::Git`] when the repository cannot be read or written.
    pub fn remove_empty_branch(&self, run: &str, tip: &str) -> Result<bool, GitError> {
        let _lock = RepositoryLock::take(self.common_dir())?;
        let registered = self.registered(|_| false)?;
        let is_as_seen = registered.iter().any(|known| {
            known.run == run && known.branch.as_deref() == Some(tip) && known.worktree.is_none()
        });
        let is_free = is_as_seen && !self.is_checked_out(&format!("{BRANCHES}{run}"));
        if !is_free || !self.holds_nothing_of_its_own(tip)? {
            return Ok(false);
        }
        let repo = self.git()?;
        let mut reference = match repo.find_reference(&format!("refs/heads/{BRANCHES}{run}")) {
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(false),
            other => other.map_err(GitError::git("read a run's branch"))?,
        };
        reference
            .delete()
            .map_err(GitError::git("remove a run's branch"))?;
        Ok(true)
    }

    /// True when some tree is on this branch. One that cannot be read counts as being on it.
    fn is_checked_out(&self, branch: &str) -> bool {
        let on_it = format!("ref: refs/heads/{branch}");
        let admins = std::fs::read_dir(self.common_dir().join("worktrees"));
        let linked = admins.into_iter().flatten().flatten();
        std::iter::once(self.common_dir().join("HEAD"))
            .chain(linked.map(|entry| entry.path().join("HEAD")))
            .any(|head| match crate::bounded::read(&head, 4096) {
                Ok(bytes) => bytes.trim_ascii_end() == on_it.as_bytes(),
                Err(_) => head.exists(),
            })
    }
}
