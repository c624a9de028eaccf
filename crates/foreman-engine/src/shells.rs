//! Shells of live runs: opened, read, typed into and ended through the run's shim, which keeps them.
//!
//! Nothing of a shell is kept here, so an engine that ends takes none with it: the next one reads on from
//! what the caller has. Only a run that is live has a cage to open one in.

use crate::api::{
    Nothing, ShellBytes, ShellInput, ShellOpen, ShellRead, ShellRef, ShellResize, ShellView,
    ShellWritten,
};
use crate::engine::Engine;
use crate::environment::Account;
use crate::failures::{OrFail, refused_by_its_supervisor};
use crate::live::LiveRun;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{Code, Failure, RunState, sanitize_line};
use foreman_shim::client::{ClientError, ShellRequest, ShimClient};
use foreman_shim::wire::Refusal;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::sync::Arc;

/// What a run without a cage cannot do.
const WHAT: &str = "open a shell in";
/// Longest wait of one read; below what a connection is given up after.
const LONGEST_WAIT_MS: u32 = 20_000;
/// Longest input at once.
const INPUT_BYTES: usize = 1 << 20;
/// How often something is asked over a new line when the line breaks.
const TRIES: u32 = 3;
/// The cage's own idea of a shell, or the one that is always there.
const DEFAULT: &str = r#"command -v "${SHELL:-}" >/dev/null 2>&1 && exec "$SHELL"; exec /bin/sh"#;

impl Engine {
    /// Opens a shell beside the step that runs.
    pub async fn open_shell(&self, request: ShellOpen) -> Result<ShellView, Failure> {
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let argv = match request.argv.is_empty() {
            true => ["/bin/sh", "-c", DEFAULT].map(str::to_owned).to_vec(),
            false => request.argv,
        };
        if argv.iter().any(|word| word.contains('\0')) {
            let what = "a command holds a NUL byte, which no program can be given";
            return Err(Failure::new(Code::BadInput, what));
        }
        let asked = ShellRequest {
            shell: request.shell.clone(),
            by: Account::of_this_process(|name| std::env::var_os(name)).user,
            argv,
            env: terminal_kind(request.term)?,
            terminal: request.terminal.map(|size| (size.columns, size.rows)),
        };
        let asked = &asked;
        let ask =
            |line: Arc<ShimClient>| async move { line.open_shell(asked.clone()).await }.boxed();
        over_a_line(&live, refused, ask).await?;
        Ok(ShellView {
            run: live.run.clone(),
            shell: request.shell,
        })
    }

    /// What a shell wrote.
    pub async fn read_shell(&self, request: ShellRead) -> Result<ShellWritten, Failure> {
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let wait = request.wait_ms.min(LONGEST_WAIT_MS);
        let (shell, after) = (&request.shell, request.after);
        let ask = |line: Arc<ShimClient>| {
            async move { line.read_shell(shell, after, wait).await }.boxed()
        };
        let page = over_a_line(&live, refused, ask).await?;
        let as_bytes = |chunk: foreman_shim::protocol::ShellChunk| ShellBytes {
            stream: chunk.stream,
            bytes: chunk.bytes,
        };
        Ok(ShellWritten {
            chunks: page.chunks.into_iter().map(as_bytes).collect(),
            ended: page.ended,
        })
    }

    /// Types into a shell.
    pub async fn type_in_shell(&self, request: ShellInput) -> Result<Nothing, Failure> {
        let bytes = STANDARD
            .decode(&request.bytes)
            .ok()
            .filter(|bytes| bytes.len() <= INPUT_BYTES)
            .ok_or_else(|| Failure::new(Code::Usage, "the input is not base64 of up to 1 MiB"))?;
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let (shell, at, bytes) = (&request.shell, request.at, &bytes);
        let ask = |line: Arc<ShimClient>| {
            async move { line.type_in_shell(shell, at, bytes).await }.boxed()
        };
        over_a_line(&live, refused, ask).await?;
        Ok(Nothing {})
    }

