//! What can be typed after the commands that look at runs, decisions and this machine.

use clap::Args;

/// Arguments of `foreman samples`.
#[derive(Debug, Args)]
pub struct SamplesArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// Stay and print a line a second, until the run ends.
    #[arg(long, short)]
    pub follow: bool,
}

/// Arguments of `foreman amendments`.
#[derive(Debug, Args)]
pub struct AmendmentsArgs {
    /// Also those that are not in force any more.
    #[arg(long)]
    pub all: bool,
}

/// Arguments of `foreman follow-up`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The new run is another attempt of the same order. It starts from the commits that you reviewed, and its
diff and gate show all of it against the base branch. The message takes the place of {prompt} in the
agent's arguments, or is its last argument where the order had a prompt; it is in the agent's variable
FOREMAN_PROMPT too. The first run stays in review until the new one is.

Example:
  foreman follow-up last -m 'keep the old name of the function'")]
pub struct FollowUpArgs {
    /// The reviewed run: its id, a beginning of it, or `last`.
    pub run: String,
    /// What is to be done about it.
    #[arg(long, short, value_name = "MESSAGE")]
    pub message: String,
}

/// Arguments of `foreman say`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
An agent that works is given it when its turn ends, as its next prompt, and its run does not end before; this
needs an agent that is talked with (`foreman agents`). For any other, wait until its run is in review: a new run then
goes on from its commits, with the agent's own session where that was kept.

Examples:
  foreman say last 'use the old name of the function'
  foreman say r7k2 'the host is allowed now, try again'")]
pub struct SayArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// What to say.
    #[arg(value_name = "TEXT")]
    pub message: String,
    /// Where a new run goes on: have the agent start a new session.
    #[arg(long)]
    pub afresh: bool,
}
