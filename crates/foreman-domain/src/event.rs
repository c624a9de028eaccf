//! The one envelope of everything that happens in a run, and the kinds it carries.

use crate::{
    AgentEvent, Amendment, At, Block, BlockId, Decider, EventSeq, HoldId, PathText, Revision,
    RunId, RunState, ShellId, StepKind, StepName, StepResult, Subject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the machine interface; every JSON line carries it as `"v"`.
pub const WIRE_VERSION: u8 = 1;

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Event {
    /// Always [`WIRE_VERSION`].
    pub v: u8,
    /// The run.
    pub run: RunId,
    /// Its place in the run's log.
    pub seq: EventSeq,
    /// When it happened, by the machine's clock.
    pub at: At,
    /// The step it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<StepName>,
    /// The process it belongs to, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRef>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// A process inside a cage. Its text is the process's own claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct ProcessRef {
    /// Process id inside the cage.
    pub pid: u32,
    /// Its argument vector, cut to a bounded length.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
}

/// Where a line of output came from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// The pseudo-terminal of a run with `--tty`.
    Terminal,
    /// A line that an agent with a driver wrote to its standard output: a message of its protocol.
    Received,
    /// A line that its driver wrote to its standard input.
    Sent,
}

/// A wall of the cage, as doctor and the start-up probes name it.
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
pub enum Wall {
    /// User namespaces.
    UserNamespace,
    /// Private mounts and a pivoted root.
    Mounts,
    /// TCP and UDP are captured and held.
    Network,
    /// Names are answered by the cage's own resolver.
    Dns,
    /// System call filter.
    Seccomp,
    /// Git's shadow common directory.
    Git,
    /// Landlock, the second file wall.
    Landlock,
    /// Control groups for bounds.
    Cgroup,
}

impl Wall {
    /// Every wall, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::UserNamespace,
        Self::Mounts,
        Self::Network,
        Self::Dns,
        Self::Seccomp,
        Self::Git,
        Self::Landlock,
        Self::Cgroup,
    ];

    /// True for walls without which a run refuses to start.
    #[must_use]
    pub fn is_required(self) -> bool {
        match self {
            Self::UserNamespace
            | Self::Mounts
            | Self::Network
            | Self::Dns
            | Self::Seccomp
            | Self::Git => true,
            Self::Landlock | Self::Cgroup => false,
        }
    }

    /// Why no run can start without this wall, whatever is accepted; `None` for a wall that
    /// `--accept-weaker` may name. Follows "--accept-weaker NAME is not possible: ".
    #[must_use]
    pub fn why_never_weaker(self) -> Option<&'static str> {
        match self {
            Self::Mounts => Some(
                "without mounts of its own there is no cage to build: the run would see and write \
                 every file of yours",
            ),
            Self::Git => Some(
                "without git's private directory the run would write your repository itself, its \
                 hooks and its configuration",
            ),
            // Without it a run is another one altogether: see [`Tier::NoNamespaces`](crate::Tier).
            Self::UserNamespace => None,
            Self::Network | Self::Dns | Self::Seccomp | Self::Landlock | Self::Cgroup => None,
        }
    }

    /// The wall's name, as `--accept-weaker` and JSON spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UserNamespace => "user_namespace",
            Self::Mounts => "mounts",
            Self::Network => "network",
            Self::Dns => "dns",
            Self::Seccomp => "seccomp",
            Self::Git => "git",
            Self::Landlock => "landlock",
            Self::Cgroup => "cgroup",
        }
    }
}

