//! The decision itself.

use crate::budget::Book;
use crate::rank::{Graph, Key};
use crate::scope::Scopes;
use crate::wait::{Unmet, UnmetState};
use crate::{
    Autonomy, CapKind, CompareScopes, Decision, Globs, InFlight, OrderFacts, OrderFault, Snapshot,
    Standing, WaitReason,
};
use foreman_domain::OrderId;
use std::collections::{BTreeMap, BTreeSet};

/// Decides what starts now and what each other ready order waits for.
///
/// 1. Candidates are ready, not for people only, their time has come, and the queue is not paused.
///    An order that was dispatched by hand passes autonomy and pause, and nothing else.
/// 2. They are sorted: priority; impact; complexity; oldest; id. What is missing sorts last.
/// 3. A blocker takes the best place of what depends on it, however far away. Members of a circle are
///    errors and lift nobody; whatever is not a member goes on.
/// 4. Roll-ups, kinds that are not accepted and unmet dependencies wait.
/// 5. Then caps, 6. scope claims, 7. budgets, each counting what this decision has started already. An
///    order that waits keeps its place and takes nothing.
#[must_use]
pub fn dispatch(snapshot: &Snapshot) -> Decision {
    dispatch_by(snapshot, &Globs)
}

/// [`dispatch`] with another comparer of scopes.
#[must_use]
pub fn dispatch_by(snapshot: &Snapshot, comparer: &dyn CompareScopes) -> Decision {
    let corpus = Corpus::new(snapshot);
    let mut decision = Decision::default();
    let mut reasons: BTreeMap<&OrderId, WaitReason> = BTreeMap::new();

    for (id, fault) in corpus.faults() {
        reasons.insert(id, reason_of(&fault));
        decision.errors.push((id.clone(), fault));
    }
    decision.errors.sort_by(|left, right| left.0.cmp(&right.0));

    let mut candidates = Vec::new();
    for order in corpus.ready() {
        if reasons.contains_key(&order.id) {
            continue;
        }
        match not_yet(order, snapshot) {
            Some(reason) => drop(reasons.insert(&order.id, reason)),
            None => candidates.push(order),
        }
    }

    let mut taken = Taken::new(snapshot, comparer);
    let mut queue = Graph::new(candidates).lifted();
    for order in &queue {
        let reason = never(order, snapshot)
            .or_else(|| corpus.unmet(order))
            .or_else(|| taken.refuses(order));
        if let Some(reason) = reason {
            reasons.insert(&order.id, reason);
        } else {
            decision
                .reserve
                .insert(order.id.clone(), taken.start(order));
            decision.start.push(order.id.clone());
        }
    }

    // Those that are no candidates come after the queue, in their own order.
    let mut rest: Vec<&OrderFacts> = corpus.ready().collect();
    rest.sort_by_key(|order| Key::of(order));
    queue.extend(rest);
    for order in queue {
        if let Some(reason) = reasons.remove(&order.id) {
            decision.waiting.push((order.id.clone(), reason));
        }
    }
    decision
}

/// The orders by id, and those that share one.
struct Corpus<'a> {
    orders: BTreeMap<&'a OrderId, &'a OrderFacts>,
    doubles: BTreeMap<&'a OrderId, &'a OrderFacts>,
}

impl<'a> Corpus<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut orders = BTreeMap::new();
        let mut doubles = BTreeMap::new();
        for order in &snapshot.orders {
            if orders.insert(&order.id, order).is_some() {
                doubles.insert(&order.id, order);
            }
        }
        orders.retain(|id, _| !doubles.contains_key(id));
        Self { orders, doubles }
    }

    /// Ready orders, those with a double included once, by id.
    fn ready(&self) -> impl Iterator<Item = &'a OrderFacts> + '_ {
        let ready = |order: &&OrderFacts| order.standing == Standing::Ready;
        let single = self.orders.values().copied().filter(ready);
        single.chain(self.doubles.values().copied())
    }

    fn faults(&self) -> Vec<(&'a OrderId, OrderFault)> {
        let mut faults: Vec<(&OrderId, OrderFault)> = Vec::new();
        for &id in self.doubles.keys() {
            faults.push((id, OrderFault::DuplicateId { id: id.clone() }));
        }
        let ready = self.orders.values().copied();
        let ready: Vec<&OrderFacts> = ready
            .filter(|order| order.standing == Standing::Ready)
            .collect();
        for order in &ready {
            if let Some(message) = order.fault.clone() {
                faults.push((&order.id, OrderFault::Unusable { message }));
            }
        }
        let unusable: BTreeSet<&OrderId> = faults.iter().map(|(id, _)| *id).collect();
        for members in Graph::new(ready.clone()).circles() {
            for order in &ready {
                if members.contains(&order.id) && !unusable.contains(&order.id) {
                    let members = members.clone();
                    faults.push((&order.id, OrderFault::Cycle { members }));
                }
            }
        }
        faults
    }

    fn unmet(&self, order: &OrderFacts) -> Option<WaitReason> {
        let mut seen = BTreeSet::new();
        let mut on = Vec::new();
        for need in order.depends_on.iter().filter(|need| seen.insert(*need)) {
            let state = match self.orders.get(need).map(|order| order.standing) {
                Some(Standing::Done) => continue,
                Some(Standing::Ready | Standing::InFlight) => UnmetState::Unfinished,
                Some(Standing::Closed) => UnmetState::NotDone,
                None if self.doubles.contains_key(need) => UnmetState::Unfinished,
                None => UnmetState::Missing,
            };
            on.push(Unmet {
                order: need.clone(),
                state,
            });
        }
        (!on.is_empty()).then_some(WaitReason::Dependency { on })
    }
}

