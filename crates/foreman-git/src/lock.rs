//! One lock per repository, for everything that changes its refs or its worktree registry.
//!
//! It is an advisory lock on `foreman.lock` in the common directory, so that every engine that
//! knows the repository meets the same one. The kernel lets go of it when its holder dies. The file is
//! empty but while somebody holds it, so the next holder knows that the last was cut short, and takes
//! away the lock files of git that it left.

use crate::{GitError, left_locks};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for somebody else's change.
const PATIENCE: Duration = Duration::from_secs(60);

/// Its name in the common directory.
pub(crate) const FILE: &str = "foreman.lock";

/// Held for as long as it lives.
#[derive(Debug)]
pub(crate) struct RepositoryLock {
    file: File,
    /// Something that an earlier holder left could not be taken away: the next one looks again.
    keeps_note: bool,
}

impl RepositoryLock {
    /// Waits for the lock of the repository with the common directory `common`.
    ///
    /// # Errors
    /// [`GitError::Busy`] after a minute; [`GitError::Io`] when the directory cannot be written.
    pub(crate) fn take(common: &Path) -> Result<Self, GitError> {
        let path = common.join(FILE);
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
                Ok(()) => return Ok(Self::taken(file, common)),
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

    fn taken(file: File, common: &Path) -> Self {
        let note = file.metadata().ok().filter(|note| note.len() > 0);
        let since = note.and_then(|note| note.modified().ok());
        let keeps_note = since.is_some_and(|since| !left_locks::clear(common, since));
        let mut lock = Self { file, keeps_note };
        if !keeps_note {
            // Best effort: somebody else's file may not be ours to write, and then nothing is taken
            // away after a crash either.
            let noted = lock
                .file
                .set_len(0)
                .and_then(|()| lock.file.write_all(b"held\n"));
            if let Err(error) = noted {
                tracing::debug!(%error, "the repository's lock does not say that it is held");
            }
        }
        lock
    }
}

impl Drop for RepositoryLock {
    fn drop(&mut self) {
        if !self.keeps_note
            && let Err(error) = self.file.set_len(0)
        {
            tracing::debug!(%error, "the repository's lock goes on saying that it is held");
        }
    }
}
