//! Which files of a checkout are nobody's commit: what git does not track, and what it ignores.

use crate::worktree::parse_oid;
use crate::{GitError, Repository};
use git2::ErrorCode;
use std::path::Path;

impl Repository {
    /// Those of `paths` (from the root of the checkout) that neither `commit` nor the checkout's index
    /// has, nor a folder of the same name; with `only_ignored`, those of them that git ignores here.
    ///
    /// # Errors
    /// [`GitError::Git`] when the commit, the index or the rules cannot be read.
    pub fn untracked(
        &self,
        commit: &str,
        paths: Vec<String>,
        only_ignored: bool,
    ) -> Result<Vec<String>, GitError> {
        let repo = self.git_at_root()?;
        let what = "look for what git tracks";
        let tree = repo
            .find_commit(parse_oid(commit)?)
            .and_then(|commit| commit.tree())
            .map_err(GitError::git(what))?;
        let index = repo.index().map_err(GitError::git(what))?;
        let mut kept = Vec::new();
        for path in paths {
            let in_tree = match tree.get_path(Path::new(&path)) {
                Ok(_) => true,
                Err(error) if error.code() == ErrorCode::NotFound => false,
                Err(error) => return Err(GitError::git(what)(error)),
            };
            if in_tree || index.get_path(Path::new(&path), 0).is_some() {
                continue;
            }
            if only_ignored
                && !repo
                    .is_path_ignored(Path::new(&path))
                    .map_err(GitError::git("read what git ignores"))?
            {
                continue;
            }
            kept.push(path);
        }
        Ok(kept)
    }
}
