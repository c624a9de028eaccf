//! `foreman demo`: one whole run on a throw-away repository, without a model and without a network.
//!
//! The product that it shows is the product: nothing in cage, gateway or policy knows of the demo.
//! The demo runs itself again inside a private world (user, network and mount namespaces), in which
//! a name of the documentation range resolves and a server answers; the far side of that world is
//! this same program as [`serve`]. Its data and its repository are in a directory of their own,
//! which is removed in the end.
//!
//! For the desktop app it makes that world, the repository and an engine only ([`hosted`]): there the
//! operator hands the order in and decides.

mod hosted;
mod inside;
mod server;
mod story;

pub use server::serve;

use crate::answer::Answer;
use crate::args::DemoArgs;
use crate::command::Done;
use crate::error::{CliError, environment};
use foreman_domain::{Code, ExitCode, Failure};
use foreman_engine::api::{Commands, DoctorRequest, Remote};
use foreman_engine::place;
use foreman_engine::{Host, HostOptions};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use tokio::signal::unix::{SignalKind, signal};

/// The name that the demo's agent asks for.
const NAME: &str = "packages.demo.example";

/// What it resolves to in the demo's world.
const ADDRESS: &str = "203.0.113.10";

/// Who answers for names there.
const RESOLVER: &str = "203.0.113.53";

/// Written by the demo as soon as it runs inside its world.
const ARRIVED: &str = "arrived";

/// Longest directory name with room behind it for sockets (108 bytes at most).
const SHORT: usize = 60;

/// Runs the demo, or its inner half.
pub async fn run(args: DemoArgs, answer: &Answer) -> Done {
    match args.inside {
        Some(dir) => {
            std::fs::write(dir.join(ARRIVED), "")?;
            match args.hosted {
                true => hosted::run(&dir, answer).await,
                false => inside::run(&dir, args.keep, answer).await,
            }
        }
        None => outside(args.keep, args.hosted, answer).await,
    }
}

async fn outside(keep: bool, hosted: bool, answer: &Answer) -> Done {
    let shim = foreman_engine::shim_program()?;
    let own = std::env::current_exe()
        .map_err(|error| environment("this program does not find itself", &error))?;
    let data = place::from_environment()?.data_dir;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&data)
        .map_err(|error| {
            environment(
                &format!("the data directory {} cannot be made", data.display()),
                &error,
            )
        })?;
    let mut dir = tempfile::Builder::new()
        .prefix("demo-")
        .tempdir_in(&data)
        .map_err(|error| environment("a directory for the demo cannot be made", &error))?;
    dir.disable_cleanup(keep);

    let serve = serde_json::json!([own.to_string_lossy(), "demo-server"]).to_string();
    let mut command = tokio::process::Command::new(&shim);
    command
        .arg("world")
        .args([
            "--address",
            &format!("{ADDRESS}/32"),
            "--address",
            &format!("{RESOLVER}/32"),
        ])
        .args(["--resolver", RESOLVER, "--serve", &serve, "--"])
        .arg(&own)
        .args(answer.is_json().then_some("--json"))
        .arg("demo")
        .args(keep.then_some("--keep"))
        .args(hosted.then_some("--hosted"))
        .arg("--inside")
        .arg(dir.path())
        .env("FOREMAN_SHIM", &shim)
        .kill_on_drop(true);
    // The terminal's Ctrl-C reaches the inner demo too, which stops its run; this half waits for it,
    // and cleans up. Whoever ends this half ends the world with it.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut world = command
        .spawn()
        .map_err(|error| environment("the program foreman-shim cannot be started", &error))?;
    let status = loop {
        tokio::select! {
            status = world.wait() => break status?,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => return Ok(ExitCode::Cancelled),
            _ = hang_up.recv() => return Ok(ExitCode::Cancelled),
        }
    };
    if !dir.path().join(ARRIVED).exists() {
        return Err(no_world(dir.path(), &shim, answer).await);
    }
    if keep && !answer.is_json() {
        answer.line(&format!("Kept: {}", dir.path().display()))?;
    }
    Ok(exit_code(status.code()))
}

/// Why there is no world: what doctor says of this machine.
async fn no_world(dir: &Path, shim: &Path, answer: &Answer) -> CliError {
    let failure = Failure::new(
        Code::WallMissing,
        "the demo's private world could not be made here",
    )
    .hint("`foreman doctor` shows what this machine lacks, and what to do.");
    let options = HostOptions {
        data_dir: dir.join("data"),
        runtime_dir: place::from_environment()
            .ok()
            .and_then(|options| options.runtime_dir),
        shim_program: Some(shim.to_owned()),
    };
    if let Ok(host) = Host::open(options).await {
        let engine = Remote(host);
        if let (Ok(report), false) = (
            engine.doctor(DoctorRequest::default()).await,
            answer.is_json(),
        ) && let Err(error) = crate::command::show_doctor(&report, answer)
        {
            return error.into();
        }
        engine.0.close().await;
    }
    failure.into()
}

/// The exit code of the inner half.
fn exit_code(code: Option<i32>) -> ExitCode {
    match code {
        Some(0) => ExitCode::Ok,
        Some(1) => ExitCode::AgentFailed,
        Some(2) => ExitCode::Usage,
        Some(3) => ExitCode::BadInput,
        Some(4) => ExitCode::Conflict,
        Some(5) => ExitCode::WallMissing,
        Some(6) => ExitCode::DeniedUnattended,
        Some(7) => ExitCode::Cancelled,
        Some(8) => ExitCode::Interrupted,
        Some(9) => ExitCode::Environment,
        _ => ExitCode::Bug,
    }
}
