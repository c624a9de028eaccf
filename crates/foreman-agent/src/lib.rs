//! The agent-driver port: how a coding agent that nobody here wrote is started, understood and answered.
//!
//! A [`Driver`] is a pure fold: what the agent printed and what it was told goes in ([`Input`]), and events, lines
//! for its standard input and questions come out ([`Effect`]). It has no clock, no process and no file, so the
//! same inputs always give the same effects, and one can be built again from the lines that were journalled.
//! Whoever runs the agent keeps every line as it was, before the driver sees it; a driver therefore drops
//! nothing, however little it understands.
//!
//! A [`Profile`] is what one agent needs: program, arguments, variables, files in its home, hosts. Profiles are data
//! (`profiles/*.toml`); agents that print a JSON object a line are understood by a [`LineMap`], which is data too.
//!
//! [`conformance`] is what every driver passes. Nothing in here believes an agent: not its exit code, not its own
//! word for success, and no text of it is parsed for meaning.

mod acp;
mod claude;
mod command;
pub mod conformance;
mod lines;
mod map;
mod outcome;
mod port;
mod profile;
mod progress;
mod text;
mod value;

pub use lines::{LONGEST_LINE, Lines};
pub use map::{Emit, LineMap, Rule};
pub use outcome::Standing;
pub use port::{Conversation, Driver, Effect, Hearing, Input, Line, SECRET_MARK, Wire, driver};
pub use profile::{HoldLimit, HomeFile, KeyProfile, Profile, ProfileError, profile, profiles};
pub use progress::{Progress, Stalled};
pub use text::PIECE as LONGEST_TEXT;
