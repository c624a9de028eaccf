//! Arguments of `foreman serve`, `shutdown`, `watch` and `doctor`.

use clap::Args;
use std::time::Duration;

/// Arguments of `foreman serve`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every command hosts the engine itself while it runs, or joins the one that is up; a service is wanted
where orders are to be started, and ends collected, while nobody types anything. It logs to standard
error, says on standard output when it is up, and tells systemd where that asked.

SIGTERM and SIGINT end it in good order: runs go on with their supervisors, and the next engine adopts
them. With --drain-on-exit it first waits, beginning nothing new, for what runs to end by itself. A
second signal ends the wait. SIGHUP is ignored.

Examples:
  foreman serve                             in the foreground
  foreman serve --detach                    in the background, until nothing is left to do
  foreman serve --install                   as a systemd user unit
  foreman shutdown --drain 10m              ends it from elsewhere")]
pub struct ServeArgs {
    /// Start it in the background, in a session of its own, and return once it is up.
    #[arg(long, conflicts_with_all = ["install", "uninstall", "print_unit"])]
    pub detach: bool,
    /// Be what --detach starts.
    #[arg(long, hide = true)]
    pub detached: bool,
    /// When asked to end, wait this long for what runs to end by itself (`90s`, `10m`, `2h`).
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub drain_on_exit: Option<Duration>,
    /// End after this long without anything that runs or waits.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub exit_when_idle: Option<Duration>,
    /// Write a systemd user unit for it, and say how to start it.
    #[arg(long, conflicts_with_all = ["uninstall", "print_unit"])]
    pub install: bool,
    /// Remove the unit that --install wrote.
    #[arg(long, conflicts_with = "print_unit")]
    pub uninstall: bool,
    /// Print the unit and do nothing else.
    #[arg(long)]
    pub print_unit: bool,
}

/// Arguments of `foreman shutdown`.
#[derive(Debug, Args)]
pub struct ShutdownArgs {
    /// Wait this long for what runs to end by itself (`90s`, `10m`, `2h`); nothing new is begun.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub drain: Option<Duration>,
    /// Stop what still runs; else it goes on without the service, and the next engine adopts it.
    #[arg(long)]
    pub stop_runs: bool,
}

/// Arguments of `foreman watch`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
One line a hint: a run with its newest event's number, an order, or a block. A hint says where to look
again (`foreman show`, `foreman events --after`), never what happened; at most twenty answers a second,
each subject once in each. The line `resync` says that it is not known what changed before: read the
lists anew. With --json each answer of the engine is one line, with the cursor to ask on with.")]
pub struct WatchArgs {
    /// Go on from the cursor of an earlier answer, or of `foreman runs --json`.
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// Print what changed since the cursor and end.
    #[arg(long)]
    pub once: bool,
}

/// Arguments of `foreman doctor`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Beside the walls it compares four truths: what is stored, what git has registered, what is on the disk,
and which processes live. It says what it would do about each difference, and does it with --repair.
Nothing that may hold work is ever removed: what is not known for certain is reported and left.")]
pub struct DoctorArgs {
    /// Do what the report says would be done.
    #[arg(long)]
    pub repair: bool,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    foreman_policy::parse_duration(text)
        .map(Duration::from_secs)
        .map_err(|error| error.to_string())
}
