//! One lock per repository, for everything that changes its refs or its worktree registry.
//!
//! It is an advisory lock on `foreman.lock` in the common directory, so that every engine that
//! knows the repository meets the same one. The kernel lets go of it when its holder dies.

use crate::GitError;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for somebody else's change.
const PATIENCE: Duration = Duration::from_secs(60);

/// Held for as long as it lives.
#[derive(Debug)]
pub(crate) struct RepositoryLock {
    _file: File,
}

impl RepositoryLock {
    /// Waits for the lock of the repository with the common directory `common`.
    ///
    /// # Errors
    /// [`GitError::Busy`] after a minute; [`GitError::Io`] when the directory cannot be written.
    pub(crate) fn take(common: &Path) -> Result<Self, GitError> {
        let path = common.join("foreman.lock");
        let open = |write: bool| {
            OpenOptions::new()
                .read(true)
                .write(write)
                .create(write)
                .mode(0o644)
                .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
                .open(&path)
        };
        let file = open(true)
            .or_else(|error| match error.kind() {
                // Somebody else's lock file can be locked without writing it; that it is not there
                // either says less than why it could not be made.
                std::io::ErrorKind::PermissionDenied => open(false).map_err(|_| error),
                _ => Err(error),
            })
            .map_err(GitError::io("cannot open the lock", &path))?;
        let until = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(1);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(GitError::Busy {
                        path: common.to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) => {
                    return Err(GitError::io("cannot lock", &path)(error));
                }
            }
        }
    }
}
