//! Bringing a run's commits onto its base branch as it is now, in memory: by replaying them where they
//! are a line, by one merge commit where they are not.
//!
//! It is done in a repository that is nothing but the object store: no configuration, attributes,
//! index or hook of anybody is there to be followed, and libgit2 runs no program. Nothing is moved
//! before the result is whole; a conflict moves nothing at all. [`Repository::apply_sync`] then takes
//! the result over, in an order that can be cut short anywhere and begun again.

use crate::checked_out::own_tree;
use crate::clean::{State, changes};
use crate::diff::fork_point;
use crate::harvest::count;
use crate::lock::RepositoryLock;
use crate::merge::update_by;
use crate::shadow::identity;
use crate::{GitError, Repository, Worktree};
use git2::{ErrorCode, MergeOptions, ObjectType, Oid, Sort};
use std::collections::BTreeSet;

/// The most commits that are replayed one by one; more are merged.
const LINE: usize = 1_000;
/// The most conflicting paths that are named.
const PATHS: usize = 200;
/// Files larger than this are compared as a whole.
const LARGE: i64 = 8 << 20;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sync {
    /// The run builds on the base branch as it is now.
    UpToDate,
    /// Run and base branch changed the same; nothing was moved.
    Conflict {
        /// Tip of the base branch, in hexadecimal.
        base: String,
        /// The run's commit that does not fit, when its commits were replayed one by one.
        commit: Option<String>,
        /// In which files. Untrusted text.
        paths: Vec<String>,
    },
    /// The objects of the result are here; nothing was moved yet.
    Ready(Synced),
}

/// A run's commits on top of another base.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Synced {
    /// The run's tip until now, in hexadecimal.
    pub old_head: String,
    /// The tip to be.
    pub head: String,
    /// What it builds on: the tip of the base branch.
    pub base: String,
    /// True when the commits were replayed, false when they were merged.
    pub replayed: bool,
    /// The run's commits whose changes the base has already, and which are not there any more.
    pub dropped: u32,
    /// True when the lines that it adds and removes are the ones that it did before.
    pub same_changes: bool,
}

