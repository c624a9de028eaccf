//! `foreman serve` and `foreman shutdown`: the engine as a service.

use super::Done;
use crate::answer::Answer;
use crate::args::{ServeArgs, ShutdownArgs};
use crate::engine::Engine;
use crate::error::environment;
use crate::notify_systemd::notify;
use crate::{unit, words};
use foreman_domain::{ExitCode, Failure, sanitize_line};
use foreman_engine::api::{Commands, ShutdownReport, ShutdownRequest};
use foreman_engine::place;
use foreman_engine::{Greeting, ServiceLock, ServiceRole, serve_detached};
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How long a detached service stays when nothing is left to do.
const DETACHED_IDLE: Duration = Duration::from_secs(10 * 60);

/// What needs no engine; `None` when the service itself is wanted.
pub fn without_engine(args: &ServeArgs, answer: &Answer) -> Option<Done> {
    if args.print_unit {
        return Some(print_unit(args, answer));
    }
    if args.install || args.uninstall {
        return Some(write_unit(args, answer));
    }
    args.detach.then(|| detach(answer))
}

fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| environment("this program's own path", &error))
}

fn unit_text(args: &ServeArgs) -> Result<String, Failure> {
    let data = std::env::var_os("FOREMAN_DATA_DIR").map(PathBuf::from);
    unit::text(&this_program()?, data.as_deref(), args.drain_on_exit)
}

fn print_unit(args: &ServeArgs, answer: &Answer) -> Done {
    let text = unit_text(args)?;
    if answer.is_json() {
        answer.object(&serde_json::json!({ "name": unit::NAME, "unit": text }))?;
    } else {
        answer.line(text.trim_end())?;
    }
    Ok(ExitCode::Ok)
}

fn write_unit(args: &ServeArgs, answer: &Answer) -> Done {
    let place = unit::place(|name| std::env::var_os(name))?;
    let shown = sanitize_line(&place.to_string_lossy());
    let (done, next) = if args.install {
        unit::install(&place, &unit_text(args)?)?;
        (
            format!("Wrote {shown}."),
            "Start it now and at every login: systemctl --user daemon-reload && \
             systemctl --user enable --now foreman. To have it without a login: loginctl enable-linger.",
        )
    } else if unit::uninstall(&place)? {
        (
            format!("Removed {shown}."),
            "If it runs: systemctl --user disable --now foreman.",
        )
    } else {
        (format!("There is no {shown}."), "Nothing was changed.")
    };
    if answer.is_json() {
        answer.object(&serde_json::json!({ "unit": place, "done": done, "next": next }))?;
    } else {
        answer.line(&done)?;
        answer.paragraph(next)?;
    }
    Ok(ExitCode::Ok)
}

fn detach(answer: &Answer) -> Done {
    let greeting = serve_detached(&this_program()?, &place::from_environment()?)?;
    greet(&greeting, answer)?;
    Ok(ExitCode::Ok)
}

/// Leaves a service behind that goes on with queued work when this command has ended. Does nothing
/// when there is one. Says so in one line.
///
/// # Errors
/// When it cannot be started.
pub fn leave_behind() -> Result<Option<String>, Failure> {
    let greeting = serve_detached(&this_program()?, &place::from_environment()?)?;
    Ok(match greeting.role {
        ServiceRole::Unneeded => None,
        ServiceRole::Hosting | ServiceRole::StandingBy => Some(format!(
            "`foreman serve` (process {}) goes on with it in the background; `foreman shutdown` ends it.",
            greeting.pid
        )),
    })
}

fn greet(greeting: &Greeting, answer: &Answer) -> io::Result<()> {
    if answer.is_json() {
        return answer.object(greeting);
    }
    let pid = greeting.pid;
    answer.line(&match greeting.role {
        ServiceRole::Hosting => format!("The engine is up (process {pid})."),
        ServiceRole::StandingBy => {
            format!("Process {pid} stands by: another one hosts the engine now.")
        }
        ServiceRole::Unneeded => "There is a service already.".to_owned(),
    })
}

