//! TOML as a tree.

use super::tree::{DEEPEST, Key, Node, Place, Table, Value, refused};
use foreman_domain::Failure;
use std::ops::Range;
use toml_edit::{Document, Item, TableLike, Value as Toml};

/// The text being read.
#[derive(Clone, Copy)]
struct Text<'a> {
    name: &'a str,
    text: &'a str,
    first_line: u32,
}

/// Reads TOML whose first line is `first_line` of the file.
pub(super) fn parse(name: &str, text: &str, first_line: u32) -> Result<Table, Failure> {
    let source = Text {
        name,
        text,
        first_line,
    };
    let document = Document::parse(text).map_err(|error| {
        let what: Vec<&str> = error.message().lines().map(str::trim).collect();
        let at = source.place(error.span());
        refused(
            name,
            Some(at),
            format!("this is not valid TOML: {}", what.join(", ")),
        )
    })?;
    source.table(document.as_table(), 0)
}

impl Text<'_> {
    fn place(self, span: Option<Range<usize>>) -> Place {
        let offset = span.map_or(0, |span| span.start);
        Place::of_byte(self.text, offset, self.first_line)
    }

    fn table(self, table: &dyn TableLike, depth: usize) -> Result<Table, Failure> {
        let mut entries = Vec::new();
        for (name, item) in table.iter() {
            let key_span = table
                .get_key_value(name)
                .and_then(|(key, item)| key.span().or_else(|| item.span()));
            let at = self.place(key_span);
            let key = Key {
                at,
                name: name.to_owned(),
            };
            entries.push((key, self.item(item, at, depth + 1)?));
        }
        Ok(Table { entries })
    }

    fn item(self, item: &Item, key: Place, depth: usize) -> Result<Node, Failure> {
        if depth > DEEPEST {
            return Err(refused(self.name, Some(key), "this is nested too deeply"));
        }
        let value = match item {
            Item::None => Value::Other("nothing"),
            Item::Value(value) => return self.value(value, key, depth),
            Item::Table(table) => Value::Table(self.table(table, depth)?),
            Item::ArrayOfTables(tables) => {
                let each = tables.iter().map(|table| {
                    let at = table.span().map_or(key, |span| self.place(Some(span)));
                    let value = Value::Table(self.table(table, depth + 1)?);
                    Ok(Node { at, value })
                });
                Value::List(each.collect::<Result<_, Failure>>()?)
            }
        };
        Ok(Node { at: key, value })
    }

    fn value(self, value: &Toml, key: Place, depth: usize) -> Result<Node, Failure> {
        if depth > DEEPEST {
            return Err(refused(self.name, Some(key), "this is nested too deeply"));
        }
        let at = value.span().map_or(key, |span| self.place(Some(span)));
        let value = match value {
            Toml::String(text) => Value::Text(text.value().clone()),
            Toml::Integer(number) => Value::Whole(*number.value()),
            Toml::Boolean(flag) => Value::Flag(*flag.value()),
            Toml::Float(_) => Value::Other("a number with a fraction"),
            // As it is written elsewhere: a text that says a time.
            Toml::Datetime(time) => Value::Text(time.value().to_string()),
            Toml::Array(items) => {
                let each = items.iter().map(|item| self.value(item, at, depth + 1));
                Value::List(each.collect::<Result<_, Failure>>()?)
            }
            Toml::InlineTable(table) => Value::Table(self.table(table, depth)?),
        };
        Ok(Node { at, value })
    }
}
