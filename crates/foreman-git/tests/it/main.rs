//! The crate against real repositories and real git: what a run does is done by git in a mount
//! namespace that shows the shadow directory as a cage would; what an attacker does is written where
//! a run can write.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise"
)]

mod attacks;
mod bases;
mod clean_copies;
mod commits;
mod fixture;
mod landed;
mod left_locks;
mod lifecycle;
mod merging;
mod odd_repositories;
mod opening;
mod preparing;
mod pushing;
mod registry;
mod snapshots;
mod syncing;
