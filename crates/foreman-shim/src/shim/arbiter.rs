//! Judges every attempt to leave the cage, by the network, by a file or by a socket: the policy, the blocks, the holds
//! and the open connections behind one lock.
//!
//! An attempt sees either the old policy or the new one, never a mixture: applying a revision swaps
//! the policy, settles every hold and cuts connections under the same lock that judges attempts. The
//! decision itself is on disk before it has any effect. A hold waits until it is settled or its caller
//! gave up; nothing else ends it, and a dropped wait gives up by itself.

mod apply;
mod bounds;
mod expiry;
mod files;
mod limit;
mod places;
mod port;
mod programs;
mod questions;
mod retell;
mod sockets;
mod why;

pub(super) use bounds::AtBound;
pub(super) use files::FileFloor;
pub(super) use questions::{Asked, Asking, Reply};

use super::blocks::{BlockTable, FileHold, Full, Held, Stopped, key_of};
use super::feed::Feed;
use crate::protocol::{Continues, HoldMode};
use crate::why::Status;
use foreman_cage::files::FileVerdict;
use foreman_cage::gateway::{Allowance, ConnectionId, Verdict};
use foreman_domain::{At, BlockId, Decider, EventKind, HoldId, PathText, Revision, RunId, Subject};
use foreman_policy::{Policy, Question, RuleId, Ruling};
use ipnet::IpNet;
use places::Shown;
use programs::Programs;
use retell::{Retold, Teller, Told};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use why::{Refusal, Refusals};

/// What waits to be told is looked at this often, while something waits.
const RETELL_EVERY: Duration = Duration::from_millis(100);
/// Processes that are looked up at one time.
const LOOKUPS: usize = 2;

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
    /// Another policy is in force.
    revised: Notify,
    /// The policy, or what is shown in the cage, is another.
    walls_moved: Notify,
    /// A block opened, where blocks have a limit.
    opened: Notify,
    /// Bounds may be others now.
    bounds_moved: Notify,
    /// Processes that are looked up at one time.
    lookups: Semaphore,
    /// Where no rule reaches, and the way to show places in the cage; set once there is a cage.
    files: OnceLock<files::Ground>,
    /// True while our own steps run, which collect the work: their programs are no news.
    collects: OnceLock<watch::Receiver<bool>>,
}

struct State {
    policy: Policy,
    blocks: BlockTable,
    waiters: HashMap<HoldId, Waiter>,
    bounded: bounds::Bounded,
    connections: HashMap<ConnectionId, Connection>,
    last_connection: u64,
    teller: Teller,
    refusals: Refusals,
    programs: Programs,
    shown: Shown,
    phase: Phase,
    no_network: bool,
    /// How long a block waits for an answer.
    limit: Option<Duration>,
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
    answer: Answering,
}

/// Whom a settled hold answers.
enum Answering {
    Gateway(oneshot::Sender<Verdict>),
    File {
        answer: oneshot::Sender<FileVerdict>,
        /// Whether it can be let go alone.
        can_once: bool,
        /// What makes it one block with others, for the feed.
        folder: Option<PathText>,
    },
    /// A question of the agent.
    Question(oneshot::Sender<Reply>),
}

impl Answering {
    /// Refuses it, with what the agent is told where it can be told; false when it gave up in this moment, and
    /// needs no answer.
    fn refuse(self, reason: &str) -> bool {
        match self {
            Self::Gateway(answer) => answer.send(Verdict::Refuse).is_ok(),
            Self::File { answer, .. } => answer.send(FileVerdict::Refuse).is_ok(),
            Self::Question(answer) => answer.send(Reply::no(reason)).is_ok(),
        }
    }
}

struct Connection {
    subject: Subject,
    hold: Option<HoldId>,
    private: Option<IpNet>,
    cut: CancellationToken,
}

