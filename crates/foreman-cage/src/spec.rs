//! What a cage is to be, as data: written by the engine, built by the shim.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A cage to build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CageSpec {
    /// Host name inside, also in the private hosts file.
    pub hostname: String,
    /// Working directory of every step; a path inside the cage.
    pub workdir: PathBuf,
    /// The operator's home path: an empty, private, size-limited directory inside.
    pub home: PathBuf,
    /// Paths of the host that are seen inside, in order (later ones may lie inside earlier ones).
    pub binds: Vec<Bind>,
    /// The whole environment of every step; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Program that is `foreman` inside (only `foreman why`): a file of the host.
    pub why_program: PathBuf,
    /// Processes and threads at one time, by RLIMIT_NPROC of the payload's user namespace.
    pub processes: u32,
    /// Host user and group for the payload when the shim runs as root; ignored otherwise.
    pub root_maps_to: u32,
    /// Walls that may be missing, by name, because the operator accepted it.
    pub accept_weaker: Vec<foreman_domain::Wall>,
}

/// A path of the host that is seen inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Canonical path on the host: no symlinks.
    pub source: PathBuf,
    /// Path inside.
    pub target: PathBuf,
    /// Read-only, or read and write. Always nosuid and nodev.
    pub writable: bool,
}
