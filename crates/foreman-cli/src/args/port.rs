//! Arguments of `foreman port`.

use clap::Args;

/// Arguments of `foreman port`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
It is found at 127.0.0.1 of this machine only, for as long as the run has a cage; programs of this
machine's other accounts can connect to it, as to anything there. Nothing in the cage can reach this
machine by it: bytes flow only on connections that are opened from here. What a page of the run says
in your browser is a stranger's word, as on any other page.

Examples:
  foreman port last 3000
  foreman port last 3000 --to 8080
  foreman port last
  foreman port last 3000 --close")]
pub struct PortArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// The port of the cage; without it the published ones are listed.
    pub port: Option<u16>,
    /// The port of this machine; the same number where that is free, else any, when absent.
    #[arg(long, value_name = "PORT", requires = "port", conflicts_with = "close")]
    pub to: Option<u16>,
    /// The same number and no other.
    #[arg(long, requires = "port", conflicts_with_all = ["to", "close"])]
    pub bind: bool,
    /// Close it, and cut its connections.
    #[arg(long, requires = "port")]
    pub close: bool,
}
