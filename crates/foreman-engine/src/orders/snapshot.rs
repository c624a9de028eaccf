//! What the scheduler is told: the store and this engine's memory, as one picture.

use super::limits::Pauses;
use super::record::decode;
use crate::api::OrderSpec;
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{At, Failure, OrderId, OrderState, RunId};
use foreman_schedule::{
    Amounts, Decision, Estimate, InFlight, OrderFacts, RetryAt, Snapshot, Standing, WaitReason,
    dispatch,
};
use foreman_store::{OrderFilter, OrderStanding, StoredFault, StoredOrder};
use std::collections::{BTreeMap, BTreeSet};

/// Pauses before an order that could not be dispatched as it is is looked at again.
const FIRST_LOOK_MS: i64 = 5_000;
const LONGEST_LOOK_MS: i64 = 300_000;

/// Who looks at the queue, and what for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Look<'a> {
    /// To start what can be started: a fault is looked at again once in a while.
    ToStart,
    /// To show it: a fault is one until it is gone.
    ToShow,
    /// To start this one, as the operator wishes.
    ByHand(&'a OrderId),
}

/// The queue at one moment.
#[derive(Debug)]
pub(super) struct Picture {
    /// Queued and dispatched orders that are readable, oldest first.
    pub orders: BTreeMap<OrderId, (StoredOrder, OrderSpec)>,
    /// Those that are not, and why.
    pub unreadable: Vec<(OrderId, Failure)>,
    /// What the scheduler decides.
    pub decision: Decision,
    /// Queued orders that wait for something that the scheduler is not told: their repository is
    /// paused. And recurring ones, without a reason.
    pub apart: BTreeMap<OrderId, Option<WaitReason>>,
}

impl Picture {
    /// What of the budgets is reserved for an order that starts.
    pub fn reserved(&self, id: &OrderId) -> Amounts {
        self.decision.reserve.get(id).copied().unwrap_or_default()
    }
}

impl Engine {
    /// Looks at the queue. The caller has the queue's turn where it means to start something.
    pub(super) async fn picture(&self, look: Look<'_>, now: At) -> Result<Picture, Failure> {
        // Before the store is read: whoever is claimed meanwhile is counted all the same.
        let starting = self.queue.starting();
        let limits = self.limits().await?;
        let pauses = self.pauses().await?;
        let live = self.live_runs().await?;
        let standings = self.store.order_standings().await.or_fail()?;
        let (orders, unreadable) = self.open_orders().await?;
        let mut picture = Picture {
            orders,
            unreadable,
            decision: Decision::default(),
            apart: BTreeMap::new(),
        };
        let mut snapshot = Snapshot {
            now,
            paused: pauses.all,
            manual: BTreeSet::new(),
            book: self.book(&limits, now).await?,
            limits,
            orders: Vec::new(),
            in_flight: Vec::new(),
        };
        let children = children_of_each(&standings);
        for (order, spec) in picture.orders.values() {
            let by_hand = order.manual || matches!(look, Look::ByHand(id) if *id == order.id);
            if by_hand {
                snapshot.manual.insert(order.id.clone());
            }
            let children = children.get(&order.id).copied().unwrap_or(0);
            let mut facts = facts_of(order, spec, children);
            facts.fault = fault_of(order.fault.as_ref(), look, by_hand, now);
            if starting.contains(&order.id) {
                facts.standing = Standing::InFlight;
            }
            if facts.standing == Standing::Ready
                && let Some(apart) = apart(order, spec, &pauses, by_hand)
            {
                facts.standing = Standing::InFlight;
                picture.apart.insert(order.id.clone(), apart);
            }
            snapshot.orders.push(facts);
            let is_starting = starting.contains(&order.id);
            if let Some(is_live) = holds(&order.state, is_starting, |run| live.contains_key(run)) {
                snapshot.in_flight.push(in_flight(order, spec, is_live));
            }
        }
        // Runs without an order, and those of orders that are not wanted any more: they run all the same.
        let runs_of_orders: BTreeSet<&RunId> = picture
            .orders
            .values()
            .filter_map(|(order, _)| match &order.state {
                OrderState::Dispatched { run } => Some(run),
                _ => None,
            })
            .collect();
        for (run, (order, repo_key)) in &live {
            if runs_of_orders.contains(run) || starting.contains(order) {
                continue;
            }
            snapshot.in_flight.push(InFlight {
                order: None,
                repository: repo_key.clone(),
                claim: None,
                group: None,
                kind: None,
                concurrency_class: None,
                live: true,
            });
        }
        snapshot.orders.extend(finished(&picture, &standings));
        let groups = groups(&snapshot.orders, &standings);
        snapshot.orders.extend(groups);
        picture.decision = dispatch(&snapshot);
        Ok(picture)
    }

