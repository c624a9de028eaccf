//! Published ports: ports of a live run's cage at the operator's own loopback.

use foreman_domain::RunId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A port to publish.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PortOpen {
    /// The run, as typed.
    pub run: String,
    /// The port of the cage's own loopback.
    pub port: u16,
    /// The port of this machine's 127.0.0.1; when absent the same number, or any where that is taken.
    #[serde(default)]
    pub to: Option<u16>,
    /// Refuse instead of taking another number.
    #[serde(default)]
    pub bind: bool,
}

/// Names a published port.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PortRef {
    /// The run, as typed.
    pub run: String,
    /// The port of the cage.
    pub port: u16,
}

/// A published port.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PortView {
    /// Its run.
    pub run: RunId,
    /// The port of the cage's own loopback.
    pub port: u16,
    /// The port of this machine's 127.0.0.1 where it is found.
    pub at: u16,
    /// Where a browser finds it.
    pub url: String,
    /// Whether anything listens there in the cage now.
    pub listening: bool,
    /// Connections that are open.
    pub open: u32,
    /// Connections so far.
    pub connections: u64,
    /// Bytes from the cage, of connections that have ended.
    pub sent: u64,
    /// Bytes to the cage, of connections that have ended.
    pub received: u64,
}

/// The published ports of a run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Ports {
    /// By their number in the cage.
    pub ports: Vec<PortView>,
}
