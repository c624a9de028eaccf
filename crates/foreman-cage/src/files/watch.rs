//! How a program that is being started gives out the descriptor on which its calls are answered.

use crate::kernel;
use crate::seccomp;
use crate::wire;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What is to be watched of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watch {
    /// Every open, not only those that write.
    pub reads: bool,
}

/// What a program says before its first own call.
#[derive(Debug, Serialize, Deserialize)]
enum Said {
    /// Comes with the descriptor.
    Watched,
    /// The kernel refused, with this answer.
    Unwatched(i32),
}

/// Has the caller watched, as the very last before it becomes its program, and gives out the descriptor
/// at `door`. From here on a call on a file waits for whoever is behind the door.
///
/// # Errors
/// When nobody took it. A kernel that cannot watch is none: that is told at the door.
pub(crate) fn put_up(watch: Watch, door: &OwnedFd) -> io::Result<()> {
    match seccomp::watch::install(watch.reads) {
        Ok(listener) => wire::send(door.as_fd(), &Said::Watched, &[listener.as_fd()]),
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            wire::send(door.as_fd(), &Said::Unwatched(errno), &[])
        }
    }
}

/// Waits at the other side of the door. Nothing when the program ended before.
///
/// # Errors
/// Why the kernel could not watch it.
pub(crate) async fn taken_at(door: OwnedFd) -> io::Result<Option<OwnedFd>> {
    kernel::do_not_block(door.as_fd())?;
    let door = kernel::on_runtime(door)?;
    let received = loop {
        let mut readable = door.readable().await?;
        if let Ok(received) = readable.try_io(|door| wire::receive(door.get_ref().as_fd())) {
            break received?;
        }
    };
    match received {
        None => Ok(None),
        Some((Said::Watched, fds)) => Ok(fds.into_iter().next()),
        Some((Said::Unwatched(errno), _)) => Err(io::Error::from_raw_os_error(errno)),
    }
}