    /// Tells a shell its terminal's size.
    pub async fn resize_shell(&self, request: ShellResize) -> Result<Nothing, Failure> {
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let (columns, rows) = (request.size.columns, request.size.rows);
        let shell = &request.shell;
        let ask = |line: Arc<ShimClient>| {
            async move { line.resize_shell(shell, columns, rows).await }.boxed()
        };
        over_a_line(&live, refused, ask).await?;
        Ok(Nothing {})
    }

    /// Ends a shell.
    pub async fn end_shell(&self, request: ShellRef) -> Result<Nothing, Failure> {
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let shell = &request.shell;
        let ask = |line: Arc<ShimClient>| async move { line.end_shell(shell).await }.boxed();
        over_a_line(&live, refused, ask).await?;
        Ok(Nothing {})
    }

    /// The run that is meant, while there is a cage of it.
    pub(crate) async fn run_with_a_cage(
        &self,
        typed: &str,
        what: &str,
    ) -> Result<Arc<LiveRun>, Failure> {
        let run = self.find_run(typed).await?;
        if let Some(live) = self.live.get(&run) {
            return Ok(live);
        }
        let view = self.view_of(&run).await?;
        let failure = Failure::new(
            Code::Conflict,
            format!("run {run} is not running, so there is no cage of it to {what}"),
        );
        Err(match view.state {
            RunState::Discarded { .. } => failure.hint(format!(
                "`foreman restore {run}` brings its files back; `foreman run` starts another run."
            )),
            _ => failure.hint(format!(
                "Its files are in {}; look at them as data (`foreman diff {run}`), or start a run on \
                 the branch {} to work on in a cage.",
                sanitize_line(&view.worktree.to_string_lossy()),
                sanitize_line(&view.branch)
            )),
        })
    }
}

/// Only what names of terminals are made of enters the cage.
fn terminal_kind(term: Option<String>) -> Result<Vec<(String, String)>, Failure> {
    let Some(term) = term else {
        return Ok(Vec::new());
    };
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_');
    if term.is_empty() || term.len() > 64 || !term.bytes().all(plain) {
        let what = "that is not the name of a kind of terminal";
        return Err(Failure::new(Code::BadInput, what));
    }
    Ok(vec![("TERM".to_owned(), term)])
}

/// Asks the shim; over a new line where one broke. What is asked may be asked twice.
pub(crate) async fn over_a_line<'a, T>(
    live: &LiveRun,
    refused: fn(&LiveRun, Refusal, String) -> Failure,
    ask: impl Fn(Arc<ShimClient>) -> BoxFuture<'a, Result<T, ClientError>>,
) -> Result<T, Failure> {
    let mut tries = 1;
    loop {
        match ask(live.line().await?).await {
            Err(ClientError::Closed | ClientError::TimedOut) if tries < TRIES => tries += 1,
            Err(ClientError::Refused { reason, message }) => {
                return Err(refused(live, reason, message));
            }
            answered => return answered.or_fail(),
        }
    }
}

fn refused(live: &LiveRun, reason: Refusal, message: String) -> Failure {
    let message = sanitize_line(message.trim_end_matches('.'));
    match reason {
        Refusal::NoStep => Failure::new(
            Code::Conflict,
            format!(
                "run {} has no step now that a shell could be opened beside",
                live.run
            ),
        )
        .hint("Setup and the agent have one; what comes after them is left alone."),
        Refusal::NotStarted => Failure::new(Code::BadInput, message),
        Refusal::NoShell => Failure::new(Code::NotFound, message),
        Refusal::Stale => Failure::new(Code::Stale, message),
        _ => refused_by_its_supervisor(reason, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_terminal_enters_the_cage() {
        let kind = |term: &str| terminal_kind(Some(term.to_owned()));
        let wanted = vec![("TERM".to_owned(), "xterm-256color".to_owned())];
        assert_eq!(kind("xterm-256color").unwrap(), wanted);
        assert!(terminal_kind(None).unwrap().is_empty());
        for bad in ["", "a b", "x\u{1b}[2J", "../../etc", &"x".repeat(65)] {
            assert_eq!(kind(bad).unwrap_err().code, Code::BadInput, "{bad:?}");
        }
    }
}
