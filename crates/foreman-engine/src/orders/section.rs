//! One table of an order file, read key by key; every mistake has its place.

use super::tree::{Node, Place, Table, Value, nearest, refused, shown};
use foreman_domain::{Code, Failure};

/// One table, and the one with what it does not say.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    /// The file, for messages.
    pub file: &'a str,
    /// The table in words, as "an [[order]]".
    pub what: &'static str,
    pub at: Place,
    pub table: &'a Table,
    /// Where keys that are shared by all orders of a file stand.
    pub defaults: Option<&'a Table>,
}

impl<'a> Section<'a> {
    /// A table within this one.
    pub fn within(self, what: &'static str, node: &'a Node) -> Result<Section<'a>, Failure> {
        let Value::Table(table) = &node.value else {
            return Err(self.refuse(node.at, format!("{what} is a table")));
        };
        Ok(Section {
            what,
            at: node.at,
            table,
            defaults: None,
            ..self
        })
    }

    pub fn refuse(&self, at: Place, message: impl AsRef<str>) -> Failure {
        refused(self.file, Some(at), message)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a Node> {
        self.table
            .get(key)
            .or_else(|| self.defaults.and_then(|table| table.get(key)))
    }

    /// Refuses keys that are not among `known`, and names the nearest one that is.
    pub fn only(&self, known: &[&str]) -> Result<(), Failure> {
        let unknown = self
            .table
            .entries
            .iter()
            .map(|(key, _)| key)
            .find(|key| !known.contains(&key.name.as_str()));
        let Some(key) = unknown else { return Ok(()) };
        let name = shown(&key.name);
        let failure = self.refuse(key.at, format!("\"{name}\" is not a key of {}", self.what));
        Err(match nearest(&key.name, known) {
            Some(nearest) => failure.hint(format!("Did you mean \"{nearest}\"?")),
            None => failure.hint(format!("The keys are {}.", known.join(", "))),
        })
    }

    fn wrong(&self, node: &Node, key: &str, is: &str, hint: &str) -> Failure {
        let other = match node.value {
            Value::Other(what) => format!(", not {what}"),
            _ => String::new(),
        };
        self.refuse(node.at, format!("\"{key}\" is {is}{other}"))
            .hint(hint)
    }

    /// A text, when the key is there.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Failure> {
        match self.get(key) {
            None => Ok(None),
            Some(Node {
                value: Value::Text(text),
                ..
            }) => Ok(Some(text)),
            Some(node) => Err(self.wrong(node, key, "a text", "Put it in quotes.")),
        }
    }

    /// True or false; false when the key is not there.
    pub fn flag(&self, key: &str) -> Result<bool, Failure> {
        match self.get(key) {
            None => Ok(false),
            Some(Node {
                value: Value::Flag(flag),
                ..
            }) => Ok(*flag),
            Some(node) => Err(self.wrong(node, key, "true or false", "Write it without quotes.")),
        }
    }

    /// A whole number of a range, when the key is there.
    pub fn whole(&self, key: &str, least: u32, most: u32) -> Result<Option<u32>, Failure> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let Value::Whole(number) = node.value else {
            return Err(self.wrong(node, key, "a whole number", "Write it without quotes."));
        };
        match u32::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(self
                .refuse(node.at, format!("\"{key}\" of {number} is not to be meant"))
                .hint(format!("From {least} to {most} is possible."))),
        }
    }

    /// A list of texts; a single text is a list of one. Empty when the key is not there.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, Failure> {
        let hint = format!("Write {key} = [\"…\"].");
        match self.get(key) {
            None => Ok(Vec::new()),
            Some(Node {
                value: Value::List(items),
                ..
            }) => items
                .iter()
                .map(|item| match &item.value {
                    Value::Text(text) => Ok(text.clone()),
                    _ => Err(self.wrong(item, key, "a list of texts", &hint)),
                })
                .collect(),
            Some(Node {
                value: Value::Text(text),
                ..
            }) => Ok(vec![text.clone()]),
            Some(node) => Err(self.wrong(node, key, "a list of texts", &hint)),
        }
    }

    /// Program and arguments, when the key is there.
    pub fn argv(&self, key: &str) -> Result<Option<Vec<String>>, Failure> {
        let hint = "Write the program and each argument by itself: [\"my-agent\", \"--fix\"]; \
                    for a shell line [\"sh\", \"-c\", \"…\"].";
        let words = match self.get(key) {
            None => return Ok(None),
            Some(node) => match &node.value {
                Value::List(_) => self.texts(key)?,
                _ => return Err(self.wrong(node, key, "a list of words", hint)),
            },
        };
        match words.first() {
            Some(first) if !first.is_empty() => Ok(Some(words)),
            _ => Err(self
                .at_key(key, "names no program")
                .hint("Write [\"my-agent\", \"--fix\"].")),
        }
    }

    /// One of a few words, when the key is there; their lower-case names with `_` are taken.
    pub fn choice<T: Copy>(
        &self,
        key: &str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let wanted = text.replace('-', "_");
        let found = choices.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
            self.at_key(key, format!("cannot be \"{}\"", shown(text)))
                .hint(format!("It is one of {}.", names.join(", ")))
        })
    }

    /// A refusal of what a key says: `"key" …`.
    pub fn at_key(&self, key: &str, problem: impl AsRef<str>) -> Failure {
        let at = self.get(key).map_or(self.at, |node| node.at);
        self.refuse(at, format!("\"{key}\" {}", problem.as_ref()))
    }

    /// The same for a failure that another part found.
    pub fn because(&self, key: &str, failure: Failure) -> Failure {
        let at = self.get(key).map_or(self.at, |node| node.at);
        let placed = refused(self.file, Some(at), &failure.message);
        let code = match failure.code {
            Code::NotEnforced => Code::NotEnforced,
            _ => placed.code,
        };
        Failure {
            code,
            hint: failure.hint,
            ..placed
        }
    }
}
