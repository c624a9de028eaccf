//! Rules as data: what the engine sends to a shim and what both judge by.

use foreman_domain::{AmendmentId, At, BoundKind, HoldId, PathText, Protocol, Revision, Subject};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where a rule comes from; later layers are narrower.
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
pub enum Layer {
    /// Built in, never amendable.
    Floor,
    /// A harness's or toolchain's preset.
    Profile,
    /// The repository's policy file, when trusted, and decisions with project scope.
    Project,
    /// The work order: `--policy`, `--allow`, and decisions with order scope.
    Order,
    /// Decisions with scope run or once.
    Amendment,
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Floor => "floor",
            Self::Profile => "profile",
            Self::Project => "project",
            Self::Order => "work order",
            Self::Amendment => "amendment",
        })
    }
}

/// Name of a rule within a policy, for example `order:2`, `amendment:r7k2mqdx-a1`. Opaque.
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
#[serde(transparent)]
pub struct RuleId(pub String);

impl fmt::Display for RuleId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Where a rule was written, for explanations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Origin {
    /// Its id.
    pub id: RuleId,
    /// Its layer.
    pub layer: Layer,
    /// Where it was written, in words: `policy.toml line 4`, `--allow`, `amended by you`.
    pub source: String,
    /// The amendment that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amendment: Option<AmendmentId>,
    /// Why the author wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Which hosts a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum HostPattern {
    /// Exactly this canonical name.
    Name(String),
    /// `*.example.com`: exactly one label before this suffix; the apex is not implied.
    OneLabelUnder(String),
    /// `**.example.com`: one or more labels before this suffix; the apex is not implied.
    AnyDepthUnder(String),
    /// A literal address or range; matches bare addresses only.
    Address(
        #[schemars(with = "String")]
        #[specta(type = String)]
        IpNet,
    ),
}

/// For which holds a rule counts.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(tag = "use", rename_all = "snake_case")]
pub enum Use {
    /// Every action it matches.
    #[default]
    Always,
    /// Only holds of this one subject, up to and including this one: what the card had counted.
    Holds {
        /// The block's subject.
        subject: Subject,
        /// The newest hold on the card.
        through: HoldId,
    },
}

/// Allows connections to a host on a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct EgressRule {
    /// Where it comes from.
    pub origin: Origin,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Which hosts.
    pub host: HostPattern,
    /// Which port.
    pub port: u16,
    /// Private addresses that the name may resolve to; without it such an answer is held anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    #[specta(type = Option<String>)]
    pub resolves_to: Option<IpNet>,
    /// For which holds it counts.
    #[serde(flatten)]
    pub applies: Use,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<At>,
}

/// What the rule opens, without where it comes from: `tcp registry.example:443`.
impl fmt::Display for EgressRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Address(IpNet::V6(_)) => {
                write!(out, "{} [{}]:{}", self.protocol, self.host, self.port)?;
            }
            host => write!(out, "{} {host}:{}", self.protocol, self.port)?,
        }
        match &self.resolves_to {
            Some(range) => write!(out, " at {}", HostPattern::Address(*range)),
            None => Ok(()),
        }
    }
}

/// Refuses a subject at once, without a card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct Denial {
    /// Where it comes from.
    pub origin: Origin,
    /// What is refused.
    pub subject: Subject,
    /// What the agent is told; may be empty.
    pub reason: String,
}

/// What a path rule opens.
pub use foreman_domain::FileAccess as Access;

/// Opens a path of the host inside the cage: when the run starts, or while it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct PathRule {
    /// Where it comes from.
    pub origin: Origin,
    /// Absolute path, or one that starts with `~/`; a file, or a folder with all that is in it.
    #[serde(with = "path_text")]
    #[schemars(with = "String")]
    #[specta(type = String)]
    pub path: PathBuf,
    /// Read or write.
    pub access: Access,
    /// For which holds it counts.
    #[serde(default, skip_serializing_if = "counts_always")]
    pub applies: Use,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<At>,
    /// Whether it counts although sockets of the host lie in it: asked about on its card.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sockets: bool,
}

