//! Ending a service.

use foreman_domain::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to end.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShutdownRequest {
    /// How long to wait for what runs to end by itself, in milliseconds; at once when absent.
    #[serde(default)]
    pub drain_ms: Option<u64>,
    /// Stop what runs then; else it goes on with its supervisors, and the next engine adopts it.
    #[serde(default)]
    pub stop_runs: bool,
}

/// What a service left when it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ShutdownReport {
    /// The process that ends.
    pub pid: u32,
    /// Runs that came to their end while it drained.
    pub ended: Vec<RunId>,
    /// Runs that it stopped.
    pub stopped: Vec<RunId>,
    /// Runs that go on without it.
    pub left: Vec<LeftRun>,
}

/// A run that goes on without an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct LeftRun {
    /// Which.
    pub run: RunId,
    /// Its title.
    pub title: String,
    /// The tag of its state.
    pub state: String,
}
