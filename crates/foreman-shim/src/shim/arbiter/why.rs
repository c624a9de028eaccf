//! What the agent may know about what was stopped: the blocks, and what was refused without one.

use super::Arbiter;
use crate::why::{Item, NO_NETWORK, Status, WhyAnswer};
use foreman_domain::{At, Block, BlockState, Decider, Subject};
use std::collections::VecDeque;

/// Refusals remembered beside the blocks.
const REFUSALS: usize = 40;
/// Things that `foreman why` names.
const LINES: usize = 20;

/// Something refused without a block.
pub(super) struct Refusal {
    pub(super) subject: Subject,
    pub(super) status: Status,
    pub(super) why: String,
    /// The operator's own words; may be empty.
    pub(super) reason: String,
    pub(super) count: u64,
    pub(super) at: At,
}

/// The newest refusals, one for each subject.
#[derive(Default)]
pub(super) struct Refusals(VecDeque<Refusal>);

impl Refusals {
    /// Notes one, or as many as it counts of one that is known.
    pub(super) fn note(&mut self, refusal: Refusal) {
        let is_same = |known: &&mut Refusal| known.subject == refusal.subject;
        if let Some(known) = self.0.iter_mut().find(is_same) {
            let before = known.count;
            *known = refusal;
            known.count = known.count.saturating_add(before);
            return;
        }
        if self.0.len() >= REFUSALS {
            self.0.pop_front();
        }
        self.0.push_back(refusal);
    }
}

/// Why something was refused at once that would otherwise have been held.
pub(super) fn unattended(why: &str) -> String {
    format!("{why}, and nobody attends this run")
}

impl Arbiter {
    /// What the agent may know about what was stopped.
    pub(in crate::shim) fn why(&self) -> WhyAnswer {
        let state = self.0.lock();
        let blocks = state.blocks.recent(LINES).into_iter().map(of_block);
        let refusals = state.refusals.0.iter().map(of_refusal);
        let mut items: Vec<_> = blocks.chain(refusals).collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.at));
        items.truncate(LINES);
        WhyAnswer {
            v: 1,
            run: self.0.run.clone(),
            network: state.no_network.then(|| NO_NETWORK.to_owned()),
            items,
        }
    }
}

fn of_block(block: &Block) -> Item {
    let (status, why, reason) = match &block.state {
        BlockState::Open => (Status::Waiting, block.why.clone(), ""),
        BlockState::Gone => (Status::GaveUp, block.why.clone(), ""),
        BlockState::Expired => (Status::Expired, block.why.clone(), ""),
        BlockState::Amended { .. } => (Status::Allowed, block.why.clone(), ""),
        BlockState::Denied { by, reason } => {
            let why = match (by, reason.as_str()) {
                (Decider::Operator, "") => format!("The operator denied {}", block.denied()),
                (Decider::Operator, reason) => {
                    format!("The operator denied {}: {reason}", block.denied())
                }
                (Decider::Unattended, _) => unattended(&block.why),
                (Decider::Floor | Decider::Limit | Decider::Profile, _) => block.why.clone(),
            };
            (Status::of(*by), why, reason.as_str())
        }
    };
    Item {
        subject: block.what(),
        state: status,
        why,
        hint: status.hint(&block.subject, reason),
        at: block.last_at,
        count: block.seen,
        block: Some(block.id.clone()),
    }
}

fn of_refusal(refusal: &Refusal) -> Item {
    Item {
        subject: refusal.subject.to_string(),
        state: refusal.status,
        why: refusal.why.clone(),
        hint: refusal.status.hint(&refusal.subject, &refusal.reason),
        at: refusal.at,
        count: refusal.count,
        block: None,
    }
}