fn reason_of(fault: &OrderFault) -> WaitReason {
    match fault {
        OrderFault::Cycle { members } => WaitReason::Cycle {
            members: members.clone(),
        },
        OrderFault::DuplicateId { .. } | OrderFault::Unusable { .. } => WaitReason::Fault {
            message: fault.to_string(),
        },
    }
}

/// Why a ready order is no candidate.
fn not_yet(order: &OrderFacts, snapshot: &Snapshot) -> Option<WaitReason> {
    let by_hand = snapshot.manual.contains(&order.id);
    if order.hints.autonomy == Autonomy::HumanOnly && !by_hand {
        return Some(WaitReason::HumanOnly);
    }
    if let Some(at) = order.hints.not_before.filter(|at| *at > snapshot.now) {
        return Some(WaitReason::NotBefore { at });
    }
    if let Some(retry) = order.retry.as_ref().filter(|retry| retry.at > snapshot.now) {
        return Some(WaitReason::Retry {
            at: retry.at,
            why: retry.why.clone(),
        });
    }
    (snapshot.paused && !by_hand).then_some(WaitReason::Paused)
}

/// Why a candidate does not run at all, whatever else runs.
fn never(order: &OrderFacts, snapshot: &Snapshot) -> Option<WaitReason> {
    if order.children > 0 {
        return Some(WaitReason::HasChildren {
            children: order.children,
        });
    }
    let kind = order.hints.kind.as_ref()?;
    let accepted = snapshot.limits.kinds_accepted.as_ref()?;
    (!accepted.contains(kind)).then(|| WaitReason::KindNotAccepted { kind: kind.clone() })
}

/// What is in use: by what was in flight, and by what this decision started.
struct Taken<'a> {
    snapshot: &'a Snapshot,
    in_flight: Vec<InFlight>,
    scopes: Scopes<'a>,
    book: Book,
}

impl<'a> Taken<'a> {
    fn new(snapshot: &'a Snapshot, comparer: &'a dyn CompareScopes) -> Self {
        Self {
            snapshot,
            in_flight: snapshot.in_flight.clone(),
            scopes: Scopes::new(comparer),
            book: Book::new(&snapshot.limits.budgets, &snapshot.book, snapshot.now),
        }
    }

    fn refuses(&mut self, order: &OrderFacts) -> Option<WaitReason> {
        let mut own = self.in_flight.iter();
        if own.any(|held| held.live && held.order.as_ref() == Some(&order.id)) {
            return Some(WaitReason::LiveRun);
        }
        self.cap(order)
            .or_else(|| self.scopes.clash(order, &self.in_flight))
            .or_else(|| self.book.short(&order.estimate))
    }

    fn cap(&self, order: &OrderFacts) -> Option<WaitReason> {
        let limits = &self.snapshot.limits;
        let live = |matches: &dyn Fn(&InFlight) -> bool| {
            let live = self.in_flight.iter().filter(|held| held.live);
            live.filter(|held| matches(held)).count()
        };
        let full = |limit: Option<u32>, which: CapKind, matches: &dyn Fn(&InFlight) -> bool| {
            let limit = limit.filter(|limit| *limit > 0)?;
            (live(matches) >= limit as usize).then_some(WaitReason::Cap { which, limit })
        };
        let kind = order.hints.kind.as_ref().and_then(|kind| {
            let limit = limits.per_kind.get(kind).copied();
            full(limit, CapKind::Kind { kind: kind.clone() }, &|held| {
                held.kind.as_ref() == Some(kind)
            })
        });
        let repository = || {
            full(limits.per_repository, CapKind::Repository, &|held| {
                held.repository == order.repository
            })
        };
        let class = || {
            let class = order.hints.concurrency_class.as_ref()?;
            let limit = limits.per_class.get(class).copied().unwrap_or(1);
            let which = CapKind::Class {
                class: class.clone(),
            };
            full(Some(limit), which, &|held| {
                held.concurrency_class.as_ref() == Some(class)
            })
        };
        let total = || full(limits.total, CapKind::Total, &|_| true);
        kind.or_else(repository).or_else(class).or_else(total)
    }

    fn start(&mut self, order: &OrderFacts) -> crate::Amounts {
        self.in_flight.push(InFlight {
            order: Some(order.id.clone()),
            repository: order.repository.clone(),
            claim: order.claim.clone(),
            group: order.group.clone(),
            kind: order.hints.kind.clone(),
            concurrency_class: order.hints.concurrency_class.clone(),
            live: true,
        });
        self.book.reserve(&order.estimate)
    }
}
