//! Durations and sizes as people write them, both ways. What is printed in words can be read again.

use crate::error::{Fault, PolicyError, quoted};
use foreman_domain::BoundKind;

/// Names of units and how many of the smallest unit each is; the first name of each is its word.
struct Unit {
    names: &'static [&'static str],
    factor: u64,
}

const DURATIONS: &[Unit] = &[
    Unit {
        names: &["day", "days", "d"],
        factor: 86_400,
    },
    Unit {
        names: &["hour", "hours", "h", "hr", "hrs"],
        factor: 3_600,
    },
    Unit {
        names: &["minute", "minutes", "m", "min", "mins"],
        factor: 60,
    },
    Unit {
        names: &["second", "seconds", "s", "sec", "secs"],
        factor: 1,
    },
];

/// Bare letters are powers of two, as with the system's own tools.
const SIZES: &[Unit] = &[
    Unit {
        names: &["tib", "t"],
        factor: 1 << 40,
    },
    Unit {
        names: &["gib", "g"],
        factor: 1 << 30,
    },
    Unit {
        names: &["mib", "m"],
        factor: 1 << 20,
    },
    Unit {
        names: &["kib", "k"],
        factor: 1 << 10,
    },
    Unit {
        names: &["tb"],
        factor: 1_000_000_000_000,
    },
    Unit {
        names: &["gb"],
        factor: 1_000_000_000,
    },
    Unit {
        names: &["mb"],
        factor: 1_000_000,
    },
    Unit {
        names: &["kb"],
        factor: 1_000,
    },
    Unit {
        names: &["byte", "bytes", "b"],
        factor: 1,
    },
];

/// Reads a duration in whole seconds: `90s`, `2h`, `1h30m`, `1.5 hours`, `2 days`.
///
/// # Errors
/// A sentence when there is no unit, an unknown one, or nothing at all.
pub fn parse_duration(text: &str) -> Result<u64, PolicyError> {
    duration(text).map_err(|fault| fault.in_argument("duration"))
}

/// Reads a size in bytes: `256MiB`, `4 GiB`, `1.5G`, `500kB`.
///
/// # Errors
/// A sentence when there is no unit, an unknown one, or nothing at all.
pub fn parse_bytes(text: &str) -> Result<u64, PolicyError> {
    bytes(text).map_err(|fault| fault.in_argument("size"))
}

pub(crate) fn duration(text: &str) -> Result<u64, Fault> {
    quantity(text, DURATIONS).ok_or_else(|| {
        Fault::new(format!("{} is not a duration", quoted(text)))
            .hint("Write a number and a unit, as \"90s\", \"45m\", \"2h\", \"1h30m\" or \"1d\".")
    })
}

pub(crate) fn bytes(text: &str) -> Result<u64, Fault> {
    quantity(text, SIZES).ok_or_else(|| {
        Fault::new(format!("{} is not a size", quoted(text)))
            .hint("Write a number and a unit, as \"256MiB\" or \"4GiB\".")
    })
}

/// Reads a number of processors, `2`, `0.5`, `1.75`, in thousandths of one.
pub(crate) fn millicores(text: &str) -> Result<u64, Fault> {
    let plain = text
        .trim()
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    Some(text.trim())
        .filter(|_| plain)
        .and_then(|number| scaled(number, 1_000))
        .ok_or_else(|| {
            Fault::new(format!("{} is not a number of processors", quoted(text)))
                .hint("Write a number with at most three digits after the point, as 2 or 0.5.")
        })
}

/// Reads a number of tokens: `200000`, `200k`, `1.5M`.
///
/// # Errors
/// A sentence when it is none.
pub fn parse_tokens(text: &str) -> Result<u64, PolicyError> {
    tokens(text).map_err(|fault| fault.in_argument("tokens"))
}

/// Reads an amount of money in millionths: `5`, `2.50`, `$0.25`.
///
/// # Errors
/// A sentence when it is none.
pub fn parse_microusd(text: &str) -> Result<u64, PolicyError> {
    microusd(text).map_err(|fault| fault.in_argument("cost"))
}

