//! Calls of other processes that wait for an answer: seccomp's user notifications.

use super::{check, owned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// A call that waits.
#[derive(Clone, Copy)]
pub(crate) struct Notification(libc::seccomp_notif);

impl Notification {
    /// Names it towards the kernel.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The thread that waits, as this process sees it; 0 when it does not.
    pub fn thread(&self) -> i32 {
        i32::try_from(self.0.pid).unwrap_or(0)
    }

    /// Which call.
    pub fn number(&self) -> i64 {
        self.0.data.nr.into()
    }

    /// One of its six arguments.
    pub fn argument(&self, index: usize) -> u64 {
        self.0.data.args.get(index).copied().unwrap_or(0)
    }

    /// One that nobody made.
    #[cfg(test)]
    pub fn of(number: i64, arguments: [u64; 6]) -> Self {
        Self(libc::seccomp_notif {
            id: 0,
            pid: 0,
            flags: 0,
            data: libc::seccomp_data {
                nr: number as libc::c_int,
                arch: 0,
                instruction_pointer: 0,
                args: arguments,
            },
        })
    }
}

const LISTENING: libc::c_ulong =
    libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// Installs a filter for the caller and what it starts; the descriptor on which its calls are answered.
/// Signals that do not kill leave a caller waiting, once its call was received.
pub(crate) fn install_listening_filter(filter: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let length = libc::c_ushort::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len: length,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program's length is that of the slice, and the kernel only reads it.
    owned(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            LISTENING,
            &raw const program,
        )
    })
}

/// Whether the kernel could install such a filter.
///
/// # Errors
/// Its answer when it could not.
pub(crate) fn can_listen() -> io::Result<()> {
    let none = std::ptr::null::<libc::sock_fprog>();
    // SAFETY: a null program is refused before anything is installed; flags are looked at before it.
    let tried = check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            LISTENING,
            none,
        )
    });
    match tried {
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Takes the next call that waits.
///
/// # Errors
/// `ENOENT` when its caller ended meanwhile.
pub(crate) fn receive_call(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    // The kernel refuses a structure that is not all zeros.
    let mut call = Notification(libc::seccomp_notif {
        id: 0,
        pid: 0,
        flags: 0,
        data: libc::seccomp_data {
            nr: 0,
            arch: 0,
            instruction_pointer: 0,
            args: [0; 6],
        },
    });
    // SAFETY: the argument is a pointer to the structure, as this request wants.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_RECV,
            &raw mut call.0,
        )
    };
    check(result.into())?;
    Ok(call)
}

/// Whether a call still waits: its thread's number is not another's, and its memory was its own.
pub(crate) fn call_waits(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the argument is a pointer to a number, as this request wants.
    let valid = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
            &raw const id,
        )
    };
    valid == 0
}

fn answer(listener: BorrowedFd<'_>, answer: &libc::seccomp_notif_resp) -> io::Result<()> {
    // SAFETY: the argument is a pointer to the structure, as this request wants.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SEND,
            std::ptr::from_ref(answer),
        )
    };
    check(result.into())?;
    Ok(())
}

/// Lets a call go on: the kernel does it, and judges it, as if nobody had been asked.
pub(crate) fn let_go_on(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let go_on = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    answer(listener, &go_on)
}

/// Ends a call with an error.
pub(crate) fn end_with_error(listener: BorrowedFd<'_>, id: u64, errno: i32) -> io::Result<()> {
    let error = libc::seccomp_notif_resp {
        id,
        val: 0,
        // A call must not be told that it succeeded.
        error: -errno.max(1),
        flags: 0,
    };
    answer(listener, &error)
}

/// Ends a call as one that succeeded: what it asks for was done for its caller.
pub(crate) fn end_with_success(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    let done = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: 0,
        flags: 0,
    };
    answer(listener, &done)
}

/// Ends a call with a copy of a descriptor, which its caller gets under a new number.
///
/// # Errors
/// The kernel's answer; the call goes on waiting then.
pub(crate) fn end_with_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    fd: BorrowedFd<'_>,
    close_on_exec: bool,
) -> io::Result<()> {
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    let add = libc::seccomp_notif_addfd {
        id,
        flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
        srcfd: fd.as_raw_fd().unsigned_abs(),
        newfd: 0,
        newfd_flags: flags.unsigned_abs(),
    };
    // SAFETY: the argument is a pointer to the structure, as this request wants.
    let result = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_ADDFD,
            &raw const add,
        )
    };
    check(result.into())?;
    Ok(())
}

/// Has caller and answerer woken without a detour over another processor. Older kernels cannot, which
/// only costs time.
pub(crate) fn wake_in_step(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: the argument is flags, as this request wants.
    let _ = unsafe {
        libc::ioctl(
            listener.as_raw_fd(),
            libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS,
            SYNC_WAKE_UP,
        )
    };
}

/// Reads from the memory of a thread's process, as far as there is any; how much was read.
pub(crate) fn read_memory(thread: i32, address: u64, into: &mut [u8]) -> io::Result<usize> {
    let here = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    let there = libc::iovec {
        iov_base: address as *mut libc::c_void,
        iov_len: into.len(),
    };
    // SAFETY: `here` describes the slice; `there` is only looked at in the other process.
    let read = check(unsafe {
        libc::process_vm_readv(thread, &raw const here, 1, &raw const there, 1, 0) as libc::c_long
    })?;
    usize::try_from(read).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_as_far_as_there_is_any() {
        let text = *b"of this process";
        let mut read = [0; 15];
        let own = std::process::id().cast_signed();
        let length = read_memory(own, text.as_ptr() as u64, &mut read).unwrap();
        assert_eq!((length, read), (15, text));
        let error = read_memory(own, 8, &mut read).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn asking_for_a_listener_installs_nothing() {
        let filters = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("Seccomp:"));
            line.map(str::to_owned)
        };
        let before = filters();
        can_listen().unwrap();
        assert_eq!(filters(), before);
    }
}
