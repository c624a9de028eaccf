//! The port itself.

use foreman_domain::RunId;
use foreman_shim::client::{ClientError, Hello, ShimClient, Welcome};
use foreman_shim::launch::StartError;
use foreman_shim::protocol::{RunFiles, RunSpec, ShimIdentity};
use foreman_shim::secrets::Secret;
use foreman_shim::station::{Presence, Reason};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// A run as the engine knows it: enough to find it again, whoever asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// The run.
    pub run: RunId,
    /// Its secret.
    pub nonce: String,
    /// Its files on the engine's machine. Where the run is carried elsewhere, they hold what was
    /// collected.
    pub files: RunFiles,
    /// The file of its spec on the engine's machine.
    pub spec: PathBuf,
}

/// Where the run's repository is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum Source {
    /// Its worktree is on the engine's machine, and the spec's binds show it.
    Here,
    /// It has to be brought.
    Bundle {
        /// A git bundle that holds the run's branch at the spec's base commit.
        file: PathBuf,
        /// The run's branch, short.
        branch: String,
        /// The branch it started from, short.
        base_branch: String,
    },
}

/// A run to launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Launch {
    /// Where the engine keeps it.
    pub place: Place,
    /// What the shim is to carry. A context elsewhere replaces whatever in it names a place.
    pub spec: RunSpec,
    /// Its repository.
    pub source: Source,
    /// The secrets that the spec names. In memory only: a launch is written nowhere.
    #[serde(skip)]
    pub secrets: Vec<Secret>,
}

/// What is seen of a run from beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Where its shim stands.
    pub presence: Presence,
    /// Who its shim is, once that was written down.
    pub identity: Option<ShimIdentity>,
}

/// A line to a run's shim: what is written reaches its socket, and what it says is read.
pub struct Line {
    /// From the shim.
    pub read: Box<dyn AsyncRead + Send + Unpin>,
    /// To the shim.
    pub write: Box<dyn AsyncWrite + Send + Unpin>,
}

impl std::fmt::Debug for Line {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Line")
    }
}

/// A place could not be asked, or said no.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// A shim could not be started on this machine.
    #[error("the run's supervisor could not be started")]
    Start(#[from] StartError),
    /// The line to the shim failed.
    #[error("the run's supervisor could not be talked to")]
    Client(#[from] ClientError),
    /// A file of the engine's machine failed.
    #[error("cannot {doing} {path}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No pipe to the place could be made.
    #[error("cannot reach {place}")]
    Dial {
        /// The place, in words.
        place: String,
        /// Why.
        source: io::Error,
    },
    /// The pipe broke, or its far end ended.
    #[error("the pipe to {place} broke: {said}")]
    Broken {
        /// The place, in words.
        place: String,
        /// The last that was heard of it.
        said: String,
    },
    /// What came over the pipe is not of this conversation.
    #[error("what came from {place} is not of a station: {what}")]
    Garbled {
        /// The place, in words.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// Nothing came in time.
    #[error("{place} did not answer in time")]
    Silent {
        /// The place, in words.
        place: String,
    },
    /// The place refused.
    #[error("{place}: {message}")]
    Refused {
        /// The place, in words.
        place: String,
        /// The closed reason.
        reason: Reason,
        /// The sentence.
        message: String,
    },
    /// The run cannot be carried at such a place as it is.
    #[error("the run cannot be carried at {place}: {why}")]
    Unsupported {
        /// The place, in words.
        place: String,
        /// Why.
        why: &'static str,
    },
}

/// A kind of place where runs are carried. Every method may be cut short and asked again.
pub trait RunnerContext: Send + Sync + std::fmt::Debug {
    /// A stable word for it.
    fn name(&self) -> &'static str;

    /// Whether runs have to be launched with [`Source::Bundle`].
    fn needs_bundle(&self) -> bool;

    /// Brings a run to its place and starts its shim, which answers when this returns. A run that was
    /// launched before is found again.
    fn launch<'a>(&'a self, launch: &'a Launch)
    -> BoxFuture<'a, Result<ShimIdentity, RunnerError>>;

    /// A line to the shim, before any introduction.
    fn open<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Line, RunnerError>>;

    /// Connects to the shim and introduces the engine.
    fn connect<'a>(
        &'a self,
        place: &'a Place,
        hello: Hello,
    ) -> BoxFuture<'a, Result<(ShimClient, Welcome), RunnerError>> {
        async move {
            let Line { read, write } = self.open(place).await?;
            Ok(ShimClient::over(read, write, hello).await?)
        }
        .boxed()
    }

    /// Where the run's shim stands.
    fn look<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Seen, RunnerError>>;

    /// Brings what the run left to its files on the engine's machine: journal and commits first, the
    /// terminal result last. What is not there yet is not brought.
    fn collect<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>>;

    /// Kills the run's shim, if it is alive; its cage dies with it.
    fn kill<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>>;

    /// Removes what the context made for a run whose shim is gone. The run's files on the engine's machine
    /// and its worktree there are not the context's.
    fn remove<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>>;
}
