//! Cuts what an expired rule leaves without one, at that time and not at the next decision.

use super::{Arbiter, Inner};
use foreman_domain::At;
use foreman_policy::{Policy, Use};
use std::time::Duration;
use tokio::time::timeout;

/// The machine's clock may be set, and stops no timer while the machine sleeps: an end that is further
/// off is looked at again after this time.
const LONGEST: Duration = Duration::from_secs(60);

impl Arbiter {
    /// Runs until it is dropped; without a timer while no rule in force has an end.
    pub(in crate::shim) async fn expire(&self) {
        loop {
            let next = self.0.cut_expired(At::now());
            self.0.hide_expired().await;
            match next {
                None => self.0.revised.notified().await,
                Some(left) => {
                    let _ = timeout(left.min(LONGEST), self.0.revised.notified()).await;
                }
            }
        }
    }
}

impl Inner {
    /// Hides what only rules that have ended opened.
    async fn hide_expired(&self) {
        let at = At::now();
        let is_over = |policy: &Policy| {
            let mut rules = policy.paths.iter();
            rules.any(|rule| rule.applies == Use::Always && !rule.stands(at))
        };
        if !is_over(&self.lock().policy) {
            return;
        }
        let _one_at_a_time = self.applying.lock().await;
        let policy = self.lock().policy.clone();
        self.hide_unwanted(&policy, at).await;
        self.walls_moved.notify_one();
    }

    /// Cuts what no rule allows at this time. Gives how long it is to the next end of a rule.
    fn cut_expired(&self, at: At) -> Option<Duration> {
        let state = self.lock();
        let policy = &state.policy;
        let egress = || policy.egress.iter().filter_map(|rule| rule.expires);
        let sockets = || policy.sockets.iter().filter_map(|rule| rule.expires);
        let paths = || policy.paths.iter().filter_map(|rule| rule.expires);
        let ends = || egress().chain(sockets()).chain(paths());
        if ends().any(|end| end <= at) {
            self.cut_what_is_not_allowed(&state, at);
        }
        let next = ends().filter(|end| *end > at).min()?;
        // Rounded up, so that the end has passed then.
        let left = next.as_millis().saturating_sub(at.as_millis()) + 1;
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    }
}
