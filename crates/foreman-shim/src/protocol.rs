//! The runner protocol: what the engine and a shim say to each other.
//!
//! Newline-delimited JSON-RPC 2.0 over a unix socket (any byte pipe would do). The first request must
//! be [`Request::Hello`] with the run's nonce and the engine's fence (its epoch and its claim of the
//! run); one below a fence seen before is refused, and so is everything after it. Events are pulled with [`Request::Events`], which waits
//! up to `wait_ms` for news: a cursor, so no event is lost or doubled however often one reconnects.
//! The file of [`RunSpec`] is what a shim is started with; it then needs no engine to finish the run.

use foreman_agent::Conversation;
use foreman_cage::CageSpec;
use foreman_domain::{
    Amendment, BlockId, Breach, Epoch, EventSeq, Fence, HoldId, LogStream, MessageId, Outcome,
    Record, Revision, RunEpoch, RunId, ShellId, StepKind, StepName, StepResult,
};
use foreman_policy::{Bounds, Policy, SecretUse};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Everything a shim needs to carry a run to its end by itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunSpec {
    /// Version of this structure.
    pub v: u8,
    /// The run.
    pub run: RunId,
    /// Secret of this run; whoever knows it may steer the shim. Hexadecimal, 128 bits.
    pub nonce: String,
    /// Where the shim keeps its files.
    pub files: RunFiles,
    /// The cage to build.
    pub cage: CageSpec,
    /// The policy to start with.
    pub policy: Policy,
    /// What happens to what no rule allows.
    pub hold: HoldMode,
    /// Whether what is hidden is asked about when it is to be read, too.
    #[serde(default)]
    pub hold_reads: bool,
    /// Bounds to enforce.
    pub bounds: Bounds,
    /// Steps in order. The first that fails ends the plan as its [`OnFailure`] says.
    pub steps: Vec<StepSpec>,
    /// Commit the run starts from, in hexadecimal.
    pub base: String,
    /// The operator's own proxy settings, as found in the engine's environment.
    pub proxy: ProxySettings,
    /// Secrets that setup, agent and check steps get in their environment, by name. Their values are on the
    /// shim's standard input, and in no file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
    /// A secret that is never in the cage: it is added to what the cage asks of one host. Its value is handed
    /// over behind those of `secrets`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Set for a later supervisor of a run that has had one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continues>,
}

/// A secret that is sent to one host, and to nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// Its name in the store.
    pub secret: String,
    /// The field of a request that it is sent in, for example `authorization`.
    pub header: String,
    /// What stands before it there, for example `Bearer `.
    #[serde(default)]
    pub prefix: String,
    /// The only host that it is sent to, over TLS.
    pub host: String,
    /// Where there.
    pub port: u16,
}

impl Key {
    /// As what it is handed over; no variable ever has it.
    #[must_use]
    pub fn handed_as(&self) -> SecretUse {
        SecretUse {
            name: self.secret.clone(),
            variable: self.secret.clone(),
        }
    }
}

impl RunSpec {
    /// What it is handed over in memory, in this order.
    #[must_use]
    pub fn handed_over(&self) -> Vec<SecretUse> {
        handed_over(&self.secrets, self.key.as_ref())
    }
}

/// What a run with these secrets and this key is handed over in memory, in this order.
#[must_use]
pub fn handed_over(secrets: &[SecretUse], key: Option<&Key>) -> Vec<SecretUse> {
    let key = key.map(Key::handed_as);
    secrets.iter().cloned().chain(key).collect()
}

/// Where the earlier supervisors of a run left off. Their journal is gone on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continues {
    /// Their blocks have numbers up to this one.
    pub blocks: u32,
    /// Their holds have numbers up to this one.
    pub holds: HoldId,
    /// The run is at rest: what is done now has no part in its state, and tells none.
    pub at_rest: bool,
}

/// The operator's proxy settings, by their usual variables; empty strings are absent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProxySettings {
    /// `https_proxy`, used for every TCP destination through CONNECT.
    pub https: Option<String>,
    /// `all_proxy`, for example `socks5h://127.0.0.1:1080`.
    pub all: Option<String>,
    /// `no_proxy`.
    pub no_proxy: Option<String>,
}

/// A run's files. All absolute; the folder is 0700 and out of every cage's reach.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunFiles {
    /// The event journal: one JSON event a line.
    pub journal: PathBuf,
    /// The terminal result ([`ExitRecord`]), renamed into place; its presence ends the run.
    pub exit: PathBuf,
    /// The socket that the shim listens on.
    pub socket: PathBuf,
    /// Process identity of the shim ([`ShimIdentity`]), renamed into place before the socket listens.
    pub identity: PathBuf,
    /// The run's commits as a git bundle, written by the harvest step.
    pub bundle: PathBuf,
    /// Standard error of the shim itself: logs.
    pub log: PathBuf,
}

