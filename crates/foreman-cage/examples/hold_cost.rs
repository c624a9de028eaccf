//! Measures what it costs a program that its calls on files are held: opens and executions, without any
//! hold, with held writes, and with held reads.
//!
//! `hold_cost [ROUNDS]`. Each round is a process of its own, because a launcher must have one thread.
//! Reads minima; on a loaded machine trust the ratios.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use foreman_cage::files::{Config, Executed, Exited, FileAttempt, FileJudge, FileVerdict};
use foreman_cage::{Bind, CageSpec, Exit, Payload, PayloadStdio, launch};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

type Failed = Box<dyn std::error::Error>;

const MODES: [&str; 3] = ["none", "writes", "reads"];
const WORK: [&str; 4] = ["write open", "read open", "spawn true", "sh -c, 3 tools"];
const SELF: &str = "/run/cost/it";

/// Refuses, and counts what it is told.
#[derive(Default)]
struct Counts(AtomicU32);

impl FileJudge for Counts {
    async fn judge(&self, _: FileAttempt) -> FileVerdict {
        FileVerdict::Refuse
    }
    fn executed(&self, _: Executed) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn exited(&self, _: Exited) {}
}

/// Inside the cage: nanoseconds for each kind of work.
fn work() -> Result<(), Failed> {
    const OPENS: u32 = 5_000;
    const SPAWNS: u32 = 100;
    let each = |count: u32, one: &dyn Fn() -> std::io::Result<()>| {
        let began = Instant::now();
        for _ in 0..count {
            one()?;
        }
        Ok::<_, std::io::Error>(began.elapsed().as_nanos() / u128::from(count))
    };
    let write = each(OPENS, &|| std::fs::File::create("file").map(drop))?;
    let read = each(OPENS, &|| std::fs::File::open("/etc/passwd").map(drop))?;
    let run = |argv: &[&str]| Command::new(argv[0]).args(&argv[1..]).status().map(drop);
    let spawn = each(SPAWNS, &|| run(&["/bin/true"]))?;
    let line = "grep -c x /etc/passwd >/dev/null; sed -n 1p /etc/passwd >o; sort o >p";
    let shell = each(SPAWNS / 3, &|| run(&["/bin/sh", "-c", line]))?;
    println!("{write} {read} {spawn} {shell}");
    Ok(())
}

fn one_round(mode: &str) -> Result<(), Failed> {
    let place = std::env::temp_dir().join(format!("hold-cost-{}", std::process::id()));
    std::fs::create_dir(&place)?;
    // Root's cage is another user's.
    std::fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    let spec = spec(&place, &std::env::current_exe()?);
    let launched = launch(&spec).map_err(|error| format!("{error}: {}", error.source))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let cage = launched.cage;
    let ended = runtime.block_on(async {
        let (cancel, counts) = (CancellationToken::new(), Arc::new(Counts::default()));
        if mode != "none" {
            let config = Config {
                reads: mode == "reads",
                closed: vec![],
            };
            cage.hold_files(config, Arc::clone(&counts), &cancel)?;
        }
        let payload = Payload {
            argv: vec![SELF.into(), "work".into()],
            env: vec![],
            stdio: PayloadStdio::Pipes,
        };
        let child = cage.spawn(payload).await?;
        let mut text = String::new();
        if let Some(out) = child.stdout {
            std::fs::File::from(out).read_to_string(&mut text)?;
        }
        let exit = cage.wait(child.pid).await;
        cage.destroy().await;
        if exit != Exit::Code(0) {
            return Err(format!("{exit:?}").into());
        }
        println!("{text}");
        Ok::<_, Failed>(())
    });
    std::fs::remove_dir_all(&place)?;
    ended
}

fn spec(place: &Path, program: &Path) -> CageSpec {
    let bind = |source: &Path, target: &Path, writable| Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        writable,
    };
    CageSpec {
        hostname: "cage".into(),
        workdir: place.to_owned(),
        home: "/home/nobody".into(),
        binds: vec![
            bind(place, place, true),
            bind(program, Path::new(SELF), false),
        ],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        why_program: PathBuf::from("/bin/true"),
        processes: 512,
        root_maps_to: 65534,
        hidden: vec![],
        accept_weaker: vec![],
    }
}

fn main() -> Result<ExitCode, Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [foreman_cage::files::HELPER] => return Ok(foreman_cage::files::help()),
        ["work"] => work()?,
        ["round", mode] => one_round(mode)?,
        _ => {
            let rounds: u32 = words.first().map_or(Ok(5), |count| count.parse())?;
            table(rounds)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(rounds: u32) -> Result<(), Failed> {
    let mut least = [[u64::MAX; WORK.len()]; MODES.len()];
    for _ in 0..rounds {
        for (mode, least) in MODES.iter().zip(&mut least) {
            let me = std::env::current_exe()?;
            let output = Command::new(me).args(["round", mode]).output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
            }
            let text = String::from_utf8(output.stdout)?;
            for (least, word) in least.iter_mut().zip(text.split_whitespace()) {
                *least = word.parse::<u64>()?.min(*least);
            }
        }
    }
    println!(
        "{:>16} {:>10} {:>10} {:>10}  (microseconds)",
        "", MODES[0], MODES[1], MODES[2]
    );
    for (index, work) in WORK.iter().enumerate() {
        let micros = least.map(|least| least[index] as f64 / 1e3);
        println!(
            "{work:>16} {:>10.1} {:>10.1} {:>10.1}",
            micros[0], micros[1], micros[2]
        );
    }
    Ok(())
}
