//! Attempts that the probes make: each must fail in a cage, and harms nothing where it does not.

use super::{check, owned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Tries to open a socket.
pub(crate) fn try_socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    owned(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) }.into())
}

/// Tries to set up an io_uring.
pub(crate) fn try_io_uring() -> io::Result<OwnedFd> {
    let parameters = [0u8; 256];
    // SAFETY: the kernel's structure has 120 bytes, so it stays inside the array.
    owned(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_ptr()) })
}

/// Tries to type a character into the terminal on standard input.
pub(crate) fn try_terminal_injection() -> io::Result<()> {
    let character: libc::c_char = 0;
    // SAFETY: the argument is a pointer to a character, as this request wants.
    check(unsafe { libc::ioctl(0, libc::TIOCSTI, &raw const character) }.into())?;
    Ok(())
}

/// Tries to read a word of another process's memory.
pub(crate) fn try_read_memory(pid: libc::pid_t) -> io::Result<()> {
    let mut word = [0u8; 8];
    let here = libc::iovec {
        iov_base: word.as_mut_ptr().cast(),
        iov_len: word.len(),
    };
    let there = libc::iovec {
        iov_base: (&raw const word).cast_mut().cast(),
        iov_len: word.len(),
    };
    // SAFETY: `here` describes the array; `there` is only looked at in the other process.
    check(unsafe {
        libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) as libc::c_long
    })?;
    Ok(())
}

/// Begins a TCP connection without waiting for it.
pub(crate) fn begin_connect(to: std::net::SocketAddrV4) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
    let socket = try_socket(libc::AF_INET, kind, 0)?;
    let address = nix::sys::socket::SockaddrIn::from(to);
    match nix::sys::socket::connect(socket.as_raw_fd(), &address) {
        Ok(()) | Err(nix::Error::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Waits for the outcome of a connection that was begun.
pub(crate) fn finish_connect(socket: BorrowedFd<'_>, limit: std::time::Duration) -> io::Result<()> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let mut waiting = [PollFd::new(socket, PollFlags::POLLOUT)];
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::ZERO);
    if poll(&mut waiting, limit)? == 0 {
        return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
    }
    match nix::sys::socket::getsockopt(&socket, nix::sys::socket::sockopt::SocketError)? {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}
