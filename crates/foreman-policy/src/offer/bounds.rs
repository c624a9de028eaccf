//! What the card of a reached bound offers: the bound raised by half or doubled.

use super::Offer;
use crate::quantity::figure_in_words;
use crate::{BoundRule, Layer, Origin, Rule, RuleId};
use foreman_domain::{Block, BoundKind, Breach, Scope};

/// Raises by half and to the double for this run; to the double for its order and its project. What no
/// run's limits can be raised to while it goes on is offered for later runs only.
pub(super) fn offers(block: &Block, bound: BoundKind) -> Vec<Offer> {
    let Some(breach) = block.breach else {
        return Vec::new();
    };
    let half = raised(&breach, breach.limit.saturating_add(breach.limit / 2));
    let double = raised(&breach, breach.limit.saturating_mul(2)).max(step_above(bound, half));
    let mut offers = Vec::new();
    if bound.is_raised_live() {
        for limit in [half, double] {
            let figure = figure_in_words(bound, limit);
            let words = format!("Raise {bound} to {figure} for this run, and let it go on");
            offers.push(offer(bound, limit, Scope::Run, words));
        }
    }
    let figure = figure_in_words(bound, double);
    let later = match bound.is_raised_live() {
        true => "",
        false => ", from the next one on: what runs now keeps its limit",
    };
    for (scope, whose) in [
        (Scope::Order, "of this work order"),
        (Scope::Project, "in this project"),
    ] {
        let words = format!("Raise {bound} to {figure} for every run {whose}{later}");
        offers.push(offer(bound, double, scope, words));
    }
    offers
}

fn offer(bound: BoundKind, limit: u64, scope: Scope, words: String) -> Offer {
    let layer = match scope {
        Scope::Once | Scope::Run => Layer::Amendment,
        Scope::Order => Layer::Order,
        Scope::Project => Layer::Project,
    };
    let opens = match scope {
        Scope::Once | Scope::Run => Vec::new(),
        Scope::Order => vec!["the same in every other run of this work order".to_owned()],
        Scope::Project => vec!["the same in every other run in this project".to_owned()],
    };
    let origin = Origin {
        id: RuleId("offer".into()),
        layer,
        source: "amended by you".into(),
        amendment: None,
        reason: None,
    };
    Offer {
        scope,
        words,
        rule: Rule::Bound(BoundRule {
            origin,
            bound,
            limit,
        }),
        also_opens: 0,
        needs_confirmation: scope == Scope::Project,
        opens,
    }
}

/// At least this, and enough for what is used already and some more: a whole figure.
fn raised(breach: &Breach, least: u64) -> u64 {
    let used = breach.seen.saturating_add(breach.seen / 8);
    up_to(breach.bound, least.max(used).saturating_add(1))
}

fn step_above(bound: BoundKind, figure: u64) -> u64 {
    up_to(bound, figure.saturating_add(1))
}

/// The next figure that reads well.
fn up_to(bound: BoundKind, figure: u64) -> u64 {
    let step = match bound {
        BoundKind::Wall if figure > 600_000 => 60_000,
        BoundKind::Wall => 1_000,
        BoundKind::Memory | BoundKind::Output | BoundKind::Disk => match figure {
            0..0x0100_0000 => 64 << 10,
            0x0100_0000..0x4000_0000 => 1 << 20,
            _ => 128 << 20,
        },
        BoundKind::Cpu => 50,
        BoundKind::Processes | BoundKind::OpenFiles => 8,
        BoundKind::Tokens => 1_000,
        // A cent.
        BoundKind::Cost => 10_000,
        BoundKind::Turns => 5,
    };
    // The smallest multiple that is not below, where there is one.
    figure.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{At, BlockId, BlockState, HoldId, Revision, RunId, Subject};

    fn limits(bound: BoundKind, limit: u64, seen: u64) -> Vec<(Scope, u64)> {
        let block = Block {
            id: BlockId::new(RunId::from_random(1), 1),
            subject: Subject::Bound { bound },
            state: BlockState::Open,
            why: "reached".into(),
            address_vetted: true,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(1),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(0),
            holders: Vec::new(),
            breach: Some(Breach { bound, limit, seen }),
            question: None,
            file: None,
            socket: None,
        };
        let offers = offers(&block, bound);
        offers
            .into_iter()
            .map(|offer| match offer.rule {
                Rule::Bound(rule) => {
                    assert_eq!(rule.bound, bound);
                    assert_eq!(offer.needs_confirmation, offer.scope == Scope::Project);
                    (offer.scope, rule.limit)
                }
                other => panic!("{other}"),
            })
            .collect()
    }

    #[test]
    fn a_bound_is_raised_by_half_and_to_the_double_and_above_what_is_used() {
        let mib = |count: u64| count << 20;
        let found = limits(BoundKind::Memory, mib(96), mib(97));
        let scopes: Vec<_> = found.iter().map(|(scope, _)| *scope).collect();
        assert_eq!(
            scopes,
            [Scope::Run, Scope::Run, Scope::Order, Scope::Project]
        );
        assert!((mib(144)..=mib(145)).contains(&found[0].1), "{found:?}");
        assert!((mib(192)..=mib(193)).contains(&found[1].1), "{found:?}");
        assert_eq!(found[1].1, found[2].1);
        // One that went far over it gets enough to go on.
        let found = limits(BoundKind::Memory, mib(96), mib(400));
        assert!(
            found.iter().all(|(_, limit)| *limit > mib(400)),
            "{found:?}"
        );
        assert!(found[0].1 < found[1].1);
    }

    #[test]
    fn what_cannot_be_raised_while_it_runs_is_offered_for_later_runs_only() {
        for bound in [BoundKind::Processes, BoundKind::OpenFiles] {
            let found = limits(bound, 100, 100);
            let scopes: Vec<_> = found.iter().map(|(scope, _)| *scope).collect();
            assert_eq!(scopes, [Scope::Order, Scope::Project], "{bound}");
        }
    }

    #[test]
    fn the_largest_bounds_do_not_overflow() {
        for bound in [BoundKind::Wall, BoundKind::Disk, BoundKind::Cpu] {
            let found = limits(bound, u64::MAX - 1, u64::MAX - 1);
            assert!(
                found.iter().all(|(_, limit)| *limit == u64::MAX),
                "{found:?}"
            );
        }
    }
}
