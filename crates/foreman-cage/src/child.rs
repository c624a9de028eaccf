//! Programs in a cage, as those who start them see them.

use crate::files::watch::Watch;
use crate::wire::{Program, Stdio};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::Serialize;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;

/// A program to run in a cage, fully confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of its environment.
    pub argv: Vec<String>,
    /// Variables beside the cage's own environment; they win over it.
    pub env: Vec<(String, String)>,
    /// Its standard streams.
    pub stdio: PayloadStdio,
}

impl Payload {
    /// A file in memory that holds the program, at its beginning.
    pub(crate) fn memory_file(&self, watch: Option<Watch>) -> io::Result<OwnedFd> {
        in_memory(&Program {
            argv: self.argv.clone(),
            env: self.env.clone(),
            watch,
        })
    }
}

/// A file in memory that holds an order to process 1, at its beginning.
pub(crate) fn in_memory(order: &impl Serialize) -> io::Result<OwnedFd> {
    let text = serde_json::to_vec(order).map_err(io::Error::other)?;
    let mut file = std::fs::File::from(memfd_create("order", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&text)?;
    file.rewind()?;
    Ok(file.into())
}

/// Where the standard streams of a program go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadStdio {
    /// All three are `/dev/null`.
    Null,
    /// Standard output and error are pipes; standard input is `/dev/null`.
    Pipes,
    /// All three are pipes.
    Conversation,
    /// A pseudo-terminal of the cage, which controls the program's session.
    Terminal {
        /// Columns at the start.
        columns: u16,
        /// Rows at the start.
        rows: u16,
    },
}

impl From<PayloadStdio> for Stdio {
    fn from(stdio: PayloadStdio) -> Self {
        match stdio {
            PayloadStdio::Null => Self::Null,
            PayloadStdio::Pipes => Self::Pipes,
            PayloadStdio::Conversation => Self::Conversation,
            PayloadStdio::Terminal { columns, rows } => Self::Terminal { columns, rows },
        }
    }
}

/// A program that runs in a cage. Its exit is awaited with [`Cage::wait`](crate::Cage::wait).
#[derive(Debug)]
pub struct Child {
    /// Process id inside the cage.
    pub pid: u32,
    /// Writing end of its standard input, with [`PayloadStdio::Conversation`]. It blocks.
    pub stdin: Option<OwnedFd>,
    /// Reading end of its standard output, with [`PayloadStdio::Pipes`] and with
    /// [`PayloadStdio::Conversation`]. It blocks.
    pub stdout: Option<OwnedFd>,
    /// Reading end of its standard error, likewise.
    pub stderr: Option<OwnedFd>,
    /// Controlling side of its terminal, with [`PayloadStdio::Terminal`]. It blocks; reading fails
    /// with EIO when no program holds the other side.
    pub terminal: Option<OwnedFd>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(u8),
    /// By this signal.
    Signal(u8),
    /// The whole cage ended before its exit was seen.
    CageGone,
}
