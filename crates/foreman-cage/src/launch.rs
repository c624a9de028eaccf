//! Building a cage: the launcher's side, and the short life of the process that makes the
//! namespaces.
//!
//! ```text
//! launcher ─┬─ outer: user namespace, then the other namespaces; forks process 1; makes the
//!           │         network meanwhile; passes the gateway's sockets out; ends
//!           └─ process 1 (a child of the launcher): builds the files, becomes the cage's server
//! ```
//! The launcher must have one thread: both are forks of it. Process 1 dies with the launcher's
//! thread (parent-death signal) and with its socket.

use crate::ahead::First;
use crate::exchange::Exchange;
use crate::files::places::Places;
use crate::files::view::{Handles, View};
use crate::identity::Identity;
use crate::kernel;
use crate::sources::Sources;
use crate::wire::{self, During, Failed, Report};
use crate::{
    Cage, CageSpec, Confinement, LaunchError, Payload, Step, gateway, init, network, plain, remedy,
    root,
};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::TimeVal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getppid};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A cage that was built, with what came out of it.
#[derive(Debug)]
pub struct Launched {
    /// The cage. Nothing runs in it yet but its process 1.
    pub cage: Cage,
    /// The sockets of its network, for [`gateway::start`]. Otherwise why it has no network: that was
    /// accepted by the specification, its network namespace is empty, and nothing can leave it.
    pub sockets: Result<gateway::Sockets, LaunchError>,
    /// Listening stream socket of `/run/foreman/why.sock`; it does not block.
    pub why: OwnedFd,
    /// What was found out on the way.
    pub facts: Facts,
}

/// What a launch found out about the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Version of Landlock's interface; `None` when the kernel has none.
    pub landlock_abi: Option<u32>,
    /// How connections are held, in words; `None` when there is no network to hold any in.
    pub gate: Option<String>,
}

/// How often the launcher looks whether its children still live, and how long it waits in all.
const LOOK_EVERY_SECONDS: i64 = 1;
const MOST_LOOKS: u32 = 30;
/// How long a child may take to end by itself, in milliseconds.
const ABANDON_AFTER: u16 = 5_000;

/// Builds a cage. Must be called while the process has one thread, because it forks, and the thread
/// that calls it must live as long as the cage.
///
/// # Errors
/// The step that failed, with the missing wall and a remedy. Nothing is left of the cage.
pub fn launch(spec: &CageSpec) -> Result<Launched, LaunchError> {
    launch_ahead(spec, None, || ()).0
}

/// As [`launch`], and does `meanwhile` while the cage is built: the process may have more threads from
/// then on.
///
/// `first` is started as soon as the cage is built, tries the walls for the first
/// [`Cage::probe`], which must follow soon, and runs when [`Cage::spawn`] first asks for an equal
/// program, and not before.
pub fn launch_ahead<T>(
    spec: &CageSpec,
    first: Option<Payload>,
    meanwhile: impl FnOnce() -> T,
) -> (Result<Launched, LaunchError>, T) {
    let building = begin(spec);
    let done = meanwhile();
    let places = Places::of(spec);
    let launched = building.and_then(|begun| finish(begun, spec.confinement, places, first));
    (launched.map_err(remedy::explain), done)
}

/// Forks everything.
fn begin(spec: &CageSpec) -> Result<Begun, Failed> {
    spec.check().during(Step::CheckSpec, String::new)?;
    one_thread()?;
    if !spec.confinement.has_namespaces() {
        // What outlives its process 1 comes to us.
        plain::adopt_orphans()?;
    }
    let identity = Identity::of_launcher(spec)?;
    let during = |what: &'static str| move || what.to_owned();
    let (socket, theirs) = wire::pair().during(Step::Prepare, during("socketpair"))?;
    setsockopt(
        &socket,
        ReceiveTimeout,
        &TimeVal::new(LOOK_EVERY_SECONDS, 0),
    )
    .during(Step::Prepare, during("setsockopt"))?;
    let launcher = nix::unistd::getpid();
    // SAFETY: this process has one thread, which was just made sure of.
    let child = match unsafe { fork() }.during(Step::Prepare, during("fork"))? {
        ForkResult::Child => {
            drop(socket);
            in_child(&theirs, || match spec.confinement.has_namespaces() {
                true => outer(spec, identity, launcher, &theirs),
                false => plain::first(spec, identity, launcher, &theirs),
            })
        }
        ForkResult::Parent { child } => child,
    };
    drop(theirs);
    let construction = match spec.confinement.has_namespaces() {
        true => Construction {
            outer: Some(child),
            init: None,
        },
        false => Construction {
            outer: None,
            init: Some(child),
        },
    };
    Ok(Begun {
        construction,
        socket,
        identity,
    })
}

