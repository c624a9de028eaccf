//! The drivers, each by what its real agent printed, and a fake one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod asking;
mod claude;
mod damaged;
mod recordings;

use foreman_agent::conformance::{CASES, Candidate};
use foreman_agent::{Conversation, Driver, LineMap, Wire, driver, profile};

/// A driver by its conversation and a recording.
pub(crate) struct Recorded {
    pub(crate) conversation: Conversation,
    pub(crate) recording: &'static [u8],
    pub(crate) piece: Option<fn(&str) -> String>,
}

impl Candidate for Recorded {
    fn driver(&self) -> Box<dyn Driver> {
        driver(&self.conversation)
    }

    fn recording(&self) -> &[u8] {
        self.recording
    }

    fn piece(&self, text: &str) -> Option<String> {
        self.piece.map(|piece| piece(text))
    }
}

pub(crate) fn conversation(agent: &str, wire: Wire) -> Conversation {
    Conversation {
        agent: agent.into(),
        wire,
        prompt: "do the job".into(),
        cwd: "/home/op/wt".into(),
        resume: None,
        mode: None,
        patience: None,
    }
}

pub(crate) fn of(agent: &str, recording: &'static [u8]) -> Recorded {
    Recorded {
        conversation: conversation(agent, profile(agent).unwrap().wire()),
        recording,
        piece: None,
    }
}

fn passes(candidate: &dyn Candidate) {
    let mut failed = Vec::new();
    for (name, case) in CASES {
        if let Err(broken) = case(candidate) {
            failed.push(format!("{name}: {broken}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn pi_conforms() {
    passes(&of(
        "pi",
        include_bytes!("../../recordings/pi-hello-then-curl.jsonl"),
    ));
}

#[test]
fn codex_conforms() {
    passes(&of(
        "codex",
        include_bytes!("../../recordings/codex-hello-then-curl.jsonl"),
    ));
}

#[test]
fn gemini_conforms() {
    passes(&of(
        "gemini",
        include_bytes!("../../recordings/gemini-hello-then-curl.jsonl"),
    ));
}

#[test]
fn qwen_conforms() {
    passes(&of(
        "qwen",
        include_bytes!("../../recordings/qwen-hello-then-curl.jsonl"),
    ));
}

#[test]
fn acp_conforms() {
    let piece = |text: &str| {
        let update = serde_json::json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        serde_json::json!({"jsonrpc": "2.0", "method": "session/update", "params": {"update": update}}).to_string()
    };
    let mut candidate = of(
        "opencode",
        include_bytes!("../../recordings/opencode-hello-then-curl.jsonl"),
    );
    candidate.piece = Some(piece);
    passes(&candidate);
}

/// Written by hand after what was seen of it: nobody may hand on what it prints itself.
#[test]
fn claude_conforms() {
    passes(&of(
        "claude",
        include_bytes!("../../recordings/claude-by-hand.jsonl"),
    ));
}

/// The smallest map there can be: what the suite itself is tried with.
#[test]
fn a_fake_agent_conforms() {
    let map: LineMap = serde_json::from_value(serde_json::json!({
        "name": "type",
        "rules": [
            {"when": {"type": "hello"}, "emit": "session", "session": "id"},
            {"when": {"type": "say"}, "emit": "message", "text": "text", "delta": true},
            {"when": {"type": "call"}, "emit": "tool_started", "call": "id", "tool": "tool", "arguments": "args"},
            {"when": {"type": "gave"}, "emit": "tool_ended", "call": "id", "result": "result"},
            {"when": {"type": "used"}, "emit": "usage", "input": "in", "output": "out"},
            {"when": {"type": "bye"}, "emit": "ended"},
        ],
    }))
    .unwrap();
    let recording = br#"{"type":"hello","id":"s1"}
{"type":"say","text":"I look at it."}
{"type":"call","id":"c1","tool":"sh","args":{"command":"ls"}}
{"type":"gave","id":"c1","result":"a b"}
{"type":"used","in":10,"out":2}
{"type":"say","text":"Done."}
{"type":"say","text":" All of it."}
{"type":"say","text":" Really."}
{"type":"say","text":" Yes."}
{"type":"say","text":" Bye."}
{"type":"bye"}
"#;
    let candidate = Recorded {
        conversation: conversation("fake", Wire::Lines { map }),
        recording,
        piece: Some(|text| serde_json::json!({"type": "say", "text": text}).to_string()),
    };
    passes(&candidate);
}
