//! A station: the far end of a byte pipe to a machine on which runs are carried for an engine elsewhere.
//!
//! `foreman-shim station --stdio` is one conversation over its standard streams: what ssh, a namespace or
//! a virtual machine connects to an engine. The engine's end sends [`Request`]s, one JSON object a line;
//! the station answers each with one [`Answered`] line. A start is followed by exactly as many bytes of a
//! git bundle as it announces, and a fetched file comes as exactly as many bytes as its answer says. After
//! [`Request::Attach`] was answered the pipe is a run's socket: bytes go through as they are, and what
//! they say is the runner protocol, its secret and its fencing included.
//!
//! Runs outlive the conversation: a pipe may end at any moment and another one goes on where it was. A
//! start that is repeated finds the run that the first one made. What comes over the pipe is bounded and
//! believed only as far as it parses; a conversation that cannot be read ends with a refusal. A station
//! runs nothing outside of a cage but git on a repository that it made itself, without hooks, filters or
//! configuration of anybody.
//!
//! It authenticates nobody: whoever may start it is the user whom it runs as. A run is touched only for
//! who names its secret.

mod far_end;
mod folder;
mod repository;

pub use far_end::{StationError, default_place, serve};

use crate::protocol::{RunSpec, ShimIdentity};
use foreman_domain::RunId;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of this conversation.
pub const VERSION: u8 = 1;
/// Longest line of either end: a spec with its policy is the largest.
pub const LINE_BYTES: usize = 4 << 20;
/// Largest repository that is taken in.
pub const BUNDLE_BYTES: u64 = 8 << 30;

/// A request on the pipe.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestLine {
    /// [`VERSION`].
    pub v: u8,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

/// What a station is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Request {
    /// Takes a run in and starts its shim. The bytes of the bundle follow the line.
    Start {
        /// The run.
        offer: Box<Offer>,
        /// How many bytes follow.
        bundle: u64,
    },
    /// Where a run stands.
    Look {
        /// Which.
        run: RunId,
        /// Its secret.
        nonce: String,
    },
    /// From the answer on, the pipe is the run's socket.
    Attach {
        /// Which. The runner protocol asks for its secret.
        run: RunId,
    },
    /// One file of a run. Its bytes follow the answer.
    Fetch {
        /// Which run.
        run: RunId,
        /// Its secret.
        nonce: String,
        /// Which file.
        piece: Piece,
        /// Bytes at its beginning that the caller has already.
        from: u64,
    },
    /// Kills a run's shim, and its cage with it.
    Kill {
        /// Which.
        run: RunId,
        /// Its secret.
        nonce: String,
    },
    /// Removes everything of a run whose shim is gone.
    Remove {
        /// Which.
        run: RunId,
        /// Its secret.
        nonce: String,
    },
}

/// A run on its way to a station.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Offer {
    /// What the shim is to carry. It names no place: files, binds, home and programs are the station's.
    pub spec: RunSpec,
    /// The run's branch, short; the bundle holds it, at the spec's base commit.
    pub branch: String,
    /// The branch it started from, short.
    pub base_branch: String,
}

/// A file of a run that can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Piece {
    /// The event journal.
    Journal,
    /// The terminal result.
    Exit,
    /// The commits.
    Bundle,
    /// The shim's log.
    Log,
}

/// Where a run's shim stands, as far as is seen from beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// It runs.
    Alive,
    /// It may still be starting.
    Unborn,
    /// It is gone, whether or not it left a result.
    Gone,
}

/// What a station answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To start.
    Started {
        /// Who carries the run.
        identity: ShimIdentity,
    },
    /// To look.
    Seen {
        /// Where it stands.
        presence: Presence,
        /// Who carries it, once that is known.
        identity: Option<ShimIdentity>,
    },
    /// To attach.
    Attached,
    /// To fetch. The bytes follow the line.
    File {
        /// How many.
        size: u64,
    },
    /// To everything else.
    Done,
}

/// A line of a station: an answer, or why there is none.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answered {
    /// [`VERSION`].
    pub v: u8,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// The refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
}

/// Why a station did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The closed reason.
    pub reason: Reason,
    /// What happened, as a sentence without a final period.
    pub message: String,
}

/// Closed list of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// What came is not of this conversation, or too long.
    Malformed,
    /// It is of another version of this conversation.
    Version,
    /// There is no such run here, or it has another secret, or the file is not there.
    NotFound,
    /// The repository that came cannot be used.
    BadRepository,
    /// The run's shim is alive.
    Alive,
    /// The run's shim is gone.
    Gone,
    /// The shim did not start.
    NotStarted,
    /// A file or a program of this machine.
    Environment,
}

impl Reason {
    /// The refusal with this reason.
    pub fn says(self, message: impl Into<String>) -> Refused {
        Refused {
            reason: self,
            message: message.into(),
        }
    }
}

/// Where a station keeps a run.
#[derive(Debug, Clone)]
struct Folder(PathBuf);
