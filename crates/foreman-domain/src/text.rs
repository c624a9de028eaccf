//! Text from a cage is hostile: it may hold escape sequences, control and direction characters that
//! redraw a terminal or make one name read as another. Everything shown goes through here.

/// One line, safe to show: every control, direction and invisible character becomes a visible mark.
/// Tabs become one space; line breaks are marked, too, so that the result is one line.
#[must_use]
pub fn sanitize_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\t' => out.push(' '),
            character if is_unsafe(character) => push_mark(&mut out, character),
            character => out.push(character),
        }
    }
    out
}

/// Several lines, safe to show: as [`sanitize_line`], but line breaks stay.
#[must_use]
pub fn sanitize_text(text: &str) -> String {
    text.split('\n')
        .map(sanitize_line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// JSON that is safe to show: the same value, with those characters written as JSON's own escapes. They
/// can stand in its strings only, and JSON itself asks for no escapes above U+001F.
#[must_use]
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if is_unsafe(character) && character != '\n' {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// The text without the numbers that the standard library puts behind the system's own words
/// ("No such file or directory (os error 2)"): the words say it.
#[must_use]
pub fn without_error_numbers(text: &str) -> String {
    const MARK: &str = " (os error ";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MARK) {
        out.push_str(before);
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        match after.get(digits..).and_then(|end| end.strip_prefix(')')) {
            Some(end) if digits > 0 => rest = end,
            _ => {
                out.push_str(MARK);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn push_mark(out: &mut String, character: char) {
    match character {
        // Unicode has a visible picture for each C0 control and for DEL.
        '\u{0}'..='\u{1f}' => out.extend(char::from_u32(0x2400 + character as u32)),
        '\u{7f}' => out.push('\u{2421}'),
        other => out.push_str(&format!("<U+{:04X}>", other as u32)),
    }
}

pub(crate) fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            // soft hyphen, Arabic letter mark, Hangul fillers, Khmer inherent vowels, Mongolian separators
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            // zero width, direction marks, line and paragraph separators, embeddings, isolates
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            // tags and variation selectors of the supplementary planes
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words_stay_and_its_numbers_go() {
        let error = std::io::Error::from_raw_os_error(2);
        let text = format!("cannot open x: {error}; cannot open y: {error}");
        assert!(text.contains("os error 2"));
        assert_eq!(
            without_error_numbers(&text),
            "cannot open x: No such file or directory; cannot open y: No such file or directory"
        );
        for other in [
            "",
            "(os error 2)",
            "a (os error )",
            "a (os error 2",
            "a (os error x)",
        ] {
            assert_eq!(without_error_numbers(other), other);
        }
    }

    #[test]
    fn escape_sequences_become_visible() {
        assert_eq!(sanitize_line("\u{1b}[2J\rok\u{7}"), "␛[2J␍ok␇");
    }

    #[test]
    fn direction_and_invisible_characters_become_visible() {
        assert_eq!(
            sanitize_line("a\u{202e}b\u{200b}c\u{9b}"),
            "a<U+202E>b<U+200B>c<U+009B>"
        );
    }

    #[test]
    fn escaped_json_is_the_same_value_without_an_unsafe_character() {
        let value = "a\u{1b}[2J\u{9b}31m\u{202e}\u{7f}\u{e0041}\u{ad}é🙂\n\t";
        let json = serde_json::to_string(value).unwrap();
        assert!(json.chars().any(is_unsafe), "nothing to escape");
        let escaped = escape_json(&json);
        assert!(!escaped.chars().any(is_unsafe), "{escaped}");
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), value);
    }

    #[test]
    fn ordinary_text_of_any_script_is_left_alone() {
        for text in ["héllo wörld", "日本語", "עברית", "a  b", "🙂"] {
            assert_eq!(sanitize_line(text), text);
        }
    }

    #[test]
    fn lines_stay_lines_only_in_text() {
        assert_eq!(sanitize_text("a\r\nb"), "a␍\nb");
        assert_eq!(sanitize_line("a\nb"), "a␊b");
    }
}