/// Where the shims of a run keep who is in charge of it, given the run's journal.
#[must_use]
pub fn fence_record(journal: &Path) -> PathBuf {
    journal.with_file_name("fence.json")
}

/// Where a shim writes down who process 1 of its cage is
/// ([`ProcessIdentity`](crate::ProcessIdentity)): beside the journal.
#[must_use]
pub fn cage_identity(journal: &Path) -> PathBuf {
    journal.with_file_name("cage.json")
}

/// What happens to an action that no rule allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldMode {
    /// It waits for the operator.
    Hold,
    /// It is refused at once.
    Refuse,
}

/// One step to run in the cage.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StepSpec {
    /// Its name, unique in the run.
    pub name: StepName,
    /// What it is for.
    pub kind: StepKind,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables beside the cage's own environment.
    pub env: Vec<(String, String)>,
    /// Where its standard streams go.
    pub stdio: Stdio,
    /// What its failure means.
    pub on_failure: OnFailure,
    /// How it is talked with, where it is an agent that has a driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Conversation>,
}

/// Where a step's standard streams go. Standard input is `/dev/null` but for a terminal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "stdio", rename_all = "snake_case")]
pub enum Stdio {
    /// Lines of both streams become output events.
    Journal,
    /// A pseudo-terminal; input and size come from the engine.
    Terminal {
        /// Columns at the start.
        columns: u16,
        /// Rows at the start.
        rows: u16,
    },
    /// Standard output goes to a file of the host, up to a size; standard error is journalled.
    File {
        /// The file.
        path: PathBuf,
        /// Most bytes.
        limit: u64,
    },
}

/// What a step's failure means for the steps after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Steps up to [`StepKind::Finish`] are skipped; finish, harvest and what comes after still run.
    SkipToFinish,
    /// Noted; the next step runs.
    Continue,
    /// Nothing after it runs.
    Abort,
}

/// Who a shim is: never a process id alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimIdentity {
    /// The run.
    pub run: RunId,
    /// Process id on the host.
    pub pid: u32,
    /// Start time of that process in clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
    /// The kernel's boot id.
    pub boot_id: String,
}

/// How a run ended, written once by its shim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// The run.
    pub run: RunId,
    /// The newest event in the journal.
    pub last_seq: EventSeq,
    /// Result of each step that was planned, in order.
    pub steps: Vec<(StepName, StepKind, StepResult)>,
    /// The outcome before harvest: set when the run cannot have changes to review (a wall missing,
    /// setup failed, cancelled); `None` when the bundle and the agent's step decide.
    pub verdict: Option<Outcome>,
    /// Tip of the worktree's HEAD, as seen in the cage after the finish step, in hexadecimal.
    pub head: Option<String>,
    /// Processes still in the cage when it was torn down, all killed.
    pub killed: u32,
    /// The bound that ended a step, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breach: Option<Breach>,
    /// Who was in charge of the run when it ended: the highest pair that introduced itself.
    #[serde(default)]
    pub fence: Fence,
}