/// What became of an egress action, or of one on a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum ConnectVerdict {
    /// A rule allows it; the connection is made.
    Allowed {
        /// The rule's id.
        rule: String,
    },
    /// Waits under a block.
    Held {
        /// The block.
        block: BlockId,
        /// The hold.
        hold: HoldId,
    },
    /// Refused.
    Refused {
        /// Who refused.
        by: Decider,
        /// Why, as a sentence.
        why: String,
    },
    /// A rule allows it, but the other side could not be reached, or the path not be shown.
    Unreachable {
        /// What the other side, the resolver or the file system answered, as a sentence.
        why: String,
    },
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(
    clippy::large_enum_variant,
    reason = "events are handed on one by one, and a box for a block would be in every match on one"
)]
pub enum EventKind {
    /// The run changed state.
    State {
        /// The new state.
        to: RunState,
    },
    /// Progress of preparing, collecting or merging.
    Progress {
        /// A stable word for the stage: `worktree`, `shadow`, `cage`, `probe`, `harvest`, ...
        stage: String,
        /// What happens, as a sentence without a final period.
        message: String,
    },
    /// Something the operator should know, but that stopped nothing.
    Warning {
        /// As a sentence without a final period.
        message: String,
    },
    /// A wall was probed from inside the cage.
    Probe {
        /// Which wall.
        wall: Wall,
        /// Whether it held.
        holds: bool,
        /// What was tried and seen.
        detail: String,
    },
    /// A step started.
    StepStarted {
        /// What it is for.
        what: StepKind,
        /// Its argument vector; empty for the steps that are our own (finish, harvest).
        argv: Vec<String>,
    },
    /// A step ended.
    StepEnded {
        /// How.
        #[serde(flatten)]
        result: StepResult,
        /// How long it ran, in milliseconds.
        millis: u64,
    },
    /// The operator opened a shell in the cage, beside the step that runs.
    ShellOpened {
        /// Which.
        shell: ShellId,
        /// Who opened it.
        by: String,
        /// Its argument vector.
        argv: Vec<String>,
        /// True when it has a terminal.
        terminal: bool,
    },
    /// A shell ended.
    ShellEnded {
        /// Which.
        shell: ShellId,
        /// How.
        #[serde(flatten)]
        result: StepResult,
        /// How long it was open, in milliseconds.
        millis: u64,
    },
    /// A port of the cage was published to the operator.
    PortOpened {
        /// Which, on the cage's own loopback.
        port: u16,
        /// The port of the operator's loopback (127.0.0.1) where it is found.
        to: u16,
        /// Who opened it.
        by: String,
        /// Whether anything listened there in the cage.
        listening: bool,
    },
    /// A published port was closed, or the run ended.
    PortClosed {
        /// Which.
        port: u16,
        /// Where it was found.
        to: u16,
        /// Connections that were carried.
        connections: u64,
        /// Bytes from the cage.
        sent: u64,
        /// Bytes to the cage.
        received: u64,
    },
    /// Output of a step: one line, or a chunk of a terminal.
    Output {
        /// From where.
        stream: LogStream,
        /// The text, with bytes that are not UTF-8 replaced. Untrusted: sanitise before showing.
        text: String,
        /// The exact bytes in base64, when `text` does not have them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<String>,
        /// True when the line was longer than the journal takes and goes on in the next event.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        continued: bool,
    },
    /// Something that an agent's driver understood from the lines that the agent wrote.
    Agent {
        /// What.
        #[serde(flatten)]
        event: AgentEvent,
    },
    /// A name was looked up for the first time, and answered with the cage's own address for it.
    NameLookedUp {
        /// Canonical name.
        name: String,
    },
    /// An egress action and what became of it.
    Egress {
        /// What was attempted.
        subject: Subject,
        /// What became of it.
        #[serde(flatten)]
        verdict: ConnectVerdict,
        /// How many like it this event stands for.
        count: u64,
    },
    /// An allowed connection ended.
    ConnectionClosed {
        /// What it was to.
        subject: Subject,
        /// Bytes from the cage to the other side.
        sent: u64,
        /// Bytes from the other side to the cage.
        received: u64,
        /// How long it was open, in milliseconds.
        millis: u64,
        /// True when a revocation cut it.
        cut: bool,
    },
    /// An action on a file outside of what the run may see or write, and what became of it.
    File {
        /// What was attempted.
        subject: Subject,
        /// What became of it.
        #[serde(flatten)]
        verdict: ConnectVerdict,
        /// How many like it this event stands for.
        count: u64,
    },
    /// A program was executed. What it says of itself is in the envelope's process.
    Exec {
        /// The program.
        program: PathText,
        /// Its working directory.
        cwd: PathText,
        /// Process id of its parent inside the cage, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<u32>,
        /// How many executions of this program this event stands for.
        count: u64,
    },
    /// A program ended.
    Exit {
        /// The program, where it was seen to start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<PathText>,
        /// Its exit code, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// The signal that ended it, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// How long the longest of them ran, in milliseconds.
        millis: u64,
        /// How many ends of this program this event stands for.
        count: u64,
    },
    /// A block opened or changed. Carries the whole block.
    Block {
        /// The block as it is now.
        block: Block,
    },
    /// An amendment or a denial was recorded, revoked, or lapsed. Carries the whole record.
    Amendment {
        /// The record as it is now.
        amendment: Amendment,
    },
    /// The shim applied a policy revision and re-judged all holds under it.
    PolicyApplied {
        /// The revision now in force.
        revision: Revision,
        /// Holds let go by it.
        released: u32,
        /// Holds refused by it.
        refused: u32,
        /// Open connections cut by it.
        cut: u32,
    },
    /// A bound is near or reached.
    Bound {
        /// Which: `wall`, `memory`, `processes`, `output`, `disk`, `cpu`, `open_files`.
        bound: String,
        /// The figure now, with its unit, in words.
        figure: String,
        /// The bound, with its unit, in words.
        limit: String,
        /// True when it was reached and enforced, false when it is near.
        reached: bool,
    },
    /// What the run uses: told when it changed by a tenth, and after half a minute. What is absent was not
    /// measured.
    Sample {
        /// Processor time since the sample before, in thousandths of one processor.
        cpu_millicores: Option<u32>,
        /// Memory of its processes and of its files in memory.
        memory_bytes: Option<u64>,
        /// Processes and threads.
        processes: Option<u32>,
        /// What it takes on the disk.
        disk_bytes: Option<u64>,
    },
    /// Commits were collected from the run.
    Commits {
        /// Tip of the run, in hexadecimal.
        head: String,
        /// Number of commits.
        count: u32,
        /// True when the last one was made by us of what the agent left uncommitted.
        finished_by_us: bool,
    },
    /// A range of events was dropped.
    Gap {
        /// First dropped.
        from: EventSeq,
        /// Last dropped.
        to: EventSeq,
        /// How many.
        count: u64,
        /// Why.
        reason: String,
    },
}

