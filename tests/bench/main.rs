//! Benches: ratios within one run, medians, rounds interleaved. `--smoke` (also the default) is short and
//! only shows that everything can be measured; `--full` measures and writes docs/benchmarks.md.
//! Words choose measures by their names; then nothing is written.

mod files;
mod holds;
mod many;
mod peer;
mod starts;
mod store;
mod traffic;

use anyhow::{Result, ensure};
use foreman_testkit::{Binaries, Stage, Who};
use foreman_tests::table;
use std::process::ExitCode;
use std::time::Duration;
use table::{Row, Table};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub rounds: usize,
    pub bytes: usize,
    pub connects: usize,
    pub holds: usize,
    pub refs: u32,
    /// Runs that are started at once.
    pub at_once: usize,
    /// Runs that do nothing, and for how long that is watched.
    pub idle: usize,
    pub idle_for: Duration,
    /// Events that are taken in, and events of a large log with pages that are read of it.
    pub ingest: u64,
    pub log: u64,
    pub pages: usize,
    /// Runs that have ended before an engine starts.
    pub past_runs: u64,
    /// Files of a checkout, and rounds of whole builds.
    pub checkout: u32,
    pub builds: usize,
}

const SMOKE: Size = Size {
    rounds: 3,
    bytes: 32 << 20,
    connects: 40,
    holds: 4,
    refs: 2_000,
    at_once: 4,
    idle: 4,
    idle_for: Duration::from_secs(4),
    ingest: 20_000,
    log: 80_000,
    pages: 50,
    past_runs: 100,
    checkout: 400,
    builds: 0,
};
const FULL: Size = Size {
    rounds: 9,
    bytes: 512 << 20,
    connects: 300,
    holds: 40,
    refs: 10_000,
    at_once: 20,
    idle: 50,
    // As long as it takes until each of them has proven its walls again.
    idle_for: Duration::from_secs(60),
    ingest: 500_000,
    log: 10_000_000,
    pages: 1_000,
    past_runs: 10_000,
    checkout: 10_000,
    builds: 5,
};

/// Measures one thing and gives its rows.
type Measure = fn(&Stage, Size) -> Result<Vec<Row>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((word, _)) if word == foreman_cage::files::HELPER => {
            return foreman_cage::files::help();
        }
        Some((word, rest)) if word == "--caged" => {
            return match files::run_caged(rest) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error:#}");
                    ExitCode::FAILURE
                }
            };
        }
        _ => {}
    }
    let full = std::env::args().any(|argument| argument == "--full");
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let size = if full { FULL } else { SMOKE };
    let (mut table, mut passed, mut failed, mut skipped) = (Table::default(), 0, 0, 0);
    let measures: [(&str, Measure); 13] = [
        ("cage start", starts::cage_start),
        ("start against the peer", starts::against_peer),
        ("shadow directory", starts::shadow_directory),
        ("traffic", traffic::bulk),
        ("connect latency", traffic::latency),
        ("tiny fetches", traffic::fetches),
        ("holds", holds::holds),
        ("held files", files::file_holds),
        ("many runs at once", many::start_at_once),
        ("idle runs", many::idle),
        ("store ingest", store::ingest),
        ("store pages", store::pages),
        ("store past runs", store::past_runs),
    ];
    let stage = match Stage::new(Who::Ordinary) {
        Ok(stage) => stage,
        Err(error) => {
            println!("no stage: {error:#}\n\n0 passed, 1 failed, 0 skipped");
            return ExitCode::FAILURE;
        }
    };
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let takes = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    for (name, measure) in measures.into_iter().filter(|(name, _)| takes(name)) {
        eprintln!("measuring: {name}");
        match measure(&stage, size) {
            Ok(rows) => {
                passed += 1;
                skipped += rows.iter().filter(|row| row.is_absent()).count();
                table.add(rows);
            }
            Err(error) => {
                failed += 1;
                println!("---- {name}\n{error:#}\n");
            }
        }
    }
    print!("{}", table.text());
    if full
        && wanted.is_empty()
        && let Err(error) = write(&table)
    {
        failed += 1;
        println!("{error:#}");
    }
    println!("\n{passed} passed, {failed} failed, {skipped} skipped");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn write(table: &Table) -> Result<()> {
    ensure!(
        !cfg!(debug_assertions),
        "only a build with optimisation goes on record: npm run bench"
    );
    let file = Binaries::checkout().join("docs/benchmarks.md");
    let text = format!(
        "# Benchmarks\n\nWritten by `npm run bench`. Ratios are within one run, rounds interleaved; figures are medians unless\n\
         they say otherwise. A budget that is missed says so here; why is told below the table.\n\n\
         Machine: {}.\n\n{}",
        table::machine(),
        table.text()
    );
    // What was written by hand below the table stays.
    let notes = std::fs::read_to_string(&file).ok().and_then(|old| {
        old.split_once("\n## Notes")
            .map(|(_, notes)| format!("\n## Notes{notes}"))
    });
    std::fs::write(file, text + &notes.unwrap_or_default())?;
    Ok(())
}
