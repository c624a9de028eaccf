//! The store against a real file.

mod decisions;
mod events;
mod opening;
mod scratch;
