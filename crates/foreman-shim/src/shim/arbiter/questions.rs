//! Questions of the agent: blocks like any other, whose answer goes back into its conversation.
//!
//! An answer opens nothing. What an agent was told it may do is judged like everything else when it does it.

use super::{Answer, Answering, Arbiter, Inner, Kind, Phase, why};
use crate::protocol::HoldMode;
use crate::shim::blocks::{Held, Stopped};
use foreman_domain::{
    At, HoldId, PermissionAnswer, QUESTION_ARGUMENTS, QUESTION_OPTIONS, QuestionFacts,
    QuestionOption, Subject, sanitize_line,
};
use foreman_policy::{Policy, Question, RuleId, Ruling, Use};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use tokio::sync::oneshot;

/// Longest name of a tool, and of an option, on a card.
const LONGEST_NAME: usize = 120;

/// A question of an agent. Its texts are the agent's, redacted.
#[derive(Debug, Clone, Copy)]
pub(in crate::shim) struct Asked<'a> {
    pub(in crate::shim) agent: &'a str,
    pub(in crate::shim) tool: &'a str,
    pub(in crate::shim) arguments: &'a str,
    pub(in crate::shim) options: &'a [QuestionOption],
}

/// What a question is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::shim) struct Reply {
    pub(in crate::shim) answer: PermissionAnswer,
    /// What the agent is told besides; may be empty.
    pub(in crate::shim) reason: String,
}

impl Reply {
    pub(super) fn no(reason: &str) -> Self {
        Self {
            answer: PermissionAnswer::RejectOnce,
            reason: reason.to_owned(),
        }
    }

    /// By a rule that answers this one, or more than this one.
    pub(super) fn yes(policy: &Policy, rule: &RuleId) -> Self {
        let mut rules = policy.questions.iter();
        let lasts = rules.any(|known| known.origin.id == *rule && known.applies == Use::Always);
        Self {
            answer: match lasts {
                true => PermissionAnswer::AllowAlways,
                false => PermissionAnswer::AllowOnce,
            },
            reason: String::new(),
        }
    }
}

/// What becomes of a question.
pub(in crate::shim) enum Asking {
    /// It is answered.
    Now(Reply),
    /// It waits for the operator.
    Wait(Waiting),
}

/// A question that waits. Dropped without an answer, it is taken back.
pub(in crate::shim) struct Waiting {
    arbiter: Arbiter,
    hold: HoldId,
    answer: oneshot::Receiver<Reply>,
}

impl Waiting {
    /// The answer.
    pub(in crate::shim) async fn answer(&mut self) -> Reply {
        // The sender is gone without an answer only when the run is over.
        let answered = (&mut self.answer).await;
        answered.unwrap_or_else(|_| Reply::no("the run is over"))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let inner = &*self.arbiter.0;
        let mut state = inner.lock();
        state.waiters.remove(&self.hold);
        if state.blocks.give_up(self.hold, At::now()) {
            inner.tell_due(&mut state);
        }
    }
}

impl Arbiter {
    /// Answers a question of the agent by what was decided before, or holds it.
    pub(in crate::shim) fn question(&self, asked: Asked<'_>) -> Asking {
        let inner = &*self.0;
        let mut guard = inner.lock();
        let state = &mut *guard;
        if state.phase != Phase::Open {
            return Asking::Now(Reply::no("the run is over"));
        }
        let (subject, at) = (subject_of(asked), At::now());
        let asking = match state.policy.judge(Question::of(&subject), at) {
            Ruling::Allow { rule, .. } => {
                let reply = Reply::yes(&state.policy, &rule);
                let told = super::Retold::Allowed {
                    subject,
                    folder: None,
                    rule: rule.0,
                };
                inner.retell(state, told);
                Asking::Now(reply)
            }
            Ruling::Refuse { by, why, reason } => {
                let reply = Reply::no(&reason);
                inner.refuse(state, &subject, None, (by, why, reason), at);
                Asking::Now(reply)
            }
            Ruling::Ask { why } => {
                let stopped = Stopped {
                    subject: &subject,
                    file: None,
                    why: &why,
                    address_vetted: true,
                    revision: state.policy.revision,
                    at,
                };
                let refuse = inner.no_answer();
                let kind = Kind {
                    refuse: refuse.clone(),
                    answering: |answer, _| Answering::Question(answer),
                };
                let (asking, block) = match inner.hold(state, &stopped, kind) {
                    Answer::Now(reply) => (Asking::Now(reply), None),
                    Answer::Name(block) => (Asking::Now(refuse), Some(block)),
                    Answer::Wait(Held { hold, block, .. }, answer) => {
                        let waiting = Waiting {
                            arbiter: self.clone(),
                            hold,
                            answer,
                        };
                        (Asking::Wait(waiting), Some(block))
                    }
                };
                if let Some(block) = block {
                    state.blocks.note_question(&block, facts_of(asked.options));
                }
                asking
            }
        };
        inner.tell_due(state);
        drop(guard);
        asking
    }
}

impl Inner {
    /// What an agent is told whose question is refused without anybody's decision.
    fn no_answer(&self) -> Reply {
        Reply::no(&match self.hold {
            HoldMode::Refuse => why::unattended("It asks before it does this"),
            HoldMode::Hold => "nobody answered a question like this in time".to_owned(),
        })
    }
}

/// A question as the subject of a block: safe to show, and bounded. Two that differ beyond the bound differ in it.
fn subject_of(asked: Asked<'_>) -> Subject {
    let text = sanitize_line(asked.arguments);
    let arguments = match text.len() <= QUESTION_ARGUMENTS {
        true => text,
        false => {
            let end = text.floor_char_boundary(QUESTION_ARGUMENTS - 64);
            let (kept, rest) = text.split_at(end);
            format!(
                "{kept}… (and {} bytes more, {:016x})",
                rest.len(),
                mark(rest)
            )
        }
    };
    Subject::Question {
        agent: named(asked.agent),
        tool: named(asked.tool),
        arguments,
    }
}

/// What tells texts apart, and cannot be foreseen by who writes them.
fn mark(text: &str) -> u64 {
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(text)
}

fn facts_of(options: &[QuestionOption]) -> QuestionFacts {
    let shown = options.iter().take(QUESTION_OPTIONS);
    let options = shown
        .map(|option| QuestionOption {
            answer: option.answer,
            words: named(&option.words),
        })
        .collect();
    QuestionFacts { options }
}

/// A name of the agent's, safe to show and bounded.
fn named(text: &str) -> String {
    sanitize_line(text).chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
#[path = "questions/tests.rs"]
mod tests;
