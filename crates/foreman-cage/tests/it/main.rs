//! Cages against a real kernel: what programs see and can do in one, and that nothing is left of it.
//!
//! Without a standard harness, because a launcher must have one thread: each case is a process of
//! its own. Takes what the standard one takes: `--list`, `--exact`, names to filter by. Started as
//! root, each case runs as root and as an ordinary user; else as the user who started it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this is a test"
)]

mod attack;
mod cases;
mod fixture;
mod operator;

use fixture::{ORDINARY, Stage};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        // Inside a cage.
        [foreman_cage::files::HELPER] => foreman_cage::files::help(),
        ["attack", name, rest @ ..] => attack::run(name, rest),
        ["case", name] => {
            let (_, case) = cases::ALL.iter().find(|(known, _)| known == name).unwrap();
            case();
            ExitCode::SUCCESS
        }
        _ if words.contains(&"--list") => {
            let ignored = words.contains(&"--ignored");
            for (name, _) in cases::ALL.iter().filter(|_| !ignored) {
                println!("{name}: test");
            }
            ExitCode::SUCCESS
        }
        _ => run_all(&words),
    }
}

fn run_all(words: &[&str]) -> ExitCode {
    let exact = words.contains(&"--exact");
    let filters: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| !word.starts_with('-'))
        .collect();
    let wanted = |name: &str| {
        filters.is_empty()
            || filters.iter().any(|filter| {
                if exact {
                    name == *filter
                } else {
                    name.contains(filter)
                }
            })
    };
    let stage = Stage::new();
    let identities: &[Option<u32>] = if nix::unistd::geteuid().is_root() {
        &[None, Some(ORDINARY)]
    } else {
        &[None]
    };
    let (mut passed, mut failed) = (0, vec![]);
    for (name, _) in cases::ALL.iter().filter(|(name, _)| wanted(name)) {
        for identity in identities {
            let title = format!("{name} as {}", fixture::title(*identity));
            let (good, text) = run_case(&stage, name, *identity);
            println!("test {title} ... {}", if good { "ok" } else { "FAILED" });
            if good {
                passed += 1;
            } else {
                println!("{text}");
                failed.push(title);
            }
        }
    }
    println!("\n{passed} passed, {} failed, 0 skipped", failed.len());
    ExitCode::from(u8::from(!failed.is_empty()))
}

fn run_case(stage: &Stage, name: &str, identity: Option<u32>) -> (bool, String) {
    use std::os::unix::process::CommandExt as _;
    let folder = stage.folder(name, identity);
    let mut command = Command::new(stage.program());
    command
        .args(["case", name])
        .current_dir(&folder)
        .env_clear();
    command
        .env("FIXTURE", &folder)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.stdin(Stdio::null());
    if let Some(id) = identity {
        command.uid(id).gid(id);
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let _ = std::fs::remove_dir_all(Path::new(&folder));
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}