impl EventKind {
    /// All tags, in the order of the declaration.
    pub const TAGS: &[&str] = &[
        "state",
        "progress",
        "warning",
        "probe",
        "step_started",
        "step_ended",
        "shell_opened",
        "shell_ended",
        "port_opened",
        "port_closed",
        "output",
        "agent",
        "name_looked_up",
        "egress",
        "connection_closed",
        "file",
        "exec",
        "exit",
        "block",
        "amendment",
        "policy_applied",
        "bound",
        "sample",
        "commits",
        "gap",
    ];

    /// The kind's tag, as stored, filtered and shown.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::State { .. } => "state",
            Self::Progress { .. } => "progress",
            Self::Warning { .. } => "warning",
            Self::Probe { .. } => "probe",
            Self::StepStarted { .. } => "step_started",
            Self::StepEnded { .. } => "step_ended",
            Self::ShellOpened { .. } => "shell_opened",
            Self::ShellEnded { .. } => "shell_ended",
            Self::PortOpened { .. } => "port_opened",
            Self::PortClosed { .. } => "port_closed",
            Self::Output { .. } => "output",
            Self::Agent { .. } => "agent",
            Self::NameLookedUp { .. } => "name_looked_up",
            Self::Egress { .. } => "egress",
            Self::ConnectionClosed { .. } => "connection_closed",
            Self::File { .. } => "file",
            Self::Exec { .. } => "exec",
            Self::Exit { .. } => "exit",
            Self::Block { .. } => "block",
            Self::Amendment { .. } => "amendment",
            Self::PolicyApplied { .. } => "policy_applied",
            Self::Bound { .. } => "bound",
            Self::Sample { .. } => "sample",
            Self::Commits { .. } => "commits",
            Self::Gap { .. } => "gap",
        }
    }

    /// True for kinds that must be on disk before anything else happens: states, blocks and
    /// decisions. Output and its like may be grouped.
    #[must_use]
    pub fn is_durable_at_once(&self) -> bool {
        matches!(
            self,
            Self::State { .. }
                | Self::StepEnded { .. }
                | Self::ShellOpened { .. }
                | Self::ShellEnded { .. }
                | Self::PortOpened { .. }
                | Self::PortClosed { .. }
                | Self::Block { .. }
                | Self::Amendment { .. }
                | Self::PolicyApplied { .. }
                | Self::Bound { reached: true, .. }
                | Self::Commits { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_flat_json_object_with_a_version() {
        let event = Event {
            v: WIRE_VERSION,
            run: RunId::from_random(1),
            seq: EventSeq(4),
            at: At::from_millis(0),
            step: None,
            process: None,
            kind: EventKind::Output {
                stream: LogStream::Stdout,
                text: "hello".into(),
                raw: None,
                continued: false,
            },
        };
        let value = serde_json::to_value(&event).unwrap();
        assert_eq!(value["v"], 1);
        assert_eq!(value["kind"], "output");
        assert_eq!(value["at"], "1970-01-01T00:00:00Z");
        assert_eq!(serde_json::from_value::<Event>(value).unwrap(), event);
    }

    #[test]
    fn the_list_of_tags_is_the_list_of_kinds() {
        let schema = serde_json::to_value(schemars::schema_for!(EventKind)).unwrap();
        let kinds = schema["oneOf"].as_array().unwrap();
        let tags: Vec<_> = kinds
            .iter()
            .map(|kind| kind["properties"]["kind"]["const"].as_str().unwrap())
            .collect();
        assert_eq!(tags, EventKind::TAGS);
    }

    #[test]
    fn every_nested_tag_survives_the_flat_envelope() {
        let block = Block {
            id: BlockId::new(RunId::from_random(1), 1),
            subject: Subject::Egress {
                protocol: crate::Protocol::Tcp,
                host: crate::Host::Name("a.example".into()),
                port: 443,
                resolved: None,
            },
            state: crate::BlockState::Open,
            why: "no rule".into(),
            address_vetted: true,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(1),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(0),
            holders: vec![],
            file: None,
            socket: None,
            breach: None,
            question: None,
        };
        for kind in [
            EventKind::Block {
                block: block.clone(),
            },
            EventKind::State {
                to: RunState::NoChanges,
            },
            EventKind::StepEnded {
                result: StepResult::Exited { code: 3 },
                millis: 1,
            },
            EventKind::ShellEnded {
                shell: ShellId::from_random(1),
                result: StepResult::Signalled { signal: 9 },
                millis: 1,
            },
            EventKind::File {
                subject: Subject::File {
                    access: crate::FileAccess::Read,
                    path: PathText::of("/srv".as_ref()),
                },
                verdict: ConnectVerdict::Allowed {
                    rule: "order:1".into(),
                },
                count: 1,
            },
            EventKind::Exit {
                program: None,
                code: Some(0),
                signal: None,
                millis: 1,
                count: 1,
            },
            EventKind::Agent {
                event: AgentEvent::Usage {
                    total: true,
                    input: 1,
                    output: 2,
                    cached: 3,
                    cost_microusd: None,
                },
            },
            EventKind::Egress {
                subject: block.subject,
                verdict: ConnectVerdict::Held {
                    block: block.id,
                    hold: HoldId(1),
                },
                count: 1,
            },
        ] {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(
                serde_json::from_str::<EventKind>(&text).unwrap(),
                kind,
                "{text}"
            );
        }
    }
}
