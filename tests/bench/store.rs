//! The store: taking events in, pages of a large log, dropping what is over the budget, and the start of an
//! engine that has many past runs.

use crate::Size;
use crate::table::{Row, median, percentile};
use anyhow::{Context, Result, ensure};
use foreman_domain::{
    At, Epoch, Event, EventKind, EventSeq, Fence, Host, LogStream, OrderId, Protocol, RunId,
    StepName, Subject, WIRE_VERSION,
};
use foreman_policy::Policy;
use foreman_store::{EventBudget, FIRST_CLAIM, NewRun, RETENTION_SLICE, Store};
use foreman_testkit::Stage;
use foreman_tests::past::Past;
use std::time::Instant;

/// Events of one page that is taken in, as a follower of a shim does.
const PAGE: u64 = 512;
/// Events of one page while a large log is filled.
const FILL: u64 = 4_096;
/// Runs among which a large log is divided.
const RUNS: u64 = 80;
/// Events of a page that is read.
const READ: u32 = 200;

fn fence(engine: Epoch) -> Fence {
    Fence {
        engine,
        run: FIRST_CLAIM,
    }
}

/// An event that is a row of its own, of about 300 bytes.
fn closed(run: &RunId, seq: u64) -> Event {
    event(
        run,
        seq,
        EventKind::ConnectionClosed {
            subject: Subject::Egress {
                protocol: Protocol::Tcp,
                host: Host::Name(format!("host{}.example.com", seq % 97)),
                port: 443,
                resolved: None,
            },
            sent: seq,
            received: seq * 17,
            millis: seq % 1_000,
            cut: false,
        },
    )
}

/// A line of output; a hundred were read in one go.
fn line(run: &RunId, seq: u64) -> Event {
    let text = format!("line {seq} of a program that says a lot, and not always the same");
    let kind = EventKind::Output {
        stream: LogStream::Stdout,
        text,
        raw: None,
        continued: false,
    };
    event(run, seq, kind)
}

fn event(run: &RunId, seq: u64, kind: EventKind) -> Event {
    Event {
        v: WIRE_VERSION,
        run: run.clone(),
        seq: EventSeq(seq),
        at: At::from_millis(1_700_000_000_000 + (seq / 100) as i64),
        step: Some(StepName("agent".into())),
        process: None,
        kind,
    }
}

async fn new_run(store: &Store, epoch: Epoch, bits: u64, details: &str) -> Result<RunId> {
    let id = RunId::from_random(bits);
    let new = NewRun {
        order: OrderId::of_single_run(&id),
        id: id.clone(),
        repo_key: "repo".into(),
        title: format!("run {bits}"),
        details: details.to_owned(),
        base_policy: Policy::default(),
        at: At::from_millis(0),
        key: None,
        follows: None,
    };
    store.insert_run(epoch, &new).await?;
    Ok(id)
}

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(future)
}

async fn fill(
    store: &Store,
    epoch: Epoch,
    run: &RunId,
    events: std::ops::RangeInclusive<u64>,
    page: u64,
    of: fn(&RunId, u64) -> Event,
) -> Result<()> {
    let (mut first, last) = events.into_inner();
    while first <= last {
        let end = (first + page - 1).min(last);
        let events: Vec<_> = (first..=end).map(|seq| of(run, seq)).collect();
        let fence = fence(epoch);
        store.ingest_in_group(fence, run, &events).await?;
        first = end + 1;
    }
    Ok(())
}

/// How fast events come in, one run and several, and what that takes in memory.
pub fn ingest(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let dir = stage.bench.scratch("ingest")?;
    let count = size.ingest;
    block_on(async {
        let store = Store::open(&dir.join("foreman.db")).await?;
        let epoch = store.take_epoch().await?;
        let mut bits = 0;
        let (mut single, mut lines, mut several) = (Vec::new(), Vec::new(), Vec::new());
        let before = memory("VmRSS")?;
        std::fs::write("/proc/self/clear_refs", "5").context("start to measure memory anew")?;
        for _ in 0..size.rounds.min(5) {
            bits += 1;
            let run = new_run(&store, epoch, bits, "{}").await?;
            let begin = Instant::now();
            fill(&store, epoch, &run, 1..=count, PAGE, closed).await?;
            single.push(count as f64 / begin.elapsed().as_secs_f64());

            bits += 1;
            let run = new_run(&store, epoch, bits, "{}").await?;
            let begin = Instant::now();
            fill(&store, epoch, &run, 1..=count, PAGE, line).await?;
            lines.push(count as f64 / begin.elapsed().as_secs_f64());

            let mut runs = Vec::new();
            for _ in 0..8 {
                bits += 1;
                runs.push(new_run(&store, epoch, bits, "{}").await?);
            }
            let begin = Instant::now();
            let mut tasks = tokio::task::JoinSet::new();
            for run in runs {
                let store = store.clone();
                tasks.spawn(
                    async move { fill(&store, epoch, &run, 1..=count / 8, PAGE, closed).await },
                );
            }
            while let Some(done) = tasks.join_next().await {
                done??;
            }
            several.push(count as f64 / begin.elapsed().as_secs_f64());
        }
        let grown = memory("VmHWM")?.saturating_sub(before) as f64 / 1024.0;
        store.close().await;
        std::fs::remove_dir_all(&dir)?;
        let unit = "events/s";
        Ok(vec![
            Row::at_least(
                "store: events of one run taken in, a row each, in pages of 512, synced",
                median(&mut single),
                50_000.0,
                unit,
            ),
            Row::at_least(
                "store: lines of output of one run taken in, in pages of 512, synced",
                median(&mut lines),
                50_000.0,
                unit,
            ),
            Row::at_least(
                "store: events of eight runs taken in at the same time, a row each",
                median(&mut several),
                50_000.0,
                unit,
            ),
            Row::plain(
                format!(
                    "memory added while {} events came in",
                    3 * count * size.rounds.min(5) as u64
                ),
                format!("{grown:.1} MiB"),
            ),
        ])
    })
}

