//! Watches wall time and memory, and stops the run when one is used up.
//!
//! Memory is looked at once a second while less than half of the bound is used, and four times a second
//! from there on. Both are the longest pause in which a program that takes memory as fast as the kernel
//! gives it stays near its bound; an idle run pays for one short look a second and nothing else.

use super::Plan;
use super::ticks::Ticks;
use crate::shim::figures;
use foreman_domain::{CancelCause, EventKind};
use foreman_policy::Bounds;
use std::convert::Infallible;
use std::io;
use std::time::Duration;
use tokio::time::sleep;

/// Grace of the stop when the time is up.
const GRACE: Duration = Duration::from_secs(5);
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
                plan.stop.ask(CancelCause::Bound { what }, GRACE);
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
    plan.stop.ask(CancelCause::Bound { what }, GRACE);
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
    let looks = Ticks::every(pause)?;
    loop {
        looks.tick().await?;
        let used: u64 = plan
            .cage
            .processes()
            .iter()
            .map(|process| process.rss_bytes)
            .sum();
        let wanted = pause_at(used, limit);
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
            plan.stop.ask(CancelCause::Bound { what }, Duration::ZERO);
            if !std::mem::replace(&mut reached, true) {
                tell(used, true);
            }
            plan.cage.kill_all().await;
        } else if used >= limit / 5 * 4 && !std::mem::replace(&mut warned, true) {
            tell(used, false);
        }
    }
}

fn pause_at(used: u64, limit: u64) -> Duration {
    if used < limit / 2 {
        LOOK_EVERY
    } else {
        LOOK_CLOSELY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_looked_at_closely_from_half_of_the_bound_on() {
        assert_eq!(pause_at(0, 100), LOOK_EVERY);
        assert_eq!(pause_at(49, 100), LOOK_EVERY);
        for used in [50, 100, 1_000] {
            assert_eq!(pause_at(used, 100), LOOK_CLOSELY);
        }
        assert_eq!(pause_at(0, 0), LOOK_CLOSELY);
    }
}
