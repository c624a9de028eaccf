//! What a hostile program would try, run inside a cage. Each attack prints one line per try:
//! `name answer`, where the answer is `done` or the error's number.

mod files;

use nix::errno::Errno;
use std::ffi::CString;
use std::io::Write as _;
use std::process::ExitCode;

pub fn run(name: &str, arguments: &[&str]) -> ExitCode {
    match name {
        "calls" => calls(),
        "sockets" => sockets(),
        "open-files" => open_files(),
        "write" => write(arguments),
        "int80" => int80(),
        "x32" => say("x32", raw(0x4000_0000 | 39, &[])),
        "init" => init(),
        "forks" => forks(),
        "abstract" => abstract_socket(),
        "file" => file(arguments),
        "fork-chain" => fork_chain(arguments),
        "wakers" => wakers(arguments),
        "alarm" => alarm(arguments),
        other => panic!("no attack {other}"),
    }
    ExitCode::SUCCESS
}

fn file(arguments: &[&str]) {
    match arguments {
        ["family", folder] => files::family(folder),
        ["make", path] => files::make(path),
        ["open", path, flags] => files::open(path, flags),
        ["threads", folder] => files::threads(folder),
        ["interrupted", path] => files::interrupted(path, false),
        ["restarted", path] => files::interrupted(path, true),
        ["flip", one, other] => files::flip(one, other),
        ["swap", outside] => files::swap(outside),
        ["bend", home] => files::bend(home),
        ["steps", path] => files::steps(path),
        ["read", path] => files::read(path),
        other => panic!("no attack on files {other:?}"),
    }
}

fn say(name: &str, result: i64) {
    let errno = Errno::last_raw();
    let answer = if result < 0 {
        errno.to_string()
    } else {
        "done".to_owned()
    };
    println!("{name} {answer}");
}

fn raw(number: i64, arguments: &[i64]) -> i64 {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // SAFETY: every attack passes numbers, or pointers to values that outlive the call.
    unsafe { libc::syscall(number, at(0), at(1), at(2), at(3), at(4), at(5)) }
}

