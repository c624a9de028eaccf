//! What can be typed behind `foreman order` and `foreman orders`.

use super::RunArgs;
use clap::{Args, Subcommand, ValueEnum};
use foreman_engine::api::OrderGate;
use foreman_policy::{parse_duration, parse_microusd, parse_tokens};
use foreman_schedule::{Autonomy, Complexity, Impact};
use std::path::PathBuf;

/// `foreman order ...`
#[derive(Debug, Subcommand)]
pub enum OrderCommand {
    /// Hand in an order: a run that is started when its turn comes.
    Add(Box<OrderAddArgs>),
    /// List orders: what runs, what is next, what waits and for what.
    List(OrderListArgs),
    /// Show one order: what it is, where it stands, its runs.
    Show(OrderName),
    /// Change an order that has not started.
    Edit(Box<OrderEditArgs>),
    /// Take an order out of the queue; its live run is stopped, what it did is kept.
    Cancel(OrderName),
    /// Start an order now: past a pause and past its autonomy, never past caps, scopes, budgets or what
    /// it depends on. One that failed or was cancelled is started over.
    Dispatch(OrderName),
}

/// Names one order.
#[derive(Debug, Args)]
pub struct OrderName {
    /// The order: its id, or an unambiguous beginning of it.
    pub order: String,
}

/// Arguments of `foreman order list`.
#[derive(Debug, Args)]
pub struct OrderListArgs {
    /// Also those that are finished, newest first.
    #[arg(long)]
    pub all: bool,
    /// At most so many of the finished ones; 50 when absent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
}

/// Arguments of `foreman order add`.
#[derive(Debug, Args)]
#[command(
    mut_arg("argv", |arg| arg.required_unless_present("file")),
    mut_arg("tty", |arg| arg.hide(true)),
    mut_arg("task", |arg| arg.hide(true)),
    override_usage = "foreman order add [OPTIONS] -- CMD...\n       foreman order add [OPTIONS] --agent NAME --prompt TEXT\n       foreman order add --file FILE [--repo PATH]",
    after_help = "",
    after_long_help = "\
Orders are dispatched while a process that stays hosts the engine: `foreman serve`, or a `foreman run`,
`attach` or `watch` while it lasts. `--env NAME` is taken from that process's environment when the order starts.

The prompt takes the place of {prompt} in the agent's arguments, or is its last argument where none has
that; it is in the agent's variable FOREMAN_PROMPT too.

A file is TOML (one order, or several as [[order]]), or markdown with front matter between +++ lines
(TOML) or --- lines (YAML), whose text is the prompt. All of its orders are handed in, or none is. The keys
are in docs/orders.md.

Examples:
  foreman order add --prompt 'fix the login' --check 'make test' -- my-agent {prompt}
  foreman order add --id docs --scope 'docs/**' --depends-on api -- my-agent 'write the docs'
  foreman order add --calendar '30 3 * * 1-5' --id nightly -- my-agent 'update dependencies'
  foreman order add --file orders.toml"
)]
pub struct OrderAddArgs {
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// The order's id; made when absent. Of several attempts it is the group's name.
    #[arg(long, value_name = "ID", help_heading = "Order")]
    pub id: Option<String>,
    /// Orders of a TOML or markdown file; `-` reads standard input.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Order",
        conflicts_with_all = ["argv", "id", "title", "base", "allow", "policy", "bounds", "setup", "check", "env",
            "secret", "toolchain",
            "unattended", "hold_reads", "agent", "attempts", "hints", "text", "more"]
    )]
    pub file: Option<PathBuf>,
    /// So many attempts side by side, each with a worktree and a run of its own.
    #[arg(long, value_name = "N", help_heading = "Order", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub attempts: Option<u32>,
    /// The order that this one is a part of; an order that has parts never runs itself.
    #[arg(long, value_name = "ID", help_heading = "Order", group = "more")]
    pub parent: Option<String>,
    /// Come again at this distance (`6h`), or by a calendar.
    #[command(flatten)]
    pub recurrence: RecurrenceArgs,
    /// Wall time that the order is expected to need, for budgets; its wall bound when absent.
    #[arg(long, value_name = "DURATION", help_heading = "Order", value_parser = duration, group = "more")]
    pub estimate_wall: Option<u64>,
    /// What the agent is to do.
    #[command(flatten)]
    pub text: TextArgs,
    /// Place in the queue.
    #[command(flatten)]
    pub hints: HintArgs,
    /// Leave `foreman serve` behind in the background to start it, unless there is one.
    #[arg(long, help_heading = "Order", conflicts_with = "wait")]
    pub serve: bool,
    /// Stay, dispatching, until the runs of these orders have ended; ends with the code of the worst.
    #[arg(long, help_heading = "Order")]
    pub wait: bool,
}

