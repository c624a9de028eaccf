//! Judges every attempt to leave the cage: the policy, the blocks, the holds and the open connections
//! behind one lock.
//!
//! An attempt sees either the old policy or the new one, never a mixture: applying a revision swaps
//! the policy, settles every hold and cuts connections under the same lock that judges attempts. The
//! decision itself is on disk before it has any effect. A hold waits until it is settled or its caller
//! gave up; nothing else ends it, and a dropped wait gives up by itself.

mod apply;
mod retell;

use super::blocks::{BlockTable, Full, Held, Stopped};
use super::feed::Feed;
use crate::protocol::HoldMode;
use crate::why::{self, Status, WhyAnswer};
use foreman_cage::gateway::{
    Allowance, Attempt, Closed, ConnectionId, HolderProbe, Judge, Verdict,
};
use foreman_domain::{
    At, BlockId, BlockState, Decider, EventKind, HoldId, Host, Protocol, Revision, RunId, Subject,
};
use foreman_policy::{Policy, Question, RuleId, Ruling};
use ipnet::IpNet;
use retell::{Retold, Teller};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

/// Longest wait for the process behind a hold before its block is told without it.
const HOLDER_PATIENCE: Duration = Duration::from_millis(100);
/// What waits to be told is looked at this often, while something waits.
const RETELL_EVERY: Duration = Duration::from_millis(100);
/// Refusals remembered for `foreman why` beside the blocks.
const REFUSALS: usize = 40;
/// Things that `foreman why` names.
const WHY_LINES: usize = 20;

/// The judge of one run; cheap to clone.
#[derive(Clone)]
pub(super) struct Arbiter(Arc<Inner>);

struct Inner {
    run: RunId,
    hold: HoldMode,
    feed: Feed,
    started: Instant,
    state: Mutex<State>,
    /// One revision at a time, from its record to its effect.
    applying: tokio::sync::Mutex<()>,
    /// Something waits to be told later.
    later: Notify,
}

struct State {
    policy: Policy,
    blocks: BlockTable,
    waiters: HashMap<HoldId, Waiter>,
    connections: HashMap<ConnectionId, Connection>,
    last_connection: u64,
    teller: Teller,
    refusals: VecDeque<Refusal>,
    phase: Phase,
    told_full: bool,
}

/// What attempts mean at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Our own probes try the walls: all is refused, nothing is told.
    Probing,
    Open,
    /// The run is over: all is refused.
    Ended,
}

struct Waiter {
    subject: Subject,
    answer: oneshot::Sender<Verdict>,
}

struct Connection {
    subject: Subject,
    hold: Option<HoldId>,
    private: Option<IpNet>,
    cut: CancellationToken,
}

/// Something refused without a block.
struct Refusal {
    subject: Subject,
    by: Decider,
    why: String,
    reason: String,
    count: u64,
    at: At,
}

impl Arbiter {
    /// A judge that refuses everything until [`Arbiter::open`].
    pub(super) fn new(run: RunId, policy: Policy, hold: HoldMode, feed: Feed) -> Self {
        let state = State {
            policy,
            blocks: BlockTable::new(run.clone()),
            waiters: HashMap::new(),
            connections: HashMap::new(),
            last_connection: 0,
            teller: Teller::default(),
            refusals: VecDeque::new(),
            phase: Phase::Probing,
            told_full: false,
        };
        Self(Arc::new(Inner {
            run,
            hold,
            feed,
            started: Instant::now(),
            state: Mutex::new(state),
            applying: tokio::sync::Mutex::new(()),
            later: Notify::new(),
        }))
    }

    /// The probes are over: attempts are judged from now on.
    pub(super) fn open(&self) {
        let mut state = self.0.lock();
        if state.phase == Phase::Probing {
            state.phase = Phase::Open;
        }
    }

