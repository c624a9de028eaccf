//! SDF, the desktop app over the engine: a window's typed calls over the one declared command list, an
//! icon in the panel, notifications, and links.
//!
//! It hosts the engine or joins the one that is up, and takes over when that one ends. It knows no SQL,
//! no git and no cage. Links, notifications and the panel only ever open a card: deciding is done in
//! the window, by the operator.

pub mod app;
pub mod board;
pub mod bus;
pub mod commands;
pub mod demo;
pub mod desktop;
pub mod engines;
pub mod link;
pub mod navigations;
pub mod notice;
pub mod open;
pub mod settings;
pub mod shell;
mod start;
pub mod tray;

pub use start::run;
