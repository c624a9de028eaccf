//! One order out of its table.

use super::section::Section;
use super::tree::{Node, Value, shown};
use super::trust::{Links, open_regular, read_up_to};
use crate::api::{
    AgentChoice, AgentDraft, OrderDraft, OrderGate, OrderSource, OrderSpec, PolicySource, RunCreate,
};
use foreman_domain::{At, Code, Failure, OrderId, Wall};
use foreman_policy::{
    Bounds, KeyUse, SecretUse, Toolchain, parse_allow, parse_bounds, parse_duration, parse_key_use,
    parse_secret_use, parse_toolchains,
};
use foreman_schedule::{
    Autonomy, Cadence, Complexity, Enforcement, Hints, Impact, Missed, Recurrence, ScopeClaim,
};
use std::path::Path;

/// Keys of an order.
pub(super) const KEYS: &[&str] = &[
    "id",
    "title",
    "repo",
    "base",
    "command",
    "prompt",
    "env",
    "env_from",
    "allow",
    "policy",
    "bounds",
    "setup",
    "copy",
    "checks",
    "unattended",
    "hold_reads",
    "accept_weaker",
    "toolchains",
    "secrets",
    "priority",
    "impact",
    "complexity",
    "autonomy",
    "kind",
    "class",
    "not_before",
    "recurrence",
    "retries",
    "scope",
    "depends_on",
    "parent",
    "gate",
    "attempts",
    "agent",
    "model",
    "lend_login",
    "key",
    "estimate_wall",
];
/// Those of them that stand for all orders of a file when they stand above them.
pub(super) const SHARED: &[&str] = &[
    "repo",
    "base",
    "command",
    "env",
    "env_from",
    "allow",
    "policy",
    "bounds",
    "setup",
    "copy",
    "checks",
    "unattended",
    "hold_reads",
    "accept_weaker",
    "toolchains",
    "secrets",
    "impact",
    "autonomy",
    "kind",
    "class",
    "retries",
    "gate",
    "parent",
    "estimate_wall",
];
/// Most attempts side by side.
pub(super) const MOST_ATTEMPTS: u32 = 16;
/// Most retries.
pub(super) const MOST_RETRIES: u32 = 20;
/// Largest policy file.
const POLICY_BYTES: u64 = 256 * 1024;

/// Reads one order; `body` is the text below the front matter.
pub(super) fn order(
    section: &Section<'_>,
    source: &OrderSource,
    body: Option<&str>,
) -> Result<OrderDraft, Failure> {
    let (agents, agent) = match section.get("agent").map(|node| &node.value) {
        Some(Value::Text(_)) => (Vec::new(), by_name(section)?),
        _ => (agents(section)?, None),
    };
    let astray = ["model", "lend_login", "key"]
        .into_iter()
        .find(|key| agent.is_none() && section.get(key).is_some());
    if let Some(key) = astray {
        return Err(section.at_key(key, "is about an agent by its name, and there is none"));
    }
    let argv = match (section.argv("command")?, agents.first()) {
        (Some(_), _) if agent.is_some() => {
            return Err(section.at_key("agent", "and \"command\" exclude each other"));
        }
        (Some(argv), _) => argv,
        (None, Some(agent)) => agent.argv.clone(),
        (None, None) if agent.is_some() => Vec::new(),
        (None, None) => {
            return Err(section
                .refuse(section.at, format!("{} has no \"command\"", section.what))
                .hint("Write command = [\"my-agent\", \"{prompt}\"], or agent = \"pi\"."));
        }
    };
    let repo = match (section.text("repo")?, &source.repo) {
        (Some(repo), _) => source.folder.join(repo),
        (None, Some(repo)) => repo.clone(),
        (None, None) => {
            return Err(section
                .refuse(section.at, format!("{} has no \"repo\"", section.what))
                .hint("Name a path in the repository, from the file's folder on or absolute."));
        }
    };
    let run = RunCreate {
        title: section.text("title")?.map(str::to_owned),
        base: section.text("base")?.map(str::to_owned),
        allow: allow(section)?,
        policy: policy(section, &source.folder)?,
        bounds: bounds(section)?,
        setup: section.text("setup")?.map(str::to_owned),
        checks: section.texts("checks")?,
        unattended: section.flag("unattended")?,
        hold_reads: section.flag("hold_reads")?,
        accept_weaker: walls(section)?,
        env: variables(section)?,
        prepare: crate::api::Preparation {
            copy: section.texts("copy")?,
            ..crate::api::Preparation::default()
        },
        toolchains: toolchains(section)?,
        secrets: secrets(section)?,
        agent,
        ..RunCreate::new(repo, argv)
    };
    let spec = OrderSpec {
        run,
        env_from: section.texts("env_from")?,
        prompt: prompt(section, body)?,
        hints: hints(section)?,
        scope: scope(section)?,
        depends_on: ids(section, "depends_on")?,
        parent: ids(section, "parent")?.into_iter().next(),
        gate: section
            .choice(
                "gate",
                &[("review", OrderGate::Review), ("checks", OrderGate::Checks)],
            )?
            .unwrap_or_default(),
        estimate_wall_seconds: duration(section, "estimate_wall")?,
    };
    Ok(OrderDraft {
        id: section.text("id")?.map(str::to_owned),
        spec,
        attempts: section.whole("attempts", 1, MOST_ATTEMPTS)?,
        agents,
    })
}

