//! Blocks that nobody answers within the run's limit.
//!
//! A block's time runs while it is open without a break. Past the limit it is Expired, once: what waited
//! is refused, and so is what comes after, without a new card, until somebody decides. That is no denial,
//! and is never told as one.

use super::BlockTable;
use foreman_domain::{At, BlockState, HoldId, Subject};

impl BlockTable {
    /// Ends the blocks that have been open for `limit_ms`; gives the holds to refuse, and when the next
    /// block is due. A block's time begins when this first sees it open, so it must be asked whenever
    /// one opened.
    pub(in crate::shim) fn expire(
        &mut self,
        now_ms: u64,
        limit_ms: u64,
        at: At,
    ) -> (Vec<HoldId>, Option<u64>) {
        let (mut refused, mut next) = (Vec::new(), None::<u64>);
        for index in 0..self.entries.len() {
            let Some(entry) = self.entries.get_mut(index) else {
                break;
            };
            if entry.block.state != BlockState::Open {
                entry.open_since = None;
                continue;
            }
            let since = *entry.open_since.get_or_insert(now_ms);
            let due = since.saturating_add(limit_ms);
            if due > now_ms {
                next = Some(next.map_or(due, |next| next.min(due)));
                continue;
            }
            entry.open_since = None;
            for hold in std::mem::take(&mut entry.waiting) {
                self.holds.remove(&hold);
                entry.files.let_go(hold);
                refused.push(hold);
            }
            entry.block.state = BlockState::Expired;
            entry.update_waiting();
            entry.block.last_at = at;
            self.mark(index, true);
        }
        (refused, next)
    }

    /// Counts an action whose subject nobody answered about in time, by its key; false when that is not so.
    pub(in crate::shim) fn count_expired(&mut self, key: &Subject, at: At) -> bool {
        let Some(index) = self.newest.get(key).copied() else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(index) else {
            return false;
        };
        if entry.block.state != BlockState::Expired {
            return false;
        }
        entry.block.seen = entry.block.seen.saturating_add(1);
        entry.block.last_at = at;
        self.mark(index, false);
        true
    }
}
