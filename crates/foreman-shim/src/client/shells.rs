//! Shells, as an engine drives them.

use super::{ClientError, ShimClient, unexpected};
use crate::protocol::{Request, Response, ShellChunk};
#[cfg(doc)]
use crate::wire::Refusal;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{ShellId, StepResult};
use std::time::Duration;

/// Longest wait for a shell to start, beyond that for any answer.
const SHELL_START: Duration = Duration::from_secs(60);

/// A shell to open.
#[derive(Debug, Clone)]
pub struct ShellRequest {
    /// Chosen by who asks.
    pub shell: ShellId,
    /// Who opens it.
    pub by: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables beside the cage's own environment.
    pub env: Vec<(String, String)>,
    /// Columns and rows of its terminal.
    pub terminal: Option<(u16, u16)>,
}

/// What a shell wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellPage {
    /// In order.
    pub chunks: Vec<ShellChunk>,
    /// How it ended, once everything it wrote was read.
    pub ended: Option<StepResult>,
}

impl ShimClient {
    /// Opens a shell beside the running step; it has been started when this returns.
    ///
    /// # Errors
    /// [`Refusal::NoStep`] when no setup or agent step runs, [`Refusal::NotStarted`] when the program
    /// cannot be started; when the connection is closed.
    pub async fn open_shell(&self, shell: ShellRequest) -> Result<(), ClientError> {
        let ShellRequest {
            shell,
            by,
            argv,
            env,
            terminal,
        } = shell;
        let request = Request::Shell {
            shell,
            by,
            argv,
            env,
            terminal,
        };
        match self.ask(request, SHELL_START).await? {
            Response::Done => Ok(()),
            other => Err(unexpected("a plain yes", &other)),
        }
    }

    /// What a shell wrote after the first `after` chunks; waits up to `wait_ms` when there is nothing.
    ///
    /// # Errors
    /// [`Refusal::NoShell`] when there is no such shell; when the connection is closed.
    pub async fn read_shell(
        &self,
        shell: &ShellId,
        after: u64,
        wait_ms: u32,
    ) -> Result<ShellPage, ClientError> {
        let request = Request::ShellRead {
            shell: shell.clone(),
            after,
            wait_ms,
        };
        let wait = Duration::from_millis(u64::from(wait_ms));
        match self.ask(request, wait).await? {
            Response::Shell { chunks, ended } => Ok(ShellPage { chunks, ended }),
            other => Err(unexpected("what a shell wrote", &other)),
        }
    }

    /// Types into a shell; `at` bytes were typed before.
    ///
    /// # Errors
    /// [`Refusal::NoShell`] when it has no terminal or has ended; when the connection is closed.
    pub async fn type_in_shell(
        &self,
        shell: &ShellId,
        at: u64,
        bytes: &[u8],
    ) -> Result<(), ClientError> {
        self.ask_done(Request::ShellInput {
            shell: shell.clone(),
            at,
            bytes: STANDARD.encode(bytes),
        })
        .await
    }

    /// A new size for a shell's terminal.
    ///
    /// # Errors
    /// As [`ShimClient::type_in_shell`].
    pub async fn resize_shell(
        &self,
        shell: &ShellId,
        columns: u16,
        rows: u16,
    ) -> Result<(), ClientError> {
        self.ask_done(Request::ShellResize {
            shell: shell.clone(),
            columns,
            rows,
        })
        .await
    }

    /// Ends a shell.
    ///
    /// # Errors
    /// [`Refusal::NoShell`] when there is no such shell; when the connection is closed.
    pub async fn end_shell(&self, shell: &ShellId) -> Result<(), ClientError> {
        let shell = shell.clone();
        self.ask_done(Request::ShellEnd { shell }).await
    }
}
