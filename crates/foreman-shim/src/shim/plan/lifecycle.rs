//! The run's state as its shim tells it: running a step, or stopping for good.

use crate::shim::feed::Feed;
use crate::shim::stop::StopWish;
use foreman_domain::{At, EventKind, RunState, Rung, StepName, StopBy};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells states in a legal order, whoever tells them: nothing follows stopping. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::shim) struct Lifecycle {
    feed: Feed,
    is_stopping: Arc<Mutex<bool>>,
    /// The run is at rest: what is done has no part in its state.
    is_silent: bool,
}

impl Lifecycle {
    pub(in crate::shim) fn new(feed: Feed, is_silent: bool) -> Self {
        Self {
            feed,
            is_stopping: Arc::default(),
            is_silent,
        }
    }

    pub(in crate::shim) fn running(&self, step: &StepName) {
        let is_stopping = self
            .is_stopping
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !*is_stopping && !self.is_silent {
            let to = RunState::Running { step: step.clone() };
            self.feed.tell_of(EventKind::State { to }, Some(step), None);
        }
    }

    pub(in crate::shim) fn stopping(&self, wish: &StopWish, now: At) {
        let mut is_stopping = self
            .is_stopping
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_stopping, true) && !self.is_silent {
            let ladder = ladder(wish, now);
            let to = RunState::Stopping {
                cause: wish.cause.clone(),
                deadline: ladder.last().map_or(now, |rung| rung.at),
                ladder,
            };
            self.feed.tell(EventKind::State { to });
        }
    }
}

/// The rungs that are left for a wish, each with its deadline: without grace only the last one.
fn ladder(wish: &StopWish, now: At) -> Vec<Rung> {
    let grace = i64::try_from(wish.grace.as_millis()).unwrap_or(i64::MAX / 4);
    let rungs: &[StopBy] = match grace {
        0 => &[StopBy::Kill],
        _ => &[StopBy::Interrupt, StopBy::Terminate, StopBy::Kill],
    };
    let after = |many: usize| {
        let waits = i64::try_from(many).unwrap_or(i64::MAX);
        At::from_millis(now.as_millis().saturating_add(grace.saturating_mul(waits)))
    };
    let rung = |(many, by): (usize, &StopBy)| Rung {
        by: *by,
        at: after(many),
    };
    rungs.iter().enumerate().map(rung).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::CancelCause;
    use std::time::Duration;

    fn rungs(grace: Duration) -> Vec<(StopBy, i64)> {
        let wish = StopWish {
            cause: CancelCause::Operator,
            grace,
        };
        let rungs = ladder(&wish, At::from_millis(1_000));
        rungs
            .iter()
            .map(|rung| (rung.by, rung.at.as_millis()))
            .collect()
    }

    #[test]
    fn every_rung_has_its_deadline_and_without_grace_there_is_only_the_last() {
        let all = [
            (StopBy::Interrupt, 1_000),
            (StopBy::Terminate, 6_000),
            (StopBy::Kill, 11_000),
        ];
        assert_eq!(rungs(Duration::from_secs(5)), all);
        assert_eq!(rungs(Duration::ZERO), [(StopBy::Kill, 1_000)]);
    }
}
