//! What the far side of a world saw: one record a connection, datagram or query.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// What kind of thing was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeenKind {
    /// A TCP connection was accepted.
    Accepted,
    /// A TCP connection ended; `bytes` counts what came in.
    Closed,
    /// A UDP datagram came in.
    Datagram,
    /// A DNS query came in, by UDP or TCP.
    Query,
}

/// One record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Seen {
    /// What.
    pub kind: SeenKind,
    /// The address that was reached.
    pub local: String,
    /// The port that was reached.
    pub port: u16,
    /// Who came.
    pub peer: String,
    /// Bytes that came in.
    #[serde(default)]
    pub bytes: u64,
    /// The first of them, as text.
    #[serde(default)]
    pub head: String,
    /// The name that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The type that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
}

/// Reads the records of a file; an absent file has none.
pub(crate) fn read_seen(path: &Path) -> Result<Vec<Seen>> {
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    text.lines()
        .filter(|line| line.ends_with('}'))
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}
