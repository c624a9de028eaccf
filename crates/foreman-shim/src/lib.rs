//! The per-run supervisor: protocol, journal, holds, steps.
//!
//! One shim process carries one run to its end and outlives the engine that started it. This library
//! is what both sides share ([`protocol`], [`journal`], [`client`], [`launch`], [`ground`],
//! [`secrets`], [`redact`], [`forward`]) and, as [`shim`], the
//! supervisor itself; the binary only parses its command line.
//!
//! It knows nothing of databases, repositories or windows. Everything it hears from a cage is hostile
//! text or hostile bytes: bounded before it is kept, and never a reason to panic.

pub mod client;
pub mod doctor;
pub mod forward;
pub mod ground;
mod identity;
pub mod journal;
pub mod launch;
pub mod log;
pub mod protocol;
pub mod redact;
pub mod secrets;
pub mod shim;
pub mod station;
pub mod why;
pub mod wire;

pub use identity::{IdentityError, ProcessIdentity};
