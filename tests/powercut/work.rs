//! What the product does to its files, and what it says is done: journals of several runs that are
//! written in groups and taken into the store, decisions, checkpoints, retention, journals that are cut.
//!
//! What is acknowledged is written into a file of its own, `acks`, in order with everything else: a line
//! for a run that was recorded, the last event that is in a journal or in the store, a setting.

use crate::dice::Dice;
use anyhow::{Context, Result, ensure};
use foreman_domain::{
    At, Epoch, Event, EventKind, EventSeq, Fence, LogStream, OrderId, RunId, RunState,
    WIRE_VERSION, pack,
};
use foreman_policy::Policy;
use foreman_shim::journal::{Reader, Writer};
use foreman_store::{EventBudget, FIRST_CLAIM, NewRun, RETENTION_SLICE, Store};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Runs that are alive at one time.
const RUNS: usize = 5;
/// The setting that is counted up.
pub const SETTING: &str = "powercut";

/// Where the database is.
pub fn database(dir: &Path) -> PathBuf {
    dir.join("foreman.db")
}

/// Where a run's journal is.
pub fn journal(dir: &Path, run: &RunId) -> PathBuf {
    dir.join(format!("{run}.ndjson"))
}

/// The event of a run with this number; always the same.
pub fn event(run: &RunId, seq: u64) -> Event {
    let mut dice = Dice::new(seq ^ u64::from_str_radix(&hash(run), 16).unwrap_or(1));
    // Stretches of lines of one moment, so that some records hold many and some hold one.
    let at = At::from_millis(1_700_000_000_000 + (seq / 16) as i64);
    let size = [3, 30, 300, 3_000][dice.below(4) as usize];
    let text = format!("{seq} ").chars().cycle().take(size).collect();
    let kind = match seq % 64 {
        0 => EventKind::Warning { message: text },
        _ => EventKind::Output {
            stream: LogStream::Stdout,
            text,
            raw: None,
            continued: false,
        },
    };
    Event {
        v: WIRE_VERSION,
        run: run.clone(),
        seq: EventSeq(seq),
        at,
        step: None,
        process: None,
        kind,
    }
}

fn hash(run: &RunId) -> String {
    let sum = run
        .as_str()
        .bytes()
        .fold(7_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(byte));
    format!("{sum:x}")
}

/// Where a run's events end: with the state of rest.
fn end(run: &RunId, seq: u64) -> Event {
    Event {
        kind: EventKind::State {
            to: RunState::NoChanges,
        },
        ..event(run, seq)
    }
}

/// What an engine of this epoch writes under.
pub fn fence(engine: Epoch) -> Fence {
    Fence {
        engine,
        run: FIRST_CLAIM,
    }
}

/// Records a run.
pub async fn record_run(store: &Store, epoch: Epoch, id: &RunId) -> Result<()> {
    let new = NewRun {
        order: OrderId::of_single_run(id),
        id: id.clone(),
        repo_key: "repo".into(),
        title: "powercut".into(),
        details: "{}".into(),
        base_policy: Policy::default(),
        at: At::from_millis(0),
        key: None,
        follows: None,
    };
    store.insert_run(epoch, &new).await?;
    Ok(())
}

/// Takes what a journal has into the store; gives the newest event there.
pub async fn drain(store: &Store, epoch: Epoch, path: &Path, run: &RunId) -> Result<EventSeq> {
    let mut after = store.run(run).await?.last_seq;
    let mut reader = Reader::new(path);
    loop {
        let events = reader.read_after(after, 512)?;
        if events.is_empty() {
            return Ok(after);
        }
        after = store.ingest(fence(epoch), run, &events).await?.last_seq;
    }
}

struct Live {
    run: RunId,
    writer: Writer,
    next: u64,
}

/// Works for this many rounds, and says what is done.
pub async fn work(dir: &Path, seed: u64, rounds: u64) -> Result<()> {
    let mut dice = Dice::new(seed);
    let mut acks = File::create(dir.join("acks"))?;
    let mut ack = |line: String| acks.write_all(line.as_bytes());
    let store = Store::open(&database(dir)).await?;
    let epoch = store.take_epoch().await?;
    let (mut live, mut made, mut counted) = (Vec::<Live>::new(), 0, 0_u64);
    for _ in 0..rounds {
        if live.len() < RUNS {
            made += 1;
            let run = RunId::from_random(seed.wrapping_mul(1_000) + made);
            record_run(&store, epoch, &run).await?;
            ack(format!("run {run}\n"))?;
            let writer = Writer::open(&journal(dir, &run), run.clone(), EventSeq(1))?;
            live.push(Live {
                run,
                writer,
                next: 1,
            });
        }
        let chosen = dice.below(live.len() as u64) as usize;
        let one = &mut live[chosen];
        let most = if dice.once_in(4) { 200 } else { 20 };
        let count = 1 + dice.below(most);
        let events: Vec<_> = (one.next..one.next + count)
            .map(|seq| event(&one.run, seq))
            .collect();
        for packed in pack(&events) {
            one.writer.push_packed(packed)?;
        }
        one.writer.sync()?;
        one.next += count;
        ack(format!("journal {} {}\n", one.run, one.next - 1))?;
        let path = journal(dir, &one.run);
        if dice.below(4) > 0 {
            let last = drain(&store, epoch, &path, &one.run).await?;
            ack(format!("store {} {last}\n", one.run))?;
        }
        if dice.once_in(10) {
            counted += 1;
            store.set_setting(epoch, SETTING, &counted).await?;
            ack(format!("setting - {counted}\n"))?;
        }
        if dice.once_in(12) {
            store.checkpoint().await?;
        }
        if dice.once_in(40) {
            store.empty_log().await?;
        }
        if dice.once_in(15) {
            let budget = EventBudget {
                per_run: EventBudget::LEAST,
                total: EventBudget::LEAST,
            };
            while store
                .retain(epoch, &budget, RETENTION_SLICE / 10)
                .await?
                .run
                .is_some()
            {}
            store.give_back().await?;
        }
        if dice.once_in(14) {
            let mut one = live.swap_remove(chosen);
            one.writer.push(&end(&one.run, one.next))?;
            one.writer.sync()?;
            ack(format!("end {} {}\n", one.run, one.next))?;
            let last = drain(&store, epoch, &path, &one.run).await?;
            ensure!(last == EventSeq(one.next), "{last} of {}", one.next);
            ack(format!("store {} {last}\n", one.run))?;
            one.writer.keep_last_line()?;
        }
    }
    store.close().await;
    Ok(())
}

/// Whether an event is the one that was told; a run's last one may be its end.
pub fn is_as_told(found: &Event) -> bool {
    found == &event(&found.run, found.seq.0) || found == &end(&found.run, found.seq.0)
}

/// The run of an acknowledgement.
pub fn run_of(text: &str) -> Result<RunId> {
    text.parse().context("a run's id")
}
