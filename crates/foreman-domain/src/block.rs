//! Blocks (held or refused subjects), the holds under them, and the decisions that end them.

use crate::{
    AmendmentId, At, BlockId, Breach, FileFacts, HoldId, PathText, QuestionFacts, Revision,
    SocketFacts,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// Transport protocol of an egress action.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

/// What a call on a file or folder wants of it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum FileAccess {
    /// To look into it, or to execute it.
    Read,
    /// To change it, or what a folder lists. Covers reading.
    Write,
}

impl fmt::Display for FileAccess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// Whom an action addresses: the name that the cage looked up, or a bare address.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// Canonical host name: lower case, punycode, no trailing dot.
    Name(String),
    /// An address that the cage used without looking up a name. Never inherits a name's rule.
    Address(
        #[schemars(with = "String")]
        #[specta(type = String)]
        IpAddr,
    ),
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Address(address) => address.fmt(out),
        }
    }
}

/// Something of which a run may use up only so much.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum BoundKind {
    /// Time since its first step.
    Wall,
    /// Processor time.
    Cpu,
    /// Memory of its processes and of its files in memory.
    Memory,
    /// Processes and threads at one time.
    Processes,
    /// What it writes to the disk.
    Disk,
    /// What its steps say.
    Output,
    /// Files open at one time.
    OpenFiles,
    /// Tokens that its agent reads and writes, by the agent's own count.
    Tokens,
    /// What its agent costs, by the agent's own count.
    Cost,
    /// Prompts and tool calls of its agent.
    Turns,
}

impl BoundKind {
    /// Whether a run is paused at it and goes on once it is raised. Beyond the others the kernel refuses
    /// more to a run that goes on, and a limit of a process cannot be set higher: raising one is for later runs.
    #[must_use]
    pub fn is_raised_live(self) -> bool {
        match self {
            Self::Wall | Self::Cpu | Self::Memory | Self::Disk | Self::Output => true,
            Self::Tokens | Self::Cost | Self::Turns => true,
            Self::Processes | Self::OpenFiles => false,
        }
    }
}

impl fmt::Display for BoundKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Wall => "wall time",
            Self::Cpu => "processor time",
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Disk => "disk",
            Self::Output => "output",
            Self::OpenFiles => "open files",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::Turns => "turns",
        })
    }
}

/// What was held or refused. Holds with an equal subject are one block; for files, those of one access in
/// one folder.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Subject {
    /// A connection or a datagram that leaves the cage.
    Egress {
        /// TCP or UDP.
        protocol: Protocol,
        /// Name or address.
        host: Host,
        /// Destination port.
        port: u16,
        /// Set when the name is allowed but resolves to this private address, which needs a rule of
        /// its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        #[specta(type = Option<String>)]
        resolved: Option<IpAddr>,
    },
    /// A file or folder outside of what the run may see or write.
    File {
        /// What was wanted.
        access: FileAccess,
        /// Where, without links: the same place on the host and in the cage.
        path: PathText,
    },
    /// A connection to a Unix socket of the host.
    Socket {
        /// Where, without links.
        path: PathText,
    },
    /// A bound that was reached.
    Bound {
        /// Which.
        bound: BoundKind,
    },
    /// A question of the agent: whether it may do something, by its own rules. An answer opens no wall.
    Question {
        /// The agent.
        agent: String,
        /// The tool, as the agent names it.
        tool: String,
        /// What it wants to do, as JSON text: safe to show, and cut to [`crate::QUESTION_ARGUMENTS`].
        arguments: String,
    },
}

/// Characters of a question's arguments that its one-line form holds.
const ARGUMENTS_SHOWN: usize = 160;

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Egress {
                protocol,
                host,
                port,
                resolved,
            } => {
                match host {
                    Host::Address(IpAddr::V6(address)) => {
                        write!(out, "{protocol} [{address}]:{port}")?;
                    }
                    host => write!(out, "{protocol} {host}:{port}")?,
                }
                match resolved {
                    Some(address) => write!(out, " at {address}"),
                    None => Ok(()),
                }
            }
            Self::File { access, path } => write!(out, "{access} {path}"),
            Self::Socket { path } => write!(out, "socket {path}"),
            Self::Bound { bound } => write!(out, "bound of {bound}"),
            Self::Question {
                agent,
                tool,
                arguments,
            } => {
                write!(out, "question of {agent}: {tool}")?;
                match arguments.char_indices().nth(ARGUMENTS_SHOWN) {
                    _ if arguments.is_empty() => Ok(()),
                    None => write!(out, " {arguments}"),
                    Some((end, _)) => {
                        write!(out, " {}…", arguments.get(..end).unwrap_or_default())
                    }
                }
            }
        }
    }
}

/// The process behind a held action. What it says of itself is untrusted text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Holder {
    /// Process id inside the cage.
    pub pid: u32,
    /// Its argument vector, cut to a bounded length.
    pub argv: Vec<String>,
}

