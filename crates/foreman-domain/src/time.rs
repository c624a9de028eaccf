//! Points in time as the machine interface writes them: RFC 3339, UTC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A point in time; written as RFC 3339 in UTC.
#[derive(
    Debug,
    Clone,
    Copy,
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
pub struct At(
    #[schemars(with = "String")]
    #[specta(type = String)]
    pub jiff::Timestamp,
);

impl At {
    /// The machine's clock, now. Called at the edges only; inner code takes an [`At`].
    #[must_use]
    pub fn now() -> Self {
        Self(jiff::Timestamp::now())
    }

    /// Milliseconds since the Unix epoch, as the store keeps it.
    #[must_use]
    pub fn as_millis(self) -> i64 {
        self.0.as_millisecond()
    }

    /// The point that [`At::as_millis`] gave; the epoch itself when out of range.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(jiff::Timestamp::from_millisecond(millis).unwrap_or_default())
    }
}

impl fmt::Display for At {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