impl PathRule {
    /// The rule with its path from the root, where it starts with `~`.
    #[must_use]
    pub fn rooted_in(mut self, home: &Path) -> Self {
        if let Ok(rest) = self.path.strip_prefix("~") {
            self.path = home.join(rest).components().collect();
        }
        self
    }
}

/// What the rule opens, without where it comes from: `write /srv/data`.
impl fmt::Display for PathRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.access, PathText::of(&self.path))
    }
}

/// Allows connections to one Unix socket of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SocketRule {
    /// Where it comes from.
    pub origin: Origin,
    /// Absolute path of the socket, or one that starts with `~/`.
    #[serde(with = "path_text")]
    #[schemars(with = "String")]
    #[specta(type = String)]
    pub socket: PathBuf,
    /// For which holds it counts.
    #[serde(default, skip_serializing_if = "counts_always")]
    pub applies: Use,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<At>,
}

impl SocketRule {
    /// The rule with its path from the root, where it starts with `~`.
    #[must_use]
    pub fn rooted_in(mut self, home: &Path) -> Self {
        if let Ok(rest) = self.socket.strip_prefix("~") {
            self.socket = home.join(rest).components().collect();
        }
        self
    }
}

/// What the rule opens, without where it comes from: `socket /run/x.sock`.
impl fmt::Display for SocketRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "socket {}", PathText::of(&self.socket))
    }
}

/// Answers questions of an agent with yes. It opens nothing: what an agent may reach is up to the other rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct QuestionRule {
    /// Where it comes from.
    pub origin: Origin,
    /// Which agent's.
    pub agent: String,
    /// About which tool, as the agent names it.
    pub tool: String,
    /// About these arguments only; about any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// For which holds it counts.
    #[serde(default, skip_serializing_if = "counts_always")]
    pub applies: Use,
}

/// What the rule answers, without where it comes from: `questions of opencode: execute`.
impl fmt::Display for QuestionRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.arguments {
            None => write!(out, "questions of {}: {}", self.agent, self.tool),
            Some(arguments) => Subject::Question {
                agent: self.agent.clone(),
                tool: self.tool.clone(),
                arguments: arguments.clone(),
            }
            .fmt(out),
        }
    }
}

fn counts_always(applies: &Use) -> bool {
    *applies == Use::Always
}

/// A path as its text without loss.
mod path_text {
    use super::PathText;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::path::{Path, PathBuf};

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        PathText::of(path).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        PathText::deserialize(from).map(|text| text.to_path())
    }
}

/// A rule that allows something. Which kind it is shows in its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
#[serde(untagged)]
pub enum Rule {
    /// Of connections.
    Egress(EgressRule),
    /// Of files.
    Path(PathRule),
    /// Of a socket.
    Socket(SocketRule),
    /// Of a bound.
    Bound(BoundRule),
    /// Of questions of an agent.
    Question(QuestionRule),
}