/// One held or refused subject of a run, coalesced over all its holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Block {
    /// Its id.
    pub id: BlockId,
    /// What was attempted.
    pub subject: Subject,
    /// Where it stands.
    #[serde(flatten)]
    pub state: BlockState,
    /// Which wall and which rule stopped it, in words.
    pub why: String,
    /// False when the name will be resolved by a proxy, so that its address cannot be vetted here.
    pub address_vetted: bool,
    /// Actions waiting now.
    pub waiting: u32,
    /// Actions seen since the block opened, the waiting ones included.
    pub seen: u64,
    /// The newest hold counted on the card; an amendment "once" covers holds up to this one.
    pub last_hold: HoldId,
    /// Policy revision under which it was held.
    pub revision: Revision,
    /// When the first action was held.
    pub first_at: At,
    /// When the last action was held.
    pub last_at: At,
    /// Up to eight different processes that wait or waited.
    pub holders: Vec<Holder>,
    /// For a block of files, the places behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<FileFacts>,
    /// For a socket of the host, who is behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketFacts>,
    /// The figures, where a bound was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
    /// For a question of the agent, the answers that it offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<QuestionFacts>,
}

impl Block {
    /// True while it asks the operator something: an action waits; or more of something is refused to a run
    /// that goes on, and nobody has said whether later runs get more.
    #[must_use]
    pub fn asks(&self) -> bool {
        match (&self.state, &self.subject) {
            (BlockState::Open, _) => true,
            (BlockState::Gone, Subject::Bound { bound }) => !bound.is_raised_live(),
            (
                BlockState::Gone
                | BlockState::Amended { .. }
                | BlockState::Denied { .. }
                | BlockState::Expired,
                _,
            ) => false,
        }
    }

    /// What a denial of it refuses from then on: its subject, or for files what the card names, which is
    /// the folder where it names several.
    #[must_use]
    pub fn denied(&self) -> Subject {
        match (&self.subject, &self.file) {
            (Subject::File { access, .. }, Some(facts)) if facts.different > 1 => Subject::File {
                access: *access,
                path: facts.folder.clone(),
            },
            (subject, _) => subject.clone(),
        }
    }

    /// What was held, in words that cover all of it: `tcp a.example:443`, `write /srv/a`, and `write 12
    /// paths in /srv`.
    #[must_use]
    pub fn what(&self) -> String {
        match (&self.subject, &self.file) {
            (Subject::File { access, .. }, Some(facts)) if facts.different > 1 => {
                format!("{access} {} paths in {}", facts.different, facts.folder)
            }
            (subject, _) => subject.to_string(),
        }
    }
}

/// Where a block stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum BlockState {
    /// Waits for the operator.
    Open,
    /// Let go by an amendment.
    Amended {
        /// Which.
        amendment: AmendmentId,
    },
    /// Refused.
    Denied {
        /// Who refused it.
        by: Decider,
        /// What the agent is told; may be empty.
        reason: String,
    },
    /// Its time-out passed. Never reported as denied.
    Expired,
    /// Every process behind it ended or gave up. An amendment still helps a retry.
    Gone,
}

impl BlockState {
    /// The state's tag, as stored and shown.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Amended { .. } => "amended",
            Self::Denied { .. } => "denied",
            Self::Expired => "expired",
            Self::Gone => "gone",
        }
    }

    /// True while a decision on it has an effect: open, or gone (the agent may retry).
    #[must_use]
    pub fn is_decidable(&self) -> bool {
        matches!(self, Self::Open | Self::Gone | Self::Expired)
    }
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum Decider {
    /// The operator, on any surface.
    Operator,
    /// The run is unattended, so what no rule allows is refused at once.
    Unattended,
    /// The floor: never amendable.
    Floor,
    /// Nobody, within the run's limit: given up, which is no denial.
    Limit,
    /// The profile of the run's agent, which does without it.
    Profile,
}

/// How far a decision reaches.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Exactly the holds counted on the card.
    Once,
    /// This run until it ends.
    Run,
    /// Every run of this work order.
    Order,
    /// Every run in this repository.
    Project,
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Once => "once",
            Self::Run => "run",
            Self::Order => "order",
            Self::Project => "project",
        })
    }
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Let it go on.
    Allow,
    /// Refuse it.
    Deny {
        /// What the agent is told; may be empty.
        reason: String,
    },
}

/// A recorded, scoped, revocable decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Amendment {
    /// Its id.
    pub id: AmendmentId,
    /// The block it answered.
    pub block: BlockId,
    /// Allow or deny.
    #[serde(flatten)]
    pub decision: Decision,
    /// How far it reaches.
    pub scope: Scope,
    /// What it opens or closes, in words.
    pub words: String,
    /// Where it stands.
    pub state: AmendmentState,
    /// When it was decided.
    pub decided_at: At,
    /// The policy revision it made.
    pub revision: Revision,
    /// When it lapses by itself; with its scope when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<At>,
    /// Where the operator decided it; absent where that was not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<Surface>,
}

