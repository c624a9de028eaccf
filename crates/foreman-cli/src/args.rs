//! What can be typed, and the help for it.

mod awake;
mod port;
mod search;
mod secret;
mod shell;

pub use awake::{AwakeArgs, WhenArg};
pub use port::PortArgs;
pub use search::SearchArgs;
pub use secret::{SecretCommand, SecretName, SecretSetArgs, StoreArg};
pub use shell::ShellArgs;

mod serving;

pub use serving::{DoctorArgs, ServeArgs, ShutdownArgs, WatchArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use foreman_domain::{Scope, Wall};
use std::path::PathBuf;

mod compare;
mod disk;
mod looking;
mod orders;
pub mod provisioning;
mod review;

pub use provisioning::{PrepareArgs, ProjectCommand};

pub use compare::CompareArgs;
pub use disk::{DiskArgs, DiskCleanArgs, DiskCommand, DiskEventsArgs, DiskQuotaArgs};
pub use looking::{AmendmentsArgs, FollowUpArgs, SamplesArgs, SayArgs};
pub use orders::{
    FolderName, HintArgs, LimitsArgs, OrderAddArgs, OrderCommand, OrderEditArgs, OrderListArgs,
    OrderName, OrdersArgs, OrdersCommand, OrdersOf, OrdersWatchCommand, RecurrenceArgs, TextArgs,
};
pub use review::{DiffArgs, LogArgs, MergeArgs, MergesArgs, PushArgs, SyncArgs};

/// Runs a coding agent in a cage: its own git worktree, no network but what you allow.
///
/// What the agent may not do does not fail: it is held and shown to you, and when you amend the
/// rules the very same connection goes on. Nothing reaches your branch before you merge it.
#[derive(Debug, Parser)]
#[command(
    name = "foreman",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = "\
First steps:
  foreman doctor                     shows which walls hold on this machine
  foreman demo                       shows all of it in a minute, without a model or a network
  foreman run -- CMD ARGS...         runs CMD on the repository you are in
  foreman diff last                  shows what it did
  foreman merge last                 takes it over

RUN is a run's id, an unambiguous beginning of one, or `last`. BLOCK is a block's id, or `b1`
where only one run has it open.

Exit codes: 0 done, 1 the agent or a check failed, 2 wrong usage, 3 bad input or not found,
4 stale or in conflict, 5 a wall is missing, 6 denied while unattended, 7 cancelled,
8 interrupted, 9 disk or environment, 70 a bug of ours.")]
pub struct Cli {
    /// Answer in JSON: one object, or one event a line where events are followed.
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command in a cage on its own worktree and branch, and show what it does.
    Run(Box<RunArgs>),
    /// Show a whole run on a throw-away repository; needs no model and no network.
    Demo(DemoArgs),
    /// Show a run's feed again and answer its blocks.
    Attach(AttachArgs),
    /// List what is held and waits for you.
    Blocks(BlocksArgs),
    /// Let a held action go on, by the narrowest rule or one that you choose.
    Amend(AmendArgs),
    /// Refuse a held action; repeats are refused at once.
    Deny(DenyArgs),
    /// Take back the newest decision of the last ten seconds.
    Undo(UndoArgs),
    /// List runs, newest first.
    Runs(RunsArgs),
    /// Show one run: where it stands, its branch, its worktree, its checks.
    Show(RunName),
    /// Open a shell in a live run's cage, beside the agent, or run a command there.
    Shell(ShellArgs),
    /// Publish a port of a live run at 127.0.0.1 of this machine; list and close those that are.
    Port(PortArgs),
    /// Say what a live run uses: processors, memory, processes, disk.
    Samples(SamplesArgs),
    /// Print a run's events.
    Events(EventsArgs),
    /// Find events in which words occur, in all runs or in everything that one printed.
    Search(SearchArgs),
    /// List a run's commits, newest first.
    Log(LogArgs),
    /// Show what a run changed since the commit it started from.
    Diff(DiffArgs),
    /// Bring a run's commits onto its base branch as it is now, and check them again.
    Sync(SyncArgs),
    /// Fast-forward the base branch to what you reviewed.
    Merge(MergeArgs),
    /// Show what waits to be merged, and what became of it.
    Merges(MergesArgs),
    /// Push what you reviewed to a branch of a remote, and say where to open a pull request.
    Push(PushArgs),
    /// Remove a run's worktree and branch; a snapshot keeps everything.
    Discard(RunName),
    /// Bring a discarded run back from its snapshot.
    Restore(RunName),
    /// Stop a run; what it did so far is kept.
    Stop(RunName),
    /// Hand in orders that are started when their turn comes; show, change, cancel and start them.
    #[command(subcommand)]
    Order(OrderCommand),
    /// List orders; pause the queue, set its limits, watch folders of order files.
    Orders(OrdersArgs),
    /// Try again what a run was asked to do: a new attempt in a new worktree, from the base as it is now.
    Retry(RunName),
    /// Say something to a run's agent: to one that works, or to the next run that goes on from its commits.
    Say(SayArgs),
    /// Send the comments of a review back: a new attempt that starts from what you reviewed.
    FollowUp(FollowUpArgs),
    /// List the decisions of all runs, what they opened, and how often that was used.
    Amendments(AmendmentsArgs),
    /// Say which agent programs are on this machine, and how an order starts them.
    Agents,
    /// List the repositories that had runs.
    Repos,
    /// Show and trust what a repository itself says about making its runs ready.
    #[command(subcommand)]
    Project(ProjectCommand),
    /// Show, explain, trust and take back rules.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Keep secrets by name, to be handed to runs by name; list and forget them.
    #[command(subcommand)]
    Secret(SecretCommand),
    /// Show several attempts side by side: a group of orders, or runs.
    Compare(CompareArgs),
    /// Show what runs use on disk and what could go; clean up; set a quota.
    Disk(DiskArgs),
    /// Say, or set, when the machine is kept awake while runs are at work.
    Awake(AwakeArgs),
    /// Prove each wall of the cage on this machine, compare what is stored with what is there, and say
    /// what is missing.
    Doctor(DoctorArgs),
    /// Host the engine as a service: in the foreground, in the background, or under systemd.
    Serve(ServeArgs),
    /// End the service in good order; runs go on unless told otherwise.
    Shutdown(ShutdownArgs),
    /// Print a line for everything that changes: runs, orders, blocks.
    Watch(WatchArgs),
    /// Inside a cage: say why something was refused.
    Why(WhyArgs),
    /// The internet of the demo.
    #[command(hide = true)]
    DemoServer,
}

/// Arguments of `foreman run`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
While it runs, on a terminal, a held connection is shown as a card:
  a  amend: let this run connect until it ends    o  only what waits now, once
  d  deny                                         ?  all choices; 1-9 take one
  u  undo, for 10 seconds                         Ctrl-C  stop the run (twice: leave)
Keys count once the card has stood for half a second; what was typed before is thrown away. Lines
that start with \"\u{2502}\" are the agent's output; nothing of the agent's can start a line otherwise.

With --tty the agent has the terminal, and the keys are behind Ctrl-]: press it, and the agent's
output pauses while a clean screen shows what is held (a d o ? u as above, s stops the run, q leaves
it running, Escape goes back, Ctrl-] again sends Ctrl-] to the agent). A bell and the window's title
say that something is held. A card is only ever shown after you pressed Ctrl-].

