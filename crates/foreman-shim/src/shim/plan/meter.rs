//! Counts the output of all steps against its bound.

use crate::shim::feed::Feed;
use crate::shim::figures;
use crate::shim::stop::StopSwitch;
use foreman_domain::{BoundName, Breach, CancelCause, EventKind, StepKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A line counts as at least this much: an empty one takes room in the journal, too.
const LEAST: u64 = 32;
/// Finish and harvest may say this much whatever the agent said before.
const OWN: u64 = 256 << 10;
/// Grace of the stop when the bound is reached.
const GRACE: Duration = Duration::from_secs(2);

/// The output bound of one run.
#[derive(Debug)]
pub(in crate::shim) struct Meter {
    limit: Option<u64>,
    used: AtomicU64,
    used_by_us: AtomicU64,
    dropped: AtomicU64,
    warned: AtomicBool,
    reached: AtomicBool,
    stop: StopSwitch,
}

impl Meter {
    pub(in crate::shim) fn new(limit: Option<u64>, stop: StopSwitch) -> Self {
        Self {
            limit,
            used: AtomicU64::new(0),
            used_by_us: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            warned: AtomicBool::new(false),
            reached: AtomicBool::new(false),
            stop,
        }
    }

    /// Counts a piece of output; false when it is over the bound and must be dropped.
    pub(super) fn admit(&self, kind: StepKind, bytes: u64, feed: &Feed) -> bool {
        let bytes = bytes.max(LEAST);
        let admitted = match kind {
            StepKind::Finish | StepKind::Harvest => {
                self.used_by_us.fetch_add(bytes, Ordering::Relaxed) + bytes <= OWN
            }
            StepKind::Setup | StepKind::Agent | StepKind::Check => self.admit_bounded(bytes, feed),
        };
        if !admitted {
            self.dropped.fetch_add(bytes, Ordering::Relaxed);
        }
        admitted
    }

    fn admit_bounded(&self, bytes: u64, feed: &Feed) -> bool {
        let Some(limit) = self.limit else { return true };
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if used > limit {
            if !self.reached.swap(true, Ordering::Relaxed) {
                let words = figures::bytes(limit);
                let what = format!("output reached its bound of {words}");
                feed.tell(bound(used, &words, true));
                let breach = Some(Breach {
                    bound: BoundName::Output,
                    limit,
                    seen: used,
                });
                self.stop.ask(CancelCause::Bound { what, breach }, GRACE);
            }
            return false;
        }
        if used >= limit / 5 * 4 && !self.warned.swap(true, Ordering::Relaxed) {
            feed.tell(bound(used, &figures::bytes(limit), false));
        }
        true
    }

    /// Tells how much was dropped, at the end of a run.
    pub(super) fn tell_dropped(&self, feed: &Feed) {
        let dropped = self.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            let message = format!(
                "{} of output beyond the bound were not kept",
                figures::bytes(dropped)
            );
            feed.tell(EventKind::Warning { message });
        }
    }
}

fn bound(used: u64, limit: &str, reached: bool) -> EventKind {
    let figure = figures::bytes(used);
    EventKind::Bound {
        bound: "output".to_owned(),
        figure,
        limit: limit.to_owned(),
        reached,
    }
}