impl Repository {
    /// Puts the commits up to `head` onto the base branch as it is now, as objects alone.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when `head` or the base branch is gone; failures of objects.
    pub fn prepare_sync(&self, worktree: &Worktree, head: &str) -> Result<Sync, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base = self.base_tip(&repo, worktree)?;
        if head == base || repo.graph_descendant_of(head, base).unwrap_or(false) {
            return Ok(Sync::UpToDate);
        }
        let fork = fork_point(&repo, worktree, head, base)?;
        let (name, email) = identity(&repo);
        let us = git2::Signature::now(&name, &email)
            .map_err(GitError::git("sign the commits that are made"))?;
        // Nothing but objects: see the module's head.
        let odb = repo.odb().map_err(GitError::git("open the object store"))?;
        let bare = git2::Repository::from_odb(odb)
            .map_err(GitError::git("open the object store by itself"))?;
        let made = match line_of(&repo, head, base, fork)? {
            Some(line) => replay(&bare, &line, base, &us)?,
            None => merge(&bare, worktree, head, base, &us)?,
        };
        let (new, replayed, dropped) = match made {
            Made::Conflict { commit, paths } => {
                return Ok(Sync::Conflict {
                    base: base.to_string(),
                    commit: commit.map(|commit| commit.to_string()),
                    paths,
                });
            }
            Made::Tip {
                head,
                replayed,
                dropped,
            } => (head, replayed, dropped),
        };
        let before = fork
            .map(|fork| what_changes(&repo, fork, head))
            .transpose()?;
        let after = what_changes(&repo, base, new)?;
        Ok(Sync::Ready(Synced {
            old_head: head.to_string(),
            head: new.to_string(),
            base: base.to_string(),
            replayed,
            dropped,
            same_changes: before == Some(after),
        }))
    }

    /// Makes the result of [`Self::prepare_sync`] the run's: files and index of its worktree, its
    /// branch, and the ref that says where it was left. Doing it again ends in the same place.
    ///
    /// # Errors
    /// [`GitError::BranchMoved`] when the run's branch is elsewhere, [`GitError::MergeRefused`] when
    /// the worktree has changes of its own in the way; failures of files and objects.
    pub fn apply_sync(&self, worktree: &Worktree, synced: &Synced) -> Result<(), GitError> {
        let _lock = RepositoryLock::take(self.common_dir())?;
        let repo = self.git()?;
        let old = self.find_head(&repo, &synced.old_head)?;
        let new = self.find_head(&repo, &synced.head)?;
        let at = branch_tip(&repo, worktree)?;
        if at != Some(old) && at != Some(new) {
            return Err(moved(worktree, at, old));
        }
        let changes = changes(&repo, old, new)?;
        if let Some(tree) = own_tree(self, worktree) {
            if let State::Refused(why) = tree.state(&repo, &changes)? {
                return Err(GitError::MergeRefused { why });
            }
            // By a handle that sees nothing of the worktree's own: it may belong to the user that the
            // run was mapped to. No process of the run lives, and it was clean a moment ago.
            let files = self.git()?;
            if let Err(error) = update_by(&files, &tree, &changes, new, true) {
                // Best effort: it was clean, so what is put back is what was there.
                let _ = update_by(&files, &tree, &changes, old, true);
                return Err(error);
            }
        }
        let log = format!(
            "foreman: sync of run {} with {}",
            worktree.run, worktree.base_branch
        );
        if at == Some(old) && old != new {
            repo.reference_matching(&worktree.branch_ref(), new, true, old, &log)
                .map_err(GitError::git("move the run's branch"))?;
        }
        repo.reference(&worktree.head_ref(), new, true, &log)
            .map_err(GitError::git("keep the run's commits"))?;
        Ok(())
    }

    /// The tip of the run's branch, when somebody added commits to what was collected at `head`.
    ///
    /// # Errors
    /// [`GitError::Git`] when the repository cannot be read.
    pub fn added_by_hand(
        &self,
        worktree: &Worktree,
        head: &str,
    ) -> Result<Option<String>, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let tip = branch_tip(&repo, worktree)?;
        Ok(tip
            .filter(|tip| repo.graph_descendant_of(*tip, head).unwrap_or(false))
            .map(|tip| tip.to_string()))
    }

    /// Takes `tip`, which the run's branch is at, for what the run has to show from now on.
    ///
    /// # Errors
    /// [`GitError::BranchMoved`] when the branch is elsewhere; failures to write the ref.
    pub fn adopt(&self, worktree: &Worktree, tip: &str) -> Result<(), GitError> {
        let _lock = RepositoryLock::take(self.common_dir())?;
        let repo = self.git()?;
        let tip = self.find_head(&repo, tip)?;
        let at = branch_tip(&repo, worktree)?;
        if at != Some(tip) {
            return Err(moved(worktree, at, tip));
        }
        let log = format!("foreman: commits added by hand to run {}", worktree.run);
        repo.reference(&worktree.head_ref(), tip, true, &log)
            .map(drop)
            .map_err(GitError::git("keep the run's commits"))
    }

    /// How many commits the base branch has that `head` lacks.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when either is gone.
    pub fn commits_behind(&self, worktree: &Worktree, head: &str) -> Result<u32, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base = self.base_tip(&repo, worktree)?;
        count(&repo, base, head)
    }

    /// Tip of the base branch now, in hexadecimal.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when it is gone.
    pub fn base_now(&self, worktree: &Worktree) -> Result<String, GitError> {
        let repo = self.git()?;
        Ok(self.base_tip(&repo, worktree)?.to_string())
    }

    /// True when `now` adds and removes just the lines that `before` did, on whatever base.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when one of them is not a commit here.
    pub fn is_sync_of(
        &self,
        worktree: &Worktree,
        before: &str,
        now: &str,
    ) -> Result<bool, GitError> {
        let repo = self.git()?;
        let (before, now) = (self.find_head(&repo, before)?, self.find_head(&repo, now)?);
        let base = self.base_tip(&repo, worktree)?;
        let told = |head| match fork_point(&repo, worktree, head, base)? {
            Some(fork) => what_changes(&repo, fork, head).map(Some),
            None => Ok(None),
        };
        let (before, now) = (told(before)?, told(now)?);
        Ok(before.is_some() && before == now)
    }
}

