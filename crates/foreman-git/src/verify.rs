//! What has become of a run's worktree and branch by somebody else's hand.

use crate::worktree::registered_place;
use crate::{GitError, Repository, Worktree, bounded};
use git2::ErrorCode;
use std::os::unix::ffi::OsStrExt;

impl Repository {
    /// The tip that was collected from `worktree`; `None` when the run left no commits, or ended
    /// without being collected.
    ///
    /// # Errors
    /// [`GitError::Git`] when the repository cannot be read.
    pub fn collected_head(&self, worktree: &Worktree) -> Result<Option<String>, GitError> {
        match self.git()?.refname_to_id(&worktree.head_ref()) {
            Ok(oid) => Ok(Some(oid.to_string()).filter(|head| *head != worktree.base_commit)),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(GitError::git("read what was collected")(error)),
        }
    }

    /// Everything about `worktree` that is not as it was left, as sentences; empty when all is well.
    #[must_use]
    pub fn verify(&self, worktree: &Worktree) -> Vec<String> {
        let mut found = Vec::new();
        let shown = worktree.path.display();
        let admin = self.admin_dir(worktree);
        match worktree.path.symlink_metadata() {
            Err(_) => found.push(format!("the worktree {shown} was removed by hand")),
            Ok(meta) if !meta.is_dir() => {
                found.push(format!("something else is where the worktree was: {shown}"));
            }
            Ok(_) => {
                let expected = [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat();
                let dot_git = bounded::read(&worktree.path.join(".git"), 64 * 1024);
                if !dot_git.is_ok_and(|bytes| bytes == expected) {
                    found.push(format!(
                        "the worktree's .git file was changed: {shown}/.git"
                    ));
                }
            }
        }
        match registered_place(&admin) {
            None => found.push(format!("git does not know the worktree {shown} any more")),
            Some(place) if place != worktree.path.join(".git") => {
                found.push(format!(
                    "the worktree was moved by hand to {}",
                    place.display()
                ));
            }
            Some(_) => {
                let expected = format!("ref: {}\n", worktree.branch_ref());
                let head = bounded::read(&admin.join("HEAD"), 4096);
                if !head.is_ok_and(|bytes| bytes == expected.as_bytes()) {
                    found.push(format!("the worktree {shown} is on another branch now"));
                }
            }
        }
        let repo = match self.git() {
            Ok(repo) => repo,
            Err(error) => {
                found.push(error.to_string());
                return found;
            }
        };
        let left_at = repo
            .refname_to_id(&worktree.head_ref())
            .map_or_else(|_| worktree.base_commit.clone(), |oid| oid.to_string());
        match repo.refname_to_id(&worktree.branch_ref()) {
            Ok(oid) if oid.to_string() == left_at => {}
            Ok(oid) => found.push(format!(
                "the branch {} was moved by hand (it is at {oid}, it was left at {left_at})",
                worktree.branch
            )),
            Err(error) if error.code() == ErrorCode::NotFound => {
                found.push(format!(
                    "the branch {} was deleted by hand",
                    worktree.branch
                ));
            }
            Err(error) => {
                found.push(format!(
                    "the branch {} cannot be read: {error}",
                    worktree.branch
                ));
            }
        }
        if repo.refname_to_id(&worktree.base_ref()).is_err() {
            found.push(format!("the base branch {} is gone", worktree.base_branch));
        }
        found
    }
}