/// What the agent is to do.
#[derive(Debug, Default, Args)]
#[group(id = "text", multiple = true)]
pub struct TextArgs {
    /// What the agent is to do.
    #[arg(long, value_name = "TEXT", help_heading = "Order")]
    pub prompt: Option<String>,
    /// The same from a file; `-` reads standard input.
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Order",
        conflicts_with = "prompt"
    )]
    pub prompt_file: Option<PathBuf>,
}

/// When an order comes again.
#[derive(Debug, Default, Args)]
pub struct RecurrenceArgs {
    /// Come again at this distance, at least a minute (`6h`); aligned to midnight UTC.
    #[arg(long, value_name = "DURATION", help_heading = "Order", value_parser = duration, group = "more")]
    pub every: Option<u64>,
    /// Come again by five fields: minute, hour, day of month, month, day of week (`30 3 * * 1-5`).
    #[arg(
        long,
        value_name = "FIELDS",
        help_heading = "Order",
        conflicts_with = "every",
        group = "more"
    )]
    pub calendar: Option<String>,
    /// The calendar's time zone (`Europe/Berlin`); this machine's when absent.
    #[arg(
        long,
        value_name = "ZONE",
        help_heading = "Order",
        requires = "calendar"
    )]
    pub zone: Option<String>,
    /// What becomes of slots that were missed: `skip`, `once` (the latest), or `all:N` (the latest N).
    #[arg(long, value_name = "POLICY", help_heading = "Order", value_parser = missed)]
    pub missed: Option<foreman_schedule::Missed>,
}

/// An order's place in the queue.
#[derive(Debug, Default, Args)]
#[group(id = "hints", multiple = true)]
pub struct HintArgs {
    /// Before everything that has no priority.
    #[arg(long, help_heading = "Queue")]
    pub priority: bool,
    /// How much it is worth.
    #[arg(long, value_enum, help_heading = "Queue")]
    pub impact: Option<ImpactArg>,
    /// How much it takes.
    #[arg(long, value_enum, help_heading = "Queue")]
    pub complexity: Option<ComplexityArg>,
    /// Whether the queue may start it.
    #[arg(long, value_enum, help_heading = "Queue")]
    pub autonomy: Option<AutonomyArg>,
    /// What sort of work it is, for caps.
    #[arg(long, value_name = "KIND", help_heading = "Queue")]
    pub kind: Option<String>,
    /// Orders of one class run one at a time, unless the class has another cap.
    #[arg(long, value_name = "CLASS", help_heading = "Queue")]
    pub class: Option<String>,
    /// Not before this time: `2027-01-31T08:00`, by this machine's time zone, or with `Z`.
    #[arg(long, value_name = "TIME", help_heading = "Queue")]
    pub not_before: Option<String>,
    /// Try again this often when preparing the run fails; an agent's failure is never tried again.
    #[arg(long, value_name = "N", help_heading = "Queue", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub retries: Option<u32>,
    /// Paths that it means to change, as `src/**` or `docs/` (may be repeated).
    #[arg(long, value_name = "PATTERN", help_heading = "Queue")]
    pub scope: Vec<String>,
    /// Hold those paths until the order is finished, not only while it runs.
    #[arg(long, help_heading = "Queue", requires = "scope")]
    pub mandatory: bool,
    /// And never run beside work that declares no scope.
    #[arg(long, help_heading = "Queue", requires = "mandatory")]
    pub strict: bool,
    /// Orders, or groups, that must be done before it (may be repeated).
    #[arg(long, value_name = "ID", help_heading = "Queue")]
    pub depends_on: Vec<String>,
    /// What its result waits for.
    #[arg(long, value_enum, help_heading = "Queue")]
    pub gate: Option<GateArg>,
}

/// Arguments of `foreman order edit`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
What is not named stays as it is; lists (--scope, --depends-on) are replaced as a whole, and `none` empties
them. An order that has started is not changed: cancel it, or hand in another one.")]
pub struct OrderEditArgs {
    /// The order: its id, or an unambiguous beginning of it.
    pub order: String,
    /// Its title.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Repository to work on: any path inside it.
    #[arg(long, value_name = "PATH")]
    pub repo: Option<PathBuf>,
    /// Branch to start from and to merge into.
    #[arg(long, value_name = "BRANCH")]
    pub base: Option<String>,
    /// What the agent is to do.
    #[command(flatten)]
    pub text: TextArgs,
    /// Place in the queue.
    #[command(flatten)]
    pub hints: HintArgs,
    /// Take its priority away.
    #[arg(long, conflicts_with = "priority", help_heading = "Queue")]
    pub no_priority: bool,
    /// The agent: program and arguments, after `--`.
    #[arg(last = true, value_name = "CMD")]
    pub argv: Vec<String>,
}

