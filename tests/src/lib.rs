//! Whole-product suites; see `docs/testing.md`. What several of them share and the kit does not have: the app on
//! a screen of its own, runs of the past, and the table of the benches.

pub mod desk;
pub mod past;
pub mod table;
