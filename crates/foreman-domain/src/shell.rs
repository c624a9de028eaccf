//! The id of a program that an operator runs beside a step, in the run's cage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names one shell of a run. Chosen by who asks for it, so that asking twice opens one.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema, specta::Type,
)]
#[serde(transparent)]
pub struct ShellId(String);

impl ShellId {
    /// Its length: 64 bits in hexadecimal.
    pub const LEN: usize = 16;

    /// From 64 random bits.
    #[must_use]
    pub fn from_random(bits: u64) -> Self {
        Self(format!("{bits:016x}"))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for ShellId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ShellId {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let hex = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        if text.len() == Self::LEN && text.bytes().all(hex) {
            return Ok(Self(text));
        }
        Err(serde::de::Error::custom(
            "a shell's id has 16 hexadecimal digits",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_here_is_an_id() {
        let id = ShellId::from_random(7);
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text, "\"0000000000000007\"");
        assert_eq!(serde_json::from_str::<ShellId>(&text).unwrap(), id);
        for bad in ["", "7", "../../../../../x", "000000000000000G"] {
            let text = serde_json::to_string(bad).unwrap();
            assert!(serde_json::from_str::<ShellId>(&text).is_err(), "{bad}");
        }
    }
}
