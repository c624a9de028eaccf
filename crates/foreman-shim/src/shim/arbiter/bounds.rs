//! A run that waits at its bound: a block like any other, whose one hold is the run itself.

use super::{Arbiter, Inner, Phase, State};
use crate::protocol::HoldMode;
use crate::shim::blocks::{Fate, Stopped};
use foreman_domain::{At, BoundKind, Breach, Decider, HoldId, Subject};
use foreman_policy::Policy;
use std::collections::HashMap;
use tokio::sync::oneshot;

/// What became of a run that waits at its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::shim) enum AtBound {
    /// To this bound.
    Raised(u64),
    /// The run is to be stopped.
    Denied,
    /// Nobody answered within the run's limit.
    NotAnswered,
}

/// Runs that wait, and what they wait for.
#[derive(Default)]
pub(super) struct Bounded {
    waiting: HashMap<HoldId, (BoundKind, oneshot::Sender<AtBound>)>,
    /// The bound that a rule must be above to let a run go on.
    reached: HashMap<BoundKind, u64>,
}

/// A wait for an answer. Dropping it gives up.
pub(in crate::shim) struct Waiting {
    arbiter: Arbiter,
    hold: HoldId,
    answer: oneshot::Receiver<AtBound>,
}

impl Waiting {
    /// The answer.
    pub(in crate::shim) async fn answer(&mut self) -> AtBound {
        // The sender is gone without an answer only when the run is over.
        (&mut self.answer).await.unwrap_or(AtBound::NotAnswered)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let inner = &*self.arbiter.0;
        let mut guard = inner.lock();
        let state = &mut *guard;
        if state.bounded.waiting.remove(&self.hold).is_some() {
            state.blocks.give_up(self.hold, At::now());
            inner.tell_due(state);
        }
    }
}

impl Arbiter {
    /// True when nobody attends: what reaches a bound ends.
    pub(in crate::shim) fn is_unattended(&self) -> bool {
        self.0.hold == HoldMode::Refuse
    }

    /// Holds the run itself at a bound.
    ///
    /// # Errors
    /// Why it cannot be held, in words: it has too many blocks, or is over.
    pub(in crate::shim) fn hold_at_bound(
        &self,
        breach: Breach,
        why: &str,
    ) -> Result<Waiting, String> {
        let inner = &*self.0;
        let mut guard = inner.lock();
        let state = &mut *guard;
        let hold = inner.open_bound(state, breach, why)?;
        let (sender, answer) = oneshot::channel();
        state.bounded.waiting.insert(hold, (breach.bound, sender));
        if state.limit.is_some() {
            inner.opened.notify_one();
        }
        inner.tell_due(state);
        Ok(Waiting {
            arbiter: self.clone(),
            hold,
            answer,
        })
    }

    /// Notes a bound for which nothing waits: the kernel refuses what is beyond it. Its card is for later
    /// runs. One that cannot be noted is in the feed all the same.
    pub(in crate::shim) fn note_bound(&self, breach: Breach, why: &str) {
        let inner = &*self.0;
        let mut guard = inner.lock();
        let state = &mut *guard;
        if let Ok(hold) = inner.open_bound(state, breach, why) {
            state.blocks.give_up(hold, At::now());
            inner.tell_due(state);
        }
    }

    /// Bounds that the policy in force raises; nothing else of it.
    pub(in crate::shim) fn raised_bounds(&self) -> Policy {
        let state = self.0.lock();
        Policy {
            bounds: state.policy.bounds.clone(),
            ..Policy::default()
        }
    }

    /// Waits until another policy is in force.
    pub(in crate::shim) async fn bounds_changed(&self) {
        self.0.bounds_moved.notified().await;
    }
}

impl Inner {
    fn open_bound(&self, state: &mut State, breach: Breach, why: &str) -> Result<HoldId, String> {
        if state.phase == Phase::Ended {
            return Err("the run is over".to_owned());
        }
        let subject = Subject::Bound {
            bound: breach.bound,
        };
        let stopped = Stopped {
            file: None,
            subject: &subject,
            why,
            address_vetted: true,
            revision: state.policy.revision,
            at: At::now(),
        };
        let held = state
            .blocks
            .hold(&stopped)
            .map_err(|_| "so much waits already that this cannot".to_owned())?;
        state.blocks.note_breach(&held.block, breach, why);
        state.bounded.reached.insert(breach.bound, breach.limit);
        Ok(held.hold)
    }
}

impl Bounded {
    /// What a policy says of a run at its bound.
    pub(super) fn fate(&self, policy: &Policy, bound: BoundKind) -> Fate {
        let subject = Subject::Bound { bound };
        let reached = self.reached.get(&bound).copied().unwrap_or(u64::MAX);
        if let Some(denial) = policy
            .denials
            .iter()
            .find(|denial| denial.subject == subject)
        {
            return Fate::Refuse {
                by: Decider::Operator,
                reason: denial.reason.clone(),
            };
        }
        match policy.raised(bound).filter(|rule| rule.limit > reached) {
            Some(rule) => Fate::Release {
                amendment: rule.origin.amendment.clone(),
            },
            None => Fate::Wait,
        }
    }

    /// Answers a run that waits; false when this hold is none.
    pub(super) fn answer(&mut self, hold: HoldId, with: impl Fn(BoundKind) -> AtBound) -> bool {
        match self.waiting.remove(&hold) {
            Some((bound, sender)) => sender.send(with(bound)).is_ok(),
            None => false,
        }
    }

    /// Whether a run waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The holds of runs that wait, at the end of the run.
    pub(super) fn take_all(&mut self) -> Vec<HoldId> {
        self.waiting.drain().map(|(hold, _)| hold).collect()
    }
}

#[cfg(test)]
#[path = "bounds/tests.rs"]
mod tests;
