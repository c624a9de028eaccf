//! The three-dot difference of a run, by libgit2: no external diff, text converter or pager runs.
//!
//! It starts at the merge base of the base branch and the run's tip, or at the commit that the run
//! started from where that is further on, so that what others did is never shown as the run's work.
//! Patch and list are bounded.

use crate::generated::Generated;
use crate::worktree::parse_oid;
use crate::{Diff, DiffFile, FileDiff, GitError, Repository, Worktree, flags};
use foreman_domain::sanitize_line;
use git2::{Delta, DiffFindOptions, DiffFormat, DiffOptions, ErrorCode, Oid};

/// The most bytes of patch that are given.
const PATCH: usize = 4 << 20;
/// The same for one file.
const FILE_PATCH: usize = 2 << 20;
/// The most files that are listed.
const FILES: usize = 20_000;
/// Files larger than this are shown as binary.
const LARGE: i64 = 8 << 20;
/// The most deleted or added files among which renames are looked for.
const RENAMES: usize = 400;

impl Repository {
    /// What the commits up to `head` change, beyond the base branch.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when `head` is not a commit here or the base branch is gone.
    pub fn diff(&self, worktree: &Worktree, head: &str) -> Result<Diff, GitError> {
        self.diff_with(worktree, head, true)
    }

    /// As [`Repository::diff`], without the patch: cheap however much was changed.
    ///
    /// # Errors
    /// As [`Repository::diff`].
    pub fn diff_without_patch(&self, worktree: &Worktree, head: &str) -> Result<Diff, GitError> {
        self.diff_with(worktree, head, false)
    }

    fn diff_with(
        &self,
        worktree: &Worktree,
        head: &str,
        with_patch: bool,
    ) -> Result<Diff, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base_now = self.base_tip(&repo, worktree)?;
        let from = fork_point(&repo, worktree, head, base_now)?;
        let mut diff = compare(&repo, from, head)?;
        find_renames(&mut diff)?;
        let mut shown = show(&diff, with_patch)?;
        let mut generated = Generated::by(&repo, from);
        for file in &mut shown.files {
            file.generated = generated.is(&file.path);
        }
        let mut found = Vec::new();
        for (path, flag) in flags::of_changes(self, &repo, &diff) {
            if let Some(file) = shown.files.iter_mut().find(|file| file.path == path) {
                file.flags.push(flag.clone());
            }
            found.push(flag);
        }
        let tree = repo
            .find_commit(head)
            .and_then(|commit| commit.tree())
            .map_err(GitError::git("read the run's files"))?;
        let lying = flags::of_worktree(&worktree.path, &tree);
        found.extend(lying.flags);
        shown.uncommitted = lying.uncommitted;
        if let Some(from) = from
            && repo.graph_descendant_of(from, base_now).unwrap_or(false)
        {
            let ahead = crate::harvest::count(&repo, from, base_now)?;
            let commits = if ahead == 1 {
                "a commit".to_owned()
            } else {
                format!("{ahead} commits")
            };
            found.push(format!(
                "a merge also brings {commits} of others to {} that the run started from and the \
                 branch here does not have yet",
                worktree.base_branch
            ));
        }
        shown.flags = found;
        Ok(Diff {
            head: head.to_string(),
            base_now: base_now.to_string(),
            ..shown
        })
    }

    /// How much the commits up to `head` change beyond the base branch: files, and lines added and removed.
    ///
    /// # Errors
    /// As [`Repository::diff`].
    pub fn count_changes(
        &self,
        worktree: &Worktree,
        head: &str,
    ) -> Result<(u32, u64, u64), GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base_now = self.base_tip(&repo, worktree)?;
        let from = fork_point(&repo, worktree, head, base_now)?;
        let mut diff = compare(&repo, from, head)?;
        find_renames(&mut diff)?;
        let counts = diff
            .stats()
            .map_err(GitError::git("count the run's changes"))?;
        let files = u32::try_from(counts.files_changed()).unwrap_or(u32::MAX);
        Ok((files, counts.insertions() as u64, counts.deletions() as u64))
    }

    /// What the commits up to `head` change in the file at `path`, as [`Diff`] names it.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when they do not change it, and as [`Repository::diff`].
    pub fn diff_file(
        &self,
        worktree: &Worktree,
        head: &str,
        path: &str,
    ) -> Result<FileDiff, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base_now = self.base_tip(&repo, worktree)?;
        let from = fork_point(&repo, worktree, head, base_now)?;
        file_at(&repo, compare(&repo, from, head)?, path)
    }

    /// What changes from one commit of a run to a later one: files and patch alone.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when one of them is not a commit here.
    pub fn diff_since(&self, since: &str, head: &str, with_patch: bool) -> Result<Diff, GitError> {
        let repo = self.git()?;
        let (since, head) = (self.find_head(&repo, since)?, self.find_head(&repo, head)?);
        let mut diff = compare(&repo, Some(since), head)?;
        find_renames(&mut diff)?;
        let shown = show(&diff, with_patch)?;
        Ok(Diff {
            head: head.to_string(),
            base_now: since.to_string(),
            ..shown
        })
    }

    /// The run's tip, when it is a commit that is here.
    pub(crate) fn find_head(&self, repo: &git2::Repository, head: &str) -> Result<Oid, GitError> {
        let oid = parse_oid(head)?;
        match repo.find_commit(oid) {
            Ok(_) => Ok(oid),
            Err(error) if error.code() == ErrorCode::NotFound => Err(GitError::NotFound {
                what: format!("commit {oid}"),
            }),
            Err(error) => Err(GitError::git("read the run's tip")(error)),
        }
    }

    /// Where the base branch stands now.
    pub(crate) fn base_tip(
        &self,
        repo: &git2::Repository,
        worktree: &Worktree,
    ) -> Result<Oid, GitError> {
        match repo.refname_to_id(&worktree.base_ref()) {
            Ok(oid) => Ok(oid),
            Err(error) if error.code() == ErrorCode::NotFound => Err(GitError::NotFound {
                what: format!("the base branch \"{}\"", worktree.base_branch),
            }),
            Err(error) => Err(GitError::git("read the base branch")(error)),
        }
    }
}

