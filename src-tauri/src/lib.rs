//! SDF, the desktop app over the engine: a window's typed calls over the one declared command list.

pub mod commands;