/// `foreman orders ...`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct OrdersArgs {
    /// What to do; lists orders when absent.
    #[command(subcommand)]
    pub command: Option<OrdersCommand>,
    /// Which orders to list.
    #[command(flatten)]
    pub list: OrderListArgs,
}

/// Commands about the queue as a whole.
#[derive(Debug, Subcommand)]
pub enum OrdersCommand {
    /// Start no orders until resumed; what runs goes on.
    Pause(OrdersOf),
    /// Start orders again.
    Resume(OrdersOf),
    /// Show or set how much runs at once, and budgets.
    Limits(LimitsArgs),
    /// Take in the order files of a folder, once each.
    #[command(subcommand)]
    Watch(OrdersWatchCommand),
}

/// Everywhere, or in one repository.
#[derive(Debug, Args)]
pub struct OrdersOf {
    /// Only in this repository: any path inside it.
    #[arg(long, value_name = "PATH")]
    pub repo: Option<PathBuf>,
}

/// Arguments of `foreman orders limits`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
In every cap 0 means none. A class without a cap of its own runs one order at a time. Runs that were started
with `foreman run` count, and are never held back.

A budget is reserved before an order starts: of wall time by its estimate or its wall bound, of tokens and cost by its
bounds of those. One that says nothing takes all that is left. What a run did not use is given back when it ends.")]
pub struct LimitsArgs {
    /// Runs at once.
    #[arg(long, value_name = "N")]
    pub total: Option<u32>,
    /// Runs at once in any one repository.
    #[arg(long, value_name = "N")]
    pub per_repo: Option<u32>,
    /// Runs at once of a concurrency class (may be repeated).
    #[arg(long, value_name = "NAME=N", value_parser = name_and_cap)]
    pub class: Vec<(String, u32)>,
    /// Runs at once of a kind (may be repeated).
    #[arg(long, value_name = "NAME=N", value_parser = name_and_cap)]
    pub kind: Vec<(String, u32)>,
    /// Start only orders of this kind, and those without one (may be repeated); `all` for every kind.
    #[arg(long, value_name = "KIND")]
    pub accept: Vec<String>,
    /// Wall time of all orders within the window (`8h`); `none` takes the budget away.
    #[arg(long, value_name = "DURATION", value_parser = budget)]
    pub budget_wall: Option<u64>,
    /// Length of the budget's window; 24 hours when never set.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub window: Option<u64>,
    /// Tokens of all orders within the window (`2M`); `none` takes the budget away.
    #[arg(long, value_name = "N", value_parser = budget_of_tokens)]
    pub budget_tokens: Option<u64>,
    /// Cost of all orders within the window in US dollars (`25`), as their agents tell it; `none` takes the budget away.
    #[arg(long, value_name = "DOLLARS", value_parser = budget_of_cost)]
    pub budget_cost: Option<u64>,
}

/// `foreman orders watch ...`
#[derive(Debug, Subcommand)]
pub enum OrdersWatchCommand {
    /// Take in the `.toml` and `.md` files of a folder, now and when they change.
    Add(FolderName),
    /// List watched folders, and what became of their files.
    List,
    /// Watch a folder no longer; its orders stay.
    Remove(FolderName),
}

/// Names a folder.
#[derive(Debug, Args)]
pub struct FolderName {
    /// The folder.
    pub folder: PathBuf,
}

macro_rules! words_for {
    ($(#[$doc:meta])* $name:ident for $target:ty { $($(#[$vdoc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl From<$name> for $target {
            fn from(word: $name) -> Self {
                match word { $($name::$variant => Self::$variant),* }
            }
        }
    };
}

words_for!(
    /// Impact as typed.
    ImpactArg for Impact {
        /// First.
        High,
        /// After high.
        Medium,
        /// After medium.
        Low,
    }
);
words_for!(
    /// Complexity as typed.
    ComplexityArg for Complexity {
        /// First.
        Small,
        /// After small.
        Medium,
        /// After medium.
        Large,
    }
);
words_for!(
    /// Autonomy as typed.
    AutonomyArg for Autonomy {
        /// Only `foreman order dispatch` starts it.
        HumanOnly,
        /// The queue starts it; you review.
        Supervised,
        /// The queue starts it.
        Autonomous,
    }
);
words_for!(
    /// Gate as typed.
    GateArg for OrderGate {
        /// Your review.
        Review,
        /// Its checks: merged by itself when all pass and nothing speaks against it.
        Checks,
    }
);