/// The difference of two commits, as it is; from nothing when the first is none.
pub(crate) fn compare(
    repo: &git2::Repository,
    from: Option<Oid>,
    to: Oid,
) -> Result<git2::Diff<'_>, GitError> {
    let tree = |oid: Option<Oid>| match oid {
        Some(oid) => repo
            .find_commit(oid)
            .and_then(|commit| commit.tree())
            .map(Some),
        None => Ok(None),
    };
    let old = tree(from).map_err(GitError::git("read the commit the run forked from"))?;
    let new = tree(Some(to)).map_err(GitError::git("read the run's tip"))?;
    let mut options = DiffOptions::new();
    options
        .include_typechange(true)
        .max_size(LARGE)
        .context_lines(3)
        .ignore_submodules(false);
    repo.diff_tree_to_tree(old.as_ref(), new.as_ref(), Some(&mut options))
        .map_err(GitError::git("compare the run with its base"))
}

pub(crate) fn find_renames(diff: &mut git2::Diff<'_>) -> Result<(), GitError> {
    let mut find = DiffFindOptions::new();
    find.renames(true).rename_limit(RENAMES);
    diff.find_similar(Some(&mut find))
        .map_err(GitError::git("look for renames"))
}

/// Files and patch, both bounded; neither commits nor flags.
pub(crate) fn show(diff: &git2::Diff<'_>, with_patch: bool) -> Result<Diff, GitError> {
    let mut truncated = diff.deltas().len() > FILES;
    let mut files = Vec::new();
    for index in 0..diff.deltas().len().min(FILES) {
        files.push(describe(diff, index)?);
    }
    let mut patch = Vec::new();
    if with_patch {
        truncated |= print(diff, &mut patch)?;
    }
    Ok(Diff {
        head: String::new(),
        base_now: String::new(),
        files,
        patch: String::from_utf8_lossy(&patch).into_owned(),
        truncated,
        flags: Vec::new(),
        uncommitted: Vec::new(),
    })
}

/// Prints the patch, bounded; true when it was cut.
fn print(diff: &git2::Diff<'_>, patch: &mut Vec<u8>) -> Result<bool, GitError> {
    let printed = diff.print(DiffFormat::Patch, |_, _, line| {
        let origin = line.origin();
        if matches!(origin, '+' | '-' | ' ') {
            patch.push(origin as u8);
        }
        patch.extend_from_slice(line.content());
        patch.len() <= PATCH
    });
    match printed {
        Ok(()) => {}
        Err(error) if error.code() == ErrorCode::User => {}
        Err(error) => return Err(GitError::git("print the run's changes")(error)),
    }
    Ok(cut(patch, PATCH))
}

/// The path of a changed file, as it is shown.
fn path_of(delta: &git2::DiffDelta<'_>) -> String {
    let (old, new) = (delta.old_file(), delta.new_file());
    let path = new.path_bytes().or(old.path_bytes()).unwrap_or_default();
    String::from_utf8_lossy(path).into_owned()
}

