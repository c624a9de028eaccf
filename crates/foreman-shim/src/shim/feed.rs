//! The shim's end of the journal: numbers events, writes them in groups on a thread of its own, and
//! reads them back for the engine.
//!
//! An event is numbered when it is told, and visible to a reader once it is on disk. A group is
//! synced after 25 ms, at 512 events, or at once when it holds a kind that must be durable. What is only
//! told in passing waits for such a group, so that a run that does nothing costs next to nothing. The
//! queue is bounded: output waits for room, so that a fast writer in the cage is slowed down; the other
//! kinds are few by their own limits and are dropped, counted, only far beyond that bound.
//!
//! A failing disk never ends the process: the failure is told once ([`Feed::failure`]), the queue is
//! kept, and each next try writes it again.

use super::plan::size_of;
use crate::journal::{Index, JournalError, Writer};
use crate::redact::Redactor;
use foreman_domain::{
    At, Event, EventKind, EventSeq, ProcessRef, RunId, StepName, WIRE_VERSION, pack,
};
use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// A group is written when it has this many events.
const GROUP: usize = 512;
/// A group is written when its first event is this old.
const GROUP_AGE: Duration = Duration::from_millis(25);
/// A group of nothing but events told in passing is written when its first is this old.
const PASSING_AGE: Duration = Duration::from_mins(5);
/// Output waits for room beyond this many events or bytes in the queue.
const QUEUE: usize = 4_096;
const QUEUE_BYTES: usize = 8 << 20;
/// No event of any kind is queued beyond this.
const QUEUE_HARD: usize = 16_384;
/// A failing disk is tried again after this time.
const RETRY: Duration = Duration::from_millis(500);
/// Longest wait for whoever wrote the journal before.
const LETTING_GO: Duration = Duration::from_secs(5);
/// Tries at the end of a run.
const LAST_TRIES: u32 = 4;

/// The journal cannot be written.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(super) struct FeedFailure {
    /// What failed, as a sentence.
    pub(super) message: String,
}

/// Handle of the run's journal; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Feed(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    run: RunId,
    path: PathBuf,
    /// For reading, apart from the writer's cursor.
    file: File,
    queue: Mutex<Queue>,
    filled: Condvar,
    room: Notify,
    index: Mutex<Index>,
    durable: watch::Sender<EventSeq>,
    failure: watch::Sender<Option<FeedFailure>>,
    /// Takes values of secrets out of everything that is told.
    redactor: OnceLock<Redactor>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    /// When the group is to be written at the latest.
    due: Option<Instant>,
    urgent: bool,
    closed: bool,
    last: EventSeq,
    dropped: u64,
}

/// The thread that writes; ended by [`FeedThread::close`].
#[derive(Debug)]
pub(super) struct FeedThread {
    feed: Feed,
    thread: JoinHandle<()>,
}

impl Feed {
    /// Opens the journal and starts its thread. Blocking, for as long as a writer before this one takes to
    /// let go: the engine has closed the file, but a child that it is just starting for another run
    /// has the lock with it until it becomes its program.
    pub(super) fn open(path: &Path, run: &RunId) -> Result<(Self, FeedThread), JournalError> {
        let (writer, index) = Writer::open_in_turn(path, run, EventSeq(1), LETTING_GO)?;
        let open_error = |source| JournalError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(open_error)?;
        let last = writer.last_seq();
        let feed = Self(Arc::new(Shared {
            run: run.clone(),
            path: path.to_owned(),
            file,
            queue: Mutex::new(Queue {
                last,
                ..Queue::default()
            }),
            filled: Condvar::new(),
            room: Notify::new(),
            index: Mutex::new(index),
            durable: watch::Sender::new(last),
            failure: watch::Sender::new(None),
            redactor: OnceLock::new(),
        }));
        let shared = Arc::clone(&feed.0);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .stack_size(256 << 10)
            .spawn(move || write_until_closed(&shared, writer))
            .map_err(open_error)?;
        Ok((feed.clone(), FeedThread { feed, thread }))
    }

    /// From here on nothing is told with a value that this finds. Counts once, before anything is told.
    pub(super) fn redact(&self, redactor: Redactor) {
        let _ = self.0.redactor.set(redactor);
    }

    /// What finds values of secrets in this run.
    pub(super) fn redactor(&self) -> Redactor {
        self.0.redactor.get().cloned().unwrap_or_default()
    }

    /// Tells an event; gives its number.
    pub(super) fn tell(&self, kind: EventKind) -> EventSeq {
        self.tell_of(kind, None, None)
    }

