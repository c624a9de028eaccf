//! Removals that outlive a failure: asked for, on record, tried until nothing is left.
//!
//! What stands in the way of a removal (a file that cannot be deleted, a full disk) may go away, so the
//! wish is kept and tried again, ever less often. What says that it must not be removed ends the wish:
//! then the operator decides anew. A run is said to be removed only when nothing of it is there.

use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{At, Code, Failure, RunId};
use foreman_store::PendingRemoval;
use std::time::Duration;

/// Wait after the first try that did not finish; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(3);
const LONGEST_WAIT: Duration = Duration::from_secs(10 * 60);

impl Engine {
    /// Records the wish, before anything is touched.
    pub(crate) async fn removal_begins(&self, run: &RunId) -> Result<(), Failure> {
        let asked = self.store.ask_removal(self.epoch, run, At::now());
        asked.await.or_fail()
    }

    /// Nothing is left, or nothing is to go any more. The row goes last.
    pub(crate) async fn removal_ended(&self, run: &RunId) -> Result<(), Failure> {
        self.store.forget_removal(self.epoch, run).await.or_fail()
    }

    /// Says what a removal that did not finish means.
    pub(crate) async fn removal_failed(&self, run: &RunId, failure: Failure) -> Failure {
        let may_pass = matches!(failure.code, Code::Environment | Code::DiskFull);
        let noted = match may_pass {
            true => {
                let noted = self
                    .store
                    .removal_failed(self.epoch, run, At::now(), &failure.message);
                noted.await.or_fail()
            }
            false => self.removal_ended(run).await,
        };
        if let Err(error) = noted {
            tracing::warn!(%run, %error, "a removal that did not finish could not be noted");
        }
        match may_pass {
            true => failure.hint(format!(
                "It is not removed yet, and is tried again by itself; `foreman disk` shows it, and \
                 `foreman restore {run}` takes it back."
            )),
            false => failure,
        }
    }

    /// Whether a removal of this run was asked for and is not done.
    pub(crate) async fn is_being_removed(&self, run: &RunId) -> Result<bool, Failure> {
        let pending = self.store.pending_removals().await.or_fail()?;
        Ok(pending.iter().any(|removal| removal.run == *run))
    }

    /// Tries what is due once more. One that fails again keeps no other from it.
    pub(crate) async fn retry_removals(&self) -> Result<(), Failure> {
        for removal in self.store.pending_removals().await.or_fail()? {
            if !is_due(&removal, At::now()) {
                continue;
            }
            let Some(_turn) = self.try_turn(&removal.run) else {
                continue;
            };
            if let Err(failure) = self.take_down(&removal.run).await {
                tracing::info!(run = %removal.run, %failure, "a removal is still not done");
            }
        }
        Ok(())
    }
}

fn is_due(removal: &PendingRemoval, now: At) -> bool {
    let Some(tried_at) = removal.tried_at else {
        // Cut short: its engine went away.
        return true;
    };
    let doubled = FIRST_WAIT.saturating_mul(1 << removal.tries.saturating_sub(1).min(16));
    let wait = doubled.min(LONGEST_WAIT).as_millis();
    let waited = now.as_millis().saturating_sub(tried_at.as_millis());
    // A clock that was set back does not put it off.
    waited < 0 || u128::try_from(waited).is_ok_and(|waited| waited >= wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_ever_less_often_but_always_again() {
        let mut removal = PendingRemoval {
            run: RunId::from_random(1),
            asked_at: At::from_millis(0),
            tries: 0,
            tried_at: None,
            error: None,
        };
        assert!(is_due(&removal, At::from_millis(0)));
        removal.tried_at = Some(At::from_millis(1_000_000));
        for (tries, wait) in [(1, 3_000), (2, 6_000), (4, 24_000), (40, 600_000)] {
            removal.tries = tries;
            assert!(!is_due(&removal, At::from_millis(1_000_000 + wait - 1)));
            assert!(is_due(&removal, At::from_millis(1_000_000 + wait)));
        }
        assert!(
            is_due(&removal, At::from_millis(5)),
            "the clock was set back"
        );
    }
}