fn memory(field: &str) -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let figure = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(figure.context("no such figure")?.parse()?)
}

/// Pages of a large log: the newest, and at random places; then what dropping takes.
pub fn pages(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let dir = stage.bench.scratch("pages")?;
    let each = size.log / RUNS;
    block_on(async {
        let store = Store::open(&dir.join("foreman.db")).await?;
        let epoch = store.take_epoch().await?;
        let mut runs = Vec::new();
        for bits in 0..RUNS {
            runs.push(new_run(&store, epoch, bits, "{}").await?);
        }
        let begin = Instant::now();
        // Eight at a time, as runs that go on at the same time.
        for group in runs.chunks(8) {
            let mut first = 1;
            while first <= each {
                let last = (first + FILL - 1).min(each);
                for run in group {
                    fill(&store, epoch, run, first..=last, FILL, closed).await?;
                }
                first = last + 1;
            }
        }
        let filled = begin.elapsed();
        let bytes = store.file_sizes().await?.database;
        let (mut newest, mut random, mut places) = (Vec::new(), Vec::new(), 7_u64);
        for _ in 0..size.pages {
            places = places
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let run = &runs[(places >> 33) as usize % runs.len()];
            for (after, times) in [
                (each.saturating_sub(u64::from(READ)), &mut newest),
                ((places >> 20) % (each - u64::from(READ)), &mut random),
            ] {
                let begin = Instant::now();
                let page = store.events(run, EventSeq(after), READ, &[]).await?;
                times.push(begin.elapsed().as_secs_f64() * 1e3);
                ensure!(page.events.len() == READ as usize, "{}", page.events.len());
            }
        }
        let budget = EventBudget {
            per_run: EventBudget::LEAST,
            total: EventBudget::LEAST,
        };
        let mut slices = Vec::new();
        while slices.len() < size.pages {
            let begin = Instant::now();
            let done = store.retain(epoch, &budget, RETENTION_SLICE).await?;
            if done.run.is_none() {
                break;
            }
            if done.dropped > 0 {
                slices.push(begin.elapsed().as_secs_f64() * 1e3);
            }
        }
        store.close().await;
        std::fs::remove_dir_all(&dir)?;
        let of = |what: &str| format!("{what} of {} events in {RUNS} runs", each * RUNS);
        let figures = |times: &mut [f64]| {
            format!(
                "{:.2} ms / {:.2} ms",
                percentile(times, 0.5),
                percentile(times, 0.99)
            )
        };
        Ok(vec![
            Row::plain(
                of("filling a log"),
                format!(
                    "{:.0} events/s, {:.0} MiB",
                    (each * RUNS) as f64 / filled.as_secs_f64(),
                    bytes as f64 / f64::from(1 << 20)
                ),
            ),
            Row::plain(of("newest page of 200, p50 / p99,"), figures(&mut newest)),
            Row::plain(
                of("page of 200 at a random place, p50 / p99,"),
                figures(&mut random),
            ),
            Row::plain(
                format!("dropping {RETENTION_SLICE} rows over the budget, p50 / p99"),
                figures(&mut slices),
            ),
        ])
    })
}

/// From the start of a command line, which becomes the engine, to its answer.
pub fn past_runs(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let product = stage.product()?;
    Past::of(&product, async |past| {
        for bits in 0..size.past_runs {
            past.run(0xabc0_0000 + bits, &format!("run {bits}")).await?;
        }
        Ok(())
    })?;
    let mut times = Vec::new();
    for _ in 0..size.rounds {
        let begin = Instant::now();
        let listed = product.ask(&["runs", "--limit", "50"])?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
        let runs = listed["runs"].as_array().context("no runs")?;
        ensure!(
            runs.len() == 50.min(size.past_runs as usize + 1),
            "{}",
            runs.len()
        );
    }
    Ok(vec![Row::at_most(
        format!(
            "command line that becomes the engine, with {} past runs, to its list of 50, p50",
            size.past_runs
        ),
        median(&mut times),
        1_000.0,
        "ms",
    )])
}