    /// Tells an event that may wait for the next group, for five minutes at most; gives its number.
    pub(super) fn tell_in_passing(&self, kind: EventKind) -> EventSeq {
        self.tell_within(PASSING_AGE, At::now(), kind, None, None)
    }

    /// Tells an event of a step or process; gives its number.
    pub(super) fn tell_of(
        &self,
        kind: EventKind,
        step: Option<&StepName>,
        process: Option<ProcessRef>,
    ) -> EventSeq {
        self.tell_at(At::now(), kind, step, process)
    }

    /// Tells an event of a moment that has passed; gives its number. Lines of output of the same
    /// moment are kept as one record.
    pub(super) fn tell_at(
        &self,
        at: At,
        kind: EventKind,
        step: Option<&StepName>,
        process: Option<ProcessRef>,
    ) -> EventSeq {
        self.tell_within(GROUP_AGE, at, kind, step, process)
    }

    fn tell_within(
        &self,
        age: Duration,
        at: At,
        kind: EventKind,
        step: Option<&StepName>,
        process: Option<ProcessRef>,
    ) -> EventSeq {
        let (kind, process) = self.without_secrets(kind, process);
        let mut queue = lock(&self.0.queue);
        if queue.closed || queue.events.len() >= QUEUE_HARD {
            queue.dropped += 1;
            return queue.last;
        }
        if queue.dropped > 0 {
            let message = format!(
                "{} events could not be kept, because the disk took no more",
                std::mem::take(&mut queue.dropped)
            );
            self.enqueue(&mut queue, at, EventKind::Warning { message }, None, None);
        }
        let seq = self.enqueue(&mut queue, at, kind, step.cloned(), process);
        let due = Instant::now() + age;
        let is_sooner = queue.due.is_none_or(|before| due < before);
        if is_sooner {
            queue.due = Some(due);
        }
        // Otherwise the thread already sleeps for no longer than until the group is due.
        let wake = queue.urgent || is_sooner || queue.events.len() >= GROUP;
        drop(queue);
        if wake {
            self.0.filled.notify_one();
        }
        seq
    }

    /// The event without values of secrets. Output has none any more: it was looked through as it came,
    /// whatever pieces it came in.
    fn without_secrets(
        &self,
        kind: EventKind,
        process: Option<ProcessRef>,
    ) -> (EventKind, Option<ProcessRef>) {
        let redactor = match (self.0.redactor.get(), &kind) {
            (None, _) | (_, EventKind::Output { .. }) => return (kind, process),
            (Some(redactor), _) => redactor,
        };
        let tag = kind.tag();
        redactor.data((kind, process)).unwrap_or_else(|names| {
            let names: Vec<String> = names.into_iter().collect();
            let message = format!(
                "an event of the kind \"{tag}\" was left out, because it said the secret {}",
                names.join(", ")
            );
            (EventKind::Warning { message }, None)
        })
    }

    fn enqueue(
        &self,
        queue: &mut Queue,
        at: At,
        kind: EventKind,
        step: Option<StepName>,
        process: Option<ProcessRef>,
    ) -> EventSeq {
        let seq = queue.last.next();
        queue.last = seq;
        queue.urgent |= kind.is_durable_at_once();
        queue.bytes += size_of_output(&kind);
        let run = self.0.run.clone();
        queue.events.push_back(Event {
            v: WIRE_VERSION,
            run,
            seq,
            at,
            step,
            process,
            kind,
        });
        seq
    }

    /// Tells events and waits until they are on disk.
    ///
    /// # Errors
    /// When the disk does not take them.
    pub(super) async fn tell_durably(&self, kind: EventKind) -> Result<EventSeq, FeedFailure> {
        let seq = self.tell(kind);
        self.wait_durable(seq).await?;
        Ok(seq)
    }