impl Arbiter {
    /// A judge that refuses everything until [`Arbiter::open`].
    pub(super) fn new(run: RunId, policy: Policy, hold: HoldMode, feed: Feed) -> Self {
        let state = State {
            policy,
            blocks: BlockTable::new(run.clone()),
            waiters: HashMap::new(),
            bounded: bounds::Bounded::default(),
            connections: HashMap::new(),
            last_connection: 0,
            teller: Teller::default(),
            refusals: Refusals::default(),
            programs: Programs::default(),
            shown: Shown::default(),
            phase: Phase::Probing,
            no_network: false,
            limit: None,
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
            revised: Notify::new(),
            walls_moved: Notify::new(),
            opened: Notify::new(),
            bounds_moved: Notify::new(),
            lookups: Semaphore::new(LOOKUPS),
            files: OnceLock::new(),
            collects: OnceLock::new(),
        }))
    }

    /// Goes on behind what an earlier supervisor of the run had numbered.
    pub(super) fn go_on_after(&self, before: &Continues) {
        let mut state = self.0.lock();
        state.blocks.go_on_after(before.blocks, before.holds);
    }

    /// The cage has no network: there is nothing to judge, and the agent is to be told why.
    pub(super) fn has_no_network(&self) {
        self.0.lock().no_network = true;
    }

    /// The probes are over: attempts are judged from now on.
    pub(super) fn open(&self) {
        let mut state = self.0.lock();
        if state.phase == Phase::Probing {
            state.phase = Phase::Open;
        }
    }

    /// Waits until the policy, or what is shown in the cage, has changed since it was last waited for.
    pub(super) async fn walls_may_have_moved(&self) {
        self.0.walls_moved.notified().await;
    }

    /// The run is over: every hold is refused, and so is everything that still comes.
    pub(super) fn close(&self) {
        let mut state = self.0.lock();
        state.phase = Phase::Ended;
        let waiters = std::mem::take(&mut state.waiters);
        let bounded = state.bounded.take_all();
        for hold in waiters.keys().chain(&bounded) {
            state.blocks.give_up(*hold, At::now());
        }
        let now = self.0.now_ms();
        for block in state.blocks.take_all(now) {
            self.0.feed.tell(EventKind::Block { block });
        }
        for told in state.teller.take_all(now) {
            self.0.tell(told);
        }
    }

    /// Whether something of the run waits for an answer.
    pub(super) fn is_holding(&self) -> bool {
        let state = self.0.lock();
        !state.waiters.is_empty() || state.bounded.is_waiting()
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
}

/// What an attempt gets at once.
enum Answer<V> {
    Now(V),
    /// Refused unattended, under this block; the process behind it is wanted.
    Name(BlockId),
    Wait(Held, oneshot::Receiver<V>),
}

