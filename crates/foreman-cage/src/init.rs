//! Process 1 of a cage: a small server with one thread, one socket and no rights.
//!
//! It forks payloads, reaps everything that ends, and can kill all or signal one. It has no
//! capabilities, cannot be traced or read, and from inside no signal reaches it. It trusts its
//! socket and nothing else, and ends, and with it the whole cage, when the socket closes: that is
//! when its supervisor is gone.

use crate::identity::Identity;
use crate::kernel;
use crate::payload::{self, Streams};
use crate::root::{Built, HostPlaces};
use crate::seccomp::Filter;
use crate::wire::{self, During, Ended, Failed, Notice, Report, Request, Stdio, What};
use crate::{CageSpec, Confinement, Step, landlock_wall, plain};
use landlock::RulesetCreated;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::stat::Mode;
use nix::unistd::{ForkResult, Pid, fork, pipe2};
use std::collections::HashSet;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Processes beyond a payload's own bound, so that a later step can still start.
const SPARE_PROCESSES: u64 = 16;

/// Exit code of a payload that did not become its program, as shells have it.
const NOT_RUN: i32 = 127;

/// What every payload is made from.
pub(crate) struct Surroundings<'cage> {
    pub spec: &'cage CageSpec,
    pub identity: Identity,
    pub namespace_limits: &'cage OwnedFd,
    pub landlock: Option<BorrowedFd<'cage>>,
    pub filter: &'cage Filter,
    pub host: &'cage HostPlaces,
    /// Whether a gateway captures what is sent in the cage's network.
    pub gateway: bool,
}

/// Tells that the cage is ready and serves until the socket closes. Fails only before the first.
pub(crate) fn serve(
    spec: &CageSpec,
    identity: Identity,
    socket: &OwnedFd,
    built: &Built,
    gateway: bool,
) -> Result<(), Failed> {
    let during = |what: &'static str| move || what.to_owned();
    let step = Step::InitProcess;
    kernel::process_control(libc::PR_SET_DUMPABLE, 0).during(step, during("PR_SET_DUMPABLE"))?;
    // The operator's keys; the filter keeps payloads from asking for any.
    let _ = kernel::new_session_keyring();
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
        .during(step, during("/dev/null"))?;
    for stream in 0..3 {
        kernel::duplicate_to(null.as_raw_fd(), stream).during(step, during("standard streams"))?;
    }
    let children = child_signals().during(step, during("signals"))?;
    limit_processes(spec).during(step, during("limits"))?;
    match spec.confinement.has_namespaces() {
        true => kernel::drop_capabilities(),
        false => kernel::drop_own_capabilities(),
    }
    .during(step, during("capabilities"))?;
    kernel::process_control(libc::PR_SET_NO_NEW_PRIVS, 1).during(step, during("no_new_privs"))?;
    let ready = Report::Ready {
        own: built.own.clone(),
    };
    let handles = [
        built.why.as_fd(),
        built.proc.as_fd(),
        built.root.as_fd(),
        built.user_namespace.as_fd(),
        built.mount_namespace.as_fd(),
    ];
    wire::send(socket.as_fd(), &ready, &handles).during(step, during("answering"))?;
    // Made while the launcher goes on. No required wall: where it cannot be had, the probes say so.
    let ruleset: Option<OwnedFd> = landlock_wall::rules(spec)
        .ok()
        .and_then(RulesetCreated::into);
    let filter = match spec.confinement {
        Confinement::Landlock => Filter::without_namespaces(&supervisors()),
        Confinement::Namespaces | Confinement::Nothing => Filter::new(),
    };
    let mut keep: Vec<RawFd> = vec![socket.as_raw_fd(), children.as_raw_fd()];
    keep.push(built.namespace_limits.as_raw_fd());
    keep.extend(ruleset.as_ref().map(AsRawFd::as_raw_fd));
    // SAFETY: the launcher's descriptors are owned by values of its copied memory, which this
    // process never uses nor drops: it ends by `_exit`.
    unsafe { kernel::close_all_but(&keep) }.during(step, during("closing descriptors"))?;
    let around = Surroundings {
        spec,
        identity,
        namespace_limits: &built.namespace_limits,
        landlock: ruleset.as_ref().map(AsFd::as_fd),
        filter: &filter,
        host: &built.host,
        gateway,
    };
    let mut init = Init {
        socket,
        has_namespaces: spec.confinement.has_namespaces(),
        programs: HashSet::new(),
        killing: vec![],
        killed: 0,
    };
    // Whatever ends the loop, there is nobody left to tell.
    let _ = init.run(&around, &children);
    Ok(())
}

