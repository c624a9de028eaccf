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
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Events in one transaction.
const BATCH: usize = 512;
/// Longest wait for a shim that has ended to let go of the journal.
const LETTING_GO: Duration = Duration::from_secs(10);

/// A journal that is open for writing.
#[derive(Debug, Clone)]
pub(crate) struct RunLog {
    run: RunId,
    writer: Arc<Mutex<Writer>>,
    mark: Arc<Mark>,
}

/// A file that is there while the engine may have written to a run's journal what its store does not
/// have yet. One that is found when an engine starts says which run the last one was cut short at, so
/// that nobody is told of a state that the run has left.
#[derive(Debug)]
struct Mark {
    path: PathBuf,
    is_behind: AtomicBool,
}

impl Mark {
    fn make(path: PathBuf) -> Result<Self, Failure> {
        std::fs::write(&path, b"").map_err(|error| {
            crate::failures::io(format!("{} cannot be made", path.display()), &error)
        })?;
        Ok(Self {
            path,
            is_behind: AtomicBool::new(false),
        })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.is_behind.load(Ordering::Acquire)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::debug!(%error, "a mark stays, and the run is looked at once more");
        }
    }
}

impl Engine {
    /// Opens a run's journal for writing, and brings the store up to what it holds. A damaged one is
    /// put aside, so that a run can always be brought to its end.
    pub async fn open_log(&self, run: &RunId, details: &RunDetails) -> Result<RunLog, Failure> {
        self.sure().await?;
        private_dir(details.folder())?;
        let known = self.store.run(run).await.or_fail()?.last_seq;
        let mut damage = None;
        let writer = loop {
            let (path, id) = (details.files.journal.clone(), run.clone());
            let opening = move || Writer::open_in_turn(&path, &id, known.next(), LETTING_GO);
            let opened = tokio::task::spawn_blocking(opening).await;
            match opened.map_err(join)? {
                Err(JournalError::Damaged { path, .. }) if damage.is_none() => {
                    let aside = path.with_extension("damaged");
                    std::fs::rename(&path, &aside).map_err(|error| {
                        crate::failures::io(format!("{} cannot be moved", path.display()), &error)
                    })?;
                    damage = Some(aside);
                }
                other => break other.or_fail()?.0,
            }
        };
        let log = RunLog {
            run: run.clone(),
            writer: Arc::new(Mutex::new(writer)),
            mark: Arc::new(Mark::make(self.layout.mark(run))?),
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
        log.mark.is_behind.store(true, Ordering::Release);
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
        let ingested = self.ingest(&log.run, &events).await?;
        log.mark.is_behind.store(false, Ordering::Release);
        Ok(ingested)
    }

    /// Takes in what an engine wrote to journals that ended before it had stored it. Before anybody is
    /// answered; one bad run never keeps the others from it.
    pub async fn catch_up(&self) -> Result<(), Failure> {
        let marks = self.layout.marks();
        let entries = std::fs::read_dir(&marks)
            .map_err(|error| crate::layout::unusable("the directory", &marks, &error))?;
        for entry in entries.flatten() {
            let name = entry.file_name();
            if let Some(Ok(run)) = name.to_str().map(str::parse::<RunId>)
                && let Err(error) = self.catch_up_with(&run).await
            {
                tracing::warn!(%run, %error, "a run's journal could not be taken in");
                continue;
            }
            if let Err(error) = std::fs::remove_file(entry.path()) {
                tracing::debug!(%error, "a mark stays, and the run is looked at once more");
            }
        }
        Ok(())
    }

    async fn catch_up_with(&self, run: &RunId) -> Result<(), Failure> {
        let details = RunDetails::of(&self.store.run(run).await.or_fail()?)?;
        self.drain_journal(run, &details).await
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
        let fence = self.fence(run).await?;
        let ingested = self.store.ingest(fence, run, events).await.or_fail()?;
        self.tell_of(run, events);
        Ok(ingested)
    }

    /// As [`Engine::ingest`], for events that nobody waits to see stored: output may be stored with that
    /// of other runs.
    pub async fn ingest_in_group(
        &self,
        run: &RunId,
        events: &[Event],
    ) -> Result<Ingested, Failure> {
        let fence = self.fence(run).await?;
        let stored = self.store.ingest_in_group(fence, run, events).await;
        let ingested = stored.or_fail()?;
        self.tell_of(run, events);
        Ok(ingested)
    }

    /// Told also of events that were stored already: whoever stored them may not have come to tell.
    fn tell_of(&self, run: &RunId, events: &[Event]) {
        if events.is_empty() {
            return;
        }
        self.news.tell(run);
        for event in events {
            if let EventKind::Block { block } = &event.kind {
                self.news.tell_block(&block.id);
            }
            if matches!(&event.kind, EventKind::State { to } if !to.is_live()) {
                self.queue.wake();
            }
        }
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
