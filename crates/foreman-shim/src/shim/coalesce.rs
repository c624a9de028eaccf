//! Keeps a flood out of the feed: a bounded number of events a second, the rest counted into them.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Repeats of one key within this time are one event.
const REPEAT_MS: u64 = 1_000;
/// Keys that wait at one time; more are only counted.
const PENDING: usize = 512;
/// Keys remembered as recently told.
const RECENT: usize = 1_024;

/// Tokens that come back at a steady rate.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: u64,
    /// In thousandths of a token.
    level: u64,
    filled_at: u64,
}

impl Bucket {
    pub(super) fn new(per_second: u64) -> Self {
        Self {
            per_second,
            level: per_second * 1_000,
            filled_at: 0,
        }
    }

    /// Takes a token, if there is one.
    pub(super) fn take(&mut self, now_ms: u64) -> bool {
        let passed = now_ms.saturating_sub(self.filled_at);
        self.filled_at = self.filled_at.max(now_ms);
        // One token a second is one thousandth a millisecond.
        let refill = passed.saturating_mul(self.per_second);
        self.level = self
            .level
            .saturating_add(refill)
            .min(self.per_second * 1_000);
        match self.level.checked_sub(1_000) {
            Some(rest) => {
                self.level = rest;
                true
            }
            None => false,
        }
    }
}

/// Something that a later one of the same key can be added to.
pub(super) trait Merge {
    fn merge(&mut self, later: Self);
}

/// Lets the first of each key pass while tokens last, and merges what must wait.
/// At most 512 keys wait; what comes beyond that is only counted.
#[derive(Debug)]
pub(super) struct Coalescer<K, V> {
    bucket: Bucket,
    pending: HashMap<K, V>,
    order: VecDeque<K>,
    told: HashMap<K, u64>,
    lost: u64,
}

impl<K: Hash + Eq + Clone, V: Merge> Coalescer<K, V> {
    pub(super) fn new(per_second: u64) -> Self {
        Self {
            bucket: Bucket::new(per_second),
            pending: HashMap::new(),
            order: VecDeque::new(),
            told: HashMap::new(),
            lost: 0,
        }
    }

    /// Gives it back when it may be told now; otherwise keeps it for [`Coalescer::take_due`].
    pub(super) fn offer(&mut self, key: K, value: V, now_ms: u64) -> Option<(K, V)> {
        if let Some(waiting) = self.pending.get_mut(&key) {
            waiting.merge(value);
            return None;
        }
        if self.order.is_empty() && self.is_fresh(&key, now_ms) && self.bucket.take(now_ms) {
            self.note_told(&key, now_ms);
            return Some((key, value));
        }
        if self.order.len() < PENDING {
            self.order.push_back(key.clone());
            self.pending.insert(key, value);
        } else {
            self.lost += 1;
        }
        None
    }

    /// What may be told now, oldest first.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Vec<(K, V)> {
        self.take(
            |this, key| this.is_fresh(key, now_ms) && this.bucket.take(now_ms),
            now_ms,
        )
    }

    /// Everything that still waits, at the end of a run.
    pub(super) fn take_all(&mut self, now_ms: u64) -> Vec<(K, V)> {
        self.take(|_, _| true, now_ms)
    }

    fn take(&mut self, mut may: impl FnMut(&mut Self, &K) -> bool, now_ms: u64) -> Vec<(K, V)> {
        let mut due = Vec::new();
        for _ in 0..self.order.len() {
            let Some(key) = self.order.pop_front() else {
                break;
            };
            if !may(self, &key) {
                self.order.push_back(key);
                continue;
            }
            self.note_told(&key, now_ms);
            if let Some(value) = self.pending.remove(&key) {
                due.push((key, value));
            }
        }
        due
    }

    /// How many were only counted since the last call.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    /// True while something waits to be told.
    pub(super) fn has_pending(&self) -> bool {
        !self.order.is_empty() || self.lost > 0
    }

    fn is_fresh(&self, key: &K, now_ms: u64) -> bool {
        self.told
            .get(key)
            .is_none_or(|told| now_ms >= told + REPEAT_MS)
    }

    fn note_told(&mut self, key: &K, now_ms: u64) {
        if self.told.len() >= RECENT {
            self.told.retain(|_, told| now_ms < *told + REPEAT_MS);
        }
        if self.told.len() < RECENT {
            self.told.insert(key.clone(), now_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Merge for u64 {
        fn merge(&mut self, later: Self) {
            *self += later;
        }
    }

    #[test]
    fn the_first_of_each_key_passes_at_once() {
        let mut feed = Coalescer::new(20);
        assert_eq!(feed.offer("a", 1, 0), Some(("a", 1)));
        assert_eq!(feed.offer("b", 1, 0), Some(("b", 1)));
        assert!(!feed.has_pending());
    }

    #[test]
    fn repeats_within_a_second_become_one_event_with_their_count() {
        let mut feed = Coalescer::new(20);
        feed.offer("a", 1, 0);
        for now in 1..=37 {
            assert_eq!(feed.offer("a", 1, now), None);
        }
        assert!(feed.take_due(999).is_empty());
        assert_eq!(feed.take_due(1_000), vec![("a", 37)]);
        assert!(!feed.has_pending());
    }

    #[test]
    fn a_flood_of_different_keys_is_held_to_the_rate_and_nothing_is_uncounted() {
        let mut feed = Coalescer::new(20);
        let mut told = 0;
        for key in 0..100_000_u64 {
            // 10 attempts a millisecond, for ten seconds
            told += u64::from(feed.offer(key, 1, key / 10).is_some());
            if key % 1_000 == 0 {
                told += feed.take_due(key / 10).len() as u64;
            }
        }
        assert!(told <= 20 * 11, "{told}");
        let waiting: u64 = feed.take_all(10_000).iter().map(|(_, count)| count).sum();
        assert_eq!(told + waiting + feed.take_lost(), 100_000);
    }
}
