//! A private world: network, mount and process namespaces with an internet of their own.
//!
//! `foreman demo` and the suites run the unchanged product inside one. What the product there takes
//! for the host has one network device (`up0`), a default route to the far side of a veth pair, and
//! a resolver of the world's own; the far side is a second network namespace that holds the given
//! addresses and runs one server program. Nothing in cage, gateway or policy knows that it is in a
//! world, and nothing in a world can reach the machine's real network.
//!
//! The far side is not the same namespace with more addresses on a local device, because the gateway
//! refuses addresses of the machine's own interfaces.
//!
//! Everything dies with the world: its first process is process 1 of its own namespace.
//!
//! Three processes: [`enter`] makes the namespaces and forks process 1, which furnishes the near side,
//! forks the far side and then starts the command. They fork instead of starting this program anew,
//! because an ordinary user loses the capabilities over the new namespaces with every `exec`; so the
//! command and the far side's program have none.

mod cover;

use crate::gateway::netlink::Route;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigHandler, Signal, signal};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, Pid, fork, getegid, geteuid, pipe2};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a world holds.
#[derive(Debug, Clone)]
pub struct WorldSpec {
    /// Addresses of the far side, each with its prefix length.
    pub addresses: Vec<(IpAddr, u8)>,
    /// What `/etc/resolv.conf` names; no resolver answers when absent.
    pub resolver: Option<IpAddr>,
    /// Program and arguments that run on the far side. It must print the line `ready`.
    pub serve: Vec<OsString>,
    /// Program and arguments that run on the near side.
    pub command: Vec<OsString>,
    /// Folders of the machine that are empty in the world, and may be filled there.
    pub cover: Vec<PathBuf>,
    /// Folders that are seen at their places although one above them is covered.
    pub show: Vec<PathBuf>,
}

/// Why a world could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A system call failed.
    #[error("cannot {what}: {errno}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        errno: nix::Error,
    },
    /// Files, pipes, programs or netlink.
    #[error("cannot {what}: {error}")]
    Io {
        /// What was tried.
        what: String,
        /// The answer.
        error: std::io::Error,
    },
    /// The far side's program ended, or said something else, before it was ready.
    #[error("the far side's program was not ready: it said \"{said}\"")]
    NotReady {
        /// Its first line.
        said: String,
    },
}

fn system<T>(what: &'static str, result: nix::Result<T>) -> Result<T, WorldError> {
    result.map_err(|errno| WorldError::System { what, errno })
}

fn io<T>(what: &str, result: std::io::Result<T>) -> Result<T, WorldError> {
    result.map_err(|error| WorldError::Io {
        what: what.to_owned(),
        error,
    })
}

const NEAR: &str = "up0";
const FAR: &str = "down0";
const NEAR_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const FAR_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 2);
const FAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);

/// Makes the namespaces and runs the world to its end. Must be called while the process has one
/// thread.
///
/// # Errors
/// [`WorldError`] when a namespace or process cannot be made. Otherwise the command's exit code; 125
/// when the world could not be furnished, after a sentence on standard error.
pub fn enter(spec: &WorldSpec) -> Result<u8, WorldError> {
    let (uid, gid) = (geteuid(), getegid());
    if !uid.is_root() {
        system("make a user namespace", unshare(CloneFlags::CLONE_NEWUSER))?;
        io(
            "map the group",
            std::fs::write("/proc/self/setgroups", "deny"),
        )?;
        io(
            "map the user",
            std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")),
        )?;
        io(
            "map the group",
            std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")),
        )?;
    }
    let flags = CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID;
    system("make network, mount and process namespaces", unshare(flags))?;
    // The terminal's interrupt goes to the command as well; it decides, we wait.
    ignore_interrupts()?;
    let first = forked("start the world", || inside(spec))?;
    reap_until(first)
}

/// Process 1 of the world: mounts, network, far side, command.
fn inside(spec: &WorldSpec) -> Result<u8, WorldError> {
    furnish_mounts(spec)?;
    cover::cover(&spec.cover, &spec.show)?;
    start_far_side(spec)?;
    let Some((program, arguments)) = spec.command.split_first() else {
        return Ok(0);
    };
    let command = io(
        &format!("start {}", program.display()),
        default_interrupts(Command::new(program).args(arguments)).spawn(),
    )?;
    reap_until(Pid::from_raw(command.id().cast_signed()))
}