    /// The run is over: every hold is refused, and so is everything that still comes.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.phase = Phase::Ended;
        let waiters = std::mem::take(&mut state.waiters);
        for hold in waiters.keys() {
            state.blocks.give_up(*hold, At::now());
        }
        let now = self.0.now_ms();
        for block in state.blocks.take_all(now) {
            self.0.feed.tell(EventKind::Block { block });
        }
        for event in state.teller.take_all(now) {
            self.0.feed.tell(event);
        }
    }

    /// The policy revision in force.
    pub(super) fn revision(&self) -> Revision {
        self.0.lock().policy.revision
    }

    /// Tells what had to wait; runs until it is dropped, and sleeps while nothing waits.
    pub(super) async fn retell(&self) {
        loop {
            self.0.later.notified().await;
            while {
                tokio::time::sleep(RETELL_EVERY).await;
                self.0.tell_due(&mut self.0.lock())
            } {}
        }
    }

    /// What the agent may know about what was stopped.
    pub(super) fn why(&self) -> WhyAnswer {
        let state = self.0.lock();
        let blocks = state.blocks.recent(WHY_LINES).into_iter().map(|block| {
            let (status, reason) = match &block.state {
                BlockState::Open => (Status::Waiting, ""),
                BlockState::Gone | BlockState::Expired => (Status::GaveUp, ""),
                BlockState::Amended { .. } => (Status::Allowed, ""),
                BlockState::Denied { by, reason } => (status_of(*by), reason.as_str()),
            };
            let (destination, protocol) = why::destination(&block.subject);
            why::Stopped {
                destination,
                protocol,
                status,
                count: block.seen,
                last_at: block.last_at,
                why: block.why.clone(),
                reason: (!reason.is_empty()).then(|| reason.to_owned()),
                advice: status.advice().to_owned(),
                block: Some(block.id.clone()),
            }
        });
        let refusals = state.refusals.iter().map(|refusal| {
            let (destination, protocol) = why::destination(&refusal.subject);
            let status = status_of(refusal.by);
            why::Stopped {
                destination,
                protocol,
                status,
                count: refusal.count,
                last_at: refusal.at,
                why: refusal.why.clone(),
                reason: (!refusal.reason.is_empty()).then(|| refusal.reason.clone()),
                advice: status.advice().to_owned(),
                block: None,
            }
        });
        let mut stopped: Vec<_> = blocks.chain(refusals).collect();
        stopped.sort_by_key(|stopped| std::cmp::Reverse(stopped.last_at));
        stopped.truncate(WHY_LINES);
        WhyAnswer {
            v: 1,
            run: self.0.run.clone(),
            stopped,
        }
    }
}

fn status_of(by: Decider) -> Status {
    match by {
        Decider::Operator => Status::Denied,
        Decider::Unattended => Status::RefusedUnattended,
        Decider::Floor => Status::RefusedAlways,
    }
}

/// What an attempt gets at once.
enum Answer {
    Now(Verdict),
    /// Refused unattended, under this block; the process behind it is wanted.
    Name(BlockId),
    Wait(Held, oneshot::Receiver<Verdict>),
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Tells what is due; true when something has to wait.
    fn tell_due(&self, state: &mut State) -> bool {
        let now = self.now_ms();
        for block in state.blocks.take_due(now) {
            self.feed.tell(EventKind::Block { block });
        }
        for event in state.teller.take_due(now) {
            self.feed.tell(event);
        }
        let waits = state.blocks.has_changes() || state.teller.has_pending();
        if waits {
            self.later.notify_one();
        }
        waits
    }

    fn retell(&self, state: &mut State, what: Retold) {
        if let Some(event) = state.teller.offer(what, self.now_ms()) {
            self.feed.tell(event);
        }
    }

    fn ask(&self, attempt: &Attempt, subject: &Subject) -> Answer {
        let at = At::now();
        let mut guard = self.lock();
        let state = &mut *guard;
        match state.phase {
            Phase::Probing | Phase::Ended => return Answer::Now(Verdict::Refuse),
            Phase::Open => {}
        }
        let ruling = state.policy.judge(
            Question {
                subject,
                hold: None,
            },
            at,
        );
        let answer = match ruling {
            Ruling::Allow {
                rule, resolves_to, ..
            } => Answer::Now(self.allow(state, subject, None, rule, resolves_to)),
            Ruling::Refuse { by, why, reason } => {
                if !state.blocks.count_denied(subject, at) {
                    state.remember(subject, by, &why, &reason, at);
                }
                self.retell(
                    state,
                    Retold::Refused {
                        subject: subject.clone(),
                        by,
                        why,
                    },
                );
                Answer::Now(Verdict::Refuse)
            }
            Ruling::Ask { why } => self.hold(state, attempt, subject, &why, at),
        };
        // A new block is told together with its process, when that is found soon.
        if matches!(answer, Answer::Now(_)) {
            self.tell_due(state);
        }
        answer
    }

