//! What changed since a cursor, over everything that can be shown: the engine's side of a subscription.
//!
//! A subject that changes again moves to the end, so what is kept is bounded by the number of subjects,
//! and that by [`MOST`]; however slowly somebody reads, nobody waits for him and nothing grows. A cursor
//! older than what was forgotten, or of another engine, is answered with a mark to begin anew. A change
//! is told after it is in the store: whoever takes a cursor and then reads the store misses nothing.

use foreman_domain::{BlockId, Epoch, OrderId, RunId};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Subjects that are kept.
const MOST: usize = 8192;
/// Subjects of one answer.
const PAGE: usize = 512;
/// Least time between two answers to one reader: twenty a second.
const LEAST: Duration = Duration::from_millis(50);

/// What can change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Run(RunId),
    Order(OrderId),
    Block(BlockId),
}

/// Every change of one engine's life.
#[derive(Debug)]
pub(crate) struct Changes {
    began: Instant,
    known: Mutex<Known>,
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    newest: u64,
    /// Changes up to this one may have been forgotten.
    forgotten: u64,
    last_of: HashMap<Subject, u64>,
    in_order: BTreeMap<u64, Subject>,
}

/// A place in the changes of one engine, and when it was given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor {
    epoch: Epoch,
    number: u64,
    millis: u64,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}.{}.{}", self.epoch, self.number, self.millis)
    }
}

impl Cursor {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.splitn(3, '.').map(|part| part.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            epoch: Epoch(next()?),
            number: next()?,
            millis: next()?,
        })
    }
}

/// What a reader is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// Where the reader was; absent when that is not known here, so that it must begin anew.
    pub from: Option<Cursor>,
    /// Where it is now.
    pub to: Cursor,
    /// What changed in between, each subject once.
    pub subjects: Vec<Subject>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            known: Mutex::default(),
            newest: watch::channel(0).0,
        }
    }
}

impl Changes {
    /// Something changed, and is in the store.
    pub fn tell(&self, subject: Subject) {
        let mut known = self.known();
        known.newest += 1;
        let number = known.newest;
        if let Some(before) = known.last_of.insert(subject.clone(), number) {
            known.in_order.remove(&before);
        }
        known.in_order.insert(number, subject);
        if known.in_order.len() > MOST
            && let Some((number, subject)) = known.in_order.pop_first()
        {
            known.last_of.remove(&subject);
            known.forgotten = number;
        }
        drop(known);
        self.newest.send_replace(number);
    }

    /// The place where everything is known up to now.
    pub fn now(&self, epoch: Epoch) -> Cursor {
        self.cursor(epoch, self.known().newest)
    }

    /// What changed after a cursor; waits up to `wait` for the first change, and never answers one
    /// reader more often than every [`LEAST`].
    pub async fn after(&self, epoch: Epoch, cursor: Option<&str>, wait: Duration) -> Told {
        let from = cursor
            .and_then(Cursor::parse)
            .filter(|cursor| cursor.epoch == epoch);
        let Some(from) = from else {
            return self.anew(epoch);
        };
        let deadline = Instant::now() + wait;
        let not_before = self.began + Duration::from_millis(from.millis) + LEAST;
        // Subscribed before the first look: a change between look and wait is not missed.
        let mut newest = self.newest.subscribe();
        // A cursor of the future is no reason to wait for ever.
        let waiting = newest.wait_for(|newest| *newest > from.number);
        let _ = tokio::time::timeout_at(deadline, waiting).await;
        if not_before <= Instant::now() + LEAST {
            tokio::time::sleep_until(not_before).await;
        }
        self.look(epoch, from)
    }

    fn look(&self, epoch: Epoch, from: Cursor) -> Told {
        let known = self.known();
        if from.number < known.forgotten || from.number > known.newest {
            drop(known);
            return self.anew(epoch);
        }
        let fresh: Vec<(u64, Subject)> = known
            .in_order
            .range(from.number + 1..)
            .take(PAGE)
            .map(|(number, subject)| (*number, subject.clone()))
            .collect();
        let number = match fresh.last() {
            Some((last, _)) if fresh.len() == PAGE => *last,
            Some(_) | None => known.newest,
        };
        drop(known);
        Told {
            from: Some(from),
            to: self.cursor(epoch, number),
            subjects: fresh.into_iter().map(|(_, subject)| subject).collect(),
        }
    }

    fn anew(&self, epoch: Epoch) -> Told {
        Told {
            from: None,
            to: self.now(epoch),
            subjects: Vec::new(),
        }
    }

    fn cursor(&self, epoch: Epoch, number: u64) -> Cursor {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Cursor {
            epoch,
            number,
            millis,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "changes/tests.rs"]
mod tests;
