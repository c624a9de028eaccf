//! `foreman why`: what a run's agent may know about what was stopped, and the question it asks.
//!
//! One verb, read-only, about the own run only. Both sides bound what they read and how long they
//! wait. The answer is data; its words are made here, so that agent and operator read the same.

use foreman_domain::{At, BlockId, Decider, FileAccess, Protocol, RunId, Subject};
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

/// What the agent of a run without any network is told.
pub const NO_NETWORK: &str = "This run has no network: every connection and every look-up of a name \
    fails at once, nobody is asked, and nobody can allow it during this run. Do without it, and say in \
    your result that it was needed.";

/// The answer. Its keys, those of [`Item`] and the states are a promise to harnesses: they are described
/// in `docs/cage-why.md`, and more may be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyAnswer {
    /// Version of this structure.
    pub v: u8,
    /// The own run.
    pub run: RunId,
    /// Only in a run without any network: a sentence that says so, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Newest first, at most twenty.
    pub items: Vec<Item>,
}

/// Something that was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// What was tried: `tcp registry.example:443`.
    pub subject: String,
    /// Where it stands.
    pub state: Status,
    /// What stopped it, as a sentence; the operator's own words are in it.
    pub why: String,
    /// What to do, as one or two sentences.
    pub hint: String,
    /// When it was tried last.
    pub at: At,
    /// How often it was tried.
    pub count: u64,
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
    /// Nobody answered within the run's limit.
    Expired,
    /// The operator allowed it meanwhile.
    Allowed,
    /// The operator denied it.
    Denied,
    /// Nobody attends this run, so it was refused at once.
    RefusedUnattended,
    /// No operator can open this.
    RefusedAlways,
    /// So much was stopped already that this was refused without a card.
    TooMany,
    /// The profile of the run's agent refuses it: telemetry and the like.
    NotNeeded,
}

impl Status {
    /// Of what this one refused.
    #[must_use]
    pub fn of(by: Decider) -> Self {
        match by {
            Decider::Operator => Self::Denied,
            Decider::Unattended => Self::RefusedUnattended,
            Decider::Floor => Self::RefusedAlways,
            Decider::Limit => Self::Expired,
            Decider::Profile => Self::NotNeeded,
        }
    }

    /// What the agent should do, as sentences. `reason` is what the operator said; may be empty.
    #[must_use]
    pub fn hint(self, subject: &Subject, reason: &str) -> String {
        let words = match self {
            Self::Waiting => {
                "The operator can allow it; leave it waiting, and it goes on by itself then. \
                 If it gives up, try again later."
            }
            Self::GaveUp => {
                "It was not denied: the operator can allow it; try again later, and do something \
                 else meanwhile."
            }
            Self::Expired => {
                "It was not denied: nobody answered in time, so it is refused until the operator \
                 allows it. Do something else, and say in your result that it was needed."
            }
            Self::Allowed => "The operator allowed it; try again now.",
            Self::Denied if reason.is_empty() => "Trying again changes nothing; do without it.",
            Self::Denied => "Trying again changes nothing; do as the operator says.",
            Self::RefusedUnattended => {
                "Nobody can allow it during this run, so trying again changes nothing. Do without \
                 it, and say in your result that it was needed: the operator can allow it for the \
                 next run."
            }
            Self::RefusedAlways => match subject {
                Subject::Egress {
                    protocol: Protocol::Udp,
                    port: 443,
                    ..
                } => "Use TCP to the same host instead; that can be allowed.",
                Subject::Egress { port: 53 | 853, .. } => {
                    "Use the resolver that /etc/resolv.conf names instead."
                }
                Subject::File {
                    access: FileAccess::Write,
                    ..
                } => {
                    "Neither a rule nor the operator can open it; write inside your working \
                     directory instead."
                }
                Subject::Egress { .. }
                | Subject::File { .. }
                | Subject::Socket { .. }
                | Subject::Bound { .. }
                | Subject::Question { .. } => {
                    "Neither a rule nor the operator can open it; do without it."
                }
            },
            Self::NotNeeded => {
                "Do without it: nobody is asked about this. The operator can allow it from the start of a run."
            }
            Self::TooMany => {
                "Try nothing new for now; the operator has to decide about what was stopped \
                 before. Then try again."
            }
        };
        words.to_owned()
    }

    fn words(self) -> &'static str {
        match self {
            Self::Waiting => "waiting for the operator",
            Self::GaveUp => "gave up waiting for the operator",
            Self::Expired => "given up: nobody answered within this run's limit",
            Self::Allowed => "allowed meanwhile",
            Self::Denied => "denied by the operator",
            Self::RefusedUnattended => "refused: nobody attends this run",
            Self::RefusedAlways => "refused: never reachable from here",
            Self::TooMany => "refused: too much was stopped already",
            Self::NotNeeded => "refused: the agent does without it",
        }
    }
}

