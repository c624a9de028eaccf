//! The scheduler from outside: rows of the tables, properties over made-up queues, patterns against the
//! real git, and a seeded world in which everything goes wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod comparing;
mod dispatching;
mod making;
mod properties;
mod recurring;
mod retrying;
mod scopes;
mod world;
