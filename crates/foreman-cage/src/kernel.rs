//! The system calls that neither std nor nix offers, each as a safe function with the kernel's
//! answer as its error.
//!
//! Nothing here knows what a cage is.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
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

/// What a mount forbids beside what its file system does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountFlags {
    pub read_only: bool,
    pub no_suid: bool,
    pub no_dev: bool,
}

impl MountFlags {
    /// System directories and read-only binds.
    pub const SEALED: Self = Self {
        read_only: true,
        no_suid: true,
        no_dev: true,
    };
    /// Writable binds.
    pub const WRITABLE: Self = Self {
        read_only: false,
        no_suid: true,
        no_dev: true,
    };
    /// Our own file systems, once they are complete.
    pub const READ_ONLY: Self = Self {
        read_only: true,
        no_suid: false,
        no_dev: false,
    };

    fn bits(self) -> u64 {
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        flag(self.read_only, libc::MOUNT_ATTR_RDONLY)
            | flag(self.no_suid, libc::MOUNT_ATTR_NOSUID)
            | flag(self.no_dev, libc::MOUNT_ATTR_NODEV)
    }
}

const RECURSIVE: libc::c_uint = 0x8000; // AT_RECURSIVE
const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;

/// Clones the mount tree below an open path, with everything mounted in it, attached nowhere.
pub(crate) fn clone_tree(at: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE
        | RECURSIVE
        | libc::AT_EMPTY_PATH as libc::c_uint
        | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: the path is a valid C string and outlives the call, which reads nothing else.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, at.as_raw_fd(), c"".as_ptr(), flags) })
}

/// As [`clone_tree`], by path.
pub(crate) fn clone_tree_at(path: &CStr) -> io::Result<OwnedFd> {
    let flags = OPEN_TREE_CLONE | RECURSIVE | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: as above.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) })
}

fn set_flags(fd: RawFd, path: &CStr, at: libc::c_uint, flags: MountFlags) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: flags.bits(),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: path and attributes are valid for the call and the size is that of the structure.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path.as_ptr(),
            at,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Sets flags on a cloned tree and everything mounted in it, before it is attached.
pub(crate) fn restrict_tree(tree: BorrowedFd<'_>, flags: MountFlags) -> io::Result<()> {
    set_flags(
        tree.as_raw_fd(),
        c"",
        libc::AT_EMPTY_PATH as libc::c_uint | RECURSIVE,
        flags,
    )
}

/// Sets flags on the one mount at a path.
pub(crate) fn restrict_mount(path: &CStr, flags: MountFlags) -> io::Result<()> {
    set_flags(libc::AT_FDCWD, path, 0, flags)
}

/// Attaches a cloned tree at a path.
pub(crate) fn attach_tree(tree: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    // SAFETY: both paths are valid C strings for the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    })?;
    Ok(())
}

/// Attaches a cloned tree over an open path.
pub(crate) fn attach_tree_over(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both paths are valid C strings for the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            target.as_raw_fd(),
            c"".as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
        )
    })?;
    Ok(())
}

/// Changes the root to the current directory and stacks the old root over it.
pub(crate) fn pivot_here() -> io::Result<()> {
    // SAFETY: both paths are valid C strings for the call.
    check(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) })?;
    Ok(())
}

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

/// Gives up every capability for good: ambient, bounding, permitted, effective, inheritable.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    // SAFETY: as in `process_control`.
    let cleared = unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
            0 as libc::c_ulong,
        )
    };
    check(cleared.into())?;
    for capability in 0..64 {
        match process_control(libc::PR_CAPBSET_DROP, capability) {
            Ok(_) => {}
            // The first number that the kernel does not know ends the list.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    #[repr(C)]
    struct Header {
        version: u32,
        pid: libc::c_int,
    }
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let none = [0u32; 6];
    // SAFETY: header and data have the layout of version 3: two sets of three words.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })?;
    Ok(())
}

/// Leaves the operator's session keyring for a new, empty one.
pub(crate) fn new_session_keyring() -> io::Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring.
    check(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0usize) })?;
    Ok(())
}

/// Version of the kernel's Landlock interface, if it has one.
pub(crate) fn landlock_abi() -> Option<u32> {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    let none = std::ptr::null::<u8>();
    // SAFETY: with this flag the call takes a null pointer and a size of 0.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            none,
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

/// Installs a system call filter for the caller and what it starts.
pub(crate) fn install_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    const SECCOMP_SET_MODE_FILTER: libc::c_uint = 1;
    let length = libc::c_ushort::try_from(filter.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog {
        len: length,
        filter: filter.as_ptr().cast_mut(),
    };
    // SAFETY: the program's length is that of the slice, and the kernel only reads it.
    check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SECCOMP_SET_MODE_FILTER,
            0,
            &raw const program,
        )
    })?;
    Ok(())
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

/// Restricts the caller to a Landlock rule set.
pub(crate) fn enter_landlock(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) })?;
    Ok(())
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

/// Gives every signal its default action.
pub(crate) fn reset_signal_handlers() {
    for signal in 1..=libc::SIGRTMAX() {
        // Some cannot be changed, which is what we want of them.
        // SAFETY: the default action runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

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

/// Ends the process at once: no destructors, no handlers. For children that were forked.
pub(crate) fn end_process(code: libc::c_int) -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

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
