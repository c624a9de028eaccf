//! Runs of the past with as many events as wanted, put into a store that an engine has made.

use anyhow::{Context, Result};
use foreman_domain::{
    At, Epoch, Event, EventKind, EventSeq, Fence, LogStream, OrderId, RunId, StepName, WIRE_VERSION,
};
use foreman_policy::Policy;
use foreman_store::{FIRST_CLAIM, NewRun, Store};
use foreman_testkit::{eventually, repos};
use foreman_tests::desk::{Desk, PATIENCE};
use std::path::Path;

/// Events of one page that is taken in.
const PAGE: u64 = 4_096;

/// A run of `many` events and one of `few`; their ids.
///
/// # Errors
/// The store refused.
pub fn two_runs(desk: &Desk<'_>, many: u64, few: u64) -> Result<(String, String)> {
    let product = desk.product();
    let bench = &desk.stage.bench;
    let repo = repos::plain(bench, "past")?;
    product.run_to_end(&repo, &[], &["true"])?;
    let database = product.data().join("state/foreman.db");
    let lock = std::fs::File::open(product.data().join("state/engine.lock"))?;
    eventually("no engine is up", PATIENCE, || lock.try_lock().is_ok())?;
    lock.unlock()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ids = runtime.block_on(fill(&database, many, few))?;
    for name in ["foreman.db", "foreman.db-wal", "foreman.db-shm"] {
        let path = database.with_file_name(name);
        if path.exists() {
            bench.own(&path)?;
        }
    }
    Ok(ids)
}

async fn fill(database: &Path, many: u64, few: u64) -> Result<(String, String)> {
    let store = Store::open(database).await?;
    let pattern = store.runs(1).await?.pop().context("no run")?;
    let begun = store
        .events(&pattern.id, EventSeq(0), 512, &[])
        .await?
        .events;
    let epoch = store.take_epoch().await?;
    let mut ids = Vec::new();
    for (bits, count) in [(0xfeed_0001, many), (0xfeed_0002, few)] {
        let id = RunId::from_random(bits);
        let new = NewRun {
            order: OrderId::of_single_run(&id),
            id: id.clone(),
            repo_key: "past".into(),
            title: format!("A run of {count} events"),
            details: pattern.details.clone(),
            base_policy: Policy::default(),
            at: At::from_millis(1_700_000_000_000),
            key: None,
            follows: None,
        };
        store.insert_run(epoch, &new).await?;
        let own: Vec<_> = begun
            .iter()
            .map(|event| Event {
                run: id.clone(),
                ..event.clone()
            })
            .collect();
        store.ingest(fence(epoch), &id, &own).await?;
        let mut next = own.last().map_or(1, |event| event.seq.0 + 1);
        while next <= count {
            let last = (next + PAGE - 1).min(count);
            let events: Vec<_> = (next..=last).map(|seq| line(&id, seq)).collect();
            store.ingest_in_group(fence(epoch), &id, &events).await?;
            next = last + 1;
        }
        ids.push(id.to_string());
    }
    store.release(epoch).await?;
    store.close().await;
    let few = ids.pop().context("two runs")?;
    let many = ids.pop().context("two runs")?;
    Ok((many, few))
}

fn fence(engine: Epoch) -> Fence {
    Fence {
        engine,
        run: FIRST_CLAIM,
    }
}

fn line(run: &RunId, seq: u64) -> Event {
    let text = format!("line {seq} of a program that says a lot, and not always the same");
    Event {
        v: WIRE_VERSION,
        run: run.clone(),
        seq: EventSeq(seq),
        at: At::from_millis(1_700_000_000_000 + (seq / 100).cast_signed()),
        step: Some(StepName("agent".into())),
        process: None,
        kind: EventKind::Output {
            stream: LogStream::Stdout,
            text,
            raw: None,
            continued: false,
        },
    }
}
