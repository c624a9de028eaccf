//! Who holds whom off by a scope claim.

use crate::{CompareScopes, Enforcement, InFlight, OrderFacts, ScopeClaim, WaitReason, Why};
use foreman_domain::OrderId;

/// Judges claims against holders:
///
/// | holder in flight, same repository | candidate | result |
/// |---|---|---|
/// | none, or without a claim | any but mandatory and strict | starts |
/// | without a claim, alive | mandatory and strict | waits |
/// | advisory, alive, overlapping | with a claim | waits |
/// | mandatory, overlapping, until its order is finished | with a claim | waits |
/// | mandatory | without a claim | starts: a clash is caught at the gate |
/// | mandatory and strict, until its order is finished | without a claim | waits |
///
/// Attempts of one group do not hold each other off.
pub(crate) struct Scopes<'a> {
    comparer: &'a dyn CompareScopes,
}

impl<'a> Scopes<'a> {
    pub(crate) fn new(comparer: &'a dyn CompareScopes) -> Self {
        Self { comparer }
    }

    /// What holds `order` off. Of several holders the one with the smallest id is named, so that the
    /// answer does not depend on the order of the list.
    pub(crate) fn clash(&self, order: &OrderFacts, in_flight: &[InFlight]) -> Option<WaitReason> {
        let others = in_flight.iter().filter(|held| concerns(held, order));
        let clashes = others.filter_map(|held| {
            let why = self.between(order.claim.as_ref(), held)?;
            Some((held.order.as_ref(), why))
        });
        let by_holder = |found: &(Option<&OrderId>, Why)| (found.0.is_none(), found.0.cloned());
        let first = clashes
            .min_by(|left, right| (by_holder(left), &left.1).cmp(&(by_holder(right), &right.1)))?;
        Some(WaitReason::Scope {
            held_by: first.0.cloned(),
            why: first.1,
        })
    }

    fn between(&self, ours: Option<&ScopeClaim>, held: &InFlight) -> Option<Why> {
        let ours = declared(ours);
        let Some(theirs) = declared(held.claim.as_ref()) else {
            let strict = ours.is_some_and(is_strict);
            return (strict && held.live).then_some(Why::OursStrict);
        };
        if theirs.enforcement == Enforcement::Advisory && !held.live {
            return None;
        }
        match ours {
            Some(ours) => self
                .comparer
                .overlap(&ours.patterns, &theirs.patterns)
                .map(Why::Overlap),
            None => is_strict(theirs).then_some(Why::HolderStrict),
        }
    }
}

/// Whether a holder can hold this order off at all.
fn concerns(held: &InFlight, order: &OrderFacts) -> bool {
    let same_group = order.group.is_some() && order.group == held.group;
    held.repository == order.repository && !same_group && held.order.as_ref() != Some(&order.id)
}

fn declared(claim: Option<&ScopeClaim>) -> Option<&ScopeClaim> {
    claim.filter(|claim| !claim.patterns.is_empty())
}

fn is_strict(claim: &ScopeClaim) -> bool {
    claim.strict && claim.enforcement == Enforcement::Mandatory
}
