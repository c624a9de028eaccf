//! What the card of an agent's question offers: yes once, and yes for the rest of the run.
//!
//! Nothing wider: an answer is part of one conversation. None of them opens a wall.

use super::{Offer, origin};
use crate::{Layer, QuestionRule, Rule, Use};
use foreman_domain::{Block, Scope};

/// Once; then, where the agent itself offers not to ask again, that; else yes to all it asks about the tool.
pub(super) fn offers(block: &Block, agent: &str, tool: &str, arguments: &str) -> Vec<Offer> {
    let rule = |arguments: Option<&str>, applies| {
        Rule::Question(QuestionRule {
            origin: origin(Layer::Amendment),
            agent: agent.to_owned(),
            tool: tool.to_owned(),
            arguments: arguments.map(str::to_owned),
            applies,
        })
    };
    let mut offers = Vec::new();
    if block.waiting > 0 {
        let once = Use::Holds {
            subject: block.subject.clone(),
            through: block.last_hold,
        };
        let words = match block.waiting {
            1 => format!("Answer {agent} yes, once"),
            many => format!("Answer {agent} yes to the {many} questions that wait, once"),
        };
        offers.push(Offer {
            scope: Scope::Once,
            words,
            rule: rule(Some(arguments), once),
            also_opens: 0,
            needs_confirmation: false,
            opens: Vec::new(),
        });
    }
    let always = block.question.as_ref().and_then(|facts| facts.always());
    offers.push(match always {
        Some(words) => Offer {
            scope: Scope::Run,
            words: format!(
                "Answer {agent} yes, and let it not ask again about what it calls \"{words}\", until this run ends"
            ),
            rule: rule(Some(arguments), Use::Always),
            also_opens: 0,
            needs_confirmation: false,
            opens: vec![format!(
                "nothing beyond its cage; what {agent} itself takes for the same is not asked about again"
            )],
        },
        None => Offer {
            scope: Scope::Run,
            words: format!(
                "Answer {agent} yes whatever it asks about {tool}, until this run ends"
            ),
            rule: rule(None, Use::Always),
            also_opens: 0,
            needs_confirmation: true,
            opens: vec![format!(
                "every question of {agent} about {tool}, with whatever arguments"
            )],
        },
    });
    offers
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{
        At, BlockId, BlockState, HoldId, PermissionAnswer, QuestionFacts, QuestionOption, Revision,
        RunId, Subject,
    };

    fn block(waiting: u32, options: Vec<QuestionOption>) -> Block {
        Block {
            id: BlockId::new(RunId::from_random(1), 1),
            subject: Subject::Question {
                agent: "opencode".into(),
                tool: "execute".into(),
                arguments: "{}".into(),
            },
            state: BlockState::Open,
            why: "it asks".into(),
            address_vetted: true,
            waiting,
            seen: 1,
            last_hold: HoldId(3),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(0),
            holders: Vec::new(),
            file: None,
            socket: None,
            breach: None,
            question: Some(QuestionFacts { options }),
        }
    }

    fn offered(waiting: u32, options: Vec<QuestionOption>) -> Vec<(Scope, bool, Option<String>)> {
        let offers = crate::offers(&block(waiting, options), &[], &|_, _| {
            crate::Ground::Closed("no file".into())
        });
        offers
            .into_iter()
            .map(|offer| match offer.rule {
                Rule::Question(rule) => (offer.scope, offer.needs_confirmation, rule.arguments),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn always_is_the_agents_own_where_it_offers_it_and_else_the_whole_tool_asked_twice() {
        let always = QuestionOption {
            answer: PermissionAnswer::AllowAlways,
            words: "Always allow".into(),
        };
        let own = Some("{}".to_owned());
        assert_eq!(
            offered(1, vec![always.clone()]),
            [
                (Scope::Once, false, own.clone()),
                (Scope::Run, false, own.clone())
            ]
        );
        assert_eq!(
            offered(1, vec![]),
            [(Scope::Once, false, own.clone()), (Scope::Run, true, None)]
        );
        assert_eq!(offered(0, vec![always]), [(Scope::Run, false, own)]);
    }
}
