//! Figures in words: sizes and durations as an operator reads them.

use std::time::Duration;

/// `1.5 GiB`, `256 MiB`, `12 KiB`, `3 bytes`.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    for (unit, shift) in UNITS {
        let size = 1_u64 << shift;
        if count >= size {
            let tenths = u128::from(count) * 10 / u128::from(size);
            return match tenths % 10 {
                0 => format!("{} {unit}", tenths / 10),
                tenth => format!("{}.{tenth} {unit}", tenths / 10),
            };
        }
    }
    format!("{count} bytes")
}

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
