//! Use cases behind one declared command list, and the process that hosts them.
//!
//! [`Host::open`] either takes the data directory's lock and becomes the engine, or joins the engine
//! that is up; it answers [`api::Commands`] either way and takes over when that engine goes away.
//! Exactly one process holds a data directory at a time, and each time one takes it the epoch rises
//! by one; a write under an older epoch is refused by the store.
//!
//! A run's shim outlives every engine. What it journalled is the first truth; the engine ingests it,
//! records decisions before any shim hears of them, and brings ended runs to rest by a function that
//! may be cut short at any point and begun again by the next engine.
//!
//! It does not know how a cage works, what SQL is, or how anything is shown.

pub mod api;
mod awake;
mod blocks;
mod carrying;
mod changes;
mod commits;
mod compare;
mod control;
mod conversation;
mod create;
mod decisions;
mod details;
mod disk;
mod doctor;
mod ending;
mod engine;
mod environment;
mod failures;
mod file_system;
mod follow;
mod gate;
mod guest;
mod host;
mod hosting;
mod layout;
mod lease;
mod live;
mod log;
mod news;
mod options;
mod orders;
mod path_rules;
pub mod place;
mod policies;
mod ports;
mod programs;
mod project_file;
mod provision;
mod recent;
mod reconcile;
mod review;
mod runs;
mod search;
mod secrets;
mod service;
mod shells;
mod socket_rules;
mod spec;
mod tokens;
mod toolchains;
mod upkeep;
mod watching;
mod words;

pub use guest::Guest;
pub use host::Host;
pub use options::{HostOptions, shim_program};
pub use service::{Greeting, ServiceLock, ServiceRole, serve_detached};
