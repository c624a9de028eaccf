//! Keeping the store to its budget, and the disk free of what is there twice.
//!
//! One task, in slices, beside everything else: old output goes when events take more than they may
//! ([`Store::retain`](foreman_store::Store::retain)); the journal of a run that has ended is cut down
//! to its last line when all of it is stored; the write-ahead log is moved into the database when nobody writes. Nothing waits for it,
//! and what fails is tried again at the next look.

use crate::api::{RetentionChange, RetentionView};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use foreman_domain::{Code, EventSeq, Failure, RunId};
use foreman_policy::bytes_in_words;
use foreman_shim::journal::{JournalError, Writer};
use foreman_store::{EventBudget, IdleJournal, RETENTION_SLICE};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two looks.
const EVERY: Duration = Duration::from_secs(5);
/// Looks without a new event after which the log is emptied, and after which it is again: leases are
/// renewed all the time.
const QUIET: u32 = 6;
const AGAIN: u32 = 720;
/// Looks between two at base branches.
const BASES: u32 = 3;
/// Nothing is won by cutting a shorter journal, in bytes.
const SHORT: u64 = 16 << 10;
/// Journals looked after at one time.
const JOURNALS: u32 = 64;

/// Looks after the store until hosting ends.
pub(crate) async fn keep_store(engine: Arc<Engine>) {
    let (mut quiet, mut groups, mut more, mut looks) = (0_u32, 0, true, 0_u32);
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = engine.cancel.cancelled() => return,
        }
        if let Err(error) = engine.keep_to_budget().await {
            tracing::warn!(%error, "old events could not be dropped");
        }
        if let Err(error) = engine.lapse_expired().await {
            tracing::warn!(%error, "decisions whose time is over are still called active");
        }
        looks = looks.wrapping_add(1);
        if looks % BASES == 0
            && let Err(error) = engine.look_at_bases().await
        {
            tracing::warn!(%error, "the base branches of runs in review could not be looked at");
        }
        let now = engine.store.groups_stored();
        quiet = if now == groups {
            quiet.wrapping_add(1)
        } else {
            0
        };
        // A run that came to rest told so by an event.
        if more || quiet == 0 {
            more = engine.cut_idle_journals().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "journals that are stored could not be cut");
                true
            });
        }
        groups = now;
        let done = match quiet {
            1 => engine.store.checkpoint().await,
            _ if quiet % AGAIN == QUIET => engine.store.empty_log().await,
            _ => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "the write-ahead log could not be moved");
        }
    }
}

impl Engine {
    /// How many events are kept, and what they take.
    pub async fn retention(&self) -> Result<RetentionView, Failure> {
        let budget = self.store.event_budget().await.or_fail()?;
        let usage = self.store.event_usage().await.or_fail()?;
        let sizes = self.store.file_sizes().await.or_fail()?;
        Ok(RetentionView {
            per_run: budget.per_run,
            total: budget.total,
            used: usage.total,
            largest_run: usage.largest,
            database: sizes.database,
            log: sizes.log,
            free: sizes.free,
        })
    }

    /// Sets how many events are kept. What is over it goes soon after.
    pub async fn set_retention(&self, change: RetentionChange) -> Result<RetentionView, Failure> {
        let mut budget = self.store.event_budget().await.or_fail()?;
        let least = EventBudget::LEAST;
        if [change.per_run, change.total]
            .iter()
            .flatten()
            .any(|bytes| *bytes < least)
        {
            let message = format!("stored events need at least {}", bytes_in_words(least));
            return Err(Failure::new(Code::BadInput, message));
        }
        budget.per_run = change.per_run.unwrap_or(budget.per_run);
        budget.total = change.total.unwrap_or(budget.total);
        self.store
            .set_setting(self.epoch, EventBudget::KEY, &budget)
            .await
            .or_fail()?;
        self.retention().await
    }

    /// Drops what is over the budget, oldest output first.
    pub async fn keep_to_budget(&self) -> Result<(), Failure> {
        let budget = self.store.event_budget().await.or_fail()?;
        let mut dropped = 0;
        while !self.cancel.is_cancelled() {
            let done = self
                .store
                .retain(self.epoch, &budget, RETENTION_SLICE)
                .await
                .or_fail()?;
            dropped += done.dropped;
            if done.run.is_none() {
                break;
            }
        }
        if dropped > 0 {
            tracing::info!(dropped, "dropped old events to keep to the budget");
            while !self.cancel.is_cancelled() && self.store.give_back().await.or_fail()? {}
        }
        Ok(())
    }

    /// Cuts journals of runs that have ended, once every event of theirs is stored; true when it is
    /// worth looking again although nothing happens. One that cannot be cut never keeps the others
    /// from it.
    pub async fn cut_idle_journals(&self) -> Result<bool, Failure> {
        let idle = self.store.idle_journals(JOURNALS).await.or_fail()?;
        let mut more = idle.len() >= JOURNALS as usize;
        for idle in idle {
            if self.cancel.is_cancelled() {
                return Ok(true);
            }
            match self.cut_journal(&idle).await {
                Ok(done) => more |= !done,
                Err(error) => {
                    more = true;
                    tracing::warn!(run = %idle.run, %error, "a journal could not be cut");
                }
            }
        }
        Ok(more)
    }

    /// True when there is nothing to come back for.
    async fn cut_journal(&self, idle: &IdleJournal) -> Result<bool, Failure> {
        // Whoever has the run's turn may be about to write the journal.
        let Some(_turn) = self.try_turn(&idle.run) else {
            return Ok(false);
        };
        if self.live.get(&idle.run).is_some() {
            return Ok(false);
        }
        let stored = self.store.run(&idle.run).await.or_fail()?;
        let details = RunDetails::of(&stored)?;
        let (path, run) = (details.files.journal.clone(), idle.run.clone());
        let through = stored.last_seq;
        let looked = tokio::task::spawn_blocking(move || cut_if_stored(&path, run, through));
        match looked.await.map_err(join)?.or_fail()? {
            Looked::Done => {
                self.store
                    .note_journal(self.epoch, &idle.run, through)
                    .await
                    .or_fail()?;
                Ok(true)
            }
            Looked::NotYet => Ok(false),
            Looked::HasMore => {
                self.drain_journal(&idle.run, &details).await?;
                Ok(false)
            }
        }
    }
}

enum Looked {
    /// There is nothing to come back for.
    Done,
    /// Somebody writes it.
    NotYet,
    /// It has events that are not stored.
    HasMore,
}

fn cut_if_stored(
    path: &std::path::Path,
    run: RunId,
    stored: EventSeq,
) -> Result<Looked, JournalError> {
    let is_long = std::fs::metadata(path).is_ok_and(|journal| journal.len() > SHORT);
    if !is_long {
        return Ok(Looked::Done);
    }
    let writer = match Writer::open(path, run, EventSeq(1)) {
        Ok(writer) => writer,
        Err(JournalError::Busy { .. }) => return Ok(Looked::NotYet),
        // Nobody can say what it holds, so it stays.
        Err(JournalError::Damaged { .. }) => return Ok(Looked::Done),
        Err(error) => return Err(error),
    };
    if writer.last_seq() > stored {
        return Ok(Looked::HasMore);
    }
    writer.keep_last_line().map(|()| Looked::Done)
}
