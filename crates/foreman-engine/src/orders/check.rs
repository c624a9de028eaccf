//! What can be said against an order before anything is recorded, and how a draft becomes orders.

use super::read::{MOST_ATTEMPTS, MOST_RETRIES};
use super::tree::shown;
use crate::api::{OrderDraft, OrderGate, OrderSpec};
use foreman_domain::{About, At, Code, Failure, OrderId};
use foreman_schedule::ScopeClaim;
use std::collections::{BTreeMap, BTreeSet};

/// Stands for the prompt in an agent's arguments.
pub(super) const PROMPT: &str = "{prompt}";
/// Holds the prompt in the agent's environment.
pub(crate) const PROMPT_VARIABLE: &str = "FOREMAN_PROMPT";
/// Longest prompt: an argument and a variable of a program hold at most 128 KiB.
const LONGEST_PROMPT: usize = 120 * 1024;
/// Longest name of a kind or a class.
const LONGEST_NAME: usize = 64;
/// Most patterns of a claim, and their longest.
const MOST_PATTERNS: usize = 200;
const LONGEST_PATTERN: usize = 1024;
/// Most orders that one may depend on.
const MOST_DEPENDENCIES: usize = 100;
/// Room that the id of a recurring order leaves for its slots.
const LONGEST_RECURRING: usize = OrderId::LONGEST - 17;

/// One order of a draft.
#[derive(Debug, Clone)]
pub(super) struct Drafted {
    pub id: OrderId,
    pub group: Option<String>,
    pub spec: OrderSpec,
}

fn bad(message: impl Into<String>) -> Failure {
    Failure::new(Code::BadInput, message)
}

/// The orders of a draft: one, or an attempt for each agent. `random` makes an id where none is given.
pub(super) fn expand(draft: OrderDraft, random: u64) -> Result<Vec<Drafted>, Failure> {
    let id = match &draft.id {
        Some(id) => parse_id(id)?,
        None => OrderId::from_random(random),
    };
    let attempts = draft.attempts.unwrap_or(1);
    if !(1..=MOST_ATTEMPTS).contains(&attempts) {
        return Err(bad(format!(
            "{attempts} attempts side by side are not to be meant"
        ))
        .hint(format!("From 1 to {MOST_ATTEMPTS} are possible.")));
    }
    if draft.agents.len() > MOST_ATTEMPTS as usize {
        return Err(bad(format!(
            "at most {MOST_ATTEMPTS} agents can try one order"
        )));
    }
    let several: Vec<(String, Option<Vec<String>>)> = match draft.agents.as_slice() {
        [] if attempts == 1 => {
            check(&id, &draft.spec)?;
            return Ok(vec![Drafted {
                id,
                group: None,
                spec: draft.spec,
            }]);
        }
        [] => (1..=attempts)
            .map(|number| (number.to_string(), None))
            .collect(),
        agents => agents
            .iter()
            .map(|agent| (agent.name.clone(), Some(agent.argv.clone())))
            .collect(),
    };
    if draft.spec.hints.recurrence.is_some() {
        return Err(
            bad("a recurring order has no attempts side by side").hint("Leave out one of the two.")
        );
    }
    let mut names = BTreeSet::new();
    let mut orders = Vec::with_capacity(several.len());
    for (name, argv) in several {
        if !names.insert(name.clone()) {
            let name = shown(&name);
            return Err(bad(format!(
                "two agents of one order are called \"{name}\""
            )));
        }
        let mut spec = draft.spec.clone();
        if let Some(argv) = argv {
            spec.run.argv = argv;
            spec.run.agent = None;
        }
        let id = parse_id(&format!("{id}-{name}"))?;
        check(&id, &spec)?;
        orders.push(Drafted {
            id,
            group: Some(group_of(&draft, random)),
            spec,
        });
    }
    Ok(orders)
}

fn group_of(draft: &OrderDraft, random: u64) -> String {
    draft
        .id
        .clone()
        .unwrap_or_else(|| OrderId::from_random(random).to_string())
}

/// An id that an operator chose.
pub(super) fn parse_id(text: &str) -> Result<OrderId, Failure> {
    text.parse::<OrderId>()
        .map_err(|error| bad(error.to_string()))
}

