//! What can be typed behind `foreman search`.

use clap::Args;

/// Arguments of `foreman search`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
All words must occur; case does not matter, and no character has a special meaning. Without --run all
runs are searched, in what you look for as an operator: states, steps, warnings, blocks, decisions, names,
bounds and commits, by words that begin so. With --run everything in that run is searched, the agent's
output too, anywhere in a line.

Examples:
  foreman search registry.example           which runs wanted to go there
  foreman search --kind warning disk        only warnings
  foreman search --run last 'error: E0'     in the output of the last run")]
pub struct SearchArgs {
    /// Words to look for.
    #[arg(required = true, value_name = "TEXT")]
    pub text: Vec<String>,
    /// Only this run, output included: its id, a beginning of it, or `last`.
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Only these kinds, for example `block,warning` (may be repeated).
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<String>,
    /// Show at most this many, newest first.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=512))]
    pub limit: u32,
    /// Go on with older ones, where a search before this one ended.
    #[arg(long, value_name = "CURSOR")]
    pub before: Option<String>,
}
