//! Cuts a byte stream from the cage into output events of bounded size, without losing a byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{EventKind, LogStream};

/// Longest piece of a line in one event.
pub(super) const PIECE_BYTES: usize = 16 << 10;

/// Cuts a stream into lines: a line longer than 16 KiB, or one that pauses in its middle, comes in
/// pieces that are marked as continued.
#[derive(Debug)]
pub(super) struct LineCutter {
    stream: LogStream,
    partial: Vec<u8>,
}

impl LineCutter {
    pub(super) fn new(stream: LogStream) -> Self {
        Self {
            stream,
            partial: Vec::new(),
        }
    }

    /// Takes bytes; gives the events that they complete.
    pub(super) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<EventKind>) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.extend(line, out);
            let line = std::mem::take(&mut self.partial);
            out.push(output(self.stream, &line, false));
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.extend(bytes, out);
    }

    fn extend(&mut self, bytes: &[u8], out: &mut Vec<EventKind>) {
        self.partial.extend_from_slice(bytes);
        while self.partial.len() > PIECE_BYTES {
            let cut = cut_before(&self.partial, PIECE_BYTES);
            let rest = self.partial.split_off(cut);
            out.push(output(self.stream, &self.partial, true));
            self.partial = rest;
        }
    }

    /// True when a line has begun and not ended.
    pub(super) fn has_partial(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Gives the line that has begun: it pauses.
    pub(super) fn pause(&mut self) -> Option<EventKind> {
        let rest = self.partial.split_off(complete_len(&self.partial));
        let piece = std::mem::replace(&mut self.partial, rest);
        (!piece.is_empty()).then(|| output(self.stream, &piece, true))
    }

    /// Gives the line that has begun: the stream ended.
    pub(super) fn finish(&mut self) -> Option<EventKind> {
        let last = std::mem::take(&mut self.partial);
        (!last.is_empty()).then(|| output(self.stream, &last, false))
    }
}

/// Cuts a terminal's stream into chunks that never end inside a character.
#[derive(Debug, Default)]
pub(super) struct ChunkCutter {
    partial: Vec<u8>,
}

impl ChunkCutter {
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<EventKind>) {
        self.partial.extend_from_slice(bytes);
        let mut whole = std::mem::take(&mut self.partial);
        self.partial = whole.split_off(complete_len(&whole));
        while whole.len() > PIECE_BYTES {
            let rest = whole.split_off(cut_before(&whole, PIECE_BYTES));
            out.push(output(LogStream::Terminal, &whole, false));
            whole = rest;
        }
        if !whole.is_empty() {
            out.push(output(LogStream::Terminal, &whole, false));
        }
    }

    pub(super) fn finish(&mut self) -> Option<EventKind> {
        let last = std::mem::take(&mut self.partial);
        (!last.is_empty()).then(|| output(LogStream::Terminal, &last, false))
    }
}

fn output(stream: LogStream, bytes: &[u8], continued: bool) -> EventKind {
    let (text, raw) = match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (
            String::from_utf8_lossy(bytes).into_owned(),
            Some(STANDARD.encode(bytes)),
        ),
    };
    EventKind::Output {
        stream,
        text,
        raw,
        continued,
    }
}

/// At most `limit`, and not inside a character where the bytes are UTF-8.
fn cut_before(bytes: &[u8], limit: usize) -> usize {
    let is_boundary = |at: usize| bytes.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    (limit.saturating_sub(3)..=limit)
        .rev()
        .find(|at| is_boundary(*at))
        .unwrap_or(limit)
        .max(1)
}

/// Length without a character at the end that has begun but not ended.
fn complete_len(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(3);
    for at in (tail..bytes.len()).rev() {
        let Some(byte) = bytes.get(at) else { break };
        let wanted = match byte {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            0x80..=0xbf => continue,
            _ => break,
        };
        return if bytes.len() - at < wanted {
            at
        } else {
            bytes.len()
        };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(kind: &EventKind) -> (Vec<u8>, bool) {
        let EventKind::Output {
            text,
            raw,
            continued,
            ..
        } = kind
        else {
            panic!("{kind:?}")
        };
        let bytes = match raw {
            Some(raw) => STANDARD.decode(raw).unwrap(),
            None => text.clone().into_bytes(),
        };
        (bytes, *continued)
    }

    fn lines(chunks: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let mut cutter = LineCutter::new(LogStream::Stdout);
        let mut out = Vec::new();
        for chunk in chunks {
            cutter.push(chunk, &mut out);
        }
        out.extend(cutter.finish());
        out.iter().map(bytes_of).collect()
    }

    #[test]
    fn lines_come_whole_however_they_arrive() {
        let wanted = vec![
            (b"ab".to_vec(), false),
            (b"".to_vec(), false),
            (b"c".to_vec(), false),
        ];
        assert_eq!(lines(&[b"ab\n\nc"]), wanted);
        assert_eq!(lines(&[b"a", b"b", b"\n", b"\nc"]), wanted);
    }

    #[test]
    fn a_line_of_fifty_thousand_bytes_comes_in_marked_pieces_without_loss() {
        let long = "é".repeat(25_000);
        let got = lines(&[long.as_bytes(), b"\nx\n"]);
        assert!(got.iter().all(|(bytes, _)| bytes.len() <= PIECE_BYTES));
        let (last_long, pieces) = got[..got.len() - 1].split_last().unwrap();
        assert!(!last_long.1 && pieces.iter().all(|(_, continued)| *continued));
        let joined: Vec<u8> = got[..got.len() - 1]
            .iter()
            .flat_map(|(b, _)| b.clone())
            .collect();
        assert_eq!(joined, long.as_bytes());
        assert_eq!(got.last().unwrap(), &(b"x".to_vec(), false));
    }

    #[test]
    fn no_piece_ends_inside_a_character() {
        let long = "é".repeat(25_000);
        let mut cutter = LineCutter::new(LogStream::Stdout);
        let mut out = Vec::new();
        cutter.push(b"a", &mut out);
        cutter.push(long.as_bytes(), &mut out);
        assert!(
            out.iter()
                .all(|kind| matches!(kind, EventKind::Output { raw: None, .. }))
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept_exactly() {
        let bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
        assert_eq!(lines(&[&bytes]), vec![(bytes, false)]);
    }

    #[test]
    fn a_pausing_line_is_told_as_continued_and_completed_later() {
        let mut cutter = LineCutter::new(LogStream::Stdout);
        let mut out = Vec::new();
        cutter.push("Name\u{e9}".as_bytes(), &mut out);
        assert!(cutter.has_partial());
        out.extend(cutter.pause());
        cutter.push(b"!\n", &mut out);
        let got: Vec<_> = out.iter().map(bytes_of).collect();
        assert_eq!(
            got,
            vec![
                ("Name\u{e9}".as_bytes().to_vec(), true),
                (b"!".to_vec(), false)
            ]
        );
    }

    #[test]
    fn terminal_chunks_hold_a_split_character_back() {
        let mut cutter = ChunkCutter::default();
        let mut out = Vec::new();
        let text = "a日";
        cutter.push(&text.as_bytes()[..2], &mut out);
        cutter.push(&text.as_bytes()[2..], &mut out);
        out.extend(cutter.finish());
        let got: Vec<_> = out.iter().map(|kind| bytes_of(kind).0).collect();
        assert_eq!(got, vec![b"a".to_vec(), "日".as_bytes().to_vec()]);
    }
}
