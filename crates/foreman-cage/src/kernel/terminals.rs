//! Pseudo-terminals of the `/dev/pts` that is seen here.

use super::{check, owned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Opens a new terminal of the `/dev/pts` that is seen here: controlling side, program's side.
pub(crate) fn open_terminal() -> io::Result<(OwnedFd, OwnedFd)> {
    const FLAGS: libc::c_int = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    let master = owned(unsafe { libc::open(c"/dev/ptmx".as_ptr(), FLAGS) }.into())?;
    let unlock: libc::c_int = 0;
    // SAFETY: the argument is a pointer to a number, as this request wants.
    check(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlock) }.into())?;
    // SAFETY: the argument is flags, as this request wants.
    let peer = owned(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, FLAGS) }.into())?;
    Ok((master, peer))
}

/// Makes a terminal the controlling one of the caller's new session.
pub(crate) fn take_terminal(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the argument is a number, as this request wants.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }.into())?;
    Ok(())
}

/// Sets the size of a terminal, which tells the program in it.
pub(crate) fn resize_terminal(terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> io::Result<()> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the argument is a pointer to the structure, as this request wants.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }.into())?;
    Ok(())
}
