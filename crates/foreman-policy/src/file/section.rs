//! One table of a policy file, read key by key; every mistake carries its place.

use super::LONGEST_REASON;
use crate::error::{Fault, PolicyError, place, quoted};
use foreman_domain::sanitize_line;
use std::ops::Range;
use toml_edit::{Item, TableLike, Value};

/// The file that is read.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub name: &'a str,
    pub text: &'a str,
}

impl Source<'_> {
    pub fn shown_name(&self) -> String {
        sanitize_line(&self.name.chars().take(100).collect::<String>())
    }
}

/// One table of the file.
pub(super) struct Section<'a> {
    source: Source<'a>,
    what: &'static str,
    table: &'a dyn TableLike,
    span: Option<Range<usize>>,
}

impl<'a> Section<'a> {
    /// `what` is the table in words, as "an [[egress]] rule".
    pub fn new(
        source: Source<'a>,
        what: &'static str,
        table: &'a dyn TableLike,
        span: Option<Range<usize>>,
    ) -> Self {
        Self {
            source,
            what,
            table,
            span,
        }
    }

    pub fn source(&self) -> Source<'a> {
        self.source
    }

    pub fn get(&self, key: &str) -> Option<&'a Item> {
        self.table.get(key)
    }

    pub fn keys(&self) -> Vec<&'a str> {
        self.table.iter().map(|(key, _)| key).collect()
    }

    pub fn line(&self) -> u32 {
        place(
            self.source.text,
            self.span.as_ref().map_or(0, |span| span.start),
        )
        .0
    }

    pub fn at_start(&self, fault: Fault) -> PolicyError {
        fault.in_file(self.source.name, self.source.text, self.span.clone())
    }

    pub fn at_key(&self, key: &str, fault: Fault) -> PolicyError {
        let key_span = self
            .table
            .get_key_value(key)
            .and_then(|(key, item)| key.span().or_else(|| item.span()));
        fault.in_file(
            self.source.name,
            self.source.text,
            key_span.or_else(|| self.span.clone()),
        )
    }

    pub fn at_value(&self, key: &str, fault: Fault) -> PolicyError {
        match self.get(key).and_then(Item::span) {
            Some(span) => fault.in_file(self.source.name, self.source.text, Some(span)),
            None => self.at_key(key, fault),
        }
    }

    /// Refuses keys that are not among `known`, and names the nearest one that is.
    pub fn only(&self, known: &[&'static str]) -> Result<(), PolicyError> {
        match self.keys().into_iter().find(|key| !known.contains(key)) {
            None => Ok(()),
            Some(key) => Err(self.at_key(key, unknown_key(key, self.what, known))),
        }
    }

    /// A text, when the key is there.
    pub fn text(&self, key: &'static str) -> Result<Option<&'a str>, PolicyError> {
        match self.get(key) {
            None => Ok(None),
            Some(Item::Value(Value::String(text))) => Ok(Some(text.value())),
            Some(_) => Err(self.at_value(
                key,
                Fault::new(format!("{} is a text", quoted(key)))
                    .hint(format!("Put it in quotes: {key} = \"…\".")),
            )),
        }
    }

    /// A text that must be there.
    pub fn needed_text(&self, key: &'static str) -> Result<&'a str, PolicyError> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    /// A whole number, when the key is there.
    pub fn number(&self, key: &'static str) -> Result<Option<i64>, PolicyError> {
        match self.get(key) {
            None => Ok(None),
            Some(Item::Value(Value::Integer(number))) => Ok(Some(*number.value())),
            Some(Item::Value(Value::Array(_))) => Err(self.at_value(
                key,
                Fault::new(format!("{} is one number", quoted(key))).hint("Write a rule for each."),
            )),
            Some(_) => Err(self.at_value(
                key,
                Fault::new(format!("{} is a whole number", quoted(key)))
                    .hint(format!("Write it without quotes: {key} = 443.")),
            )),
        }
    }

    pub fn missing(&self, key: &str) -> PolicyError {
        self.at_start(Fault::new(format!("{} has no {}", self.what, quoted(key))))
    }

    /// Why the author wrote the rule: one line, safe to show.
    pub fn reason(&self) -> Result<Option<String>, PolicyError> {
        let Some(reason) = self.text("reason")? else {
            return Ok(None);
        };
        if reason.chars().count() > LONGEST_REASON {
            return Err(self.at_value(
                "reason",
                Fault::new(format!(
                    "the reason is longer than {LONGEST_REASON} characters"
                )),
            ));
        }
        Ok(Some(sanitize_line(reason)))
    }
}

/// "x is not a key of y", with the nearest key that is.
pub(super) fn unknown_key(key: &str, what: &str, known: &[&'static str]) -> Fault {
    let fault = Fault::new(format!("{} is not a key of {what}", quoted(key)));
    // Bounded before it is compared: the comparison takes time by the product of both lengths.
    let short: String = key
        .chars()
        .take(64)
        .collect::<String>()
        .to_ascii_lowercase();
    let nearest = known
        .iter()
        .map(|known| (strsim::jaro_winkler(&short, known), *known))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(similarity, _)| *similarity >= 0.75);
    match nearest {
        Some((_, nearest)) => fault.hint(format!("Did you mean \"{nearest}\"?")),
        None => fault.hint(format!("The keys are {}.", known.join(", "))),
    }
}