impl WhyAnswer {
    /// The answer in words, one thing a line with its details indented under it.
    #[must_use]
    pub fn words(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::new();
        if let Some(network) = &self.network {
            let _ = writeln!(out, "{network}");
        }
        if self.items.is_empty() && self.network.is_some() {
            return out;
        }
        if self.items.is_empty() {
            let _ = writeln!(out, "Nothing of run {} has been stopped.", self.run);
            return out;
        }
        let run = &self.run;
        let _ = writeln!(out, "Stopped on the way out of run {run}, newest first:");
        for item in &self.items {
            let times = if item.count == 1 {
                String::new()
            } else {
                format!(" (tried {} times)", item.count)
            };
            let _ = writeln!(out, "  {}: {}{times}", item.subject, item.state.words());
            let _ = writeln!(out, "    why: {}.", item.why.trim_end_matches('.'));
            let _ = writeln!(out, "    to do: {}", item.hint);
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
    use foreman_domain::Host;
    use std::collections::HashSet;

    fn subject(protocol: Protocol, port: u16) -> Subject {
        Subject::Egress {
            protocol,
            host: Host::Name("registry.example".into()),
            port,
            resolved: None,
        }
    }

    const ALL: [Status; 8] = [
        Status::Waiting,
        Status::GaveUp,
        Status::Expired,
        Status::Allowed,
        Status::Denied,
        Status::RefusedUnattended,
        Status::RefusedAlways,
        Status::TooMany,
    ];

    fn answer(state: Status) -> WhyAnswer {
        let subject = subject(Protocol::Tcp, 443);
        let item = Item {
            subject: subject.to_string(),
            state,
            why: "No rule allows registry.example:443".into(),
            hint: state.hint(&subject, ""),
            at: At::from_millis(0),
            count: 3,
            block: None,
        };
        WhyAnswer {
            v: 1,
            run: RunId::from_random(3),
            network: None,
            items: vec![item],
        }
    }

    #[test]
    fn the_words_name_host_and_run_and_say_what_the_operator_can_do() {
        let answer = answer(Status::GaveUp);
        let words = answer.words();
        for wanted in [
            "registry.example:443: gave up waiting",
            "the operator can allow it; try again later",
            "tried 3 times",
            answer.run.as_str(),
        ] {
            assert!(words.contains(wanted), "{words}");
        }
    }

    #[test]
    fn a_run_without_a_network_says_so_and_nothing_else() {
        let answer = WhyAnswer {
            network: Some(NO_NETWORK.to_owned()),
            items: vec![],
            ..answer(Status::Waiting)
        };
        assert_eq!(answer.words(), format!("{NO_NETWORK}\n"));
    }

    #[test]
    fn each_state_has_sentences_of_its_own_and_ends_in_what_to_do() {
        let mut seen = HashSet::new();
        for state in ALL {
            let words = answer(state).words();
            let last = words.lines().last().unwrap().to_owned();
            assert!(
                last.starts_with("    to do: ") && last.ends_with('.'),
                "{words}"
            );
            assert!(seen.insert(last), "{words}");
            assert!(seen.insert(state.words().to_owned()));
        }
    }

    #[test]
    fn what_only_has_another_way_names_that_way() {
        let hint = |protocol, port| Status::RefusedAlways.hint(&subject(protocol, port), "");
        assert!(hint(Protocol::Udp, 443).contains("TCP"));
        assert!(hint(Protocol::Udp, 53).contains("resolv.conf"));
        assert!(hint(Protocol::Udp, 853).contains("resolv.conf"));
        assert!(hint(Protocol::Tcp, 443).contains("do without it"));
    }

    /// The page for harness authors holds this very text.
    #[test]
    fn the_keys_are_those_that_are_promised() {
        let mut answer = answer(Status::Waiting);
        answer.items[0].block = Some(BlockId::new(answer.run.clone(), 1));
        answer.network = Some(NO_NETWORK.to_owned());
        let value = serde_json::to_value(&answer).unwrap();
        let keys = |value: &serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(keys(&value), ["items", "network", "run", "v"]);
        assert_eq!(
            keys(&value["items"][0]),
            ["at", "block", "count", "hint", "state", "subject", "why"]
        );
        assert_eq!(value["items"][0]["at"], "1970-01-01T00:00:00Z");
        let page = include_str!("../../../docs/cage-why.md");
        for key in keys(&value).iter().chain(&keys(&value["items"][0])) {
            assert!(page.contains(&format!("`{key}`")), "{key} is not described");
        }
        for state in ALL {
            let state = serde_json::to_value(state).unwrap();
            let state = state.as_str().unwrap();
            assert!(
                page.contains(&format!("`{state}`")),
                "{state} is not described"
            );
        }
    }
}
