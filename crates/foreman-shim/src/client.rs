//! The engine's end of the runner protocol, over a run's socket or any other byte pipe. Reconnecting is
//! the caller's business: a client whose connection broke answers [`ClientError::Closed`] for ever (and
//! [`ClientError::Garbled`] when it broke because of what came over it), and a new one asks on from its
//! cursor. What comes over a pipe may be anything: it is bounded, and never more than an error.

mod messages;
mod ports;
mod shells;

pub use shells::{ShellPage, ShellRequest};

use crate::protocol::{Request, Response, ShimIdentity, Usage};
use crate::wire::{ANSWER_BYTES, Refusal, RequestLine, ResponseLine, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{
    Amendment, BlockId, Epoch, Event, EventSeq, Record, Revision, RunEpoch, RunId,
};
use foreman_policy::Policy;
use futures::{SinkExt, StreamExt};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::codec::{FramedRead, FramedWrite, LinesCodec, LinesCodecError};

/// Longest wait for an answer, beyond what the request itself asks to wait.
const PATIENCE: Duration = Duration::from_secs(15);

/// A shim could not be asked, or said no.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the socket.
    #[error("could not connect to the shim at {path}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The connection ended, or never answered.
    #[error("the connection to the shim is closed")]
    Closed,
    /// What came over the connection is not of this protocol, so nothing more is sure about it.
    #[error("what came from the shim's end is not of the runner protocol: {what}")]
    Garbled {
        /// What is wrong with it, as a phrase.
        what: String,
    },
    /// No answer in time.
    #[error("the shim did not answer in time")]
    TimedOut,
    /// The answer is not of this protocol.
    #[error("the shim answered something unexpected: {what}")]
    Unexpected {
        /// What was expected and found, as a phrase.
        what: String,
    },
    /// The shim refused.
    #[error("{message}")]
    Refused {
        /// The closed reason.
        reason: Refusal,
        /// The sentence.
        message: String,
    },
}

/// How an engine introduces itself.
#[derive(Debug, Clone)]
pub struct Hello {
    /// The run that is meant.
    pub run: RunId,
    /// Its nonce.
    pub nonce: String,
    /// The engine's epoch.
    pub epoch: Epoch,
    /// Its claim of the run.
    pub run_epoch: RunEpoch,
}

/// How a shim answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Who it is.
    pub identity: ShimIdentity,
    /// The newest event.
    pub last_seq: EventSeq,
    /// The policy in force.
    pub revision: Revision,
}

/// A page of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In order, without holes.
    pub events: Vec<Event>,
    /// True when no event will ever follow.
    pub ended: bool,
}

/// What a policy revision did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Holds let go.
    pub released: u32,
    /// Holds refused.
    pub refused: u32,
    /// Connections cut.
    pub cut: u32,
}

type Waiting = Arc<Mutex<Pending>>;

#[derive(Default)]
struct Pending {
    next_id: u64,
    closed: bool,
    /// What was wrong with what came, when that ended the connection.
    garbled: Option<String>,
    answers: HashMap<u64, oneshot::Sender<ResponseLine>>,
}

/// One connection to a shim. Requests may be made at the same time; a long poll for events does not
/// keep a decision waiting. Dropping it closes the connection.
pub struct ShimClient {
    writer: tokio::sync::Mutex<FramedWrite<Sending, LinesCodec>>,
    waiting: Waiting,
    reader: JoinHandle<()>,
    measures: bool,
    publishes: bool,
    hears: bool,
}

type Receiving = Box<dyn AsyncRead + Send + Unpin>;
type Sending = Box<dyn AsyncWrite + Send + Unpin>;

impl std::fmt::Debug for ShimClient {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ShimClient")
    }
}

impl Drop for ShimClient {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl ShimClient {
    /// Connects to the shim at `socket` and introduces the engine.
    ///
    /// # Errors
    /// When nobody listens, or the shim does not accept the introduction.
    pub async fn connect(socket: &Path, hello: Hello) -> Result<(Self, Welcome), ClientError> {
        let (read, write) = dial(socket).await?.into_split();
        Self::over(read, write, hello).await
    }

