//! What is in the store before the window opens.

use anyhow::Result;
use foreman_domain::{At, Event, EventKind, EventSeq, LogStream, RunId, StepName, WIRE_VERSION};
use foreman_tests::desk::Desk;
use foreman_tests::past::Past;

/// Events of one page that is taken in.
const PAGE: u64 = 4_096;

/// A run of `many` events and one of `few`; their ids.
///
/// # Errors
/// The store refused.
pub fn two_runs(desk: &Desk<'_>, many: u64, few: u64) -> Result<(String, String)> {
    Past::of(&desk.product(), async |past| {
        let many = long_run(past, 0xfeed_0001, many).await?;
        Ok((many, long_run(past, 0xfeed_0002, few).await?))
    })
}

/// So many runs that are over.
///
/// # Errors
/// The store refused.
pub fn past_runs(desk: &Desk<'_>, count: u64) -> Result<()> {
    Past::of(&desk.product(), async |past| {
        for bits in 0..count {
            past.run(0xabc0_0000 + bits, &format!("Run {bits}")).await?;
        }
        Ok(())
    })
}

async fn long_run(past: &Past, bits: u64, count: u64) -> Result<String> {
    let (id, last) = past.run(bits, &format!("A run of {count} events")).await?;
    let mut next = last.0 + 1;
    while next <= count {
        let last = (next + PAGE - 1).min(count);
        let events: Vec<_> = (next..=last).map(|seq| line(&id, seq)).collect();
        past.store
            .ingest_in_group(past.fence(), &id, &events)
            .await?;
        next = last + 1;
    }
    Ok(id.to_string())
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
