//! The order of the queue: sort keys, the lift of blockers, and circles.

use crate::{Complexity, Hints, Impact, OrderFacts};
use foreman_domain::{At, OrderId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// An order's place; the smallest comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    priority: Reverse<bool>,
    impact: (bool, Option<Impact>),
    complexity: (bool, Option<Complexity>),
    created: (bool, Option<At>),
    id: OrderId,
}

impl Key {
    /// The key of an order by itself. What is missing sorts last.
    pub(crate) fn of(order: &OrderFacts) -> Self {
        let Hints {
            priority,
            impact,
            complexity,
            ..
        } = order.hints;
        Self {
            priority: Reverse(priority),
            impact: (impact.is_none(), impact),
            complexity: (complexity.is_none(), complexity),
            created: (order.created.is_none(), order.created),
            id: order.id.clone(),
        }
    }
}

/// Dependencies among some orders: edges to anything else are left out.
pub(crate) struct Graph<'a> {
    orders: Vec<&'a OrderFacts>,
    needs: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    /// The graph of `orders`, whose ids differ.
    pub(crate) fn new(orders: Vec<&'a OrderFacts>) -> Self {
        let places: BTreeMap<&OrderId, usize> = orders
            .iter()
            .enumerate()
            .map(|(place, order)| (&order.id, place))
            .collect();
        let needs = orders
            .iter()
            .map(|order| {
                let needs = order.depends_on.iter();
                needs.filter_map(|need| places.get(need).copied()).collect()
            })
            .collect();
        Self { orders, needs }
    }

    /// Every circle, as the sorted ids of all orders that reach each other; an order that names itself
    /// is a circle of one.
    pub(crate) fn circles(&self) -> Vec<Vec<OrderId>> {
        let mut circles = Vec::new();
        for members in components(&self.needs) {
            let names_itself = |&only: &usize| self.needs[only].contains(&only);
            if members.len() > 1 || members.iter().any(names_itself) {
                let mut ids: Vec<OrderId> = members
                    .iter()
                    .map(|&member| self.orders[member].id.clone())
                    .collect();
                ids.sort();
                circles.push(ids);
            }
        }
        circles.sort();
        circles
    }

    /// The orders from first to last: each has the best key of itself and of everything that depends
    /// on it, however far away; equal keys go by the orders' own.
    pub(crate) fn lifted(self) -> Vec<&'a OrderFacts> {
        let own: Vec<Key> = self.orders.iter().map(|order| Key::of(order)).collect();
        let mut by_key: Vec<usize> = (0..self.orders.len()).collect();
        by_key.sort_by(|&left, &right| own[left].cmp(&own[right]));
        // From the best key on, each gives its own to whatever it needs and has none yet: what gets
        // one later would only get a worse one.
        let mut lifted: Vec<Option<usize>> = vec![None; self.orders.len()];
        for &source in &by_key {
            let mut open = vec![source];
            while let Some(place) = open.pop() {
                if lifted[place].is_none() {
                    lifted[place] = Some(source);
                    open.extend(&self.needs[place]);
                }
            }
        }
        by_key.sort_by(|&left, &right| {
            let best = |place: usize| lifted[place].map(|source| &own[source]);
            (best(left), &own[left]).cmp(&(best(right), &own[right]))
        });
        by_key.into_iter().map(|place| self.orders[place]).collect()
    }
}

/// Strongly connected components (Tarjan), without recursion: a chain of dependencies may be long.
fn components(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut index = vec![UNSEEN; needs.len()];
    let mut low = vec![0; needs.len()];
    let mut on_stack = vec![false; needs.len()];
    let mut stack = Vec::new();
    let mut found = Vec::new();
    let mut counter = 0;
    for root in 0..needs.len() {
        if index[root] != UNSEEN {
            continue;
        }
        let mut calls = vec![(root, 0)];
        while let Some(&(place, next)) = calls.last() {
            if next == 0 {
                index[place] = counter;
                low[place] = counter;
                counter += 1;
                stack.push(place);
                on_stack[place] = true;
            }
            if let Some(&need) = needs[place].get(next) {
                if let Some(call) = calls.last_mut() {
                    call.1 += 1;
                }
                if index[need] == UNSEEN {
                    calls.push((need, 0));
                } else if on_stack[need] {
                    low[place] = low[place].min(index[need]);
                }
                continue;
            }
            calls.pop();
            if let Some(&(caller, _)) = calls.last() {
                low[caller] = low[caller].min(low[place]);
            }
            if low[place] == index[place] {
                let mut members = Vec::new();
                while let Some(member) = stack.pop() {
                    on_stack[member] = false;
                    members.push(member);
                    if member == place {
                        break;
                    }
                }
                found.push(members);
            }
        }
    }
    found
}
