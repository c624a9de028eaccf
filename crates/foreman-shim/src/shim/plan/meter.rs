//! Counts the output of all steps against its bound.

use crate::shim::bounds::Limits;
use crate::shim::feed::Feed;
use crate::shim::figures;
use crate::shim::stop::StopSwitch;
use foreman_domain::{BoundKind, Breach, CancelCause, EventKind, StepKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// A line counts as at least this much: an empty one takes room in the journal, too.
const LEAST: u64 = 32;
/// Finish and harvest may say this much whatever the agent said before.
const OWN: u64 = 256 << 10;
/// Grace of the stop when the bound is reached.
const GRACE: Duration = Duration::from_secs(2);

/// The output bound of one run.
#[derive(Debug)]
pub(in crate::shim) struct Meter {
    limits: Limits,
    used: AtomicU64,
    used_by_us: AtomicU64,
    dropped: AtomicU64,
    warned: AtomicBool,
    reached: AtomicBool,
    stop: StopSwitch,
    /// Where somebody attends: told when the bound is reached. The steps then wait with what they say.
    said_too_much: Option<Arc<Notify>>,
    /// Becomes true when the run's work is being saved: nobody waits any more then.
    collects: watch::Receiver<bool>,
    /// Pieces of output that wait at the bound.
    waiting: watch::Sender<u32>,
}

impl Meter {
    pub(in crate::shim) fn new(
        limits: Limits,
        stop: StopSwitch,
        said_too_much: Option<Arc<Notify>>,
        collects: watch::Receiver<bool>,
    ) -> Self {
        Self {
            limits,
            used: AtomicU64::new(0),
            used_by_us: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            warned: AtomicBool::new(false),
            reached: AtomicBool::new(false),
            stop,
            said_too_much,
            collects,
            waiting: watch::Sender::new(0),
        }
    }

    /// Whether output waits at the bound: it is still to be told then, although nothing is read.
    pub(super) fn is_waiting(&self) -> bool {
        *self.waiting.borrow() > 0
    }

    /// Waits until none does.
    pub(super) async fn nobody_waits(&self) {
        let mut waiting = self.waiting.subscribe();
        if waiting.wait_for(|waiting| *waiting == 0).await.is_err() {
            // The sender lives in `self`, so this cannot be.
            std::future::pending::<()>().await;
        }
    }

    /// What the steps have said so far.
    pub(in crate::shim) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Counts a piece of output; false when it is over the bound and must be dropped. Over the bound of a
    /// run that is attended it waits until that is raised, or the run ends.
    pub(super) async fn admit(&self, kind: StepKind, bytes: u64, feed: &Feed) -> bool {
        let bytes = bytes.max(LEAST);
        let admitted = match kind {
            StepKind::Finish | StepKind::Harvest => {
                self.used_by_us.fetch_add(bytes, Ordering::Relaxed) + bytes <= OWN
            }
            StepKind::Setup | StepKind::Agent | StepKind::Check => {
                self.admit_bounded(bytes, feed).await
            }
        };
        if !admitted {
            self.dropped.fetch_add(bytes, Ordering::Relaxed);
        }
        admitted
    }

    async fn admit_bounded(&self, bytes: u64, feed: &Feed) -> bool {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (mut news, mut collects) = (self.limits.news(), self.collects.clone());
        loop {
            news.mark_unchanged();
            let Some(limit) = self.limits.of(BoundKind::Output) else {
                return true;
            };
            if used <= limit {
                if used >= limit / 5 * 4 && !self.warned.swap(true, Ordering::Relaxed) {
                    feed.tell(bound(used, &figures::bytes(limit), false));
                }
                return true;
            }
            let is_over = *collects.borrow() || collects.has_changed().is_err();
            let is_ending = self.stop.wish().is_some() || is_over;
            let Some(watcher) = self.said_too_much.as_ref().filter(|_| !is_ending) else {
                self.stop_at(used, limit, feed);
                return false;
            };
            watcher.notify_one();
            let _counted = Counted::new(&self.waiting);
            tokio::select! {
                _ = news.changed() => {}
                _ = self.stop.asked() => {}
                _ = collects.wait_for(|collects| *collects) => {}
            }
        }
    }

    fn stop_at(&self, used: u64, limit: u64, feed: &Feed) {
        if self.reached.swap(true, Ordering::Relaxed) || self.stop.wish().is_some() {
            return;
        }
        let words = figures::bytes(limit);
        let what = format!("output reached its bound of {words}");
        feed.tell(bound(used, &words, true));
        let breach = Some(Breach {
            bound: BoundKind::Output,
            limit,
            seen: used,
        });
        self.stop.ask(CancelCause::Bound { what, breach }, GRACE);
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

/// Counts a piece that waits, for as long as it does.
struct Counted<'a>(&'a watch::Sender<u32>);

impl<'a> Counted<'a> {
    fn new(waiting: &'a watch::Sender<u32>) -> Self {
        waiting.send_modify(|waiting| *waiting += 1);
        Self(waiting)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
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

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::RunId;
    use foreman_policy::Bounds;

    fn limits(bytes: u64) -> Limits {
        Limits::new(Bounds {
            output_bytes: Some(bytes),
            ..Bounds::default()
        })
    }

    #[tokio::test]
    async fn over_the_bound_output_waits_until_it_is_raised_or_the_run_ends() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::from_random(1);
        let (feed, thread) = Feed::open(&dir.path().join("journal"), &run).unwrap();
        let (limits, stop, told) = (limits(100), StopSwitch::new(), Arc::new(Notify::new()));
        let collects = watch::Sender::new(false);
        let meter = Meter::new(
            limits.clone(),
            stop.clone(),
            Some(Arc::clone(&told)),
            collects.subscribe(),
        );
        assert!(meter.admit(StepKind::Agent, 90, &feed).await);
        let raise = async {
            told.notified().await;
            assert!(stop.wish().is_none());
            limits.set(BoundKind::Output, 1_000);
        };
        let (admitted, ()) = tokio::join!(meter.admit(StepKind::Agent, 90, &feed), raise);
        assert!(admitted);
        // What saves the work waits for nobody.
        assert!(meter.admit(StepKind::Finish, 2_000, &feed).await);
        let end = async {
            told.notified().await;
            collects.send_replace(true);
        };
        let (admitted, ()) = tokio::join!(meter.admit(StepKind::Agent, 2_000, &feed), end);
        assert!(!admitted);
        thread.close();
    }

    #[tokio::test]
    async fn where_nobody_attends_the_run_is_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::from_random(1);
        let (feed, thread) = Feed::open(&dir.path().join("journal"), &run).unwrap();
        let stop = StopSwitch::new();
        let collects = watch::Sender::new(false);
        let meter = Meter::new(limits(100), stop.clone(), None, collects.subscribe());
        assert!(!meter.admit(StepKind::Agent, 101, &feed).await);
        let Some(CancelCause::Bound { breach, .. }) = stop.wish().map(|wish| wish.cause) else {
            panic!("it was not stopped")
        };
        let breach = breach.unwrap();
        assert_eq!((breach.bound, breach.limit), (BoundKind::Output, 100));
        thread.close();
    }
}
