//! The policy file: TOML text to rules, or one error with line, column and what to do.
//!
//! All or nothing: a file with one mistake gives no rules. Unknown keys, repeated and contradictory
//! rules, absurd figures, and what is not enforced yet are mistakes, never ignored. What is only of no
//! effect is a warning.

mod bounds;
mod egress;
mod paths;
mod section;
mod sockets;
mod wishes;

pub use bounds::parse_bounds;
pub(crate) use egress::LONGEST_REASON;

use crate::error::{Fault, PolicyError, quoted};
use crate::{
    Bounds, EgressRule, Layer, Origin, PathRule, RuleId, SecretUse, SocketRule, Toolchain,
};
use section::{Section, Source};
use toml_edit::{Document, Item, TableLike};

/// Largest policy text that is looked at.
const LARGEST: usize = 256 * 1024;
/// Most rules of one file: each connection is compared with all of them.
const MOST_RULES: usize = 1_000;

const TOP_LEVEL: &[&str] = &[
    "egress",
    "read",
    "write",
    "socket",
    "bounds",
    "toolchains",
    "secrets",
    "env",
];

/// A policy file's content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyFile {
    /// What may be reached.
    pub egress: Vec<EgressRule>,
    /// What of the host may be seen.
    pub paths: Vec<PathRule>,
    /// Which sockets of the host may be connected to.
    pub sockets: Vec<SocketRule>,
    /// Bounds of a run.
    pub bounds: Bounds,
    /// Toolchains to show; found out when absent.
    pub toolchains: Option<Vec<Toolchain>>,
    /// Secrets that a run is to be handed.
    pub secrets: Vec<SecretUse>,
    /// Variables of the operator's that a run is to have.
    pub env: Vec<String>,
    /// What is allowed but has less effect than it seems, or gives more away; sentences.
    pub warnings: Vec<String>,
}

/// Reads the policy file `text`, called `name` in messages, as rules of `layer`. Rule ids are the
/// layer and the rule's number in the file, as `order:2`; they are unique within one file.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse_policy(name: &str, text: &str, layer: Layer) -> Result<PolicyFile, PolicyError> {
    if text.len() > LARGEST {
        return Err(
            Fault::new(format!("the file is larger than {} KiB", LARGEST / 1024))
                .hint("Write fewer rules, with wildcards where one owner has many hosts.")
                .in_file(name, text, None),
        );
    }
    let source = Source { name, text };
    let document = Document::parse(text).map_err(|error| {
        let what: Vec<&str> = error.message().lines().map(str::trim).collect();
        Fault::new(format!("this is not valid TOML: {}", what.join(", "))).in_file(
            name,
            text,
            error.span(),
        )
    })?;
    let top = Section::new(source, "the policy file", document.as_table(), None);
    top.only(TOP_LEVEL)?;
    let mut file = PolicyFile::default();
    let mut origins = Origins {
        source,
        layer,
        count: 0,
    };
    for rule in tables(&top, "egress", "an [[egress]] rule")? {
        let origin = origins.next(&rule)?;
        egress::read(&rule, origin, &mut file)?;
    }
    for (key, what, access) in paths::KINDS {
        for rule in tables(&top, key, what)? {
            let origin = origins.next(&rule)?;
            paths::read(&rule, *access, origin, &mut file)?;
        }
    }
    for rule in tables(&top, "socket", "a [[socket]] rule")? {
        let origin = origins.next(&rule)?;
        sockets::read(&rule, origin, &mut file)?;
    }
    if let Some(item) = document.get("bounds") {
        let table = item.as_table_like().ok_or_else(|| {
            top.at_key(
                "bounds",
                Fault::new("\"bounds\" is one table").hint("Write [bounds]."),
            )
        })?;
        file.bounds = bounds::read(&Section::new(source, "[bounds]", table, item.span()))?;
    }
    wishes::read(&top, &mut file)?;
    Ok(file)
}

/// Gives each rule of a file its origin.
struct Origins<'a> {
    source: Source<'a>,
    layer: Layer,
    count: usize,
}

impl Origins<'_> {
    fn next(&mut self, rule: &Section<'_>) -> Result<Origin, PolicyError> {
        self.count += 1;
        if self.count > MOST_RULES {
            return Err(rule.at_start(Fault::new(format!(
                "the file has more than {MOST_RULES} rules"
            ))));
        }
        let layer = match self.layer {
            Layer::Floor => "floor",
            Layer::Profile => "profile",
            Layer::Project => "project",
            Layer::Order => "order",
            Layer::Amendment => "amendment",
        };
        Ok(Origin {
            id: RuleId(format!("{layer}:{}", self.count)),
            layer: self.layer,
            source: format!("{} line {}", self.source.shown_name(), rule.line()),
            amendment: None,
            reason: rule.reason()?,
        })
    }
}

/// The tables of `[[key]]`, also when written as an array of inline tables.
fn tables<'a>(
    top: &Section<'a>,
    key: &'static str,
    what: &'static str,
) -> Result<Vec<Section<'a>>, PolicyError> {
    let wrong = || {
        top.at_key(
            key,
            Fault::new(format!("{} is a list of tables", quoted(key))).hint(format!(
                "Begin each rule with [[{key}]], in double brackets."
            )),
        )
    };
    let section = |table: &'a dyn TableLike, span| Section::new(top.source(), what, table, span);
    match top.get(key) {
        None => Ok(Vec::new()),
        Some(Item::ArrayOfTables(rules)) => Ok(rules
            .iter()
            .map(|rule| section(rule, rule.span()))
            .collect()),
        Some(Item::Value(value)) => value
            .as_array()
            .ok_or_else(wrong)?
            .iter()
            .map(|rule| {
                let table = rule.as_inline_table().ok_or_else(wrong)?;
                Ok(section(table, rule.span()))
            })
            .collect(),
        Some(Item::Table(_) | Item::None) => Err(wrong()),
    }
}

#[cfg(test)]
#[path = "file/tests.rs"]
mod tests;