/// What was forked.
struct Begun {
    construction: Construction,
    socket: OwnedFd,
    identity: Identity,
}

/// Waits until everything is built.
fn finish(
    begun: Begun,
    confinement: Confinement,
    places: Places,
    first: Option<Payload>,
) -> Result<Launched, Failed> {
    let Begun {
        mut construction,
        socket,
        identity,
    } = begun;
    let parts = match construction.collect(&socket) {
        Ok(parts) => parts,
        Err(failed) => {
            construction.abandon(&socket);
            return Err(failed);
        }
    };
    let during_answer = |error: io::Error| Failed::new(Step::Answer, "", &error);
    let exchange = Exchange::new(socket).map_err(during_answer)?;
    // What cannot be started ahead is started when it is asked for.
    let first = first.and_then(|payload| First::begin(payload, &exchange).ok());
    let init = construction.finish()?;
    let process = kernel::process_fd(init.as_raw()).map_err(during_answer)?;
    let view = View::new(parts.handles, places, identity);
    let cage = Cage::new(
        init,
        process,
        parts.proc,
        view,
        exchange,
        first,
        confinement,
    );
    let sockets = parts.sockets.map_err(remedy::explain);
    let gate = sockets.as_ref().ok();
    let gate = gate.map(|sockets| sockets.gate().name().to_owned());
    let landlock_abi = kernel::landlock_abi();
    let facts = Facts { landlock_abi, gate };
    Ok(Launched {
        cage,
        sockets,
        why: parts.why,
        facts,
    })
}

fn one_thread() -> Result<(), Failed> {
    let step = Step::CountThreads;
    let threads = std::fs::read_dir("/proc/self/task").during(step, || "/proc/self/task".into())?;
    let count = threads.count();
    if count == 1 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(libc::EINVAL);
    Err(Failed::new(step, format!("{count} threads"), &error))
}

/// Children under construction.
struct Construction {
    outer: Option<Pid>,
    init: Option<Pid>,
}

/// What the children hand out.
struct Parts {
    sockets: Result<gateway::Sockets, Failed>,
    why: OwnedFd,
    proc: OwnedFd,
    handles: Handles,
}

impl Construction {
    /// Waits for everything that the children report.
    fn collect(&mut self, socket: &OwnedFd) -> Result<Parts, Failed> {
        let (mut sockets, mut files) = (None, None);
        let mut looks = 0;
        loop {
            (sockets, files) = match (sockets, files) {
                (Some(sockets), Some((why, proc, handles))) if self.init.is_some() => {
                    return Ok(Parts {
                        sockets,
                        why,
                        proc,
                        handles,
                    });
                }
                incomplete => incomplete,
            };
            let (report, fds) = match wire::receive::<Report>(socket.as_fd()) {
                Ok(Some(message)) => message,
                Ok(None) => return Err(no_answer("its first processes ended", libc::ESRCH)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    looks += 1;
                    self.still_alive(looks)?;
                    continue;
                }
                Err(error) => return Err(Failed::new(Step::Answer, "", &error)),
            };
            match report {
                Report::Forked { init } => self.init = Some(Pid::from_raw(init)),
                Report::Plumbed { description } => {
                    let taken = gateway::Sockets::from_fds(fds, &description);
                    let taken = taken.during(Step::Plumb, || "taking the sockets".into())?;
                    sockets = Some(Ok(taken));
                }
                Report::NotPlumbed(why) => sockets = Some(Err(why)),
                Report::Ready { own } => {
                    let Ok([why, proc, root, user, mounts]) = <[OwnedFd; 5]>::try_from(fds) else {
                        return Err(no_answer("it gave out no handles", libc::EBADF));
                    };
                    let handles = Handles {
                        root,
                        user,
                        mounts,
                        own,
                    };
                    files = Some((why, proc, handles));
                }
                Report::Failed(failed) => return Err(failed),
            }
        }
    }

    /// Fails when the outer process ended badly or everything takes too long.
    fn still_alive(&mut self, looks: u32) -> Result<(), Failed> {
        if let Some(outer) = self.outer {
            match waitpid(outer, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => {}
                Ok(WaitStatus::Exited(_, 0)) => self.outer = None,
                _ => {
                    self.outer = None;
                    return Err(no_answer("its first process was killed", libc::ESRCH));
                }
            }
        }
        if looks < MOST_LOOKS {
            Ok(())
        } else {
            Err(no_answer("it took too long", libc::ETIMEDOUT))
        }
    }

