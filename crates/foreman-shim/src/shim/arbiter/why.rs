//! What the agent may know about what was stopped: the blocks, and what was refused without one.

use super::Arbiter;
use crate::why::{self, Status, WhyAnswer};
use foreman_domain::{At, BlockState, Decider, Subject};
use std::collections::VecDeque;

/// Refusals remembered beside the blocks.
const REFUSALS: usize = 40;
/// Things that `foreman why` names.
const LINES: usize = 20;

/// Something refused without a block.
struct Refusal {
    subject: Subject,
    by: Decider,
    why: String,
    reason: String,
    count: u64,
    at: At,
}

/// The newest refusals, one for each subject.
#[derive(Default)]
pub(super) struct Refusals(VecDeque<Refusal>);

impl Refusals {
    pub(super) fn note(&mut self, subject: &Subject, by: Decider, why: &str, reason: &str, at: At) {
        if let Some(known) = self.0.iter_mut().find(|known| known.subject == *subject) {
            known.count += 1;
            known.at = at;
            known.by = by;
            why.clone_into(&mut known.why);
            reason.clone_into(&mut known.reason);
            return;
        }
        if self.0.len() >= REFUSALS {
            self.0.pop_front();
        }
        self.0.push_back(Refusal {
            subject: subject.clone(),
            by,
            why: why.to_owned(),
            reason: reason.to_owned(),
            count: 1,
            at,
        });
    }
}

impl Arbiter {
    /// What the agent may know about what was stopped.
    pub(in crate::shim) fn why(&self) -> WhyAnswer {
        let state = self.0.lock();
        let blocks = state.blocks.recent(LINES).into_iter().map(|block| {
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
        let refusals = state.refusals.0.iter().map(|refusal| {
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
        stopped.truncate(LINES);
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
