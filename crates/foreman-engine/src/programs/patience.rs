//! What a card says of the agent behind it: how long it waits for a tool of its own that is held, also after a
//! decision that came later; and which hosts it tries by itself.

use foreman_agent::{HoldLimit, Profile, profile};
use foreman_domain::{At, Block, Host, Subject};
use foreman_policy::duration_in_words;

/// What a card says of it, as a sentence without a final period; none where the agent waits as long as it takes,
/// or asks by itself.
pub(crate) fn on_card(agent: &str, block: &Block) -> Option<String> {
    let (profile, limit) = limit_of(agent, block)?;
    let after = duration_in_words(u64::from(limit.seconds));
    Some(format!(
        "{} gives a command of its own up after {after}: it {}",
        profile.title, limit.then
    ))
}

/// That a host is one that the agent tries by itself, as a sentence without a final period.
pub(crate) fn known_host(agent: &str, block: &Block) -> Option<String> {
    let Subject::Egress {
        host: Host::Name(host),
        ..
    } = &block.subject
    else {
        return None;
    };
    let profile = profile(agent).ok()?;
    profile
        .known_hosts
        .contains(host)
        .then(|| format!("{} tries this host by itself when it starts", profile.title))
}

/// What an operator is told whose decision let go what the agent had given up by then.
pub(crate) fn came_late(agent: &str, block: &Block, now: At) -> Option<String> {
    let (profile, limit) = limit_of(agent, block)?;
    let waited = now.as_millis().saturating_sub(block.last_at.as_millis());
    let waited = u64::try_from(waited / 1_000).unwrap_or(0);
    if waited < u64::from(limit.seconds) {
        return None;
    }
    Some(format!(
        "It came {} after the action: by then {} {}. It is allowed from now on, but the agent may not try again by \
         itself",
        duration_in_words(waited),
        profile.title,
        limit.then
    ))
}

/// What an agent asks it waits for; and no command of its own waits at a bound, where it is paused with it.
fn limit_of(agent: &str, block: &Block) -> Option<(Profile, HoldLimit)> {
    match block.subject {
        Subject::Egress { .. } | Subject::File { .. } | Subject::Socket { .. } => {}
        Subject::Bound { .. } | Subject::Question { .. } => return None,
    }
    let profile = profile(agent).ok()?;
    let limit = profile.hold_limit.clone()?;
    Some((profile, limit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{BlockId, BlockState, BoundKind, HoldId, PathText, Revision, RunId};

    fn held() -> Block {
        Block {
            id: BlockId::new(RunId::from_random(1), 1),
            subject: Subject::Socket {
                path: PathText::of("/run/x".as_ref()),
            },
            state: BlockState::Open,
            why: "no rule".into(),
            address_vetted: true,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(1),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(1_000),
            holders: vec![],
            file: None,
            socket: None,
            breach: None,
            question: None,
        }
    }

    #[test]
    fn a_card_says_when_its_agent_gives_up_and_a_late_decision_that_it_did() {
        let block = held();
        let said = on_card("codex", &block).unwrap();
        assert!(said.contains("after 10 s"), "{said}");
        let late = |seconds: i64| came_late("codex", &block, At::from_millis(seconds * 1_000));
        assert_eq!(late(10), None);
        assert!(late(11).unwrap().starts_with("It came 10 seconds after"));
        assert_eq!(on_card("pi", &block), None);
        assert_eq!(came_late("pi", &block, At::from_millis(i64::MAX)), None);
        assert_eq!(on_card("nobody", &block), None);
    }

    #[test]
    fn a_card_says_which_hosts_its_agent_tries_by_itself() {
        let mut block = held();
        let mut of = |host: &str| {
            block.subject = Subject::Egress {
                protocol: foreman_domain::Protocol::Tcp,
                host: Host::Name(host.into()),
                port: 443,
                resolved: None,
            };
            known_host("codex", &block)
        };
        assert!(of("github.com").unwrap().starts_with("Codex tries"));
        assert_eq!(of("registry.example"), None);
    }

    #[test]
    fn a_bound_pauses_the_agent_too_and_an_answer_is_waited_for() {
        let mut block = held();
        block.subject = Subject::Bound {
            bound: BoundKind::Memory,
        };
        assert_eq!(on_card("codex", &block), None);
        block.subject = Subject::Question {
            agent: "opencode".into(),
            tool: "x".into(),
            arguments: String::new(),
        };
        assert_eq!(on_card("opencode", &block), None);
    }
}