/// What an engine asks of a shim. `method` and `params` of JSON-RPC.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "method", content = "params", rename_all = "snake_case")]
pub enum Request {
    /// Must come first.
    Hello {
        /// The run that is meant.
        run: RunId,
        /// Its nonce.
        nonce: String,
        /// The engine's epoch.
        epoch: Epoch,
        /// Its claim of the run.
        #[serde(default)]
        run_epoch: RunEpoch,
    },
    /// Events after a cursor, at most `limit`; waits up to `wait_ms` when there are none yet.
    Events {
        /// The last event the caller has.
        after: EventSeq,
        /// At most this many.
        limit: u32,
        /// Longest wait for news.
        wait_ms: u32,
    },
    /// Puts a policy revision in force, records the decision it came from, re-judges everything.
    Apply {
        /// The whole new policy.
        policy: Box<Policy>,
        /// The decision behind it, to be journalled.
        amendment: Box<Amendment>,
        /// The block that it answers, where it answers one.
        block: Option<BlockId>,
    },
    /// Stops the run: asks, then signals, then kills, with these waits between.
    Stop {
        /// Wait between interrupt, terminate and kill, in milliseconds.
        grace_ms: u32,
    },
    /// Bytes for the terminal of the running step, in base64.
    Input {
        /// The bytes.
        bytes: String,
    },
    /// New size of the terminal.
    Resize {
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// Opens a shell of the operator's: one more program in the cage, beside the setup or agent step that
    /// runs, behind the same walls. Asking again with the same id changes nothing.
    Shell {
        /// Chosen by who asks.
        shell: ShellId,
        /// Who opens it, for the record.
        by: String,
        /// Program and arguments.
        argv: Vec<String>,
        /// Variables beside the cage's own environment.
        env: Vec<(String, String)>,
        /// Columns and rows of its terminal; pipes and no standard input when absent.
        terminal: Option<(u16, u16)>,
    },
    /// What a shell wrote after the first `after` chunks, which are let go of by this; waits up to
    /// `wait_ms` when there is nothing yet. A shell that nobody reads for a minute is ended.
    ShellRead {
        /// Which.
        shell: ShellId,
        /// Chunks the caller has.
        after: u64,
        /// Longest wait for news.
        wait_ms: u32,
    },
    /// Bytes for a shell's terminal, in base64.
    ShellInput {
        /// Which.
        shell: ShellId,
        /// How many bytes were sent before: what arrives twice is taken once.
        at: u64,
        /// The bytes.
        bytes: String,
    },
    /// New size of a shell's terminal.
    ShellResize {
        /// Which.
        shell: ShellId,
        /// Columns.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// Ends a shell: hangs up, then kills.
    ShellEnd {
        /// Which.
        shell: ShellId,
    },
    /// Publishes a port of the cage at one of this machine's 127.0.0.1. Asking again for one that is
    /// published changes nothing. Only a shim whose welcome says so knows this and the next two.
    PublishPort {
        /// The port of the cage's own loopback.
        port: u16,
        /// The port of this machine; the same number, or any where that is taken, when absent.
        to: Option<u16>,
        /// Refuse instead of taking another number.
        exact: bool,
        /// Who publishes it, for the record.
        by: String,
    },
    /// Lists published ports.
    PublishedPorts,
    /// Closes a published port and cuts its connections.
    ClosePort {
        /// The port of the cage.
        port: u16,
    },
    /// Says something to the agent that runs: it is given to it when its turn ends. Answered when it is in the
    /// journal; saying it again with the same id changes nothing. Only a shim whose welcome says so knows it.
    Say {
        /// Chosen by who says it.
        message: MessageId,
        /// Who says it, for the record.
        by: String,
        /// What.
        text: String,
    },
    /// Measures what the run uses now. Only a shim whose welcome says so knows it.
    Measure,
}

/// A published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPort {
    /// The port of the cage's own loopback.
    pub port: u16,
    /// The port of this machine's 127.0.0.1.
    pub at: u16,
    /// Whether anything listens in the cage.
    pub listening: bool,
    /// Connections that are open.
    pub open: u32,
    /// Connections so far.
    pub connections: u64,
    /// Bytes from the cage, of connections that have ended.
    pub sent: u64,
    /// Bytes to the cage, of connections that have ended.
    pub received: u64,
}

/// Something that a shell wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellChunk {
    /// Where.
    pub stream: LogStream,
    /// The bytes, in base64.
    pub bytes: String,
}

/// What a run uses at one moment. What is absent was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// How long its shim is there, by a clock that does not jump.
    pub elapsed_ms: u64,
    /// Processor time used so far, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Memory of its processes and of its files in memory.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub processes: Option<u32>,
    /// What its worktree takes on the disk.
    pub disk_bytes: Option<u64>,
    /// What is left of its wall time.
    pub wall_left_ms: Option<u64>,
}

/// What a shim answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Response {
    /// To hello.
    Welcome {
        /// Who answers.
        identity: ShimIdentity,
        /// The newest event.
        last_seq: EventSeq,
        /// The policy in force.
        revision: Revision,
        /// It knows [`Request::Measure`].
        #[serde(default)]
        measures: bool,
        /// It knows [`Request::PublishPort`] and its like.
        #[serde(default)]
        publishes: bool,
        /// It knows [`Request::Say`].
        #[serde(default)]
        hears: bool,
    },
    /// To events.
    Events {
        /// In order, without holes: the records that hold the events which are asked for. The first
        /// may begin before the cursor.
        events: Vec<Record>,
        /// True when no event will ever follow.
        ended: bool,
    },
    /// To apply.
    Applied {
        /// Holds let go.
        released: u32,
        /// Holds refused.
        refused: u32,
        /// Connections cut.
        cut: u32,
    },
    /// To reading a shell.
    Shell {
        /// In order, those after the ones that the caller had.
        chunks: Vec<ShellChunk>,
        /// How it ended; set once everything it wrote was read.
        ended: Option<StepResult>,
    },
    /// To publishing, listing and closing ports.
    Ports {
        /// By their number in the cage.
        ports: Vec<PublishedPort>,
    },
    /// To measure.
    Measured {
        /// What the run uses.
        usage: Usage,
    },
    /// To everything else.
    Done,
}