/// Forks a process that dies with this one, runs `body` in it and exits with its answer.
fn forked(
    what: &'static str,
    body: impl FnOnce() -> Result<u8, WorldError>,
) -> Result<Pid, WorldError> {
    // SAFETY: a world is made while the process has one thread, so the child may do anything.
    match system(what, unsafe { fork() })? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let code = end_with_parent()
                .and_then(|()| body())
                .unwrap_or_else(|error| {
                    let _ = writeln!(std::io::stderr(), "foreman-shim world: {error}");
                    125
                });
            // SAFETY: `_exit` ends this process and nothing else; the parent's buffers are its own.
            unsafe { libc::_exit(code.into()) }
        }
    }
}

/// The far side: a network namespace of its own, the addresses, the server program.
fn far_side(spec: &WorldSpec, near: &File, mut far: File) -> Result<u8, WorldError> {
    system(
        "make the far network namespace",
        unshare(CloneFlags::CLONE_NEWNET),
    )?;
    io("tell the near side", far.write_all(b"apart\n"))?;
    io("wait for the near side", (&*near).read_exact(&mut [0]))?;
    let mut route = io("open netlink", Route::open())?;
    let device = index_of(FAR)?;
    io("raise the far loopback", route.link_up(index_of("lo")?))?;
    io("raise the far device", route.link_up(device))?;
    io(
        "address the far device",
        route.add_address(device, FAR_V4.into(), 30),
    )?;
    add_v6(&mut route, device, FAR_V6)?;
    for &(address, prefix) in &spec.addresses {
        if address.is_ipv4() || has_v6() {
            io(
                &format!("add {address}"),
                route.add_address(device, address, prefix),
            )?;
        }
    }
    // Servers on the far side use well-known ports and are started without privilege.
    io(
        "open low ports on the far side",
        std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"),
    )?;
    let Some((program, arguments)) = spec.serve.split_first() else {
        io("tell the near side", far.write_all(b"ready\n"))?;
        loop {
            nix::unistd::pause();
        }
    };
    let error = default_interrupts(Command::new(program).args(arguments))
        .stdin(Stdio::null())
        .stdout(Stdio::from(far))
        .exec();
    Err(WorldError::Io {
        what: format!("start {}", program.display()),
        error,
    })
}

fn start_far_side(spec: &WorldSpec) -> Result<(), WorldError> {
    let mut route = io("open netlink", Route::open())?;
    io("raise the loopback", route.link_up(index_of("lo")?))?;
    let (far_hears, near_says) = system("make a pipe", pipe2(OFlag::O_CLOEXEC))?;
    let (near_hears, far_says) = system("make a pipe", pipe2(OFlag::O_CLOEXEC))?;
    let (far_hears, mut near_says) = (File::from(far_hears), File::from(near_says));
    let (near_hears, far_says) = (File::from(near_hears), File::from(far_says));
    let said_by = far_says.try_clone();
    let far = forked("start the far side", || {
        far_side(spec, &far_hears, io("share a pipe", said_by)?)
    })?;
    drop((far_hears, far_says));
    // One byte at a time, so that nothing behind a line is taken from the pipe.
    let mut near_hears = BufReader::with_capacity(1, near_hears);
    expect_line(&mut near_hears, "apart")?;
    io(
        "make the veth pair",
        route.add_veth(NEAR, FAR, far.as_raw().cast_unsigned()),
    )?;
    let near = index_of(NEAR)?;
    io("raise the near device", route.link_up(near))?;
    io(
        "address the near device",
        route.add_address(near, NEAR_V4.into(), 30),
    )?;
    io(
        "route to the far side",
        route.add_default_route(FAR_V4.into(), near),
    )?;
    if add_v6(&mut route, near, NEAR_V6)? {
        io(
            "route to the far side",
            route.add_default_route(FAR_V6.into(), near),
        )?;
    }
    io("tell the far side", near_says.write_all(b"g"))?;
    expect_line(&mut near_hears, "ready")?;
    // What the program says later is read, so that it never blocks on a full pipe.
    std::thread::spawn(move || std::io::copy(&mut near_hears, &mut std::io::sink()));
    Ok(())
}

fn expect_line(from: &mut impl BufRead, wanted: &str) -> Result<(), WorldError> {
    let mut line = String::new();
    io("listen to the far side", from.read_line(&mut line))?;
    if line.trim_end() == wanted {
        return Ok(());
    }
    Err(WorldError::NotReady {
        said: line.trim_end().to_owned(),
    })
}

