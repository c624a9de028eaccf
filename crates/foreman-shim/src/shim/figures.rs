//! Figures in words: sizes and durations as an operator reads them.

use std::time::Duration;

/// `1.5 GiB`, `256 MiB`, `12 KiB`, `3 bytes`: as the bounds themselves are told.
pub(super) use foreman_policy::bytes_in_words as bytes;

/// `2h`, `1h 30m`, `90s` as `1m 30s`, `500ms`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let parts: Vec<String> = [(hours, "h"), (minutes, "m"), (rest, "s")]
        .into_iter()
        .filter(|(figure, _)| *figure > 0)
        .map(|(figure, unit)| format!("{figure}{unit}"))
        .collect();
    if parts.is_empty() {
        format!("{}ms", duration.as_millis())
    } else {
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(bytes(3), "3 bytes");
        assert_eq!(bytes(4 << 30), "4 GiB");
        assert_eq!(bytes((3 << 20) / 2), "1.5 MiB");
        assert_eq!(duration(Duration::from_secs(7200)), "2h");
        assert_eq!(duration(Duration::from_secs(90)), "1m 30s");
        assert_eq!(duration(Duration::from_millis(500)), "500ms");
    }
}