Without a terminal nothing is asked: what is held waits until you amend it from elsewhere
(`foreman blocks`, `foreman amend`), or is refused at once with --unattended.

Examples:
  foreman run --agent pi --lend-login \"fix the tests\"
  foreman run --allow registry.example:443 -- my-agent --prompt \"fix the tests\"
  foreman run --setup 'make deps' --check 'make test' --bounds wall=2h,memory=4GiB -- ./agent.sh")]
pub struct RunArgs {
    /// Repository to work on: any path inside it.
    #[arg(long, value_name = "PATH", default_value = ".")]
    pub repo: PathBuf,
    /// What to call the run; the command itself when absent.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Branch to start from and to merge into; the one checked out when absent.
    #[arg(long, value_name = "BRANCH")]
    pub base: Option<String>,
    /// Allow connections to this host and port from the start (may be repeated). `udp:HOST:PORT`
    /// allows UDP, `*.HOST` stands for one label.
    #[arg(long, value_name = "HOST:PORT")]
    pub allow: Vec<String>,
    /// Policy file with rules and bounds for this run.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Bounds, for example `wall=2h,memory=4GiB,processes=512,output=256MiB`; of an agent by name also
    /// `tokens=500k,cost=2.50,turns=80`.
    #[arg(long, value_name = "LIST")]
    pub bounds: Option<String>,
    /// Give up on what is held when nobody answers for this long (`10m`): it is then refused, and not
    /// asked again. Without it, it waits for as long as it takes.
    #[arg(long, value_name = "DURATION", conflicts_with = "unattended")]
    pub hold_limit: Option<String>,
    /// Shell command that prepares the worktree, in the cage, before the agent.
    #[arg(long, value_name = "CMD")]
    pub setup: Option<String>,
    /// Shell command that checks the result, in the cage, after the agent (may be repeated).
    #[arg(long, value_name = "CMD")]
    pub check: Vec<String>,
    /// Pass this variable of yours to the agent, or set it (may be repeated).
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Hand this secret to the agent, by its name (may be repeated; see `foreman secret`). Its value is in
    /// the variable NAME, or VARIABLE.
    #[arg(long, value_name = "NAME[=VARIABLE]")]
    pub secret: Vec<String>,
    /// Show these toolchains of yours read-only, and no others: `rust`, `node`, `python`, `go`, `jvm`, as
    /// `rust,node`; or `none`. Those that the repository tells of when absent.
    #[arg(long, value_name = "LIST")]
    pub toolchain: Option<String>,
    /// How its worktree is made ready.
    #[command(flatten)]
    pub prepare: PrepareArgs,
    /// Give the agent a terminal; our keys are then behind Ctrl-].
    #[arg(long)]
    pub tty: bool,
    /// Nobody attends: refuse what no rule allows at once, instead of holding it.
    #[arg(long)]
    pub unattended: bool,
    /// Hold what is hidden also when it is to be read: slower, because every opening of a file asks.
    #[arg(long)]
    pub hold_reads: bool,
    /// Start although this wall is missing here (may be repeated; see `foreman doctor`). Without
    /// `network` the run has none at all: every connection is refused at once.
    #[arg(long, value_name = "WALL", value_parser = parse_wall)]
    pub accept_weaker: Vec<Wall>,
    /// Run the agent without any cage: it may do whatever you may, and nothing is held. Not with
    /// `--unattended`.
    #[arg(long, conflicts_with = "unattended")]
    pub unconfined: bool,
    /// An agent that Foreman knows, by name: its messages, tool calls and cost are shown as such (see
    /// `foreman agents`).
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "argv",
        help_heading = "An agent by name"
    )]
    pub agent: Option<String>,
    /// The model that it uses, in its own words; the one of its settings when absent.
    #[arg(
        long,
        value_name = "MODEL",
        requires = "agent",
        help_heading = "An agent by name"
    )]
    pub model: Option<String>,
    /// Copy your login and settings of this agent into the run's own home, where the agent can read them. With
    /// `refresh`, tokens that it renewed are written back when the run has ended.
    #[arg(
        long,
        requires = "agent",
        value_name = "HOW",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "copy",
        help_heading = "An agent by name"
    )]
    pub lend_login: Option<LendLogin>,
    /// Add this secret, outside of the cage, to what the agent asks of its model, and send it to that host only:
    /// the agent never has it. `HOST[:PORT][/PATH]` where its model is elsewhere than usual.
    #[arg(
        long,
        requires = "agent",
        conflicts_with = "lend_login",
        value_name = "NAME[=HOST]",
        help_heading = "An agent by name"
    )]
    pub key: Option<String>,
    /// What the agent is to do.
    // Both have their place by number: whoever changes one of them puts it behind the other.
    #[arg(
        index = 1,
        value_name = "PROMPT",
        requires = "agent",
        conflicts_with = "argv",
        help_heading = "An agent by name"
    )]
    pub task: Option<String>,
    /// The agent: program and arguments, after `--`.
    #[arg(
        index = 2,
        last = true,
        required_unless_present = "agent",
        value_name = "CMD"
    )]
    pub argv: Vec<String>,
}