    fn hold(
        &self,
        state: &mut State,
        attempt: &Attempt,
        subject: &Subject,
        why: &str,
        at: At,
    ) -> Answer {
        let stopped = Stopped {
            subject,
            why,
            address_vetted: !attempt.by_proxy,
            revision: state.policy.revision,
            at,
        };
        match self.hold {
            HoldMode::Hold => match state.blocks.hold(&stopped) {
                Ok(held) => {
                    let (sender, receiver) = oneshot::channel();
                    let waiter = Waiter {
                        subject: subject.clone(),
                        answer: sender,
                    };
                    state.waiters.insert(held.hold, waiter);
                    Answer::Wait(held, receiver)
                }
                Err(full) => Answer::Now(self.refuse_full(state, subject, full, at)),
            },
            HoldMode::Refuse => match state.blocks.refuse_unattended(&stopped) {
                Ok((block, wants_holder)) => {
                    let why = format!("{why}, and nobody attends this run");
                    let by = Decider::Unattended;
                    self.retell(
                        state,
                        Retold::Refused {
                            subject: subject.clone(),
                            by,
                            why,
                        },
                    );
                    if wants_holder {
                        Answer::Name(block)
                    } else {
                        Answer::Now(Verdict::Refuse)
                    }
                }
                Err(full) => Answer::Now(self.refuse_full(state, subject, full, at)),
            },
        }
    }

    fn refuse_full(&self, state: &mut State, subject: &Subject, full: Full, at: At) -> Verdict {
        let why = match full {
            Full::Blocks => format!(
                "This run has {} blocks already; decide or stop it before more are held",
                super::blocks::BLOCKS
            ),
            Full::Holds => format!(
                "This run has {} actions waiting already; decide or stop it before more are held",
                super::blocks::HOLDS
            ),
        };
        if !std::mem::replace(&mut state.told_full, true) {
            self.feed.tell(EventKind::Warning {
                message: why.clone(),
            });
        }
        let by = Decider::Floor;
        state.remember(subject, by, &why, "", at);
        self.retell(
            state,
            Retold::Refused {
                subject: subject.clone(),
                by,
                why,
            },
        );
        Verdict::Refuse
    }

    /// Registers a connection that a rule allows.
    fn allow(
        &self,
        state: &mut State,
        subject: &Subject,
        hold: Option<HoldId>,
        rule: RuleId,
        private: Option<IpNet>,
    ) -> Verdict {
        state.last_connection += 1;
        let connection = ConnectionId(state.last_connection);
        let cut = CancellationToken::new();
        let entry = Connection {
            subject: subject.clone(),
            hold,
            private,
            cut: cut.clone(),
        };
        state.connections.insert(connection, entry);
        self.retell(
            state,
            Retold::Allowed {
                subject: subject.clone(),
                rule: rule.0,
            },
        );
        Verdict::Allow(Allowance {
            connection,
            private,
            cut,
        })
    }

    /// Looks the process behind a block up, without keeping anybody waiting for it, and tells the
    /// block with it, or without it when it is not found soon.
    fn name_holder(self: &Arc<Self>, probe: HolderProbe, block: BlockId) {
        let inner = Arc::clone(self);
        let mut lookup = tokio::task::spawn_blocking(move || (probe.0)());
        tokio::spawn(async move {
            let found = match tokio::time::timeout(HOLDER_PATIENCE, &mut lookup).await {
                Ok(found) => found,
                Err(_) => {
                    inner.tell_due(&mut inner.lock());
                    lookup.await
                }
            };
            let mut state = inner.lock();
            if let Ok(Some(holder)) = found {
                state.blocks.add_holder(&block, holder);
            }
            inner.tell_due(&mut state);
        });
    }
}