pub(crate) fn tokens(text: &str) -> Result<u64, Fault> {
    let trimmed = text.trim();
    let (number, factor) = match trimmed.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&trimmed[..at], 1_000),
        Some((at, 'm' | 'M')) => (&trimmed[..at], 1_000_000),
        _ => (trimmed, 1),
    };
    number_times(number, factor)
        .filter(|_| factor > 1 || !number.contains('.'))
        .ok_or_else(|| {
            Fault::new(format!("{} is not a number of tokens", quoted(text)))
                .hint("Write a whole number, or one with k or M behind it, as 200k or 1.5M.")
        })
}

pub(crate) fn microusd(text: &str) -> Result<u64, Fault> {
    let number = text.trim();
    let number = number.strip_prefix('$').unwrap_or(number);
    number_times(number, 1_000_000).ok_or_else(|| {
        Fault::new(format!("{} is not an amount of money", quoted(text)))
            .hint("Write a number with at most three digits after the point, as 5 or 0.25.")
    })
}

fn number_times(number: &str, factor: u64) -> Option<u64> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    number
        .bytes()
        .all(is_plain)
        .then(|| scaled(number, factor))?
}

/// Tokens in words: "200,000 tokens" without a separator, "1 token".
#[must_use]
pub fn tokens_in_words(tokens: u64) -> String {
    counted(tokens, "token")
}

/// Millionths of a dollar in words: "$2.50", "$0.0125".
#[must_use]
pub fn microusd_in_words(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    let fraction = format!("{rest:06}");
    let shown = fraction.trim_end_matches('0');
    format!("${whole}.{shown:0<2}")
}

/// A sum of "number unit" parts, each unit smaller than the one before it.
fn quantity(text: &str, units: &[Unit]) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    let mut smaller_than = u64::MAX;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let tail = tail.trim_start();
        let end = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (name, tail) = tail.split_at(end);
        let name = name.to_ascii_lowercase();
        let unit = units
            .iter()
            .find(|unit| unit.names.contains(&name.as_str()))?;
        if unit.factor >= smaller_than {
            return None;
        }
        smaller_than = unit.factor;
        total = total.checked_add(scaled(number, unit.factor)?)?;
        rest = tail.trim_start();
        if rest.is_empty() {
            return Some(total);
        }
    }
}

/// `number` (digits, maybe a point and up to three more) times `factor`, rounded down.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number
        .split_once('.')
        .map_or((number, None), |(w, f)| (w, Some(f)));
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let Some(fraction) = fraction else {
        return Some(whole);
    };
    if fraction.is_empty() || fraction.len() > 3 {
        return None;
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(factor) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

/// A duration in words, exact: "2 hours", "1 hour 30 minutes", "0 seconds".
#[must_use]
pub fn duration_in_words(seconds: u64) -> String {
    let mut rest = seconds;
    let mut parts = Vec::new();
    for unit in DURATIONS {
        let count = rest / unit.factor;
        rest %= unit.factor;
        if count > 0 {
            parts.push(counted(count, unit.names[0]));
        }
    }
    if parts.is_empty() {
        "0 seconds".into()
    } else {
        parts.join(" ")
    }
}

/// A size in words, to one decimal place, rounded down: "4 GiB", "1.5 GiB", "12 bytes".
#[must_use]
pub fn bytes_in_words(bytes: u64) -> String {
    const BINARY: [(u64, &str); 4] = [
        (1 << 40, "TiB"),
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1 << 10, "KiB"),
    ];
    for (factor, name) in BINARY {
        if bytes >= factor {
            let (whole, tenth) = (bytes / factor, bytes % factor * 10 / factor);
            return match tenth {
                0 => format!("{whole} {name}"),
                tenth => format!("{whole}.{tenth} {name}"),
            };
        }
    }
    counted(bytes, "byte")
}

/// Thousandths of a processor in words: "2 processors", "0.5 processors", "1 processor".
#[must_use]
pub fn millicores_in_words(millis: u64) -> String {
    let (whole, rest) = (millis / 1_000, millis % 1_000);
    if rest == 0 {
        return counted(whole, "processor");
    }
    let fraction = format!("{rest:03}");
    format!("{whole}.{} processors", fraction.trim_end_matches('0'))
}

