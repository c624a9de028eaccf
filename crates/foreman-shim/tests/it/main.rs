//! The shim from outside: its journal, its launch, and real runs in real cages.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where the machine lets it down"
)]

mod hostile;
mod journal;
mod launch;
mod network;
mod runs;
mod shells;
mod stage;
mod terminal;
