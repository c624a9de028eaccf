//! Fast-forwarding the base branch to a reviewed tip.
//!
//! Refused when the base has commits that the run lacks, and when a tree that has the base branch
//! checked out is not clean in the files that change. Such a tree is updated by libgit2: no filter,
//! merge driver or hook runs.
//!
//! The order is files, index, branch. A crash in between leaves a tree that shows the run's work as
//! staged changes and nothing lost; merging again accepts files that are in the new state already
//! and goes on. The branch moves last and only from where it was seen; when it has moved, the files
//! are put back.

use crate::checked_out::{Tree, trees_on};
use crate::clean::{Change, State, changes};
use crate::lock::RepositoryLock;
use crate::{GitError, Repository, Worktree};
use git2::Oid;
use std::path::Path;

impl Repository {
    /// Why a merge of `head` would be refused now, as a sentence; none when it would go through.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when `head` or the base branch is gone; failures to read.
    pub fn merge_refusal(
        &self,
        worktree: &Worktree,
        head: &str,
    ) -> Result<Option<String>, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base = self.base_tip(&repo, worktree)?;
        match self.judge(&repo, worktree, head, base) {
            Ok(_) => Ok(None),
            Err(GitError::MergeRefused { why }) => Ok(Some(why)),
            Err(error) => Err(error),
        }
    }

    /// Fast-forwards the base branch to `head`, if it still stands at `expected_base`; gives its new
    /// tip. When it holds `head` already, there is nothing to do.
    ///
    /// # Errors
    /// [`GitError::Stale`] when the base branch has moved; [`GitError::MergeRefused`] with the
    /// reason; failures of files and objects. Whatever fails, the branch and the trees are as before.
    pub fn merge(
        &self,
        worktree: &Worktree,
        head: &str,
        expected_base: &str,
    ) -> Result<String, GitError> {
        let _lock = RepositoryLock::take(self.common_dir())?;
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base = self.base_tip(&repo, worktree)?;
        if base == head || repo.graph_descendant_of(base, head).unwrap_or(false) {
            return Ok(base.to_string());
        }
        if base.to_string() != expected_base {
            return Err(stale(worktree));
        }
        let plan = self.judge(&repo, worktree, head, base)?;
        let mut updated: Vec<&Tree> = Vec::new();
        let put_back = |updated: &[&Tree]| {
            for tree in updated {
                let _ = update(tree, &plan.changes, base, true);
            }
        };
        for (tree, half_done) in &plan.trees {
            updated.push(tree);
            if let Err(error) = update(tree, &plan.changes, head, *half_done) {
                put_back(&updated);
                return Err(error);
            }
        }
        let log = format!("foreman: merge of run {}: Fast-forward", worktree.run);
        // Through the tree that has it checked out, so that HEAD's log tells of it, too.
        let opened = plan
            .trees
            .first()
            .map(|(tree, _)| tree.open())
            .transpose()?;
        let moved = opened.as_ref().unwrap_or(&repo).reference_matching(
            &worktree.base_ref(),
            head,
            true,
            base,
            &log,
        );
        match moved {
            Ok(_) => Ok(head.to_string()),
            Err(error) => {
                put_back(&updated);
                match error.code() {
                    git2::ErrorCode::Modified => Err(stale(worktree)),
                    _ => Err(GitError::git("move the base branch")(error)),
                }
            }
        }
    }

    fn judge(
        &self,
        repo: &git2::Repository,
        worktree: &Worktree,
        head: Oid,
        base: Oid,
    ) -> Result<Plan, GitError> {
        let refuse = |why: String| Err(GitError::MergeRefused { why });
        let name = &worktree.base_branch;
        if base == head || repo.graph_descendant_of(base, head).unwrap_or(false) {
            return Ok(Plan {
                changes: Vec::new(),
                trees: Vec::new(),
            });
        }
        if !repo.graph_descendant_of(head, base).unwrap_or(false) {
            let lacking = crate::harvest::count(repo, base, head)?;
            let commits = if lacking == 1 {
                "a commit".into()
            } else {
                format!("{lacking} commits")
            };
            return refuse(format!(
                "{name} has {commits} that the run does not have, and only a fast-forward is made: \
                 `foreman sync {}` puts the run's commits onto {name} as it is now",
                worktree.run
            ));
        }
        if let Ok(at) = repo.refname_to_id(&worktree.branch_ref())
            && at != head
        {
            let branch = &worktree.branch;
            return refuse(format!(
                "the branch {branch} was moved by hand (it is at {at}, and {head} was reviewed): move \
                 it back with `git update-ref refs/heads/{branch} {head}`, or merge it by hand"
            ));
        }
        let changes = changes(repo, base, head)?;
        for change in &changes {
            if let Some((oid, mode)) = change.new
                && mode == 0o160_000
                && !self.knows_submodule_commit(&change.path, oid)
            {
                return refuse(format!(
                    "the run links {} to commit {oid} of another repository, which is not here: \
                     fetch it into that submodule first",
                    change.shown()
                ));
            }
        }
        let mut trees = Vec::new();
        for tree in trees_on(self, worktree)? {
            match tree.state(repo, &changes)? {
                State::Clean => trees.push((tree, false)),
                State::HalfDone => trees.push((tree, true)),
                State::Refused(why) => return refuse(why),
            }
        }
        Ok(Plan { changes, trees })
    }

    /// True when a local clone of the submodule at `path` has the commit.
    pub(crate) fn knows_submodule_commit(&self, path: &Path, commit: Oid) -> bool {
        let stores = [
            self.common_dir().join("modules").join(path).join("objects"),
            self.root().join(path).join(".git/objects"),
        ];
        stores.iter().filter(|store| store.is_dir()).any(|store| {
            let Some(store) = store.to_str() else {
                return false;
            };
            git2::Odb::new()
                .is_ok_and(|odb| odb.add_disk_alternate(store).is_ok() && odb.exists(commit))
        })
    }
}

