//! Group commit: events that several runs tell at about the same time are one transaction.
//!
//! There is no task of its own. Whoever wants events stored puts them into the queue; the first one to
//! get its turn commits what waits, for all, and each gets its own answer. While one group waits for
//! the disk the next one gathers. A group is due at 512 events, 25 ms after its first, or at once when
//! somebody waits for it ([`Batch::is_urgent`]). Memory is bounded by the callers: each has one batch
//! of its own in the queue.
//!
//! A caller that goes away in the middle loses nothing: what it took out of the queue for others is
//! put in again by them, and what had been committed is passed over then.

use crate::ingest::{Batch, Taken};
use crate::{Store, StoreError};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

/// A group is due when it has this many events.
const GROUP: usize = 512;
/// It takes no more batches beyond this many, so that no transaction becomes long.
const GROUP_MOST: usize = 8 * GROUP;
/// It is due when its first event is this old.
const GROUP_AGE: Duration = Duration::from_millis(25);

/// What waits to be stored.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    queue: Mutex<Queue>,
    turn: tokio::sync::Mutex<()>,
    fuller: Notify,
    groups: AtomicU64,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    events: usize,
    urgent: bool,
    oldest: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    batch: Arc<Batch>,
    answer: oneshot::Sender<Result<Taken, StoreError>>,
}

impl Store {
    /// How many groups of events were stored since the file was opened; for seeing that nothing comes.
    #[must_use]
    pub fn groups_stored(&self) -> u64 {
        self.intake.groups.load(Ordering::Relaxed)
    }

    /// Stores a batch with what else waits.
    pub(crate) async fn submit(&self, batch: Arc<Batch>) -> Result<Taken, StoreError> {
        loop {
            let mut answer = self.intake.put(Arc::clone(&batch));
            let turn = tokio::select! {
                biased;
                answered = &mut answer => match answered {
                    Ok(answer) => return answer,
                    // Whoever was to store it went away.
                    Err(_) => continue,
                },
                turn = self.intake.turn.lock() => turn,
            };
            loop {
                match answer.try_recv() {
                    Ok(answer) => return answer,
                    Err(oneshot::error::TryRecvError::Closed) => break,
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                self.intake.wait_until_due().await;
                self.store_group(self.intake.take()).await;
            }
            drop(turn);
        }
    }

    async fn store_group(&self, group: Vec<Waiting>) {
        self.intake.groups.fetch_add(1, Ordering::Relaxed);
        let batches: Vec<&Batch> = group.iter().map(|one| &*one.batch).collect();
        match self.store_batches(&batches).await {
            Ok(answers) => {
                for (one, answer) in group.into_iter().zip(answers) {
                    // Whoever asked may have gone away.
                    let _ = one.answer.send(answer);
                }
            }
            Err(error) if batches.len() == 1 => {
                if let Some(one) = group.into_iter().next() {
                    let _ = one.answer.send(Err(error));
                }
            }
            // One that cannot be stored never keeps the others from it, and each is told its own reason.
            Err(_) => {
                for one in group {
                    let alone = self.store_batches(&[&one.batch]).await;
                    let answer = alone.map(|answers| answers.into_iter().next());
                    let _ = match answer {
                        Ok(Some(answer)) => one.answer.send(answer),
                        Ok(None) => Ok(()),
                        Err(error) => one.answer.send(Err(error)),
                    };
                }
            }
        }
    }
}

impl Intake {
    fn put(&self, batch: Arc<Batch>) -> oneshot::Receiver<Result<Taken, StoreError>> {
        let (answer, receiver) = oneshot::channel();
        let mut queue = self.lock();
        queue.events += batch.len();
        queue.urgent |= batch.is_urgent();
        queue.oldest.get_or_insert_with(Instant::now);
        queue.waiting.push_back(Waiting { batch, answer });
        drop(queue);
        self.fuller.notify_one();
        receiver
    }

    /// Called by one at a time, which has the turn.
    async fn wait_until_due(&self) {
        loop {
            let due = {
                let queue = self.lock();
                match queue.oldest {
                    _ if queue.urgent || queue.events >= GROUP => return,
                    None => return,
                    Some(oldest) => oldest + GROUP_AGE,
                }
            };
            if tokio::time::timeout_at(due, self.fuller.notified())
                .await
                .is_err()
            {
                return;
            }
        }
    }

    fn take(&self) -> Vec<Waiting> {
        let mut queue = self.lock();
        let (mut group, mut events) = (Vec::new(), 0);
        while let Some(next) = queue.waiting.front() {
            if events > 0 && events + next.batch.len() > GROUP_MOST {
                break;
            }
            events += next.batch.len();
            group.extend(queue.waiting.pop_front());
        }
        queue.events = queue.events.saturating_sub(events);
        // What is left has waited already: it is the next group, at once.
        queue.urgent = !queue.waiting.is_empty();
        queue.oldest = queue.urgent.then(Instant::now);
        group
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
