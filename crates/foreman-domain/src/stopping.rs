//! How a run is brought to stop, and which bound it reached: figures, not only words.

use crate::{At, BoundKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bound that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Breach {
    /// Which.
    pub bound: BoundKind,
    /// The bound, in its unit.
    pub limit: u64,
    /// What was seen, in the same unit.
    pub seen: u64,
}

/// One rung of the ladder that ends a run's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Rung {
    /// What is done.
    pub by: StopBy,
    /// When, at the latest.
    pub at: At,
}

/// What is done to end a run's processes, mildest first.
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
#[serde(rename_all = "snake_case")]
pub enum StopBy {
    /// The agent is asked in its own protocol.
    Ask,
    /// The step is sent SIGINT.
    Interrupt,
    /// The step is sent SIGTERM.
    Terminate,
    /// Every process of the cage is killed.
    Kill,
}
