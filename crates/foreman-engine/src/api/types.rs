//! Requests and answers of the command list, one file a topic.

mod awake;
mod blocks;
mod compare;
mod details;
mod disk;
mod doctor;
mod keeping;
mod orders;
mod policies;
mod provisioning;
mod repos;
mod review;
mod runs;
mod secrets;
mod service;
mod shells;
mod watching;

pub use awake::*;
pub use blocks::*;
pub use compare::*;
pub use details::*;
pub use disk::*;
pub use doctor::*;
pub use keeping::*;
pub use orders::*;
pub use policies::*;
pub use provisioning::*;
pub use repos::*;
pub use review::*;
pub use runs::*;
pub use secrets::*;
pub use service::*;
pub use shells::*;
pub use watching::*;
