//! What the whole-product suites share: identities to run the product as ([`Bench`]), a private
//! internet ([`World`]), scratch repositories ([`repos`]), a driver of the real command line
//! ([`Product`]), a way to run commands inside a live cage ([`Arena`]), and a small test runner that
//! can skip with a reason ([`suite`]).
//!
//! Everything here drives the real binaries from outside; nothing links the product's code but its
//! vocabulary. It is test code: it stops with a message when the machine lets it down.
#![forbid(unsafe_code)]

mod arena;
mod bench;
mod binaries;
mod daemon;
mod live_run;
mod product;
mod screen;
mod seen;
mod stage;
mod wait;
mod world;

pub mod repos;
pub mod suite;
pub mod toolchains;

pub use arena::{Arena, Job, Reply};
pub use bench::{Bench, Who, run};
pub use binaries::Binaries;
pub use daemon::{Daemon, processes_with};
pub use live_run::{LiveRun, PATIENCE};
pub use product::{Product, Ran, expect_exit};
pub use screen::Screen;
pub use seen::{Seen, SeenKind};
pub use stage::Stage;
pub use wait::{eventually, until};
pub use world::{
    MAIN_V4, MAIN_V6, NEAR_V4, OTHER_RESOLVER, OTHER_V4, OTHER_V6, PRIVATE_V4, RESOLVER, World,
    children, descendants,
};
