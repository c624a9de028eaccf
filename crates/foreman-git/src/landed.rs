//! Whether a run's worktree can go without anybody missing it: all of it is on the base branch, or there
//! never was anything.
//!
//! Only looks; the folder is hostile data, so nothing in it is run, followed or believed. What cannot be
//! found out is a reason to keep the worktree, never one to remove it. Ignored files are no work (a
//! snapshot holds them all the same).

use crate::deep_stack::on_deep_stack;
use crate::worktree::parse_oid;
use crate::{GitError, Repository, Worktree};
use git2::{Delta, DiffOptions, ErrorCode, Oid};
use serde::{Deserialize, Serialize};

/// Files that are named one by one.
const NAMED: usize = 5;

/// What would be missed if a worktree went, beside what a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unlanded {
    /// Commits that the base branch does not have.
    Commits {
        /// How many.
        count: usize,
    },
    /// Files that are not as the run's last commit has them.
    Files {
        /// How many.
        count: usize,
        /// The first of them. Untrusted text.
        first: Vec<String>,
    },
    /// Somebody changed the worktree or its branch by hand.
    ByHand {
        /// What, as sentences without a final period.
        what: Vec<String>,
    },
}

impl Repository {
    /// What of `worktree` is nowhere else; `None` when its commits are on the base branch (or it has
    /// none) and its files are those of its last commit, or it is not there at all.
    ///
    /// # Errors
    /// What could not be found out: the worktree is then to be kept.
    pub fn unlanded(&self, worktree: &Worktree) -> Result<Option<Unlanded>, GitError> {
        on_deep_stack(|| self.find_unlanded(worktree))
    }

    fn find_unlanded(&self, worktree: &Worktree) -> Result<Option<Unlanded>, GitError> {
        let repo = self.git()?;
        let base = worktree.base_oid()?;
        let tip = match self.collected_head(worktree)? {
            Some(head) => parse_oid(&head)?,
            None => base,
        };
        let count = commits_beyond_base(&repo, worktree, tip)?;
        if tip != base && count > 0 {
            return Ok(Some(Unlanded::Commits { count }));
        }
        match worktree.path.symlink_metadata() {
            Ok(_) => {}
            // Removed by hand: nothing is left that could be missed.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(GitError::io("cannot look at", &worktree.path)(error)),
        }
        let what = self.verify(worktree);
        if !what.is_empty() {
            return Ok(Some(Unlanded::ByHand { what }));
        }
        let (count, first) = changed_files(&repo, worktree, tip)?;
        Ok((count > 0).then_some(Unlanded::Files { count, first }))
    }
}

/// How many commits lead to `tip` that the base branch does not have.
fn commits_beyond_base(
    repo: &git2::Repository,
    worktree: &Worktree,
    tip: Oid,
) -> Result<usize, GitError> {
    let what = "compare the run's tip with the base branch";
    let base_now = match repo.refname_to_id(&worktree.base_ref()) {
        Ok(oid) => oid,
        Err(error) if error.code() == ErrorCode::NotFound => worktree.base_oid()?,
        Err(error) => return Err(GitError::git(what)(error)),
    };
    let (ahead, _) = repo
        .graph_ahead_behind(tip, base_now)
        .map_err(GitError::git(what))?;
    Ok(ahead)
}

/// How many files differ from a commit, untracked ones included, and the first of them.
fn changed_files(
    repo: &git2::Repository,
    worktree: &Worktree,
    tip: Oid,
) -> Result<(usize, Vec<String>), GitError> {
    let what = "compare the worktree with the run's last commit";
    let tree = repo.find_commit(tip).and_then(|commit| commit.tree());
    let tree = tree.map_err(GitError::git(what))?;
    // An index of our own: the one that is registered is the run's word.
    let mut index = git2::Index::new().map_err(GitError::git(what))?;
    repo.set_workdir(&worktree.path, false)
        .and_then(|()| repo.set_index(&mut index))
        .and_then(|()| index.read_tree(&tree))
        .map_err(GitError::git(what))?;
    let mut options = DiffOptions::new();
    options
        .include_untracked(true)
        .recurse_untracked_dirs(true)
        .include_unreadable(true)
        .include_unreadable_as_untracked(true)
        .include_typechange(true)
        .skip_binary_check(true);
    let diff = repo
        .diff_tree_to_workdir(Some(&tree), Some(&mut options))
        .map_err(GitError::git(what))?;
    let (mut count, mut first) = (0, Vec::new());
    for delta in diff.deltas() {
        if matches!(delta.status(), Delta::Unmodified | Delta::Ignored) {
            continue;
        }
        count += 1;
        if first.len() < NAMED {
            let file = delta.new_file();
            let bytes = file.path_bytes().or(delta.old_file().path_bytes());
            let name = String::from_utf8_lossy(bytes.unwrap_or_default());
            first.push(foreman_domain::sanitize_line(&name));
        }
    }
    Ok((count, first))
}
