//! The store against a real file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod clocks;
mod damage;
mod decisions;
mod disk;
mod events;
mod gate;
mod leases;
mod opening;
mod orders;
mod records;
mod retention;
mod scratch;
mod searching;
