//! Why a repository cannot be used, or an operation on it was refused.
//!
//! A variant is the operation or the finding, with its subject; [`GitError::code`] is the closed
//! class that callers switch on and [`GitError::hint`] the remedy.

use foreman_domain::{Code, Failure};
use std::path::PathBuf;

/// A typed refusal or failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// No repository at or above the path.
    #[error("{} is not in a git repository", .path.display())]
    NotARepository {
        /// What was asked for.
        path: PathBuf,
    },
    /// The path does not exist or cannot be entered.
    #[error("{} cannot be opened: {source}", .path.display())]
    Unreachable {
        /// What was asked for.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A bare repository has no tree to start from.
    #[error("{} is a bare repository", .path.display())]
    Bare {
        /// The repository.
        path: PathBuf,
    },
    /// The repository belongs to somebody else.
    #[error("the repository {} belongs to another user", .path.display())]
    ForeignOwner {
        /// The repository.
        path: PathBuf,
    },
    /// Something that must be readable is not.
    #[error("the repository {} is damaged: {what}", .path.display())]
    Corrupt {
        /// The repository.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The repository uses something that cannot be caged safely.
    #[error("the repository {} cannot be caged: {why}", .path.display())]
    Unsupported {
        /// The repository.
        path: PathBuf,
        /// The feature and why it stands in the way.
        why: String,
        /// What to do.
        hint: String,
    },
    /// There is nothing to start from.
    #[error("the repository {} has no commits yet", .path.display())]
    NoCommits {
        /// The repository.
        path: PathBuf,
    },
    /// HEAD is not on a branch and no base was named.
    #[error("{} is on no branch (detached HEAD), so there is no branch to merge into", .path.display())]
    DetachedHead {
        /// The repository.
        path: PathBuf,
    },
    /// The named base is not there, or is not a branch.
    #[error("the base \"{base}\" is not a branch of this repository{what}")]
    BadBase {
        /// What was named.
        base: String,
        /// What it is instead, with a leading separator; may be empty.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The run's branch exists already.
    #[error("the branch \"{branch}\" exists already{what}")]
    BranchClash {
        /// The branch.
        branch: String,
        /// Where, with a leading separator; may be empty.
        what: String,
    },
    /// The place for a worktree cannot be used.
    #[error("the worktree cannot be put at {}: {why}", .path.display())]
    BadPlace {
        /// The place.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A checkout would not fit.
    #[error(
        "the worktree needs about {} MiB for its tracked files, and {} MiB are free at {}",
        .needed.div_ceil(1 << 20), .free >> 20, .path.display()
    )]
    NoRoom {
        /// Where it would be.
        path: PathBuf,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// What was checked out is not what the base commit holds.
    #[error("the checked-out worktree differs from its base commit: {what}")]
    CheckoutDiffers {
        /// The first difference.
        what: String,
    },
    /// Another process holds the repository's lock.
    #[error("another process has been working on the repository {} for too long", .path.display())]
    Busy {
        /// The repository.
        path: PathBuf,
    },
    /// What the run left to collect is not well formed, or is incomplete.
    #[error("the run's commits could not be collected: {what}")]
    BadHarvest {
        /// What was found.
        what: String,
    },
    /// The run's branch was moved by hand.
    #[error(
        "the branch \"{branch}\" was moved by hand (it is at {found}, it was left at {expected})"
    )]
    BranchMoved {
        /// The branch.
        branch: String,
        /// Where it is, in hexadecimal; `gone` when it is not there.
        found: String,
        /// Where it was left, in hexadecimal.
        expected: String,
        /// Where the collected commits are kept.
        kept: String,
    },
    /// What was shown has moved.
    #[error("{what}")]
    Stale {
        /// What moved, as a sentence.
        what: String,
    },
    /// A merge is refused.
    #[error("{why}")]
    MergeRefused {
        /// Why, as a sentence.
        why: String,
    },
    /// A commit, snapshot or file is not there.
    #[error("{what} is not in the repository")]
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// A snapshot would be too large to take.
    #[error("{} is too large to keep in a snapshot: {why}", .path.display())]
    SnapshotTooLarge {
        /// The file at which it became too large.
        path: PathBuf,
        /// Size and bound.
        why: String,
    },
    /// A snapshot is not well formed.
    #[error("the snapshot {name} cannot be restored: {what}")]
    BadSnapshot {
        /// Its ref.
        name: String,
        /// What was found.
        what: String,
    },
    /// A restore would overwrite something.
    #[error("{} is in the way: a restore never overwrites", .path.display())]
    InTheWay {
        /// What exists.
        path: PathBuf,
    },
    /// The git program is missing, failed, or took too long.
    #[error("git {what} failed: {detail}")]
    Program {
        /// The sub-command.
        what: String,
        /// Its last words, or what happened to it.
        detail: String,
    },
    /// A push did not happen.
    #[error("nothing was pushed to {remote}: {detail}")]
    Push {
        /// The remote and its address.
        remote: String,
        /// What stood in the way.
        kind: crate::PushRefusal,
        /// What git or the remote said. Untrusted text, made safe.
        detail: String,
    },
    /// A file operation failed.
    #[error("{what} {}: {source}", .path.display())]
    Io {
        /// What was tried, as the start of a sentence: `cannot write`.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// libgit2 refused.
    #[error("cannot {what}: {}", .source.message())]
    Git {
        /// What was tried: `read the base commit`.
        what: &'static str,
        /// Why.
        #[source]
        source: git2::Error,
    },
}

impl GitError {
    /// The class of the refusal.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::NotARepository { .. }
            | Self::Unreachable { .. }
            | Self::DetachedHead { .. }
            | Self::BadBase { .. }
            | Self::NoCommits { .. } => Code::BadInput,
            Self::Bare { .. }
            | Self::ForeignOwner { .. }
            | Self::Corrupt { .. }
            | Self::Unsupported { .. } => Code::BadRepository,
            Self::BranchClash { .. }
            | Self::BadPlace { .. }
            | Self::BranchMoved { .. }
            | Self::MergeRefused { .. }
            | Self::SnapshotTooLarge { .. }
            | Self::InTheWay { .. } => Code::Conflict,
            Self::Push {
                kind: crate::PushRefusal::NotFastForward | crate::PushRefusal::Declined,
                ..
            } => Code::Conflict,
            Self::Push { .. } => Code::Environment,
            Self::Stale { .. } => Code::Stale,
            Self::NotFound { .. } => Code::NotFound,
            Self::Busy { .. } => Code::Busy,
            Self::NoRoom { .. } => Code::DiskFull,
            Self::BadHarvest { .. } | Self::BadSnapshot { .. } => Code::BadRepository,
            Self::Program { detail, .. } if is_disk_full_text(detail) => Code::DiskFull,
            Self::Io { source, .. } if is_disk_full(source) => Code::DiskFull,
            Self::Git { source, .. } if is_disk_full_text(source.message()) => Code::DiskFull,
            Self::CheckoutDiffers { .. }
            | Self::Program { .. }
            | Self::Io { .. }
            | Self::Git { .. } => Code::Environment,
        }
    }

    /// What to do, as a sentence.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        if self.code() == Code::DiskFull && !matches!(self, Self::NoRoom { .. }) {
            return Some("Free some space and try again; nothing was left half-made.".into());
        }
        Some(match self {
            Self::NotARepository { .. } => {
                "Name a folder inside a git repository with --repo, or run `git init` and commit first.".into()
            }
            Self::Unreachable { .. } => "Check the path given with --repo.".into(),
            Self::Bare { .. } => {
                "Name a checked-out tree of it: `git worktree add ../tree BRANCH`, then --repo ../tree.".into()
            }
            Self::ForeignOwner { path } => format!(
                "Work as its owner, or trust it: `git config --global --add safe.directory '{}'`.",
                path.display()
            ),
            Self::Corrupt { .. } => "Run `git fsck` there and repair it first.".into(),
            Self::Unsupported { hint, .. } | Self::BadBase { hint, .. } => hint.clone(),
            Self::NoCommits { .. } => "Make a first commit: `git commit --allow-empty -m start`.".into(),
            Self::DetachedHead { .. } => "Say which branch to start from: pass --base BRANCH.".into(),
            Self::BranchClash { branch, .. } => {
                format!("Rename or delete it first: `git branch -m {branch} other-name`.")
            }
            Self::BadPlace { .. } => "Set FOREMAN_DATA_DIR to a folder outside any repository.".into(),
            Self::NoRoom { .. } => {
                "Free some space there, or set FOREMAN_DATA_DIR to a larger disk; nothing was made.".into()
            }
            Self::Busy { .. } => "Wait for it, or end it, and try again.".into(),
            Self::BadHarvest { .. } => "The worktree is kept as it is; look at it there.".into(),
            Self::BranchMoved { kept, .. } => {
                format!("The run's commits are kept at {kept}; move the branch back or take them from there.")
            }
            Self::Stale { .. } => "Look at the diff again and decide again.".into(),
            Self::SnapshotTooLarge { .. } => {
                "Remove what is not needed from the worktree and discard again.".into()
            }
            Self::InTheWay { .. } => "Move it away and restore again.".into(),
            Self::Io { source, .. } if is_not_writable(source) => WRITABLE.into(),
            Self::Git { source, .. } if source.message().contains("Permission denied") => {
                WRITABLE.into()
            }
            Self::Push { kind, .. } => push_hint(*kind)?.to_owned(),
            Self::Program { .. } => "Check that git (2.30 or newer) is installed and works there.".into(),
            Self::MergeRefused { .. }
            | Self::CheckoutDiffers { .. }
            | Self::NotFound { .. }
            | Self::BadSnapshot { .. }
            | Self::Io { .. }
            | Self::Git { .. } => return None,
        })
    }

    /// Wraps a libgit2 error with what was tried.
    pub(crate) fn git(what: &'static str) -> impl FnOnce(git2::Error) -> Self {
        move |source| Self::Git { what, source }
    }

    /// Wraps an error number with what was tried on which path.
    pub(crate) fn io_errno(
        what: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(nix::errno::Errno) -> Self {
        let path = path.to_owned();
        move |errno| Self::Io {
            what,
            path,
            source: errno.into(),
        }
    }

    /// Wraps an IO error with what was tried on which path.
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

impl From<GitError> for Failure {
    fn from(error: GitError) -> Self {
        Self {
            hint: error.hint(),
            ..Self::new(error.code(), error.to_string())
        }
    }
}

fn push_hint(kind: crate::PushRefusal) -> Option<&'static str> {
    use crate::PushRefusal as Why;
    match kind {
        Why::Credentials => Some(
            "Nobody is asked for a password here: load the key (`ssh-add`) or store the credential \
             (`git config credential.helper`), and push again.",
        ),
        Why::Network | Why::TooLong => {
            Some("Check the remote's address (`git remote -v`) and the network, and push again.")
        }
        Why::NotFastForward => Some(
            "The branch there has something else: name another with --branch, or replace what was \
             pushed before with --replace.",
        ),
        Why::Declined => {
            Some("The remote has a rule against it; name another branch with --branch.")
        }
        Why::Other => None,
    }
}

fn is_disk_full(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
    )
}

/// What to do about a repository that may not be written.
const WRITABLE: &str =
    "It must be writable for you: a run adds a branch and a worktree to its repository.";

fn is_not_writable(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
    )
}

fn is_disk_full_text(text: &str) -> bool {
    text.contains("No space left on device") || text.contains("Disk quota exceeded")
}