fn prompt(section: &Section<'_>, body: Option<&str>) -> Result<Option<String>, Failure> {
    let own = section.text("prompt")?;
    let body = body.map(str::trim).filter(|body| !body.is_empty());
    match (own, body) {
        (Some(_), Some(_)) => Err(section
            .at_key(
                "prompt",
                "is given twice: the text below the front matter is the prompt too",
            )
            .hint("Keep one of them.")),
        (own, body) => Ok(own.or(body).map(str::to_owned)),
    }
}

fn allow(section: &Section<'_>) -> Result<Vec<String>, Failure> {
    let allow = section.texts("allow")?;
    for text in &allow {
        parse_allow(text).map_err(|error| {
            section.because("allow", crate::failures::policy(error.code(), &error))
        })?;
    }
    Ok(allow)
}

fn toolchains(section: &Section<'_>) -> Result<Option<Vec<Toolchain>>, Failure> {
    if section.get("toolchains").is_none() {
        return Ok(None);
    }
    let text = section.texts("toolchains")?.join(",");
    let read = parse_toolchains(&text);
    read.map(Some).map_err(|error| {
        section.because("toolchains", crate::failures::policy(error.code(), &error))
    })
}

fn secrets(section: &Section<'_>) -> Result<Vec<SecretUse>, Failure> {
    let texts = section.texts("secrets")?;
    let read = texts.iter().map(|text| parse_secret_use(text));
    read.collect::<Result<_, _>>()
        .map_err(|error| section.because("secrets", crate::failures::policy(error.code(), &error)))
}

fn bounds(section: &Section<'_>) -> Result<Bounds, Failure> {
    let text = match section.get("bounds") {
        None => return Ok(Bounds::default()),
        Some(Node {
            value: Value::Text(text),
            ..
        }) => text.clone(),
        Some(Node {
            value: Value::Table(table),
            at,
        }) => {
            let parts = table.entries.iter().map(|(key, node)| match &node.value {
                Value::Text(text) => Ok(format!("{}={text}", key.name)),
                Value::Whole(number) => Ok(format!("{}={number}", key.name)),
                _ => Err(section.refuse(
                    *at,
                    format!("\"{}\" is a number or a text with a unit", shown(&key.name)),
                )),
            });
            parts.collect::<Result<Vec<_>, _>>()?.join(",")
        }
        Some(_) => return Err(section.at_key("bounds", "is a table or a text, as \"wall=2h\"")),
    };
    parse_bounds(&text).map_err(|error| {
        let failure = Failure::new(error.code(), error.message.clone());
        let failure = match error.hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        };
        section.because("bounds", failure)
    })
}

fn duration(section: &Section<'_>, key: &str) -> Result<Option<u64>, Failure> {
    let Some(text) = section.text(key)? else {
        return Ok(None);
    };
    let seconds = parse_duration(text).map_err(|error| {
        section
            .at_key(key, format!("is no duration: \"{}\"", shown(text)))
            .hint(error.hint.unwrap_or_default())
    })?;
    if seconds == 0 || seconds > 30 * 86_400 {
        return Err(section
            .at_key(key, "is not to be meant")
            .hint("From 1 second to 30 days is possible."));
    }
    Ok(Some(seconds))
}

