//! Order files: text to drafts, or one refusal with its place and what to do. All or nothing: a file
//! with one mistake gives no orders, and unknown keys are mistakes, never passed over.
//!
//! `.toml` is one order, or several as `[[order]]` with what they share above them. `.md` is one order:
//! front matter between `+++` lines (TOML) or `---` lines (YAML), and the rest is the prompt.

use super::read::{self, KEYS, SHARED};
use super::section::Section;
use super::tree::{Place, Table, Value, refused};
use super::{toml_tree, yaml_tree};
use crate::api::{OrderDraft, OrderSource};
use foreman_domain::{Failure, OrderId};
use std::collections::BTreeSet;
use std::path::Path;

/// Largest file that is looked at.
pub(super) const LARGEST: usize = 1 << 20;
/// Most orders of one file.
const MOST_ORDERS: usize = 500;

/// Reads a file. Orders without an id get one of the file's name, so that a changed file changes the
/// orders that it made.
pub(super) fn parse(source: &OrderSource) -> Result<Vec<OrderDraft>, Failure> {
    let (name, text) = (source.name.as_str(), source.text.as_str());
    if text.len() > LARGEST {
        return Err(refused(name, None, "the file is larger than 1 MiB"));
    }
    if text.contains('\0') {
        return Err(refused(
            name,
            None,
            "the file holds a NUL byte, so it is no text",
        ));
    }
    let (table, prompt) = match kind(name, text) {
        Kind::Toml => (toml_tree::parse(name, text, 1)?, None),
        Kind::Markdown => {
            let parts = split(name, text)?;
            let table = match parts.mark {
                "+++" => toml_tree::parse(name, parts.front, 2)?,
                _ => yaml_tree::parse(name, parts.front, 2)?,
            };
            (table, Some(parts.body))
        }
    };
    let sections = sections(name, &table, prompt.is_some())?;
    let stem = stem(name);
    let several = sections.len() > 1;
    let mut ids = BTreeSet::new();
    let mut drafts = Vec::with_capacity(sections.len());
    for (index, section) in sections.into_iter().enumerate() {
        let mut draft = read::order(&section, source, prompt)?;
        if draft.id.is_none() {
            draft.id = match &stem {
                Some(stem) if several => Some(format!("{stem}-{}", index + 1)),
                stem => stem.clone(),
            };
        }
        if let Some(id) = &draft.id {
            let at = section.get("id").map_or(section.at, |node| node.at);
            id.parse::<OrderId>()
                .map_err(|error| refused(name, Some(at), error.to_string()))?;
            if !ids.insert(id.clone()) {
                let message = format!("there are two orders with the id \"{id}\"");
                return Err(refused(name, Some(at), message).hint("Give each an id of its own."));
            }
        }
        drafts.push(draft);
    }
    Ok(drafts)
}

/// The tables of the orders.
fn sections<'a>(
    name: &'a str,
    table: &'a Table,
    is_markdown: bool,
) -> Result<Vec<Section<'a>>, Failure> {
    let whole = Section {
        file: name,
        what: "an order",
        at: Place::START,
        table,
        defaults: None,
    };
    let Some(orders) = table.get("order") else {
        whole.only(KEYS)?;
        return Ok(vec![whole]);
    };
    if is_markdown {
        return Err(whole.at_key(
            "order",
            "cannot be in front matter: a markdown file is one order",
        ));
    }
    let Value::List(items) = &orders.value else {
        return Err(whole
            .at_key("order", "is a list of tables")
            .hint("Begin each order with [[order]], in double brackets."));
    };
    if items.is_empty() || items.len() > MOST_ORDERS {
        let problem = format!(
            "lists {} orders; 1 to {MOST_ORDERS} are possible",
            items.len()
        );
        return Err(whole.at_key("order", problem));
    }
    let mut shared = SHARED.to_vec();
    shared.push("order");
    Section {
        what: "what the orders of a file share",
        ..whole
    }
    .only(&shared)?;
    items
        .iter()
        .map(|node| {
            let section = Section {
                defaults: Some(table),
                ..whole.within("an [[order]]", node)?
            };
            section.only(KEYS)?;
            Ok(section)
        })
        .collect()
}

enum Kind {
    Toml,
    Markdown,
}

fn kind(name: &str, text: &str) -> Kind {
    let ending = Path::new(name)
        .extension()
        .and_then(|ending| ending.to_str());
    match ending.map(str::to_ascii_lowercase).as_deref() {
        Some("toml") => Kind::Toml,
        Some("md" | "markdown") => Kind::Markdown,
        // Standard input has no name that would say it.
        _ if text.starts_with("+++") || text.starts_with("---") => Kind::Markdown,
        _ => Kind::Toml,
    }
}

struct Parts<'a> {
    mark: &'static str,
    front: &'a str,
    body: &'a str,
}

/// Front matter and body.
fn split<'a>(name: &str, text: &'a str) -> Result<Parts<'a>, Failure> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().next().unwrap_or_default().trim_end();
    let mark = match first {
        "+++" => "+++",
        "---" => "---",
        _ => {
            return Err(
                refused(name, Some(Place::START), "the file has no front matter").hint(
                    "Begin it with a line `+++`, then keys as in TOML, then another line `+++`; the \
                     rest is the prompt.",
                ),
            );
        }
    };
    let begin = text.find('\n').map_or(text.len(), |at| at + 1);
    let rest = text.get(begin..).unwrap_or_default();
    let mut offset = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == mark {
            return Ok(Parts {
                mark,
                front: rest.get(..offset).unwrap_or_default(),
                body: rest.get(offset + line.len()..).unwrap_or_default(),
            });
        }
        offset += line.len();
    }
    Err(refused(
        name,
        Some(Place::START),
        format!("the front matter has no end: a line `{mark}` is missing"),
    ))
}

/// The file's name as the beginning of an id, where it can be one.
fn stem(name: &str) -> Option<String> {
    let stem = Path::new(name).file_stem()?.to_str()?;
    stem.parse::<OrderId>().ok()?;
    Some(stem.to_owned())
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
