//! The gateway against a real kernel: a private world with servers on the far side, cages made by
//! `plumb` on the near side, and clients inside them.
//!
//! Without a standard harness, because namespaces are made in a process with one thread. Takes what
//! the standard one takes: `--list`, `--exact`, names to filter by. `--figures` prints measurements.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this is a test"
)]

mod cage;
mod cases;
mod servers;
mod table;

use foreman_cage::world::{self, WorldSpec};
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("serve") => servers::run(),
        Some("near") => near(&args[1..]),
        _ if args.iter().any(|arg| arg == "--list") => {
            let ignored = args.iter().any(|arg| arg == "--ignored");
            for (name, _) in cases::ALL.iter().filter(|_| !ignored) {
                println!("{name}: test");
            }
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(enter(&args)),
    }
}

fn enter(args: &[String]) -> u8 {
    let program = std::env::current_exe().unwrap();
    let with = |arguments: &[&str]| -> Vec<OsString> {
        let arguments = arguments.iter().map(OsString::from);
        std::iter::once(program.clone().into_os_string())
            .chain(arguments)
            .collect()
    };
    let mut command = with(&["near"]);
    command.extend(args.iter().map(OsString::from));
    let spec = WorldSpec {
        addresses: servers::ADDRESSES
            .iter()
            .map(|text| {
                let (address, prefix) = text.split_once('/').unwrap();
                (address.parse().unwrap(), prefix.parse().unwrap())
            })
            .collect(),
        resolver: Some(servers::RESOLVER.parse().unwrap()),
        serve: with(&["serve"]),
        command,
        cover: vec![],
        show: vec![],
    };
    match world::enter(&spec) {
        Ok(code) => code,
        // Where no namespaces can be made there can be no cage either.
        Err(world::WorldError::System { what, errno }) => {
            println!("skipped  all cases of the gateway: cannot {what}: {errno}");
            println!("\n0 passed, 0 failed, {} skipped", cases::ALL.len());
            0
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs the tests, each in a process of its own so that one that hangs or dies is one failure.
fn near(args: &[String]) -> ExitCode {
    if !args.iter().any(|arg| arg == "--as-root") {
        cage::become_an_ordinary_user();
    }
    if args.iter().any(|arg| arg == "--figures") {
        run_one(cases::figures::case());
        return ExitCode::SUCCESS;
    }
    let exact = args.iter().any(|arg| arg == "--exact");
    let filters: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| {
        let hit = |filter: &&String| {
            if exact {
                *filter == name
            } else {
                name.contains(*filter)
            }
        };
        filters.is_empty() || filters.iter().any(hit)
    };
    let (mut passed, mut failed) = (0, Vec::new());
    for (name, case) in cases::ALL.iter().filter(|(name, _)| wanted(name)) {
        let start = std::time::Instant::now();
        let good = cage::in_a_process(|| run_one(*case));
        let word = if good { "ok" } else { "FAILED" };
        println!(
            "test {name} ... {word} ({:.2} s)",
            start.elapsed().as_secs_f64()
        );
        if good {
            passed += 1;
        } else {
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        println!("failed: {failed:?}");
    }
    println!("\n{passed} passed, {} failed, 0 skipped", failed.len());
    ExitCode::from(u8::from(!failed.is_empty()))
}

fn run_one(case: cases::Case) {
    match case {
        cases::Case::Queue(case) => run_in(foreman_cage::gateway::plumb, case),
        cases::Case::Log(case) => run_in(cage::plumb_with_log, case),
    }
}

fn run_in(
    plumb: impl FnOnce() -> Result<foreman_cage::gateway::Sockets, foreman_cage::gateway::PlumbError>,
    case: cases::Body,
) {
    let cage = cage::Cage::make(plumb);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        tokio::time::timeout(std::time::Duration::from_secs(180), case(cage))
            .await
            .expect("in time");
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
}