/// What becomes of a login that is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LendLogin {
    /// A copy, which stays with the run.
    Copy,
    /// A copy, of which renewed tokens are written back.
    Refresh,
}

/// Arguments of `foreman demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Keep the demo's directory, to look around in it.
    #[arg(long)]
    pub keep: bool,
    /// Runs the demo itself, within the world made for it.
    #[arg(long, hide = true, value_name = "DIR")]
    pub inside: Option<PathBuf>,
    /// Makes the world and an engine in it for another program, until standard input ends.
    #[arg(long, hide = true, conflicts_with = "keep")]
    pub hosted: bool,
}

/// Arguments of `foreman attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The run.
    pub run: String,
}

/// Names one run.
#[derive(Debug, Args)]
pub struct RunName {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
}

/// Arguments of `foreman blocks`.
#[derive(Debug, Args)]
pub struct BlocksArgs {
    /// Only this run's.
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Also those already decided or gone.
    #[arg(long)]
    pub all: bool,
}

/// Scopes as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScopeArg {
    /// Exactly what waits now.
    Once,
    /// This run until it ends.
    Run,
    /// Every run of this work order.
    Order,
    /// Every run in this repository.
    Project,
}

impl From<ScopeArg> for Scope {
    fn from(scope: ScopeArg) -> Self {
        match scope {
            ScopeArg::Once => Self::Once,
            ScopeArg::Run => Self::Run,
            ScopeArg::Order => Self::Order,
            ScopeArg::Project => Self::Project,
        }
    }
}

