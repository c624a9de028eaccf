//! The id of something that an operator says to a running agent.

use serde::{Deserialize, Serialize};

/// Names one message to an agent. Chosen by who says it, so that saying it twice gives it once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// Its longest length.
    pub const LONGEST: usize = 200;

    /// From the text of a request's key; `None` where that is no plain word.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_graphic();
        let fits = (1..=Self::LONGEST).contains(&text.len());
        (fits && text.bytes().all(is_plain)).then(|| Self(text.to_owned()))
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::of(&text).ok_or_else(|| serde::de::Error::custom("a message's id is a plain word"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_named_by_a_plain_word() {
        let id = MessageId::of("req-7").unwrap();
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"req-7\"");
        for bad in ["", "a b", "a\n", &"x".repeat(201)] {
            assert!(MessageId::of(bad).is_none(), "{bad:?}");
        }
    }
}
