//! Judges a subject by a policy, and says why.
//!
//! Floor over denial over allowing rule over what an agent's profile refuses; what nothing speaks of is asked. Among rules that agree, the
//! narrowest layer explains, then the narrowest pattern; the order of rules never matters. An expired
//! rule, and a "once" rule for a hold it does not count, are as if they were not there.

mod files;
mod questions;
mod sockets;
mod words;

pub(crate) use words::{doing, shown};

use crate::floor::subject_floor;
use crate::{Denial, EgressRule, Layer, PathRule, Policy, QuestionRule, RuleId, SocketRule, Use};
use foreman_domain::{AmendmentId, At, Decider, FileAccess, HoldId, Host, Subject};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::fmt;
use std::path::PathBuf;

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// What wants to leave.
    pub subject: &'a Subject,
    /// The hold that waits for the answer; `None` for an action that was not held so far, for which no
    /// "once" counts.
    pub hold: Option<HoldId>,
    /// The subject of the block that the hold is under, where that is another than its own: a block of
    /// files holds several paths.
    pub under: Option<&'a Subject>,
}

impl<'a> Question<'a> {
    /// About an action that was not held so far.
    #[must_use]
    pub fn of(subject: &'a Subject) -> Self {
        Self {
            subject,
            hold: None,
            under: None,
        }
    }
}

/// What a rule opens in the cage, so that an action on a file can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// The file or folder that the rule names.
    pub root: PathBuf,
    /// How.
    pub access: FileAccess,
    /// Only the very action that waits: nothing is opened beside it.
    pub once: bool,
}

/// What the policy says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ruling {
    /// A rule allows it.
    Allow {
        /// The rule that explains it.
        rule: RuleId,
        /// The amendment behind that rule.
        amendment: Option<AmendmentId>,
        /// Private addresses that the name may resolve to by that rule.
        resolves_to: Option<IpNet>,
        /// What it opens in the cage, for a file.
        opens: Option<Opening>,
    },
    /// It is refused at once.
    Refuse {
        /// The floor, or the operator.
        by: Decider,
        /// Which rule refused it, in words.
        why: String,
        /// What the operator wants the agent to know; may be empty.
        reason: String,
    },
    /// No rule speaks of it: hold it, or refuse it when nobody attends.
    Ask {
        /// Why no rule allows it, in words.
        why: String,
    },
}

/// What would happen to a destination now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It would go through.
    Allowed,
    /// It would be held (or refused, when nobody attends).
    Held,
    /// It would be refused at once.
    Refused,
}

impl Verdict {
    /// As it is written on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Held => "held",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Which rule decides about a destination, or that none matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What would happen.
    pub verdict: Verdict,
    /// The layer that decides; `None` when no rule matches.
    pub layer: Option<Layer>,
    /// The rule that decides; `None` when no rule matches, and for the floor.
    pub rule: Option<RuleId>,
    /// The same in words, a sentence without a final period.
    pub words: String,
}