/// Arguments of `foreman amend`.
#[derive(Debug, Args)]
pub struct AmendArgs {
    /// The block.
    pub block: String,
    /// How far the decision reaches; this run when absent.
    #[arg(long, value_enum)]
    pub scope: Option<ScopeArg>,
    /// Number of the rule on the card; the narrowest of the scope when absent.
    #[arg(long, value_name = "N")]
    pub rule: Option<u32>,
    /// Token of what was shown, from `foreman blocks --json`. Required without a terminal.
    #[arg(long, value_name = "TOKEN")]
    pub expect: Option<String>,
    /// When the rule ends by itself, from now (`30m`, `2h`); with its scope when absent.
    #[arg(long, value_name = "DURATION", value_parser = parse_expiry)]
    pub expires: Option<u64>,
    /// For a bound: raise it to this (`6GiB`, `3h`) instead of the figure on the card.
    #[arg(long, value_name = "LIMIT")]
    pub limit: Option<String>,
    /// Second confirmation, for wildcards, bare addresses, ways out of the cage and whole-project scope.
    #[arg(long)]
    pub yes: bool,
}

/// Arguments of `foreman deny`.
#[derive(Debug, Args)]
pub struct DenyArgs {
    /// The block.
    pub block: String,
    /// What the agent is told.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// Token of what was shown, from `foreman blocks --json`. Required without a terminal.
    #[arg(long, value_name = "TOKEN")]
    pub expect: Option<String>,
}

/// Arguments of `foreman undo`.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Take back this decision; the newest when absent.
    pub amendment: Option<String>,
}

/// Arguments of `foreman runs`.
#[derive(Debug, Args)]
pub struct RunsArgs {
    /// At most this many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    /// Only those that were started before this run.
    #[arg(long, value_name = "RUN")]
    pub before: Option<String>,
    /// Only those that are not over, however old: at work, in a merge, or waiting for your review.
    #[arg(long, conflicts_with = "before")]
    pub open: bool,
}

/// Arguments of `foreman events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The run: its id, a beginning of it, or `last`.
    pub run: String,
    /// Stay and print what is still to come, until the run ends.
    #[arg(long, short)]
    pub follow: bool,
    /// Only these kinds, for example `block,amendment,state` (may be repeated).
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub kind: Vec<String>,
    /// Only events after this one.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub after: u64,
    /// Only the newest events before this one, at most 512.
    #[arg(long, value_name = "SEQ", conflicts_with_all = ["after", "follow"])]
    pub before: Option<u64>,
}

/// `foreman policy ...`
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Show the rules in force for a run or a repository, and the decisions behind them.
    Show(PolicyOf),
    /// Say which rule decides about a destination, or that none matches.
    Why(PolicyWhyArgs),
    /// Take a recorded decision back; connections that only it allowed are cut.
    Revoke(AmendmentName),
    /// Trust a repository's `.foreman/policy.toml` exactly as it is now.
    Trust(TrustArgs),
    /// Write a decision of project scope into the repository's policy file.
    Write(AmendmentName),
}

