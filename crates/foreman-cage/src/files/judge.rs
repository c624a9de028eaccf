//! The port through which held calls on files are asked about, and programs are told of.

use crate::Exit;
use crate::gateway::{Closed, ConnectionId, Verdict};
use foreman_domain::{FileAccess, ProcessRef};
use std::future::Future;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// A call on a file or folder that the cage does not let through, while its caller waits.
#[derive(Debug, Clone)]
pub struct FileAttempt {
    /// What the call wants.
    pub access: FileAccess,
    /// Name of the system call.
    pub call: &'static str,
    /// What it is about: free of links, at the same place on the host and in the cage.
    pub path: PathBuf,
    /// What is there on the host.
    pub target: Target,
    /// Whether the call opens a file, so that [`FileVerdict::Once`] can answer it. Never so for a folder,
    /// whose descriptor would lead to everything around it, nor without Landlock, which alone keeps a
    /// descriptor from being opened anew in another way.
    pub can_once: bool,
    /// Whether the call changes what the folder above lists (a name is made, taken away or replaced), so
    /// that showing the path alone would not let it through.
    pub needs_folder: bool,
    /// Who waits. Its text is the process's own claim.
    pub process: ProcessRef,
    /// Fires when the caller ended.
    pub gone: CancellationToken,
}

/// What is at the place that a call is about, on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Nothing yet; the folder that it would be in is there.
    Absent,
    /// A socket, pipe, device or link.
    Other,
}

/// What the judge says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileVerdict {
    /// Answer this one call with a descriptor of what was shown, and change nothing else. Without
    /// [`FileAttempt::can_once`] the same as [`FileVerdict::Refuse`].
    Once,
    /// Show `root` in the running cage, then let the call go on. See [`Cage::show`](crate::Cage::show).
    Show {
        /// What to show: the path of the attempt, or a folder above it.
        root: PathBuf,
        /// How.
        access: FileAccess,
    },
    /// Seen inside as EACCES, and as ENOENT where it was to be read.
    Refuse,
}

/// A connection to a Unix socket of the host, while its caller waits.
#[derive(Debug, Clone)]
pub struct SocketAttempt {
    /// Which: free of links, on the host.
    pub path: PathBuf,
    /// Who waits. Its text is the process's own claim.
    pub process: ProcessRef,
    /// Fires when the caller ended.
    pub gone: CancellationToken,
}

/// A program that is being executed, told before its first instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Process id inside the cage. A process may execute one program after the other.
    pub pid: u32,
    /// Its parent's, 0 when that is outside of the cage or gone.
    pub parent: u32,
    /// The program's file, absolute. Together with the rest the caller's claim: for the eye only.
    pub path: PathBuf,
    /// Its argument vector, cut to a bounded length.
    pub argv: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
}

/// A process that has ended after it was told of by [`FileJudge::executed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exited {
    /// Process id inside the cage.
    pub pid: u32,
    /// How, where the kernel still says so to one who is not its parent: since Linux 6.15 always.
    pub exit: Option<Exit>,
    /// Milliseconds since it last executed a program.
    pub millis: u64,
}

/// Decides about attempts. Implemented by the shim; by a table in tests.
pub trait FileJudge: Send + Sync + 'static {
    /// Answers an attempt, after as long as it takes. Must end soon after `attempt.gone` fires. Other
    /// calls go on meanwhile. Paths that no rule may open are asked about like any other.
    fn judge(&self, attempt: FileAttempt) -> impl Future<Output = FileVerdict> + Send;

    /// Answers a connection to a socket of the host, as [`FileJudge::judge`] does a call on a file. One that is
    /// allowed has a name of its own, by which it can be cut.
    fn judge_socket(&self, attempt: SocketAttempt) -> impl Future<Output = Verdict> + Send {
        let _ = attempt;
        async { Verdict::Refuse }
    }

    /// A connection to a socket of the host was refused without a question.
    fn socket_refused(&self, path: &Path, why: &str) {
        let _ = (path, why);
    }

    /// A connection that [`FileJudge::judge_socket`] allowed has ended.
    fn closed(&self, connection: ConnectionId, how: Closed) {
        let _ = (connection, how);
    }

    /// A program is being executed. Must not wait: the caller does, and so does everybody else.
    fn executed(&self, program: Executed);

    /// A process has ended. Must not wait.
    fn exited(&self, program: Exited);

    /// What a verdict wanted to be shown could not be: the call was refused.
    fn not_shown(&self, root: &Path, error: &super::ShowError) {
        let _ = (root, error);
    }
}
