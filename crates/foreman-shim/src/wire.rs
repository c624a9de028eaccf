//! Framing of the runner protocol: JSON-RPC 2.0 envelopes, one a line, and why a shim refuses.

use crate::protocol::{Request, Response};
use serde::{Deserialize, Serialize};

/// Longest line that a shim reads before hello.
pub const HELLO_BYTES: usize = 4 << 10;
/// Longest line that a shim reads after hello (a whole policy is the largest).
pub const REQUEST_BYTES: usize = 4 << 20;
/// Longest line that a client reads (a page of events is the largest).
pub const ANSWER_BYTES: usize = 16 << 20;

/// The version tag of JSON-RPC: always `"2.0"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Version {
    /// The only one.
    #[default]
    #[serde(rename = "2.0")]
    V2,
}

/// A request on the wire.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RequestLine {
    /// JSON-RPC's version.
    pub jsonrpc: Version,
    /// Chosen by the client, repeated in the answer.
    pub id: u64,
    /// The request itself.
    #[serde(flatten)]
    pub request: Request,
}

/// An answer on the wire: `result` or `error`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ResponseLine {
    /// JSON-RPC's version.
    pub jsonrpc: Version,
    /// Of the request; absent when the request could not be read.
    pub id: Option<u64>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Response>,
    /// The refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

/// JSON-RPC's error object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RpcError {
    /// JSON-RPC's number.
    pub code: i32,
    /// What happened, as a sentence.
    pub message: String,
    /// The closed reason; clients switch on this.
    pub data: Refusal,
}

/// Closed list of reasons why a shim refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The line is not a request of this protocol, or is too long.
    Malformed,
    /// The first request was not hello, or hello named another run or nonce.
    NotIntroduced,
    /// A newer engine has introduced itself: this one is no longer in charge.
    Fenced,
    /// The policy given is not the one after the policy in force.
    Stale,
    /// No step with a terminal runs.
    NoTerminal,
    /// There is no such shell, or it has no terminal.
    NoShell,
    /// A shell can only be opened beside a setup or agent step, and none runs.
    NoStep,
    /// The program could not be started in the cage.
    NotStarted,
    /// That port is not published.
    NoPort,
    /// The port of this machine cannot be had.
    PortTaken,
    /// No agent that can be told something runs now.
    NotHeard,
    /// The run is over.
    Ended,
    /// Too many connections or requests at once.
    Busy,
    /// The journal cannot be written or read, so nothing was done.
    Disk,
}

impl Refusal {
    fn code(self) -> i32 {
        match self {
            Self::Malformed => -32600,
            Self::NotIntroduced => -32001,
            Self::Fenced => -32002,
            Self::Stale => -32003,
            Self::NoTerminal => -32004,
            Self::Ended => -32005,
            Self::Busy => -32006,
            Self::Disk => -32007,
            Self::NoShell => -32008,
            Self::NoStep => -32009,
            Self::NotStarted => -32010,
            Self::NoPort => -32011,
            Self::PortTaken => -32012,
            Self::NotHeard => -32013,
        }
    }

    /// The error object with this reason.
    pub fn says(self, message: impl Into<String>) -> RpcError {
        RpcError {
            code: self.code(),
            message: message.into(),
            data: self,
        }
    }
}

/// Compares secrets without telling by its duration where they differ. Lengths are not secret.
#[must_use]
pub(crate) fn equal_in_constant_time(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let difference = left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b));
    // Keeps the compiler from ending the fold early.
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::EventSeq;

    #[test]
    fn a_request_is_one_json_rpc_object() {
        let line = RequestLine {
            jsonrpc: Version::V2,
            id: 7,
            request: Request::Events {
                after: EventSeq(3),
                limit: 10,
                wait_ms: 0,
            },
        };
        let value = serde_json::to_value(&line).unwrap();
        let wanted = serde_json::json!({
            "jsonrpc": "2.0", "id": 7, "method": "events",
            "params": {"after": 3, "limit": 10, "wait_ms": 0}
        });
        assert_eq!(value, wanted);
        assert!(serde_json::from_value::<RequestLine>(value).is_ok());
    }

    #[test]
    fn answers_survive_text() {
        let line = ResponseLine {
            jsonrpc: Version::V2,
            id: Some(1),
            result: Some(Response::Events {
                events: vec![],
                ended: true,
            }),
            error: None,
        };
        let text = serde_json::to_string(&line).unwrap();
        assert!(
            serde_json::from_str::<ResponseLine>(&text)
                .unwrap()
                .result
                .is_some()
        );
    }

    #[test]
    fn another_version_is_refused() {
        let text = r#"{"jsonrpc":"1.0","id":1,"method":"stop","params":{"grace_ms":1}}"#;
        assert!(serde_json::from_str::<RequestLine>(text).is_err());
    }

    #[test]
    fn secrets_are_equal_only_when_every_byte_is() {
        assert!(equal_in_constant_time(b"abc", b"abc"));
        for other in [&b"abd"[..], b"ab", b"abcd", b""] {
            assert!(!equal_in_constant_time(b"abc", other));
        }
    }
}