fn add_v6(route: &mut Route, index: u32, address: Ipv6Addr) -> Result<bool, WorldError> {
    if !has_v6() {
        return Ok(false);
    }
    io(
        "address the device",
        route.add_address(index, address.into(), 126),
    )?;
    Ok(true)
}

fn has_v6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

fn index_of(name: &str) -> Result<u32, WorldError> {
    system("find a network device", nix::net::if_::if_nametoindex(name))
}

fn furnish_mounts(spec: &WorldSpec) -> Result<(), WorldError> {
    let none: Option<&str> = None;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    system("make mounts private", mount(none, "/", none, private, none))?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    system(
        "mount the world's own /proc",
        mount(Some("proc"), "/proc", Some("proc"), flags, none),
    )?;
    let scratch = std::env::temp_dir().join(format!("foreman-world-{}", random_name()?));
    io("make a scratch directory", std::fs::create_dir(&scratch))?;
    let placed = place_name_files(spec, &scratch);
    // The directory is the host's; only what is mounted over it is ours.
    io(
        "remove the scratch directory",
        std::fs::remove_dir(&scratch),
    )?;
    placed
}

fn place_name_files(spec: &WorldSpec, scratch: &Path) -> Result<(), WorldError> {
    let none: Option<&str> = None;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    system(
        "mount a scratch file system",
        mount(Some("world"), scratch, Some("tmpfs"), flags, none),
    )?;
    let resolv = match spec.resolver {
        Some(address) => format!("nameserver {address}\noptions timeout:2 attempts:2\n"),
        None => String::new(),
    };
    let mut done = Ok(());
    for (path, text) in [
        ("/etc/resolv.conf", resolv.as_str()),
        ("/etc/nsswitch.conf", NSSWITCH),
    ] {
        done = done.and_then(|()| place(scratch, Path::new(path), text));
    }
    // Name services that answer for the host would look names up outside of the world.
    if Path::new("/run/nscd").is_dir() {
        done = done.and_then(|()| {
            system(
                "hide nscd",
                mount(Some("world"), "/run/nscd", Some("tmpfs"), flags, none),
            )
        });
    }
    let gone = system(
        "leave the scratch file system",
        umount2(scratch, MntFlags::MNT_DETACH),
    );
    done.and(gone)
}

const NSSWITCH: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n";

fn place(scratch: &Path, path: &Path, text: &str) -> Result<(), WorldError> {
    let none: Option<&str> = None;
    let source = scratch.join(path.file_name().unwrap_or_default());
    io("write a name service file", std::fs::write(&source, text))?;
    let target: PathBuf = match path.canonicalize() {
        Ok(target) => target,
        // nsswitch.conf may be absent; the C library's default then asks files and DNS as well.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(WorldError::Io {
                what: format!("find {}", path.display()),
                error,
            });
        }
    };
    system(
        "bind a name service file",
        mount(Some(&source), &target, none, MsFlags::MS_BIND, none),
    )
}

fn random_name() -> Result<String, WorldError> {
    let mut bytes = [0_u8; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    io("read random bytes", read)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

/// Dies when the process that started this one dies.
fn end_with_parent() -> Result<(), WorldError> {
    system(
        "follow the parent",
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL),
    )
}

fn ignore_interrupts() -> Result<(), WorldError> {
    // SAFETY: SIG_IGN is no handler; it runs no code of ours.
    system("ignore interrupts", unsafe {
        signal(Signal::SIGINT, SigHandler::SigIgn)
    })
    .map(drop)
}

fn default_interrupts(command: &mut Command) -> &mut Command {
    let reset = || {
        // SAFETY: SIG_DFL is no handler, and `signal` may be called between fork and exec.
        unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) }
            .map(drop)
            .map_err(Into::into)
    };
    // SAFETY: the closure makes one system call that is safe between fork and exec, and allocates
    // nothing.
    unsafe { command.pre_exec(reset) }
}

/// Reaps orphans until this child ends; gives its exit code.
fn reap_until(child: Pid) -> Result<u8, WorldError> {
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => {
                return Ok(u8::try_from(code & 0xff).unwrap_or(u8::MAX));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                return Ok(128_u8.wrapping_add(u8::try_from(signal as i32).unwrap_or(0)));
            }
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => {
                return Err(WorldError::System {
                    what: "wait for the command",
                    errno,
                });
            }
        }
    }
}
