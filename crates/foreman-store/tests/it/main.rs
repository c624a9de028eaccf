//! The store against a real file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod decisions;
mod events;
mod opening;
mod scratch;
