//! What becomes of a process between its fork from process 1 and its own program: every wall is put
//! up around it, in an order in which none is in the way of the next.
//!
//! Order: session and streams, working directory, second user namespace (in which nobody can make
//! another), limits, capabilities, Landlock, descriptors, system call filter; last, where calls on files
//! are held, the filter that makes them wait. What fails before the end is reported over the status pipe
//! and the process ends; it never runs unconfined.

use crate::files::watch::{self, Watch};
use crate::init::Surroundings;
use crate::kernel;
use crate::launch::die_with_parent;
use crate::program;
use crate::wire::{self, During, Failed, Go, NotRun, Program, Tried};
use crate::{Confinement, Step, probe};
use foreman_domain::Wall;
use nix::fcntl::{OFlag, openat};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::stat::{Mode, umask};
use serde::de::DeserializeOwned;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// The ends of its standard streams that a payload gets.
pub(crate) enum Streams {
    /// Standard input, output and error.
    Separate([OwnedFd; 3]),
    /// A terminal, for all three and as the controlling one.
    Terminal(OwnedFd),
}

/// Makes programs of a cage the first choice when memory runs out.
const OOM_SCORE: &str = "500";

/// Becomes the program in `memory`. Returns only what kept it from running.
pub(crate) fn become_program(
    around: &Surroundings<'_>,
    memory: OwnedFd,
    streams: Streams,
    door: Option<OwnedFd>,
) -> NotRun {
    let confined = prepare(around, memory, streams).and_then(|(program, watch)| {
        confine(around).map_err(NotRun::Unconfined)?;
        Ok((program, watch))
    });
    match confined {
        Ok((program, watch)) => execute(&program, watch, door),
        Err(why) => why,
    }
}

/// The last step: everything after it is a call of the program's own.
fn execute(program: &program::Prepared, watch: Option<Watch>, door: Option<OwnedFd>) -> NotRun {
    if let (Some(watch), Some(door)) = (watch, door) {
        let step = Step::Seccomp;
        let put_up = watch::put_up(watch, &door).during(step, || "having calls watched".into());
        if let Err(failed) = put_up {
            return NotRun::Unconfined(failed);
        }
    }
    NotRun::NotStarted {
        why: program.execute(),
    }
}

/// As [`become_program`], but runs the probes first, tells the results at the gate, and goes on when a
/// message comes back. Returns nothing when none came.
pub(crate) fn become_program_when_told(
    around: &Surroundings<'_>,
    memory: OwnedFd,
    streams: Streams,
    gate: OwnedFd,
    status: &OwnedFd,
) -> Option<NotRun> {
    let program = match prepare(around, memory, streams) {
        Ok((program, _)) => program,
        Err(why) => return Some(why),
    };
    if let Err(failed) = confine(around).and_then(|()| only_these(&[&gate, status])) {
        return Some(NotRun::Unconfined(failed));
    }
    let results = probe::run(around, &Tried::default());
    wire::send(gate.as_fd(), &results, &[]).ok()?;
    let (go, _) = wire::receive::<Go>(gate.as_fd()).ok()??;
    Some(execute(&program, go.watch, Some(gate)))
}

/// Everything that a program needs before the walls are up.
fn prepare(
    around: &Surroundings<'_>,
    memory: OwnedFd,
    streams: Streams,
) -> Result<(program::Prepared, Option<Watch>), NotRun> {
    let program = read_order::<Program>(memory)
        .during(Step::Prepare, || "reading what to run".into())
        .map_err(NotRun::Unconfined)?;
    let argv = program.argv;
    let Ok(prepared) = program::Prepared::new(&argv, &around.spec.env, &program.env) else {
        return Err(NotRun::NotStarted {
            why: "the command or its environment holds a NUL byte".into(),
        });
    };
    take_streams(streams).map_err(NotRun::Unconfined)?;
    let workdir = &around.spec.workdir;
    if let Err(error) = nix::unistd::chdir(workdir) {
        let why = format!(
            "the working directory {} cannot be entered in the cage: {}",
            workdir.display(),
            error.desc()
        );
        return Err(NotRun::NotStarted { why });
    }
    Ok((prepared, program.watch))
}

/// Runs the probes that `memory` asks for, confined like a program, and writes what they saw to `status`.
pub(crate) fn become_probes(
    around: &Surroundings<'_>,
    memory: OwnedFd,
    streams: Streams,
    status: OwnedFd,
) {
    let tried = read_order(memory).during(Step::Prepare, || "reading what to try".into());
    let confined = take_streams(streams)
        .and_then(|()| {
            nix::unistd::chdir(&around.spec.workdir)
                .during(Step::Prepare, || "entering the working directory".into())
        })
        .and_then(|()| confine(around))
        .and_then(|()| only_these(&[&status]));
    let results = match confined.and(tried) {
        Ok(tried) => probe::run(around, &tried),
        Err(failed) => vec![probe::unconfined(&failed)],
    };
    let text = serde_json::to_vec(&results).unwrap_or_default();
    let _ = std::fs::File::from(status).write_all(&text);
}