/// The deciding part of a policy, before it is put in words.
enum Found<'a> {
    Floor(String),
    Denied(&'a Denial),
    Allowed(&'a EgressRule),
    Opened(&'a PathRule),
    Connected(&'a SocketRule),
    Answered(&'a QuestionRule),
    Nothing,
}

impl Policy {
    /// Judges a subject at the time `now`.
    #[must_use]
    pub fn judge(&self, question: Question<'_>, now: At) -> Ruling {
        match self.find(question, now) {
            Found::Floor(why) => Ruling::Refuse {
                by: Decider::Floor,
                why,
                reason: String::new(),
            },
            Found::Denied(denial) => Ruling::Refuse {
                by: match denial.origin.layer {
                    Layer::Profile => Decider::Profile,
                    Layer::Floor | Layer::Project | Layer::Order | Layer::Amendment => {
                        Decider::Operator
                    }
                },
                why: words::denied(denial),
                reason: denial.reason.clone(),
            },
            Found::Allowed(rule) => Ruling::Allow {
                rule: rule.origin.id.clone(),
                amendment: rule.origin.amendment.clone(),
                resolves_to: rule.resolves_to,
                opens: None,
            },
            Found::Opened(rule) => Ruling::Allow {
                rule: rule.origin.id.clone(),
                amendment: rule.origin.amendment.clone(),
                resolves_to: None,
                opens: Some(rule.opening()),
            },
            Found::Connected(SocketRule { origin, .. })
            | Found::Answered(QuestionRule { origin, .. }) => Ruling::Allow {
                rule: origin.id.clone(),
                amendment: origin.amendment.clone(),
                resolves_to: None,
                opens: None,
            },
            Found::Nothing => Ruling::Ask {
                why: words::why_not(self, question.subject, now),
            },
        }
    }

    /// Says what would happen to a new action on `subject` at the time `now`, and by which rule.
    #[must_use]
    pub fn explain(&self, subject: &Subject, now: At) -> Explained {
        match self.find(Question::of(subject), now) {
            Found::Floor(words) => Explained {
                verdict: Verdict::Refused,
                layer: Some(Layer::Floor),
                rule: None,
                words,
            },
            Found::Denied(denial) => Explained {
                verdict: Verdict::Refused,
                layer: Some(denial.origin.layer),
                rule: Some(denial.origin.id.clone()),
                words: words::denied(denial),
            },
            Found::Allowed(rule) => Explained {
                verdict: Verdict::Allowed,
                layer: Some(rule.origin.layer),
                rule: Some(rule.origin.id.clone()),
                words: words::allowed(rule),
            },
            Found::Opened(rule) => Explained {
                verdict: Verdict::Allowed,
                layer: Some(rule.origin.layer),
                rule: Some(rule.origin.id.clone()),
                words: words::opened(rule, &rule.origin, rule.expires),
            },
            Found::Connected(rule) => Explained {
                verdict: Verdict::Allowed,
                layer: Some(rule.origin.layer),
                rule: Some(rule.origin.id.clone()),
                words: words::opened(rule, &rule.origin, rule.expires),
            },
            Found::Answered(rule) => Explained {
                verdict: Verdict::Allowed,
                layer: Some(rule.origin.layer),
                rule: Some(rule.origin.id.clone()),
                words: words::opened(rule, &rule.origin, None),
            },
            Found::Nothing => Explained {
                verdict: Verdict::Held,
                layer: None,
                rule: None,
                words: words::why_not(self, subject, now),
            },
        }
    }

    fn find(&self, question: Question<'_>, now: At) -> Found<'_> {
        if let Some(why) = subject_floor(question.subject) {
            return Found::Floor(why);
        }
        let denial = self
            .denials
            .iter()
            .filter(|denial| denial.refuses(question.subject))
            .max_by_key(|denial| {
                (
                    denial.origin.layer,
                    Reverse((&denial.origin.id, &denial.reason)),
                )
            });
        // What an agent's profile refuses gives way to whoever allows it; what an operator refuses does not.
        match denial {
            Some(denial) if denial.origin.layer == Layer::Profile => {
                match self.find_rule(question, now) {
                    Found::Nothing => Found::Denied(denial),
                    found => found,
                }
            }
            Some(denial) => Found::Denied(denial),
            None => self.find_rule(question, now),
        }
    }

    fn find_rule(&self, question: Question<'_>, now: At) -> Found<'_> {
        match question.subject {
            Subject::Egress { .. } => self.find_egress(question, now),
            Subject::File { .. } => self.find_path(question, now),
            Subject::Socket { .. } => self.find_socket(question, now),
            // What a bound leaves is no matter of rules.
            Subject::Bound { .. } => Found::Nothing,
            Subject::Question { .. } => self.find_answer(question),
        }
    }

    fn find_egress(&self, question: Question<'_>, now: At) -> Found<'_> {
        self.egress
            .iter()
            .filter(|rule| rule.counts(question, now))
            .max_by_key(|rule| {
                (
                    rule.origin.layer,
                    rule.host.narrowness(),
                    rule.applies == Use::Always,
                    Reverse((&rule.origin.id, &rule.origin.amendment, rule.resolves_to)),
                )
            })
            .map_or(Found::Nothing, Found::Allowed)
    }
}

impl EgressRule {
    /// True when the rule allows the subject, its time and its "once" aside. The floor and denials are
    /// not looked at.
    #[must_use]
    pub fn covers(&self, subject: &Subject) -> bool {
        let Subject::Egress {
            protocol,
            host,
            port,
            resolved,
        } = subject
        else {
            return false;
        };
        self.protocol == *protocol
            && self.port == *port
            && self.host.matches(host)
            && resolved.is_none_or(|address| {
                self.resolves_to
                    .is_some_and(|range| range.contains(&address.to_canonical()))
            })
    }

    fn counts(&self, question: Question<'_>, now: At) -> bool {
        let in_time = self.expires.is_none_or(|end| now < end);
        in_time && self.applies.to(question) && self.covers(question.subject)
    }
}

impl Use {
    /// Whether what is asked about is meant: for "once", whether it waits under that very block and was
    /// counted on its card.
    fn to(&self, question: Question<'_>) -> bool {
        match self {
            Self::Always => true,
            Self::Holds { subject, through } => {
                same(subject, question.under.unwrap_or(question.subject))
                    && question.hold.is_some_and(|hold| hold <= *through)
            }
        }
    }
}

impl Denial {
    /// True when the denial refuses the subject. One of a name refuses it whatever it resolves to; one of
    /// a folder refuses what is in it.
    #[must_use]
    pub fn refuses(&self, subject: &Subject) -> bool {
        match &self.subject {
            Subject::Egress { resolved, .. } => {
                same(&self.subject, subject)
                    || (resolved.is_none() && same(&self.subject, &unresolved(subject)))
            }
            Subject::File { access, path } => files::is_in(*access, path, subject),
            Subject::Socket { .. } | Subject::Bound { .. } | Subject::Question { .. } => {
                self.subject == *subject
            }
        }
    }
}

/// The subject before its name was resolved.
pub(crate) fn unresolved(subject: &Subject) -> Subject {
    let mut plain = subject.clone();
    if let Subject::Egress { resolved, .. } = &mut plain {
        *resolved = None;
    }
    plain
}

fn same(one: &Subject, other: &Subject) -> bool {
    let plain = |subject: &Subject| {
        let mut plain = subject.clone();
        if let Subject::Egress { host, resolved, .. } = &mut plain {
            if let Host::Address(address) = host {
                *address = address.to_canonical();
            }
            *resolved = resolved.map(|address| address.to_canonical());
        }
        plain
    };
    one == other || plain(one) == plain(other)
}

#[cfg(test)]
#[path = "judge/tests.rs"]
mod tests;
