//! Programs in a cage, as those who start them see them.

use std::os::fd::OwnedFd;

/// A program to run in a cage, fully confined.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of its environment.
    pub argv: Vec<String>,
    /// Variables beside the cage's own environment; they win over it.
    pub env: Vec<(String, String)>,
    /// Its standard streams.
    pub stdio: PayloadStdio,
}

/// Where the standard streams of a program go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadStdio {
    /// All three are `/dev/null`.
    Null,
    /// Standard output and error are pipes; standard input is `/dev/null`.
    Pipes,
    /// A pseudo-terminal of the cage, which controls the program's session.
    Terminal {
        /// Columns at the start.
        columns: u16,
        /// Rows at the start.
        rows: u16,
    },
}

/// A program that runs in a cage. Its exit is awaited with [`Cage::wait`](crate::Cage::wait).
#[derive(Debug)]
pub struct Child {
    /// Process id inside the cage.
    pub pid: u32,
    /// Reading end of its standard output, with [`PayloadStdio::Pipes`]. It blocks.
    pub stdout: Option<OwnedFd>,
    /// Reading end of its standard error, with [`PayloadStdio::Pipes`]. It blocks.
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
