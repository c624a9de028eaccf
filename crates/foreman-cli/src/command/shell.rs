//! `foreman shell`: a program of the operator's in the cage of a live run.

mod interactive;
mod streamed;

use super::Done;
use crate::answer::Answer;
use crate::args::ShellArgs;
use crate::error::CliError;
use crate::terminal;
use foreman_domain::{Code, ExitCode, Failure, ShellId, StepResult};
use foreman_engine::api::{Commands, ShellOpen, ShellRead, ShellView, ShellWritten, TerminalSize};

/// Longest wait of one read.
const WAIT_MS: u32 = 15_000;

/// Opens a shell and carries it: to the terminal, or as streams.
pub async fn shell(args: ShellArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let term = std::env::var("TERM").ok().filter(|term| term != "dumb");
    let on_terminal = answer.can_ask() && !args.no_tty && term.is_some();
    if !on_terminal && args.argv.is_empty() {
        return Err(Failure::new(
            Code::Usage,
            "without a terminal, `foreman shell` needs a command",
        )
        .hint("Name it behind `--`: foreman shell RUN -- COMMAND.")
        .into());
    }
    let (columns, rows) = terminal::size();
    let request = ShellOpen {
        run: args.run,
        shell: ShellId::from_random(rand::random()),
        argv: args.argv,
        terminal: on_terminal.then_some(TerminalSize { columns, rows }),
        term: term.filter(|_| on_terminal),
    };
    let shell = engine.shell_open(request).await?;
    let result = match on_terminal {
        true => interactive::carry(&shell, engine, answer).await?,
        false => streamed::carry(&shell, engine, answer).await?,
    };
    exit_of(&shell, &result)
}

/// What it wrote after the first `after` chunks.
async fn read(
    shell: &ShellView,
    engine: &impl Commands,
    after: u64,
) -> Result<ShellWritten, Failure> {
    let request = ShellRead {
        run: shell.run.to_string(),
        shell: shell.shell.clone(),
        after,
        wait_ms: WAIT_MS,
    };
    engine.shell_read(request).await
}

/// A shell's own exit code is this command's.
fn exit_of(shell: &ShellView, result: &StepResult) -> Done {
    match result {
        StepResult::Succeeded => Ok(ExitCode::Ok),
        StepResult::Exited { code } => Err(CliError::PassedOn(*code)),
        StepResult::Signalled { signal } => Err(CliError::PassedOn(128_u8.saturating_add(*signal))),
        StepResult::NotStarted { why }
        | StepResult::Stopped { why }
        | StepResult::Reported { why, .. }
        | StepResult::Skipped { why } => {
            let why = foreman_domain::sanitize_line(why.trim_end_matches('.'));
            let message = format!("the shell ended with the cage of run {}: {why}", shell.run);
            Err(Failure::new(Code::Conflict, message).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::RunId;

    #[test]
    fn the_exit_code_is_the_programs_and_a_signal_is_counted_from_128() {
        let shell = ShellView {
            run: RunId::from_random(1),
            shell: ShellId::from_random(1),
        };
        let number = |result: StepResult| match exit_of(&shell, &result) {
            Ok(code) => code as u8,
            Err(error) => error.number(),
        };
        assert_eq!(number(StepResult::Succeeded), 0);
        assert_eq!(number(StepResult::Exited { code: 42 }), 42);
        assert_eq!(number(StepResult::Signalled { signal: 9 }), 137);
        assert_eq!(number(StepResult::Stopped { why: "x".into() }), 4);
    }
}