    /// Introduces the engine over a connection that exists: what is read and written reaches a shim's
    /// socket. Whoever made the connection answers for who is at its other end.
    ///
    /// # Errors
    /// When the other end does not accept the introduction, or is no shim's.
    pub async fn over(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        hello: Hello,
    ) -> Result<(Self, Welcome), ClientError> {
        let waiting = Waiting::default();
        let (read, write): (Receiving, Sending) = (Box::new(read), Box::new(write));
        let mut client = Self {
            writer: tokio::sync::Mutex::new(FramedWrite::new(write, LinesCodec::new())),
            waiting: Arc::clone(&waiting),
            reader: tokio::spawn(dispatch(read, waiting)),
            measures: false,
            publishes: false,
            hears: false,
        };
        let Hello {
            run,
            nonce,
            epoch,
            run_epoch,
        } = hello;
        let hello = Request::Hello {
            run,
            nonce,
            epoch,
            run_epoch,
        };
        match client.ask(hello, Duration::ZERO).await? {
            Response::Welcome {
                identity,
                last_seq,
                revision,
                measures,
                publishes,
                hears,
            } => {
                client.measures = measures;
                client.publishes = publishes;
                client.hears = hears;
                let welcome = Welcome {
                    identity,
                    last_seq,
                    revision,
                };
                Ok((client, welcome))
            }
            other => Err(unexpected("a welcome", &other)),
        }
    }

    /// What the run uses now; `None` from a shim of an earlier version, which does not measure.
    ///
    /// # Errors
    /// When the connection is closed or the shim refuses.
    pub async fn measure(&self) -> Result<Option<Usage>, ClientError> {
        // It would take the request for a broken line, and hang up.
        if !self.measures {
            return Ok(None);
        }
        match self.ask(Request::Measure, Duration::ZERO).await? {
            Response::Measured { usage } => Ok(Some(usage)),
            other => Err(unexpected("figures", &other)),
        }
    }

    /// Events after `after`; waits up to `wait_ms` when there are none yet. A page ends with the
    /// record that reaches `limit`, and may be shorter although more events follow.
    ///
    /// # Errors
    /// When the connection is closed or the shim refuses.
    pub async fn events(
        &self,
        after: EventSeq,
        limit: u32,
        wait_ms: u32,
    ) -> Result<Page, ClientError> {
        let wait = Duration::from_millis(u64::from(wait_ms));
        match self
            .ask(
                Request::Events {
                    after,
                    limit,
                    wait_ms,
                },
                wait,
            )
            .await?
        {
            Response::Events { events, ended } => {
                let events = events.into_iter().flat_map(Record::into_events);
                Ok(Page {
                    events: events.filter(|event| event.seq > after).collect(),
                    ended,
                })
            }
            other => Err(unexpected("events", &other)),
        }
    }

    /// Puts a policy revision in force; the decision is on the shim's disk when this returns. Giving
    /// the policy that is in force already does nothing and succeeds, so it may be repeated.
    ///
    /// # Errors
    /// [`Refusal::Stale`] when it is not the next revision; when the connection is closed.
    pub async fn apply(
        &self,
        policy: Policy,
        amendment: Amendment,
        block: Option<BlockId>,
    ) -> Result<Applied, ClientError> {
        let request = Request::Apply {
            policy: Box::new(policy),
            amendment: Box::new(amendment),
            block,
        };
        match self.ask(request, Duration::ZERO).await? {
            Response::Applied {
                released,
                refused,
                cut,
            } => Ok(Applied {
                released,
                refused,
                cut,
            }),
            other => Err(unexpected("what was applied", &other)),
        }
    }

    /// Asks the run to stop; returns at once. Repeating it changes nothing.
    ///
    /// # Errors
    /// When the connection is closed or the shim refuses.
    pub async fn stop(&self, grace_ms: u32) -> Result<(), ClientError> {
        self.ask_done(Request::Stop { grace_ms }).await
    }

    /// Bytes for the terminal of the running step, in the order of the calls.
    ///
    /// # Errors
    /// When the connection is closed or no step with a terminal runs.
    pub async fn input(&self, bytes: &[u8]) -> Result<(), ClientError> {
        self.ask_done(Request::Input {
            bytes: STANDARD.encode(bytes),
        })
        .await
    }

    /// A new size for the terminal of the running step.
    ///
    /// # Errors
    /// When the connection is closed or no step with a terminal runs.
    pub async fn resize(&self, columns: u16, rows: u16) -> Result<(), ClientError> {
        self.ask_done(Request::Resize { columns, rows }).await
    }

