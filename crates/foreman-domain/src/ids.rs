//! Ids as newtypes, so that a run can never be passed where a block is meant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Says why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{given}\" is not {wanted}")]
pub struct IdError {
    /// The string that was given.
    pub given: String,
    /// What would have been accepted, in words.
    pub wanted: &'static str,
}

/// Letters and digits of a run id: no vowels (no words), nothing that looks like something else.
const ALPHABET: &[u8; 24] = b"bcdfghjkmnpqrstvwxz23456";

/// One attempt of an order, for example `r7k2mqdx`. Opaque to everything but this type.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
#[specta(type = String)]
pub struct RunId(String);

impl RunId {
    /// Length of an id in bytes: `r` and seven letters (24^7 = 4.6e9 ids).
    pub const LEN: usize = 8;

    /// Makes an id of 64 random bits.
    #[must_use]
    pub fn from_random(mut bits: u64) -> Self {
        let mut id = String::with_capacity(Self::LEN);
        id.push('r');
        for _ in 1..Self::LEN {
            let index = (bits % ALPHABET.len() as u64) as usize;
            bits /= ALPHABET.len() as u64;
            id.push(char::from(ALPHABET[index]));
        }
        Self(id)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RunId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let good = text.len() == Self::LEN
            && text.starts_with('r')
            && text.bytes().skip(1).all(|byte| ALPHABET.contains(&byte));
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError {
                given: text.to_owned(),
                wanted: "a run id (see `foreman runs`)",
            })
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = IdError;
    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The unit that was handed in. One order may have several runs.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(transparent)]
pub struct OrderId(String);

impl OrderId {
    /// The order that a single `foreman run` makes for its run.
    #[must_use]
    pub fn of_single_run(run: &RunId) -> Self {
        Self(format!("o{}", &run.as_str()[1..]))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl OrderId {
    /// Longest id that an operator may choose, in bytes.
    pub const LONGEST: usize = 64;

    /// Makes an id of 64 random bits, for an order that was given none.
    #[must_use]
    pub fn from_random(bits: u64) -> Self {
        Self::of_single_run(&RunId::from_random(bits))
    }
}

/// What an operator may choose: a letter or digit, then letters, digits, `.`, `_` and `-`; so that an
/// id can stand in a file name, a list and a message as it is.
impl FromStr for OrderId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        let first = text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric());
        let good = first
            && text.len() <= Self::LONGEST
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if good {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError {
                given: crate::sanitize_line(&text.chars().take(80).collect::<String>()),
                wanted: "an order id: a letter or digit, then up to 63 letters, digits, \".\", \"_\" or \"-\"",
            })
        }
    }
}

impl From<String> for OrderId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

macro_rules! numbered_in_run {
    ($(#[$doc:meta])* $name:ident, $letter:literal, $wanted:literal) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
        )]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")] #[specta(type = String)]
        pub struct $name {
            run: RunId,
            number: u32,
        }

        impl $name {
            /// The `number`-th of its run, from 1.
            #[must_use]
            pub fn new(run: RunId, number: u32) -> Self {
                Self { run, number }
            }

            /// The run it belongs to.
            #[must_use]
            pub fn run(&self) -> &RunId {
                &self.run
            }

            /// Its number within the run, from 1.
            #[must_use]
            pub fn number(&self) -> u32 {
                self.number
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!("{}-", $letter, "{}"), self.run, self.number)
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let bad = || IdError { given: text.to_owned(), wanted: $wanted };
                let (run, number) = text.split_once(concat!("-", $letter)).ok_or_else(bad)?;
                let run = run.parse().map_err(|_| bad())?;
                let number = number.parse().map_err(|_| bad())?;
                Ok(Self { run, number })
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

numbered_in_run!(
    /// One held or refused subject of a run, for example `r7k2mqdx-b1`.
    BlockId,
    "b",
    "a block id (see `foreman blocks`)"
);
numbered_in_run!(
    /// One recorded decision (an amendment or a denial), for example `r7k2mqdx-a1`.
    AmendmentId,
    "a",
    "the id of a decision"
);

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize,
            Deserialize, JsonSchema, specta::Type,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(out)
            }
        }
    };
}

number!(
    /// Ownership of the data directory by one engine instance; +1 each time an engine takes it.
    Epoch
);
number!(
    /// Ownership of one run by an engine; +1 each time an engine claims the run.
    RunEpoch
);
number!(
    /// Place of an event in its run's log, from 1, without holes (a `gap` event fills a dropped range).
    EventSeq
);
number!(
    /// Number of a run's policy; +1 with every amendment, denial, undo and revocation.
    Revision
);
number!(
    /// One waiting action under a block, numbered within its run from 1.
    HoldId
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_survives_text() {
        let id = RunId::from_random(0x0123_4567_89ab_cdef);
        assert_eq!(id.to_string().parse::<RunId>(), Ok(id));
    }

    #[test]
    fn path_like_text_is_not_a_run_id() {
        for text in ["", "r", "../../xx", "r7k2mqd/", "R7k2mqdx", "r7k2mqdxx"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_order_id_can_stand_in_a_file_name() {
        for text in ["a", "T-0042", "fix.login_2", &"x".repeat(64)] {
            assert_eq!(text.parse::<OrderId>().unwrap().as_str(), text);
        }
        for text in ["", "-a", ".hidden", "a/b", "a b", "ä", &"x".repeat(65)] {
            assert!(text.parse::<OrderId>().is_err(), "{text}");
        }
        let made = OrderId::from_random(7);
        assert_eq!(made.as_str().parse::<OrderId>(), Ok(made));
    }

    #[test]
    fn block_and_amendment_ids_are_not_exchangeable() {
        let run = RunId::from_random(7);
        let block = BlockId::new(run, 3).to_string();
        assert!(block.parse::<BlockId>().is_ok());
        assert!(block.parse::<AmendmentId>().is_err());
    }
}
