//! Which trees have a branch checked out: the main one and every linked worktree.

use crate::worktree::registered_place;
use crate::{GitError, Repository, Worktree, bounded};
use git2::RepositoryOpenFlags;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A tree with its own git directory (HEAD and index).
#[derive(Debug)]
pub(crate) struct Tree {
    /// The checked-out files.
    pub(crate) root: PathBuf,
    /// Where its HEAD and index are.
    pub(crate) git_dir: PathBuf,
    /// What git operation was begun there and never ended; it will come back to the branch.
    pub(crate) paused: Option<Paused>,
}

/// A git operation that somebody began and did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paused {
    what: &'static str,
    /// Ends it well, and takes it back.
    remedies: (&'static str, &'static str),
    since: Option<SystemTime>,
}

impl Paused {
    /// As a sentence about the tree `shown`, with the age: one that is days old is nobody's work in progress.
    pub(crate) fn sentence(&self, shown: &str) -> String {
        let (finish, abort) = self.remedies;
        let age = self
            .since
            .and_then(|since| SystemTime::now().duration_since(since).ok())
            .map(|age| format!(" for {}", in_words(age)))
            .unwrap_or_default();
        format!(
            "{} is paused in the tree at {shown}{age}: finish it (`{finish}`) or abort it (`{abort}`) \
             first",
            self.what
        )
    }
}

/// A length of time in its largest unit.
fn in_words(age: Duration) -> String {
    let seconds = age.as_secs();
    let (number, unit) = match seconds {
        0..60 => return "less than a minute".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..86_400 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural}")
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

/// The run's own tree, when its folder is there and registered.
pub(crate) fn own_tree(repository: &Repository, worktree: &Worktree) -> Option<Tree> {
    let git_dir = repository.admin_dir(worktree);
    let registered = registered_place(&git_dir)?;
    if registered != worktree.path.join(".git") || !worktree.path.is_dir() {
        return None;
    }
    let mut trees = Vec::new();
    consider(
        &mut trees,
        &worktree.branch_ref(),
        git_dir,
        worktree.path.clone(),
    );
    trees.pop()
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
    let on_branch = names("HEAD", "ref: ");
    let began = |file: &str| {
        let seen = std::fs::symlink_metadata(git_dir.join(file)).ok()?;
        Some(seen.modified().ok())
    };
    let starts = |file: &str| {
        bounded::read(&git_dir.join(file), 4096)
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).trim_end() == short)
    };
    let paused = PAUSES
        .iter()
        .filter(|pause| match pause.of {
            Of::HeadName(file) => names(file, ""),
            Of::Start(file) => starts(file),
            Of::Head => on_branch,
        })
        .find_map(|pause| {
            began(pause.mark).map(|since| Paused {
                what: pause.what,
                remedies: pause.remedies,
                since,
            })
        });
    if paused.is_some() || on_branch {
        trees.push(Tree {
            root,
            git_dir,
            paused,
        });
    }
}

/// How a kind of unfinished operation is known.
struct Pause {
    what: &'static str,
    of: Of,
    /// Comes into being with it.
    mark: &'static str,
    remedies: (&'static str, &'static str),
}

/// Which branch an operation belongs to.
enum Of {
    /// The one whose full name is in this file.
    HeadName(&'static str),
    /// The one whose short name is in this file.
    Start(&'static str),
    /// The one that is checked out.
    Head,
}

const PAUSES: &[Pause] = &[
    Pause {
        what: "a rebase",
        of: Of::HeadName("rebase-merge/head-name"),
        mark: "rebase-merge",
        remedies: ("git rebase --continue", "git rebase --abort"),
    },
    Pause {
        what: "a rebase",
        of: Of::HeadName("rebase-apply/head-name"),
        mark: "rebase-apply",
        remedies: ("git rebase --continue", "git rebase --abort"),
    },
    Pause {
        what: "a bisection",
        of: Of::Start("BISECT_START"),
        mark: "BISECT_START",
        remedies: ("git bisect reset", "git bisect reset"),
    },
    Pause {
        what: "a merge",
        of: Of::Head,
        mark: "MERGE_HEAD",
        remedies: ("git merge --continue", "git merge --abort"),
    },
    Pause {
        what: "a cherry-pick",
        of: Of::Head,
        mark: "CHERRY_PICK_HEAD",
        remedies: ("git cherry-pick --continue", "git cherry-pick --abort"),
    },
    Pause {
        what: "a revert",
        of: Of::Head,
        mark: "REVERT_HEAD",
        remedies: ("git revert --continue", "git revert --abort"),
    },
    Pause {
        what: "a series of patches (git am)",
        of: Of::Head,
        mark: "rebase-apply/applying",
        remedies: ("git am --continue", "git am --abort"),
    },
];

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
