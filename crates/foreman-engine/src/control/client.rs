//! The caller's end: one connection a call, so that a dropped call ends with its connection.

use super::wire::{ANSWER_BYTES, Greeting, RequestLine, ResponseLine};
use foreman_domain::{Code, Failure};
use foreman_store::RequestKey;
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio_util::codec::{Framed, LinesCodec};

/// Longest wait for the greeting of an engine that is up.
const GREETING: Duration = Duration::from_secs(5);

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The engine is gone, or went away before it answered: ask the next one.
    Gone {
        /// True when it may have begun to do what was asked.
        asked: bool,
    },
    /// It answered no.
    Refused(Failure),
}

const GONE: CallError = CallError::Gone { asked: false };
const GONE_AFTER: CallError = CallError::Gone { asked: true };

/// The engine of another process.
#[derive(Debug)]
pub(crate) struct Client {
    socket: PathBuf,
}

impl Client {
    /// Joins the engine that listens there.
    pub async fn join(socket: &Path) -> Result<Self, CallError> {
        let client = Self {
            socket: socket.to_owned(),
        };
        client.connect().await?;
        Ok(client)
    }

    /// Waits until the engine ends, or cannot be reached any more.
    pub async fn until_it_ends(&self) {
        if let Ok(mut lines) = self.connect().await {
            while let Some(Ok(_)) = lines.next().await {}
        }
    }

    /// Asks, and waits for the answer.
    pub async fn call(
        &self,
        key: &RequestKey,
        name: &str,
        params: &Value,
    ) -> Result<Value, CallError> {
        let mut lines = self.connect().await?;
        let request = RequestLine {
            jsonrpc: "2.0".into(),
            id: key.0.clone(),
            method: name.into(),
            params: params.clone(),
        };
        let text = serde_json::to_string(&request).map_err(internal)?;
        lines.send(text).await.map_err(|_| GONE_AFTER)?;
        let Some(Ok(line)) = lines.next().await else {
            return Err(GONE_AFTER);
        };
        let answer: ResponseLine = serde_json::from_str(&line).map_err(internal)?;
        match (answer.result, answer.error) {
            (_, Some(error)) => Err(CallError::Refused(error.data)),
            (result, None) => Ok(result.unwrap_or_default()),
        }
    }

    async fn connect(&self) -> Result<Framed<UnixStream, LinesCodec>, CallError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|_| GONE)?;
        let peer = stream.peer_cred().map_err(|_| GONE)?;
        if peer.uid() != nix::unistd::geteuid().as_raw() {
            return Err(CallError::Refused(Failure::new(
                Code::Environment,
                format!("{} is served by another user", self.socket.display()),
            )));
        }
        let mut lines = Framed::new(stream, LinesCodec::new_with_max_length(ANSWER_BYTES));
        let greeting = tokio::time::timeout(GREETING, lines.next()).await;
        let Ok(Some(Ok(line))) = greeting else {
            return Err(GONE);
        };
        match serde_json::from_str::<Greeting>(&line) {
            Ok(_) => Ok(lines),
            Err(_) => refusal_instead(&line),
        }
    }
}

/// A server with too many connections refuses where the greeting is expected.
fn refusal_instead<T>(line: &str) -> Result<T, CallError> {
    let answer: ResponseLine = serde_json::from_str(line).map_err(internal)?;
    Err(answer
        .error
        .map_or(GONE, |error| CallError::Refused(error.data)))
}

fn internal(error: serde_json::Error) -> CallError {
    CallError::Refused(Failure::new(
        Code::Internal,
        format!("the engine and this program do not understand each other: {error}"),
    ))
}