impl Rule {
    /// Where it comes from.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        match self {
            Self::Egress(rule) => &rule.origin,
            Self::Path(rule) => &rule.origin,
            Self::Socket(rule) => &rule.origin,
            Self::Bound(rule) => &rule.origin,
            Self::Question(rule) => &rule.origin,
        }
    }

    /// Where it comes from, to be set.
    pub fn origin_mut(&mut self) -> &mut Origin {
        match self {
            Self::Egress(rule) => &mut rule.origin,
            Self::Path(rule) => &mut rule.origin,
            Self::Socket(rule) => &mut rule.origin,
            Self::Bound(rule) => &mut rule.origin,
            Self::Question(rule) => &mut rule.origin,
        }
    }

    /// For which holds it counts; a raised bound is for no hold alone.
    pub fn applies_mut(&mut self) -> Option<&mut Use> {
        match self {
            Self::Egress(rule) => Some(&mut rule.applies),
            Self::Path(rule) => Some(&mut rule.applies),
            Self::Socket(rule) => Some(&mut rule.applies),
            Self::Question(rule) => Some(&mut rule.applies),
            Self::Bound(_) => None,
        }
    }

    /// When it ends.
    #[must_use]
    pub fn expires(&self) -> Option<At> {
        match self {
            Self::Egress(rule) => rule.expires,
            Self::Path(rule) => rule.expires,
            Self::Socket(rule) => rule.expires,
            Self::Bound(_) | Self::Question(_) => None,
        }
    }

    /// When it ends, to be set; a raised bound and an answer have no end of their own.
    pub fn expires_mut(&mut self) -> Option<&mut Option<At>> {
        match self {
            Self::Egress(rule) => Some(&mut rule.expires),
            Self::Path(rule) => Some(&mut rule.expires),
            Self::Socket(rule) => Some(&mut rule.expires),
            Self::Bound(_) | Self::Question(_) => None,
        }
    }

    /// True when the rule allows the subject, its time and its "once" aside.
    #[must_use]
    pub fn covers(&self, subject: &Subject) -> bool {
        match self {
            Self::Egress(rule) => rule.covers(subject),
            Self::Path(rule) => rule.covers(subject),
            Self::Socket(rule) => rule.covers(subject),
            Self::Bound(rule) => *subject == Subject::Bound { bound: rule.bound },
            Self::Question(rule) => rule.covers(subject),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Egress(rule) => rule.fmt(out),
            Self::Path(rule) => rule.fmt(out),
            Self::Socket(rule) => rule.fmt(out),
            Self::Bound(rule) => rule.fmt(out),
            Self::Question(rule) => rule.fmt(out),
        }
    }
}

/// Bounds of a run. `None` means the default of the engine.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
pub struct Bounds {
    /// Wall time in seconds.
    pub wall_seconds: Option<u64>,
    /// Memory of all processes together and of the files in memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at one time.
    pub processes: Option<u32>,
    /// Output of all steps together, in bytes.
    pub output_bytes: Option<u64>,
    /// Processor time in thousandths of one processor: 2,500 is two and a half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millicores: Option<u32>,
    /// What its worktree and its scratch folders take, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Files that one process may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u32>,
    /// How long a held action waits for an answer, in seconds; for as long as it takes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold_seconds: Option<u64>,
    /// Tokens that its agent reads and writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// What its agent costs, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_microusd: Option<u64>,
    /// Prompts and tool calls of its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
}

impl Bounds {
    /// One of them in its own unit: milliseconds, bytes, thousandths of a processor, millionths of a dollar, or
    /// how many.
    #[must_use]
    pub fn of(&self, bound: BoundKind) -> Option<u64> {
        match bound {
            BoundKind::Wall => self.wall_seconds.map(|wall| wall.saturating_mul(1_000)),
            BoundKind::Memory => self.memory_bytes,
            BoundKind::Output => self.output_bytes,
            BoundKind::Disk => self.disk_bytes,
            BoundKind::Cpu => self.cpu_millicores.map(u64::from),
            BoundKind::Processes => self.processes.map(u64::from),
            BoundKind::OpenFiles => self.open_files.map(u64::from),
            BoundKind::Tokens => self.tokens,
            BoundKind::Cost => self.cost_microusd,
            BoundKind::Turns => self.turns,
        }
    }

