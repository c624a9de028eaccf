//! Watches wall time and memory, and stops the run when one is used up.

use super::Plan;
use crate::shim::figures;
use foreman_domain::{CancelCause, EventKind};
use foreman_policy::Bounds;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Grace of the stop when the time is up.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_secs(1);

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
            Some(limit) => watch_memory(plan, limit).await,
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

async fn watch_memory(plan: &Plan, limit: u64) {
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
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let used: u64 = plan
            .cage
            .processes()
            .iter()
            .map(|process| process.rss_bytes)
            .sum();
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
