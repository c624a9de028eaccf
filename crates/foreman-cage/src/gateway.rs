//! Capture of everything a cage sends: DNS, TCP, UDP. Nothing leaves before the judge allows it.
//!
//! The gateway knows packets, names and sockets. It does not know policies, blocks or operators: it
//! asks a [`Judge`] about each attempt and does what it answers.

mod judge;

pub use judge::{Allowance, Attempt, Closed, ConnectionId, Judge, Route, Verdict};
