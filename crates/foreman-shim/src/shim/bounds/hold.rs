//! A run at its bound: paused, asked about, and let go on, or ended.

use super::limits::{name, words};
use super::watch::{LOOK_CLOSELY, Watch, grace_of};
use super::{Brake, brake};
use crate::shim::arbiter::AtBound;
use foreman_domain::{BoundKind, Breach, CancelCause, EventKind};
use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Longest wait for the figure of a paused run's disk.
const LAST_WALK: Duration = Duration::from_secs(40);

/// What became of a run that waits at its bound.
enum End {
    Raised(u64),
    /// Nobody let it go on, for this reason.
    Ended(String),
    /// It is being stopped, or does something else by now.
    Overtaken,
}

impl Watch<'_> {
    /// Pauses the run and asks; returns when it goes on, or is being stopped.
    pub(super) async fn hold(&mut self, mut breach: Breach, mut what: String) -> io::Result<()> {
        let (cage, group) = (&self.plan.cage, self.keeper.tier.group());
        let pulled = self.keeper.brake.pull(cage, group, Some(&what)).await;
        let mut held = match pulled {
            Ok(held) => held,
            Err(error) => {
                let what = format!("{what}; it could not be paused ({error})");
                self.plan.stop.ask(cause(what, breach), Duration::ZERO);
                self.kill().await;
                return Ok(());
            }
        };
        self.keeper.clock.stand_still();
        self.plan.feed.tell(EventKind::Progress {
            stage: "bound".to_owned(),
            message: format!("paused: {what}"),
        });
        let end = loop {
            self.see_again(&mut breach).await;
            match self.until_answered(breach, &what, &mut held).await {
                End::Raised(limit) => {
                    if let Err(error) = self.keeper.set(breach.bound, limit) {
                        break End::Ended(format!("{what}; it could not be raised ({error})"));
                    }
                    if breach.seen < limit {
                        break End::Raised(limit);
                    }
                    breach.limit = limit;
                    what = format!(
                        "{} of {} are used already, so a bound of {} does not let the run go on",
                        words(breach.bound, breach.seen),
                        name(breach.bound),
                        words(breach.bound, limit)
                    );
                }
                other => break other,
            }
        };
        self.warnings.forget(breach.bound);
        self.rationed_at = Instant::now();
        let message = match &end {
            End::Raised(limit) => {
                format!(
                    "{} raised to {}: the run goes on",
                    name(breach.bound),
                    words(breach.bound, *limit)
                )
            }
            End::Ended(why) => format!("the run is stopped: {why}"),
            End::Overtaken => "no longer paused".to_owned(),
        };
        self.plan.feed.tell(EventKind::Progress {
            stage: "bound".to_owned(),
            message,
        });
        if let End::Ended(why) = end {
            let grace = grace_of(breach.bound);
            self.plan.stop.ask(cause(why, breach), grace);
            self.is_over |= breach.bound == BoundKind::Memory;
            // A frozen group is let go first: process 1, which kills the others, is in it.
            if grace.is_zero() && group.is_none() {
                self.kill().await;
            }
        }
        self.keeper.clock.go_on();
        let released = self.keeper.brake.release(cage, group, held).await;
        if self
            .plan
            .stop
            .wish()
            .is_some_and(|wish| wish.grace.is_zero())
        {
            self.kill().await;
        }
        released
    }

    /// What the paused run uses, where that takes a while to find out: by how much it went over its bound.
    async fn see_again(&mut self, breach: &mut Breach) {
        let seen = match breach.bound {
            BoundKind::Memory => match self.keeper.tier.group() {
                Some(group) => group.memory().ok(),
                None => Some(self.memory_of_processes()),
            },
            BoundKind::Disk => {
                let before = self.walk;
                self.keeper.disk.hurry();
                let begun = Instant::now();
                loop {
                    match self.see(Some(breach.limit)) {
                        Ok(seen) if self.walk != before => break seen.disk,
                        Ok(_) if begun.elapsed() < LAST_WALK => {}
                        Ok(_) | Err(_) => break None,
                    }
                    tokio::select! {
                        () = sleep(Duration::from_millis(20)) => {}
                        _ = self.plan.stop.asked() => break None,
                    }
                }
            }
            BoundKind::Wall
            | BoundKind::Output
            | BoundKind::Cpu
            | BoundKind::Processes
            | BoundKind::OpenFiles => None,
            BoundKind::Tokens | BoundKind::Cost | BoundKind::Turns => {
                self.plan.tally.of(breach.bound)
            }
        };
        breach.seen = breach.seen.max(seen.unwrap_or(0));
    }

    /// Waits for an answer, and that the run stays paused meanwhile.
    async fn until_answered(&self, breach: Breach, what: &str, held: &mut brake::Held) -> End {
        let (cage, group) = (&self.plan.cage, self.keeper.tier.group());
        let mut asked = match self.keeper.arbiter.hold_at_bound(breach, what) {
            Ok(asked) => asked,
            Err(why) => return End::Ended(format!("{what}; {why}")),
        };
        let mut broke_loose = 0;
        loop {
            tokio::select! {
                biased;
                answer = asked.answer() => return match answer {
                    AtBound::Raised(limit) => End::Raised(limit),
                    AtBound::Denied => End::Ended(format!("{what}; it was not raised")),
                    AtBound::NotAnswered => {
                        End::Ended(format!("{what}; nobody answered within this run's limit"))
                    }
                },
                _ = self.plan.stop.asked() => return End::Overtaken,
                () = self.plan.collecting() => return End::Overtaken,
                () = sleep(LOOK_CLOSELY) => {
                    if Brake::holds(cage, group, held) {
                        continue;
                    }
                    broke_loose += 1;
                    // Somebody outside may have woken it once; whoever does so again does it himself.
                    let is_paused = broke_loose == 1
                        && Brake::pull_again(cage, group, held).await.is_ok();
                    if !is_paused {
                        return End::Ended(format!("{what}; it did not stay paused"));
                    }
                }
            }
        }
    }
}

fn cause(what: String, breach: Breach) -> CancelCause {
    CancelCause::Bound {
        what,
        breach: Some(breach),
    }
}
