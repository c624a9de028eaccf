//! An order as the store keeps it, and the run that it asks for.

use super::check::{Drafted, PROMPT, PROMPT_VARIABLE};
use crate::api::{OrderSpec, RunCreate};
use crate::failures::internal;
use foreman_domain::{Code, Failure, sanitize_line};
use foreman_store::StoredOrder;
use serde::{Deserialize, Serialize};

/// Version of the record; additive changes keep it.
const VERSION: u8 = 1;
/// Proxy variables that a run takes over.
const PROXIES: [&str; 3] = ["https_proxy", "all_proxy", "no_proxy"];

#[derive(Serialize)]
struct Writing<'a> {
    v: u8,
    #[serde(flatten)]
    spec: &'a OrderSpec,
}

#[derive(Deserialize)]
struct Reading {
    v: u8,
    #[serde(flatten)]
    spec: OrderSpec,
}

/// What was ordered, as the store keeps it.
pub(super) fn encode(spec: &OrderSpec) -> Result<String, Failure> {
    serde_json::to_string(&Writing { v: VERSION, spec }).map_err(internal)
}

/// What was ordered.
pub(super) fn decode(order: &StoredOrder) -> Result<OrderSpec, Failure> {
    let reading: Reading = serde_json::from_str(&order.spec).map_err(|error| {
        internal(format!(
            "the record of order {} is unreadable: {error}",
            order.id
        ))
    })?;
    if reading.v != VERSION {
        return Err(internal(format!(
            "the record of order {} is of version {}, which this version does not know",
            order.id, reading.v
        )));
    }
    Ok(reading.spec)
}

/// An order's title: its own, or what it is to do.
pub(super) fn title_of(drafted: &Drafted) -> String {
    let spec = &drafted.spec;
    let first_line = spec.prompt.as_deref().and_then(|prompt| {
        let line = prompt
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        Some(line.trim_start_matches('#').trim().to_owned())
    });
    let title = spec.run.title.clone().or(first_line);
    let request = RunCreate {
        title,
        ..spec.run.clone()
    };
    crate::create::title(&request)
}

/// The run that an order asks for, with what it takes from the environment of this engine.
pub(super) fn request_of(
    order: &StoredOrder,
    spec: &OrderSpec,
    own: impl Fn(&str) -> Option<String>,
) -> Result<RunCreate, Failure> {
    let mut run = spec.run.clone();
    run.title = Some(order.title.clone());
    run.terminal = None;
    for name in &spec.env_from {
        let value = own(name).ok_or_else(|| {
            Failure::new(
                Code::BadInput,
                format!(
                    "the variable \"{}\" is not set in the environment of the engine",
                    sanitize_line(name)
                ),
            )
            .hint("Set it where the engine is started (`foreman serve`), or give it a value.")
        })?;
        run.env.push((name.clone(), value));
    }
    run.proxy = PROXIES
        .into_iter()
        .filter_map(|name| {
            let value = own(name).or_else(|| own(&name.to_uppercase()))?;
            (!value.is_empty()).then(|| (name.to_owned(), value))
        })
        .collect();
    if let Some(prompt) = &spec.prompt {
        place_prompt(&mut run, prompt, true);
    }
    Ok(run)
}

/// Hands a prompt to a run: in the places that are marked for it, else as the last argument where
/// `appended`; always in its variable.
pub(crate) fn place_prompt(run: &mut RunCreate, prompt: &str, appended: bool) {
    if let Some(agent) = &mut run.agent {
        agent.prompt = prompt.to_owned();
        return;
    }
    let mut placed = false;
    for word in &mut run.argv {
        if word.contains(PROMPT) {
            *word = word.replace(PROMPT, prompt);
            placed = true;
        }
    }
    if !placed && appended {
        run.argv.push(prompt.to_owned());
    }
    run.env.retain(|(name, _)| name != PROMPT_VARIABLE);
    run.env
        .push((PROMPT_VARIABLE.to_owned(), prompt.to_owned()));
}

/// The run that an order asks for, with another prompt.
pub(crate) fn with_prompt(order: &StoredOrder, prompt: &str) -> Result<RunCreate, Failure> {
    let spec = decode(order)?;
    let had_one = spec.prompt.is_some();
    let bare = OrderSpec {
        prompt: None,
        ..spec
    };
    let mut run = request_of(order, &bare, |name| std::env::var(name).ok())?;
    place_prompt(&mut run, prompt, had_one);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{At, OrderId, OrderState};

    fn order() -> StoredOrder {
        StoredOrder {
            id: OrderId::from("a".to_owned()),
            repo_key: "r".into(),
            title: "t".into(),
            spec: String::new(),
            state: OrderState::Queued,
            run: None,
            parent: None,
            group: None,
            attempts: 0,
            retry: None,
            manual: false,
            fault: None,
            slot: None,
            slots_until: None,
            source: None,
            created_at: At::from_millis(0),
            changed_at: At::from_millis(0),
        }
    }

    fn spec(argv: &[&str], prompt: Option<&str>) -> OrderSpec {
        let argv = argv.iter().map(|word| (*word).to_owned()).collect();
        OrderSpec {
            run: RunCreate::new("/repo".into(), argv),
            env_from: vec!["KEY".into()],
            prompt: prompt.map(str::to_owned),
            hints: Default::default(),
            scope: None,
            depends_on: vec![],
            parent: None,
            gate: Default::default(),
            estimate_wall_seconds: None,
        }
    }

    fn own(name: &str) -> Option<String> {
        (name == "KEY").then(|| "secret".to_owned())
    }

    #[test]
    fn a_prompt_takes_its_place_or_comes_last_and_is_a_variable_too() {
        let placed = request_of(
            &order(),
            &spec(&["a", "--prompt={prompt}", "z"], Some("do")),
            own,
        );
        assert_eq!(placed.unwrap().argv, ["a", "--prompt=do", "z"]);
        let last = request_of(&order(), &spec(&["a"], Some("do")), own).unwrap();
        assert_eq!(last.argv, ["a", "do"]);
        let wanted = [("KEY", "secret"), ("FOREMAN_PROMPT", "do")];
        assert_eq!(
            last.env,
            wanted.map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
        let none = request_of(&order(), &spec(&["a"], None), own).unwrap();
        assert_eq!(none.argv, ["a"]);
    }

    #[test]
    fn a_variable_that_the_engine_does_not_have_is_a_refusal() {
        let refused = request_of(&order(), &spec(&["a"], None), |_| None).unwrap_err();
        assert!(
            refused.message.contains("\"KEY\" is not set"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn a_record_survives_the_store() {
        let written = encode(&spec(&["a"], Some("do"))).unwrap();
        let read = decode(&StoredOrder {
            spec: written.clone(),
            ..order()
        });
        assert_eq!(encode(&read.unwrap()).unwrap(), written);
        let newer = written.replacen("\"v\":1", "\"v\":9", 1);
        let refused = decode(&StoredOrder {
            spec: newer,
            ..order()
        });
        assert!(refused.unwrap_err().message.contains("version 9"));
    }
}
