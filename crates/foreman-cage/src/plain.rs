//! A cage where the kernel gives no user namespaces: its programs are kept in by Landlock and the system
//! call filter alone, or, where the operator asked for that by name, by nothing.
//!
//! ```text
//! launcher ── process 1 (a child of the launcher, and the reaper of all that comes of it)
//! ```
//! What is called process 1 here has another number: it shares the machine's processes, files and network
//! with everybody. So it never signals "all", only what came of it; its programs may make no socket at all;
//! and nothing can be mounted, so nothing is shown or hidden while they run.
//!
//! What such a cage does not stop, beside what no cage stops: its programs see the names and command lines
//! of the machine's processes, may signal those of the same user where Landlock is older than version 6
//! (never the cage's own supervisor), read what everybody may in `/etc` and `/sys`, and may replace the
//! worktree's `.git`. What outlives its parents is found by whoever collects it, and killed with the cage; not
//! when supervisor and process 1 are killed in one moment.

use crate::identity::Identity;
use crate::kernel;
use crate::launch::{die_with_parent, no_answer};
use crate::root::{Built, HostPlaces, is_system};
use crate::wire::{self, During, Failed, Report};
use crate::{CageSpec, Step, census, init};
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, getppid};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Where programs keep what is theirs: below the specification's private folder.
pub(crate) const HOME: &str = "home";
pub(crate) const SCRATCH: &str = "tmp";

/// Process 1, from its fork on.
pub(crate) fn first(
    spec: &CageSpec,
    identity: Identity,
    launcher: Pid,
    socket: &OwnedFd,
) -> Result<(), Failed> {
    identity.take()?;
    // The kernel forgets this when the identity changes.
    die_with_parent()?;
    if getppid() != launcher {
        return Err(no_answer("its launcher ended", libc::ESRCH));
    }
    let private = private(spec)?;
    nothing_of_the_engine_is_open(spec)?;
    adopt_orphans()?;
    for name in ["", HOME, SCRATCH] {
        let dir = private.join(name);
        let made = std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(&dir);
        made.during(Step::NewRoot, || dir.display().to_string())?;
    }
    let why = listen(&private.join("why.sock"))?;
    let network = no_network(spec);
    wire::send(socket.as_fd(), &Report::NotPlumbed(network), &[])
        .during(Step::Prepare, || "answering".into())?;
    let handle = |path: &str, flags| {
        open(path, flags | OFlag::O_CLOEXEC, Mode::empty())
            .during(Step::Prepare, || path.to_owned())
    };
    let folder = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let built = Built {
        why,
        proc: handle("/proc", OFlag::O_RDONLY | OFlag::O_DIRECTORY)?,
        namespace_limits: handle("/proc/sys/user", folder)?,
        host: HostPlaces::default(),
        root: handle("/", folder)?,
        user_namespace: handle("/proc/self/ns/user", OFlag::O_RDONLY)?,
        mount_namespace: handle("/proc/self/ns/mnt", OFlag::O_RDONLY)?,
        own: Vec::new(),
    };
    init::serve(spec, identity, socket, &built, false)
}

/// What is orphaned below comes to the caller, and to nobody farther away.
pub(crate) fn adopt_orphans() -> Result<(), Failed> {
    kernel::process_control(libc::PR_SET_CHILD_SUBREAPER, 1)
        .during(Step::Prepare, || "PR_SET_CHILD_SUBREAPER".into())?;
    Ok(())
}

/// Signals all that came of the caller, and nobody else. What is forked meanwhile is met by the next call.
pub(crate) fn signal_what_came_of_us(signal: Signal) {
    let own = std::process::id();
    for pid in census::family(own).into_iter().filter(|pid| *pid != own) {
        // 1 is the machine's own first process, and what is below means more than one.
        if let Some(pid) = i32::try_from(pid).ok().filter(|pid| *pid > 1) {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

fn private(spec: &CageSpec) -> Result<&Path, Failed> {
    let missing = || {
        let error = io::Error::from_raw_os_error(libc::EINVAL);
        Failed::new(Step::CheckSpec, "it has no private folder", &error)
    };
    spec.private.as_deref().ok_or_else(missing)
}

/// Landlock can only ever allow: what lies in a folder that is open is open.
fn nothing_of_the_engine_is_open(spec: &CageSpec) -> Result<(), Failed> {
    if spec.confinement == crate::Confinement::Nothing {
        return Ok(());
    }
    let is_open = |hidden: &&PathBuf| {
        let shown = spec.binds.iter();
        let mut shown = shown.filter(|bind| !bind.source.starts_with(hidden));
        is_system(hidden) || shown.any(|bind| hidden.starts_with(&bind.source))
    };
    let Some(open) = spec.hidden.iter().find(is_open) else {
        return Ok(());
    };
    let why = format!(
        "{} lies in a folder that the run may read, and without namespaces it cannot be hidden there",
        open.display()
    );
    let error = io::Error::from_raw_os_error(libc::EACCES);
    Err(Failed::new(Step::CheckSpec, why, &error))
}

/// Why there is no network in it.
fn no_network(spec: &CageSpec) -> Failed {
    let why = match spec.confinement {
        crate::Confinement::Nothing => "the run is not confined, so its network is the machine's",
        _ => "without user namespaces there is no network that could be captured",
    };
    let error = io::Error::from_raw_os_error(libc::EPERM);
    Failed::new(Step::Plumb, why, &error)
}

fn listen(path: &Path) -> Result<UnixListener, Failed> {
    let listen = || {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        // A path may be longer than an address: named from the folder that holds it.
        let folder = open(
            path.parent().ok_or(io::ErrorKind::InvalidInput)?,
            OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )?;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let listener = UnixListener::bind(
            PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name),
        )?;
        listener.set_nonblocking(true)?;
        Ok::<_, io::Error>(listener)
    };
    listen().during(Step::WhySocket, || path.display().to_string())
}