    /// Live runs: their order and their repository.
    async fn live_runs(&self) -> Result<BTreeMap<RunId, (OrderId, String)>, Failure> {
        let runs = self.store.unsettled_runs().await.or_fail()?;
        Ok(runs
            .into_iter()
            .filter(|run| run.state.is_live())
            .map(|run| (run.id, (run.order, run.repo_key)))
            .collect())
    }

    /// Queued and dispatched orders; those that are unreadable by themselves.
    pub(super) async fn open_orders(
        &self,
    ) -> Result<
        (
            BTreeMap<OrderId, (StoredOrder, OrderSpec)>,
            Vec<(OrderId, Failure)>,
        ),
        Failure,
    > {
        let (mut orders, mut unreadable) = (BTreeMap::new(), Vec::new());
        for order in self.store.orders(OrderFilter::Open).await.or_fail()? {
            let read = match order {
                Ok(order) => decode(&order)
                    .map(|spec| (order.clone(), spec))
                    .map_err(|failure| (order.id, failure)),
                Err((id, error)) => Err(error)
                    .or_fail()
                    .map_err(|failure: Failure| (id, failure)),
            };
            match read {
                Ok((order, spec)) => drop(orders.insert(order.id.clone(), (order, spec))),
                Err(unread) => unreadable.push(unread),
            }
        }
        Ok((orders, unreadable))
    }
}

/// How many orders, closed ones too, name each as their parent.
fn children_of_each(standings: &[OrderStanding]) -> BTreeMap<&OrderId, u32> {
    let mut children = BTreeMap::new();
    for parent in standings.iter().filter_map(|order| order.parent.as_ref()) {
        *children.entry(parent).or_default() += 1;
    }
    children
}

fn facts_of(order: &StoredOrder, spec: &OrderSpec, children: u32) -> OrderFacts {
    OrderFacts {
        id: order.id.clone(),
        standing: standing(&order.state),
        repository: order.repo_key.clone(),
        created: Some(order.created_at),
        hints: spec.hints.clone(),
        claim: spec.scope.clone(),
        depends_on: spec.depends_on.clone(),
        children,
        group: order.group.clone(),
        estimate: Estimate {
            // A bound is the most that it can need.
            tokens: spec.run.bounds.tokens,
            cost_micros: spec.run.bounds.cost_microusd,
            wall_seconds: spec.estimate_wall_seconds.or(spec.run.bounds.wall_seconds),
        },
        retry: order.retry.clone().map(|(at, why)| RetryAt { at, why }),
        fault: None,
    }
}

fn standing(state: &OrderState) -> Standing {
    match state {
        OrderState::Queued => Standing::Ready,
        OrderState::Dispatched { .. } => Standing::InFlight,
        OrderState::Done { .. } => Standing::Done,
        OrderState::Failed { .. } | OrderState::Cancelled => Standing::Closed,
    }
}

/// Whether an order holds a place, and whether its run lives. One that is being started lives although the
/// list of live runs, which was read a moment before its run was recorded, does not have it.
fn holds(state: &OrderState, is_starting: bool, lives: impl Fn(&RunId) -> bool) -> Option<bool> {
    match state {
        _ if is_starting => Some(true),
        OrderState::Dispatched { run } => Some(lives(run)),
        OrderState::Queued
        | OrderState::Done { .. }
        | OrderState::Failed { .. }
        | OrderState::Cancelled => None,
    }
}