fn policy(section: &Section<'_>, folder: &Path) -> Result<Option<PolicySource>, Failure> {
    let Some(name) = section.text("policy")? else {
        return Ok(None);
    };
    let read = || -> std::io::Result<String> {
        let (file, _) = open_regular(&folder.join(name), Links::Follow)?;
        let bytes = read_up_to(file, POLICY_BYTES)?;
        if bytes.len() as u64 > POLICY_BYTES {
            let message = format!("it is larger than {} KiB", POLICY_BYTES / 1024);
            return Err(std::io::Error::other(message));
        }
        String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is no text in UTF-8"))
    };
    let text = read().map_err(|error| {
        section.at_key(
            "policy",
            format!("cannot be read: {}: {error}", shown(name)),
        )
    })?;
    foreman_policy::parse_policy(name, &text, foreman_policy::Layer::Order).map_err(|error| {
        section.because("policy", crate::failures::policy(error.code(), &error))
    })?;
    let name = name.to_owned();
    Ok(Some(PolicySource { name, text }))
}

fn walls(section: &Section<'_>) -> Result<Vec<Wall>, Failure> {
    let names = section.texts("accept_weaker")?;
    let wall = |name: &String| {
        Wall::ALL
            .into_iter()
            .find(|wall| wall.name() == name)
            .ok_or_else(|| {
                let walls = Wall::ALL.map(Wall::name).join(", ");
                section
                    .at_key(
                        "accept_weaker",
                        format!("names no wall: \"{}\"", shown(name)),
                    )
                    .hint(format!("Walls are {walls}."))
            })
    };
    names.iter().map(wall).collect()
}

fn variables(section: &Section<'_>) -> Result<Vec<(String, String)>, Failure> {
    let Some(node) = section.get("env") else {
        return Ok(Vec::new());
    };
    let Value::Table(table) = &node.value else {
        return Err(section
            .at_key("env", "is a table of names and values")
            .hint("Write [env] and NAME = \"value\"; `env_from` takes the engine's own."));
    };
    let each = table.entries.iter().map(|(key, node)| match &node.value {
        Value::Text(value) => Ok((key.name.clone(), value.clone())),
        Value::Whole(number) => Ok((key.name.clone(), number.to_string())),
        _ => Err(section.refuse(node.at, format!("\"{}\" is a text", shown(&key.name)))),
    });
    each.collect()
}

fn hints(section: &Section<'_>) -> Result<Hints, Failure> {
    Ok(Hints {
        priority: section.flag("priority")?,
        impact: section.choice(
            "impact",
            &[
                ("high", Impact::High),
                ("medium", Impact::Medium),
                ("low", Impact::Low),
            ],
        )?,
        complexity: section.choice(
            "complexity",
            &[
                ("small", Complexity::Small),
                ("medium", Complexity::Medium),
                ("large", Complexity::Large),
            ],
        )?,
        autonomy: section
            .choice(
                "autonomy",
                &[
                    ("human_only", Autonomy::HumanOnly),
                    ("supervised", Autonomy::Supervised),
                    ("autonomous", Autonomy::Autonomous),
                ],
            )?
            .unwrap_or_default(),
        kind: section.text("kind")?.map(str::to_owned),
        concurrency_class: section.text("class")?.map(str::to_owned),
        not_before: time(section, "not_before")?,
        recurrence: recurrence(section)?,
        retries: section.whole("retries", 0, MOST_RETRIES)?.unwrap_or(0),
    })
}

fn time(section: &Section<'_>, key: &str) -> Result<Option<At>, Failure> {
    let Some(text) = section.text(key)? else {
        return Ok(None);
    };
    match super::check::parse_time(text) {
        Some(at) => Ok(Some(at)),
        None => Err(section
            .at_key(key, format!("is no time: \"{}\"", shown(text)))
            .hint("Write it as 2027-01-31T08:00:00Z, or without Z for this machine's time zone.")),
    }
}

fn recurrence(section: &Section<'_>) -> Result<Option<Recurrence>, Failure> {
    let Some(node) = section.get("recurrence") else {
        return Ok(None);
    };
    let table = section.within("\"recurrence\"", node)?;
    table.only(&["every", "from", "calendar", "zone", "missed", "at_most"])?;
    let every = duration(&table, "every")?;
    let cadence = match (every, table.text("calendar")?) {
        (Some(every_seconds), None) => Cadence::Every {
            every_seconds,
            from: time(&table, "from")?.unwrap_or_else(|| At::from_millis(0)),
        },
        (None, Some(calendar)) => Cadence::Calendar {
            calendar: calendar.to_owned(),
        },
        _ => {
            return Err(table
                .refuse(node.at, "a recurrence has either \"every\" or \"calendar\"")
                .hint("Write every = \"6h\", or calendar = \"30 3 * * 1-5\"."));
        }
    };
    let at_most = table.whole("at_most", 1, 100)?;
    let missed = table.choice("missed", &[("skip", 0), ("once", 1), ("all", 2)])?;
    let missed = match (missed, at_most) {
        (Some(0), None) => Missed::Skip,
        (Some(1) | None, None) => Missed::Once,
        (Some(2), at_most) => Missed::All {
            at_most: at_most.unwrap_or(10),
        },
        _ => return Err(table.at_key("at_most", "belongs to missed = \"all\"")),
    };
    let recurrence = Recurrence {
        cadence,
        zone: table.text("zone")?.map(str::to_owned),
        missed,
    };
    super::slots::check(&recurrence).map_err(|message| table.refuse(node.at, message))?;
    Ok(Some(recurrence))
}

