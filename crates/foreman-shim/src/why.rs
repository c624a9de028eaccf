//! `foreman why`: what a run's agent may know about what was stopped, and the question it asks.
//!
//! One verb, read-only, about the own run only. Both sides bound what they read and how long they
//! wait. The answer is data; its words are made here, so that agent and operator read the same.

use foreman_domain::{At, BlockId, Host, Protocol, RunId, Subject};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Where the socket is inside a cage.
pub const SOCKET: &str = "/run/foreman/why.sock";
/// The one verb.
pub const VERB: &str = "why\n";
/// Longest answer.
pub const ANSWER_BYTES: usize = 64 << 10;
/// Longest wait, on both sides.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyAnswer {
    /// Version of this structure.
    pub v: u8,
    /// The own run.
    pub run: RunId,
    /// Newest first, at most twenty.
    pub stopped: Vec<Stopped>,
}

/// Something that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// `host:port`.
    pub destination: String,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Where it stands.
    pub status: Status,
    /// How often it was tried.
    pub count: u64,
    /// When it was tried last.
    pub last_at: At,
    /// Which rule stopped it, in words.
    pub why: String,
    /// What the operator wants the agent to know; absent when nothing was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do.
    pub advice: String,
    /// The operator's card, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockId>,
}

/// Where something that was stopped stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for the operator right now.
    Waiting,
    /// It gave up before the operator decided.
    GaveUp,
    /// The operator allowed it meanwhile.
    Allowed,
    /// The operator denied it.
    Denied,
    /// Nobody attends this run, so it was refused at once.
    RefusedUnattended,
    /// No operator can open this.
    RefusedAlways,
}

impl Status {
    /// What the agent should do, as a sentence.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Self::Waiting => {
                "It waits for the operator, who can allow it; leave it waiting, or try again later."
            }
            Self::GaveUp => "It was not denied: the operator can allow it; try again later.",
            Self::Allowed => "The operator allowed it; try again.",
            Self::Denied => "The operator denied it; do without it.",
            Self::RefusedUnattended => {
                "Nobody attends this run, so it was refused at once; the operator can allow it for \
                 another run. Do without it."
            }
            Self::RefusedAlways => "No rule can open this; do without it.",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Waiting => "waiting for the operator",
            Self::GaveUp => "gave up waiting for the operator",
            Self::Allowed => "allowed meanwhile",
            Self::Denied => "denied by the operator",
            Self::RefusedUnattended => "refused: nobody attends this run",
            Self::RefusedAlways => "refused: never reachable from here",
        }
    }
}

/// `host:port` and the protocol of a subject.
#[must_use]
pub fn destination(subject: &Subject) -> (String, Protocol) {
    let Subject::Egress {
        protocol,
        host,
        port,
        resolved,
    } = subject;
    let host = match host {
        Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        host => host.to_string(),
    };
    let at = resolved
        .map(|address| format!(" at {address}"))
        .unwrap_or_default();
    (format!("{host}:{port}{at}"), *protocol)
}

impl WhyAnswer {
    /// The answer in words, one thing a line with its details indented under it.
    #[must_use]
    pub fn words(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::new();
        if self.stopped.is_empty() {
            let _ = writeln!(out, "Nothing of run {} has been stopped.", self.run);
            return out;
        }
        let _ = writeln!(
            out,
            "Stopped on the way out of run {}, newest first:",
            self.run
        );
        for stopped in &self.stopped {
            let udp = if stopped.protocol == Protocol::Udp {
                "UDP "
            } else {
                ""
            };
            let times = if stopped.count == 1 {
                String::new()
            } else {
                format!(" (tried {} times)", stopped.count)
            };
            let (to, status) = (&stopped.destination, stopped.status.words());
            let _ = writeln!(out, "  {udp}{to}: {status}{times}");
            let _ = writeln!(out, "    why: {}", stopped.why);
            if let Some(reason) = &stopped.reason {
                let _ = writeln!(out, "    the operator says: {reason}");
            }
            let _ = writeln!(out, "    {}", stopped.advice);
        }
        out
    }
}

/// Why the question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// No socket, or nobody at its end.
    #[error("could not ask this run's supervisor at {path}; this works inside a cage only")]
    Ask {
        /// The socket.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The answer was not understood.
    #[error("this run's supervisor answered something unexpected; try again")]
    Answer {
        /// Why.
        source: serde_json::Error,
    },
}

/// Asks the supervisor of the own run; from inside a cage.
///
/// # Errors
/// When nobody answers in time, or the answer is not one.
pub fn ask(socket: &Path) -> Result<WhyAnswer, WhyError> {
    let exchange = || -> std::io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(VERB.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES as u64).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = exchange().map_err(|source| WhyError::Ask {
        path: socket.to_owned(),
        source,
    })?;
    serde_json::from_slice(&answer).map_err(|source| WhyError::Answer { source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_name_host_and_run_and_say_what_the_operator_can_do() {
        let answer = WhyAnswer {
            v: 1,
            run: RunId::from_random(3),
            stopped: vec![Stopped {
                destination: "registry.example:443".into(),
                protocol: Protocol::Tcp,
                status: Status::GaveUp,
                count: 3,
                last_at: At::from_millis(0),
                why: "No rule allows registry.example:443".into(),
                reason: None,
                advice: Status::GaveUp.advice().into(),
                block: None,
            }],
        };
        let words = answer.words();
        assert!(
            words.contains("registry.example:443: gave up waiting"),
            "{words}"
        );
        assert!(
            words.contains("the operator can allow it; try again later"),
            "{words}"
        );
        assert!(
            words.contains(answer.run.as_str()) && words.contains("tried 3 times"),
            "{words}"
        );
    }
}
