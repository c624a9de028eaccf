//! Arguments of `foreman shell`.

use clap::Args;

/// Arguments of `foreman shell`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
It is one more program in the run's cage, beside the agent and behind the same walls: the same
worktree, the same rules, the same holds (answer them from elsewhere: `foreman blocks`). It ends with
the cage, at the latest before the run's commits are collected. That you opened it, what you ran and
how it ended stays in the run's events; what you typed and saw does not. The agent shares the cage with
you and may watch you there: type no secrets.

On a terminal, every key goes to the shell but Ctrl-]: Ctrl-] q ends the shell from here, Ctrl-] Ctrl-]
sends Ctrl-]. What it shows reaches your terminal as an agent's does with `foreman run --tty`.

Without a terminal, name a command: its output, errors and exit code become this command's, and it has
no standard input. A command that a signal ended gives 128 and the signal's number.

Examples:
  foreman shell last
  foreman shell last -- git status --short")]
pub struct ShellArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// Give the command no terminal, although there is one.
    #[arg(long)]
    pub no_tty: bool,
    /// Program and arguments, after `--`; your usual shell when absent.
    #[arg(last = true, value_name = "CMD")]
    pub argv: Vec<String>,
}