    /// Ends and reaps both children.
    fn abandon(&mut self, socket: &OwnedFd) {
        if let Some(outer) = self.outer.take() {
            // Left alone it ends by itself, after it has told whom it forked.
            let ended = kernel::process_fd(outer.as_raw()).and_then(|process| {
                let mut ended = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
                Ok(poll(&mut ended, ABANDON_AFTER)?)
            });
            if !matches!(ended, Ok(1)) {
                let _ = nix::sys::signal::kill(outer, Signal::SIGKILL);
            }
            let _ = waitpid(outer, None);
        }
        let _ = kernel::do_not_block(socket.as_fd());
        while let Ok(Some((report, _))) = wire::receive::<Report>(socket.as_fd()) {
            if let Report::Forked { init } = report {
                self.init = Some(Pid::from_raw(init));
            }
        }
        if let Some(init) = self.init.take() {
            let _ = nix::sys::signal::kill(init, Signal::SIGKILL);
            let _ = waitpid(init, None);
        }
    }

    /// Reaps the outer process, and gives process 1 into other hands.
    fn finish(mut self) -> Result<Pid, Failed> {
        if let Some(outer) = self.outer.take() {
            let _ = waitpid(outer, None);
        }
        self.init
            .take()
            .ok_or_else(|| no_answer("it has no process 1", libc::ESRCH))
    }
}

pub(crate) fn no_answer(why: &str, errno: i32) -> Failed {
    Failed {
        step: Step::Answer,
        detail: why.to_owned(),
        errno: Some(errno),
    }
}

/// Runs a child's part, reports what it could not do, and ends it.
fn in_child(socket: &OwnedFd, part: impl FnOnce() -> Result<(), Failed>) -> ! {
    // A panic must not unwind into the launcher's code in this copy of it.
    let result = catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|_| {
        Err(Failed {
            step: Step::Prepare,
            detail: "a defect of ours".into(),
            errno: None,
        })
    });
    let code = i32::from(result.is_err());
    if let Err(failed) = result {
        let _ = wire::send(socket.as_fd(), &Report::Failed(failed), &[]);
    }
    kernel::end_process(code)
}

/// The first child: namespaces, process 1, network.
fn outer(
    spec: &CageSpec,
    identity: Identity,
    launcher: Pid,
    socket: &OwnedFd,
) -> Result<(), Failed> {
    // Root's eyes are needed for what only root can see, before they are closed.
    let sources = if identity.change {
        Some(Sources::open(spec)?)
    } else {
        None
    };
    identity.take()?;
    // The kernel forgets this when the identity changes.
    die_with_parent()?;
    if getppid() != launcher {
        return Err(no_answer("its launcher ended", libc::ESRCH));
    }
    identity.enter_namespace()?;
    let (network, networks) = wire::pair().during(Step::Prepare, || "socketpair".into())?;
    let namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    // SAFETY: this process is a fork of one with one thread.
    let init = unsafe { kernel::fork_sister(namespaces) }
        .during(Step::Namespaces, || "clone into namespaces".into())?;
    if init == 0 {
        drop(networks);
        in_child(socket, || first(spec, identity, sources, &network, socket));
    }
    drop((sources, network));
    wire::send(socket.as_fd(), &Report::Forked { init }, &[])
        .during(Step::Prepare, || "answering".into())?;
    network::make(spec, &networks, socket)
}

/// Process 1.
fn first(
    spec: &CageSpec,
    identity: Identity,
    sources: Option<Sources>,
    network: &OwnedFd,
    socket: &OwnedFd,
) -> Result<(), Failed> {
    die_with_parent()?;
    nix::unistd::sethostname(&spec.hostname).during(Step::Namespaces, || "sethostname".into())?;
    let sources = match sources {
        Some(sources) => sources,
        None => Sources::open(spec)?,
    };
    let built = root::build(spec, identity, sources)?;
    let gateway = network::enter(network)?;
    init::serve(spec, identity, socket, &built, gateway)
}

pub(crate) fn die_with_parent() -> Result<(), Failed> {
    kernel::process_control(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
        .during(Step::Prepare, || "PR_SET_PDEATHSIG".into())?;
    Ok(())
}
