//! System calls that a cage must refuse, with harmless arguments: only the errno matters.

use crate::{Saw, answer, failed, last_error, number, result};
use anyhow::Context;
use serde_json::{Value, json};

pub fn attack(name: &str, words: &[&str]) -> Option<Saw> {
    Some(match name {
        "calls" => Ok(calls()),
        "io-uring" => Ok(io_uring()),
        "namespaces" => Ok(namespaces()),
        "mounts" => Ok(mounts()),
        "keys" => Ok(keys()),
        "terminal" => Ok(terminal()),
        "foreign-calls" => Ok(foreign_calls(words)),
        "shared-memory" => shared_memory(words),
        "privileges" => Ok(privileges()),
        "priority" => Ok(priority()),
        _ => return None,
    })
}

/// One system call by number.
fn call(number: i64, arguments: [usize; 6]) -> Value {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: every caller in this file passes numbers, null pointers, or pointers to buffers that
    // live over the call; none of the calls made here writes more than its buffer takes.
    let value = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    answer(value)
}

/// Calls without which an agent can work, and that reach into the kernel.
fn calls() -> Value {
    let null = [0_usize; 6];
    let attr = [0_u8; 128];
    let at = attr.as_ptr() as usize;
    let bad_fd = usize::MAX;
    let mut saw = json!({"ok": true});
    let table: [(&str, i64, [usize; 6]); 24] = [
        ("bpf", libc::SYS_bpf, [5, at, 128, 0, 0, 0]),
        (
            "perf_event_open",
            libc::SYS_perf_event_open,
            [at, 0, bad_fd, bad_fd, 0, 0],
        ),
        ("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0]),
        ("kexec_load", libc::SYS_kexec_load, null),
        (
            "kexec_file_load",
            libc::SYS_kexec_file_load,
            [bad_fd, bad_fd, 0, 0, 0, 0],
        ),
        ("init_module", libc::SYS_init_module, null),
        (
            "finit_module",
            libc::SYS_finit_module,
            [bad_fd, at, 0, 0, 0, 0],
        ),
        (
            "delete_module",
            libc::SYS_delete_module,
            [at, 0, 0, 0, 0, 0],
        ),
        ("syslog", libc::SYS_syslog, [3, at, 128, 0, 0, 0]),
        ("reboot", libc::SYS_reboot, [1, 2, 3, 0, 0, 0]),
        ("swapon", libc::SYS_swapon, [at, 0, 0, 0, 0, 0]),
        ("acct", libc::SYS_acct, [at, 0, 0, 0, 0, 0]),
        ("quotactl", libc::SYS_quotactl, null),
        (
            "open_by_handle_at",
            libc::SYS_open_by_handle_at,
            [bad_fd, at, 0, 0, 0, 0],
        ),
        (
            "name_to_handle_at",
            libc::SYS_name_to_handle_at,
            [bad_fd, at, at, at, 0, 0],
        ),
        (
            "fanotify_init",
            libc::SYS_fanotify_init,
            [0x4, 0, 0, 0, 0, 0],
        ),
        ("sethostname", libc::SYS_sethostname, [at, 4, 0, 0, 0, 0]),
        (
            "clock_settime",
            libc::SYS_clock_settime,
            [0, at, 0, 0, 0, 0],
        ),
        ("iopl", libc::SYS_iopl, [3, 0, 0, 0, 0, 0]),
        ("ioperm", libc::SYS_ioperm, [0x80, 1, 1, 0, 0, 0]),
        (
            "personality",
            libc::SYS_personality,
            [0x0400_0000, 0, 0, 0, 0, 0],
        ),
        ("lookup_dcookie", 212, null),
        ("nfsservctl", 180, null),
        ("vhangup", libc::SYS_vhangup, null),
    ];
    for (name, number, arguments) in table {
        saw[name] = call(number, arguments);
    }
    saw
}

fn io_uring() -> Value {
    let params = [0_u8; 256];
    let at = params.as_ptr() as usize;
    json!({
        "ok": true,
        "setup": call(libc::SYS_io_uring_setup, [4, at, 0, 0, 0, 0]),
        "enter": call(libc::SYS_io_uring_enter, [usize::MAX, 0, 0, 0, 0, 0]),
        "register": call(libc::SYS_io_uring_register, [usize::MAX, 0, 0, 0, 0, 0]),
    })
}

/// Each in a child of its own: entering a namespace changes the process that does it.
fn namespaces() -> Value {
    let mut saw = json!({"ok": true});
    for (name, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("user_and_mount", libc::CLONE_NEWUSER | libc::CLONE_NEWNS),
        ("user_and_net", libc::CLONE_NEWUSER | libc::CLONE_NEWNET),
        ("mount", libc::CLONE_NEWNS),
        ("net", libc::CLONE_NEWNET),
        ("pid", libc::CLONE_NEWPID),
        ("ipc", libc::CLONE_NEWIPC),
        ("uts", libc::CLONE_NEWUTS),
        ("cgroup", libc::CLONE_NEWCGROUP),
        ("time", 0x80),
    ] {
        saw[format!("unshare_{name}")] =
            in_child(|| call(libc::SYS_unshare, [flag as usize, 0, 0, 0, 0, 0]));
    }
    for name in ["user", "mnt", "net", "pid", "ipc", "uts", "cgroup"] {
        saw[format!("setns_{name}")] = in_child(|| setns(&format!("/proc/1/ns/{name}")));
    }
    let flags = (libc::CLONE_NEWUSER | libc::SIGCHLD) as usize;
    saw["clone_user"] = in_child(|| {
        let made = call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]);
        if made["value"] == 0 {
            // SAFETY: ends the child made by the line above, without running anything else.
            unsafe { libc::_exit(0) }
        }
        made
    });
    let mut clone3 = [0_u64; 11];
    clone3[0] = libc::CLONE_NEWUSER as u64;
    clone3[4] = libc::SIGCHLD as u64;
    saw["clone3_user"] = in_child(|| {
        let made = call(libc::SYS_clone3, [clone3.as_ptr() as usize, 88, 0, 0, 0, 0]);
        if made["value"] == 0 {
            // SAFETY: ends the child made by the line above, without running anything else.
            unsafe { libc::_exit(0) }
        }
        made
    });
    saw
}

