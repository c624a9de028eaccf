//! What a card of a held socket offers, and what each gives away in words.

use super::{Offer, also_opens, elsewhere, origin};
use crate::quantity::counted;
use crate::{Layer, Rule, SocketRule, Use, socket_gives_away};
use foreman_domain::{Block, PathText, Scope, Subject};

pub(super) fn offers(block: &Block, path: &PathText, past: &[Subject]) -> Vec<Offer> {
    let socket = path.to_path();
    let gives_away = socket_gives_away(&socket);
    let opens = match gives_away {
        Some(what) => what.to_owned(),
        None => {
            "whatever the program that listens there does for your account, outside of the cage"
                .to_owned()
        }
    };
    let rule = |layer| SocketRule {
        origin: origin(layer),
        socket: socket.clone(),
        applies: Use::Always,
        expires: None,
    };
    let mut offers = Vec::new();
    if block.waiting > 0 {
        let mut rule = rule(Layer::Amendment);
        rule.applies = Use::Holds {
            subject: block.subject.clone(),
            through: block.last_hold,
        };
        let what = match block.waiting {
            1 => "the waiting connection".to_owned(),
            many => format!("the {}", counted(u64::from(many), "waiting connection")),
        };
        offers.push(Offer {
            scope: Scope::Once,
            words: format!("Let {what} to {path} go on, once"),
            rule: Rule::Socket(rule),
            also_opens: 0,
            needs_confirmation: gives_away.is_some(),
            opens: vec![opens.clone()],
        });
    }
    let lasting = [
        (
            Scope::Run,
            Layer::Amendment,
            format!("Let this run connect to {path} until it ends"),
        ),
        (
            Scope::Order,
            Layer::Order,
            format!("Let every run of this work order connect to {path}"),
        ),
        (
            Scope::Project,
            Layer::Project,
            format!("Let every run in this project connect to {path}"),
        ),
    ];
    for (scope, layer, words) in lasting {
        // A path that is no plain text could not be written into the project's file.
        if scope == Scope::Project && socket.to_str() != Some(path.as_str()) {
            continue;
        }
        let rule = Rule::Socket(rule(layer));
        let (also_opens, also) = also_opens(&rule, &block.subject, past);
        let mut opens = vec![opens.clone()];
        opens.extend(also);
        opens.extend(elsewhere(scope));
        offers.push(Offer {
            scope,
            words,
            rule,
            also_opens,
            needs_confirmation: gives_away.is_some() || scope == Scope::Project,
            opens,
        });
    }
    offers
}
