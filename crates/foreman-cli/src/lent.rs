//! What an agent that has the terminal did to it, so that our screen can come between and go away
//! again. Follows the private modes that full-screen programs set; everything else passes unseen.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Modes that are put back after our screen was shown.
const KEPT: [u16; 9] = [1, 25, 1000, 1002, 1003, 1004, 1006, 2004, 1049];

/// Longest control sequence that is looked at.
const LONGEST: usize = 64;

/// Follows an agent's output.
#[derive(Debug, Default)]
pub struct Lent {
    modes: BTreeMap<u16, bool>,
    sequence: Option<Vec<u8>>,
}

impl Lent {
    /// Takes bytes that go to the terminal.
    pub fn follow(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match &mut self.sequence {
                _ if byte == 0x1b => self.sequence = Some(Vec::new()),
                None => {}
                Some(sequence) => {
                    sequence.push(byte);
                    let goes_on = matches!(sequence.as_slice(), [b'['])
                        || (sequence.first() == Some(&b'[') && matches!(byte, 0x20..=0x3f));
                    if !goes_on || sequence.len() > LONGEST {
                        let sequence = std::mem::take(sequence);
                        self.sequence = None;
                        self.take(&sequence);
                    }
                }
            }
        }
    }

    fn take(&mut self, sequence: &[u8]) {
        let (Some(on), Some(body)) = (
            match sequence.last() {
                Some(b'h') => Some(true),
                Some(b'l') => Some(false),
                _ => None,
            },
            sequence.strip_prefix(b"[?"),
        ) else {
            return;
        };
        let body = body.get(..body.len().saturating_sub(1)).unwrap_or_default();
        for mode in String::from_utf8_lossy(body).split(';') {
            // 47 and 1047 are older spellings of the alternate screen.
            match mode.parse().map(|mode: u16| {
                if matches!(mode, 47 | 1047) {
                    1049
                } else {
                    mode
                }
            }) {
                Ok(mode) if KEPT.contains(&mode) => {
                    self.modes.insert(mode, on);
                }
                _ => {}
            }
        }
    }

    /// Whether the agent shows its alternate screen.
    #[must_use]
    pub fn is_full_screen(&self) -> bool {
        self.modes.get(&1049).copied().unwrap_or(false)
    }

    /// What brings the agent's modes back on a terminal that was reset.
    #[must_use]
    pub fn again(&self) -> String {
        let mut out = String::new();
        // Outside of the alternate screen, leaving it again would move the cursor.
        for (mode, on) in self
            .modes
            .iter()
            .filter(|(mode, on)| **mode != 1049 || **on)
        {
            let _ = write!(out, "\u{1b}[?{mode}{}", if *on { 'h' } else { 'l' });
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_screen_program_is_recognised_across_reads() {
        let mut lent = Lent::default();
        lent.follow(b"hello \x1b[?10");
        lent.follow(b"49;2004h\x1b[1;31m");
        assert!(lent.is_full_screen());
        assert_eq!(lent.again(), "\u{1b}[?1049h\u{1b}[?2004h");
        lent.follow(b"\x1b[?1049l");
        assert!(!lent.is_full_screen());
    }

    #[test]
    fn an_endless_sequence_takes_no_memory() {
        let mut lent = Lent::default();
        lent.follow(b"\x1b[?");
        lent.follow(&[b'1'; 10_000]);
        assert!(lent.sequence.is_none());
    }
}
