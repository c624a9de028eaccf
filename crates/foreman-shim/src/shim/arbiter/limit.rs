//! Ends what nobody answers within the run's limit. Without one, a hold waits for as long as it takes.

use super::retell::Retold;
use super::{Arbiter, AtBound, Inner, Phase, State};
use crate::shim::blocks::{Stopped, key_of};
use foreman_domain::{At, Decider};
use std::time::Duration;
use tokio::time::timeout;

impl Arbiter {
    /// Sets the limit; before the first attempt.
    pub(in crate::shim) fn limit_holds(&self, seconds: Option<u64>) {
        self.0.lock().limit = seconds.map(Duration::from_secs);
    }

    /// Runs until it is dropped; without a timer while nothing is open, or there is no limit. The time
    /// that the machine sleeps does not count.
    pub(in crate::shim) async fn expire_holds(&self) {
        loop {
            match self.0.expire_due(self.0.now_ms()) {
                None => self.0.opened.notified().await,
                Some(left) => {
                    let _ = timeout(left, self.0.opened.notified()).await;
                }
            }
        }
    }
}

impl Inner {
    /// Ends what is due `now`. Gives how long it is to the next.
    pub(super) fn expire_due(&self, now: u64) -> Option<Duration> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let limit = state.limit?;
        if state.phase == Phase::Ended {
            return None;
        }
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let (refused, next) = state.blocks.expire(now, limit_ms, At::now());
        for hold in refused {
            state.bounded.answer(hold, |_| AtBound::NotAnswered);
            if let Some(waiter) = state.waiters.remove(&hold) {
                // One that gave up in this moment needs no answer.
                let _ = waiter.answer.refuse(&unanswered(limit));
            }
        }
        self.tell_due(state);
        next.map(|due| Duration::from_millis(due.saturating_sub(now)))
    }

    /// Whether this was asked before and nobody answered in time: it is refused then, without a card.
    pub(super) fn is_given_up(&self, state: &mut State, stopped: &Stopped<'_>) -> bool {
        let Some(limit) = state.limit else {
            return false;
        };
        let key = key_of(stopped.subject, stopped.file);
        if !state.blocks.count_expired(&key, stopped.at) {
            return false;
        }
        self.retell(
            state,
            Retold::Refused {
                subject: stopped.subject.clone(),
                folder: stopped.file.map(|file| file.folder.clone()),
                by: Decider::Limit,
                why: unanswered(limit),
                count: 1,
            },
        );
        true
    }
}

fn unanswered(limit: Duration) -> String {
    let words = foreman_policy::duration_in_words(limit.as_secs());
    format!("nobody answered within {words}, which is this run's limit")
}
