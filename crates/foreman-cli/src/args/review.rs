//! Arguments of what follows a run: `log`, `diff`, `sync`, `merge`, `merges`, `push`.

use clap::Args;

/// Arguments of `foreman diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// Show only what came after this commit of the run.
    #[arg(long, value_name = "COMMIT")]
    pub since: Option<String>,
    /// Show only what this one commit of the run changes; its full name, from `foreman log --json`.
    #[arg(long, value_name = "COMMIT", conflicts_with = "since")]
    pub commit: Option<String>,
}

/// Arguments of `foreman log`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// At most this many; 200 at most.
    #[arg(long, value_name = "NUMBER")]
    pub limit: Option<u32>,
    /// Leave so many of the newest out.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub skip: u32,
}

/// Arguments of `foreman sync`.
#[derive(Debug, Args)]
pub struct SyncArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
}

/// Arguments of `foreman merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// Token of what was reviewed, from `foreman diff --json`. Required without a terminal.
    #[arg(long, value_name = "TOKEN")]
    pub expect: Option<String>,
    /// Put it into the repository's merge queue: it is synced with its base and checked again where
    /// that is needed, then merged, or goes back to Review with the reason.
    #[arg(long)]
    pub queue: bool,
    /// With --queue: do not wait for it. An engine must then be up (`foreman serve`), or it goes on with
    /// the next command.
    #[arg(long, requires = "queue")]
    pub no_wait: bool,
    /// Merge although a check failed or did not run; the reason is recorded.
    #[arg(long, value_name = "REASON")]
    pub despite_checks: Option<String>,
    /// Merge although the change contains a secret that the run was handed, or although that cannot be told.
    #[arg(long, conflicts_with = "queue")]
    pub with_secret: bool,
}

/// Arguments of `foreman merges`.
#[derive(Debug, Args)]
pub struct MergesArgs {
    /// Only this run's.
    pub run: Option<String>,
    /// Also those that are over.
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `foreman push`.
#[derive(Debug, Args)]
pub struct PushArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// The remote to push to.
    #[arg(long, value_name = "NAME", default_value = "origin")]
    pub remote: String,
    /// The branch there; the run's own when left out.
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    /// Token of what was reviewed, from `foreman diff --json`. Required without a terminal.
    #[arg(long, value_name = "TOKEN")]
    pub expect: Option<String>,
    /// Replace what this run pushed there before, while nobody else has changed it.
    #[arg(long)]
    pub replace: bool,
    /// Push although the change contains a secret that the run was handed, or although that cannot be told.
    #[arg(long)]
    pub with_secret: bool,
}
