//! The run's state as its shim tells it: running a step, or stopping for good.

use crate::shim::feed::Feed;
use crate::shim::stop::StopWish;
use foreman_domain::{At, EventKind, RunState, StepName};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells states in a legal order, whoever tells them: nothing follows stopping. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::shim) struct Lifecycle {
    feed: Feed,
    is_stopping: Arc<Mutex<bool>>,
}

impl Lifecycle {
    pub(in crate::shim) fn new(feed: Feed) -> Self {
        Self {
            feed,
            is_stopping: Arc::default(),
        }
    }

    pub(in crate::shim) fn running(&self, step: &StepName) {
        let is_stopping = self
            .is_stopping
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !*is_stopping {
            let to = RunState::Running { step: step.clone() };
            self.feed.tell_of(EventKind::State { to }, Some(step), None);
        }
    }

    pub(in crate::shim) fn stopping(&self, wish: &StopWish, now: At) {
        let mut is_stopping = self
            .is_stopping
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_stopping, true) {
            let ladder = i64::try_from(wish.grace.as_millis()).unwrap_or(i64::MAX / 4) * 2;
            let deadline = At::from_millis(now.as_millis().saturating_add(ladder));
            let to = RunState::Stopping {
                cause: wish.cause.clone(),
                deadline,
            };
            self.feed.tell(EventKind::State { to });
        }
    }
}
