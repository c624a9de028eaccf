//! What it costs real tools that a cage watches files and programs: the same work in the same cage, without
//! anything held, with held writes (as every run has), and with held reads.

mod caged;
mod work;

pub use caged::run as run_caged;

use crate::Size;
use crate::table::{Row, median};
use anyhow::{Context, Result, ensure};
use foreman_testkit::{Stage, run};
use std::fmt::Display;
use std::path::PathBuf;
use work::{Work, works};

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Nothing,
    Writes,
    Reads,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Nothing, Self::Writes, Self::Reads];

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Writes => "writes",
            Self::Reads => "reads",
        }
    }
}

/// Held writes and held reads as multiples of nothing held, for each kind of work.
pub fn file_holds(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    // The user of the stage cannot reach where this program lies.
    let me = stage.bench.scratch("caged")?.join("bench");
    std::fs::copy(std::env::current_exe()?, &me)?;
    stage.bench.own(&me)?;
    let mut rows = Vec::new();
    for work in works(stage, size)? {
        match work {
            Ok(work) => rows.extend(measured(stage, &me, &work)?),
            Err((what, why)) => rows.push(Row::absent(what, why)),
        }
    }
    Ok(rows)
}

fn measured(stage: &Stage, me: &PathBuf, work: &Work) -> Result<Vec<Row>> {
    let (mut plain, mut writes, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..work.rounds {
        // Each is first once in three rounds: what the machine did before is not always to the same one's cost.
        let mut took = [0.0; 3];
        for turn in 0..Mode::ALL.len() {
            let mode = Mode::ALL[(turn + round) % Mode::ALL.len()];
            stage.bench.shell(&work.folder, work.before)?;
            let mut command = stage.bench.command(me);
            command.args(["--caged", mode.name()]).arg(&work.folder);
            command
                .arg(serde_json::to_string(&work.shown)?)
                .arg(&work.script);
            let text =
                run(&mut command).with_context(|| format!("{}, {}", work.what, mode.name()))?;
            took[mode as usize] = text.trim().parse::<f64>().with_context(|| text.clone())?;
        }
        ensure!(took.iter().all(|took| *took > 0.0), "{took:?}");
        plain.push(took[0]);
        writes.push(took[1] / took[0]);
        reads.push(took[2] / took[0]);
    }
    let row = |held: &dyn Display, ratio: f64, limit: Option<f64>| {
        let what = format!(
            "{}: {held} held, as a multiple of nothing held, p50",
            work.what
        );
        match limit {
            Some(limit) => Row::at_most(what, ratio, limit, "times"),
            None => Row::plain(what, format!("{ratio:.2} times")),
        }
    };
    Ok(vec![
        Row::plain(
            format!("{}, in a cage that holds nothing, p50", work.what),
            format!("{:.0} ms", median(&mut plain)),
        ),
        row(&"writes", median(&mut writes), Some(work.limit)),
        row(&"reads", median(&mut reads), None),
    ])
}
