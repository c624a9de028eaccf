//! Taking back a worktree that nothing was ever started in.
//!
//! Everything in it was put there by us from what the operator has elsewhere, so no snapshot is taken.
//! Whatever shows that it is more than that (a branch that moved, a folder that is not the run's) is
//! refused. Gone is done: it can be called again at any time, and after any part of it.

use crate::lock::RepositoryLock;
use crate::snapshot::aside;
use crate::{GitError, Repository, Worktree, hostile_dir};
use foreman_domain::RunId;
use git2::ErrorCode;
use std::fs;

impl Repository {
    /// Takes back what [`Self::create_worktree`] made for `run`, and the kept base commit: folder,
    /// registration, branch, ref. The caller knows that no process was started in it.
    ///
    /// # Errors
    /// [`GitError::BranchMoved`] when the branch is not where it was made, and
    /// [`GitError::BadPlace`] when the folder is not the run's: nothing is removed then.
    pub fn unmake_worktree(&self, run: &RunId, worktree: &Worktree) -> Result<(), GitError> {
        let _lock = RepositoryLock::take(self.common_dir())?;
        let repo = self.git()?;
        let base = worktree.base_oid()?;
        match repo.find_reference(&worktree.branch_ref()) {
            Ok(found) if found.target() == Some(base) => {}
            Ok(found) => {
                return Err(GitError::BranchMoved {
                    branch: worktree.branch.clone(),
                    found: found
                        .target()
                        .map_or_else(|| "a symbolic ref".to_owned(), |oid| oid.to_string()),
                    expected: base.to_string(),
                    kept: worktree.branch_ref(),
                });
            }
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return Err(GitError::git("read the run's branch")(error)),
        }
        let removing = aside(&worktree.path);
        if worktree.path.symlink_metadata().is_ok() {
            self.prove_ours(run, worktree)?;
            hostile_dir::remove(&removing)?;
            fs::rename(&worktree.path, &removing)
                .map_err(GitError::io("cannot move", &worktree.path))?;
        }
        hostile_dir::remove(&removing)?;
        self.unregister(worktree)?;
        self.delete_refs(worktree)?;
        for folder in ["refs/foreman", "logs/refs/foreman"] {
            let folder = self.common_dir().join(folder);
            let _ = fs::remove_dir(folder.join(&worktree.run));
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }
}
