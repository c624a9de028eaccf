//! How a run is confined, by what that stops.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a run is confined. Each is named for what it stops, and none stands in for another in silence.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Everything: connections and files are held.
    #[default]
    Full,
    /// Files are held; there is no network at all, because none could be captured.
    NoNetwork,
    /// No namespaces: Landlock and a system call filter alone. Nothing is held.
    NoNamespaces,
    /// Nothing. Only for who asked for it by name.
    Unconfined,
}

impl Tier {
    /// By what it stops, and what it does not.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Full => "Network held, files confined",
            Self::NoNetwork => "Network refused, files confined",
            Self::NoNamespaces => {
                "No namespaces: network refused, files refused by Landlock; processes of this machine visible"
            }
            Self::Unconfined => "NOT CONFINED: may do whatever you may",
        }
    }
}