fn read_order<T: DeserializeOwned>(memory: OwnedFd) -> io::Result<T> {
    let mut text = Vec::new();
    std::fs::File::from(memory).read_to_end(&mut text)?;
    serde_json::from_slice(&text).map_err(io::Error::other)
}

/// Closes all descriptors but the standard streams and these, where there is no `exec` that would.
fn only_these(keep: &[&OwnedFd]) -> Result<(), Failed> {
    let keep: Vec<RawFd> = keep.iter().map(|fd| fd.as_raw_fd()).collect();
    // SAFETY: the descriptors closed here belong to values of process 1's copied memory, which this
    // process, which ends without dropping anything of it, does not use any more.
    unsafe { kernel::close_all_but(&keep) }
        .during(Step::InitProcess, || "closing descriptors".into())
}

/// Own session, standard streams, controlling terminal.
fn take_streams(streams: Streams) -> Result<(), Failed> {
    let during = |what: &'static str| move || what.to_owned();
    nix::unistd::setsid().during(Step::Prepare, during("setsid"))?;
    let raw: [RawFd; 3] = match &streams {
        Streams::Separate(streams) => streams.each_ref().map(AsRawFd::as_raw_fd),
        Streams::Terminal(terminal) => {
            kernel::take_terminal(terminal.as_fd()).during(Step::Prepare, during("terminal"))?;
            [terminal.as_raw_fd(); 3]
        }
    };
    for (target, fd) in (0..).zip(raw) {
        kernel::duplicate_to(fd, target).during(Step::Prepare, during("standard streams"))?;
    }
    Ok(())
}

/// Puts up every wall. Afterwards only `exec`, or writing to the status pipe, is left to do.
fn confine(around: &Surroundings<'_>) -> Result<(), Failed> {
    let during = |what: &'static str| move || what.to_owned();
    umask(Mode::from_bits_truncate(0o022));
    default_signals().during(Step::InitProcess, during("signals"))?;
    // Process 1 is not dumpable; the files of our own /proc entry must be ours to write.
    kernel::process_control(libc::PR_SET_DUMPABLE, 1)
        .during(Step::InitProcess, during("PR_SET_DUMPABLE"))?;
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE)
        .during(Step::InitProcess, during("oom_score_adj"))?;
    let confinement = around.spec.confinement;
    let mut limits = vec![
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NICE, 0),
        (libc::RLIMIT_RTPRIO, 0),
    ];
    if confinement.has_namespaces() {
        around.identity.enter_inner_namespace()?;
        forbid_namespaces(around).during(Step::UserNamespace, during("max_user_namespaces"))?;
        limits.push((libc::RLIMIT_NPROC, u64::from(around.spec.processes)));
    } else {
        // With process 1, as everything in a process namespace would.
        die_with_parent()?;
    }
    for (resource, value) in limits {
        let value = value.min(kernel::hard_limit(resource).unwrap_or(value));
        kernel::limit(resource, value).during(Step::InitProcess, during("limits"))?;
    }
    match confinement.has_namespaces() {
        true => kernel::drop_capabilities(),
        false => kernel::drop_own_capabilities(),
    }
    .during(Step::InitProcess, during("capabilities"))?;
    kernel::process_control(libc::PR_SET_NO_NEW_PRIVS, 1)
        .during(Step::InitProcess, during("no_new_privs"))?;
    kernel::close_on_exec_from(3).during(Step::InitProcess, during("closing descriptors"))?;
    match (around.landlock, confinement) {
        (_, Confinement::Nothing) => return Ok(()),
        (Some(landlock), _) => {
            kernel::enter_landlock(landlock).during(Step::Landlock, String::new)?;
        }
        // The only wall around its files.
        (None, Confinement::Landlock) => {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
                .during(Step::Landlock, during("this kernel has none"));
        }
        (None, Confinement::Namespaces) => {}
    }
    let filtered = around.filter.install();
    let accepted =
        confinement.has_namespaces() && around.spec.accept_weaker.contains(&Wall::Seccomp);
    if !accepted {
        filtered.during(Step::Seccomp, String::new)?;
    }
    Ok(())
}

/// No process of this namespace can make another user namespace.
fn forbid_namespaces(around: &Surroundings<'_>) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let file = openat(
        around.namespace_limits,
        "max_user_namespaces",
        flags,
        Mode::empty(),
    )?;
    std::fs::File::from(file).write_all(b"0")
}

/// Nothing blocked, nothing ignored: what a program expects to find.
fn default_signals() -> nix::Result<()> {
    kernel::reset_signal_handlers();
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}
