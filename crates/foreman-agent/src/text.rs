//! Text of an agent, in pieces of bounded size.

use crate::port::Effect;
use foreman_domain::AgentEvent;

/// Longest text of one event, in bytes.
pub const PIECE: usize = 16 << 10;

/// Cuts a text to at most `most` bytes, at a character, and says so by an ellipsis.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most.saturating_sub(3))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    format!("{}…", text.get(..end.unwrap_or(0)).unwrap_or_default())
}

/// What kind of text it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    Thought,
}

/// Puts together text that comes in pieces as small as a character, until something else is said, the agent pauses,
/// or there is enough of it.
#[derive(Debug)]
pub(crate) struct Text {
    kind: Kind,
    pending: String,
}

impl Text {
    pub(crate) fn new() -> Self {
        Self {
            kind: Kind::Message,
            pending: String::new(),
        }
    }

    pub(crate) fn push(&mut self, kind: Kind, text: &str, out: &mut Vec<Effect>) {
        if kind != self.kind {
            self.flush(out);
            self.kind = kind;
        }
        let mut rest = text;
        while self.pending.len() + rest.len() > PIECE {
            let room = PIECE - self.pending.len();
            let end = (0..=room)
                .rev()
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(0);
            let (piece, after) = rest.split_at(end);
            self.pending.push_str(piece);
            self.tell(true, out);
            rest = after;
        }
        self.pending.push_str(rest);
    }

    pub(crate) fn flush(&mut self, out: &mut Vec<Effect>) {
        if !self.pending.is_empty() {
            self.tell(false, out);
        }
    }

    fn tell(&mut self, continued: bool, out: &mut Vec<Effect>) {
        let text = std::mem::take(&mut self.pending);
        out.push(Effect::Tell(match self.kind {
            Kind::Message => AgentEvent::Message { text, continued },
            Kind::Thought => AgentEvent::Thought { text, continued },
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_at_a_character_and_within_its_size() {
        assert_eq!(cut("abc", 3), "abc");
        let text = "é".repeat(100);
        let short = cut(&text, 20);
        assert!(short.len() <= 20 && short.ends_with('…'), "{short}");
    }

    #[test]
    fn long_text_is_told_in_pieces_without_loss() {
        let long = "日".repeat(20_000);
        let (mut text, mut out) = (Text::new(), Vec::new());
        text.push(Kind::Message, &long, &mut out);
        text.flush(&mut out);
        let pieces: Vec<_> = out
            .iter()
            .map(|effect| match effect {
                Effect::Tell(AgentEvent::Message { text, continued }) => (text.clone(), *continued),
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(pieces.iter().all(|(text, _)| text.len() <= PIECE));
        assert!(pieces.iter().rev().skip(1).all(|(_, continued)| *continued));
        assert!(!pieces.last().unwrap().1);
        assert_eq!(
            pieces.into_iter().map(|(text, _)| text).collect::<String>(),
            long
        );
    }
}
