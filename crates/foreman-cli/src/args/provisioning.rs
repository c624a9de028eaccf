//! Arguments about making a run ready, and trying one again.

use clap::{Args, Subcommand};
use foreman_engine::api::Preparation;
use std::path::PathBuf;

/// How the worktree of a run is made ready.
#[derive(Debug, Clone, Default, Args)]
pub struct PrepareArgs {
    /// Copy this file or folder of your checkout into the worktree, although git does not track it
    /// (may be repeated); `*`, `?` and `**` may be used. It is never committed for the run.
    #[arg(long, value_name = "PATH")]
    pub copy: Vec<String>,
    /// Start from the local base branch as it is, without asking its remote.
    #[arg(long)]
    pub no_fetch: bool,
    /// Longest wait for the remote of the base branch, in seconds; 60 when absent.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub fetch_limit: Option<u32>,
    /// Leave out what the repository's own files say about copying and setup, also where you trust them.
    #[arg(long)]
    pub no_project: bool,
}

impl From<PrepareArgs> for Preparation {
    fn from(args: PrepareArgs) -> Self {
        Self {
            copy: args.copy,
            no_fetch: args.no_fetch,
            fetch_seconds: args.fetch_limit,
            no_project: args.no_project,
        }
    }
}

/// `foreman project ...`
#[derive(Debug, Subcommand)]
pub enum ProjectCommand {
    /// Show what the repository's own files would copy and run for each run: .foreman/project.toml, or
    /// what is read of .worktreeinclude, conductor.json, .superset/config.json and .emdash.json.
    Show(ProjectArgs),
    /// Trust those files exactly as they are now, so that runs are made ready by them.
    Trust(ProjectTrustArgs),
}

/// Whose project.
#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// Any path inside the repository.
    #[arg(default_value = ".")]
    pub repo: PathBuf,
}

/// Arguments of `foreman project trust`.
#[derive(Debug, Args)]
pub struct ProjectTrustArgs {
    /// Any path inside the repository.
    #[arg(default_value = ".")]
    pub repo: PathBuf,
    /// Token of what was shown, from `foreman project show --json`. Required without a terminal.
    #[arg(long, value_name = "TOKEN")]
    pub expect: Option<String>,
}
