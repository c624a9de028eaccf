//! The per-run supervisor: protocol, journal, holds, steps.

pub mod protocol;
