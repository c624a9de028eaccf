//! Mount trees by descriptor: cloned, restricted, attached; and the change of root.

use super::{check, owned};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

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

/// Clones the one mount that an open path is in, from there on, attached nowhere.
pub(crate) fn clone_mount(at: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags =
        OPEN_TREE_CLONE | libc::AT_EMPTY_PATH as libc::c_uint | libc::O_CLOEXEC as libc::c_uint;
    // SAFETY: as above.
    owned(unsafe { libc::syscall(libc::SYS_open_tree, at.as_raw_fd(), c"".as_ptr(), flags) })
}

fn set_flags(fd: RawFd, path: &CStr, at: libc::c_uint, flags: MountFlags) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: flags.bits(),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    set_attributes(fd, path, at, &attributes)
}

fn set_attributes(
    fd: RawFd,
    path: &CStr,
    at: libc::c_uint,
    attributes: &libc::mount_attr,
) -> io::Result<()> {
    // SAFETY: path and attributes are valid for the call and the size is that of the structure.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd,
            path.as_ptr(),
            at,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Sets flags on a cloned tree and everything mounted in it, before it is attached. What is mounted in
/// the original later is not to appear in it, either.
pub(crate) fn restrict_tree(tree: BorrowedFd<'_>, flags: MountFlags) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: flags.bits(),
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    let at = libc::AT_EMPTY_PATH as libc::c_uint | RECURSIVE;
    set_attributes(tree.as_raw_fd(), c"", at, &attributes)
}

/// Makes a cloned mount writable. The original stays what it is.
pub(crate) fn make_writable(clone: BorrowedFd<'_>) -> io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: 0,
        attr_clr: libc::MOUNT_ATTR_RDONLY,
        propagation: libc::MS_PRIVATE,
        userns_fd: 0,
    };
    let at = libc::AT_EMPTY_PATH as libc::c_uint;
    set_attributes(clone.as_raw_fd(), c"", at, &attributes)
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
