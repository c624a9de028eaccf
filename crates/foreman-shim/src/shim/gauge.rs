//! What the run uses now: measured when an engine asks, beside the looks that its bounds need.
//!
//! Processor time, memory and processes come from one walk through the cage's own `/proc`. What the
//! worktree takes on the disk is found by a walk that nobody waits for: until there is a figure there is none.

use super::bounds::{Clock, Limits};
use super::disk::Disk;
use crate::protocol::Usage;
use foreman_cage::Cage;
use foreman_domain::BoundKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Measures a run; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Gauge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    began: Instant,
    /// The cage, while there is one to measure. Held while it is measured.
    cage: tokio::sync::Mutex<Option<Arc<Cage>>>,
    /// What its time is counted by, and against.
    time: Mutex<Option<(Clock, Limits)>>,
    disk: Disk,
}

impl Gauge {
    pub(super) fn new(disk: Disk) -> Self {
        Self(Arc::new(Inner {
            began: Instant::now(),
            cage: tokio::sync::Mutex::default(),
            time: Mutex::default(),
            disk,
        }))
    }

    /// From here on there is something to measure.
    pub(super) async fn open(&self, cage: &Arc<Cage>, clock: &Clock, limits: &Limits) {
        *self.0.cage.lock().await = Some(Arc::clone(cage));
        *lock(&self.0.time) = Some((clock.clone(), limits.clone()));
    }

    /// From here on there is not, and nobody holds the cage.
    pub(super) async fn close(&self) {
        *self.0.cage.lock().await = None;
        *lock(&self.0.time) = None;
    }

    /// What is walked through for it.
    pub(super) fn disk(&self) -> &Disk {
        &self.0.disk
    }

    /// What the run uses now. Nothing is known of one whose cage is not there.
    pub(super) async fn measure(&self) -> Usage {
        let mut usage = Usage {
            elapsed_ms: millis(self.0.began.elapsed()),
            ..Usage::default()
        };
        {
            let cage = self.0.cage.lock().await;
            let Some(cage) = cage.as_ref() else {
                return usage;
            };
            // A few files of `/proc` a process: as quick as one look of the watchdog.
            let processes = cage.processes();
            let held: u64 = processes.iter().map(|process| process.rss_bytes).sum();
            usage.memory_bytes = Some(held.saturating_add(cage.files_in_memory()));
            if let Some(spent) = cage.spent() {
                usage.cpu_ms = Some(spent.cpu_ms);
                usage.processes = Some(spent.threads);
            }
        }
        let time = lock(&self.0.time).clone();
        let bound = |bound| time.as_ref().and_then(|(_, limits)| limits.of(bound));
        let taken = self.0.disk.taken(bound(BoundKind::Disk), true);
        usage.disk_bytes = taken.and_then(|(_, taken)| taken.whole());
        usage.wall_left_ms = bound(BoundKind::Wall)
            .zip(time.as_ref())
            .map(|(limit, (clock, _))| limit.saturating_sub(millis(clock.elapsed())));
        usage
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_without_a_cage_has_no_figures() {
        let gauge = Gauge::new(Disk::new(std::path::Path::new("/nowhere")));
        let usage = gauge.measure().await;
        assert_eq!(usage.memory_bytes, None);
        assert_eq!(usage.wall_left_ms, None);
    }
}
