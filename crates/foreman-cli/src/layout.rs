//! Fits text into columns. All text here is sanitised already; widths are terminal cells.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns that `text` takes on a terminal.
#[must_use]
pub fn cells(text: &str) -> usize {
    text.width()
}

fn cell(character: char) -> usize {
    character.width().unwrap_or(0)
}

/// Cuts `text` into pieces of at most `width` cells, anywhere. At least one piece; a character that
/// is wider than `width` becomes `?`.
#[must_use]
pub fn chop(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut used = 0;
    for character in text.chars() {
        let character = if cell(character) > width {
            '?'
        } else {
            character
        };
        let wide = cell(character);
        if used + wide > width {
            pieces.push(std::mem::take(&mut piece));
            used = 0;
        }
        piece.push(character);
        used += wide;
    }
    pieces.push(piece);
    pieces
}

/// Cuts `text` into lines of at most `width` cells, between words where that is possible.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let needed = cells(word) + usize::from(!line.is_empty());
        if cells(&line) + needed <= width {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut pieces = chop(word, width);
        line = pieces.pop().unwrap_or_default();
        lines.append(&mut pieces);
    }
    lines.push(line);
    lines
}

/// `text` cut to `width` cells, with a mark where something is missing.
#[must_use]
pub fn fit(text: &str, width: usize) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    match width {
        0 => String::new(),
        1 => "…".into(),
        _ => chop(text, width - 1).swap_remove(0) + "…",
    }
}

/// `text` with spaces behind it up to `width` cells.
#[must_use]
pub fn pad(text: &str, width: usize) -> String {
    let mut out = fit(text, width);
    for _ in cells(&out)..width {
        out.push(' ');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_asked() {
        for width in 1..12 {
            for text in [
                "",
                "a b c",
                "averyveryverylongword x",
                "日本語の文字 abc",
                "e\u{301}e\u{301}",
            ] {
                for line in wrap(text, width).into_iter().chain(chop(text, width)) {
                    assert!(cells(&line) <= width, "{line:?} in {width}");
                }
                assert!(cells(&fit(text, width)) <= width);
                assert_eq!(cells(&pad(text, width)), width);
            }
        }
    }

    #[test]
    fn words_stay_whole_where_they_fit() {
        assert_eq!(
            wrap("let this run connect", 10),
            ["let this", "run", "connect"]
        );
        assert_eq!(chop("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(fit("abcdef", 4), "abc…");
    }
}
