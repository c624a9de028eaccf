//! A run's journal, when the engine reads or writes it: before its shim starts and after it ended.
//!
//! The journal comes first and the store is filled from it, so that both tell the same story whatever
//! happens in between. While a shim lives, it holds the journal's lock and is the only writer.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal, join};
use crate::layout::private_dir;
use foreman_domain::{
    At, Event, EventKind, EventSeq, Failure, IllegalTransition, RunEvent, RunId, RunState,
    WIRE_VERSION,
};
use foreman_shim::journal::{JournalError, Reader, Writer};
use foreman_store::Ingested;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Events in one transaction.
const BATCH: usize = 512;
/// Longest wait for a shim that has ended to let go of the journal.
const LETTING_GO: Duration = Duration::from_secs(10);

/// A journal that is open for writing.
#[derive(Debug, Clone)]
pub(crate) struct RunLog {
    run: RunId,
    writer: Arc<Mutex<Writer>>,
}

impl Engine {
    /// Opens a run's journal for writing, and brings the store up to what it holds. A damaged one is
    /// put aside, so that a run can always be brought to its end.
    pub async fn open_log(&self, run: &RunId, details: &RunDetails) -> Result<RunLog, Failure> {
        private_dir(details.folder())?;
        let deadline = Instant::now() + LETTING_GO;
        let known = self.store.run(run).await.or_fail()?.last_seq;
        let mut damage = None;
        let writer = loop {
            let (path, id) = (details.files.journal.clone(), run.clone());
            let opened =
                tokio::task::spawn_blocking(move || Writer::open(&path, id, known.next())).await;
            match opened.map_err(join)? {
                Err(JournalError::Busy { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(JournalError::Damaged { path, .. }) if damage.is_none() => {
                    let aside = path.with_extension("damaged");
                    std::fs::rename(&path, &aside).map_err(|error| {
                        crate::failures::io(format!("{} cannot be moved", path.display()), &error)
                    })?;
                    damage = Some(aside);
                }
                other => break other.or_fail()?,
            }
        };
        let log = RunLog {
            run: run.clone(),
            writer: Arc::new(Mutex::new(writer)),
        };
        self.drain_journal(run, details).await?;
        if let Some(aside) = damage {
            let message = format!(
                "the journal was damaged; what could not be read is kept in {}",
                aside.display()
            );
            self.append(&log, vec![EventKind::Warning { message }])
                .await?;
        }
        Ok(log)
    }

    /// Appends events, on disk and in the store when this returns.
    pub async fn append(&self, log: &RunLog, kinds: Vec<EventKind>) -> Result<Ingested, Failure> {
        let (run, writer) = (log.run.clone(), Arc::clone(&log.writer));
        let written = tokio::task::spawn_blocking(move || {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut events = Vec::with_capacity(kinds.len());
            for kind in kinds {
                let seq = writer.last_seq().next();
                let at = At::now();
                let event = Event {
                    v: WIRE_VERSION,
                    run: run.clone(),
                    seq,
                    at,
                    step: None,
                    process: None,
                    kind,
                };
                writer.push(&event)?;
                events.push(event);
            }
            writer.sync()?;
            Ok::<_, JournalError>(events)
        });
        let events = written.await.map_err(join)?.or_fail()?;
        self.ingest(&log.run, &events).await
    }

    /// Appends a change of state that the table of [`RunState`] allows, after other events.
    pub async fn advance(
        &self,
        log: &RunLog,
        mut before: Vec<EventKind>,
        event: RunEvent,
    ) -> Result<RunState, Failure> {
        let state = self.store.run(&log.run).await.or_fail()?.state;
        let to = state
            .next(event)
            .map_err(|error: IllegalTransition| internal(error))?;
        before.push(EventKind::State { to });
        Ok(self.append(log, before).await?.state)
    }

    /// Takes in what the journal has and the store does not.
    pub async fn drain_journal(&self, run: &RunId, details: &RunDetails) -> Result<(), Failure> {
        let mut after = self.store.run(run).await.or_fail()?.last_seq;
        let mut reader = Reader::new(&details.files.journal);
        loop {
            let (events, reused) = read(reader, after).await?;
            reader = reused;
            if events.is_empty() {
                return Ok(());
            }
            after = self.ingest(run, &events).await?.last_seq;
        }
    }

    /// Stores events and wakes whoever waits for them.
    pub async fn ingest(&self, run: &RunId, events: &[Event]) -> Result<Ingested, Failure> {
        let ingested = self.store.ingest(self.epoch, run, events).await.or_fail()?;
        if ingested.new > 0 {
            self.news.tell(run);
        }
        Ok(ingested)
    }
}

async fn read(mut reader: Reader, after: EventSeq) -> Result<(Vec<Event>, Reader), Failure> {
    let reading = tokio::task::spawn_blocking(move || {
        reader
            .read_after(after, BATCH)
            .map(|events| (events, reader))
    });
    reading.await.map_err(join)?.or_fail()
}
