//! Everything that a run's commits say: names, messages, and each content that any of them brings, also one
//! that a later commit takes away again.

use crate::{GitError, Repository, Worktree};
use git2::{Oid, Sort};
use std::collections::HashSet;

/// Contents larger than this are not looked through.
const LARGEST: usize = 64 << 20;

impl Repository {
    /// Gives `look` each text of the commits up to `head` that the base branch does not have: where it is in
    /// words, and its bytes. Gives the paths of contents that are too large.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when `head` or the base branch is gone; an object is missing or damaged.
    pub fn each_content(
        &self,
        worktree: &Worktree,
        head: &str,
        look: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<Vec<String>, GitError> {
        let failed = |source| GitError::git("read the run's commits")(source);
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base = self.base_tip(&repo, worktree)?;
        let mut walk = repo.revwalk().map_err(failed)?;
        walk.set_sorting(Sort::TOPOLOGICAL).map_err(failed)?;
        walk.push(head).map_err(failed)?;
        walk.hide(base).map_err(failed)?;
        if let Ok(started) = Oid::from_str(&worktree.base_commit) {
            // It may be gone from a repository that was cleaned up.
            let _ = walk.hide(started);
        }
        let odb = repo.odb().map_err(failed)?;
        let (mut seen, mut too_large) = (HashSet::new(), Vec::new());
        for commit in walk {
            let commit = repo.find_commit(commit.map_err(failed)?).map_err(failed)?;
            look("a commit message", commit.message_bytes());
            look("the author of a commit", commit.author().name_bytes());
            look("the author of a commit", commit.author().email_bytes());
            let tree = commit.tree().map_err(failed)?;
            let before = commit.parent(0).and_then(|parent| parent.tree()).ok();
            let diff = repo
                .diff_tree_to_tree(before.as_ref(), Some(&tree), None)
                .map_err(failed)?;
            for delta in diff.deltas() {
                let file = delta.new_file();
                let bytes = file.path_bytes().unwrap_or_default();
                let path = String::from_utf8_lossy(bytes).into_owned();
                look(&path, bytes);
                let is_content = !file.id().is_zero() && file.mode() != git2::FileMode::Commit;
                if !is_content || !seen.insert(file.id()) {
                    continue;
                }
                let (size, _) = odb.read_header(file.id()).map_err(failed)?;
                if size > LARGEST {
                    too_large.push(path);
                    continue;
                }
                let content = odb.read(file.id()).map_err(failed)?;
                look(&path, content.data());
            }
        }
        Ok(too_large)
    }
}