/// Where an operator decides. Told to whoever comes late to the same card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum Surface {
    /// The app's window.
    Window,
    /// The command line.
    CommandLine,
}

impl Surface {
    /// As it follows "amended by you".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Window => "in the window",
            Self::CommandLine => "on the command line",
        }
    }
}

/// Where an amendment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum AmendmentState {
    /// In force.
    Active,
    /// Taken back by the operator.
    Revoked,
    /// Used up (once), expired, or its run ended.
    Lapsed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subject_reads_as_host_and_port() {
        let egress = |host| Subject::Egress {
            protocol: Protocol::Tcp,
            host,
            port: 443,
            resolved: None,
        };
        assert_eq!(
            egress(Host::Name("registry.example".into())).to_string(),
            "tcp registry.example:443"
        );
        let v6 = Host::Address("2001:db8::1".parse().unwrap());
        assert_eq!(egress(v6).to_string(), "tcp [2001:db8::1]:443");
    }

    #[test]
    fn a_question_reads_as_one_line_however_long_it_is() {
        let question = |arguments: String| Subject::Question {
            agent: "opencode".into(),
            tool: "execute".into(),
            arguments,
        };
        let short = question(r#"{"command":"rm x"}"#.into()).to_string();
        assert_eq!(short, r#"question of opencode: execute {"command":"rm x"}"#);
        assert_eq!(
            question(String::new()).to_string(),
            "question of opencode: execute"
        );
        let long = question("日".repeat(2_000)).to_string();
        assert!(
            long.ends_with("日…") && long.chars().count() < 200,
            "{long}"
        );
    }

    #[test]
    fn the_shape_of_each_subject_is_kept() {
        let json = |subject: &Subject| serde_json::to_string(subject).unwrap();
        let egress = Subject::Egress {
            protocol: Protocol::Tcp,
            host: Host::Name("a.example".into()),
            port: 443,
            resolved: None,
        };
        let file = Subject::File {
            access: FileAccess::Write,
            path: PathText::of("/srv/a".as_ref()),
        };
        let bound = Subject::Bound {
            bound: BoundKind::OpenFiles,
        };
        let socket = Subject::Socket {
            path: PathText::of("/run/x.sock".as_ref()),
        };
        let question = Subject::Question {
            agent: "opencode".into(),
            tool: "execute".into(),
            arguments: "{}".into(),
        };
        for (subject, text) in [
            (
                question,
                r#"{"type":"question","agent":"opencode","tool":"execute","arguments":"{}"}"#,
            ),
            (socket, r#"{"type":"socket","path":"/run/x.sock"}"#),
            (
                egress,
                r#"{"type":"egress","protocol":"tcp","host":{"name":"a.example"},"port":443}"#,
            ),
            (file, r#"{"type":"file","access":"write","path":"/srv/a"}"#),
            (bound, r#"{"type":"bound","bound":"open_files"}"#),
        ] {
            assert_eq!(json(&subject), text);
            assert_eq!(serde_json::from_str::<Subject>(text).unwrap(), subject);
        }
    }

    #[test]
    fn a_card_with_several_paths_speaks_of_their_folder_and_asks_until_it_is_answered() {
        let path = |text: &str| PathText::of(text.as_ref());
        let facts = |different| FileFacts {
            folder: path("/srv"),
            paths: vec![path("/srv/a")],
            different,
            target: crate::FileTarget::Absent,
            call: "openat".into(),
            once: 1,
            alone: true,
        };
        let subject = Subject::File {
            access: FileAccess::Write,
            path: path("/srv/a"),
        };
        let mut block = Block {
            id: BlockId::new(crate::RunId::from_random(1), 1),
            subject: subject.clone(),
            state: BlockState::Open,
            why: "no rule".into(),
            address_vetted: true,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(1),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(0),
            holders: vec![],
            socket: None,
            breach: None,
            question: None,
            file: Some(facts(1)),
        };
        assert_eq!(
            (block.what().as_str(), block.denied()),
            ("write /srv/a", subject)
        );
        block.file = Some(facts(3));
        assert_eq!(block.what(), "write 3 paths in /srv");
        assert_eq!(block.denied().to_string(), "write /srv");
        assert!(block.asks());
        block.state = BlockState::Gone;
        assert!(!block.asks(), "what gave up is no question");
        for (bound, asks) in [
            (BoundKind::Memory, false),
            (BoundKind::Wall, false),
            (BoundKind::Processes, true),
            (BoundKind::OpenFiles, true),
        ] {
            block.subject = Subject::Bound { bound };
            assert_eq!(block.asks(), asks, "{bound}");
        }
        block.state = BlockState::Denied {
            by: Decider::Operator,
            reason: String::new(),
        };
        assert!(!block.asks(), "it was answered");
    }
}
