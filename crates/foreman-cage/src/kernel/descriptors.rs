//! File descriptors: which stay, which block, which are watched.

use super::{check, owned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Marks every descriptor from `first` on to be closed at the next `exec`.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: changes a flag of descriptors only.
    check(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC as libc::c_uint,
        )
    })?;
    Ok(())
}

/// Closes every descriptor from 3 on but those in `keep`.
///
/// # Safety
/// No value that owns one of the closed descriptors may be used or dropped afterwards.
pub(crate) unsafe fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    let mut keep: Vec<libc::c_uint> = keep
        .iter()
        .filter_map(|fd| libc::c_uint::try_from(*fd).ok())
        .filter(|fd| *fd > 2)
        .collect();
    keep.sort_unstable();
    let mut next = 3;
    let close = |first: libc::c_uint, last: libc::c_uint| {
        if first > last {
            return Ok(());
        }
        // SAFETY: the caller promised that no owner of these is used any more.
        check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
    };
    for fd in keep {
        close(next, fd - 1)?;
        next = fd + 1;
    }
    close(next, libc::c_uint::MAX)
}

/// Puts a descriptor on the current tokio runtime.
pub(crate) fn on_runtime(fd: OwnedFd) -> io::Result<tokio::io::unix::AsyncFd<OwnedFd>> {
    // SAFETY: the value owns the descriptor, so it stays the same open file until it is taken off
    // the runtime.
    Ok(unsafe { tokio::io::unix::AsyncFd::register(fd) }?)
}

/// Makes calls on a descriptor return instead of waiting.
pub(crate) fn do_not_block(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: reads flags only.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) }.into())?;
    let flags = flags as libc::c_int | libc::O_NONBLOCK;
    // SAFETY: sets flags only.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags) }.into())?;
    Ok(())
}

/// Makes `target` a copy of `fd` that survives `exec`.
pub(crate) fn duplicate_to(fd: RawFd, target: RawFd) -> io::Result<()> {
    if fd == target {
        // `dup2` would leave the flag as it is.
        // SAFETY: changes a flag of a descriptor only.
        return check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }.into()).map(drop);
    }
    // SAFETY: the standard streams, which are the only targets, belong to no owning value.
    check(unsafe { libc::dup2(fd, target) }.into())?;
    Ok(())
}

/// A copy of a descriptor that another process has open; the same open file.
pub(crate) fn copy_of_descriptor(process: BorrowedFd<'_>, fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), fd, 0) })
}

/// Whether it is a Unix socket.
pub(crate) fn is_unix_socket(fd: BorrowedFd<'_>) -> bool {
    let mut domain: libc::c_int = 0;
    let mut size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `size` bytes, which is that of the number.
    let asked = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DOMAIN,
            (&raw mut domain).cast(),
            &raw mut size,
        )
    };
    asked == 0 && domain == libc::AF_UNIX
}

/// The next connection to a socket that listens.
pub(crate) fn accepted(door: BorrowedFd<'_>) -> nix::Result<OwnedFd> {
    let none = std::ptr::null_mut();
    // SAFETY: the address is not asked for.
    let accepted = owned(
        unsafe {
            libc::accept4(
                door.as_raw_fd(),
                none,
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC,
            )
        }
        .into(),
    );
    accepted.map_err(|error| nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
}