/// What a hold of one kind is answered with.
struct Kind<V> {
    refuse: V,
    answering: fn(oneshot::Sender<V>, Option<&FileHold>) -> Answering,
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
        for told in state.teller.take_due(now) {
            self.tell(told);
        }
        let waits = state.blocks.has_changes() || state.teller.has_pending();
        if waits {
            self.later.notify_one();
        }
        waits
    }

    fn retell(&self, state: &mut State, what: Retold) {
        if let Some(told) = state.teller.offer(what, self.now_ms()) {
            self.tell(told);
        }
    }

    fn tell(&self, told: Told) {
        self.feed.tell_of(told.kind, None, told.process);
    }

    /// What becomes of a connection. `floor` is why no rule of this machine can open it, as a sentence.
    fn ask(&self, subject: &Subject, floor: Option<String>, vetted: bool) -> Answer<Verdict> {
        let mut guard = self.lock();
        // Read under the lock: what is allowed here must not be older than the last cut of what expired.
        let at = At::now();
        let state = &mut *guard;
        match state.phase {
            Phase::Probing | Phase::Ended => return Answer::Now(Verdict::Refuse),
            Phase::Open => {}
        }
        let ruling = match floor {
            Some(why) => Ruling::Refuse {
                by: Decider::Floor,
                why,
                reason: String::new(),
            },
            None => self.ruling(state, subject, at),
        };
        let answer = match ruling {
            Ruling::Allow {
                rule, resolves_to, ..
            } => Answer::Now(self.allow(state, subject, None, rule, resolves_to)),
            Ruling::Refuse { by, why, reason } => {
                self.refuse(state, subject, None, (by, why, reason), at);
                Answer::Now(Verdict::Refuse)
            }
            Ruling::Ask { why } => {
                let stopped = Stopped {
                    subject,
                    file: None,
                    why: &why,
                    address_vetted: vetted,
                    revision: state.policy.revision,
                    at,
                };
                let kind = Kind {
                    refuse: Verdict::Refuse,
                    answering: |answer, _| Answering::Gateway(answer),
                };
                self.hold(state, &stopped, kind)
            }
        };
        // A new block is told together with its process, when that is found soon.
        if matches!(answer, Answer::Now(_)) {
            self.tell_due(state);
        }
        answer
    }

    /// What the policy says of a subject. One whose very name says a secret is refused: asking for it, or
    /// showing it on a card, would give the value away.
    fn ruling(&self, state: &State, subject: &Subject, at: At) -> Ruling {
        let names = self
            .feed
            .redactor()
            .names_in(subject.to_string().as_bytes());
        match names.first() {
            None => state.policy.judge(Question::of(subject), at),
            Some(name) => Ruling::Refuse {
                by: Decider::Floor,
                why: format!(
                    "Its name says the secret {name}, which leaves a run only as what it is sent"
                ),
                reason: String::new(),
            },
        }
    }

    /// Refuses by the floor or a denial, and keeps it for `foreman why`.
    fn refuse(
        &self,
        state: &mut State,
        subject: &Subject,
        file: Option<&FileHold>,
        (by, why, reason): (Decider, String, String),
        at: At,
    ) {
        if !state.blocks.count_denied(&key_of(subject, file), at) {
            let refusal = Refusal {
                subject: subject.clone(),
                status: Status::of(by),
                why: why.clone(),
                reason,
                count: 1,
                at,
            };
            state.refusals.note(refusal);
        }
        self.retell_refusal(state, subject, file, by, why);
    }

    fn hold<V>(&self, state: &mut State, stopped: &Stopped<'_>, kind: Kind<V>) -> Answer<V> {
        let (subject, file) = (stopped.subject, stopped.file);
        if self.is_given_up(state, stopped) {
            return Answer::Now(kind.refuse);
        }
        match self.hold {
            HoldMode::Hold => match state.blocks.hold(stopped) {
                Ok(held) => {
                    if state.limit.is_some() {
                        self.opened.notify_one();
                    }
                    let (sender, receiver) = oneshot::channel();
                    let waiter = Waiter {
                        subject: subject.clone(),
                        answer: (kind.answering)(sender, file),
                    };
                    state.waiters.insert(held.hold, waiter);
                    Answer::Wait(held, receiver)
                }
                Err(full) => {
                    self.refuse_full(state, stopped, full);
                    Answer::Now(kind.refuse)
                }
            },
            HoldMode::Refuse => match state.blocks.refuse_unattended(stopped) {
                Ok((block, wants_holder)) => {
                    let why = why::unattended(stopped.why);
                    let by = Decider::Unattended;
                    self.retell_refusal(state, subject, file, by, why);
                    if wants_holder {
                        Answer::Name(block)
                    } else {
                        Answer::Now(kind.refuse)
                    }
                }
                Err(full) => {
                    self.refuse_full(state, stopped, full);
                    Answer::Now(kind.refuse)
                }
            },
        }
    }

    /// Puts one refusal into the feed.
    fn retell_refusal(
        &self,
        state: &mut State,
        subject: &Subject,
        file: Option<&FileHold>,
        by: Decider,
        why: String,
    ) {
        let refused = Retold::Refused {
            subject: subject.clone(),
            folder: file.map(|file| file.folder.clone()),
            by,
            why,
            count: 1,
        };
        self.retell(state, refused);
    }

    fn refuse_full(&self, state: &mut State, stopped: &Stopped<'_>, full: Full) {
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
        let refusal = Refusal {
            subject: stopped.subject.clone(),
            status: Status::TooMany,
            why: why.clone(),
            reason: String::new(),
            count: 1,
            at: stopped.at,
        };
        state.refusals.note(refusal);
        let by = Decider::Floor;
        self.retell_refusal(state, stopped.subject, stopped.file, by, why);
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
                folder: None,
                rule: rule.0,
            },
        );
        Verdict::Allow(Allowance {
            connection,
            private,
            cut,
        })
    }
}

#[cfg(test)]
#[path = "arbiter/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "arbiter/file_tests.rs"]
mod file_tests;

#[cfg(test)]
#[path = "arbiter/socket_tests.rs"]
mod socket_tests;
