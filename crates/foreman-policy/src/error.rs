//! Why a policy text was refused, with the place in it.

use foreman_domain::{Code, sanitize_line};
use std::fmt;
use std::ops::Range;

/// A refused policy text. The message is a sentence without a final period; text that it quotes has
/// been made safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PolicyError {
    /// The file's name or the option (`--allow`), for messages.
    pub name: String,
    /// Line from 1; 0 when the text is one argument and has no lines.
    pub line: u32,
    /// Column in characters from 1; 0 when the text is one argument.
    pub column: u32,
    /// What is wrong.
    pub message: String,
    /// What to do, where there is something to say.
    pub hint: Option<String>,
    /// True when it would be right if anything enforced it already.
    pub not_enforced: bool,
}

impl PolicyError {
    /// The class of the refusal.
    #[must_use]
    pub fn code(&self) -> Code {
        match self.not_enforced {
            true => Code::NotEnforced,
            false => Code::BadPolicy,
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(out, "{}: {}", self.name, self.message)
        } else {
            write!(
                out,
                "{}, line {}, column {}: {}",
                self.name, self.line, self.column, self.message
            )
        }
    }
}

/// What is wrong and what to do, before it is known where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub message: String,
    pub hint: Option<String>,
    not_enforced: bool,
}

impl Fault {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            not_enforced: false,
        }
    }

    /// Of something that nothing enforces yet.
    pub fn not_enforced(message: impl Into<String>) -> Self {
        Self {
            not_enforced: true,
            ..Self::new(message)
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The error of a text that is one argument of the command line.
    pub fn in_argument(self, name: &str) -> PolicyError {
        PolicyError {
            name: quoted_bare(name),
            line: 0,
            column: 0,
            message: self.message,
            hint: self.hint,
            not_enforced: self.not_enforced,
        }
    }

    /// The error at `span` of the file `text`.
    pub fn in_file(self, name: &str, text: &str, span: Option<Range<usize>>) -> PolicyError {
        let (line, column) = place(text, span.map_or(0, |span| span.start));
        PolicyError {
            name: quoted_bare(name),
            line,
            column,
            message: self.message,
            hint: self.hint,
            not_enforced: self.not_enforced,
        }
    }
}

/// Line and column, from 1, of a byte offset; the end of the text when it lies beyond.
pub(crate) fn place(text: &str, offset: usize) -> (u32, u32) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = text.get(..offset).unwrap_or(text);
    let (lines, last) = match before.rsplit_once('\n') {
        Some((earlier, last)) => (earlier.split('\n').count(), last),
        None => (0, before),
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    (
        number(lines).saturating_add(1),
        number(last.chars().count()).saturating_add(1),
    )
}

/// Foreign text for a message: safe to show, cut to a bounded length, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", quoted_bare(text))
}

fn quoted_bare(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut cut: String = text.chars().take(LONGEST).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    sanitize_line(&cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_counts_characters_and_lines_from_one() {
        let text = "é = 1\nhost = 2\n";
        assert_eq!(place(text, 0), (1, 1));
        assert_eq!(place(text, 3), (1, 3));
        assert_eq!(place(text, 7), (2, 1));
        assert_eq!(place(text, 1_000), (3, 1));
    }

    #[test]
    fn an_error_reads_as_one_sentence_with_its_place() {
        let error = Fault::new("\"prot\" is not a key of a rule").in_file(
            "policy.toml",
            "a\nb",
            Some(2..3),
        );
        assert_eq!(
            error.to_string(),
            "policy.toml, line 2, column 1: \"prot\" is not a key of a rule"
        );
        let error = Fault::new("no port").in_argument("--allow");
        assert_eq!(error.to_string(), "--allow: no port");
    }

    #[test]
    fn quoted_text_cannot_redraw_a_terminal_or_flood_it() {
        assert_eq!(quoted("a\u{1b}[2J"), "\"a␛[2J\"");
        assert!(quoted(&"x".repeat(100_000)).chars().count() < 110);
    }
}
