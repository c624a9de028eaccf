//! The bounds as they are now, and what is near them.

use crate::shim::figures;
use foreman_domain::BoundKind;
use foreman_policy::{Bounds, figure_in_words};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The figure of a bound, or one that is compared with it, in words.
pub(in crate::shim) fn words(bound: BoundKind, figure: u64) -> String {
    match bound {
        BoundKind::Wall => figures::duration(Duration::from_millis(figure)),
        BoundKind::Processes | BoundKind::OpenFiles | BoundKind::Turns => figure.to_string(),
        _ => figure_in_words(bound, figure),
    }
}

/// As events name it.
pub(super) fn name(bound: BoundKind) -> &'static str {
    match bound {
        BoundKind::Wall => "wall",
        BoundKind::Memory => "memory",
        BoundKind::Output => "output",
        BoundKind::Disk => "disk",
        BoundKind::Cpu => "cpu",
        BoundKind::Processes => "processes",
        BoundKind::OpenFiles => "open_files",
        BoundKind::Tokens => "tokens",
        BoundKind::Cost => "cost",
        BoundKind::Turns => "turns",
    }
}

/// The bounds of one run as they are now; cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::shim) struct Limits(Arc<watch::Sender<Bounds>>);

impl Limits {
    pub(in crate::shim) fn new(bounds: Bounds) -> Self {
        Self(Arc::new(watch::Sender::new(bounds)))
    }

    /// The bound in its own unit: milliseconds, bytes, thousandths of a processor, or how many.
    pub(in crate::shim) fn of(&self, bound: BoundKind) -> Option<u64> {
        self.0.borrow().of(bound)
    }

    pub(in crate::shim) fn set(&self, bound: BoundKind, limit: u64) {
        self.0.send_modify(|bounds| bounds.set(bound, limit));
    }

    /// Changes whenever one of them does.
    pub(in crate::shim) fn news(&self) -> watch::Receiver<Bounds> {
        self.0.subscribe()
    }
}

/// What a figure means for its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Fine,
    /// For the first time since it was well below.
    Near,
    Reached,
}

/// Remembers which bounds were told to be near.
#[derive(Debug, Default)]
pub(super) struct Warnings(Vec<BoundKind>);

impl Warnings {
    pub(super) fn read(&mut self, bound: BoundKind, figure: u64, limit: u64) -> Reading {
        if figure >= limit {
            return Reading::Reached;
        }
        // What goes up and down around the mark is told once.
        if figure < part_of(limit, 70) {
            self.forget(bound);
            return Reading::Fine;
        }
        if figure < part_of(limit, 80) || self.0.contains(&bound) {
            return Reading::Fine;
        }
        self.0.push(bound);
        Reading::Near
    }

    /// The bound was raised: what is near is another figure now.
    pub(super) fn forget(&mut self, bound: BoundKind) {
        self.0.retain(|known| *known != bound);
    }
}

fn part_of(limit: u64, percent: u64) -> u64 {
    // Without a product that could be too large.
    limit / 100 * percent + limit % 100 * percent / 100
}

/// Counts the time of a run, which stands still while the run is paused; cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::shim) struct Clock(Arc<Mutex<Hand>>);

#[derive(Debug)]
struct Hand {
    counted: Duration,
    since: Option<Instant>,
}

impl Clock {
    /// A clock that runs from now on.
    pub(in crate::shim) fn start() -> Self {
        Self(Arc::new(Mutex::new(Hand {
            counted: Duration::ZERO,
            since: Some(Instant::now()),
        })))
    }

    /// Counts from now on.
    pub(in crate::shim) fn start_again(&self) {
        *self.lock() = Hand {
            counted: Duration::ZERO,
            since: Some(Instant::now()),
        };
    }

    pub(in crate::shim) fn elapsed(&self) -> Duration {
        let hand = self.lock();
        let running = hand.since.map_or(Duration::ZERO, |since| since.elapsed());
        hand.counted + running
    }

    pub(super) fn stand_still(&self) {
        let mut hand = self.lock();
        if let Some(since) = hand.since.take() {
            hand.counted += since.elapsed();
        }
    }

    pub(super) fn go_on(&self) {
        self.lock().since.get_or_insert_with(Instant::now);
    }

    fn lock(&self) -> MutexGuard<'_, Hand> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [BoundKind; 7] = [
        BoundKind::Wall,
        BoundKind::Memory,
        BoundKind::Output,
        BoundKind::Disk,
        BoundKind::Cpu,
        BoundKind::Processes,
        BoundKind::OpenFiles,
    ];

    #[test]
    fn every_bound_is_absent_until_it_is_set_and_then_read_back() {
        let limits = Limits::new(Bounds::default());
        for bound in ALL {
            assert_eq!(limits.of(bound), None);
            limits.set(bound, 8_000);
            assert_eq!(limits.of(bound), Some(8_000), "{bound:?}");
            assert!(!words(bound, 8_000).is_empty());
        }
    }

    #[test]
    fn near_is_told_once_until_it_was_well_below() {
        let mut warnings = Warnings::default();
        let mut read = |figure| warnings.read(BoundKind::Memory, figure, 1_000);
        assert_eq!(read(799), Reading::Fine);
        assert_eq!(read(800), Reading::Near);
        assert_eq!(read(750), Reading::Fine);
        assert_eq!(read(999), Reading::Fine);
        assert_eq!(read(1_000), Reading::Reached);
        assert_eq!(read(600), Reading::Fine);
        assert_eq!(read(900), Reading::Near);
        assert_eq!(warnings.read(BoundKind::Disk, 900, 1_000), Reading::Near);
        warnings.forget(BoundKind::Disk);
        assert_eq!(warnings.read(BoundKind::Disk, 900, 1_000), Reading::Near);
    }

    #[test]
    fn marks_of_the_largest_and_the_smallest_bound_are_right() {
        assert_eq!(part_of(u64::MAX, 100), u64::MAX);
        assert_eq!(part_of(10, 80), 8);
        assert_eq!(part_of(1, 80), 0);
    }

    #[test]
    fn a_clock_that_stands_still_counts_nothing() {
        let clock = Clock::start();
        clock.stand_still();
        let counted = clock.elapsed();
        assert_eq!(clock.elapsed(), counted);
        clock.go_on();
        clock.go_on();
        assert!(clock.elapsed() >= counted);
    }
}
