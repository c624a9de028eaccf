//! Benches: ratios within one run, medians, rounds interleaved. `--smoke` (also the default) is short and
//! only shows that everything can be measured; `--full` measures and writes docs/benchmarks.md.

mod holds;
mod starts;
mod table;
mod traffic;

use anyhow::{Result, ensure};
use foreman_testkit::{Binaries, Stage, Who};
use std::process::ExitCode;
use table::{Row, Table};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub rounds: usize,
    pub bytes: usize,
    pub connects: usize,
    pub holds: usize,
    pub refs: u32,
}

const SMOKE: Size = Size {
    rounds: 3,
    bytes: 32 << 20,
    connects: 40,
    holds: 4,
    refs: 2_000,
};
const FULL: Size = Size {
    rounds: 9,
    bytes: 512 << 20,
    connects: 300,
    holds: 40,
    refs: 10_000,
};

/// Measures one thing and gives its rows.
type Measure = fn(&Stage, Size) -> Result<Vec<Row>>;

fn main() -> ExitCode {
    let full = std::env::args().any(|argument| argument == "--full");
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let size = if full { FULL } else { SMOKE };
    let (mut table, mut passed, mut failed, mut skipped) = (Table::default(), 0, 0, 0);
    let measures: [(&str, Measure); 5] = [
        ("cage start", starts::cage_start),
        ("shadow directory", starts::shadow_directory),
        ("traffic", traffic::bulk),
        ("connect latency", traffic::latency),
        ("holds", holds::holds),
    ];
    let stage = match Stage::new(Who::Ordinary) {
        Ok(stage) => stage,
        Err(error) => {
            println!("no stage: {error:#}\n\n0 passed, 1 failed, 0 skipped");
            return ExitCode::FAILURE;
        }
    };
    for (name, measure) in measures {
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
    if full && let Err(error) = write(&table) {
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
