//! What is there after the power came back: opened, taken in and read as the product does it.

use crate::work::{SETTING, database, drain, is_as_told, journal, record_run, run_of};
use anyhow::{Context, Result};
use foreman_domain::{EventKind, EventSeq, RunId, last_seq_of};
use foreman_shim::journal::Writer;
use foreman_store::{Store, StoreError};
use std::collections::BTreeMap;
use std::path::Path;

/// What had been acknowledged when the power went.
#[derive(Debug, Default)]
pub struct Acknowledged {
    /// The last event of each run, wherever it was said to be.
    pub events: BTreeMap<String, u64>,
    setting: u64,
}

impl Acknowledged {
    /// Reads the lines of the file `acks`.
    pub fn read(text: &[u8]) -> Result<Self> {
        let mut all = Self::default();
        for line in std::str::from_utf8(text)?.lines() {
            let mut words = line.split(' ');
            let (what, run) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let number = words.next().map(str::parse).transpose()?.unwrap_or(0);
            if what == "setting" {
                all.setting = number;
            } else {
                let last = all.events.entry(run.to_owned()).or_default();
                *last = number.max(*last);
            }
        }
        Ok(all)
    }
}

/// What is missing, and what is wrong.
#[derive(Debug, Default)]
pub struct Findings {
    /// Acknowledged rows that are not there.
    pub lost: u64,
    /// What does not read as it was written.
    pub corrupt: Vec<String>,
}

/// Looks at what is left in a folder.
pub async fn look(dir: &Path, acknowledged: &Acknowledged) -> Findings {
    let mut findings = Findings::default();
    if let Err(error) = look_inside(dir, acknowledged, &mut findings).await {
        findings.corrupt.push(format!("{error:#}"));
    }
    findings
}

async fn look_inside(
    dir: &Path,
    acknowledged: &Acknowledged,
    findings: &mut Findings,
) -> Result<()> {
    let store = Store::open(&database(dir))
        .await
        .context("open the database")?;
    findings.corrupt.extend(store.integrity().await?);
    let epoch = store.take_epoch().await?;
    let setting: u64 = store.setting(SETTING).await?.unwrap_or(0);
    findings.lost += acknowledged.setting.saturating_sub(setting);
    for (name, last) in &acknowledged.events {
        let run = run_of(name)?;
        if let Err(StoreError::NoRun(_)) = store.run(&run).await {
            findings.lost += last + 1;
            record_run(&store, epoch, &run).await?;
            continue;
        }
        let path = journal(dir, &run);
        let known = store.run(&run).await?.last_seq;
        // As the engine does it: cut off what is torn, then take in what the store does not have.
        let writer = Writer::open(&path, run.clone(), known.next())
            .with_context(|| format!("open the journal of run {run}"))?;
        let reached = drain(&store, epoch, &path, &run).await?;
        findings.lost += last.saturating_sub(reached.0);
        read_all(&store, &run, findings).await?;
        go_on(&store, epoch, writer, &run).await?;
    }
    store.close().await;
    Ok(())
}

/// Every number is there once, as the event that was told or in a gap.
async fn read_all(store: &Store, run: &RunId, findings: &mut Findings) -> Result<()> {
    let mut next = EventSeq(1);
    loop {
        let after = EventSeq(next.0 - 1);
        let page = store.events(run, after, 512, &[]).await?;
        if page.events.is_empty() {
            return Ok(());
        }
        for event in page.events {
            let is_gap = matches!(event.kind, EventKind::Gap { .. });
            if event.seq != next || !(is_gap || is_as_told(&event)) {
                findings
                    .corrupt
                    .push(format!("run {run} event {next}: {event:?}"));
            }
            next = last_seq_of(&event).next();
        }
    }
}

/// What comes next finds its place.
async fn go_on(
    store: &Store,
    epoch: foreman_domain::Epoch,
    mut writer: Writer,
    run: &RunId,
) -> Result<()> {
    let seq = writer.last_seq().next();
    let mut event = crate::work::event(run, seq.0);
    event.seq = seq;
    writer.push(&event)?;
    writer.sync()?;
    let fence = crate::work::fence(epoch);
    store.ingest(fence, run, &[event]).await.context("go on")?;
    Ok(())
}
