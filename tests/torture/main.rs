//! The kill loop: a real engine, real supervisors, cages, worktrees and agents that commit and each have a
//! connection held; SIGKILL of engine, supervisor, agent, command line or all of it, and SIGSTOP with
//! SIGCONT, at random moments. After each round whoever comes next takes over, what is held is amended,
//! and the promises are looked at: no event lost that somebody had seen, no agent started twice, no
//! process left of an ended run, no worktree or branch lost, the base branch where it was.
//!
//! `--rounds=N` wants that many rounds; `--minutes=M` stops when the time is over, but not before
//! `--least=N` rounds. `--seed=S` brings the choices of a run back; the machine still decides where exactly
//! the blows fall.

mod dice;
mod faults;
mod fifty;
mod lane;
mod look;
mod processes;
mod service;

use anyhow::{Context, Result};
use foreman_testkit::suite::{Case, Tally, Wanted};
use foreman_testkit::{Stage, Who};
use lane::{Figures, Lane};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Data directories to which it happens side by side.
const LANES: u64 = 3;

/// How long to go on.
#[derive(Debug, Clone, Copy)]
struct Extent {
    rounds: u64,
    least: u64,
    time: Duration,
    seed: u64,
}

impl Extent {
    fn from_arguments() -> Self {
        let number = |name: &str| {
            let mut arguments = std::env::args();
            arguments.find_map(|argument| argument.strip_prefix(name)?.parse::<u64>().ok())
        };
        let minutes = number("--minutes=");
        let seed = number("--seed=").unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |since| since.as_secs())
        });
        Self {
            rounds: number("--rounds=").unwrap_or(if minutes.is_some() { u64::MAX } else { 50 }),
            least: number("--least=").unwrap_or(50),
            time: minutes.map_or(Duration::MAX, |minutes| Duration::from_secs(minutes * 60)),
            seed,
        }
    }

    fn goes_on(&self, begun: u64, since: Instant) -> bool {
        begun < self.rounds && (begun < self.least || since.elapsed() < self.time)
    }
}

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    if wanted.lists() {
        return tally.close(&wanted);
    }
    let extent = Extent::from_arguments();
    match Stage::new(Who::Ordinary) {
        Ok(stage) => {
            let kills = Case::plain("kills_at_random_moments_lose_nothing", || {
                kills_at_random_moments(&stage, extent)
            });
            let orders = Case::plain("fifty_orders_run_to_review_under_repeated_kills", || {
                fifty::fifty_orders_run_to_review_under_repeated_kills(&stage, extent.seed)
            });
            tally.run(&wanted, 1, vec![kills, orders]);
        }
        Err(error) => tally.fail("stage", &error),
    }
    tally.close(&wanted)
}

fn kills_at_random_moments(stage: &Stage, extent: Extent) -> Result<()> {
    println!("seed {}: repeat with --seed={}", extent.seed, extent.seed);
    let (begun, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let since = Instant::now();
    let total = Mutex::new(Figures::default());
    let trouble = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for number in 0..LANES {
            let (begun, stop, total, trouble) = (&begun, &stop, &total, &trouble);
            scope.spawn(move || {
                let name = format!("lane{number}");
                let goes_on = || {
                    !stop.load(Ordering::Relaxed)
                        && extent.goes_on(begun.fetch_add(1, Ordering::Relaxed), since)
                };
                if let Err(error) = work(stage, &name, extent.seed + number, goes_on, total) {
                    stop.store(true, Ordering::Relaxed);
                    trouble.lock().unwrap().push(format!("{name}: {error:#}"));
                }
            });
        }
    });
    let (figures, trouble) = (total.into_inner().unwrap(), trouble.into_inner().unwrap());
    report(&figures, since.elapsed(), trouble.len());
    anyhow::ensure!(trouble.is_empty(), "{}", trouble.join("\n\n"));
    anyhow::ensure!(figures.hits.values().sum::<u32>() > 0, "nothing was hit");
    Ok(())
}

fn work(
    stage: &Stage,
    name: &str,
    seed: u64,
    goes_on: impl Fn() -> bool,
    total: &Mutex<Figures>,
) -> Result<()> {
    let mut lane = Lane::new(stage, name, seed)?;
    let mut done = Ok(());
    while done.is_ok() && goes_on() {
        let number = lane.figures.rounds + 1;
        done = lane.round().with_context(|| format!("round {number}"));
    }
    total.lock().unwrap().add(&lane.figures);
    done.and_then(|()| lane.close())
}

fn report(figures: &Figures, took: Duration, violations: usize) {
    let hits: Vec<String> = figures
        .hits
        .iter()
        .map(|(fault, count)| format!("{} {count}", fault.name()))
        .collect();
    let states: Vec<String> = figures
        .states
        .iter()
        .map(|(state, count)| format!("{state} {count}"))
        .collect();
    println!(
        "| {} rounds in {:.0} s, {} runs ({}), {} merged or discarded; hit: {}; {} acknowledged events looked up; \
         violations: {violations}",
        figures.rounds,
        took.as_secs_f32(),
        figures.runs,
        states.join(", "),
        figures.endings,
        hits.join(", "),
        figures.events,
    );
}
