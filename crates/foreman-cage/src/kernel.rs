//! The system calls that neither std nor nix offers, each as a safe function with the kernel's
//! answer as its error.
//!
//! Nothing here knows what a cage is.

mod attempts;
mod descriptors;
mod events;
mod mounts;
mod notifications;
mod privilege;
mod processes;
mod terminals;

pub(crate) use attempts::{
    begin_connect, finish_connect, try_io_uring, try_read_memory, try_socket,
    try_terminal_injection,
};
pub(crate) use descriptors::{
    accepted, close_all_but, close_on_exec_from, copy_of_descriptor, do_not_block, duplicate_to,
    is_unix_socket, on_runtime,
};
pub(crate) use events::Events;
pub(crate) use mounts::{
    MountFlags, attach_tree, attach_tree_over, clone_mount, clone_tree, clone_tree_at,
    make_writable, pivot_here, restrict_mount, restrict_tree,
};
pub(crate) use notifications::{
    Notification, call_waits, can_listen, end_with_descriptor, end_with_error, end_with_success,
    install_listening_filter, let_go_on, read_memory, receive_call, wake_in_step,
};
pub(crate) use privilege::{
    drop_capabilities, drop_own_capabilities, enter_landlock, install_filter, landlock_abi,
    new_session_keyring,
};
pub(crate) use processes::{
    end_of_process, end_process, fork_sister, hard_limit, limit, process_control, process_fd,
    reap_one, reset_signal_handlers, signal_process, thread_fd,
};
pub(crate) use terminals::{open_terminal, resize_terminal, take_terminal};

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The C string of a path.
///
/// # Errors
/// `InvalidInput` when it holds a NUL byte.
pub(crate) fn c_path(path: impl AsRef<Path>) -> io::Result<CString> {
    c_text(path.as_ref().as_os_str())
}

/// The C string of any text.
///
/// # Errors
/// `InvalidInput` when it holds a NUL byte.
pub(crate) fn c_text(text: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(text.as_ref().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(result)?).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
