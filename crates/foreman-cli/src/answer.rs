//! Where answers and refusals go: sentences for people, JSON lines for programs.
//!
//! The one place that writes to stdout and stderr outside the live screen.

use crate::layout::pad;
use crate::paint::{Paint, Tone};
use foreman_domain::{Failure, WIRE_VERSION, escape_json, sanitize_line};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// How this command answers.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    json: bool,
    paint: Paint,
}

impl Answer {
    /// Answers of a command that was given `--json` or not.
    #[must_use]
    pub fn new(json: bool) -> Self {
        Self {
            json,
            paint: if json {
                Paint::new(false)
            } else {
                Paint::for_stdout()
            },
        }
    }

    /// Whether the answer is JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Colours of the answer.
    #[must_use]
    pub fn paint(&self) -> Paint {
        self.paint
    }

    /// Columns of the terminal that stdout is; `None` where it is none and lines need not be cut.
    #[must_use]
    pub fn columns(&self) -> Option<usize> {
        let is_terminal = !self.json && io::stdout().is_terminal();
        is_terminal.then(|| usize::from(crate::terminal::size().0).max(10))
    }

    /// Columns to fit sentences into: the terminal's, or 100 where there is none.
    #[must_use]
    pub fn width(&self) -> usize {
        self.columns().unwrap_or(100)
    }

    /// True when somebody can be asked: stdin and stdout are a terminal and the answer is for people.
    #[must_use]
    pub fn can_ask(&self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Writes one line for people. The text must be sanitised.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn line(&self, text: &str) -> io::Result<()> {
        writeln!(io::stdout().lock(), "{text}")
    }

    /// Writes several lines.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn lines(&self, lines: &[String]) -> io::Result<()> {
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// Writes what is known of one thing for people: what it is, its id, and a line a fact. The texts
    /// must be sanitised.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn facts(&self, what: &str, id: &dyn Display, rows: &[(&str, String)]) -> io::Result<()> {
        self.line(&format!("{} {id}", self.paint.paint(Tone::Strong, what)))?;
        rows.iter().try_for_each(|(label, text)| {
            let label = self.paint.paint(Tone::Dim, &pad(label, 11));
            self.line(&format!("  {label} {text}"))
        })
    }

    /// Writes a paragraph for people, cut between words. The text must be sanitised.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn paragraph(&self, text: &str) -> io::Result<()> {
        self.lines(&crate::layout::wrap(text, self.width().min(100)))
    }

    /// Writes one JSON object with the version of the machine interface in it.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn object(&self, value: &impl Serialize) -> io::Result<()> {
        self.line(&escape_json(&versioned(value)?.to_string()))
    }

    /// Writes a refusal: JSON to stdout, or sentences to stderr.
    ///
    /// # Errors
    /// When neither can be written.
    pub fn refusal(&self, failure: &Failure) -> io::Result<()> {
        if self.json {
            return self.line(&escape_json(&refusal(failure).to_string()));
        }
        let paint = Paint::new(self.paint.is_on() && io::stderr().is_terminal());
        let mut out = io::stderr().lock();
        let message = sanitize_line(&failure.message);
        writeln!(out, "{} {message}.", paint.paint(Tone::Bad, "foreman:"))?;
        if let Some(hint) = &failure.hint {
            writeln!(out, "         {}", sanitize_line(hint))?;
        }
        Ok(())
    }
}

/// `value` as an object that carries the version.
fn versioned(value: &impl Serialize) -> io::Result<Value> {
    let mut value = serde_json::to_value(value)?;
    if let Value::Object(fields) = &mut value {
        fields.insert("v".into(), WIRE_VERSION.into());
    }
    Ok(value)
}

/// A refusal on the machine interface.
fn refusal(failure: &Failure) -> Value {
    json!({
        "v": WIRE_VERSION,
        "error": { "code": failure.code, "message": failure.message, "hint": failure.hint },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::Code;

    #[test]
    fn a_refusal_has_code_message_and_hint_in_json() {
        let failure =
            Failure::new(Code::NotFound, "there is no run \"x\"").hint("See `foreman runs`.");
        let value = refusal(&failure);
        assert_eq!(value["v"], 1);
        assert_eq!(value["error"]["code"], "not_found");
        assert_eq!(value["error"]["message"], "there is no run \"x\"");
        assert_eq!(value["error"]["hint"], "See `foreman runs`.");
    }

    #[test]
    fn an_answer_carries_the_version_beside_its_fields() {
        let value = versioned(&json!({ "runs": [] })).unwrap();
        assert_eq!(value, json!({ "v": 1, "runs": [] }));
    }
}
