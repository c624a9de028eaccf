//! Pipes that carry bytes inside the kernel.
//!
//! A direction holds a pipe only while bytes move, so idle connections cost none. A few pipes are
//! kept and made large; the others have the usual size and are closed after use. Large ones count
//! against a limit that the operator's account shares, which is why they are few.

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A pipe, empty whenever it is not in use.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// The end that is read.
    pub read: OwnedFd,
    /// The end that is written.
    pub write: OwnedFd,
    _large: Option<Large>,
}

/// Counts a large pipe for as long as it exists.
#[derive(Debug)]
struct Large(Arc<AtomicUsize>);

impl Large {
    fn one_of(count: &Arc<AtomicUsize>) -> Option<Self> {
        let more = |now: usize| (now < Pipes::LARGE_AT_MOST).then_some(now + 1);
        count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(Self(count.clone()))
    }
}

impl Drop for Large {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The pipes of one gateway.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    idle: Mutex<Vec<Pipe>>,
    large: Arc<AtomicUsize>,
    #[cfg(test)]
    none: bool,
}

impl Pipes {
    /// Bytes that are moved at once at most, and the size of a large pipe.
    pub const CHUNK: usize = 1 << 20;
    const LARGE_AT_MOST: usize = 8;

    /// That never has a pipe.
    #[cfg(test)]
    pub fn none() -> Self {
        Self {
            none: true,
            ..Self::default()
        }
    }

    /// A pipe, kept or new.
    ///
    /// # Errors
    /// When the process has too many open files.
    pub fn take(&self) -> io::Result<Pipe> {
        #[cfg(test)]
        if self.none {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if let Some(pipe) = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
        {
            return Ok(pipe);
        }
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let large = Large::one_of(&self.large);
        if large.is_some() {
            // Where it may not be large, the usual size does.
            let size = i32::try_from(Self::CHUNK).unwrap_or(i32::MAX);
            let _ = fcntl(&write, FcntlArg::F_SETPIPE_SZ(size));
        }
        Ok(Pipe {
            read,
            write,
            _large: large,
        })
    }

    /// Takes back an empty pipe.
    pub fn give_back(&self, pipe: Pipe) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < Self::LARGE_AT_MOST {
            idle.push(pipe);
        }
    }
}

/// Moves up to `length` bytes; never blocks.
pub(crate) fn moved(from: BorrowedFd<'_>, to: BorrowedFd<'_>, length: usize) -> io::Result<usize> {
    let flags = SpliceFFlags::SPLICE_F_MOVE | SpliceFFlags::SPLICE_F_NONBLOCK;
    splice(from, None, to, None, length, flags).map_err(Into::into)
}
