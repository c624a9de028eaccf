//! Keeping the machine awake while runs are at work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the machine is kept awake while runs are at work.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum KeepAwake {
    /// Never.
    Never,
    /// On external power.
    #[default]
    Power,
    /// Always, on battery down to the floor.
    Always,
}

/// What is to be set; what is absent stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AwakeRequest {
    /// When.
    #[serde(default)]
    pub when: Option<KeepAwake>,
    /// Battery charge in percent below which the machine may sleep, whatever runs. 0 to 100.
    #[serde(default)]
    pub floor: Option<u8>,
}

/// How it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct AwakeView {
    /// When the machine is kept awake.
    pub when: KeepAwake,
    /// Battery charge in percent below which it may sleep.
    pub floor: u8,
    /// True while sleep is held off.
    pub holding: bool,
    /// Why, or why not, as a sentence without a final period.
    pub words: String,
}
