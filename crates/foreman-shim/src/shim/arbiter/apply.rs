//! Puts a policy revision in force.

use super::{Arbiter, AtBound, Inner, Phase, State, Verdict};
use crate::shim::blocks::Fate;
use crate::shim::feed::FeedFailure;
use crate::wire::{Refusal, RpcError};
use foreman_domain::{Amendment, At, BlockId, EventKind, EventSeq, HoldId, Subject};
use foreman_policy::{Policy, Question, Ruling};

/// What a revision did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::shim) struct Applied {
    pub(in crate::shim) released: u32,
    pub(in crate::shim) refused: u32,
    pub(in crate::shim) cut: u32,
}

impl Arbiter {
    /// Records a decision, puts its policy in force, and re-judges every hold and open connection.
    /// Must not be dropped half-way: the caller gives it a task of its own.
    ///
    /// # Errors
    /// Stale unless the policy is the next revision (or the very one in force, which changes nothing);
    /// ended; or the disk does not take the decision, and then nothing was changed.
    pub(in crate::shim) async fn apply(
        &self,
        policy: Policy,
        amendment: Amendment,
        block: Option<BlockId>,
    ) -> Result<Applied, RpcError> {
        let inner = &*self.0;
        let _one_at_a_time = inner.applying.lock().await;
        if inner.is_in_force(&policy)? {
            return Ok(Applied::default());
        }
        let record = EventKind::Amendment {
            amendment: amendment.clone(),
        };
        inner
            .feed
            .tell_durably(record)
            .await
            .map_err(|error| not_recorded(&error))?;
        let (applied, seq) = inner.put_in_force(policy, &amendment, block.as_ref());
        inner.feed.wait_durable(seq).await.map_err(|error| {
            let message =
                format!("The decision is in force, but not all of it is on disk: {error}");
            Refusal::Disk.says(message)
        })?;
        Ok(applied)
    }
}

fn not_recorded(error: &FeedFailure) -> RpcError {
    Refusal::Disk.says(format!(
        "The decision could not be recorded, so it has no effect: {error}"
    ))
}

impl Inner {
    fn is_in_force(&self, policy: &Policy) -> Result<bool, RpcError> {
        let state = self.lock();
        if state.phase == Phase::Ended {
            return Err(Refusal::Ended.says("The run is over; nothing waits in it any more"));
        }
        if *policy == state.policy {
            return Ok(true);
        }
        let (given, current) = (policy.revision, state.policy.revision);
        if given == current.next() {
            return Ok(false);
        }
        let message = format!("Policy revision {given} was given while {current} is in force");
        Err(Refusal::Stale.says(message))
    }

    /// One step for everybody who attempts something: before it the old policy, after it the new one.
    fn put_in_force(
        &self,
        policy: Policy,
        amendment: &Amendment,
        block: Option<&BlockId>,
    ) -> (Applied, EventSeq) {
        let at = At::now();
        let mut guard = self.lock();
        let state = &mut *guard;
        state.policy = policy;
        self.revised.notify_one();
        let State {
            policy,
            blocks,
            bounded,
            ..
        } = state;
        let settled = blocks.settle(
            block.map(|block| (block, amendment)),
            &amendment.id,
            (at, policy.revision),
            |subject, hold| match subject {
                Subject::Bound { bound } => bounded.fate(policy, *bound),
                _ => fate(policy, subject, hold, at),
            },
        );
        // What a decision did not cover goes on under a block of its own.
        self.opened.notify_one();
        let mut applied = Applied {
            cut: self.cut_what_is_not_allowed(state, at),
            ..Applied::default()
        };
        self.bounds_moved.notify_one();
        for hold in settled.released {
            let policy = &state.policy;
            let raised = |bound| AtBound::Raised(policy.raised(bound).map_or(0, |rule| rule.limit));
            if state.bounded.answer(hold, raised) {
                applied.released += 1;
                continue;
            }
            applied.released += u32::from(self.release(state, hold, at));
        }
        for hold in settled.refused {
            applied.refused += u32::from(state.bounded.answer(hold, |_| AtBound::Denied));
            if let Some(waiter) = state.waiters.remove(&hold) {
                applied.refused += u32::from(waiter.answer.send(Verdict::Refuse).is_ok());
            }
        }
        self.tell_due(state);
        let seq = self.feed.tell(EventKind::PolicyApplied {
            revision: state.policy.revision,
            released: applied.released,
            refused: applied.refused,
            cut: applied.cut,
        });
        (applied, seq)
    }

    /// Lets a hold go as a connection of its own. False when its caller gave up in this moment.
    fn release(&self, state: &mut State, hold: HoldId, at: At) -> bool {
        let Some(waiter) = state.waiters.remove(&hold) else {
            return false;
        };
        let question = Question {
            subject: &waiter.subject,
            hold: Some(hold),
            under: None,
        };
        let Ruling::Allow {
            rule, resolves_to, ..
        } = state.policy.judge(question, at)
        else {
            return false;
        };
        let verdict = self.allow(state, &waiter.subject, Some(hold), rule, resolves_to);
        match waiter.answer.send(verdict) {
            Ok(()) => true,
            Err(Verdict::Allow(allowance)) => {
                state.connections.remove(&allowance.connection);
                false
            }
            Err(Verdict::Refuse) => false,
        }
    }

    /// Cuts open connections that nothing allows any more.
    pub(super) fn cut_what_is_not_allowed(&self, state: &State, at: At) -> u32 {
        let mut cut = 0;
        for connection in state.connections.values() {
            let question = Question {
                subject: &connection.subject,
                hold: connection.hold,
                under: None,
            };
            let stays = match state.policy.judge(question, at) {
                // Which of its private addresses it is connected to is not known here.
                Ruling::Allow { resolves_to, .. } => {
                    connection.private.is_none() || connection.private == resolves_to
                }
                Ruling::Refuse { .. } | Ruling::Ask { .. } => false,
            };
            if !stays && !connection.cut.is_cancelled() {
                connection.cut.cancel();
                cut += 1;
            }
        }
        cut
    }
}

fn fate(policy: &Policy, subject: &Subject, hold: Option<HoldId>, at: At) -> Fate {
    match policy.judge(
        Question {
            subject,
            hold,
            under: None,
        },
        at,
    ) {
        Ruling::Allow { amendment, .. } => Fate::Release { amendment },
        Ruling::Refuse { by, reason, .. } => Fate::Refuse { by, reason },
        Ruling::Ask { .. } => Fate::Wait,
    }
}
