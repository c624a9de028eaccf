//! Which trees have a branch checked out: the main one and every linked worktree.

use crate::worktree::registered_place;
use crate::{GitError, Repository, Worktree, bounded};
use git2::RepositoryOpenFlags;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A tree with its own git directory (HEAD and index).
#[derive(Debug)]
pub(crate) struct Tree {
    /// The checked-out files.
    pub(crate) root: PathBuf,
    /// Where its HEAD and index are.
    pub(crate) git_dir: PathBuf,
    /// The branch that an unfinished rebase or bisection there will come back to.
    pub(crate) paused: Option<&'static str>,
}

impl Tree {
    /// Its index file.
    pub(crate) fn index(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// Its path, safe to show.
    pub(crate) fn shown(&self) -> String {
        foreman_domain::sanitize_line(&self.root.to_string_lossy())
    }

    /// Opens its git directory without looking at the files.
    pub(crate) fn open(&self) -> Result<git2::Repository, GitError> {
        let none: [&OsStr; 0] = [];
        let flags = RepositoryOpenFlags::NO_SEARCH
            | RepositoryOpenFlags::NO_DOTGIT
            | RepositoryOpenFlags::BARE;
        git2::Repository::open_ext(&self.git_dir, flags, none)
            .or_else(|_| {
                git2::Repository::open_ext(&self.root, RepositoryOpenFlags::NO_SEARCH, none)
            })
            .map_err(GitError::git("open the checked-out base tree"))
    }
}

/// The trees on `worktree`'s base branch, or in a paused operation that will come back to it.
pub(crate) fn trees_on(
    repository: &Repository,
    worktree: &Worktree,
) -> Result<Vec<Tree>, GitError> {
    let branch = worktree.base_ref();
    let common = repository.common_dir();
    let mut trees = Vec::new();
    if let Some(root) = main_root(repository)? {
        consider(&mut trees, &branch, common.to_owned(), root);
    }
    let registry = common.join("worktrees");
    for entry in std::fs::read_dir(registry).into_iter().flatten().flatten() {
        let git_dir = entry.path();
        if let Some(root) =
            registered_place(&git_dir).and_then(|dot| dot.parent().map(Path::to_owned))
            && root.symlink_metadata().is_ok()
        {
            consider(&mut trees, &branch, git_dir, root);
        }
    }
    Ok(trees)
}

/// True when some tree has `branch` (a full name) checked out.
pub(crate) fn is_checked_out(
    repository: &Repository,
    branch: &str,
    except: &Path,
) -> Result<bool, GitError> {
    let mut trees = Vec::new();
    if let Some(root) = main_root(repository)? {
        consider(&mut trees, branch, repository.common_dir().to_owned(), root);
    }
    let registry = repository.common_dir().join("worktrees");
    for entry in std::fs::read_dir(registry).into_iter().flatten().flatten() {
        if entry.path() != except {
            consider(&mut trees, branch, entry.path(), PathBuf::new());
        }
    }
    Ok(!trees.is_empty())
}

fn consider(trees: &mut Vec<Tree>, branch: &str, git_dir: PathBuf, root: PathBuf) {
    let names = |file: &str, prefix: &str| {
        bounded::read(&git_dir.join(file), 4096).is_ok_and(|bytes| {
            String::from_utf8_lossy(&bytes)
                .trim_end()
                .strip_prefix(prefix)
                == Some(branch)
        })
    };
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let paused = if names("rebase-merge/head-name", "") || names("rebase-apply/head-name", "") {
        Some("a rebase")
    } else if bounded::read(&git_dir.join("BISECT_START"), 4096)
        .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).trim_end() == short)
    {
        Some("a bisection")
    } else if names("HEAD", "ref: ") && git_dir.join("MERGE_HEAD").exists() {
        Some("a merge")
    } else if names("HEAD", "ref: ") && git_dir.join("CHERRY_PICK_HEAD").exists() {
        Some("a cherry-pick")
    } else if names("HEAD", "ref: ") && git_dir.join("REVERT_HEAD").exists() {
        Some("a revert")
    } else {
        None
    };
    if paused.is_some() || names("HEAD", "ref: ") {
        trees.push(Tree {
            root,
            git_dir,
            paused,
        });
    }
}

/// The main tree of the repository; none when the common directory is bare.
fn main_root(repository: &Repository) -> Result<Option<PathBuf>, GitError> {
    let none: [&OsStr; 0] = [];
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
    let repo = match git2::Repository::open_ext(repository.common_dir(), flags, none) {
        Ok(repo) => repo,
        Err(error) if error.code() == git2::ErrorCode::Owner => repository.git_at_root()?,
        Err(error) => return Err(GitError::git("open the repository")(error)),
    };
    Ok(repo
        .workdir()
        .filter(|_| !repo.is_bare())
        .map(Path::to_owned))
}
