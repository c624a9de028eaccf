//! The engine's end of a conversation with a station.

use super::dial::{Dial, Dialled, Said};
use crate::port::{Line, RunnerError};
use foreman_domain::RunId;
use foreman_shim::station::{
    Answer, Answered, BUNDLE_BYTES, LINE_BYTES, Offer, Reason, Request, RequestLine, VERSION,
};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::fs::File;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf,
};
use tokio::time::timeout;

/// Longest wait for a pipe, for an answer, and for the next bytes of a file.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for a shim to have started, once its repository is there.
const START: Duration = Duration::from_secs(300);
/// Bytes of one write.
pub(super) const BUFFER: usize = 64 << 10;
/// Longest piece of what came that is quoted.
const QUOTED: usize = 80;

/// One conversation. Every refusal of a station is the answer to one question; the conversation may go on.
pub(super) struct Conversation {
    place: String,
    read: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    write: Box<dyn AsyncWrite + Send + Unpin>,
    carrier: Box<dyn Send + Sync>,
    said: Said,
}

impl Conversation {
    pub async fn begin(dial: &dyn Dial) -> Result<Self, RunnerError> {
        let place = dial.place().to_owned();
        let dialled = match timeout(PATIENCE, dial.dial()).await {
            Ok(Ok(dialled)) => dialled,
            Ok(Err(source)) => return Err(RunnerError::Dial { place, source }),
            Err(_) => return Err(RunnerError::Silent { place }),
        };
        let Dialled {
            read,
            write,
            carrier,
            said,
        } = dialled;
        Ok(Self {
            place,
            read: BufReader::with_capacity(BUFFER, read),
            write,
            carrier,
            said,
        })
    }

    /// Asks and waits for the answer.
    pub async fn ask(&mut self, request: Request) -> Result<Answer, RunnerError> {
        self.say(request).await?;
        self.answer(PATIENCE).await
    }

    /// Sends a run and its repository, and waits until its shim has started.
    pub async fn start(&mut self, offer: Offer, bundle: &Path) -> Result<Answer, RunnerError> {
        let failed = |source| RunnerError::File {
            doing: "read",
            path: bundle.to_owned(),
            source,
        };
        let file = File::open(bundle).await.map_err(failed)?;
        let size = file.metadata().await.map_err(failed)?.len();
        if size > BUNDLE_BYTES {
            return Err(RunnerError::Unsupported {
                place: self.place.clone(),
                why: "its repository is larger than 8 GiB",
            });
        }
        let offer = Box::new(offer);
        self.say(Request::Start {
            offer,
            bundle: size,
        })
        .await?;
        let mut rest = file.take(size);
        let mut buffer = vec![0; BUFFER];
        let mut left = size;
        while left > 0 {
            let count = rest.read(&mut buffer).await.map_err(failed)?;
            if count == 0 {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            let sent = self.send(buffer.get(..count).unwrap_or_default()).await;
            if let Err(error) = sent {
                // A station that refused meanwhile has said so.
                return Err(match self.answer(Duration::from_secs(5)).await {
                    Err(refused @ RunnerError::Refused { .. }) => refused,
                    _ => error,
                });
            }
            left -= count as u64;
        }
        self.answer(START).await
    }

    /// Makes the pipe a line to a run's shim.
    pub async fn attach(mut self, run: RunId) -> Result<Line, RunnerError> {
        match self.ask(Request::Attach { run }).await? {
            Answer::Attached => {
                let Self {
                    read,
                    write,
                    carrier,
                    ..
                } = self;
                Ok(Line {
                    read: Box::new(Carried {
                        of: read,
                        _carrier: carrier,
                    }),
                    write,
                })
            }
            other => Err(self.garbled(format!("the answer {other:?} to attach"))),
        }
    }

    /// The next bytes of what an answer said would follow, of which `left` are still to come.
    pub async fn piece<'b>(
        &mut self,
        left: u64,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], RunnerError> {
        let most = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let window = buffer.get_mut(..most).unwrap_or_default();
        match timeout(PATIENCE, self.read.read(window)).await {
            Ok(Ok(0)) => Err(self.broken("it ended in the middle of a file")),
            Ok(Ok(count)) => Ok(buffer.get(..count).unwrap_or_default()),
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.silent()),
        }
    }

    /// What came is not of this conversation.
    pub fn garbled(&self, what: String) -> RunnerError {
        let place = self.place.clone();
        RunnerError::Garbled { place, what }
    }

    async fn say(&mut self, request: Request) -> Result<(), RunnerError> {
        let line = RequestLine {
            v: VERSION,
            request,
        };
        let mut text =
            serde_json::to_vec(&line).map_err(|error| self.garbled(error.to_string()))?;
        if text.len() > LINE_BYTES {
            return Err(RunnerError::Unsupported {
                place: self.place.clone(),
                why: "its policy and commands are longer than 4 MiB",
            });
        }
        text.push(b'\n');
        self.send(&text).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), RunnerError> {
        let sending = async {
            self.write.write_all(bytes).await?;
            self.write.flush().await
        };
        match timeout(PATIENCE, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.broken(&error.to_string())),
            Err(_) => Err(self.silent()),
        }
    }

    async fn answer(&mut self, patience: Duration) -> Result<Answer, RunnerError> {
        let mut line = Vec::new();
        let mut bounded = (&mut self.read).take(LINE_BYTES as u64 + 1);
        let read = timeout(patience, bounded.read_until(b'\n', &mut line)).await;
        match read {
            Err(_) => return Err(self.silent()),
            Ok(Err(error)) => return Err(self.broken(&error.to_string())),
            Ok(Ok(0)) => return Err(self.broken("it ended without an answer")),
            Ok(Ok(_)) => {}
        }
        let answered = match line.pop() {
            Some(b'\n') => serde_json::from_slice::<Answered>(&line),
            _ => return Err(self.garbled(format!("{} is no line", quoted(&line)))),
        };
        match answered {
            Ok(Answered { v, .. }) if v != VERSION => {
                Err(self.garbled(format!("version {v} of the conversation")))
            }
            Ok(Answered {
                answer: Some(answer),
                refused: None,
                ..
            }) => Ok(answer),
            Ok(Answered {
                answer: None,
                refused: Some(refused),
                ..
            }) => Err(RunnerError::Refused {
                place: self.place.clone(),
                reason: refused.reason,
                message: foreman_domain::sanitize_line(&refused.message),
            }),
            Ok(_) => Err(self.garbled("neither an answer nor a refusal".to_owned())),
            Err(_) => Err(self.garbled(format!("the line {}", quoted(&line)))),
        }
    }

    fn silent(&self) -> RunnerError {
        let place = self.place.clone();
        RunnerError::Silent { place }
    }

    fn broken(&self, why: &str) -> RunnerError {
        RunnerError::Broken {
            place: self.place.clone(),
            said: self.said.last_line().unwrap_or_else(|| why.to_owned()),
        }
    }
}

/// True for a refusal because of this.
pub(super) fn is_refused(error: &RunnerError, wanted: Reason) -> bool {
    matches!(error, RunnerError::Refused { reason, .. } if *reason == wanted)
}

fn quoted(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.get(..QUOTED).unwrap_or(line)).into_owned();
    format!("\"{}\"", foreman_domain::sanitize_line(&text))
}

/// A reader that keeps what carries it.
struct Carried<R> {
    of: R,
    _carrier: Box<dyn Send + Sync>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Carried<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.of).poll_read(context, buffer)
    }
}
