//! The shim's command line. Inside a cage the same program is `foreman` and knows only `why`.

mod world_command;

use clap::{Parser, Subcommand};
use foreman_shim::station;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

/// Carries one run in its cage.
#[derive(Debug, Parser)]
#[command(name = "foreman-shim", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Carries the run of a spec to its end.
    Run {
        /// The spec, written by the engine.
        spec: PathBuf,
    },
    /// Proves each wall of this machine in a throw-away cage.
    Doctor {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Carries runs for an engine at the other end of this program's standard input and output.
    Station {
        /// Over the standard streams, which is the only way so far.
        #[arg(long, required = true)]
        stdio: bool,
        /// Where runs are kept; below the user's data folder when absent.
        #[arg(long, value_name = "DIR")]
        place: Option<PathBuf>,
    },
    /// Makes or takes one mount of a running cage, as told on standard input. Started by a shim only.
    #[command(name = foreman_cage::files::HELPER, hide = true)]
    MountHelper,
    /// Makes a private network world for the demo and for tests.
    #[command(hide = true)]
    World {
        /// Its own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let called_as = std::env::args_os().next().map(PathBuf::from);
    if called_as
        .as_ref()
        .and_then(|path| path.file_name())
        .is_some_and(|name| name == "foreman")
    {
        return in_cage::run(std::env::args_os().skip(1).collect());
    }
    match run(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            report::error_line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run { spec } => {
            foreman_shim::log::to_standard_error();
            foreman_shim::shim::run(&spec)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Doctor { json } => {
            let findings = foreman_shim::doctor::examine()?;
            report::print(&if json {
                findings.json()
            } else {
                findings.words()
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Station { stdio: _, place } => {
            foreman_shim::log::to_standard_error();
            let place =
                place.unwrap_or_else(|| station::default_place(|name| std::env::var_os(name)));
            let from = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
            station::serve(&place, from, std::io::stdout().lock())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::MountHelper => Ok(foreman_cage::files::help()),
        Command::World { args } => world_command::run(args),
    }
}

/// `foreman` as a caged program finds it.
mod in_cage {
    use super::report;
    use foreman_shim::why;
    use std::ffi::OsString;
    use std::path::Path;
    use std::process::ExitCode;

    pub(super) fn run(args: Vec<OsString>) -> ExitCode {
        let args: Vec<_> = args.iter().map(|arg| arg.to_string_lossy()).collect();
        let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
        let json = match args.as_slice() {
            ["why"] => false,
            ["why", "--json"] => true,
            _ => {
                report::error_line(
                    "This is a run's cage: only `foreman why [--json]` works here. It tells what was \
                     stopped and why; the operator decides everything else.",
                );
                return ExitCode::from(2);
            }
        };
        let text = why::ask(Path::new(why::SOCKET))
            .map_err(anyhow::Error::from)
            .and_then(|answer| {
                let json_line = || serde_json::to_string(&answer).map(|line| line + "\n");
                Ok(if json { json_line()? } else { answer.words() })
            });
        match text.and_then(|text| Ok(report::print(&text)?)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                report::error_line(&format!("{error:#}"));
                ExitCode::from(9)
            }
        }
    }
}

/// Where words of this program go.
mod report {
    use std::io::{self, Write};

    pub(super) fn print(text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    pub(super) fn error_line(text: &str) {
        // There is nowhere left to report that this failed.
        let _ = writeln!(io::stderr(), "{text}");
    }
}