    /// Waits until the event `seq` is on disk.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub(super) async fn wait_durable(&self, seq: EventSeq) -> Result<(), FeedFailure> {
        let mut durable = self.0.durable.subscribe();
        let mut failure = self.0.failure.subscribe();
        let failed = async {
            let found = failure.wait_for(Option::is_some).await;
            found.ok().and_then(|found| found.clone())
        };
        tokio::select! {
            biased;
            reached = durable.wait_for(|last| *last >= seq) => {
                reached.map(|_| ()).map_err(|_| closed())
            }
            failed = failed => Err(failed.unwrap_or_else(closed)),
        }
    }

    /// Waits until the queue has room for output. Never waits on a failing disk: the run is being
    /// stopped then, and its output must not keep it from ending.
    pub(super) async fn wait_for_room(&self) {
        loop {
            let room = self.0.room.notified();
            tokio::pin!(room);
            room.as_mut().enable();
            if self.has_room() || self.0.failure.borrow().is_some() {
                return;
            }
            room.await;
        }
    }

    fn has_room(&self) -> bool {
        let queue = lock(&self.0.queue);
        queue.closed || (queue.events.len() < QUEUE && queue.bytes < QUEUE_BYTES)
    }

    /// The newest event, on disk or not.
    pub(super) fn newest(&self) -> EventSeq {
        lock(&self.0.queue).last
    }

    /// The newest event that is on disk.
    pub(super) fn last_durable(&self) -> EventSeq {
        *self.0.durable.borrow()
    }

    /// Changes whenever events have reached the disk.
    pub(super) fn news(&self) -> watch::Receiver<EventSeq> {
        self.0.durable.subscribe()
    }

    /// Becomes set when the disk fails, and empty again when it recovers.
    pub(super) fn failure(&self) -> watch::Receiver<Option<FeedFailure>> {
        self.0.failure.subscribe()
    }

    /// Records on disk of events after `after`, as lines of JSON, each with its last event
    /// ([`Index::lines_after`]). Reads the file: call it where blocking is fine.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn lines_after(
        &self,
        after: EventSeq,
        limit: usize,
    ) -> Result<Vec<(EventSeq, Vec<u8>)>, JournalError> {
        // The index is copied where needed, not held locked while reading.
        let index = lock(&self.0.index).window_from(after);
        index.lines_after(&self.0.file, &self.0.path, after, limit)
    }
}

impl FeedThread {
    /// Writes what is queued, ends the thread, and gives the last event that is on disk.
    pub(super) fn close(self) -> EventSeq {
        lock(&self.feed.0.queue).closed = true;
        self.feed.0.filled.notify_one();
        // A thread that panicked has written what it could; its panic is in the log.
        let _ = self.thread.join();
        self.feed.last_durable()
    }
}

fn closed() -> FeedFailure {
    FeedFailure {
        message: "The journal is closed".to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn size_of_output(kind: &EventKind) -> usize {
    match kind {
        EventKind::Output { text, raw, .. } => text.len() + raw.as_ref().map_or(0, String::len),
        kind => 256 + size_of(kind),
    }
}

fn write_until_closed(shared: &Shared, mut writer: Writer) {
    let mut last_tries = 0;
    loop {
        let (mut group, closed) = next_group(shared);
        let mut places = Vec::new();
        for packed in pack(group.make_contiguous()) {
            match writer.push_packed(packed) {
                Ok(place) => places.push(place),
                Err(error) => tracing::error!(%error, "an event could not be encoded"),
            }
        }
        drop(group);
        while let Err(error) = writer.sync() {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the journal failed"
            );
            report_failure(shared, &error);
            last_tries += u32::from(lock(&shared.queue).closed);
            if last_tries >= LAST_TRIES {
                return;
            }
            std::thread::sleep(RETRY);
        }
        {
            let mut index = lock(&shared.index);
            for (span, bytes) in places {
                index.push(span, bytes);
            }
        }
        shared
            .failure
            .send_if_modified(|failure| failure.take().is_some());
        shared.durable.send_replace(writer.last_seq());
        shared.room.notify_waiters();
        if closed {
            return;
        }
    }
}

fn report_failure(shared: &Shared, error: &JournalError) {
    let source = std::error::Error::source(error)
        .map(ToString::to_string)
        .unwrap_or_default();
    let message = if error.is_disk_full() {
        format!("disk: the journal could not be written, because the disk is full ({source})")
    } else {
        format!("disk: the journal could not be written ({source})")
    };
    shared.failure.send_replace(Some(FeedFailure { message }));
    shared.room.notify_waiters();
}

/// Waits for a group that is due, and takes it; true when no other will follow.
fn next_group(shared: &Shared) -> (VecDeque<Event>, bool) {
    let mut queue = lock(&shared.queue);
    loop {
        let left = queue
            .due
            .map(|due| due.saturating_duration_since(Instant::now()));
        let is_due = queue.urgent || queue.events.len() >= GROUP || left == Some(Duration::ZERO);
        if queue.closed || is_due {
            queue.bytes = 0;
            queue.due = None;
            queue.urgent = false;
            return (std::mem::take(&mut queue.events), queue.closed);
        }
        queue = match left {
            None => shared
                .filled
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let waited = shared.filled.wait_timeout(queue, left);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

#[cfg(test)]
#[path = "feed/tests.rs"]
mod tests;
