//! What holds on this machine.

use foreman_domain::Wall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to look at.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct DoctorRequest {}

/// What holds here.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    /// `full`, `reduced`, `none`.
    pub tier: String,
    /// The tier by what it stops, in words.
    pub words: String,
    /// Every wall.
    pub walls: Vec<WallReport>,
    /// Bounds that are enforced here, in words.
    pub bounds: Vec<String>,
    /// What is stored where, live runs, and what does not add up.
    pub notes: Vec<String>,
}

/// One wall.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WallReport {
    /// Which.
    pub wall: Wall,
    /// Whether a live probe saw it hold.
    pub holds: bool,
    /// Whether a run refuses to start without it.
    pub required: bool,
    /// What was tried and seen; the failing step when it does not hold.
    pub detail: String,
    /// What to do when it does not hold.
    pub remedy: Option<String>,
}