/// What a difference changes in the file that is shown as `path`.
pub(crate) fn file_at(
    repo: &git2::Repository,
    mut diff: git2::Diff<'_>,
    path: &str,
) -> Result<FileDiff, GitError> {
    find_renames(&mut diff)?;
    let index = diff
        .deltas()
        .position(|delta| path_of(&delta) == path)
        .ok_or_else(|| GitError::NotFound {
            what: format!("a change of \"{}\"", sanitize_line(path)),
        })?;
    one_file(repo, &diff, index)
}

fn one_file(
    repo: &git2::Repository,
    diff: &git2::Diff<'_>,
    index: usize,
) -> Result<FileDiff, GitError> {
    let what = "compare a file with its base";
    let patch = git2::Patch::from_diff(diff, index).map_err(GitError::git(what))?;
    let delta = diff.get_delta(index).ok_or_else(|| GitError::NotFound {
        what: format!("file {index} of the diff"),
    })?;
    let sizes = repo.odb().map_err(GitError::git(what))?;
    let size = |file: git2::DiffFile<'_>| {
        let header = sizes.read_header(file.id()).ok();
        header.map(|(bytes, _)| bytes as u64)
    };
    let mut shown = FileDiff {
        patch: String::new(),
        truncated: false,
        binary: true,
        old_size: size(delta.old_file()),
        new_size: size(delta.new_file()),
    };
    let Some(mut patch) = patch else {
        return Ok(shown);
    };
    shown.binary = patch.delta().flags().is_binary();
    let mut text = Vec::new();
    let printed = patch.print(&mut |_, _, line| {
        let origin = line.origin();
        if matches!(origin, '+' | '-' | ' ') {
            text.push(origin as u8);
        }
        let room = (FILE_PATCH + 1).saturating_sub(text.len());
        let content = line.content();
        text.extend_from_slice(content.get(..room).unwrap_or(content));
        text.len() <= FILE_PATCH
    });
    match printed {
        Ok(()) => {}
        Err(error) if error.code() == ErrorCode::User => {}
        Err(error) => return Err(GitError::git("print the run's changes")(error)),
    }
    shown.truncated = cut(&mut text, FILE_PATCH);
    shown.patch = String::from_utf8_lossy(&text).into_owned();
    Ok(shown)
}

/// Cuts a patch to at most so many bytes, whole lines only; true when something went.
fn cut(patch: &mut Vec<u8>, most: usize) -> bool {
    if patch.len() <= most {
        return false;
    }
    let end = patch[..most]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    patch.truncate(end);
    true
}

/// The commit that the run's changes start from; none when the histories are unrelated.
pub(crate) fn fork_point(
    repo: &git2::Repository,
    worktree: &Worktree,
    head: Oid,
    base_now: Oid,
) -> Result<Option<Oid>, GitError> {
    let merge_base = |one, two| match repo.merge_base(one, two) {
        Ok(oid) => Ok(Some(oid)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(GitError::git("find where the run forked")(error)),
    };
    let recorded = worktree.base_oid()?;
    let starts_there = recorded == head
        || (repo.find_commit(recorded).is_ok()
            && repo.graph_descendant_of(head, recorded).unwrap_or(false));
    match merge_base(base_now, head)? {
        // Merged already: what it changed is seen from where it started.
        Some(fork) if fork == head => merge_base(recorded, head),
        // It started from commits that the base branch here does not have yet: they are not its own.
        Some(fork) if starts_there && repo.graph_descendant_of(recorded, fork).unwrap_or(false) => {
            Ok(Some(recorded))
        }
        None if starts_there => Ok(Some(recorded)),
        fork => Ok(fork),
    }
}

fn describe(diff: &git2::Diff<'_>, index: usize) -> Result<DiffFile, GitError> {
    let what = "compare a file with its base";
    let patch = git2::Patch::from_diff(diff, index).map_err(GitError::git(what))?;
    let delta = diff.get_delta(index).ok_or_else(|| GitError::NotFound {
        what: format!("file {index} of the diff"),
    })?;
    let (old, new) = (delta.old_file(), delta.new_file());
    let change = match delta.status() {
        Delta::Added | Delta::Copied => "added",
        Delta::Deleted => "deleted",
        Delta::Renamed => "renamed",
        _ if old.id() == new.id() && old.mode() != new.mode() => "mode",
        _ => "modified",
    };
    let lines = match patch {
        Some(patch) if !patch.delta().flags().is_binary() => {
            let (_, added, removed) = patch.line_stats().map_err(GitError::git(what))?;
            let small = |lines| u32::try_from(lines).unwrap_or(u32::MAX);
            Some((small(added), small(removed)))
        }
        _ => None,
    };
    Ok(DiffFile {
        path: path_of(&delta),
        change: change.to_owned(),
        added: lines.map(|(added, _)| added),
        removed: lines.map(|(_, removed)| removed),
        generated: false,
        flags: Vec::new(),
    })
}
