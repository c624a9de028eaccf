//! YAML front matter as a tree: mappings, sequences and scalars. Anchors, aliases and tags are
//! refused: a few bytes of them can stand for any amount of data, and no order needs them.

use super::tree::{DEEPEST, Key, Node, Place, Table, Value, number, refused, shown};
use foreman_domain::Failure;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span};

/// A collection that is not complete yet.
enum Open {
    List {
        at: Place,
        items: Vec<Node>,
    },
    Table {
        at: Place,
        table: Table,
        key: Option<Key>,
    },
}

struct Builder<'a> {
    name: &'a str,
    first_line: u32,
    open: Vec<Open>,
    root: Option<Node>,
}

/// Reads YAML whose first line is `first_line` of the file: one mapping.
pub(super) fn parse(name: &str, text: &str, first_line: u32) -> Result<Table, Failure> {
    let mut builder = Builder {
        name,
        first_line,
        open: Vec::new(),
        root: None,
    };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| builder.broken(&error))?;
        let at = builder.place(&span.start);
        match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(refused(
                        name,
                        Some(at),
                        "there is more than one YAML document",
                    ));
                }
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            event => builder.take(event, span, at)?,
        }
    }
    match builder.root {
        None => Ok(Table::default()),
        Some(Node {
            value: Value::Table(table),
            ..
        }) => Ok(table),
        // Front matter of nothing but blanks and comments.
        Some(Node {
            value: Value::Other("nothing"),
            ..
        }) => Ok(Table::default()),
        Some(node) => Err(refused(
            name,
            Some(node.at),
            "the front matter is no list of keys and values",
        )
        .hint("Write each as `key: value` on a line of its own.")),
    }
}

impl Builder<'_> {
    fn place(&self, marker: &Marker) -> Place {
        Place {
            line: self
                .first_line
                .saturating_add(number(marker.line().saturating_sub(1))),
            column: number(marker.col()).saturating_add(1),
        }
    }

    fn broken(&self, error: &ScanError) -> Failure {
        let at = self.place(error.marker());
        let what = shown(error.info());
        refused(
            self.name,
            Some(at),
            format!("this is not valid YAML: {what}"),
        )
    }

    fn take(&mut self, event: Event<'_>, _span: Span, at: Place) -> Result<(), Failure> {
        let plain = |anchor: usize, is_tagged: bool| {
            if anchor == 0 && !is_tagged {
                return Ok(());
            }
            Err(
                refused(self.name, Some(at), "anchors and tags are not read here")
                    .hint("Write the value itself."),
            )
        };
        match event {
            Event::Alias(_) => Err(refused(self.name, Some(at), "aliases are not read here")
                .hint("Write the value itself.")),
            Event::Scalar(text, style, anchor, tag) => {
                plain(anchor, tag.is_some())?;
                self.scalar(&text, style, at)
            }
            Event::SequenceStart(anchor, tag) => {
                plain(anchor, tag.is_some())?;
                self.begin(Open::List { at, items: vec![] }, at)
            }
            Event::MappingStart(anchor, tag) => {
                plain(anchor, tag.is_some())?;
                let table = Table::default();
                self.begin(
                    Open::Table {
                        at,
                        table,
                        key: None,
                    },
                    at,
                )
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { at, items }) => self.put(Node {
                    at,
                    value: Value::List(items),
                }),
                Some(Open::Table { at, table, .. }) => self.put(Node {
                    at,
                    value: Value::Table(table),
                }),
                None => Ok(()),
            },
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(&mut self, open: Open, at: Place) -> Result<(), Failure> {
        if let Some(Open::Table { key: None, .. }) = self.open.last() {
            return Err(refused(self.name, Some(at), "a key is a text"));
        }
        if self.open.len() >= DEEPEST {
            return Err(refused(self.name, Some(at), "this is nested too deeply"));
        }
        self.open.push(open);
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, at: Place) -> Result<(), Failure> {
        if let Some(Open::Table { table, key, .. }) = self.open.last_mut()
            && key.is_none()
        {
            if table.get(text).is_some() {
                let what = format!("\"{}\" is given twice", shown(text));
                return Err(refused(self.name, Some(at), what));
            }
            *key = Some(Key {
                at,
                name: text.to_owned(),
            });
            return Ok(());
        }
        let value = match style {
            ScalarStyle::Plain => plain_scalar(text),
            _ => Value::Text(text.to_owned()),
        };
        self.put(Node { at, value })
    }

    fn put(&mut self, node: Node) -> Result<(), Failure> {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Table { table, key, .. }) => match key.take() {
                // A key without a value says nothing.
                Some(_) if node.value == Value::Other("nothing") => {}
                Some(key) => table.entries.push((key, node)),
                None => return Err(refused(self.name, Some(node.at), "a key is a text")),
            },
        }
        Ok(())
    }
}

/// An unquoted scalar, by YAML's core schema as far as orders need it.
fn plain_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Other("nothing"),
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        text => match text.parse::<i64>() {
            Ok(number) => Value::Whole(number),
            Err(_) => Value::Text(text.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> String {
        parse("x.md", text, 2).unwrap_err().message
    }

    #[test]
    fn mappings_lists_and_scalars_are_read_with_their_places() {
        let table = parse(
            "x.md",
            "title: Fix it\nretries: 2\nchecks:\n  - a\n  - \"2\"\nend:\n",
            2,
        );
        let table = table.unwrap();
        let names: Vec<_> = table
            .entries
            .iter()
            .map(|(key, _)| key.name.as_str())
            .collect();
        assert_eq!(names, ["title", "retries", "checks"]);
        let (key, node) = &table.entries[1];
        assert_eq!((key.at.line, key.at.column), (3, 1));
        assert_eq!(node.value, Value::Whole(2));
        let Value::List(items) = &table.entries[2].1.value else {
            panic!("{table:?}")
        };
        assert_eq!(items[1].value, Value::Text("2".into()));
        assert_eq!(parse("x.md", "# nothing\n", 2).unwrap(), Table::default());
    }

    #[test]
    fn what_can_stand_for_more_than_it_is_is_refused() {
        assert!(
            fault("a: &x 1\nb: *x\n").contains("line 2, column 4: anchors"),
            "{}",
            fault("a: &x 1\nb: *x\n")
        );
        assert!(fault("a: !!binary aGk=\n").contains("tags"));
        assert!(fault("a: 1\na: 2\n").contains("line 3, column 1: \"a\" is given twice"));
        let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
        assert!(fault(&deep).contains("nested too deeply"));
        assert!(fault("- a\n").contains("no list of keys"));
        assert!(fault("a: [1\n").contains("not valid YAML"));
    }
}
