//! The operator's git repositories: what may be caged, the run's worktree, its shadow common
//! directory, collecting, reviewing, merging, and taking a run down without losing anything.
//!
//! Contract
//! - The host reads and writes repositories through libgit2, which runs no hook, filter, editor or
//!   monitor. The git program is started only for what libgit2 cannot do (a checked fetch, bulk
//!   object import), always inside the repository's own common directory, with a fixed environment,
//!   hooks off, and a deadline (`program.rs`).
//! - Whatever a run could write (worktree, shadow directory, harvest file) is hostile data: bounded,
//!   parsed exactly, opened without following symbolic links, and never taken as configuration.
//! - Every change to a repository holds its lock (`lock.rs`) and is undone when it fails half way.
//!   Nothing that could be the only copy of work is removed before a snapshot holds it.
//! - Not here: cages, runs' states, approval. This crate answers what git says and does what it is
//!   told, with a typed refusal otherwise.

mod bounded;
mod cage_steps;
mod checked_out;
mod clean;
mod clean_copy;
mod commits;
mod contents;
mod deep_stack;
mod diff;
mod error;
mod estimate;
mod fetch;
mod flags;
mod generated;
mod harvest;
mod hostile_dir;
mod landed;
mod left_locks;
mod lock;
mod look;
mod manifest;
mod marks;
mod merge;
mod operator;
mod preflight;
mod program;
mod push;
mod quarantine;
mod registry;
mod repository;
mod restore;
mod salvage;
mod shadow;
mod snapshot;
mod steering;
mod submodules;
mod sync;
mod types;
mod unmake;
mod untracked;
mod verify;
mod worktree;

pub use clean_copy::CleanCopy;
pub use error::GitError;
pub use estimate::Needed;
pub use fetch::{Fetched, Standing, Upstream};
pub use hostile_dir::remove_folder;
pub use landed::Unlanded;
pub use look::Looks;
pub use operator::FetchLimits;
pub use push::{PushRefusal, PushTo, Pushed};
pub use registry::Registered;
pub use repository::Repository;
pub use steering::{Steering, Touched, steering};
pub use submodules::Submodules;
pub use sync::{Sync, Synced};
pub use types::{
    CageBind, Commit, Commits, Diff, DiffFile, FileDiff, Harvest, Preflight, Shadow, Worktree,
};