/// Serves until told to end.
pub async fn serve(args: ServeArgs, engine: &Engine, answer: &Answer) -> Done {
    let lock = ServiceLock::take(&place::from_environment()?)?;
    let pid = std::process::id();
    if args.detached {
        // Fails only for the leader of a group, which a child that was just started is not.
        let _ = nix::unistd::setsid();
        if lock.is_none() {
            let role = ServiceRole::Unneeded;
            greet(&Greeting { role, pid }, answer)?;
            return Ok(ExitCode::Ok);
        }
    }
    let idle = args
        .exit_when_idle
        .or(args.detached.then_some(DETACHED_IDLE));
    let mut signals = Signals::listen()?;
    let host = &engine.0;
    let role = match host.is_hosting() {
        true => ServiceRole::Hosting,
        false => ServiceRole::StandingBy,
    };
    greet(&Greeting { role, pid }, answer)?;
    tell_manager(&format!("READY=1\nSTATUS={}", status(role)));
    let serving = host.serve(idle, || {
        tell_manager(&format!("STATUS={}", status(ServiceRole::Hosting)));
    });
    let report = tokio::select! {
        report = serving => Some(report?),
        () = signals.end() => {
            tell_manager("STOPPING=1");
            let draining = host.end_service(args.drain_on_exit);
            tokio::select! {
                report = draining => report?,
                () = signals.end() => host.end_service(None).await?,
            }
        }
    };
    drop(lock);
    if let Some(report) = report {
        tell_report(&report, &mut io::stderr())?;
    }
    Ok(ExitCode::Ok)
}

fn status(role: ServiceRole) -> &'static str {
    match role {
        ServiceRole::Hosting => "hosts the engine",
        ServiceRole::StandingBy | ServiceRole::Unneeded => "stands by; another process hosts",
    }
}

/// A manager that does not listen is no reason to end.
fn tell_manager(state: &str) {
    let socket = std::env::var_os("NOTIFY_SOCKET");
    let _ = notify(socket.as_deref(), state);
}

/// What ends a service, and what does not.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| environment("signals cannot be heard", &error));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits until somebody asks to end.
    async fn end(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                // There is nothing to read anew, and a closed terminal is no wish to end.
                _ = self.hangup.recv() => {}
            }
        }
    }
}

/// Ends a service.
pub async fn shutdown(args: ShutdownArgs, engine: &Engine, answer: &Answer) -> Done {
    if engine.0.is_hosting() {
        let nobody = "There is no service: this command had to host the engine itself.";
        if answer.is_json() {
            answer.object(&serde_json::json!({ "pid": null, "done": nobody }))?;
        } else {
            answer.line(nobody)?;
        }
        return Ok(ExitCode::Ok);
    }
    let request = ShutdownRequest {
        drain_ms: args
            .drain
            .map(|drain| u64::try_from(drain.as_millis()).unwrap_or(u64::MAX)),
        stop_runs: args.stop_runs,
    };
    let report = engine.shutdown(request).await?;
    if answer.is_json() {
        answer.object(&report)?;
    } else {
        answer.line(&format!("The service (process {}) ends.", report.pid))?;
        tell_report(&report, &mut io::stdout())?;
    }
    Ok(ExitCode::Ok)
}

fn tell_report(report: &ShutdownReport, out: &mut impl io::Write) -> io::Result<()> {
    let runs = |count: usize| words::count(u64::try_from(count).unwrap_or(u64::MAX), "run");
    for (count, what) in [
        (report.ended.len(), "came to an end meanwhile"),
        (report.stopped.len(), "stopped"),
    ] {
        if count > 0 {
            writeln!(out, "{} {what}.", runs(count))?;
        }
    }
    if report.left.is_empty() {
        return writeln!(out, "Nothing is left running.");
    }
    writeln!(
        out,
        "Left running without an engine, each with its supervisor; the next one adopts them:"
    )?;
    for left in &report.left {
        writeln!(
            out,
            "  {}  {}  {}",
            left.run,
            sanitize_line(&left.state),
            sanitize_line(&left.title)
        )?;
    }
    Ok(())
}
