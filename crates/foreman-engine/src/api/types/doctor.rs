//! What holds on this machine.

use foreman_domain::Wall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to look at.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DoctorRequest {
    /// Do what would be done about differences; else they are only told.
    #[serde(default)]
    pub repair: bool,
}

/// What holds here.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct DoctorReport {
    /// `full`, `reduced` (a wall is missing), `no_namespaces` (a run can be started where that is accepted), `none`.
    pub tier: String,
    /// The tier by what it stops, in words.
    pub words: String,
    /// Every wall.
    pub walls: Vec<WallReport>,
    /// Bounds that are enforced here, in words.
    pub bounds: Vec<String>,
    /// What is stored where, live runs, and what does not add up.
    pub notes: Vec<String>,
    /// Runs that go on, and everything that is not as it should be: what is stored, what git has
    /// registered, what is on the disk and which processes live, side by side.
    #[serde(default)]
    pub truths: Vec<TruthView>,
}

/// Four truths about one run, or about what stands under an id that no run has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct TruthView {
    /// The id. Untrusted text, made safe.
    pub run: String,
    /// Its stored state.
    pub stored: String,
    /// What git says, in words.
    pub git: String,
    /// What is on the disk, in words.
    pub disk: String,
    /// Which of its processes live, in words.
    pub processes: String,
    /// What does not add up and is left as it is, as sentences.
    pub differences: Vec<String>,
    /// What would be done, as sentences; nothing of it can lose work.
    pub would: Vec<String>,
    /// What was done.
    pub done: Vec<String>,
}

/// One wall.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
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
