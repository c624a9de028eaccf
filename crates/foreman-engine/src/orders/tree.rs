//! What an order file says, as a tree of values with their places: the same for TOML and for YAML.

use foreman_domain::{Code, Failure, sanitize_line};

/// Deepest nesting that is read; an order has three levels.
pub(super) const DEEPEST: usize = 16;
/// Characters of foreign text in a message.
const QUOTED: usize = 100;

/// A place in a file; both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    /// The beginning of the file.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place of a byte in a text whose first line is `first_line` of the file.
    pub fn of_byte(text: &str, offset: usize, first_line: u32) -> Self {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = text.get(..offset).unwrap_or(text);
        let (lines, last) = match before.rsplit_once('\n') {
            Some((earlier, last)) => (earlier.split('\n').count(), last),
            None => (0, before),
        };
        Self {
            line: first_line.saturating_add(number(lines)),
            column: number(last.chars().count()).saturating_add(1),
        }
    }
}

/// A figure for a message.
pub(super) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub at: Place,
    pub value: Value,
}

/// What stands there.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Whole(i64),
    Flag(bool),
    List(Vec<Node>),
    Table(Table),
    /// Something that no order has, in words.
    Other(&'static str),
}

/// Keys with their values, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Table {
    pub entries: Vec<(Key, Node)>,
}

impl Table {
    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entries
            .iter()
            .find(|(key, _)| key.name == name)
            .map(|(_, node)| node)
    }
}

/// A key and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub at: Place,
    pub name: String,
}

/// A refusal of a file, as one sentence with its place.
pub(super) fn refused(name: &str, at: Option<Place>, message: impl AsRef<str>) -> Failure {
    let (name, message) = (shown(name), message.as_ref());
    let message = match at {
        Some(Place { line, column }) => format!("{name}, line {line}, column {column}: {message}"),
        None => format!("{name}: {message}"),
    };
    Failure::new(Code::BadInput, message)
}

/// Foreign text for a message: safe to show, and not long.
pub(super) fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(QUOTED).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    sanitize_line(&cut)
}

/// The key among `known` that was probably meant.
pub(super) fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    // Bounded before it is compared: the comparison takes time by the product of both lengths.
    let key: String = key
        .chars()
        .take(64)
        .collect::<String>()
        .to_ascii_lowercase()
        .replace('-', "_");
    known
        .iter()
        .map(|known| (strsim::jaro_winkler(&key, known), *known))
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .filter(|(similarity, _)| *similarity >= 0.75)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_lines_and_characters_from_one() {
        let text = "é = 1\nhost = 2\n";
        let at = |offset| {
            let place = Place::of_byte(text, offset, 1);
            (place.line, place.column)
        };
        assert_eq!(
            [at(0), at(3), at(7), at(1_000)],
            [(1, 1), (1, 3), (2, 1), (3, 1)]
        );
        assert_eq!(Place::of_byte(text, 7, 5).line, 6);
    }

    #[test]
    fn the_nearest_key_is_named_and_nothing_far_off() {
        assert_eq!(nearest("comand", &["command", "title"]), Some("command"));
        assert_eq!(
            nearest("depends-on", &["depends_on", "title"]),
            Some("depends_on")
        );
        assert_eq!(nearest("zzz", &["command", "title"]), None);
    }
}
