//! The commits of a run, and what one of them changes, by libgit2.
//!
//! They are those that a merge would bring: what the tip has and the commit that the diff starts from has
//! not. Everything about a commit is a run's to choose (its words, its dates, how many there are and how
//! much each changes), so that all of it is bounded here: commits that are listed, characters of a subject,
//! and how much is read for the sake of a figure.

use crate::diff::{compare, file_at, find_renames, fork_point, show};
use crate::worktree::parse_oid;
use crate::{Commit, Commits, Diff, FileDiff, GitError, Repository, Worktree, flags};
use foreman_domain::{At, sanitize_line};
use git2::{Oid, Sort};

/// The most commits that are listed.
const LISTED: usize = 100_000;
/// The most bytes of a message in which its first line is looked for.
const SUBJECT_BYTES: usize = 4 << 10;
/// The most characters of a subject that are given.
const SUBJECT: usize = 200;
/// The most files of one page whose lines are counted.
const COUNTED_FILES: usize = 20_000;
/// The most bytes of those files.
const COUNTED_BYTES: u64 = 64 << 20;

/// What may still be read for figures.
struct Budget {
    files: usize,
    bytes: u64,
}

impl Repository {
    /// The commits up to `head` that are beyond the base branch, newest first: `most` of them, after the
    /// first `skip`.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when `head` is not a commit here or the base branch is gone.
    pub fn commits(
        &self,
        worktree: &Worktree,
        head: &str,
        skip: usize,
        most: usize,
    ) -> Result<Commits, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base_now = self.base_tip(&repo, worktree)?;
        let from = fork_point(&repo, worktree, head, base_now)?;
        let all = walk(&repo, from, head)?;
        let mut budget = Budget {
            files: COUNTED_FILES,
            bytes: COUNTED_BYTES,
        };
        let shown = all.iter().take(LISTED).skip(skip).take(most);
        let commits = shown
            .map(|oid| describe(&repo, *oid, &mut budget))
            .collect::<Result<_, _>>()?;
        Ok(Commits {
            head: head.to_string(),
            base_now: base_now.to_string(),
            listed: u32::try_from(all.len().min(LISTED)).unwrap_or(u32::MAX),
            truncated: all.len() > LISTED,
            commits,
        })
    }

    /// What one commit of the run changes against its first parent: files, their flags, and the patch.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when it is none of the run's, and as [`Repository::commits`].
    pub fn diff_commit(
        &self,
        worktree: &Worktree,
        head: &str,
        commit: &str,
        with_patch: bool,
    ) -> Result<Diff, GitError> {
        let repo = self.git()?;
        let commit = self.commit_of(&repo, worktree, head, commit)?;
        let before = parent(&repo, commit)?;
        let mut diff = compare(&repo, before, commit)?;
        find_renames(&mut diff)?;
        let mut shown = show(&diff, with_patch)?;
        for (path, flag) in flags::of_changes(self, &repo, &diff) {
            if let Some(file) = shown.files.iter_mut().find(|file| file.path == path) {
                file.flags.push(flag.clone());
            }
            shown.flags.push(flag);
        }
        Ok(Diff {
            head: commit.to_string(),
            base_now: before.unwrap_or(Oid::ZERO_SHA1).to_string(),
            ..shown
        })
    }

    /// What one commit of the run changes in the file at `path`.
    ///
    /// # Errors
    /// As [`Repository::diff_commit`]; [`GitError::NotFound`] too when it does not change the file.
    pub fn diff_commit_file(
        &self,
        worktree: &Worktree,
        head: &str,
        commit: &str,
        path: &str,
    ) -> Result<FileDiff, GitError> {
        let repo = self.git()?;
        let commit = self.commit_of(&repo, worktree, head, commit)?;
        file_at(&repo, compare(&repo, parent(&repo, commit)?, commit)?, path)
    }

    /// A commit by its full name, when it is one that a merge would bring.
    fn commit_of(
        &self,
        repo: &git2::Repository,
        worktree: &Worktree,
        head: &str,
        commit: &str,
    ) -> Result<Oid, GitError> {
        let none = || GitError::NotFound {
            what: format!("a commit \"{}\" of the run", sanitize_line(commit)),
        };
        let oid = parse_oid(commit).map_err(|_| none())?;
        let head = self.find_head(repo, head)?;
        let base_now = self.base_tip(repo, worktree)?;
        let from = fork_point(repo, worktree, head, base_now)?;
        // What is no commit here is an error to libgit2, and not one of the run's to us.
        let has = |tip: Oid| tip == oid || repo.graph_descendant_of(tip, oid).unwrap_or(false);
        if has(head) && !from.is_some_and(has) {
            Ok(oid)
        } else {
            Err(none())
        }
    }
}