fn in_flight(order: &StoredOrder, spec: &OrderSpec, live: bool) -> InFlight {
    InFlight {
        order: Some(order.id.clone()),
        repository: order.repo_key.clone(),
        claim: spec.scope.clone(),
        group: order.group.clone(),
        kind: spec.hints.kind.clone(),
        concurrency_class: spec.hints.concurrency_class.clone(),
        live,
    }
}

/// What keeps a queued order out of the scheduler's sight: it recurs, or its repository is paused.
fn apart(
    order: &StoredOrder,
    spec: &OrderSpec,
    pauses: &Pauses,
    by_hand: bool,
) -> Option<Option<WaitReason>> {
    if spec.hints.recurrence.is_some() {
        return Some(None);
    }
    let paused = !by_hand && pauses.repos.contains_key(&order.repo_key);
    paused.then_some(Some(WaitReason::Paused))
}

/// The fault that keeps an order from being dispatched now.
fn fault_of(fault: Option<&StoredFault>, look: Look<'_>, by_hand: bool, now: At) -> Option<String> {
    let fault = fault.filter(|_| !by_hand)?;
    let doublings = fault.times.saturating_sub(1).min(10);
    let pause = (FIRST_LOOK_MS << doublings).min(LONGEST_LOOK_MS);
    let is_due = now.as_millis() >= fault.at.as_millis().saturating_add(pause);
    match look {
        Look::ToStart | Look::ByHand(_) if is_due => None,
        Look::ToStart | Look::ByHand(_) | Look::ToShow => Some(fault.message.clone()),
    }
}

/// Finished orders, as far as others need to know of them; and unreadable ones, which are not done.
fn finished<'a>(
    picture: &'a Picture,
    standings: &'a [OrderStanding],
) -> impl Iterator<Item = OrderFacts> + 'a {
    standings
        .iter()
        .filter(|order| !picture.orders.contains_key(&order.id))
        .map(|order| {
            let standing = match standing(&order.state) {
                Standing::Ready => Standing::InFlight,
                standing => standing,
            };
            bare(order.id.clone(), standing)
        })
}

/// Groups that somebody depends on: done as soon as one of their attempts is.
fn groups(orders: &[OrderFacts], standings: &[OrderStanding]) -> Vec<OrderFacts> {
    let known: BTreeSet<&OrderId> = orders.iter().map(|order| &order.id).collect();
    let wanted: BTreeSet<&OrderId> = orders
        .iter()
        .flat_map(|order| &order.depends_on)
        .filter(|need| !known.contains(need))
        .collect();
    let of_group = |group: &&OrderId| {
        let members: Vec<Standing> = standings
            .iter()
            .filter(|order| order.group.as_deref() == Some(group.as_str()))
            .map(|order| standing(&order.state))
            .collect();
        let is = |wanted: Standing| move |standing: &Standing| *standing == wanted;
        let standing = match members.as_slice() {
            [] => return None,
            members if members.iter().any(is(Standing::Done)) => Standing::Done,
            members if members.iter().all(is(Standing::Closed)) => Standing::Closed,
            _ => Standing::InFlight,
        };
        Some(bare((*group).clone(), standing))
    };
    wanted.iter().filter_map(of_group).collect()
}

fn bare(id: OrderId, standing: Standing) -> OrderFacts {
    OrderFacts {
        id,
        standing,
        repository: String::new(),
        created: None,
        hints: foreman_schedule::Hints::default(),
        claim: None,
        depends_on: Vec::new(),
        children: 0,
        group: None,
        estimate: Estimate::default(),
        retry: None,
        fault: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_whose_run_was_recorded_while_the_queue_was_looked_at_counts_as_live() {
        let run = RunId::from_random(1);
        let dispatched = OrderState::Dispatched { run };
        assert_eq!(holds(&dispatched, true, |_| false), Some(true));
        assert_eq!(holds(&dispatched, false, |_| false), Some(false));
        assert_eq!(holds(&dispatched, false, |_| true), Some(true));
        assert_eq!(holds(&OrderState::Queued, true, |_| false), Some(true));
        assert_eq!(holds(&OrderState::Queued, false, |_| true), None);
    }
}
