//! Judging a question of an agent: by the answers that the operator gave in its run.

use super::{Found, Question};
use crate::{Policy, QuestionRule, Use};
use foreman_domain::Subject;
use std::cmp::Reverse;

impl Policy {
    pub(super) fn find_answer(&self, question: Question<'_>) -> Found<'_> {
        self.questions
            .iter()
            .filter(|rule| rule.applies.to(question) && rule.covers(question.subject))
            .max_by_key(|rule| {
                (
                    rule.applies == Use::Always,
                    rule.origin.layer,
                    rule.arguments.is_some(),
                    Reverse((&rule.origin.id, &rule.origin.amendment)),
                )
            })
            .map_or(Found::Nothing, Found::Answered)
    }
}

impl QuestionRule {
    /// True when the rule answers the question, its "once" aside. Denials are not looked at.
    #[must_use]
    pub fn covers(&self, subject: &Subject) -> bool {
        let Subject::Question {
            agent,
            tool,
            arguments,
        } = subject
        else {
            return false;
        };
        let is_about = |wanted: &String| wanted == arguments;
        self.agent == *agent && self.tool == *tool && self.arguments.as_ref().is_none_or(is_about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Denial, Layer, Origin, RuleId, Ruling};
    use foreman_domain::{At, Decider, HoldId};

    fn question(tool: &str, arguments: &str) -> Subject {
        Subject::Question {
            agent: "opencode".into(),
            tool: tool.into(),
            arguments: arguments.into(),
        }
    }

    fn rule(arguments: Option<&str>, applies: Use) -> QuestionRule {
        QuestionRule {
            origin: Origin {
                id: RuleId("amendment:1".into()),
                layer: Layer::Amendment,
                source: "amended by you".into(),
                amendment: None,
                reason: None,
            },
            agent: "opencode".into(),
            tool: "execute".into(),
            arguments: arguments.map(str::to_owned),
            applies,
        }
    }

    fn judge(policy: &Policy, subject: &Subject, hold: Option<u64>) -> Ruling {
        let question = Question {
            subject,
            hold: hold.map(HoldId),
            under: None,
        };
        policy.judge(question, At::from_millis(1))
    }

    #[test]
    fn an_answer_is_for_its_tool_its_arguments_and_its_agent_only() {
        let of = |rule| Policy {
            questions: vec![rule],
            ..Policy::default()
        };
        let exact = of(rule(Some("{}"), Use::Always));
        let any = of(rule(None, Use::Always));
        let allows = |policy: &Policy, subject: &Subject| {
            matches!(judge(policy, subject, None), Ruling::Allow { .. })
        };
        assert!(allows(&exact, &question("execute", "{}")));
        assert!(!allows(&exact, &question("execute", "{1}")));
        assert!(allows(&any, &question("execute", "{1}")));
        assert!(!allows(&any, &question("edit", "{}")));
        let other = Subject::Question {
            agent: "claude".into(),
            tool: "execute".into(),
            arguments: "{}".into(),
        };
        assert!(!allows(&any, &other));
    }

    #[test]
    fn once_is_for_the_questions_that_were_counted_and_a_denial_beats_a_yes() {
        let subject = question("execute", "{}");
        let once = Use::Holds {
            subject: subject.clone(),
            through: HoldId(2),
        };
        let mut policy = Policy {
            questions: vec![rule(Some("{}"), once)],
            ..Policy::default()
        };
        assert!(matches!(
            judge(&policy, &subject, Some(2)),
            Ruling::Allow { .. }
        ));
        assert!(matches!(
            judge(&policy, &subject, Some(3)),
            Ruling::Ask { .. }
        ));
        assert!(matches!(judge(&policy, &subject, None), Ruling::Ask { .. }));
        policy.questions = vec![rule(None, Use::Always)];
        policy.denials.push(Denial {
            origin: rule(None, Use::Always).origin,
            subject: subject.clone(),
            reason: "not that".into(),
        });
        let Ruling::Refuse { by, reason, .. } = judge(&policy, &subject, None) else {
            panic!("it was not refused")
        };
        assert_eq!((by, reason.as_str()), (Decider::Operator, "not that"));
    }
}
