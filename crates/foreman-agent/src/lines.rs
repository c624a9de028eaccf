//! Cuts what an agent prints into lines of bounded length.

use crate::port::Line;

/// Longest line that a driver is given. Real ones of 570 KB were seen; twenty times that is no message any more.
pub const LONGEST_LINE: usize = 16 << 20;

/// Puts lines together from pieces. Holds at most [`LONGEST_LINE`] bytes.
#[derive(Debug, Default)]
pub struct Lines {
    partial: Vec<u8>,
    /// Bytes of a line that is too long.
    passed: u64,
}

impl Lines {
    /// Takes bytes; gives every line that they end.
    pub fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(Line<'_>)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (last, rest) = bytes.split_at(end);
            self.extend(last);
            self.take(&mut line);
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.extend(bytes);
    }

    /// Gives the line that has begun: nothing follows.
    pub fn finish(&mut self, mut line: impl FnMut(Line<'_>)) {
        if !self.partial.is_empty() || self.passed > 0 {
            self.take(&mut line);
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.passed == 0 && self.partial.len() + bytes.len() <= LONGEST_LINE {
            self.partial.extend_from_slice(bytes);
            return;
        }
        self.passed += (self.partial.len() + bytes.len()) as u64;
        self.partial = Vec::new();
    }

    fn take(&mut self, line: &mut impl FnMut(Line<'_>)) {
        match std::mem::take(&mut self.passed) {
            0 => {
                let whole = std::mem::take(&mut self.partial);
                line(Line::Whole(whole.strip_suffix(b"\r").unwrap_or(&whole)));
            }
            passed => line(Line::TooLong(passed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Vec<Result<Vec<u8>, u64>> {
        let mut out = Vec::new();
        let mut lines = Lines::default();
        let mut note = |line: Line<'_>| {
            out.push(match line {
                Line::Whole(bytes) => Ok(bytes.to_vec()),
                Line::TooLong(bytes) => Err(bytes),
            });
        };
        for piece in pieces {
            lines.push(piece, &mut note);
        }
        lines.finish(&mut note);
        out
    }

    #[test]
    fn lines_come_whole_however_they_arrive_and_a_last_one_needs_no_end() {
        let wanted = vec![Ok(b"ab".to_vec()), Ok(vec![]), Ok(b"c".to_vec())];
        assert_eq!(cut(&[b"ab\r\n\nc"]), wanted);
        assert_eq!(cut(&[b"a", b"b\n", b"\n", b"c"]), wanted);
        assert_eq!(cut(&[b"a\n"]), vec![Ok(b"a".to_vec())]);
    }

    #[test]
    fn a_line_beyond_the_bound_is_counted_and_not_kept_and_the_next_one_is_whole() {
        let piece = vec![b'x'; LONGEST_LINE / 2 + 1];
        let got = cut(&[&piece, &piece, &piece, b"\nnext\n"]);
        let bytes = 3 * piece.len() as u64;
        assert_eq!(got, vec![Err(bytes), Ok(b"next".to_vec())]);
    }
}
