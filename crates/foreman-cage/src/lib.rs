//! The sandbox and, as the module [`gateway`], everything that may leave it.
//!
//! [`launch`] builds a [`Cage`] from a [`CageSpec`]: namespaces, a private root, a private network
//! and a process 1 that starts programs in it. Each program is confined once more, in a second user
//! namespace, without capabilities, behind Landlock and a system call filter, before its first
//! instruction. [`Cage::probe`] proves the walls from inside. Calls on [`files`] outside of it wait until
//! somebody has decided, and paths can be shown in it and hidden again while it runs.
//!
//! Invariants: a program never runs with a required wall missing; what is not asked for in the
//! specification is not there; when the supervisor's process ends, however it ends, the cage ends;
//! when [`Cage::destroy`] returns, the kernel has said that nothing of it is left.
//!
//! A step that fails ends the launch, leaves nothing behind and is named in the error with the
//! kernel's answer, the wall and a remedy. A weaker cage is built instead only where the specification
//! accepts that by name: without the system call filter, or without any network.
//!
//! What it is not: it knows no policy, no run and no git, and it keeps no journal. Linux only.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "Foreman confines agents on Linux only so far; it does not build where it could not confine"
);

mod ahead;
mod census;
mod child;
mod devices;
mod error;
mod etc_view;
mod exchange;
pub mod files;
mod forward;
pub mod gateway;
mod handle;
mod identity;
mod init;
mod kernel;
mod landlock_wall;
mod launch;
mod network;
mod pause;
mod payload;
mod plain;
mod probe;
mod proc_view;
mod program;
mod remedy;
mod root;
pub mod seatbelt;
mod seccomp;
mod socket_cover;
mod sources;
mod spec;
mod wire;
pub mod world;

pub use census::{Open, ProcessSample, Spent};
pub use child::{Child, Exit, Payload, PayloadStdio};
pub use error::{LaunchError, SpawnError, Step};
pub use forward::{Carried, carry};
pub use handle::Cage;
pub use launch::{Facts, Launched, launch, launch_ahead};
pub use pause::Paused;
pub use probe::{Depth, PROBE_ADDRESS, PROBE_NAME, ProbeResult};
pub use root::is_system;
pub use spec::{Bind, CageSpec, Confinement};
