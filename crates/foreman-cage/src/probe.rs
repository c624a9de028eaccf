//! Proof from inside: what must fail is tried, by a process that is confined like any program.
//!
//! Each wall gets one result. A wall holds when every try failed the way it must; anything else,
//! also a try that failed for a reason of its own, is reported as a hole. Nothing is damaged where a
//! wall does not hold: tries that would succeed change nothing, or undo it.

mod alone;
mod egress;
mod files;

pub use egress::{PROBE_ADDRESS, PROBE_NAME};

use crate::init::Surroundings;
use crate::kernel;
use crate::wire::{Failed, Tried};
use foreman_domain::Wall;
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};
use std::io;

/// What a probe from inside saw of a wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Which wall.
    pub wall: Wall,
    /// Whether everything that was tried failed as it must.
    pub holds: bool,
    /// What was tried and seen.
    pub detail: String,
}

/// How much is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Depth {
    /// Every wall.
    #[default]
    Full,
    /// What could change around a program that is running: mounts, git, network and names. The rest is
    /// put up around each program by itself, and cannot be taken away again.
    Quick,
}

/// The tries at one wall.
struct Tries {
    wall: Wall,
    stopped: Vec<String>,
    holes: Vec<String>,
}

impl Tries {
    fn at(wall: Wall) -> Self {
        Self {
            wall,
            stopped: vec![],
            holes: vec![],
        }
    }

    /// Notes a try: `what` in words that follow "could" or "could not".
    fn note(&mut self, what: impl Into<String>, stopped: bool) {
        let list = if stopped {
            &mut self.stopped
        } else {
            &mut self.holes
        };
        list.push(what.into());
    }

    /// Notes a try that must fail with one of these answers.
    fn must_fail<T>(&mut self, what: impl Into<String>, tried: io::Result<T>, with: &[i32]) {
        match tried {
            Ok(_) => self.note(what, false),
            Err(error) => {
                let expected = error
                    .raw_os_error()
                    .is_some_and(|errno| with.contains(&errno));
                let what = what.into();
                self.note(
                    if expected {
                        what
                    } else {
                        format!("{what} ({error})")
                    },
                    expected,
                );
            }
        }
    }

    fn result(self) -> ProbeResult {
        let holds = self.holes.is_empty();
        let detail = if holds {
            format!("could not {}", self.stopped.join(", "))
        } else {
            format!("could {}", self.holes.join(", "))
        };
        ProbeResult {
            wall: self.wall,
            holds,
            detail,
        }
    }
}

/// Tries every wall. The caller is confined and has no descriptors but the standard streams and the
/// one it answers on. Without a gateway, a network that is as good as none is what must be seen.
pub(crate) fn run(around: &Surroundings<'_>, tried: &Tried) -> Vec<ProbeResult> {
    let spec = around.spec;
    if !spec.confinement.has_namespaces() {
        return alone::run(around);
    }
    // The gateway answers these while the others are tried.
    let asked = egress::ask(around.gateway);
    let mut results = vec![files::mounts(spec, around.host, &tried.shown)];
    results.extend(files::git(spec));
    if tried.depth == Depth::Full {
        results.insert(0, user_namespace());
        results.push(system_calls(0));
        results.push(files::landlock());
    }
    results.extend(asked.answers());
    results
}

/// The result when the probes themselves could not be confined.
pub(crate) fn unconfined(failed: &Failed) -> ProbeResult {
    ProbeResult {
        wall: failed.step.wall().unwrap_or(Wall::UserNamespace),
        holds: false,
        detail: format!(
            "cannot {} ({}): {}",
            failed.step.words(),
            failed.detail,
            failed.error()
        ),
    }
}

/// The results when nothing could be tried: no required wall is proven.
pub(crate) fn none_held(why: &str) -> Vec<ProbeResult> {
    Wall::ALL
        .into_iter()
        // Control groups are no wall that a probe in the cage could see.
        .filter(|wall| *wall != Wall::Cgroup)
        .map(|wall| ProbeResult {
            wall,
            holds: false,
            detail: why.to_owned(),
        })
        .collect()
}

fn user_namespace() -> ProbeResult {
    let mut tries = Tries::at(Wall::UserNamespace);
    let answers = [libc::EPERM, libc::ENOSPC];
    let nested = unshare(CloneFlags::CLONE_NEWUSER).map_err(io::Error::from);
    tries.must_fail("make a user namespace", nested, &answers);
    tries.note("be root", !nix::unistd::geteuid().is_root());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|value| value.trim_start_matches(':').trim().to_owned())
    };
    let none = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
        .iter()
        .all(|set| field(set).and_then(|bits| u64::from_str_radix(&bits, 16).ok()) == Some(0));
    tries.note("hold a capability", none);
    tries.note(
        "gain privileges by exec",
        field("NoNewPrivs").as_deref() == Some("1"),
    );
    tries.result()
}

/// `sockets` is what every socket is answered where none can be made, else 0.
fn system_calls(sockets: i32) -> ProbeResult {
    let mut tries = Tries::at(Wall::Seccomp);
    let vsock = kernel::try_socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0);
    let answers = &[libc::EAFNOSUPPORT, sockets];
    tries.must_fail("open a vsock socket", vsock, answers);
    let raw = kernel::try_socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP);
    tries.must_fail("open a raw socket", raw, &[libc::EPERM, sockets]);
    let audit = kernel::try_socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER);
    let answers = &[libc::EPROTONOSUPPORT, sockets];
    tries.must_fail("reach the firewall", audit, answers);
    tries.must_fail("set up io_uring", kernel::try_io_uring(), &[libc::ENOSYS]);
    tries.must_fail(
        "reach the keyring",
        kernel::new_session_keyring(),
        &[libc::EPERM],
    );
    tries.must_fail(
        "type into a terminal",
        kernel::try_terminal_injection(),
        &[libc::EPERM],
    );
    let memory = kernel::try_read_memory(1);
    tries.must_fail("read the memory of process 1", memory, &[libc::EPERM]);
    let mount = nix::mount::mount(
        Some("probe"),
        "/tmp",
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        None::<&str>,
    );
    tries.must_fail(
        "mount",
        mount.map_err(io::Error::from),
        &[Errno::EPERM as i32],
    );
    tries.result()
}
