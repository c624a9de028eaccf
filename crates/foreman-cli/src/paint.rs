//! Colours, in one place, and off where nobody wants them.
//!
//! Colour never carries meaning alone: every mark has a word beside it.

use std::io::IsTerminal;

/// What a piece of text is, for its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Ordinary text.
    Plain,
    /// Text that matters less.
    Dim,
    /// Headings.
    Strong,
    /// It went well.
    Good,
    /// It went wrong.
    Bad,
    /// Look at this.
    Warn,
    /// The reserved left edge of a card. Nothing else uses this colour.
    Edge,
    /// The title of a card that waits for a decision.
    Held,
    /// A key that does something.
    Key,
}

/// Puts colours on text, or does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    on: bool,
}

impl Paint {
    /// With colours or without.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    /// As stdout and the environment want it: a terminal, no `NO_COLOR`, not a dumb one.
    #[must_use]
    pub fn for_stdout() -> Self {
        Self::for_terminal(
            std::io::stdout().is_terminal(),
            std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            std::env::var("TERM").ok().as_deref(),
        )
    }

    /// The same decision on given facts.
    #[must_use]
    pub fn for_terminal(is_terminal: bool, no_color: bool, term: Option<&str>) -> Self {
        Self::new(is_terminal && !no_color && term.is_some_and(|term| term != "dumb"))
    }

    /// Whether colours are on.
    #[must_use]
    pub fn is_on(self) -> bool {
        self.on
    }

    /// `text` in the colour of `tone`. The text must be sanitised already.
    #[must_use]
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => "",
            Tone::Dim => "2",
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Edge => "1;38;5;214",
            Tone::Held => "1;7;38;5;214",
            Tone::Key => "1;36",
        };
        if !self.on || code.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_off_without_a_terminal_with_no_color_or_on_a_dumb_one() {
        assert!(Paint::for_terminal(true, false, Some("xterm")).is_on());
        assert!(!Paint::for_terminal(false, false, Some("xterm")).is_on());
        assert!(!Paint::for_terminal(true, true, Some("xterm")).is_on());
        assert!(!Paint::for_terminal(true, false, Some("dumb")).is_on());
        assert!(!Paint::for_terminal(true, false, None).is_on());
        assert_eq!(Paint::new(false).paint(Tone::Bad, "x"), "x");
    }
}