fn duration(text: &str) -> Result<u64, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

fn budget(text: &str) -> Result<u64, String> {
    match text {
        "none" | "0" => Ok(0),
        text => duration(text),
    }
}

fn budget_of_tokens(text: &str) -> Result<u64, String> {
    match text {
        "none" | "0" => Ok(0),
        text => parse_tokens(text).map_err(|error| error.to_string()),
    }
}

fn budget_of_cost(text: &str) -> Result<u64, String> {
    match text {
        "none" | "0" => Ok(0),
        text => parse_microusd(text).map_err(|error| error.to_string()),
    }
}

fn name_and_cap(text: &str) -> Result<(String, u32), String> {
    let (name, cap) = text.rsplit_once('=').ok_or("write NAME=N, as database=2")?;
    let cap = cap
        .parse()
        .map_err(|_| format!("{cap} is no number of runs"))?;
    Ok((name.to_owned(), cap))
}

fn missed(text: &str) -> Result<foreman_schedule::Missed, String> {
    use foreman_schedule::Missed;
    match text.split_once(':') {
        None if text == "skip" => Ok(Missed::Skip),
        None if text == "once" => Ok(Missed::Once),
        Some(("all", many)) => match many.parse::<u32>() {
            Ok(at_most @ 1..=100) => Ok(Missed::All { at_most }),
            _ => Err("write all:N with N from 1 to 100".into()),
        },
        _ => Err("it is skip, once, or all:N".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parse(words: &[&str]) -> Result<Command, clap::Error> {
        let words = std::iter::once("foreman").chain(words.iter().copied());
        Ok(Cli::try_parse_from(words)?.command)
    }

    #[test]
    fn an_order_needs_a_command_or_a_file_and_takes_the_flags_of_run() {
        let add = parse(&[
            "order",
            "add",
            "--check",
            "make",
            "--scope",
            "src/**",
            "--retries",
            "2",
            "--",
            "a",
            "--json",
        ]);
        let Ok(Command::Order(OrderCommand::Add(add))) = add else {
            panic!("{add:?}")
        };
        assert_eq!(add.run.argv, ["a", "--json"]);
        assert_eq!((add.run.check.len(), add.hints.retries), (1, Some(2)));
        assert!(parse(&["order", "add", "--file", "x.toml"]).is_ok());
        assert!(parse(&["order", "add", "--file", "x.toml", "--wait"]).is_ok());
        assert!(parse(&["order", "add", "--agent", "pi", "--prompt", "x"]).is_ok());
        assert!(parse(&["order", "add"]).is_err());
        assert!(parse(&["run"]).is_err());
        assert!(parse(&["run", "--agent", "pi", "do it"]).is_ok());
        assert!(parse(&["run", "--agent", "pi", "do it", "--", "a"]).is_err());
        assert!(parse(&["run", "do it", "--", "a"]).is_err());
        for extra in [
            "--priority",
            "--prompt=x",
            "--id=x",
            "--setup=x",
            "--every=1h",
        ] {
            assert!(
                parse(&["order", "add", "--file", "x.toml", extra]).is_err(),
                "{extra}"
            );
        }
        assert!(parse(&["order", "add", "--file", "x.toml", "--", "a"]).is_err());
        assert!(parse(&["order", "add", "--attempts", "9999", "--", "a"]).is_err());
        assert!(parse(&["order", "add", "--strict", "--scope", "a", "--", "a"]).is_err());
    }

    #[test]
    fn orders_lists_and_has_verbs() {
        let Ok(Command::Orders(orders)) = parse(&["orders", "--all"]) else {
            panic!("no list")
        };
        assert!(orders.command.is_none() && orders.list.all);
        let limits = parse(&["orders", "limits", "--total", "0", "--class", "db=2"]);
        let Ok(Command::Orders(OrdersArgs {
            command: Some(OrdersCommand::Limits(limits)),
            ..
        })) = limits
        else {
            panic!("{limits:?}")
        };
        assert_eq!(
            (limits.total, limits.class),
            (Some(0), vec![("db".to_owned(), 2)])
        );
        assert!(parse(&["orders", "limits", "--class", "db"]).is_err());
        assert!(parse(&["orders", "watch", "add"]).is_err());
    }

    #[test]
    fn policies_for_missed_slots_are_bounded() {
        use foreman_schedule::Missed;
        assert_eq!(missed("all:3"), Ok(Missed::All { at_most: 3 }));
        assert_eq!(missed("once"), Ok(Missed::Once));
        assert!(missed("all:0").is_err() && missed("all").is_err() && missed("some").is_err());
    }
}