    async fn ask_done(&self, request: Request) -> Result<(), ClientError> {
        match self.ask(request, Duration::ZERO).await? {
            Response::Done => Ok(()),
            other => Err(unexpected("a plain yes", &other)),
        }
    }

    async fn ask(&self, request: Request, wait: Duration) -> Result<Response, ClientError> {
        let (id, answer) = self.register()?;
        let line = RequestLine {
            jsonrpc: Version::V2,
            id,
            request,
        };
        let text = serde_json::to_string(&line).map_err(|error| ClientError::Unexpected {
            what: error.to_string(),
        })?;
        let exchange = async {
            self.writer
                .lock()
                .await
                .send(text)
                .await
                .map_err(|_| self.why_closed())?;
            answer.await.map_err(|_| self.why_closed())
        };
        let answered = timeout(PATIENCE + wait, exchange).await;
        lock(&self.waiting).answers.remove(&id);
        let line = answered.map_err(|_| ClientError::TimedOut)??;
        match (line.result, line.error) {
            (Some(response), None) => Ok(response),
            (None, Some(error)) => Err(ClientError::Refused {
                reason: error.data,
                message: error.message,
            }),
            _ => Err(ClientError::Unexpected {
                what: "neither result nor error".to_owned(),
            }),
        }
    }

    fn why_closed(&self) -> ClientError {
        lock(&self.waiting).why_closed()
    }

    fn register(&self) -> Result<(u64, oneshot::Receiver<ResponseLine>), ClientError> {
        let (sender, receiver) = oneshot::channel();
        let mut pending = lock(&self.waiting);
        if pending.closed {
            return Err(pending.why_closed());
        }
        pending.next_id += 1;
        let id = pending.next_id;
        pending.answers.insert(id, sender);
        Ok((id, receiver))
    }
}

/// Connects to the socket of a shim of this user.
///
/// # Errors
/// When nobody listens, or another user does.
pub async fn dial(socket: &Path) -> Result<UnixStream, ClientError> {
    let failed = |source| ClientError::Connect {
        path: socket.to_owned(),
        source,
    };
    let stream = UnixStream::connect(socket).await.map_err(failed)?;
    // The introduction holds the run's secret, which no other user is told.
    let own = nix::unistd::geteuid().as_raw();
    if stream.peer_cred().map_err(failed)?.uid() != own {
        return Err(failed(io::Error::other("another user serves it")));
    }
    Ok(stream)
}

impl Pending {
    fn why_closed(&self) -> ClientError {
        match &self.garbled {
            Some(what) => ClientError::Garbled { what: what.clone() },
            None => ClientError::Closed,
        }
    }
}

fn unexpected(wanted: &str, found: &Response) -> ClientError {
    let mut found = format!("{found:?}");
    found.truncate(found.floor_char_boundary(120));
    ClientError::Unexpected {
        what: format!("{found} instead of {wanted}"),
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Pending> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands each answer to whoever waits for it, until the connection ends.
async fn dispatch(read: Receiving, waiting: Waiting) {
    let mut lines = FramedRead::new(read, LinesCodec::new_with_max_length(ANSWER_BYTES));
    let mut garbled = None;
    while let Some(line) = lines.next().await {
        let line = match line {
            Ok(line) => line,
            // A connection that broke is no garble.
            Err(LinesCodecError::Io(error)) if error.kind() != io::ErrorKind::InvalidData => break,
            Err(error) => {
                garbled = Some(error.to_string());
                break;
            }
        };
        let line = match serde_json::from_str::<ResponseLine>(&line) {
            Ok(line) => line,
            Err(error) => {
                garbled = Some(error.to_string());
                break;
            }
        };
        let mut pending = lock(&waiting);
        match line.id {
            Some(id) => {
                if let Some(answer) = pending.answers.remove(&id) {
                    // The asker may have given up meanwhile.
                    let _ = answer.send(line);
                }
            }
            None => {
                // Not the answer to one request: the shim refuses the connection as a whole.
                for (_, answer) in pending.answers.drain() {
                    let _ = answer.send(line.clone());
                }
                break;
            }
        }
    }
    let mut pending = lock(&waiting);
    pending.closed = true;
    pending.garbled = garbled;
    pending.answers.clear();
}
