//! What the far side serves: the file it is started with, and the fixed table of ports.

use crate::stream::Service;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The file named on the command line.
#[derive(Debug, Deserialize)]
pub struct Config {
    /// Where to record what was seen.
    pub log: PathBuf,
    /// Where to write the authority's certificate.
    pub authority: PathBuf,
    /// Files served over HTTP and HTTPS.
    pub site: PathBuf,
    /// Programs to start beside the servers.
    pub programs: Vec<Vec<String>>,
    /// What ordinary names resolve to.
    pub main: Vec<IpAddr>,
}

impl Config {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// Ports over TCP. Ports 22 and 5432 are left to real programs.
pub const STREAMS: &[(u16, Service)] = &[
    (53, Service::Names),
    (80, Service::Web),
    (443, Service::SecureWeb),
    (853, Service::Echo),
    (8080, Service::Web),
    (8443, Service::SecureWeb),
    (3128, Service::Proxy),
    (7007, Service::Echo),
    (7008, Service::Echo),
    (7009, Service::Sink),
    (7019, Service::Source),
    (7022, Service::SecureShellBanner),
];

/// Ports over UDP; all but 53 echo.
pub const DATAGRAMS: &[u16] = &[53, 123, 443, 784, 853, 5353, 5355, 7007, 7008, 8853];
