//! Power cuts: acknowledged events, runs and settings survive them, and nothing is damaged.
//!
//! The product's own code (the store and the shim's journal) works in a process of its own; every write,
//! sync and change of names is written down in order, together with what it acknowledged. Then the power
//! is cut at random moments of that record: a disk is made that has what was synced by then and a random
//! part of the rest, with torn sectors ([`disk`]), and the product opens it as it would after a restart.
//! `--cuts=N` and `--seed=S` choose how many and which.
//!
//! The recorder is a small C library that is loaded before the C library (`recorder.c`), compiled here by
//! the compiler that the bundled SQLite is built with. A VFS of our own would be `unsafe` code and see only
//! SQLite; tracing system calls would stop every thread at every call, and a file system in user space
//! would need a device that an ordinary user does not have. The library sees both writers, in one order,
//! at the price of knowing only what goes through the C library, which is all that both do: the case
//! `the_record_is_whole` proves that, by comparing the record, carried out, with the files.
//!
//! That the suite can fail is shown by two cases: disks that ignore the syncs of files, or of folders, must
//! be found out.

mod dice;
mod disk;
mod look;
mod work;

use anyhow::{Context, Result, ensure};
use dice::Dice;
use disk::{Disk, Honesty, Op, read_record};
use foreman_testkit::suite::{Case, Tally, Verdict, Wanted};
use look::{Acknowledged, look};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Cuts of a run in CI, and at least.
const CUTS: u64 = 160;
/// Cuts of each control.
const CONTROL: u64 = 20;
const ROUNDS: u64 = 260;

fn number(name: &str) -> Option<u64> {
    let mut arguments = std::env::args();
    arguments.find_map(|argument| argument.strip_prefix(name)?.parse().ok())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args();
    if arguments.any(|argument| argument == "--work") {
        return worker();
    }
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    let seed = number("--seed=").unwrap_or(1);
    let cuts = number("--cuts=").unwrap_or(CUTS);
    let recording = if wanted.lists() {
        None
    } else {
        Some(record(seed))
    };
    let recording = recording.as_ref();
    let on_record = |try_it: &dyn Fn(&Recording) -> Result<()>| match recording {
        Some(Ok(Some(recording))) => try_it(recording).map(|()| Verdict::Passed),
        Some(Ok(None)) => Ok(Verdict::Skipped("no C compiler is installed".to_owned())),
        Some(Err(error)) => Err(anyhow::anyhow!("{error:#}")),
        None => Ok(Verdict::Passed),
    };
    let cases = vec![
        Case::new("the_record_is_whole", || on_record(&|it| it.is_whole())),
        Case::new("power_cuts_lose_nothing_that_was_acknowledged", || {
            on_record(&|it| it.cuts(seed, cuts, Honesty::Full))
        }),
        Case::new(
            "a_disk_that_lies_about_what_files_hold_is_found_out",
            || on_record(&|it| it.cuts(seed, CONTROL, Honesty::NamesOnly)),
        ),
        Case::new(
            "a_disk_that_lies_about_which_files_there_are_is_found_out",
            || on_record(&|it| it.cuts(seed, CONTROL, Honesty::ContentOnly)),
        ),
    ];
    tally.run(&wanted, 1, cases);
    tally.close(&wanted)
}