    /// Sets one of them, in the same unit.
    pub fn set(&mut self, bound: BoundKind, limit: u64) {
        let few = u32::try_from(limit).unwrap_or(u32::MAX);
        match bound {
            BoundKind::Wall => self.wall_seconds = Some(limit.div_ceil(1_000)),
            BoundKind::Memory => self.memory_bytes = Some(limit),
            BoundKind::Output => self.output_bytes = Some(limit),
            BoundKind::Disk => self.disk_bytes = Some(limit),
            BoundKind::Cpu => self.cpu_millicores = Some(few),
            BoundKind::Processes => self.processes = Some(few),
            BoundKind::OpenFiles => self.open_files = Some(few),
            BoundKind::Tokens => self.tokens = Some(limit),
            BoundKind::Cost => self.cost_microusd = Some(limit),
            BoundKind::Turns => self.turns = Some(limit),
        }
    }

    /// These bounds, with what rules have raised; no rule sets one that there is not, or lowers one.
    #[must_use]
    pub fn raised_by(mut self, policy: &Policy) -> Self {
        for rule in &policy.bounds {
            if self.of(rule.bound).is_some_and(|limit| limit < rule.limit) {
                self.set(rule.bound, rule.limit);
            }
        }
        self
    }

    /// These bounds, and those of the wider layer where these say nothing.
    #[must_use]
    pub fn or(self, wider: Self) -> Self {
        Self {
            wall_seconds: self.wall_seconds.or(wider.wall_seconds),
            memory_bytes: self.memory_bytes.or(wider.memory_bytes),
            processes: self.processes.or(wider.processes),
            output_bytes: self.output_bytes.or(wider.output_bytes),
            cpu_millicores: self.cpu_millicores.or(wider.cpu_millicores),
            disk_bytes: self.disk_bytes.or(wider.disk_bytes),
            open_files: self.open_files.or(wider.open_files),
            hold_seconds: self.hold_seconds.or(wider.hold_seconds),
            tokens: self.tokens.or(wider.tokens),
            cost_microusd: self.cost_microusd.or(wider.cost_microusd),
            turns: self.turns.or(wider.turns),
        }
    }
}

impl Policy {
    /// Adds a rule.
    pub fn push(&mut self, rule: Rule) {
        match rule {
            Rule::Egress(rule) => self.egress.push(rule),
            Rule::Path(rule) => self.paths.push(rule),
            Rule::Socket(rule) => self.sockets.push(rule),
            Rule::Bound(rule) => self.bounds.push(rule),
            Rule::Question(rule) => self.questions.push(rule),
        }
    }
}

/// Raises a bound of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct BoundRule {
    /// Where it comes from.
    pub origin: Origin,
    /// Which bound.
    pub bound: BoundKind,
    /// The bound from then on, in its own unit: milliseconds, bytes, thousandths of a processor, or how
    /// many.
    pub limit: u64,
}

/// What the rule opens, without where it comes from: `memory 2 GiB`.
impl fmt::Display for BoundRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figure = crate::figure_in_words(self.bound, self.limit);
        write!(out, "{} {figure}", self.bound)
    }
}

/// Everything a run is judged by. One value per revision.
#[derive(
    Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, specta::Type,
)]
pub struct Policy {
    /// Its number.
    pub revision: Revision,
    /// What may be reached.
    pub egress: Vec<EgressRule>,
    /// What is refused without asking.
    pub denials: Vec<Denial>,
    /// What of the host may be seen.
    pub paths: Vec<PathRule>,
    /// Which sockets of the host may be connected to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<SocketRule>,
    /// Bounds that were raised.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<BoundRule>,
    /// Questions of its agent that are answered with yes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRule>,
}

impl Policy {
    /// The rule that raises a bound the most.
    #[must_use]
    pub fn raised(&self, bound: BoundKind) -> Option<&BoundRule> {
        let rules = self.bounds.iter().filter(|rule| rule.bound == bound);
        rules.max_by_key(|rule| rule.limit)
    }
}

#[cfg(test)]
#[path = "rule/arbitrary.rs"]
pub(crate) mod arbitrary;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_policy_survives_json(policy in arbitrary::policy()) {
            let text = serde_json::to_string(&policy).unwrap();
            prop_assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
        }
    }
}
