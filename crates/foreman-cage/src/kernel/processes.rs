//! Processes: forking into namespaces, names that are not reused, signals, limits.

use super::{check, owned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Forks like `fork`, into the given new namespaces, as a sister of the caller: the new process is a
/// child of the caller's parent. Returns 0 in the new process.
///
/// # Safety
/// The process must have one thread, as with `fork`; unlike it, no handlers of the C library run.
pub(crate) unsafe fn fork_sister(namespaces: libc::c_int) -> io::Result<libc::pid_t> {
    let flags = namespaces | libc::CLONE_PARENT | libc::SIGCHLD;
    // A null stack means "as fork does": the copied one.
    // SAFETY: without CLONE_VM the new process has its own copy of everything; the caller promised
    // that there is one thread, so no lock of the copy is held by a thread that is not there.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags as libc::c_ulong, 0usize, 0, 0, 0) };
    libc::pid_t::try_from(check(result)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A descriptor that names a process: readable when it has ended.
pub(crate) fn process_fd(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })
}

/// A descriptor that names a thread, where the kernel can, else its process: readable when it has ended.
pub(crate) fn thread_fd(thread: libc::pid_t, process: libc::pid_t) -> io::Result<OwnedFd> {
    const PIDFD_THREAD: libc::c_int = libc::O_EXCL;
    // SAFETY: takes numbers only.
    owned(unsafe { libc::syscall(libc::SYS_pidfd_open, thread, PIDFD_THREAD) })
        .or_else(|_| process_fd(process))
}

/// How a process ended, as whoever waited for it was told it; nothing before that, or where the kernel
/// does not say.
pub(crate) fn end_of_process(process: BorrowedFd<'_>) -> Option<libc::c_int> {
    // The first version of `struct pidfd_info`.
    #[repr(C)]
    struct Info {
        mask: u64,
        cgroup: u64,
        numbers: [u32; 11],
        exit_code: i32,
    }
    const _: () = assert!(size_of::<Info>() == 64);
    const PIDFD_GET_INFO: libc::Ioctl = 0xc040_ff0b;
    const EXIT: u64 = 1 << 3;
    let mut info = Info {
        mask: EXIT,
        cgroup: 0,
        numbers: [0; 11],
        exit_code: 0,
    };
    // SAFETY: the argument is a pointer to a structure of the size that the request names.
    check(unsafe { libc::ioctl(process.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) }.into())
        .ok()?;
    (info.mask & EXIT != 0).then_some(info.exit_code)
}

/// How a child ended: its exit code, or the number of the signal.
pub(crate) type ChildEnd = Result<u8, u8>;

/// Collects one child that has ended; `None` when none has yet.
///
/// By the bare status, because a child may end by a signal that has no name.
///
/// # Errors
/// `ECHILD` when there is no child at all.
pub(crate) fn reap_one() -> io::Result<Option<(libc::pid_t, ChildEnd)>> {
    let mut status = 0;
    // SAFETY: the status is valid for the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    match check(pid.into())? {
        0 => Ok(None),
        _ if libc::WIFSIGNALED(status) => Ok(Some((pid, Err(libc::WTERMSIG(status) as u8)))),
        _ => Ok(Some((pid, Ok(libc::WEXITSTATUS(status) as u8)))),
    }
}

/// Sends a signal to the very process that a descriptor names.
pub(crate) fn signal_process(process: BorrowedFd<'_>, signal: libc::c_int) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: takes numbers and a null pointer, which is allowed.
    check(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            none,
            0,
        )
    })?;
    Ok(())
}

/// `prctl` with up to two arguments.
pub(crate) fn process_control(
    option: libc::c_int,
    value: libc::c_ulong,
) -> io::Result<libc::c_int> {
    // SAFETY: only options that take numbers are used in this crate.
    let result = unsafe { libc::prctl(option, value, 0 as libc::c_ulong, 0 as libc::c_ulong, 0) };
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Sets a limit, soft and hard.
pub(crate) fn limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: value,
        rlim_max: value,
    };
    // SAFETY: the structure is valid for the call.
    check(unsafe { libc::setrlimit(resource, &raw const limit) }.into())?;
    Ok(())
}

/// Most that a limit may be set to without privilege.
pub(crate) fn hard_limit(resource: libc::__rlimit_resource_t) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is valid for the call.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) }.into())?;
    Ok(limit.rlim_max)
}

/// Gives every signal its default action.
pub(crate) fn reset_signal_handlers() {
    for signal in 1..=libc::SIGRTMAX() {
        // Some cannot be changed, which is what we want of them.
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Ends the process at once: no destructors, no handlers. For children that were forked.
pub(crate) fn end_process(code: libc::c_int) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}
