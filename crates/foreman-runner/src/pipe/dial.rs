//! How a pipe comes into being.

use futures::FutureExt;
use futures::future::BoxFuture;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::process::Command;

/// Most bytes of what a program says beside the pipe that are kept: its newest.
const SAID: usize = 4 << 10;

/// Makes pipes to one place.
pub trait Dial: Send + Sync + std::fmt::Debug {
    /// The place, in words.
    fn place(&self) -> &str;

    /// A new pipe, at whose far end a station answers.
    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>>;
}

/// A pipe.
pub struct Dialled {
    /// From the far end.
    pub read: Box<dyn AsyncRead + Send + Unpin>,
    /// To the far end.
    pub write: Box<dyn AsyncWrite + Send + Unpin>,
    /// Kept as long as the pipe is used; whatever carries it ends when this is dropped.
    pub carrier: Box<dyn Send + Sync>,
    /// What was said beside the pipe, for messages.
    pub said: Said,
}

/// The newest of what a program wrote to its standard error.
#[derive(Debug, Clone, Default)]
pub struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    /// Its last line.
    #[must_use]
    pub fn last_line(&self) -> Option<String> {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&said).into_owned();
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(foreman_domain::sanitize_line(line.trim()))
    }

    fn hear(&self, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.extend_from_slice(bytes);
        let surplus = said.len().saturating_sub(SAID);
        said.drain(..surplus);
    }
}

/// Pipes that are the standard streams of a program, started for each.
#[derive(Debug)]
pub(super) struct Program {
    place: String,
    argv: Vec<OsString>,
}

impl Program {
    pub fn new(place: String, argv: Vec<OsString>) -> Self {
        Self { place, argv }
    }

    fn start(&self) -> io::Result<Dialled> {
        let no_program = || io::Error::new(io::ErrorKind::InvalidInput, "no program is named");
        let (program, arguments) = self.argv.split_first().ok_or_else(no_program)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let no_pipe = || io::Error::other("a standard stream was not made");
        let write = child.stdin.take().ok_or_else(no_pipe)?;
        let read = child.stdout.take().ok_or_else(no_pipe)?;
        let mut errors = child.stderr.take().ok_or_else(no_pipe)?;
        let said = Said::default();
        let hearing = said.clone();
        // Ends with the program, which ends with its carrier.
        tokio::spawn(async move {
            let mut buffer = vec![0; 1024];
            while let Ok(count @ 1..) = errors.read(&mut buffer).await {
                hearing.hear(buffer.get(..count).unwrap_or_default());
            }
        });
        Ok(Dialled {
            read: Box::new(read),
            write: Box::new(write),
            carrier: Box::new(child),
            said,
        })
    }
}

impl Dial for Program {
    fn place(&self) -> &str {
        &self.place
    }

    fn dial(&self) -> BoxFuture<'_, io::Result<Dialled>> {
        async { self.start() }.boxed()
    }
}