struct Init<'cage> {
    socket: &'cage OwnedFd,
    /// Whether everybody whom the caller can see belongs to the cage.
    has_namespaces: bool,
    /// Payloads whose exits are to be told.
    programs: HashSet<Pid>,
    /// Requests to kill everything that are under way.
    killing: Vec<u64>,
    /// How many processes they took so far.
    killed: u32,
}

impl Init<'_> {
    fn run(&mut self, around: &Surroundings<'_>, children: &SignalFd) -> io::Result<()> {
        loop {
            let mut waiting = [
                PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
                PollFd::new(children.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut waiting, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let asked = waiting[0].any().unwrap_or(true);
            let ended = waiting[1].any().unwrap_or(true);
            if ended {
                while let Ok(Some(_)) = children.read_signal() {}
                self.reap()?;
            }
            if asked {
                match wire::receive::<Request>(self.socket.as_fd())? {
                    Some((request, fds)) => self.answer(around, request, fds)?,
                    None => return Ok(()),
                }
            }
        }
    }

    fn answer(
        &mut self,
        around: &Surroundings<'_>,
        request: Request,
        fds: Vec<OwnedFd>,
    ) -> io::Result<()> {
        match request {
            Request::Spawn { id, what, stdio } => match start(around, what, stdio, fds) {
                Ok(started) => {
                    self.programs.insert(started.pid);
                    let ends: Vec<BorrowedFd<'_>> = started.ends.iter().map(AsFd::as_fd).collect();
                    self.tell(
                        &Notice::Spawned {
                            id,
                            pid: started.pid.as_raw(),
                        },
                        &ends,
                    )
                }
                Err(failed) => self.tell(&Notice::NotSpawned { id, failed }, &[]),
            },
            Request::Signal { pid, signal } => {
                // A program that has been reaped is not in the set, so its number is never reused
                // for a signal.
                let pid = Pid::from_raw(pid);
                if self.programs.contains(&pid)
                    && let Ok(signal) = Signal::try_from(signal)
                    && nix::sys::signal::killpg(pid, signal).is_err()
                {
                    // It has only just been forked, and has no group of its own yet.
                    let _ = nix::sys::signal::kill(pid, signal);
                }
                Ok(())
            }
            Request::KillAll { id } => {
                // What has ended by itself is not to be counted.
                self.reap()?;
                self.killing.push(id);
                self.reap()
            }
            Request::LimitFiles { most } => {
                // Lower than it is can always be set.
                let hard = kernel::hard_limit(libc::RLIMIT_NOFILE)?;
                kernel::limit(libc::RLIMIT_NOFILE, u64::from(most).min(hard))
            }
            Request::Sockets { id } => {
                let made = tcp_sockets().unwrap_or_default();
                let fds: Vec<BorrowedFd<'_>> = made.iter().map(AsFd::as_fd).collect();
                self.tell(&Notice::Sockets { id }, &fds)
            }
            Request::StopAll { id } => {
                // One call for all: see `pause`. That there is nobody is fine.
                self.signal_all(Signal::SIGSTOP);
                self.tell(&Notice::AllStopped { id }, &[])
            }
        }
    }

    /// Collects everything that has ended, tells about programs, and goes on killing if asked to.
    fn reap(&mut self) -> io::Result<()> {
        loop {
            if !self.killing.is_empty() {
                self.signal_all(Signal::SIGKILL);
            }
            let (pid, end) = match kernel::reap_one() {
                Ok(Some(ended)) => ended,
                Ok(None) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    let count = std::mem::take(&mut self.killed);
                    for id in std::mem::take(&mut self.killing) {
                        self.tell(&Notice::Killed { id, count }, &[])?;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let exit = match end {
                Ok(code) => Ended::Code(code),
                Err(signal) => Ended::Signal(signal),
            };
            if !self.killing.is_empty() {
                self.killed += 1;
            }
            if self.programs.remove(&Pid::from_raw(pid)) {
                self.tell(&Notice::Exited { pid, exit }, &[])?;
            }
        }
    }

    /// Signals everybody else in the cage.
    fn signal_all(&self, signal: Signal) {
        if self.has_namespaces && std::process::id() == 1 {
            // To all but process 1 and the caller, which are the same here.
            let _ = nix::sys::signal::kill(Pid::from_raw(-1), signal);
        } else {
            plain::signal_what_came_of_us(signal);
        }
    }

    fn tell(&self, notice: &Notice, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        wire::send(self.socket.as_fd(), notice, fds)
    }
}

/// A socket of each family, connected to nothing.
fn tcp_sockets() -> nix::Result<Vec<OwnedFd>> {
    let make = |family| {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        socket(family, SockType::Stream, flags, None)
    };
    Ok(vec![
        make(AddressFamily::Inet)?,
        make(AddressFamily::Inet6)?,
    ])
}

struct Started {
    pid: Pid,
    /// The supervisor's ends of the standard streams.
    ends: Vec<OwnedFd>,
}

/// Forks a payload.
fn start(
    around: &Surroundings<'_>,
    what: What,
    stdio: Stdio,
    fds: Vec<OwnedFd>,
) -> Result<Started, Failed> {
    let missing = || {
        Failed::new(
            Step::Prepare,
            "descriptors",
            &io::ErrorKind::InvalidData.into(),
        )
    };
    let mut fds = fds.into_iter();
    let status = fds.next().ok_or_else(missing)?;
    let mut next = || fds.next().ok_or_else(missing);
    let memory = next()?;
    let gate = match what {
        What::Waiting => Some(next()?),
        What::Program | What::Probes => None,
    };
    let door = fds.next();
    let (streams, ends) = make_streams(stdio).during(Step::Prepare, || "streams".into())?;
    // SAFETY: this process has one thread.
    match unsafe { fork() }.during(Step::Prepare, || "fork".into())? {
        ForkResult::Parent { child } => Ok(Started { pid: child, ends }),
        ForkResult::Child => {
            let run = || {
                let why = match (what, gate) {
                    (What::Probes, _) => {
                        payload::become_probes(around, memory, streams, status);
                        return 0;
                    }
                    (_, Some(gate)) => {
                        payload::become_program_when_told(around, memory, streams, gate, &status)
                    }
                    (_, None) => Some(payload::become_program(around, memory, streams, door)),
                };
                if let Some(why) = why {
                    let text = serde_json::to_vec(&why).unwrap_or_default();
                    let _ = std::fs::File::from(status).write_all(&text);
                }
                NOT_RUN
            };
            // A panic must not unwind into process 1's loop in this copy of it.
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            kernel::end_process(code.unwrap_or(NOT_RUN))
        }
    }
}

/// Makes the standard streams of a payload, as the cage's own user, and our ends of them.
fn make_streams(stdio: Stdio) -> io::Result<(Streams, Vec<OwnedFd>)> {
    let null = || open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty());
    match stdio {
        Stdio::Null => Ok((Streams::Separate([null()?, null()?, null()?]), vec![])),
        Stdio::Pipes => {
            let (out, out_write) = pipe2(OFlag::O_CLOEXEC)?;
            let (error, error_write) = pipe2(OFlag::O_CLOEXEC)?;
            Ok((
                Streams::Separate([null()?, out_write, error_write]),
                vec![out, error],
            ))
        }
        Stdio::Conversation => {
            let (input_read, input) = pipe2(OFlag::O_CLOEXEC)?;
            let (out, out_write) = pipe2(OFlag::O_CLOEXEC)?;
            let (error, error_write) = pipe2(OFlag::O_CLOEXEC)?;
            Ok((
                Streams::Separate([input_read, out_write, error_write]),
                vec![out, error, input],
            ))
        }
        Stdio::Terminal { columns, rows } => {
            let (master, terminal) = kernel::open_terminal()?;
            kernel::resize_terminal(master.as_fd(), columns, rows)?;
            Ok((Streams::Terminal(terminal), vec![master]))
        }
    }
}

/// Makes the end of a child readable from a descriptor. Nothing else interrupts process 1.
fn child_signals() -> io::Result<SignalFd> {
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None)?;
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGCHLD);
    Ok(SignalFd::with_flags(
        &ends,
        SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK,
    )?)
}

/// Who must not be signalled from a cage that sees them: process 1 itself, and its supervisor.
fn supervisors() -> [u32; 2] {
    [
        std::process::id(),
        nix::unistd::getppid().as_raw().unsigned_abs(),
    ]
}

/// The bound of all steps together: user namespaces below this one inherit it. Without any the kernel counts all
/// processes of the user, so that it would be no bound of the cage's.
fn limit_processes(spec: &CageSpec) -> io::Result<()> {
    if !spec.confinement.has_namespaces() {
        return kernel::limit(libc::RLIMIT_CORE, 0);
    }
    let most = u64::from(spec.processes).saturating_add(SPARE_PROCESSES);
    let most = most.min(kernel::hard_limit(libc::RLIMIT_NPROC)?);
    kernel::limit(libc::RLIMIT_NPROC, most)?;
    kernel::limit(libc::RLIMIT_CORE, 0)
}
