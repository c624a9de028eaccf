//! The lines on the control socket.

use foreman_domain::{Epoch, Failure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest request: a policy file and a command line are the largest things in one.
pub(super) const REQUEST_BYTES: usize = 4 << 20;
/// Longest answer: a diff is the largest.
pub(super) const ANSWER_BYTES: usize = 64 << 20;

/// JSON-RPC's number for an answer that is a refusal; the closed code is in its data.
pub(super) const REFUSED: i32 = -32000;

/// First line of a connection, from the server.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub jsonrpc: String,
    pub method: String,
    pub params: Welcome,
}

/// Who answers.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Welcome {
    pub v: u8,
    pub pid: u32,
    pub epoch: Epoch,
}

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestLine {
    pub jsonrpc: String,
    pub id: String,
    pub method: String,
    #[serde(default)]
    pub params: Value,
}

/// An answer: `result` or `error`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ResponseLine {
    pub jsonrpc: String,
    pub id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

/// JSON-RPC's error object.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RpcError {
    pub code: i32,
    pub message: String,
    pub data: Failure,
}

impl ResponseLine {
    pub fn new(id: Option<String>, answer: Result<Value, Failure>) -> Self {
        let jsonrpc = "2.0".to_owned();
        match answer {
            Ok(result) => Self {
                jsonrpc,
                id,
                result: Some(result),
                error: None,
            },
            Err(failure) => {
                let message = failure.message.clone();
                let error = RpcError {
                    code: REFUSED,
                    message,
                    data: failure,
                };
                Self {
                    jsonrpc,
                    id,
                    result: None,
                    error: Some(error),
                }
            }
        }
    }
}