struct Plan {
    changes: Vec<Change>,
    /// Trees with the base branch checked out, and whether an earlier merge was cut short there.
    trees: Vec<(Tree, bool)>,
}

fn stale(worktree: &Worktree) -> GitError {
    GitError::Stale {
        what: format!(
            "{} has moved since the diff was shown",
            worktree.base_branch
        ),
    }
}

/// Makes the changed files and the index of `tree` what `commit` holds.
pub(crate) fn update(
    tree: &Tree,
    changes: &[Change],
    commit: Oid,
    force: bool,
) -> Result<(), GitError> {
    if changes.is_empty() {
        return Ok(());
    }
    update_by(&tree.open()?, tree, changes, commit, force)
}

/// The same by any handle of the repository. Only one whose HEAD is the tree's own can look at each file
/// again before it is replaced; with another one, `force`.
pub(crate) fn update_by(
    repo: &git2::Repository,
    tree: &Tree,
    changes: &[Change],
    commit: Oid,
    force: bool,
) -> Result<(), GitError> {
    if changes.is_empty() {
        return Ok(());
    }
    let what = "update the checked-out base tree";
    let mut index = git2::Index::open(&tree.index()).map_err(GitError::git(what))?;
    repo.set_workdir(&tree.root, false)
        .map_err(GitError::git(what))?;
    repo.set_index(&mut index).map_err(GitError::git(what))?;
    let target = repo
        .find_commit(commit)
        .and_then(|c| c.tree())
        .map_err(GitError::git(what))?;
    let mut options = git2::build::CheckoutBuilder::new();
    if force {
        options.force();
    } else {
        // Looks at each file again right before it is replaced.
        options.safe().overwrite_ignored(false);
    }
    options.disable_pathspec_match(true);
    for change in changes {
        options.path(change.path.as_os_str().as_encoded_bytes());
    }
    repo.checkout_tree(target.as_object(), Some(&mut options))
        .map_err(|error| match error.code() {
            git2::ErrorCode::Conflict | git2::ErrorCode::Locked => GitError::MergeRefused {
                why: format!(
                    "the tree at {} changed while it was being updated: {}",
                    tree.shown(),
                    error.message()
                ),
            },
            _ => GitError::git(what)(error),
        })
}