enum Made {
    Tip {
        head: Oid,
        replayed: bool,
        dropped: u32,
    },
    Conflict {
        commit: Option<Oid>,
        paths: Vec<String>,
    },
}

fn branch_tip(repo: &git2::Repository, worktree: &Worktree) -> Result<Option<Oid>, GitError> {
    match repo.find_reference(&worktree.branch_ref()) {
        Ok(found) => Ok(found.target()),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(GitError::git("read the run's branch")(error)),
    }
}

fn moved(worktree: &Worktree, found: Option<Oid>, expected: Oid) -> GitError {
    GitError::BranchMoved {
        branch: worktree.branch.clone(),
        found: found.map_or_else(|| "gone".to_owned(), |oid| oid.to_string()),
        expected: expected.to_string(),
        kept: worktree.head_ref(),
    }
}

/// The run's commits, oldest first, when they are a line that begins where the base branch has been;
/// none when they must be merged. Commits of others (fetched with the run's base, and not in the base
/// branch here) are never rewritten.
fn line_of(
    repo: &git2::Repository,
    head: Oid,
    base: Oid,
    fork: Option<Oid>,
) -> Result<Option<Vec<Oid>>, GitError> {
    let what = "walk the run's commits";
    let Some(fork) = fork else { return Ok(None) };
    if fork != base && !repo.graph_descendant_of(base, fork).unwrap_or(false) {
        return Ok(None);
    }
    let mut walk = repo.revwalk().map_err(GitError::git(what))?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::REVERSE)
        .and_then(|()| walk.push(head))
        .and_then(|()| walk.hide(base))
        .map_err(GitError::git(what))?;
    let mut line = Vec::new();
    for oid in walk {
        let oid = oid.map_err(GitError::git(what))?;
        let commit = repo.find_commit(oid).map_err(GitError::git(what))?;
        if commit.parent_count() != 1 || line.len() == LINE {
            return Ok(None);
        }
        line.push(oid);
    }
    Ok(Some(line))
}

fn options() -> MergeOptions {
    let mut options = MergeOptions::new();
    options.find_renames(true);
    options
}

/// Each commit's own change, made anew on top of the one before.
fn replay(
    bare: &git2::Repository,
    line: &[Oid],
    base: Oid,
    us: &git2::Signature<'_>,
) -> Result<Made, GitError> {
    let what = "replay a commit of the run";
    let mut tip = bare.find_commit(base).map_err(GitError::git(what))?;
    let mut dropped = 0;
    for oid in line {
        let commit = bare.find_commit(*oid).map_err(GitError::git(what))?;
        let parent = commit.parent(0).map_err(GitError::git(what))?;
        let (before, after) = (
            parent.tree().map_err(GitError::git(what))?,
            commit.tree().map_err(GitError::git(what))?,
        );
        let onto = tip.tree().map_err(GitError::git(what))?;
        let mut index = bare
            .merge_trees(&before, &onto, &after, Some(&options()))
            .map_err(GitError::git(what))?;
        if index.has_conflicts() {
            let paths = conflicts(&index)?;
            return Ok(Made::Conflict {
                commit: Some(*oid),
                paths,
            });
        }
        let tree = index.write_tree_to(bare).map_err(GitError::git(what))?;
        if tree == onto.id() && before.id() != after.id() {
            dropped += 1;
            continue;
        }
        let tree = bare.find_tree(tree).map_err(GitError::git(what))?;
        let message = String::from_utf8_lossy(commit.message_bytes());
        let new = bare
            .commit(None, &commit.author(), us, &message, &tree, &[&tip])
            .map_err(GitError::git(what))?;
        tip = bare.find_commit(new).map_err(GitError::git(what))?;
    }
    Ok(Made::Tip {
        head: tip.id(),
        replayed: true,
        dropped,
    })
}

