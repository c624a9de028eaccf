//! The wish to stop a run: asked by the engine, a signal or a bound, heard by the plan.

use foreman_domain::CancelCause;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How a run is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StopWish {
    /// Who or what asked first.
    pub(super) cause: CancelCause,
    /// Wait between interrupt, terminate and kill. Zero kills at once.
    pub(super) grace: Duration,
}

/// Holds at most one wish. The first cause stays; a later wish may only shorten the grace.
#[derive(Debug, Clone)]
pub(super) struct StopSwitch(Arc<watch::Sender<Option<StopWish>>>);

impl StopSwitch {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    pub(super) fn ask(&self, cause: CancelCause, grace: Duration) {
        self.0.send_if_modified(|wish| match wish {
            None => {
                *wish = Some(StopWish { cause, grace });
                true
            }
            Some(wish) if grace < wish.grace => {
                wish.grace = grace;
                true
            }
            Some(_) => false,
        });
    }

    pub(super) fn wish(&self) -> Option<StopWish> {
        self.0.borrow().clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Option<StopWish>> {
        self.0.subscribe()
    }

    /// Waits until somebody asked.
    pub(super) async fn asked(&self) -> StopWish {
        let mut watch = self.watch();
        match watch
            .wait_for(Option::is_some)
            .await
            .map(|wish| wish.clone())
        {
            Ok(Some(wish)) => wish,
            // The sender lives in `self`, so this cannot be.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stays_and_only_a_shorter_grace_counts() {
        let switch = StopSwitch::new();
        let bound = CancelCause::Bound {
            what: "wall".into(),
            breach: None,
        };
        switch.ask(CancelCause::Operator, Duration::from_secs(5));
        switch.ask(bound.clone(), Duration::from_secs(9));
        let wish = StopWish {
            cause: CancelCause::Operator,
            grace: Duration::from_secs(5),
        };
        assert_eq!(switch.wish(), Some(wish));
        switch.ask(bound, Duration::ZERO);
        let wish = StopWish {
            cause: CancelCause::Operator,
            grace: Duration::ZERO,
        };
        assert_eq!(switch.wish(), Some(wish));
    }
}
