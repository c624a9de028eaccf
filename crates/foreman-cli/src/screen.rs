//! A feed that scrolls, with a panel that stays below it.
//!
//! Lines never wrap: line wrap of the terminal is off while the panel is shown, so that a width that
//! the terminal sees differently from us cuts a line instead of moving cage text to column 0.

use crate::layout::cells;
use std::fmt::Write as _;
use std::io::{self, Write};

const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l";
const END: &str = "\u{1b}[?2026l";

/// Draws feed and panel.
#[derive(Debug, Default)]
pub struct Screen {
    /// Widths of the panel's lines as drawn last.
    panel: Vec<usize>,
}

impl Screen {
    /// Prints `lines` above the panel and draws the panel anew.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn print(&mut self, lines: &[String], panel: &[String], columns: u16) -> io::Result<()> {
        let frame = self.frame(lines, panel, columns);
        let mut out = io::stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Clears the window and prints the end of `lines` that fits in it, with the panel below. For a
    /// window that became narrower, in which the terminal has cut old lines in its own way.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn again(
        &mut self,
        lines: &[String],
        panel: &[String],
        (columns, rows): (u16, u16),
    ) -> io::Result<()> {
        self.panel.clear();
        let room = usize::from(rows).saturating_sub(panel.len() + 1);
        let end = lines
            .get(lines.len().saturating_sub(room)..)
            .unwrap_or_default();
        let frame = format!("\u{1b}[H\u{1b}[2J{}", self.frame(end, panel, columns));
        let mut out = io::stdout().lock();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// The bytes for [`Screen::print`].
    fn frame(&mut self, lines: &[String], panel: &[String], columns: u16) -> String {
        let columns = usize::from(columns).max(1);
        let mut out = String::from(BEGIN);
        // A window that became narrower may have cut the old lines into several rows.
        let rows: usize = self
            .panel
            .iter()
            .map(|width| width.div_ceil(columns).max(1))
            .sum();
        if rows > 0 {
            out.push('\r');
            if rows > 1 {
                let _ = write!(out, "\u{1b}[{}A", rows - 1);
            }
            out.push_str("\u{1b}[J");
        }
        for line in lines {
            out.push_str(line);
            out.push_str("\r\n");
        }
        out.push_str(&panel.join("\r\n"));
        out.push_str(if panel.is_empty() {
            "\u{1b}[?25h"
        } else {
            "\u{1b}[?25l"
        });
        out.push_str(END);
        self.panel = panel
            .iter()
            .map(|line| cells(&without_colours(line)))
            .collect();
        out
    }
}

/// `line` without the colours that [`crate::paint`] put on it.
fn without_colours(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        rest = after.split_once('m').map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_panel_is_erased_before_lines_are_printed_above_it() {
        let mut screen = Screen::default();
        let panel = ["one".to_owned(), "two".to_owned()];
        assert!(screen.frame(&[], &panel, 80).contains("one\r\ntwo"));
        let frame = screen.frame(&["feed".to_owned()], &[], 80);
        assert!(frame.contains("\r\u{1b}[1A\u{1b}[Jfeed\r\n"), "{frame:?}");
        let frame = screen.frame(&["more".to_owned()], &[], 80);
        assert!(
            !frame.contains("\u{1b}[J"),
            "nothing is left to erase: {frame:?}"
        );
    }

    #[test]
    fn a_narrower_window_is_reckoned_with() {
        let mut screen = Screen::default();
        let _ = screen.frame(&[], &["\u{1b}[1mabcdef\u{1b}[0m".to_owned()], 80);
        assert!(screen.frame(&[], &[], 3).contains("\r\u{1b}[1A\u{1b}[J"));
    }
}
