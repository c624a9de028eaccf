//! Tries at the walls of a cage without namespaces: what is not there is said, what makes up for it is tried.

use super::{ProbeResult, Tries, none_held, system_calls};
use crate::init::Surroundings;
use crate::{CageSpec, Confinement, kernel};
use foreman_domain::Wall;
use nix::sys::signal::kill;
use nix::unistd::{Pid, getppid};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;

/// What Landlock answers, and what the kernel does to an ordinary user before it comes to that.
const CLOSED: &[i32] = &[libc::EACCES, libc::EPERM, libc::EROFS];

pub(super) fn run(around: &Surroundings<'_>) -> Vec<ProbeResult> {
    if around.spec.confinement == Confinement::Nothing {
        return none_held("the run is not confined, as asked for");
    }
    vec![
        absent(
            Wall::UserNamespace,
            "this run has no namespaces: it sees the machine's processes, and may signal those of its user \
             where Landlock is older than version 6",
        ),
        absent(
            Wall::Mounts,
            "nothing is mounted for this run: Landlock alone keeps it to its files, and it sees the names of \
             others",
        ),
        absent(
            Wall::Git,
            "the worktree's .git can be replaced while the run lasts; its git directory is a private copy",
        ),
        files(around.spec),
        sockets(Wall::Network, libc::AF_INET),
        sockets(Wall::Dns, libc::AF_UNIX),
        calls(),
    ]
}

fn absent(wall: Wall, why: &str) -> ProbeResult {
    ProbeResult {
        wall,
        holds: false,
        detail: why.to_owned(),
    }
}

/// Landlock, the only wall around files.
fn files(spec: &CageSpec) -> ProbeResult {
    let mut tries = Tries::at(Wall::Landlock);
    let is_open = |path: &Path| {
        let mut binds = spec.binds.iter();
        binds.any(|bind| path.starts_with(&bind.source))
    };
    let home = spec.home.as_path();
    for dir in [
        home,
        Path::new("/tmp"),
        Path::new("/var/tmp"),
        Path::new("/dev/shm"),
    ] {
        if is_open(dir) || !dir.is_dir() {
            continue;
        }
        let path = dir.join(".foreman-probe");
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        if made.is_ok() {
            let _ = std::fs::remove_file(&path);
        }
        tries.must_fail(format!("write in {}", dir.display()), made, CLOSED);
        let listed = std::fs::read_dir(dir);
        tries.must_fail(format!("list {}", dir.display()), listed, CLOSED);
    }
    // Of the same user, and not protected by any mount.
    let environment = std::fs::read(format!("/proc/{}/environ", getppid()));
    tries.must_fail("read the environment of process 1", environment, CLOSED);
    let named = OpenOptions::new().write(true).open("/proc/self/comm");
    tries.must_fail("write below /proc", named, CLOSED);
    tries.result()
}

fn sockets(wall: Wall, family: i32) -> ProbeResult {
    let mut tries = Tries::at(wall);
    let name = if family == libc::AF_UNIX {
        "Unix"
    } else {
        "internet"
    };
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
        let made = kernel::try_socket(family, kind, 0);
        tries.must_fail(format!("make an {name} socket"), made, &[libc::EACCES]);
    }
    tries.result()
}

/// The filter, with what only counts here.
fn calls() -> ProbeResult {
    let mut tries = Tries::at(Wall::Seccomp);
    let by_name = nix::sys::stat::fchmodat(
        nix::fcntl::AT_FDCWD,
        ".",
        nix::sys::stat::Mode::from_bits_truncate(0o755),
        nix::sys::stat::FchmodatFlags::FollowSymlink,
    );
    let answers = &[libc::EPERM];
    tries.must_fail(
        "change permissions by name",
        by_name.map_err(io::Error::from),
        answers,
    );
    let cut = nix::unistd::truncate("/dev/null", 0);
    tries.must_fail("cut a file by name", cut.map_err(io::Error::from), answers);
    let signalled = kill(getppid(), None);
    tries.must_fail(
        "signal process 1",
        signalled.map_err(io::Error::from),
        answers,
    );
    let everybody = kill(Pid::from_raw(-1), None);
    tries.must_fail(
        "signal everybody",
        everybody.map_err(io::Error::from),
        answers,
    );
    let mut result = tries.result();
    let common = system_calls(libc::EACCES);
    result.holds &= common.holds;
    result.detail = format!("{}; {}", result.detail, common.detail);
    result
}