impl State {
    fn remember(&mut self, subject: &Subject, by: Decider, why: &str, reason: &str, at: At) {
        if let Some(known) = self
            .refusals
            .iter_mut()
            .find(|known| known.subject == *subject)
        {
            known.count += 1;
            known.at = at;
            known.by = by;
            why.clone_into(&mut known.why);
            reason.clone_into(&mut known.reason);
            return;
        }
        if self.refusals.len() >= REFUSALS {
            self.refusals.pop_front();
        }
        self.refusals.push_back(Refusal {
            subject: subject.clone(),
            by,
            why: why.to_owned(),
            reason: reason.to_owned(),
            count: 1,
            at,
        });
    }
}

/// A hold that waits. Dropped without an answer, it gives up.
struct Waiting<'a> {
    inner: &'a Inner,
    hold: HoldId,
    answer: oneshot::Receiver<Verdict>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.waiters.remove(&self.hold);
        if state.blocks.give_up(self.hold, At::now()) {
            self.inner.tell_due(&mut state);
        } else if let Ok(Verdict::Allow(allowance)) = self.answer.try_recv() {
            // It was let go in the very moment in which it gave up.
            state.connections.remove(&allowance.connection);
        }
    }
}

impl Judge for Arbiter {
    async fn judge(&self, attempt: Attempt) -> Verdict {
        let subject = Subject::Egress {
            protocol: attempt.protocol,
            host: attempt.host.clone(),
            port: attempt.port,
            resolved: attempt.resolved,
        };
        match self.0.ask(&attempt, &subject) {
            Answer::Now(verdict) => verdict,
            Answer::Name(block) => {
                self.0.name_holder(attempt.holder, block);
                Verdict::Refuse
            }
            Answer::Wait(held, answer) => {
                let mut waiting = Waiting {
                    inner: &self.0,
                    hold: held.hold,
                    answer,
                };
                if held.wants_holder {
                    self.0.name_holder(attempt.holder, held.block.clone());
                }
                {
                    let mut state = self.0.lock();
                    if !held.wants_holder {
                        self.0.tell_due(&mut state);
                    }
                    let Held { hold, block, .. } = held;
                    self.0.retell(
                        &mut state,
                        Retold::Held {
                            subject,
                            block,
                            hold,
                        },
                    );
                }
                tokio::select! {
                    biased;
                    verdict = &mut waiting.answer => verdict.unwrap_or(Verdict::Refuse),
                    () = attempt.gone.cancelled() => Verdict::Refuse,
                }
            }
        }
    }

    fn looked_up(&self, name: &str) {
        let mut state = self.0.lock();
        if state.phase == Phase::Open {
            self.0.retell(
                &mut state,
                Retold::LookedUp {
                    name: name.to_owned(),
                },
            );
            self.0.tell_due(&mut state);
        }
    }

    fn closed(&self, connection: ConnectionId, how: Closed) {
        let mut state = self.0.lock();
        let Some(Connection { subject, .. }) = state.connections.remove(&connection) else {
            return;
        };
        match how {
            Closed::Ended {
                sent,
                received,
                millis,
                cut,
            } => {
                self.0.retell(
                    &mut state,
                    Retold::Closed {
                        subject,
                        cut,
                        sent,
                        received,
                        millis,
                    },
                );
            }
            Closed::Unreachable { why } => {
                self.0
                    .retell(&mut state, Retold::Unreachable { subject, why });
            }
            Closed::Abandoned => {}
        }
        self.0.tell_due(&mut state);
    }

    fn refused(&self, protocol: Protocol, host: Host, port: u16, why: &str) {
        let mut state = self.0.lock();
        if state.phase != Phase::Open {
            return;
        }
        let subject = Subject::Egress {
            protocol,
            host,
            port,
            resolved: None,
        };
        state.remember(&subject, Decider::Floor, why, "", At::now());
        let by = Decider::Floor;
        self.0.retell(
            &mut state,
            Retold::Refused {
                subject,
                by,
                why: why.to_owned(),
            },
        );
        self.0.tell_due(&mut state);
    }
}

#[cfg(test)]
#[path = "arbiter/tests.rs"]
mod tests;