fn setns(path: &str) -> Value {
    use std::os::fd::AsRawFd;
    match std::fs::File::open(path) {
        Ok(file) => call(libc::SYS_setns, [file.as_raw_fd() as usize, 0, 0, 0, 0, 0]),
        Err(error) => failed(&error),
    }
}

/// Runs in a forked child and gives its answer; a child that was killed says by which signal.
fn in_child(work: impl FnOnce() -> Value) -> Value {
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::{ForkResult, fork, pipe};
    use std::io::{Read, Write};
    let Ok((read, write)) = pipe() else {
        return failed(&last_error());
    };
    // SAFETY: this program has one thread at this point, so the child may run anything.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            drop(read);
            let answer = work().to_string();
            let _ = std::fs::File::from(write).write_all(answer.as_bytes());
            // SAFETY: ends this child without the parent's exit handlers.
            unsafe { libc::_exit(0) }
        }
        Ok(ForkResult::Parent { child }) => {
            drop(write);
            let mut text = String::new();
            let _ = std::fs::File::from(read).read_to_string(&mut text);
            match waitpid(child, None) {
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    json!({"ok": false, "errno": format!("{signal}")})
                }
                _ => serde_json::from_str(&text).unwrap_or(json!({"ok": false, "errno": "silent"})),
            }
        }
        Err(error) => failed(&error.into()),
    }
}

fn mounts() -> Value {
    let zero = [0_u8; 64];
    let (tmp, tmpfs) = (c"/tmp".as_ptr() as usize, c"tmpfs".as_ptr() as usize);
    let (root, proc_) = (c"/".as_ptr() as usize, c"/proc".as_ptr() as usize);
    let at = libc::AT_FDCWD as usize;
    json!({
        "ok": true,
        "mount": call(libc::SYS_mount, [tmpfs, tmp, tmpfs, 0, 0, 0]),
        "bind": call(libc::SYS_mount, [root, tmp, 0, libc::MS_BIND as usize, 0, 0]),
        "remount": call(libc::SYS_mount, [0, root, 0, (libc::MS_REMOUNT | libc::MS_BIND) as usize, 0, 0]),
        "umount": call(libc::SYS_umount2, [proc_, libc::MNT_DETACH as usize, 0, 0, 0, 0]),
        "pivot_root": call(libc::SYS_pivot_root, [tmp, tmp, 0, 0, 0, 0]),
        "chroot": call(libc::SYS_chroot, [tmp, 0, 0, 0, 0, 0]),
        "fsopen": call(libc::SYS_fsopen, [tmpfs, 0, 0, 0, 0, 0]),
        "fsmount": call(libc::SYS_fsmount, [usize::MAX, 0, 0, 0, 0, 0]),
        "fspick": call(libc::SYS_fspick, [at, root, 0, 0, 0, 0]),
        "open_tree": call(libc::SYS_open_tree, [at, root, 1, 0, 0, 0]),
        "move_mount": call(libc::SYS_move_mount, [at, tmp, at, tmp, 0, 0]),
        "mount_setattr": call(libc::SYS_mount_setattr, [at, root, 0, zero.as_ptr() as usize, 32, 0]),
    })
}

fn keys() -> Value {
    let (user, name, text) = (
        c"user".as_ptr() as usize,
        c"fm-attack".as_ptr() as usize,
        c"x".as_ptr() as usize,
    );
    json!({
        "ok": true,
        "session": call(libc::SYS_keyctl, [0, -3_isize as usize, 0, 0, 0, 0]),
        "add_key": call(libc::SYS_add_key, [user, name, text, 1, -2_isize as usize, 0]),
        "request_key": call(libc::SYS_request_key, [user, name, 0, 0, 0, 0]),
    })
}