fn merge(
    bare: &git2::Repository,
    worktree: &Worktree,
    head: Oid,
    base: Oid,
    us: &git2::Signature<'_>,
) -> Result<Made, GitError> {
    let what = "merge the base branch into the run";
    let ours = bare.find_commit(head).map_err(GitError::git(what))?;
    let theirs = bare.find_commit(base).map_err(GitError::git(what))?;
    let mut index = bare
        .merge_commits(&ours, &theirs, Some(&options()))
        .map_err(GitError::git(what))?;
    if index.has_conflicts() {
        let paths = conflicts(&index)?;
        return Ok(Made::Conflict {
            commit: None,
            paths,
        });
    }
    let tree = index
        .write_tree_to(bare)
        .and_then(|tree| bare.find_tree(tree))
        .map_err(GitError::git(what))?;
    let message = format!(
        "foreman: merge of {} into run {}\n",
        worktree.base_branch, worktree.run
    );
    let head = bare
        .commit(None, us, us, &message, &tree, &[&ours, &theirs])
        .map_err(GitError::git(what))?;
    Ok(Made::Tip {
        head,
        replayed: false,
        dropped: 0,
    })
}

fn conflicts(index: &git2::Index) -> Result<Vec<String>, GitError> {
    let what = "read the conflicts";
    let mut paths = BTreeSet::new();
    for conflict in index.conflicts().map_err(GitError::git(what))? {
        let conflict = conflict.map_err(GitError::git(what))?;
        let entry = conflict.our.or(conflict.their).or(conflict.ancestor);
        if let Some(entry) = entry {
            paths.insert(String::from_utf8_lossy(&entry.path).into_owned());
        }
    }
    Ok(paths.into_iter().take(PATHS).collect())
}

/// The lines that are added and removed from one commit to another, wherever they stand, as one hash.
fn what_changes(repo: &git2::Repository, from: Oid, to: Oid) -> Result<Oid, GitError> {
    let what = "compare what the run changes";
    let tree = |oid| repo.find_commit(oid).and_then(|commit| commit.tree());
    let (from, to) = (
        tree(from).map_err(GitError::git(what))?,
        tree(to).map_err(GitError::git(what))?,
    );
    let mut options = git2::DiffOptions::new();
    options
        .context_lines(0)
        .include_typechange(true)
        .max_size(LARGE);
    let diff = repo
        .diff_tree_to_tree(Some(&from), Some(&to), Some(&mut options))
        .map_err(GitError::git(what))?;
    let mut told = Vec::new();
    for index in 0..diff.deltas().len() {
        let patch = git2::Patch::from_diff(&diff, index).map_err(GitError::git(what))?;
        let Some(delta) = diff.get_delta(index) else {
            continue;
        };
        let new = delta.new_file();
        let path = new.path_bytes().or(delta.old_file().path_bytes());
        told.extend_from_slice(path.unwrap_or_default());
        told.extend_from_slice(format!("\0{:?} {:?}\0", delta.status(), new.mode()).as_bytes());
        match patch {
            Some(mut patch) if !patch.delta().flags().is_binary() => {
                patch
                    .print(&mut |_, _, line| {
                        if matches!(line.origin(), '+' | '-' | '>' | '<' | '=') {
                            told.push(line.origin() as u8);
                            told.extend_from_slice(line.content());
                        }
                        true
                    })
                    .map_err(GitError::git(what))?;
            }
            _ => told.extend_from_slice(new.id().to_string().as_bytes()),
        }
        told.push(0);
    }
    // As a plain hash: both sides are made here, and either is only compared with the other.
    Oid::hash_object(ObjectType::Blob, &told).map_err(GitError::git(what))
}
