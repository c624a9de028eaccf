//! Puts a policy revision in force.

use super::retell::Retold;
use super::{Answering, Arbiter, AtBound, Inner, Phase, Reply, State, Verdict, Waiter};
use crate::shim::blocks::Fate;
use crate::shim::feed::FeedFailure;
use crate::wire::{Refusal, RpcError};
use foreman_cage::files::FileVerdict;
use foreman_domain::{Amendment, At, BlockId, Decision, EventKind, EventSeq, HoldId, Subject};
use foreman_policy::{Policy, Question, Ruling};
use std::collections::HashMap;

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
        // What is opened is there before anybody is let go into it; what is closed goes after.
        inner.show_wanted(&policy, At::now()).await;
        let before = inner.lock().policy.clone();
        let (applied, seq) = inner.put_in_force(policy, &amendment, block.as_ref());
        inner.hide_unwanted(&before, At::now()).await;
        inner.walls_moved.notify_one();
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
            waiters,
            shown,
            bounded,
            ..
        } = state;
        // What let each hold go: it is the same for all that is told of it.
        let mut let_go: HashMap<HoldId, Ruling> = HashMap::new();
        let settled = blocks.settle(
            block.map(|block| (block, amendment)),
            &amendment.id,
            (at, policy.revision),
            |subject, hold| {
                if let Subject::Bound { bound } = subject {
                    return bounded.fate(policy, *bound);
                }
                let waiter = hold.and_then(|hold| waiters.get(&hold));
                let ruling = rule_on(policy, subject, hold, waiter, at);
                let fate = fate(&ruling, waiter, |rule| shown.why_not(rule).is_some());
                if let (Fate::Release { .. }, Some(hold)) = (&fate, hold) {
                    let_go.insert(hold, ruling);
                }
                fate
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
            let ruling = let_go.remove(&hold);
            applied.released += u32::from(self.release(state, hold, ruling));
        }
        let reason = match &amendment.decision {
            Decision::Deny { reason } => reason.as_str(),
            Decision::Allow => "",
        };
        for hold in settled.refused {
            applied.refused += u32::from(state.bounded.answer(hold, |_| AtBound::Denied));
            if let Some(waiter) = state.waiters.remove(&hold) {
                applied.refused += u32::from(waiter.answer.refuse(reason));
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

    /// Lets a hold go: as a connection of its own, or into what is shown now. False when its caller gave up
    /// in this moment.
    fn release(&self, state: &mut State, hold: HoldId, ruling: Option<Ruling>) -> bool {
        let Some(Waiter { subject, answer }) = state.waiters.remove(&hold) else {
            return false;
        };
        let Some(Ruling::Allow {
            rule,
            resolves_to,
            opens,
            ..
        }) = ruling
        else {
            return false;
        };
        match answer {
            Answering::Gateway(answer) => {
                let verdict = self.allow(state, &subject, Some(hold), rule, resolves_to);
                match answer.send(verdict) {
                    Ok(()) => true,
                    Err(Verdict::Allow(allowance)) => {
                        state.connections.remove(&allowance.connection);
                        false
                    }
                    Err(Verdict::Refuse) => false,
                }
            }
            Answering::File { answer, folder, .. } => {
                let verdict = match opens {
                    Some(opening) if opening.once => FileVerdict::Once,
                    Some(opening) => FileVerdict::Show {
                        root: opening.root,
                        access: opening.access,
                    },
                    None => FileVerdict::Refuse,
                };
                let told = Retold::Allowed {
                    subject,
                    folder,
                    rule: rule.0,
                };
                self.retell(state, told);
                answer.send(verdict).is_ok()
            }
            Answering::Question(answer) => {
                let reply = Reply::yes(&state.policy, &rule);
                let rule = rule.0;
                let told = Retold::Allowed {
                    subject,
                    folder: None,
                    rule,
                };
                self.retell(state, told);
                answer.send(reply).is_ok()
            }
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

/// What a policy says of a hold, or of a block under which nothing waits.
fn rule_on(
    policy: &Policy,
    block: &Subject,
    hold: Option<HoldId>,
    waiter: Option<&Waiter>,
    at: At,
) -> Ruling {
    let question = Question {
        subject: waiter.map_or(block, |waiter| &waiter.subject),
        hold,
        under: Some(block),
    };
    policy.judge(question, at)
}

/// What becomes of it. What a rule opens that could not be shown goes on waiting, and so does what a rule
/// "once" allows when it is no opening of a file.
fn fate(
    ruling: &Ruling,
    waiter: Option<&Waiter>,
    is_missing: impl FnOnce(&foreman_policy::RuleId) -> bool,
) -> Fate {
    match ruling {
        Ruling::Allow {
            rule,
            amendment,
            opens,
            ..
        } => {
            let waits = opens.as_ref().is_some_and(|opening| {
                let can_once = waiter.is_some_and(|waiter| {
                    matches!(waiter.answer, Answering::File { can_once: true, .. })
                });
                match opening.once {
                    true => !can_once,
                    false => is_missing(rule),
                }
            });
            match waits {
                true => Fate::Wait,
                false => Fate::Release {
                    amendment: amendment.clone(),
                },
            }
        }
        Ruling::Refuse { by, reason, .. } => Fate::Refuse {
            by: *by,
            reason: reason.clone(),
        },
        Ruling::Ask { .. } => Fate::Wait,
    }
}