fn scope(section: &Section<'_>) -> Result<Option<ScopeClaim>, Failure> {
    let Some(node) = section.get("scope") else {
        return Ok(None);
    };
    let claim = match &node.value {
        Value::Table(_) => {
            let table = section.within("\"scope\"", node)?;
            table.only(&["patterns", "enforcement", "strict"])?;
            ScopeClaim {
                patterns: table.texts("patterns")?,
                enforcement: table
                    .choice(
                        "enforcement",
                        &[
                            ("advisory", Enforcement::Advisory),
                            ("mandatory", Enforcement::Mandatory),
                        ],
                    )?
                    .unwrap_or_default(),
                strict: table.flag("strict")?,
            }
        }
        _ => ScopeClaim {
            patterns: section.texts("scope")?,
            enforcement: Enforcement::default(),
            strict: false,
        },
    };
    if claim.patterns.is_empty() {
        return Err(section.at_key("scope", "has no patterns"));
    }
    Ok(Some(claim))
}

fn ids(section: &Section<'_>, key: &str) -> Result<Vec<OrderId>, Failure> {
    let texts = section.texts(key)?;
    let each = texts.iter().map(|text| {
        text.parse::<OrderId>()
            .map_err(|error| section.at_key(key, format!("names no order: {error}")))
    });
    each.collect()
}

/// An agent by its name; what it is to do is the order's prompt.
fn by_name(section: &Section<'_>) -> Result<Option<AgentChoice>, Failure> {
    let Some(name) = section.text("agent")? else {
        return Ok(None);
    };
    let (lend_login, refresh_login) = login(section)?;
    Ok(Some(AgentChoice {
        name: name.to_owned(),
        prompt: String::new(),
        model: section.text("model")?.map(str::to_owned),
        lend_login: lend_login || refresh_login,
        refresh_login,
        key: key(section)?,
    }))
}

/// Whether a login is lent, and whether it is written back.
fn login(section: &Section<'_>) -> Result<(bool, bool), Failure> {
    match section.get("lend_login").map(|node| &node.value) {
        Some(Value::Text(text)) if text == "refresh" => Ok((true, true)),
        Some(Value::Text(_)) => Err(section
            .at_key("lend_login", "is true, false or \"refresh\"")
            .hint("With \"refresh\", tokens that the agent renewed are written back when the run has ended.")),
        _ => Ok((section.flag("lend_login")?, false)),
    }
}

fn key(section: &Section<'_>) -> Result<Option<KeyUse>, Failure> {
    let read = section.text("key")?.map(parse_key_use).transpose();
    read.map_err(|error| section.because("key", crate::failures::policy(error.code(), &error)))
}

fn agents(section: &Section<'_>) -> Result<Vec<AgentDraft>, Failure> {
    let Some(node) = section.get("agent") else {
        return Ok(Vec::new());
    };
    let Value::List(items) = &node.value else {
        return Err(section
            .at_key(
                "agent",
                "is neither the name of an agent nor a list of tables: agents that try the same side by side",
            )
            .hint("For a single agent write `command`; for several begin each with [[agent]]."));
    };
    let each = items.iter().map(|item| {
        let table = section.within("an [[agent]]", item)?;
        table.only(&["name", "command"])?;
        let missing = |key: &str| table.refuse(table.at, format!("an [[agent]] has no \"{key}\""));
        Ok(AgentDraft {
            name: table
                .text("name")?
                .ok_or_else(|| missing("name"))?
                .to_owned(),
            argv: table.argv("command")?.ok_or_else(|| missing("command"))?,
        })
    });
    let agents: Vec<AgentDraft> = each.collect::<Result<_, Failure>>()?;
    if section.get("attempts").is_some() {
        return Err(Failure {
            code: Code::BadInput,
            ..section.at_key("attempts", "and [[agent]] tables exclude each other")
        });
    }
    Ok(agents)
}
