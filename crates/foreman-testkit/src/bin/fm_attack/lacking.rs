//! A machine that lacks something, for a whole tree of processes: a program is started behind a system
//! call filter that answers as the kernel of such a machine would. No attack.

use anyhow::{Context, Result, bail};
use std::io::Error;
use std::os::unix::process::CommandExt;

/// Becomes the program, on a machine without nf_tables and without any packet queue.
///
/// # Errors
/// The filter could not be installed, or the program not be started.
pub fn nf_tables(words: &[&str]) -> Result<()> {
    let Some((&program, arguments)) = words.split_first() else {
        bail!("usage: fm-attack without-nf-tables PROGRAM ARGUMENTS…");
    };
    // SAFETY: plain numbers; no pointers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(Error::last_os_error()).context("PR_SET_NO_NEW_PRIVS");
    }
    let mut filter = no_netfilter_sockets();
    let program_of_filter = libc::sock_fprog {
        len: u16::try_from(filter.len())?,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the structure and its instructions live over the call, which only reads them.
    let installed = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program_of_filter,
        )
    };
    if installed != 0 {
        return Err(Error::last_os_error()).context("PR_SET_SECCOMP");
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(error).context(program.to_owned())
}

/// `socket(AF_NETLINK, …, NETLINK_NETFILTER)` is answered EPROTONOSUPPORT; all else is allowed.
fn no_netfilter_sockets() -> Vec<libc::sock_filter> {
    const NUMBER: u32 = 0;
    const FIRST: u32 = 16;
    const THIRD: u32 = 32;
    let load = |offset| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    let unless = |value, skip| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    let end = |result| step(libc::BPF_RET | libc::BPF_K, 0, 0, result);
    vec![
        load(NUMBER),
        unless(libc::SYS_socket as u32, 5),
        load(FIRST),
        unless(libc::AF_NETLINK as u32, 3),
        load(THIRD),
        unless(libc::NETLINK_NETFILTER as u32, 1),
        end(libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32),
        end(libc::SECCOMP_RET_ALLOW),
    ]
}

fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    let code = code as u16; // every code used here fits
    libc::sock_filter { code, jt, jf, k }
}

/// Becomes the program, as the same user, in a user namespace below which the kernel makes no other: there
/// the switch is off for real. Everything else stays the machine's.
///
/// # Errors
/// This machine has it switched off altogether, or the program could not be started.
pub fn namespaces(words: &[&str]) -> Result<()> {
    let Some((&program, arguments)) = words.split_first() else {
        bail!("usage: fm-attack without-namespaces PROGRAM ARGUMENTS…");
    };
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    // SAFETY: plain numbers; this process has one thread.
    if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        return Err(Error::last_os_error()).context("make a user namespace");
    }
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    // Counts for everything below the namespace that the caller has just made.
    std::fs::write("/proc/sys/user/max_user_namespaces", "0").context("switch them off")?;
    // An ordinary user's capabilities end with this exec.
    Err(std::process::Command::new(program).args(arguments).exec()).context(program.to_owned())
}