/// The process that is recorded.
fn worker() -> ExitCode {
    let path = std::env::var_os("POWERCUT_DIR").map(PathBuf::from);
    let (Some(dir), Some(seed)) = (path, number("--seed=")) else {
        return ExitCode::from(2);
    };
    match block_on(work::work(&dir, seed, ROUNDS)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(future)
}

struct Recording {
    ops: Vec<Op>,
    scratch: tempfile::TempDir,
    /// Where the work was done.
    from: PathBuf,
}

/// Does the work under the recorder; `None` when there is no compiler to build it with.
fn record(seed: u64) -> Result<Option<Recording>> {
    let scratch = tempfile::tempdir()?;
    let library = scratch.path().join("recorder.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("powercut/recorder.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .arg("-lpthread")
        .output();
    match compiled {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        compiled => {
            let compiled = compiled?;
            let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
            ensure!(
                compiled.status.success(),
                "the recorder does not compile: {said}"
            );
        }
    }
    let (from, log) = (scratch.path().join("data"), scratch.path().join("record"));
    std::fs::create_dir(&from)?;
    let done = Command::new(std::env::current_exe()?)
        .args(["--work".to_owned(), format!("--seed={seed}")])
        .env("LD_PRELOAD", &library)
        .env("POWERCUT_DIR", &from)
        .env("POWERCUT_LOG", &log)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.success(), "the work failed: {said}");
    let ops = read_record(&std::fs::read(&log)?)?;
    std::fs::remove_file(&log)?;
    Ok(Some(Recording { ops, scratch, from }))
}

impl Recording {
    fn folder(&self) -> &str {
        self.from.to_str().unwrap_or_default()
    }

    /// Everything that changed a file went through the recorder.
    fn is_whole(&self) -> Result<()> {
        let mut disk = Disk::default();
        for op in &self.ops {
            disk.take(op, Honesty::Full)?;
        }
        let mut files = 0;
        for entry in std::fs::read_dir(&self.from)? {
            let path = entry?.path();
            // Shared memory of SQLite: it means nothing after a restart.
            if path.extension().is_some_and(|name| name == "db-shm") {
                continue;
            }
            let name = path.to_str().context("a name")?;
            ensure!(std::fs::read(&path)? == disk.as_written(name), "{name}");
            files += 1;
        }
        ensure!(
            files >= 4 && disk.syncs > 500,
            "{files} files, {} syncs",
            disk.syncs
        );
        println!(
            "recorded {} operations on {files} files, {} of them syncs",
            self.ops.len(),
            disk.syncs
        );
        Ok(())
    }

    fn cuts(&self, seed: u64, cuts: u64, honesty: Honesty) -> Result<()> {
        let mut dice = Dice::new(seed ^ 0x0c07);
        let mut moments: Vec<_> = (0..cuts)
            .map(|_| dice.below(self.ops.len() as u64 + 1) as usize)
            .collect();
        moments.sort_unstable();
        let (mut disk, mut done) = (Disk::default(), 0);
        let (mut losing, mut lost, mut corrupt, mut rows, mut found) = (0, 0, Vec::new(), 0, 0);
        let begin = Instant::now();
        for (index, moment) in moments.into_iter().enumerate() {
            for op in &self.ops[done..moment] {
                disk.take(op, honesty)?;
            }
            done = moment;
            let acks = disk.as_written(&format!("{}/acks", self.folder()));
            let acknowledged = Acknowledged::read(&acks)?;
            rows += acknowledged.events.values().sum::<u64>();
            let left = self.scratch.path().join(format!("cut-{index}"));
            std::fs::create_dir(&left)?;
            disk.cut(&mut dice, self.folder(), &left)?;
            let findings = block_on(async { Ok(look(&left, &acknowledged).await) })?;
            std::fs::remove_dir_all(&left)?;
            losing += u64::from(findings.lost > 0);
            found += u64::from(findings.lost > 0 || !findings.corrupt.is_empty());
            lost += findings.lost;
            corrupt.extend(
                findings
                    .corrupt
                    .into_iter()
                    .map(|what| format!("cut {index} before operation {moment}: {what}")),
            );
        }
        let took = Duration::from_millis(begin.elapsed().as_millis() as u64);
        println!(
            "{}: {cuts} power cuts, {rows} acknowledged rows looked for, {lost} rows lost in {losing} cuts, \
             {} corrupt, {took:?} (seed {seed})",
            match honesty {
                Honesty::Full => "FULL",
                Honesty::NamesOnly => "control, syncs of files ignored",
                Honesty::ContentOnly => "control, syncs of folders ignored",
            },
            corrupt.len(),
        );
        if honesty == Honesty::Full {
            corrupt.truncate(5);
            ensure!(
                lost == 0 && corrupt.is_empty(),
                "{lost} rows lost; {corrupt:#?}"
            );
        } else {
            ensure!(found > cuts / 2, "a disk that lies was not found out");
        }
        Ok(())
    }
}