/// Newest first; children before their parents, whatever dates they carry.
fn walk(repo: &git2::Repository, from: Option<Oid>, head: Oid) -> Result<Vec<Oid>, GitError> {
    let what = "walk the run's commits";
    let mut walk = repo.revwalk().map_err(GitError::git(what))?;
    walk.set_sorting(Sort::TOPOLOGICAL)
        .and_then(|()| walk.push(head))
        .and_then(|()| from.map_or(Ok(()), |from| walk.hide(from)))
        .map_err(GitError::git(what))?;
    walk.take(LISTED + 1)
        .collect::<Result<_, _>>()
        .map_err(GitError::git(what))
}

fn parent(repo: &git2::Repository, commit: Oid) -> Result<Option<Oid>, GitError> {
    let commit = repo
        .find_commit(commit)
        .map_err(GitError::git("read a commit of the run"))?;
    Ok(commit.parent_ids().next())
}

fn describe(repo: &git2::Repository, oid: Oid, budget: &mut Budget) -> Result<Commit, GitError> {
    let what = "read a commit of the run";
    let commit = repo.find_commit(oid).map_err(GitError::git(what))?;
    let diff = compare(repo, commit.parent_ids().next(), oid)?;
    let lines = lines(repo, &diff, budget)?;
    Ok(Commit {
        id: oid.to_string(),
        subject: subject(commit.message_bytes()),
        authored_at: At::from_millis(commit.author().when().seconds().saturating_mul(1_000)),
        parents: u32::try_from(commit.parent_count()).unwrap_or(u32::MAX),
        files: u32::try_from(diff.deltas().len()).unwrap_or(u32::MAX),
        added: lines.map(|(added, _)| added),
        removed: lines.map(|(_, removed)| removed),
    })
}

/// Lines added and removed; none where more would have to be read than figures are worth.
fn lines(
    repo: &git2::Repository,
    diff: &git2::Diff<'_>,
    budget: &mut Budget,
) -> Result<Option<(u64, u64)>, GitError> {
    let what = "count the lines of a commit";
    let Some(files) = budget.files.checked_sub(diff.deltas().len()) else {
        return Ok(None);
    };
    let odb = repo.odb().map_err(GitError::git(what))?;
    let size = |id: Oid| odb.read_header(id).map_or(0, |(bytes, _)| bytes as u64);
    let bytes: u64 = diff
        .deltas()
        .map(|delta| size(delta.old_file().id()).saturating_add(size(delta.new_file().id())))
        .fold(0, u64::saturating_add);
    let Some(bytes) = budget.bytes.checked_sub(bytes) else {
        return Ok(None);
    };
    *budget = Budget { files, bytes };
    let stats = diff.stats().map_err(GitError::git(what))?;
    Ok(Some((stats.insertions() as u64, stats.deletions() as u64)))
}

/// The first line of a message, safe to show on one line, with a mark where it was cut.
fn subject(message: &[u8]) -> String {
    let start = message
        .iter()
        .position(|byte| !byte.is_ascii_whitespace())
        .unwrap_or(message.len());
    let message = message.get(start..).unwrap_or_default();
    let line = message
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let text = String::from_utf8_lossy(line.get(..SUBJECT_BYTES).unwrap_or(line));
    let mut characters = text.trim_end().chars();
    let mut shown: String = characters.by_ref().take(SUBJECT).collect();
    if characters.next().is_some() || line.len() > SUBJECT_BYTES {
        shown.push('…');
    }
    sanitize_line(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_one_short_safe_line() {
        assert_eq!(subject(b"\n\n  Fix it  \r\n\nBody"), "Fix it");
        assert_eq!(subject(b""), "");
        assert_eq!(
            subject(b"a\x1b[2J\xe2\x80\xaeb\xff"),
            "a␛[2J<U+202E>b\u{fffd}"
        );
        let long = subject(&vec![b'x'; 10 << 20]);
        assert_eq!((long.chars().count(), long.ends_with('…')), (201, true));
        assert_eq!(subject(&[b'y'; 200]).chars().count(), 200);
    }
}
