//! Giving up for good: capabilities, keys, paths, system calls.

use super::{check, process_control};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Gives up every capability, also those that a program could bring along. The caller owns its user namespace.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    for capability in 0..64 {
        match process_control(libc::PR_CAPBSET_DROP, capability) {
            Ok(_) => {}
            // The first number that the kernel does not know ends the list.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            Err(error) => return Err(error),
        }
    }
    drop_own_capabilities()
}

/// Gives up the caller's capabilities. What a program could bring along stays to be shut out by `no_new_privs`:
/// an ordinary user may not shorten that list.
pub(crate) fn drop_own_capabilities() -> io::Result<()> {
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

/// Restricts the caller to a Landlock rule set.
pub(crate) fn enter_landlock(rules: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), 0) })?;
    Ok(())
}
