//! One function per command: asks the engine, writes the answer, says the exit code.

mod awake;
mod blocks;
mod commits;
mod compare;
mod decide;
mod disk;
mod doctor;
mod events;
mod gate;
mod hints;
mod looking;
mod order;
mod orders;
mod policy;
mod port;
mod project;
mod review;
mod run;
mod runs;
mod search;
mod secret;
mod serve;
mod shell;
mod why;

pub use doctor::show as show_doctor;
pub use review::show as show_diff;
pub use serve::leave_behind;

use crate::answer::Answer;
use crate::args::{Cli, Command, PolicyCommand, ProjectCommand, SecretCommand};
use crate::demo;
use crate::engine::{self, Engine};
use crate::error::{CliError, environment};
use clap::Parser;
use foreman_domain::{Code, ExitCode, Failure};
use foreman_engine::api::RunRef;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// What a command ends with.
pub type Done = Result<ExitCode, CliError>;

/// How long background work may take to end once the command is done.
const LEAVE: Duration = Duration::from_secs(2);

/// Parses and runs a command line, the program's name included; gives the exit code.
#[must_use]
pub fn run(args: Vec<OsString>) -> u8 {
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return not_parsed(&args, &error),
    };
    let answer = Answer::new(cli.json);
    start_log(matches!(cli.command, Command::Serve(_)));
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            return finish(
                &answer,
                Err(environment("this program cannot start", &error).into()),
            );
        }
    };
    let done = runtime.block_on(dispatch(cli, &answer));
    runtime.shutdown_timeout(LEAVE);
    finish(&answer, done)
}

fn finish(answer: &Answer, done: Done) -> u8 {
    match done {
        Ok(code) => code as u8,
        Err(error) => {
            if let Some(failure) = error.to_failure() {
                // When neither stdout nor stderr can be written, the exit code still says it.
                let _ = answer.refusal(&failure);
            }
            error.number()
        }
    }
}

/// Help and version go to stdout; a wrong command line is a refusal.
fn not_parsed(args: &[OsString], error: &clap::Error) -> u8 {
    let own = args.iter().take_while(|word| *word != "--");
    let is_json = own.into_iter().any(|word| word == "--json");
    if !error.use_stderr() || !is_json {
        let _ = error.print();
        let code = if error.use_stderr() {
            ExitCode::Usage
        } else {
            ExitCode::Ok
        };
        return code as u8;
    }
    let text = error.render().to_string();
    finish(&Answer::new(true), Err(wrong_usage(&text).into()))
}

/// What the parser said, as one sentence, and its suggestion, where it has one.
fn wrong_usage(text: &str) -> Failure {
    let mut parts = text.split("\n\n");
    let first = parts.next().unwrap_or_default();
    let message: Vec<_> = first.lines().map(str::trim).collect();
    let message = message.join(" ");
    let tips: Vec<_> = parts
        .flat_map(str::lines)
        .filter_map(|line| line.trim().strip_prefix("tip: "))
        .collect();
    let see = "See `foreman --help`.";
    let hint = match tips.as_slice() {
        [] => see.to_owned(),
        tips => format!("{}. {see}", tips.join("; ")),
    };
    Failure::new(Code::Usage, message.trim_start_matches("error: ")).hint(hint)
}

