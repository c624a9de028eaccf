//! Requests and answers of the command list, one file a topic.

mod blocks;
mod doctor;
mod policies;
mod review;
mod runs;

pub use blocks::*;
pub use doctor::*;
pub use policies::*;
pub use review::*;
pub use runs::*;
