//! Watches wall time and memory, and stops the run when one is used up. Memory is that of the processes and
//! of the files that are in memory.
//!
//! A look at memory costs a wake-up and a walk through the cage's processes. Most runs wait for their
//! agent most of the time, so a calm cage is looked at every two seconds: one that uses less than a
//! quarter of its bound, with as many processes as before. From there to half of the bound is a second
//! or more for a program that takes memory as fast as kernels give it. Otherwise it is looked at every
//! second, and four times a second from half of the bound on, where the next step may be the last.

use super::Plan;
use super::ticks::Ticks;
use crate::shim::figures;
use foreman_domain::{BoundName, Breach, CancelCause, EventKind};
use foreman_policy::Bounds;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::sleep;

/// Grace of the stop when the time is up.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_CALMLY: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_CLOSELY: Duration = Duration::from_millis(250);

/// Watches until it is dropped. Without bounds it sleeps for ever.
pub(in crate::shim) async fn watch_bounds(plan: &Plan, bounds: &Bounds) {
    let wall = async {
        match bounds.wall_seconds {
            Some(seconds) => watch_wall(plan, Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    let memory = async {
        match bounds.memory_bytes {
            Some(limit) => {
                let Err(error) = watch_memory(plan, limit).await;
                // A bound that nobody watches is none.
                let what = format!("memory could not be watched: {error}");
                let cause = CancelCause::Bound { what, breach: None };
                plan.stop.ask(cause, GRACE);
            }
            None => std::future::pending().await,
        }
    };
    tokio::join!(wall, memory);
}

async fn watch_wall(plan: &Plan, limit: Duration) {
    let words = figures::duration(limit);
    let tell = |figure: Duration, reached| {
        let (bound, figure) = ("wall".to_owned(), figures::duration(figure));
        plan.feed.tell(EventKind::Bound {
            bound,
            figure,
            limit: words.clone(),
            reached,
        });
    };
    let warn_at = limit.mul_f64(0.8);
    sleep(warn_at).await;
    tell(warn_at, false);
    sleep(limit.saturating_sub(warn_at)).await;
    tell(limit, true);
    let what = format!("wall time reached its bound of {words}");
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let breach = Some(Breach {
        bound: BoundName::Wall,
        limit: millis,
        seen: millis,
    });
    plan.stop.ask(CancelCause::Bound { what, breach }, GRACE);
}

async fn watch_memory(plan: &Plan, limit: u64) -> io::Result<Infallible> {
    let words = figures::bytes(limit);
    let tell = |used, reached| {
        let (bound, figure) = ("memory".to_owned(), figures::bytes(used));
        plan.feed.tell(EventKind::Bound {
            bound,
            figure,
            limit: words.clone(),
            reached,
        });
    };
    let (mut warned, mut reached) = (false, false);
    let mut pause = LOOK_EVERY;
    let mut count = 0;
    let looks = Ticks::every(pause)?;
    loop {
        looks.tick().await?;
        let processes = plan.cage.processes();
        let held: u64 = processes.iter().map(|process| process.rss_bytes).sum();
        // What the run left in files must not end the steps that collect its work, nor end it twice.
        let in_files = match reached || plan.collecting.load(Ordering::Relaxed) {
            true => 0,
            false => plan.cage.files_in_memory(),
        };
        let used = held.saturating_add(in_files);
        let before = std::mem::replace(&mut count, processes.len());
        let wanted = pause_at(used, limit, before == count);
        if wanted != pause {
            pause = wanted;
            looks.set_period(pause)?;
        }
        if used >= limit {
            let what = format!(
                "memory reached its bound: {} of {words}",
                figures::bytes(used)
            );
            // The wish comes first, so that the step's end is known to be ours.
            let breach = Some(Breach {
                bound: BoundName::Memory,
                limit,
                seen: used,
            });
            let cause = CancelCause::Bound { what, breach };
            plan.stop.ask(cause, Duration::ZERO);
            if !std::mem::replace(&mut reached, true) {
                tell(used, true);
            }
            let killed = plan.cage.kill_all().await;
            plan.killed_by_bound.fetch_add(killed, Ordering::Relaxed);
        } else if used >= limit / 5 * 4 && !std::mem::replace(&mut warned, true) {
            tell(used, false);
        }
    }
}

fn pause_at(used: u64, limit: u64, is_unchanged: bool) -> Duration {
    if used >= limit / 2 {
        LOOK_CLOSELY
    } else if used >= limit / 4 || !is_unchanged {
        LOOK_EVERY
    } else {
        LOOK_CALMLY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calm_cage_is_looked_at_seldom_and_a_full_one_often() {
        assert_eq!(pause_at(24, 100, true), LOOK_CALMLY);
        assert_eq!(pause_at(24, 100, false), LOOK_EVERY);
        assert_eq!(pause_at(25, 100, true), LOOK_EVERY);
        assert_eq!(pause_at(49, 100, true), LOOK_EVERY);
        for used in [50, 100, 1_000] {
            assert_eq!(pause_at(used, 100, true), LOOK_CLOSELY);
        }
        assert_eq!(pause_at(0, 0, true), LOOK_CLOSELY);
    }
}
