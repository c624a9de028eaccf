//! The sandbox and, as the module [`gateway`], everything that may leave it.

mod census;
mod devices;
mod error;
mod etc_view;
mod handle;
mod identity;
mod init;
mod kernel;
mod landlock_wall;
mod launch;
mod payload;
mod probe;
mod proc_view;
mod program;
mod remedy;
mod root;
mod seccomp;
mod sources;
mod spec;
mod wire;
pub mod gateway;
pub mod world;

pub use error::{LaunchError, SpawnError, Step};
pub use handle::{Cage, Child, Exit, Payload, PayloadStdio, ProbeResult, ProcessSample};
pub use launch::{Facts, Launched, launch};
pub use probe::PROBE_NAME;
pub use spec::{Bind, CageSpec};
