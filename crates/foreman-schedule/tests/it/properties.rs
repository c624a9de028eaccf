//! What holds for every queue.

use crate::making::{id, live, some_snapshot};
use foreman_domain::OrderId;
use foreman_schedule::{
    CompareScopes, Decision, Enforcement, Globs, InFlight, OrderFacts, ScopeClaim, Snapshot,
    Standing, WaitReason, dispatch,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn by_id(snapshot: &Snapshot) -> BTreeMap<&OrderId, &OrderFacts> {
    snapshot
        .orders
        .iter()
        .map(|order| (&order.id, order))
        .collect()
}

fn declared(claim: Option<&ScopeClaim>) -> Option<&ScopeClaim> {
    claim.filter(|claim| !claim.patterns.is_empty())
}

/// Whether the table keeps `later` from starting while `holder`, which came before, runs. Written down
/// again from the table, not called from the crate.
pub fn kept_apart(holder: &InFlight, later: &OrderFacts) -> bool {
    let same_group = holder.group.is_some() && holder.group == later.group;
    if holder.repository != later.repository || same_group {
        return false;
    }
    let strict = |claim: &ScopeClaim| claim.strict && claim.enforcement == Enforcement::Mandatory;
    match (
        declared(holder.claim.as_ref()),
        declared(later.claim.as_ref()),
    ) {
        (None, None) => false,
        (None, Some(ours)) => holder.live && strict(ours),
        (Some(theirs), None) => strict(theirs),
        (Some(theirs), Some(ours)) => {
            let holds = holder.live || theirs.enforcement == Enforcement::Mandatory;
            holds && Globs.overlap(&ours.patterns, &theirs.patterns).is_some()
        }
    }
}

/// Everything in flight after the decision.
fn after(snapshot: &Snapshot, decision: &Decision) -> Vec<InFlight> {
    let orders = by_id(snapshot);
    let started = decision.start.iter().map(|id| live(orders[id]));
    snapshot.in_flight.iter().cloned().chain(started).collect()
}

fn count(in_flight: &[InFlight], matches: impl Fn(&InFlight) -> bool) -> u32 {
    let live = in_flight.iter().filter(|held| held.live && matches(held));
    u32::try_from(live.count()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_decision_does_not_depend_on_the_order_of_its_input(
        (snapshot, shuffled) in some_snapshot(12, true).prop_flat_map(|snapshot| {
            let orders = Just(snapshot.orders.clone()).prop_shuffle();
            let in_flight = Just(snapshot.in_flight.clone()).prop_shuffle();
            let book = Just(snapshot.book.clone()).prop_shuffle();
            let base = snapshot.clone();
            let shuffled = (orders, in_flight, book).prop_map(move |(orders, in_flight, book)| Snapshot {
                orders, in_flight, book, ..base.clone()
            });
            (Just(snapshot), shuffled)
        })
    ) {
        prop_assert_eq!(dispatch(&snapshot), dispatch(&shuffled));
    }

    #[test]
    fn every_ready_order_starts_or_waits_and_no_other_is_spoken_of(snapshot in some_snapshot(12, true)) {
        let decision = dispatch(&snapshot);
        let ready = snapshot.orders.iter().filter(|order| order.standing == Standing::Ready);
        let mut ready: Vec<&OrderId> = ready.map(|order| &order.id).collect();
        let waiting = decision.waiting.iter().map(|(id, _)| id);
        let mut spoken: Vec<&OrderId> = decision.start.iter().chain(waiting).collect();
        ready.sort();
        spoken.sort();
        prop_assert_eq!(ready, spoken);
        for (id, _) in &decision.errors {
            prop_assert!(decision.waiting.iter().any(|(waiting, _)| waiting == id));
        }
    }

    #[test]
    fn what_starts_is_allowed_to(snapshot in some_snapshot(12, true)) {
        let orders = by_id(&snapshot);
        for id in dispatch(&snapshot).start {
            let order = orders[&id];
            prop_assert!(order.fault.is_none() && order.children == 0);
            prop_assert!(!snapshot.paused || snapshot.manual.contains(&id));
            prop_assert!(order.hints.not_before.is_none_or(|at| at <= snapshot.now));
            prop_assert!(order.retry.as_ref().is_none_or(|retry| retry.at <= snapshot.now));
            for need in &order.depends_on {
                prop_assert_eq!(orders.get(need).map(|need| need.standing), Some(Standing::Done));
            }
        }
    }

    #[test]
    fn no_two_orders_that_clash_are_started_together(snapshot in some_snapshot(12, true)) {
        let decision = dispatch(&snapshot);
        let in_flight = after(&snapshot, &decision);
        let orders = by_id(&snapshot);
        for (place, id) in decision.start.iter().enumerate() {
            for holder in &in_flight[..snapshot.in_flight.len() + place] {
                prop_assert!(!kept_apart(holder, orders[id]), "{:?} beside {:?}", id, holder);
            }
        }
    }

    #[test]
    fn caps_are_never_exceeded_by_a_decision(snapshot in some_snapshot(14, true)) {
        let decision = dispatch(&snapshot);
        let (before, after) = (&snapshot.in_flight, &after(&snapshot, &decision));
        let limits = &snapshot.limits;
        let holds = |cap: Option<u32>, matches: &dyn Fn(&InFlight) -> bool| {
            let cap = cap.filter(|cap| *cap > 0);
            cap.is_none_or(|cap| count(after, matches) <= cap.max(count(before, matches)))
        };
        prop_assert!(holds(limits.total, &|_| true));
        for repository in ["/srv/home.git", "/srv/away.git"] {
            prop_assert!(holds(limits.per_repository, &|held| held.repository == repository));
        }
        for kind in ["fix", "plan"] {
            prop_assert!(holds(limits.per_kind.get(kind).copied(), &|held| held.kind.as_deref() == Some(kind)));
        }
        for class in ["db", "device"] {
            let cap = limits.per_class.get(class).copied().unwrap_or(1);
            prop_assert!(holds(Some(cap), &|held| held.concurrency_class.as_deref() == Some(class)));
        }
    }

    #[test]
    fn reservations_never_overshoot_a_budget(snapshot in some_snapshot(12, true)) {
        let decision = dispatch(&snapshot);
        let reserved: u64 = decision.reserve.values().map(|amounts| amounts.tokens).sum();
        let window = i64::try_from(snapshot.limits.budgets.window_seconds).unwrap() * 1000;
        let counts = |entry: &&foreman_schedule::BudgetUse| {
            entry.settled.is_none_or(|at| at.as_millis() + window > snapshot.now.as_millis())
        };
        let used: u64 = snapshot.book.iter().filter(counts).map(|entry| entry.amounts.tokens).sum();
        if let Some(budget) = snapshot.limits.budgets.tokens.filter(|budget| *budget > 0) {
            prop_assert!(reserved == 0 || used + reserved <= budget);
        }
        let started: BTreeSet<&OrderId> = decision.start.iter().collect();
        prop_assert_eq!(started, decision.reserve.keys().collect::<BTreeSet<_>>());
    }

    #[test]
    fn with_nothing_in_flight_no_scope_claim_keeps_everything_waiting(snapshot in some_snapshot(12, false)) {
        let decision = dispatch(&snapshot);
        if decision.start.is_empty() {
            for (id, reason) in &decision.waiting {
                prop_assert!(!matches!(reason, WaitReason::Scope { .. } | WaitReason::Cap { .. }), "{:?}: {:?}", id, reason);
            }
        }
    }

    #[test]
    fn a_queue_is_worked_off_whatever_its_claims(snapshot in some_snapshot(10, false)) {
        let mut snapshot = snapshot;
        snapshot.limits.budgets.tokens = None;
        for _ in 0..=snapshot.orders.len() {
            let decision = dispatch(&snapshot);
            if decision.start.is_empty() {
                break;
            }
            for order in &mut snapshot.orders {
                if decision.start.contains(&order.id) {
                    order.standing = Standing::Done;
                }
            }
        }
        for (id, reason) in dispatch(&snapshot).waiting {
            prop_assert!(!matches!(reason, WaitReason::Scope { .. } | WaitReason::Cap { .. }), "{:?}: {:?}", id, reason);
        }
    }

    #[test]
    fn a_new_dependent_never_moves_its_blocker_back(
        (snapshot, blocker, priority) in (some_snapshot(10, false), 0usize..10, any::<bool>())
    ) {
        let mut snapshot = snapshot;
        snapshot.limits = foreman_schedule::Limits { total: Some(0), ..Default::default() };
        snapshot.limits.per_class.extend([("db".to_owned(), 0), ("device".to_owned(), 0)]);
        for order in &mut snapshot.orders {
            order.claim = None;
        }
        let blocker = snapshot.orders[blocker % snapshot.orders.len()].id.clone();
        let place = |snapshot: &Snapshot| {
            let decision = dispatch(snapshot);
            let before = decision.start.iter().take_while(|id| **id != blocker).cloned();
            decision.start.contains(&blocker).then(|| before.collect::<BTreeSet<_>>())
        };
        let before = place(&snapshot);
        let mut dependent = crate::making::needing("new", &[blocker.as_str()]);
        dependent.hints.priority = priority;
        snapshot.orders.push(dependent);
        let after = place(&snapshot);
        prop_assert_eq!(before.is_some(), after.is_some());
        if let (Some(before), Some(after)) = (before, after) {
            prop_assert!(after.is_subset(&before), "{:?} came before and now {:?}", before, after);
        }
    }

    #[test]
    fn a_circle_stops_its_members_only(snapshot in some_snapshot(10, false)) {
        let mut snapshot = snapshot;
        snapshot.limits = foreman_schedule::Limits { total: Some(0), ..Default::default() };
        let before = dispatch(&snapshot);
        let pair = [crate::making::needing("p", &["q"]), crate::making::needing("q", &["p", "o0"])];
        snapshot.orders.extend(pair);
        let after = dispatch(&snapshot);
        prop_assert_eq!(before.start, after.start);
        let members = [id("p"), id("q")];
        let new: Vec<_> = after.errors.iter().filter(|error| !before.errors.contains(error)).collect();
        prop_assert_eq!(new.len(), 2);
        for (id, _) in new {
            prop_assert!(members.contains(id));
        }
    }

    #[test]
    fn a_decision_that_was_carried_out_is_not_made_again(snapshot in some_snapshot(10, true)) {
        let first = dispatch(&snapshot);
        let mut next = snapshot.clone();
        next.in_flight = after(&snapshot, &first);
        for order in &mut next.orders {
            if first.start.contains(&order.id) {
                order.standing = Standing::InFlight;
            }
        }
        next.book.extend(first.reserve.values().map(|amounts| foreman_schedule::BudgetUse {
            amounts: *amounts,
            settled: None,
        }));
        prop_assert_eq!(dispatch(&next).start, Vec::<OrderId>::new());
    }
}
