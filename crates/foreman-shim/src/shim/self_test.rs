//! Proves the walls again while a run goes on: all of them whenever the policy or what is shown in the cage
//! has changed, and once a minute those that could change around a running program. The probes run in the
//! cage, confined like its programs; nothing is taken from a flag.
//!
//! A wall that held when the run started and holds no more stops the run: it is paused at once, what it runs
//! is killed where it stands, and the run fails for that wall. Where the probes themselves cannot run (the
//! run is at its bound of processes, the machine is overloaded) the walls are not disproven; that is told,
//! and stops the run when it goes on.

use super::arbiter::Arbiter;
use super::feed::Feed;
use super::plan::Plan;
use super::stop::StopSwitch;
use foreman_cage::{Depth, ProbeResult};
use foreman_domain::{CancelCause, EventKind, Wall};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::sleep;

/// Between two looks at a run in which nothing changes.
const EVERY: Duration = Duration::from_secs(60);
/// Before another try when the probes did not run.
const AGAIN: Duration = Duration::from_secs(5);
/// So many tries one after the other may fail to run.
const MOST_UNPROVEN: u32 = 12;

/// What a run's walls were proven to be, and whether one has fallen since.
#[derive(Debug)]
pub(super) struct SelfTest {
    /// Walls that held when the run started.
    held: Vec<Wall>,
    fallen: OnceLock<String>,
}

impl SelfTest {
    pub(super) fn new(held: Vec<Wall>) -> Self {
        Self {
            held,
            fallen: OnceLock::new(),
        }
    }

    /// Which wall fell, as a sentence.
    pub(super) fn fallen(self) -> Option<String> {
        self.fallen.into_inner()
    }

    /// Proves the walls again and again, until it is dropped.
    pub(super) async fn go_on(&self, plan: &Plan, arbiter: &Arbiter) {
        let (mut unproven, mut depth) = (0, Depth::Quick);
        let mut pause = EVERY;
        loop {
            tokio::select! {
                () = arbiter.walls_may_have_moved() => depth = Depth::Full,
                () = sleep(pause) => {}
            }
            // In a paused cage nothing runs, neither what could do harm nor a probe.
            plan.keeper.brake.is_free().await;
            match plan.cage.probe_again(depth).await {
                Ok(results) => {
                    (unproven, depth, pause) = (0, Depth::Quick, EVERY);
                    if let Some(fallen) = self.first_fallen(&results) {
                        self.stop(plan, fallen).await;
                    }
                }
                Err(_) if plan.keeper.brake.is_pulled() => {}
                Err(error) => {
                    unproven += 1;
                    pause = AGAIN;
                    if unproven == 1 {
                        tell_unproven(&plan.feed, &error.to_string());
                    }
                    if unproven >= MOST_UNPROVEN {
                        give_up(&plan.stop, &error.to_string());
                    }
                }
            }
        }
    }

    /// The first wall that held before and was seen not to hold.
    fn first_fallen<'a>(&self, results: &'a [ProbeResult]) -> Option<&'a ProbeResult> {
        let mut fallen = results
            .iter()
            .filter(|result| !result.holds && self.held.contains(&result.wall));
        fallen.next()
    }

    /// Pauses, tells, kills.
    async fn stop(&self, plan: &Plan, fallen: &ProbeResult) {
        let what = format!(
            "the wall \"{}\" fell while the run went on: {}",
            fallen.wall.name(),
            fallen.detail
        );
        let (cage, keeper) = (&plan.cage, &plan.keeper);
        let paused = keeper.pause(cage, &what).await;
        plan.feed.tell(EventKind::Probe {
            wall: fallen.wall,
            holds: false,
            detail: fallen.detail.clone(),
        });
        plan.feed.tell(EventKind::Warning {
            message: format!("The run is stopped: {what}"),
        });
        // Before anything else can end the run with another reason.
        let _ = self.fallen.set(what.clone());
        let cause = CancelCause::Bound { what, breach: None };
        plan.stop.ask(cause, Duration::ZERO);
        cage.kill_where_they_stand();
        if let Some(paused) = paused
            && let Err(error) = keeper.go_on(cage, paused).await
        {
            tracing::warn!(%error, "a run whose wall fell could not be let go again");
        }
        std::future::pending::<()>().await;
    }
}

fn tell_unproven(feed: &Feed, why: &str) {
    feed.tell(EventKind::Warning {
        message: foreman_domain::without_error_numbers(&format!(
            "The walls could not be proven again ({why}); it is tried once more"
        )),
    });
}

fn give_up(stop: &StopSwitch, why: &str) {
    let what = format!("the run's walls could not be proven any more: {why}");
    stop.ask(CancelCause::Bound { what, breach: None }, AGAIN);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(wall: Wall, holds: bool) -> ProbeResult {
        ProbeResult {
            wall,
            holds,
            detail: "seen".into(),
        }
    }

    #[test]
    fn only_a_wall_that_held_before_can_fall() {
        let test = SelfTest::new(vec![Wall::Mounts, Wall::Landlock]);
        let fine = [result(Wall::Mounts, true), result(Wall::Dns, false)];
        assert!(test.first_fallen(&fine).is_none(), "dns never held");
        for wall in [Wall::Mounts, Wall::Landlock] {
            let one = [result(Wall::Git, true), result(wall, false)];
            assert_eq!(test.first_fallen(&one).map(|found| found.wall), Some(wall));
        }
    }
}