fn terminal() -> Value {
    let byte = [b'x'];
    let at = byte.as_ptr() as usize;
    json!({
        "ok": true,
        "tiocsti": call(libc::SYS_ioctl, [0, 0x5412, at, 0, 0, 0]),
        "tiocsti_high_bits": call(libc::SYS_ioctl, [0, 0x5412 | (1 << 32), at, 0, 0, 0]),
        "tioclinux": call(libc::SYS_ioctl, [0, 0x541C, at, 0, 0, 0]),
        "has_terminal": result(std::fs::File::open("/dev/tty")),
    })
}

/// System calls of another architecture, which a filter by number would not know.
fn foreign_calls(words: &[&str]) -> Value {
    let _ = words;
    json!({
        "ok": true,
        "x32_getpid": in_child(|| call(0x4000_0000 | libc::SYS_getpid, [0; 6])),
        "x32_socket": in_child(|| call(0x4000_0000 | libc::SYS_socket, [40, 1, 0, 0, 0, 0])),
        "int80_getpid": in_child(int80),
    })
}

#[cfg(target_arch = "x86_64")]
fn int80() -> Value {
    let mut value: i64 = 20;
    // SAFETY: call 20 of the 32-bit table is getpid; it touches no memory. The registers that the
    // old gate may clobber are named.
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") value, out("r8") _, out("r9") _, out("r10") _,
            out("r11") _, options(nostack));
    }
    if value >= 0 {
        json!({"ok": true, "value": value})
    } else {
        failed(&std::io::Error::from_raw_os_error(
            i32::try_from(-value).unwrap_or(0),
        ))
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn int80() -> Value {
    json!({"ok": false, "errno": "not on this architecture"})
}

/// `shared-memory make KEY | find KEY | remove KEY`: a System V segment and a POSIX queue.
fn shared_memory(words: &[&str]) -> Saw {
    let key: usize = number(words, 1, 0x464d);
    let name = std::ffi::CString::new(format!("/fm-{key}"))?;
    if words.first() == Some(&"remove") {
        return Ok(remove_shared(key, &name));
    }
    let create = if *words.first().context("make or find")? == "make" {
        0o1000
    } else {
        0
    };
    let queue_flags = if create == 0 {
        libc::O_RDWR
    } else {
        libc::O_RDWR | libc::O_CREAT
    };
    // The name of the system call has no slash before it.
    let short = name.as_ptr() as usize + 1;
    Ok(json!({
        "ok": true,
        "segment": call(libc::SYS_shmget, [key, 4096, create | 0o666, 0, 0, 0]),
        "semaphores": call(libc::SYS_semget, [key, 1, create | 0o666, 0, 0, 0]),
        "messages": call(libc::SYS_msgget, [key, create | 0o666, 0, 0, 0, 0]),
        "queue": call(libc::SYS_mq_open, [short, queue_flags as usize, 0o666, 0, 0, 0]),
    }))
}

fn remove_shared(key: usize, name: &std::ffi::CStr) -> Value {
    let id = |answer: Value| {
        answer["value"]
            .as_u64()
            .map_or(usize::MAX, |id| id as usize)
    };
    let zero = [0_usize; 4];
    let removed = [
        call(
            libc::SYS_shmctl,
            [
                id(call(libc::SYS_shmget, [key, 0, 0, 0, 0, 0])),
                0,
                0,
                0,
                0,
                0,
            ],
        ),
        call(
            libc::SYS_semctl,
            [
                id(call(libc::SYS_semget, [key, 0, 0, 0, 0, 0])),
                0,
                0,
                0,
                zero[0],
                0,
            ],
        ),
        call(
            libc::SYS_msgctl,
            [
                id(call(libc::SYS_msgget, [key, 0, 0, 0, 0, 0])),
                0,
                0,
                0,
                0,
                0,
            ],
        ),
        call(
            libc::SYS_mq_unlink,
            [name.as_ptr() as usize + 1, 0, 0, 0, 0, 0],
        ),
    ];
    json!({"ok": true, "removed": removed})
}

/// What a process may become.
fn privileges() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    json!({
        "ok": true,
        "no_new_privs": field("NoNewPrivs"),
        "effective": field("CapEff"),
        "permitted": field("CapPrm"),
        "bounding": field("CapBnd"),
        "seccomp": field("Seccomp"),
        "uid": field("Uid"),
        "setuid_0": in_child(|| call(libc::SYS_setuid, [0; 6])),
        "setgroups": in_child(|| call(libc::SYS_setgroups, [0; 6])),
        "uid_map": std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default(),
    })
}

fn priority() -> Value {
    let parameters = [10_i32];
    json!({
        "ok": true,
        "nice": call(libc::SYS_setpriority, [0, 0, -10_isize as usize, 0, 0, 0]),
        "realtime": call(libc::SYS_sched_setscheduler, [0, 1, parameters.as_ptr() as usize, 0, 0, 0]),
    })
}