fn calls() {
    let root = CString::new("/").unwrap();
    let path = root.as_ptr() as i64;
    let zeros = [0u64; 64];
    let null = zeros.as_ptr() as i64;
    for (name, flag) in [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS),
        ("net", libc::CLONE_NEWNET),
        ("pid", libc::CLONE_NEWPID),
        ("ipc", libc::CLONE_NEWIPC),
        ("uts", libc::CLONE_NEWUTS),
        ("cgroup", libc::CLONE_NEWCGROUP),
        ("time", 0x80),
    ] {
        say(
            &format!("unshare-{name}"),
            raw(libc::SYS_unshare, &[flag.into()]),
        );
    }
    let clone = i64::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    say("clone-user", raw(libc::SYS_clone, &[clone]));
    say("clone3", raw(libc::SYS_clone3, &[null, 88]));
    for (name, number, arguments) in [
        ("setns", libc::SYS_setns, vec![0, 0]),
        ("mount", libc::SYS_mount, vec![path, path, path, 0, 0]),
        (
            "remount",
            libc::SYS_mount,
            vec![0, path, 0, libc::MS_REMOUNT as i64, 0],
        ),
        ("umount", libc::SYS_umount2, vec![path, 0]),
        ("open_tree", libc::SYS_open_tree, vec![-100, path, 1]),
        (
            "move_mount",
            libc::SYS_move_mount,
            vec![-100, path, -100, path, 0],
        ),
        ("fsopen", libc::SYS_fsopen, vec![path, 0]),
        ("fspick", libc::SYS_fspick, vec![-100, path, 0]),
        (
            "mount_setattr",
            libc::SYS_mount_setattr,
            vec![-100, path, 0, null, 32],
        ),
        ("pivot_root", libc::SYS_pivot_root, vec![path, path]),
        ("chroot", libc::SYS_chroot, vec![path]),
        (
            "name_to_handle_at",
            libc::SYS_name_to_handle_at,
            vec![-100, path, null, null, 0],
        ),
        (
            "open_by_handle_at",
            libc::SYS_open_by_handle_at,
            vec![-100, null, 0],
        ),
        ("bpf", libc::SYS_bpf, vec![0, null, 64]),
        (
            "perf_event_open",
            libc::SYS_perf_event_open,
            vec![null, 0, -1, -1, 0],
        ),
        ("userfaultfd", libc::SYS_userfaultfd, vec![1]),
        ("keyctl", libc::SYS_keyctl, vec![0, -3, 0]),
        ("add_key", libc::SYS_add_key, vec![path, path, path, 1, -3]),
        ("request_key", libc::SYS_request_key, vec![path, path, 0, 0]),
        (
            "process_vm_readv",
            libc::SYS_process_vm_readv,
            vec![1, null, 1, null, 1, 0],
        ),
        (
            "process_vm_writev",
            libc::SYS_process_vm_writev,
            vec![1, null, 1, null, 1, 0],
        ),
        ("syslog", libc::SYS_syslog, vec![3, null, 8]),
        ("kexec_load", libc::SYS_kexec_load, vec![0, 0, 0, 0]),
        ("init_module", libc::SYS_init_module, vec![null, 8, path]),
        ("finit_module", libc::SYS_finit_module, vec![0, path, 0]),
        ("delete_module", libc::SYS_delete_module, vec![path, 0]),
        ("reboot", libc::SYS_reboot, vec![0, 0, 0, 0]),
        ("swapon", libc::SYS_swapon, vec![path, 0]),
        ("acct", libc::SYS_acct, vec![path]),
        ("quotactl", libc::SYS_quotactl, vec![0, path, 0, null]),
        ("personality", libc::SYS_personality, vec![0x0004_0000]),
        ("io_uring_setup", libc::SYS_io_uring_setup, vec![8, null]),
        (
            "io_uring_enter",
            libc::SYS_io_uring_enter,
            vec![0, 0, 0, 0, 0],
        ),
        (
            "io_uring_register",
            libc::SYS_io_uring_register,
            vec![0, 0, 0, 0],
        ),
        ("tiocsti", libc::SYS_ioctl, vec![0, 0x5412, path]),
        (
            "tiocsti-high",
            libc::SYS_ioctl,
            vec![0, 0x1_0000_5412, path],
        ),
        ("tioclinux", libc::SYS_ioctl, vec![0, 0x541c, path]),
        ("setuid-root", libc::SYS_setuid, vec![0]),
        ("setgroups", libc::SYS_setgroups, vec![0, null]),
        (
            "mknod",
            libc::SYS_mknodat,
            vec![-100, c"/tmp/disk".as_ptr() as i64, 0o060_600, 0x0800],
        ),
        ("nice", libc::SYS_setpriority, vec![0, 0, -5]),
        ("sethostname", libc::SYS_sethostname, vec![path, 1]),
    ] {
        say(name, raw(number, &arguments));
    }
}

