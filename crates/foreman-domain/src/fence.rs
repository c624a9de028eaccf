//! Who may write to a run: the engine that holds the data directory and, for each run, its claim.

use crate::{Epoch, RunEpoch};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What every write to a run carries. Pairs are ordered as they were given out: a later engine before
/// a later claim of the same engine.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
pub struct Fence {
    /// The engine.
    pub engine: Epoch,
    /// Its claim of the run.
    pub run: RunEpoch,
}

impl fmt::Display for Fence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.engine, self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_engine_is_before_every_claim_of_an_earlier_one() {
        let fence = |engine, run| Fence {
            engine: Epoch(engine),
            run: RunEpoch(run),
        };
        assert!(fence(2, 1) > fence(1, 9));
        assert!(fence(1, 2) > fence(1, 1));
        assert_eq!(Fence::default(), fence(0, 0));
    }
}