/// Whose policy.
#[derive(Debug, Args)]
pub struct PolicyOf {
    /// Of this run.
    #[arg(long, value_name = "RUN", conflicts_with = "repo")]
    pub run: Option<String>,
    /// Of this repository; the one you are in when neither is given.
    #[arg(long, value_name = "PATH")]
    pub repo: Option<PathBuf>,
}

/// Arguments of `foreman policy why`.
#[derive(Debug, Args)]
pub struct PolicyWhyArgs {
    /// `HOST:PORT`, or `udp:HOST:PORT`.
    pub destination: String,
    /// Whose policy.
    #[command(flatten)]
    pub of: PolicyOf,
}

/// Names a recorded decision.
#[derive(Debug, Args)]
pub struct AmendmentName {
    /// The decision's id (see `foreman policy show`).
    pub amendment: String,
}

/// Arguments of `foreman policy trust`.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Any path inside the repository.
    #[arg(default_value = ".")]
    pub repo: PathBuf,
    /// Token of the text that was shown. Required without a terminal.
    #[arg(long, value_name = "TOKEN")]
    pub expect: Option<String>,
}

/// Arguments of `foreman why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// What was refused.
    pub destination: Option<String>,
}

fn parse_expiry(text: &str) -> Result<u64, String> {
    foreman_policy::parse_duration(text).map_err(|error| error.to_string())
}

fn parse_wall(text: &str) -> Result<Wall, String> {
    let named = |wall: &Wall| wall.name() == text;
    let wall = Wall::ALL.into_iter().find(named).ok_or_else(|| {
        format!(
            "there is no such wall; walls are {}",
            Wall::ALL.map(Wall::name).join(", ")
        )
    })?;
    match wall.why_never_weaker() {
        None => Ok(wall),
        Some(why) => Err(format!("--accept-weaker {text} is not possible: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("foreman").chain(words.iter().copied()))
    }

    #[test]
    fn the_declaration_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_has_help() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} has no help");
            for argument in command.get_arguments() {
                assert!(
                    argument.get_help().is_some(),
                    "{path} {} has no help",
                    argument.get_id()
                );
            }
            for inner in command.get_subcommands() {
                check(inner, &path);
            }
        }
        check(&Cli::command(), "");
    }

    #[test]
    fn the_agents_arguments_stay_the_agents() {
        let cli = parse(&[
            "run",
            "--allow",
            "a.example:443",
            "--",
            "sh",
            "-c",
            "x",
            "--json",
        ]);
        let Command::Run(run) = cli.unwrap().command else {
            panic!("not run")
        };
        assert_eq!(run.argv, ["sh", "-c", "x", "--json"]);
        assert_eq!(run.allow, ["a.example:443"]);
        assert!(parse(&["run"]).is_err(), "a run needs a command");
        assert!(parse(&["run", "sh"]).is_err(), "and `--` before it");
    }

    #[test]
    fn json_may_stand_anywhere_before_the_agent() {
        for words in [["--json", "runs"], ["runs", "--json"]] {
            assert!(parse(&words).unwrap().json);
        }
        assert!(parse(&["policy", "show", "--json"]).unwrap().json);
    }

    #[test]
    fn an_unknown_wall_is_answered_with_the_list() {
        let error = parse(&["run", "--accept-weaker", "selinux", "--", "x"]).unwrap_err();
        assert!(error.to_string().contains("landlock, cgroup"), "{error}");
    }

    #[test]
    fn a_wall_that_every_cage_is_made_of_cannot_be_given_up() {
        for wall in Wall::ALL {
            let parsed = parse(&["run", "--accept-weaker", wall.name(), "--", "x"]);
            match wall {
                Wall::Mounts | Wall::Git => {
                    let said = parsed.unwrap_err().to_string();
                    let wanted = format!("--accept-weaker {} is not possible", wall.name());
                    assert!(said.contains(&wanted), "{said}");
                }
                _ => assert!(parsed.is_ok(), "{wall:?}"),
            }
        }
    }
}
