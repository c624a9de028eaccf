//! Use cases behind one declared command list.

pub mod api;
