//! The first round of checks: between the end of a run's agent and the end of the run. Questions that
//! come up in it are held like the agent's, where somebody attends.

use crate::details::RunDetails;
use crate::ending::{decide, read_exit};
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use crate::gate::rounds::Attended;
use crate::live::LiveRun;
use foreman_domain::{Code, Failure, Outcome};
use std::sync::Arc;
use std::time::Duration;

const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Checks what a run left, when its shim has come to an end. Whatever goes wrong here leaves the
    /// checks without a result, which is never taken for a pass.
    pub async fn first_checks(self: &Arc<Self>, live: &LiveRun) {
        loop {
            match self.check_what_was_left(live).await {
                Ok(()) => return,
                // Neither says anything about the run.
                Err(error) if matches!(error.code, Code::Busy | Code::DiskFull) => {
                    tracing::warn!(run = %live.run, %error, "the checks wait");
                    live.set_trouble((error.code == Code::DiskFull).then_some(error));
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => {
                    tracing::warn!(run = %live.run, %error, "the checks were not run");
                    return;
                }
            }
        }
    }

    async fn check_what_was_left(self: &Arc<Self>, live: &LiveRun) -> Result<(), Failure> {
        let stored = self.store.run(&live.run).await.or_fail()?;
        let details = RunDetails::of(&stored)?;
        if !stored.state.is_live() || details.checks.is_empty() {
            return Ok(());
        }
        let Some(head) = self.tip_to_check(&details, live).await? else {
            return Ok(());
        };
        let done = self.store.newest_round(&live.run).await.or_fail()?;
        if done.is_some_and(|round| round.head == head && round.ended_at.is_some()) {
            return Ok(());
        }
        self.carry_round(&live.run, &head, Attended::AsOrdered)
            .await
            .map(drop)
    }

    /// What the run ended with, in the repository; none when it has nothing to check.
    async fn tip_to_check(
        &self,
        details: &RunDetails,
        live: &LiveRun,
    ) -> Result<Option<String>, Failure> {
        let Ok(Some(exit)) = read_exit(&details.files.exit, &live.run)? else {
            return Ok(None);
        };
        if exit.verdict.is_some() {
            return Ok(None);
        }
        let _turn = self.turn(&live.run).await;
        let owned = details.clone();
        let harvesting = tokio::task::spawn_blocking(move || {
            owned
                .repository()?
                .harvest(&owned.worktree, &owned.files.bundle)
                .map_err(Failure::from)
        });
        let harvest = harvesting.await.map_err(join)?;
        if let Err(failure) = &harvest
            && matches!(failure.code, Code::Busy | Code::DiskFull)
        {
            return Err(failure.clone());
        }
        let base = &details.worktree.base_commit;
        Ok(match decide(&exit, harvest, base) {
            Outcome::Changes { head, .. } => Some(head),
            // Nothing was changed: whether that is well, a check can say.
            Outcome::NoChanges => Some(base.clone()),
            Outcome::Failed { .. } | Outcome::Cancelled { .. } | Outcome::Interrupted { .. } => {
                None
            }
        })
    }
}