fn sockets() {
    for (name, family, kind, protocol) in [
        ("unix", libc::AF_UNIX, libc::SOCK_STREAM, 0),
        ("tcp", libc::AF_INET, libc::SOCK_STREAM, 0),
        ("udp6", libc::AF_INET6, libc::SOCK_DGRAM, 0),
        ("route", libc::AF_NETLINK, libc::SOCK_RAW, 0),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0x300),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
        ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        ("raw6", libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        ("ping", libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        ("sctp", libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        (
            "netfilter",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_NETFILTER,
        ),
        (
            "audit",
            libc::AF_NETLINK,
            libc::SOCK_RAW,
            libc::NETLINK_AUDIT,
        ),
        (
            "uevent",
            libc::AF_NETLINK,
            libc::SOCK_DGRAM,
            libc::NETLINK_KOBJECT_UEVENT,
        ),
    ] {
        say(
            name,
            raw(
                libc::SYS_socket,
                &[family.into(), kind.into(), protocol.into()],
            ),
        );
    }
}

fn open_files() {
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        // The listing itself is one.
        let target = std::fs::read_link(entry.path()).unwrap();
        if !target.ends_with("fd") {
            println!("{} {}", entry.file_name().display(), target.display());
        }
    }
}

/// Tries to write each path: opens it for appending, or makes it.
fn write(paths: &[&str]) {
    for path in paths {
        let tried = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path);
        match tried {
            Ok(_) => println!("{path} done"),
            Err(error) => println!("{path} {}", error.raw_os_error().unwrap_or(0)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn int80() {
    // getpid by the 32-bit gate.
    // SAFETY: the call has no effect; the register that the compiler reserves is not touched.
    unsafe { core::arch::asm!("int 0x80", inout("eax") 20 => _) };
    println!("int80 done");
}

#[cfg(not(target_arch = "x86_64"))]
fn int80() {
    // SAFETY: ends this process the way the filter would.
    unsafe { libc::kill(libc::getpid(), libc::SIGSYS) };
}

/// Everything that process 1 could be asked or made to do.
fn init() {
    say("kill-term", raw(libc::SYS_kill, &[1, libc::SIGTERM.into()]));
    say("kill-kill", raw(libc::SYS_kill, &[1, libc::SIGKILL.into()]));
    say("ptrace", raw(libc::SYS_ptrace, &[16, 1, 0, 0]));
    let pidfd = raw(libc::SYS_pidfd_open, &[1, 0]);
    say("pidfd-getfd", raw(libc::SYS_pidfd_getfd, &[pidfd, 3, 0]));
    for name in ["mem", "environ", "maps", "syscall", "stack", "auxv"] {
        let read = std::fs::read(format!("/proc/1/{name}"));
        println!(
            "{name} {}",
            read.map_or_else(|error| error.to_string(), |_| "done".into())
        );
    }
    for name in ["root", "cwd", "exe", "fd/3", "ns/user", "ns/mnt"] {
        let read = std::fs::read_link(format!("/proc/1/{name}"));
        println!(
            "{name} {}",
            read.map_or_else(|error| error.to_string(), |_| "done".into())
        );
    }
    let list = std::fs::read_dir("/proc/1/fd");
    println!(
        "fd {}",
        list.map_or_else(|error| error.to_string(), |_| "done".into())
    );
}

/// Forks sleepers until the kernel says no, and prints how many it got.
fn forks() {
    let mut count = 0;
    loop {
        // SAFETY: this program has one thread.
        match unsafe { libc::fork() } {
            0 => loop {
                // Whoever reads our output is not to wait for the sleepers.
                // SAFETY: closes descriptors that this copy does not use; sleeps.
                unsafe {
                    libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0);
                    libc::pause();
                }
            },
            -1 => break,
            _ => count += 1,
        }
        if count >= 5_000 {
            break;
        }
    }
    println!("{count} {}", Errno::last_raw());
    std::io::stdout().flush().unwrap();
}

/// Connects to an abstract socket of the host whose name is known.
fn abstract_socket() {
    use std::os::linux::net::SocketAddrExt as _;
    let address = std::os::unix::net::SocketAddr::from_abstract_name("foreman-cage-it").unwrap();
    let connected = std::os::unix::net::UnixStream::connect_addr(&address);
    println!(
        "abstract {}",
        connected.map_or_else(|error| error.to_string(), |_| "done".into())
    );
}

/// A file that every process of an attack adds to.
fn beat(arguments: &[&str]) -> std::fs::File {
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(arguments[0])
        .unwrap()
}

/// A process that forks one and ends, again and again: whoever goes through a list never meets it.
fn fork_chain(arguments: &[&str]) {
    let mut beat = beat(arguments);
    loop {
        beat.write_all(b"x").unwrap();
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            0 => {}
            // Beyond the bound of processes it tries again.
            -1 => {}
            _ => std::process::exit(0),
        }
    }
}

/// Four processes that send SIGCONT to all the others for as long as they run.
fn wakers(arguments: &[&str]) {
    let mut beat = beat(arguments);
    for _ in 0..3 {
        // SAFETY: this process has one thread.
        if unsafe { libc::fork() } == 0 {
            break;
        }
    }
    loop {
        // SAFETY: takes numbers only.
        unsafe { libc::kill(-1, libc::SIGCONT) };
        beat.write_all(b"x").unwrap();
    }
}

/// A pipe that anybody outside may write to, and that has the kernel send SIGCONT when somebody does.
fn alarm(arguments: &[&str]) {
    let mut beat = beat(arguments);
    let path = CString::new("alarm").unwrap();
    // SAFETY: the path lives through the calls, the others take numbers.
    unsafe {
        assert_eq!(libc::mkfifo(path.as_ptr(), 0o666), 0);
        let pipe = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_NONBLOCK);
        assert!(pipe >= 0);
        assert_eq!(libc::fcntl(pipe, libc::F_SETOWN, libc::getpid()), 0);
        assert_eq!(libc::fcntl(pipe, 10 /* F_SETSIG */, libc::SIGCONT), 0);
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_ASYNC;
        assert_eq!(libc::fcntl(pipe, libc::F_SETFL, flags), 0);
    }
    loop {
        beat.write_all(b"x").unwrap();
    }
}
