//! What can be typed behind `foreman disk`.

use clap::{Args, Subcommand};
use foreman_policy::{parse_bytes, parse_duration};

/// Arguments of `foreman disk`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Only files of runs that are merged, or that changed nothing, may go, and only when their worktree holds
nothing that is not committed and on the base branch. What is live, recent, dirty, unlanded or unknown
stays, and the list says why. Before anything goes, a snapshot in the repository keeps all of it, ignored
files included: `foreman restore RUN` brings it back. The run's branch goes with its worktree; it is in the
snapshot too. Anything else you remove yourself, with `foreman discard RUN`.

Examples:
  foreman disk                        what uses space, what could go
  foreman disk clean --older-than 2d  show what would go, and ask
  foreman disk quota 20GiB --keep 7d  let it go by itself when more than 20 GiB are used"
)]
pub struct DiskArgs {
    /// What to do; shows what uses space when absent.
    #[command(subcommand)]
    pub command: Option<DiskCommand>,
}

/// Commands about disk space.
#[derive(Debug, Subcommand)]
pub enum DiskCommand {
    /// Remove what may go, each run into a snapshot; shows it first.
    Clean(DiskCleanArgs),
    /// Set how much may be used before what may go does so by itself.
    Quota(DiskQuotaArgs),
    /// Show, or set, how much stored events may take; beyond it the oldest output goes.
    Events(DiskEventsArgs),
}

/// Arguments of `foreman disk clean`.
#[derive(Debug, Args)]
pub struct DiskCleanArgs {
    /// How long ago a run must have ended (`12h`, `3d`); what `foreman disk quota --keep` says, or a
    /// week, when absent.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub older_than: Option<u64>,
    /// Remove without asking. Without it and without a terminal, nothing is removed.
    #[arg(long)]
    pub yes: bool,
}

/// Arguments of `foreman disk quota`.
#[derive(Debug, Args)]
pub struct DiskQuotaArgs {
    /// How much (`20GiB`; `0B` lets all that may go), or `none`: nothing goes by itself.
    #[arg(value_name = "SIZE", value_parser = quota)]
    pub size: Quota,
    /// How long ago a run must have ended for its files to go; a week when absent.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub keep: Option<u64>,
}

/// Arguments of `foreman disk events`.
#[derive(Debug, Args)]
pub struct DiskEventsArgs {
    /// How much the events of one run may take.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub per_run: Option<u64>,
    /// How much the events of all runs may take.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub total: Option<u64>,
}

/// A quota, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota(pub Option<u64>);

fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

fn quota(text: &str) -> Result<Quota, String> {
    match text {
        "none" => Ok(Quota(None)),
        "0" => Ok(Quota(Some(0))),
        other => size(other).map(|bytes| Quota(Some(bytes))),
    }
}

/// `0s` is a duration here: everything that is at rest counts.
fn duration(text: &str) -> Result<u64, String> {
    match text {
        "0" | "0s" => Ok(0),
        text => parse_duration(text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_read_as_everywhere_else() {
        assert_eq!(quota("none").unwrap(), Quota(None));
        assert_eq!(quota("0").unwrap(), Quota(Some(0)));
        assert_eq!(quota("2GiB").unwrap(), Quota(Some(2 << 30)));
        assert!(quota("lots").is_err());
        assert_eq!(duration("2d").unwrap(), 172_800);
        assert_eq!(duration("0s").unwrap(), 0);
        assert!(duration("soon").is_err());
    }
}