/// A figure of a bound, in the bound's unit, in words.
#[must_use]
pub fn figure_in_words(bound: BoundKind, figure: u64) -> String {
    match bound {
        BoundKind::Wall => duration_in_words(figure.div_ceil(1_000)),
        BoundKind::Memory | BoundKind::Output | BoundKind::Disk => bytes_in_words(figure),
        BoundKind::Cpu => millicores_in_words(figure),
        BoundKind::Processes => counted_as(figure, "process", "processes"),
        BoundKind::OpenFiles => counted(figure, "open file"),
        BoundKind::Tokens => tokens_in_words(figure),
        BoundKind::Cost => microusd_in_words(figure),
        BoundKind::Turns => counted(figure, "turn"),
    }
}

fn counted_as(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// "1 hour", "2 hours".
pub(crate) fn counted(count: u64, word: &str) -> String {
    if count == 1 {
        format!("1 {word}")
    } else {
        format!("{count} {word}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90s", 90),
            ("2h", 7_200),
            ("1h30m", 5_400),
            ("1.5 hours", 5_400),
            ("2 days", 172_800),
            ("45 min", 2_700),
            (" 1d 2h 3m 4s ", 93_784),
        ] {
            assert_eq!(duration(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, size) in [
            ("256MiB", 256 << 20),
            ("4 GiB", 4 << 30),
            ("1.5G", 3 << 29),
            ("500kB", 500_000),
            ("12 bytes", 12),
            ("1tib", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
    }

    #[test]
    fn what_has_no_plain_meaning_is_refused() {
        for text in [
            "",
            " ",
            "5",
            "h",
            "2x",
            "-1h",
            "1h2h",
            "1m2h",
            "1..5h",
            ".h",
            "1.h",
            "1e3s",
            "2h!",
            "99999999999999999999d",
            "18446744073709551615d",
            "1.0000h",
            "٣h",
            "∞",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!(bytes("4").is_err() && bytes("4 GiBs").is_err() && bytes("20000000TiB").is_err());
    }

    #[test]
    fn processors_are_a_number_and_read_back() {
        for (text, millis, words) in [
            ("2", 2_000, "2 processors"),
            ("1", 1_000, "1 processor"),
            (" 0.5 ", 500, "0.5 processors"),
            ("1.75", 1_750, "1.75 processors"),
            ("0.05", 50, "0.05 processors"),
        ] {
            assert_eq!(millicores(text), Ok(millis), "{text}");
            assert_eq!(millicores_in_words(millis), words);
        }
        for text in [
            "", "two", "-1", "1e3", "0.0001", "1.", ".5", "1 core", "NaN",
        ] {
            assert!(millicores(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tokens_and_money_are_read_as_people_write_them() {
        for (text, count) in [
            ("200000", 200_000),
            ("200k", 200_000),
            (" 1.5M ", 1_500_000),
        ] {
            assert_eq!(tokens(text), Ok(count), "{text}");
        }
        for (text, micros, words) in [
            ("5", 5_000_000, "$5.00"),
            ("$2.5", 2_500_000, "$2.50"),
            ("0.125", 125_000, "$0.125"),
        ] {
            assert_eq!(microusd(text), Ok(micros), "{text}");
            assert_eq!(microusd_in_words(micros), words);
        }
        for text in ["", "k", "1.5", "-1", "1e6", "two", "1 000", "1.0000k", "١k"] {
            assert!(tokens(text).is_err(), "{text}");
        }
        for text in ["", "$", "-1", "1e6", "0.0001", "5 EUR", "$$1"] {
            assert!(microusd(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_are_short() {
        assert_eq!(duration_in_words(7_200), "2 hours");
        assert_eq!(duration_in_words(5_401), "1 hour 30 minutes 1 second");
        assert_eq!(bytes_in_words(4 << 30), "4 GiB");
        assert_eq!(bytes_in_words(3 << 29), "1.5 GiB");
        assert_eq!(bytes_in_words(1), "1 byte");
    }

    proptest! {
        #[test]
        fn a_duration_in_words_reads_back(seconds: u64) {
            prop_assert_eq!(duration(&duration_in_words(seconds)), Ok(seconds));
        }

        #[test]
        fn a_size_in_words_reads_back_within_a_tenth(size: u64) {
            let read = bytes(&bytes_in_words(size)).unwrap();
            prop_assert!(read <= size && size - read <= size / 10, "{} read as {}", size, read);
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            let _ = duration(&text);
            let _ = bytes(&text);
        }
    }
}