/// Refuses what no order can say. What the run itself can say is checked where runs are made.
pub(super) fn check(id: &OrderId, spec: &OrderSpec) -> Result<(), Failure> {
    let mut run = spec.run.clone();
    if let (Some(agent), Some(prompt)) = (&mut run.agent, &spec.prompt) {
        agent.prompt.clone_from(prompt);
    }
    crate::create::check(&run)?;
    if spec.run.unconfined {
        return Err(Failure::new(
            Code::Usage,
            "an order starts by itself, so it cannot be without a cage",
        )
        .hint("Start such a run by hand: foreman run --unconfined."));
    }
    if spec.run.terminal.is_some() {
        return Err(
            Failure::new(Code::Usage, "an order's agent has no terminal")
                .hint("Leave --tty out, or use `foreman run`."),
        );
    }
    let asked: Vec<(String, String)> = spec
        .env_from
        .iter()
        .map(|name| (name.clone(), String::new()))
        .collect();
    crate::environment::check_asked(&asked).map_err(|failure| failure.about(About::Env))?;
    if let Some(prompt) = &spec.prompt {
        if prompt.len() > LONGEST_PROMPT {
            return Err(
                bad("the prompt is longer than 120 KiB, which no program can be given")
                    .about(About::Prompt)
                    .hint("Put it into a file of the repository and name that in a short prompt."),
            );
        }
        if prompt.contains('\0') {
            let what = "the prompt holds a NUL byte, which no program can be given";
            return Err(bad(what).about(About::Prompt));
        }
    } else if spec.run.argv.iter().any(|word| word.contains(PROMPT)) {
        return Err(
            bad(format!("the command has {PROMPT} and there is no prompt"))
                .about(About::Prompt)
                .hint("Write the prompt, or take the placeholder out."),
        );
    }
    if spec.hints.retries > MOST_RETRIES {
        return Err(bad(format!(
            "{} retries are not to be meant",
            spec.hints.retries
        ))
        .about(About::Retries)
        .hint(format!("From 0 to {MOST_RETRIES} are possible.")));
    }
    for (what, about, name) in [
        ("kind", About::Kind, &spec.hints.kind),
        ("class", About::Class, &spec.hints.concurrency_class),
    ] {
        if let Some(name) = name {
            check_name(what, name).map_err(|failure| failure.about(about))?;
        }
    }
    if let Some(recurrence) = &spec.hints.recurrence {
        super::slots::check(recurrence).map_err(|what| bad(what).about(About::Recurrence))?;
        if id.as_str().len() > LONGEST_RECURRING {
            return Err(bad(format!(
                "the id of a recurring order has at most {LONGEST_RECURRING} characters: each slot \
                 adds its time"
            )));
        }
    }
    if let Some(claim) = &spec.scope {
        check_claim(claim).map_err(|failure| failure.about(About::Scope))?;
    }
    if spec.depends_on.len() > MOST_DEPENDENCIES {
        return Err(bad(format!(
            "an order can depend on at most {MOST_DEPENDENCIES} others"
        ))
        .about(About::DependsOn));
    }
    if spec.parent.as_ref() == Some(id) {
        return Err(bad(format!("order {id} cannot be a part of itself")));
    }
    if spec.gate == OrderGate::Checks && spec.run.checks.is_empty() {
        return Err(bad("an order whose gate is its checks has none")
            .about(About::Checks)
            .hint("Give it a check, or leave the gate at \"review\"."));
    }
    Ok(())
}

/// The name of a kind or a class.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Failure> {
    let good = !name.is_empty()
        && name.len() <= LONGEST_NAME
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "._-/:".contains(c));
    if good {
        return Ok(());
    }
    Err(bad(format!("\"{}\" is no name of a {what}", shown(name)))
        .hint("Up to 64 letters, digits and . _ - / : are possible."))
}

fn check_claim(claim: &ScopeClaim) -> Result<(), Failure> {
    if claim.patterns.len() > MOST_PATTERNS {
        return Err(bad(format!("a scope has at most {MOST_PATTERNS} patterns")));
    }
    let wrong = claim.patterns.iter().find(|pattern| {
        pattern.trim().is_empty() || pattern.len() > LONGEST_PATTERN || pattern.contains('\0')
    });
    match wrong {
        Some(pattern) => Err(
            bad(format!("\"{}\" is no pattern of a scope", shown(pattern)))
                .hint("Write paths from the repository's root, as \"src/**\" or \"docs/\"."),
        ),
        None => Ok(()),
    }
}

/// A point in time as people write it: with an offset, or by this machine's time zone.
pub(super) fn parse_time(text: &str) -> Option<At> {
    let text = text.trim();
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(At(time));
    }
    let civil = text.parse::<jiff::civil::DateTime>().ok()?;
    let zoned = jiff::tz::TimeZone::system()
        .to_ambiguous_zoned_datetime(civil)
        .compatible()
        .ok()?;
    Some(At(zoned.timestamp()))
}

/// Members of a circle of dependencies that one of `starts` is part of.
pub(super) fn circle(
    needs: &BTreeMap<OrderId, Vec<OrderId>>,
    starts: &[OrderId],
) -> Option<Vec<OrderId>> {
    starts.iter().find_map(|start| {
        // A way from the start back to itself; each order is looked at once.
        let mut came_from: BTreeMap<&OrderId, &OrderId> = BTreeMap::new();
        let mut waiting = vec![start];
        while let Some(order) = waiting.pop() {
            for need in needs.get(order).into_iter().flatten() {
                if need == start {
                    let mut members = vec![order.clone()];
                    let mut at = order;
                    while let Some(&from) = came_from.get(at) {
                        members.push(from.clone());
                        at = from;
                    }
                    members.reverse();
                    return Some(members);
                }
                if need != start && !came_from.contains_key(need) {
                    came_from.insert(need, order);
                    waiting.push(need);
                }
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> OrderId {
        text.parse().unwrap()
    }

    #[test]
    fn a_circle_is_named_by_its_members_and_a_line_is_none() {
        let needs = |pairs: &[(&str, &[&str])]| {
            pairs
                .iter()
                .map(|(order, on)| (id(order), on.iter().map(|on| id(on)).collect()))
                .collect::<BTreeMap<OrderId, Vec<OrderId>>>()
        };
        let line = needs(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
        assert_eq!(circle(&line, &[id("a"), id("b"), id("c")]), None);
        let round = needs(&[
            ("a", &["x", "b"]),
            ("b", &["c"]),
            ("c", &["a"]),
            ("d", &["a"]),
        ]);
        assert_eq!(
            circle(&round, &[id("a")]),
            Some(vec![id("a"), id("b"), id("c")])
        );
        assert_eq!(circle(&round, &[id("d")]), None, "d is no member");
        assert_eq!(
            circle(&needs(&[("a", &["a"])]), &[id("a")]),
            Some(vec![id("a")])
        );
    }

    #[test]
    fn times_are_read_with_and_without_an_offset() {
        assert_eq!(
            parse_time("2027-01-31T08:00:00Z").unwrap().to_string(),
            "2027-01-31T08:00:00Z"
        );
        assert!(parse_time("2027-01-31T08:00").is_some());
        assert!(parse_time("2027-01-31").is_some());
        assert!(parse_time("tomorrow").is_none());
    }
}
