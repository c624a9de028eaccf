//! The engine's end: accepts, checks who it is, answers.

use super::wire::{Greeting, REQUEST_BYTES, RequestLine, ResponseLine, Welcome};
use crate::api::dispatch;
use crate::control::is_waiting;
use crate::engine::{Engine, Session};
use crate::layout::unusable;
use foreman_domain::{Code, Failure, WIRE_VERSION};
use foreman_store::RequestKey;
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::codec::{Framed, LinesCodec, LinesCodecError};

/// Connections at one time; the next one is told so and closed.
const CONNECTIONS: usize = 128;
/// Longest wait for a caller that does not read its answer.
const WRITING: Duration = Duration::from_secs(30);
/// Pause after the system refused to accept (out of descriptors), so that this does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
type Lines = Framed<UnixStream, LinesCodec>;

/// A bound control socket.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
}

impl Server {
    /// Makes the socket; one that an ended engine left is replaced. The caller holds the lock.
    pub fn bind(path: &Path) -> Result<Self, Failure> {
        let fail = |error| unusable("the control socket", path, &error);
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail(error)),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(fail)?;
        // The directory is private already; this says it of the socket, too.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
        Ok(Self { listener })
    }

    /// Answers until hosting ends.
    pub async fn serve(self, engine: Arc<Engine>) {
        let free = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = engine.cancel.cancelled() => return,
            };
            match accepted {
                Ok((stream, _)) => {
                    let place = Arc::clone(&free).try_acquire_owned().ok();
                    engine
                        .tasks
                        .spawn(connection(Arc::clone(&engine), stream, place));
                }
                Err(error) => {
                    tracing::warn!(%error, "the control socket could not accept");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn connection(engine: Arc<Engine>, stream: UnixStream, place: Option<OwnedSemaphorePermit>) {
    let me = nix::unistd::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == me => {}
        Ok(_) | Err(_) => return,
    }
    let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(REQUEST_BYTES));
    if place.is_none() {
        let failure = Failure::new(Code::Busy, "the engine has too many connections")
            .hint("Close some of the other clients and try again.");
        send(&mut lines, &ResponseLine::new(None, Err(failure))).await;
        return;
    }
    let greeting = Greeting {
        jsonrpc: "2.0".into(),
        method: "welcome".into(),
        params: Welcome {
            v: WIRE_VERSION,
            pid: std::process::id(),
            epoch: engine.epoch,
        },
    };
    if !send(&mut lines, &greeting).await {
        return;
    }
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = engine.cancel.cancelled() => return,
        };
        let answer = match line {
            None => return,
            Some(Ok(line)) => match answer(&engine, &line).await {
                Some(answer) => answer,
                None => return,
            },
            Some(Err(error)) => {
                let too_long = matches!(error, LinesCodecError::MaxLineLengthExceeded);
                let what = if too_long {
                    "a request is too long"
                } else {
                    "a request is not text"
                };
                send(
                    &mut lines,
                    &ResponseLine::new(None, Err(Failure::new(Code::Usage, what))),
                )
                .await;
                return;
            }
        };
        if !send(&mut lines, &answer).await {
            return;
        }
    }
}

/// The answer to one line; `None` when hosting ends and the caller shall ask the next engine.
async fn answer(engine: &Arc<Engine>, line: &str) -> Option<ResponseLine> {
    let request: RequestLine = match serde_json::from_str(line) {
        Ok(request) => request,
        Err(error) => {
            let failure = Failure::new(Code::Usage, format!("a request does not parse: {error}"));
            return Some(ResponseLine::new(None, Err(failure)));
        }
    };
    if request.jsonrpc != "2.0" || request.id.is_empty() || request.id.len() > 128 {
        let failure = Failure::new(
            Code::Usage,
            "a request must be JSON-RPC 2.0 with an id of 1 to 128 bytes of text",
        );
        return Some(ResponseLine::new(None, Err(failure)));
    }
    let params = match request.params {
        Value::Null => Value::Object(serde_json::Map::new()),
        params => params,
    };
    let key = RequestKey(request.id.clone());
    let session = Session {
        engine: Arc::clone(engine),
        key,
    };
    let answering = dispatch(&session, &request.method, params);
    let answer = if is_waiting(&request.method) {
        tokio::select! {
            answer = answering => answer,
            () = engine.cancel.cancelled() => return None,
        }
    } else {
        answering.await
    };
    Some(ResponseLine::new(Some(request.id), answer))
}

/// Sends a line; false when the connection is of no use any more.
async fn send<T: serde::Serialize>(lines: &mut Lines, line: &T) -> bool {
    let Ok(text) = serde_json::to_string(line) else {
        return false;
    };
    matches!(
        tokio::time::timeout(WRITING, lines.send(text)).await,
        Ok(Ok(()))
    )
}
