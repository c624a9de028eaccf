//! Tries at the file walls.

use super::Tries;
use crate::root::HostPlaces;
use crate::{CageSpec, ProbeResult, kernel};
use foreman_domain::Wall;
use nix::unistd::{AccessFlags, access};
use std::fs::OpenOptions;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const READ_ONLY: &[i32] = &[libc::EROFS, libc::EACCES];
const CLOSED: &[i32] = &[libc::EACCES, libc::EPERM, libc::EIO, libc::ESRCH];

/// `shown` are places that are seen beside those of the specification, and whether they may be written.
pub(super) fn mounts(spec: &CageSpec, host: &HostPlaces, shown: &[(PathBuf, bool)]) -> ProbeResult {
    let is_shown = |path: &Path, to_write: bool| {
        let mut shown = shown.iter();
        shown.any(|(root, writable)| path.starts_with(root) && (*writable || !to_write))
    };
    let mut tries = Tries::at(Wall::Mounts);
    for dir in ["/", "/usr", "/dev"] {
        let path = format!("{dir}/.foreman-probe");
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        if made.is_ok() {
            let _ = std::fs::remove_file(&path);
        }
        tries.must_fail(format!("write in {dir}"), made, READ_ONLY);
    }
    let steering = [
        "/etc/passwd",
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
    ];
    for file in steering.into_iter().filter(|file| Path::new(file).exists()) {
        let opened = OpenOptions::new().append(true).open(file);
        tries.must_fail(format!("write {file}"), opened, READ_ONLY);
    }
    let sealed = spec.binds.iter().filter(|bind| !bind.writable);
    for bind in sealed.filter(|bind| !is_shown(&bind.target, true)) {
        let writable = access(&bind.target, AccessFlags::W_OK).map_err(io::Error::from);
        tries.must_fail(
            format!("write {}", bind.target.display()),
            writable,
            READ_ONLY,
        );
    }
    let seen = host.0.iter().filter(|(path, place)| {
        let is_there = path
            .metadata()
            .is_ok_and(|found| (found.dev(), found.ino()) == *place);
        is_there && !is_shown(path, false)
    });
    let seen: Vec<String> = seen.map(|(path, _)| path.display().to_string()).collect();
    if seen.is_empty() {
        tries.note("see the host's home, /tmp and root", true);
    } else {
        tries.note(format!("see the host's {}", seen.join(" and ")), false);
    }
    let memory = OpenOptions::new().read(true).open("/proc/1/mem");
    tries.must_fail("open the memory of process 1", memory, CLOSED);
    let environment =
        std::fs::File::open("/proc/1/environ").and_then(|mut file| file.read(&mut [0; 1]));
    tries.must_fail("read the environment of process 1", environment, CLOSED);
    tries.result()
}

/// The worktree's `.git` file, if there is one: with it, everything that git does on the host would
/// be the cage's to steer.
pub(super) fn git(spec: &CageSpec) -> Option<ProbeResult> {
    let file = spec.workdir.join(".git");
    let seen = file.symlink_metadata().ok()?;
    let mut tries = Tries::at(Wall::Git);
    tries.note("find anything but a file at .git", seen.is_file());
    let opened = OpenOptions::new().append(true).open(&file);
    tries.must_fail("write .git", opened, &[libc::EROFS]);
    let aside = spec.workdir.join(".git.foreman-probe");
    let moved = std::fs::rename(&file, &aside);
    if moved.is_ok() {
        let _ = std::fs::rename(&aside, &file);
    }
    tries.must_fail(
        "move .git away",
        moved,
        &[libc::EBUSY, libc::EROFS, libc::EXDEV],
    );
    Some(tries.result())
}

pub(super) fn landlock() -> ProbeResult {
    let Some(abi) = kernel::landlock_abi() else {
        let detail = "this kernel has no Landlock".to_owned();
        return ProbeResult {
            wall: Wall::Landlock,
            holds: false,
            detail,
        };
    };
    let mut tries = Tries::at(Wall::Landlock);
    // Writable by its mount, and by its owner; only the rules say no.
    let named = OpenOptions::new()
        .write(true)
        .open("/proc/self/comm")
        .and_then(|mut file| file.write(b"probe"));
    let what = format!("write below /proc against the rules (ABI {abi})");
    tries.must_fail(what, named, &[libc::EACCES]);
    tries.result()
}