/// Logs go to stderr, and only when `FOREMAN_LOG` asks for them or a service runs: stdout is the answer.
fn start_log(is_service: bool) {
    let filter = match std::env::var("FOREMAN_LOG") {
        Ok(filter) => filter,
        Err(_) if is_service => "info,sqlx=warn".to_owned(),
        Err(_) => return,
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}

async fn dispatch(cli: Cli, answer: &Answer) -> Done {
    // These need no engine.
    match cli.command {
        Command::Serve(ref args) => {
            if let Some(done) = serve::without_engine(args, answer) {
                return done;
            }
        }
        Command::Why(_) => return why::outside(),
        Command::DemoServer => return demo::serve().await,
        Command::Demo(args) => return demo::run(args, answer).await,
        _ => {}
    }
    let engine = engine::open().await?;
    if matches!(
        cli.command,
        Command::Run(_) | Command::Attach(_) | Command::Watch(_)
    ) {
        // These stay for a while: what waits in the queue need not wait for them to end.
        engine.0.dispatch_orders();
    }
    let done = with_engine(cli.command, &engine, answer).await;
    engine.0.close().await;
    std::io::stdout().flush()?;
    done
}

async fn with_engine(command: Command, engine: &Engine, answer: &Answer) -> Done {
    match command {
        Command::Run(args) => run::run(*args, engine, answer).await,
        Command::Attach(args) => run::attach(args, engine, answer).await,
        Command::Blocks(args) => blocks::list(args, engine, answer).await,
        Command::Amend(args) => decide::amend(args, engine, answer).await,
        Command::Deny(args) => decide::deny(args, engine, answer).await,
        Command::Undo(args) => decide::undo(args, engine, answer).await,
        Command::Runs(args) => runs::list(args, engine, answer).await,
        Command::Shell(args) => shell::shell(args, engine, answer).await,
        Command::Port(args) => port::port(args, engine, answer).await,
        Command::Show(name) => runs::show(reference(name.run), engine, answer).await,
        Command::Retry(name) => run::retry(name, engine, answer).await,
        Command::Project(ProjectCommand::Show(args)) => project::show(args, engine, answer).await,
        Command::Project(ProjectCommand::Trust(args)) => project::trust(args, engine, answer).await,
        Command::Order(command) => order::order(command, engine, answer).await,
        Command::Orders(args) => orders::orders(args.command, args.list, engine, answer).await,
        Command::Stop(name) => runs::stop(reference(name.run), engine, answer).await,
        Command::Discard(name) => runs::discard(reference(name.run), engine, answer).await,
        Command::Restore(name) => runs::restore(reference(name.run), engine, answer).await,
        Command::Samples(args) => looking::samples(args, engine, answer).await,
        Command::Say(args) => looking::say(args, engine, answer).await,
        Command::FollowUp(args) => looking::follow_up(args, engine, answer).await,
        Command::Amendments(args) => looking::amendments(args, engine, answer).await,
        Command::Agents => looking::agents(engine, answer).await,
        Command::Repos => looking::repos(engine, answer).await,
        Command::Events(args) => events::events(args, engine, answer).await,
        Command::Search(args) => search::search(args, engine, answer).await,
        Command::Log(args) => commits::log(args, engine, answer).await,
        Command::Diff(args) => review::diff(args, engine, answer).await,
        Command::Sync(args) => gate::sync(args, engine, answer).await,
        Command::Merges(args) => gate::merges(args, engine, answer).await,
        Command::Push(args) => gate::push(args, engine, answer).await,
        Command::Merge(args) => review::merge(args, engine, answer).await,
        Command::Policy(PolicyCommand::Show(of)) => policy::show(of, engine, answer).await,
        Command::Policy(PolicyCommand::Why(args)) => policy::why(args, engine, answer).await,
        Command::Policy(PolicyCommand::Revoke(name)) => policy::revoke(name, engine, answer).await,
        Command::Policy(PolicyCommand::Trust(args)) => policy::trust(args, engine, answer).await,
        Command::Policy(PolicyCommand::Write(name)) => policy::write(name, engine, answer).await,
        Command::Compare(args) => compare::compare(args, engine, answer).await,
        Command::Disk(args) => disk::disk(args.command, engine, answer).await,
        Command::Secret(SecretCommand::Set(args)) => secret::set(args, engine, answer).await,
        Command::Secret(SecretCommand::List) => secret::list(engine, answer).await,
        Command::Secret(SecretCommand::Remove(name)) => secret::remove(name, engine, answer).await,
        Command::Awake(args) => awake::awake(args, engine, answer).await,
        Command::Doctor(args) => doctor::doctor(args, engine, answer).await,
        Command::Serve(args) => serve::serve(args, engine, answer).await,
        Command::Shutdown(args) => serve::shutdown(args, engine, answer).await,
        Command::Watch(args) => hints::watch(args, engine, answer).await,
        // Answered before an engine was opened.
        Command::Why(_) => why::outside(),
        Command::DemoServer => demo::serve().await,
        Command::Demo(args) => demo::run(args, answer).await,
    }
}

fn reference(run: String) -> RunRef {
    RunRef { run }
}

/// An absolute path of `path`, which need not exist: the engine may be another process, with
/// another working directory.
pub(crate) fn absolute(path: &std::path::Path) -> Result<std::path::PathBuf, Failure> {
    if path.to_str().is_none() {
        let message = format!("{} is no path of valid UTF-8", path.display());
        let failure = Failure::new(Code::BadInput, message);
        return Err(failure.hint("Move it to a path with a valid name."));
    }
    std::path::absolute(path).map_err(|error| {
        Failure::new(
            Code::BadInput,
            format!("{} is no usable path: {error}", path.display()),
        )
    })
}

/// A question of yes or no on the terminal. What was typed before it is thrown away.
pub(crate) fn ask(question: &str) -> Result<bool, CliError> {
    let line = ask_line(&format!("{question} [y/N] "))?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Reads one line from the terminal. What was typed before the question is thrown away.
pub(crate) fn ask_line(question: &str) -> Result<String, CliError> {
    let mut out = std::io::stdout().lock();
    write!(out, "{question}")?;
    out.flush()?;
    crate::terminal::flush_typed();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line)
}

/// The refusal of a decision without a token and without a terminal to ask on.
pub(crate) fn needs_expect(command: &str, source: &str) -> Failure {
    Failure::new(
        Code::Usage,
        format!("without a terminal, `foreman {command}` needs --expect with the token of what was shown"),
    )
    .hint(format!("Take it from `{source}`."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &[&str]) -> Failure {
        let words = std::iter::once("foreman").chain(words.iter().copied());
        let error = Cli::try_parse_from(words).unwrap_err();
        wrong_usage(&error.render().to_string())
    }

    #[test]
    fn a_wrong_command_line_keeps_its_suggestion_in_json() {
        let failure = refused(&["rums", "--json"]);
        assert_eq!(failure.code, Code::Usage);
        assert!(failure.message.contains("rums"), "{failure:?}");
        assert!(failure.hint.is_some_and(|hint| hint.contains("runs")));
        let failure = refused(&["run", "--json"]);
        assert!(failure.message.contains("<CMD>"), "{failure:?}");
    }
}
