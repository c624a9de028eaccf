//! When a key counts.
//!
//! A decision must never be made by a key that was meant for something else. So: keys count only
//! once the card has stood unchanged for [`SETTLE`]; whatever was typed before that is thrown away,
//! also when this program was too busy to read it; and a key counts only when it arrives alone, so
//! that pasted text and escape sequences decide nothing. Ctrl-C is exempt: it always counts.

use std::time::{Duration, Instant};

/// How long a card must stand before keys count.
pub const SETTLE: Duration = Duration::from_millis(500);

/// A key that means something to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A printable character.
    Char(char),
    /// Escape.
    Escape,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-], the prefix of our keys while the agent has the terminal.
    Prefix,
}

/// The byte of [`Key::Prefix`].
pub const PREFIX: u8 = 0x1d;

const INTERRUPT: u8 = 0x03;

/// The key in what one read of the terminal gave; `None` for pastes, bursts and escape sequences.
#[must_use]
pub fn parse(chunk: &[u8]) -> Option<Key> {
    if chunk.contains(&INTERRUPT) {
        return Some(Key::Interrupt);
    }
    match chunk {
        [PREFIX] => Some(Key::Prefix),
        [0x1b] => Some(Key::Escape),
        [byte] if byte.is_ascii_graphic() => Some(Key::Char(char::from(*byte))),
        _ => None,
    }
}

/// Whether keys count now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arming {
    /// Nothing is shown that a key could decide.
    Off,
    /// Shown since this moment; keys are thrown away.
    Settling(Instant),
    /// Keys count.
    Armed,
}

impl Arming {
    /// What is shown was drawn or has changed.
    #[must_use]
    pub fn drawn(now: Instant) -> Self {
        Self::Settling(now)
    }

    /// When [`Arming::settle`] is due.
    #[must_use]
    pub fn due(self) -> Option<Instant> {
        match self {
            Self::Settling(since) => Some(since + SETTLE),
            Self::Off | Self::Armed => None,
        }
    }

    /// Arms when it is time. True then: the caller must throw away everything typed so far before
    /// it reads the next key.
    pub fn settle(&mut self, now: Instant) -> bool {
        let due = self.due().is_some_and(|due| now >= due);
        if due {
            *self = Self::Armed;
        }
        due
    }

    /// Whether a key that was just read counts.
    #[must_use]
    pub fn counts(self, key: Key) -> bool {
        key == Key::Interrupt || self == Self::Armed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_only_after_the_card_has_stood_half_a_second() {
        let start = Instant::now();
        let mut arming = Arming::drawn(start);
        for early in [0, 100, 499] {
            assert!(!arming.settle(start + Duration::from_millis(early)));
            assert!(!arming.counts(Key::Char('a')), "{early}");
        }
        assert!(
            arming.settle(start + Duration::from_millis(500)),
            "and drains"
        );
        assert!(arming.counts(Key::Char('a')));
        assert!(
            !arming.settle(start + Duration::from_millis(600)),
            "drains once"
        );
    }

    #[test]
    fn a_key_read_late_without_a_drain_does_not_count() {
        // The program was stopped for ten seconds; what was typed meanwhile is read now.
        let arming = Arming::drawn(Instant::now());
        assert!(
            !arming.counts(Key::Char('a')),
            "only settle() arms, and it drains"
        );
    }

    #[test]
    fn a_changed_card_starts_again() {
        let start = Instant::now();
        let mut arming = Arming::drawn(start);
        arming.settle(start + SETTLE);
        arming = Arming::drawn(start + SETTLE);
        assert!(!arming.counts(Key::Char('d')));
        assert_eq!(arming.due(), Some(start + SETTLE + SETTLE));
    }

    #[test]
    fn ctrl_c_always_counts() {
        assert!(Arming::Off.counts(Key::Interrupt));
        assert_eq!(parse(b"abc\x03"), Some(Key::Interrupt));
    }

    #[test]
    fn pastes_and_escape_sequences_are_no_keys() {
        assert_eq!(parse(b"a"), Some(Key::Char('a')));
        assert_eq!(parse(b"aa"), None);
        assert_eq!(parse(b"\x1b[A"), None);
        assert_eq!(parse(b"\x1bOa"), None);
        assert_eq!(parse(b"\x1b"), Some(Key::Escape));
        assert_eq!(parse(b"\x1d"), Some(Key::Prefix));
        assert_eq!(parse(b"\n"), None);
    }
}
