//! The cage as its supervisor holds it.
//!
//! Everything goes over one socket to the cage's process 1. Whoever waits for something reads the
//! socket for all that wait, so there is no task to own, and any future may be dropped at any time:
//! what arrives for nobody is kept (exits) or undone (programs).

use crate::kernel;
use crate::wire::{self, Ended, NotRun, Notice, Program, Request, Stdio, What};
use crate::{SpawnError, Step, census, probe};
use foreman_domain::Wall;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, pipe2};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A program to run in a cage, fully confined.
#[derive(Debug, Clone)]
pub struct Payload {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of its environment.
    pub argv: Vec<String>,
    /// Variables beside the cage's own environment; they win over it.
    pub env: Vec<(String, String)>,
    /// Its standard streams.
    pub stdio: PayloadStdio,
}

/// Where the standard streams of a program go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadStdio {
    /// All three are `/dev/null`.
    Null,
    /// Standard output and error are pipes; standard input is `/dev/null`.
    Pipes,
    /// A pseudo-terminal of the cage, which controls the program's session.
    Terminal {
        /// Columns at the start.
        columns: u16,
        /// Rows at the start.
        rows: u16,
    },
}

/// A program that runs in a cage. Its exit is awaited with [`Cage::wait`].
#[derive(Debug)]
pub struct Child {
    /// Process id inside the cage.
    pub pid: u32,
    /// Reading end of its standard output, with [`PayloadStdio::Pipes`]. It blocks.
    pub stdout: Option<OwnedFd>,
    /// Reading end of its standard error, with [`PayloadStdio::Pipes`]. It blocks.
    pub stderr: Option<OwnedFd>,
    /// Controlling side of its terminal, with [`PayloadStdio::Terminal`]. It blocks; reading fails
    /// with EIO when no program holds the other side.
    pub terminal: Option<OwnedFd>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(u8),
    /// By this signal.
    Signal(u8),
    /// The whole cage ended before its exit was seen.
    CageGone,
}

/// One process of a cage, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// Process id inside the cage.
    pub pid: u32,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// What a probe from inside saw of a wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Which wall.
    pub wall: Wall,
    /// Whether everything that was tried failed as it must.
    pub holds: bool,
    /// What was tried and seen.
    pub detail: String,
}

/// How long the probes may take: they end by themselves long before.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How long process 1 may take to kill all the others before it is killed itself.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// Most bytes that a status pipe may carry.
const MOST_STATUS: u64 = 256 * 1024;

/// A running cage. Dropping it kills it.
///
/// Methods may be called at the same time from any task of one tokio runtime.
#[derive(Debug)]
pub struct Cage {
    init: Pid,
    /// Names process 1; readable when the cage has ended.
    process: OwnedFd,
    /// The cage's `/proc`.
    proc: OwnedFd,
    socket: OwnedFd,
    /// The socket on the runtime of the first call.
    ready: OnceLock<Option<AsyncFd<OwnedFd>>>,
    state: Mutex<State>,
    /// Something in the state changed.
    news: Notify,
    reaped: bool,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    /// Requests somebody waits for.
    waiting: HashSet<u64>,
    spawned: HashMap<u64, Result<(i32, Vec<OwnedFd>), SpawnError>>,
    exits: HashMap<i32, Exit>,
    killed: HashMap<u64, u32>,
    gone: bool,
}

impl Cage {
    pub(crate) fn new(
        init: Pid,
        process: OwnedFd,
        socket: OwnedFd,
        proc: OwnedFd,
    ) -> io::Result<Self> {
        kernel::do_not_block(socket.as_fd())?;
        Ok(Self {
            init,
            process,
            proc,
            socket,
            ready: OnceLock::new(),
            state: Mutex::default(),
            news: Notify::new(),
            reaped: false,
        })
    }

    /// Process id of the cage's process 1, on the host.
    #[must_use]
    pub fn init_pid(&self) -> u32 {
        self.init.as_raw().unsigned_abs()
    }

    /// Starts a program; returns when its `exec` succeeded. When the future is dropped before, the
    /// program is killed.
    ///
    /// # Errors
    /// [`SpawnError::NotStarted`] when the program cannot be executed, else what failed.
    pub async fn spawn(&self, payload: Payload) -> Result<Child, SpawnError> {
        let program = Program {
            argv: payload.argv,
            env: payload.env,
        };
        let memory = memory_file(&program).map_err(SpawnError::Talk)?;
        let stdio = match payload.stdio {
            PayloadStdio::Null => Stdio::Null,
            PayloadStdio::Pipes => Stdio::Pipes,
            PayloadStdio::Terminal { columns, rows } => Stdio::Terminal { columns, rows },
        };
        let started = self.start(What::Program, stdio, Some(memory)).await?;
        let status = read_status(&started.status)
            .await
            .map_err(SpawnError::Talk)?;
        let pid = started.pid.unsigned_abs();
        if !status.is_empty() {
            let Ok(why) = serde_json::from_slice::<NotRun>(&status) else {
                return Err(SpawnError::Talk(io::ErrorKind::InvalidData.into()));
            };
            self.wait(pid).await;
            started.keep();
            return Err(match why {
                NotRun::NotStarted { why } => SpawnError::NotStarted { why },
                NotRun::Unconfined(failed) => SpawnError::of(&failed),
            });
        }
        let mut ends = started.keep().into_iter();
        let mut child = Child {
            pid,
            stdout: None,
            stderr: None,
            terminal: None,
        };
        match payload.stdio {
            PayloadStdio::Null => {}
            PayloadStdio::Pipes => (child.stdout, child.stderr) = (ends.next(), ends.next()),
            PayloadStdio::Terminal { .. } => child.terminal = ends.next(),
        }
        Ok(child)
    }

    /// Waits until a program has ended. May be asked again, until another program gets its number.
    pub async fn wait(&self, pid: u32) -> Exit {
        let Ok(pid) = i32::try_from(pid) else {
            return Exit::CageGone;
        };
        self.until(|state| state.exits.get(&pid).copied())
            .await
            .unwrap_or(Exit::CageGone)
    }

    /// Sends a signal to the process group of a program that [`Cage::spawn`] started.
    ///
    /// # Errors
    /// When the cage is gone. A program that has ended is no error.
    pub fn signal(&self, pid: u32, signal: i32) -> io::Result<()> {
        let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
        wire::send(self.socket.as_fd(), &Request::Signal { pid, signal }, &[])
    }

    /// Kills every process but the cage's process 1; returns how many when none is left.
    pub async fn kill_all(&self) -> u32 {
        let waiting = Waiting::new(self);
        let id = waiting.id;
        if self.ask(&Request::KillAll { id }, &[]).await.is_err() {
            return 0;
        }
        self.until(|state| state.killed.remove(&id))
            .await
            .unwrap_or(0)
    }

    /// Every process of the cage but process 1.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessSample> {
        census::take(self.proc.as_fd())
    }

    /// Sets the size of a program's terminal and tells the program.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn resize(&self, terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> io::Result<()> {
        kernel::resize_terminal(terminal, columns, rows)
    }

    /// Tries the walls from inside, as a fully confined program. The gateway must be running: two
    /// probes ask it. A cage without a `.git` in its working directory yields no [`Wall::Git`].
    pub async fn probe(&self) -> Vec<ProbeResult> {
        let results = tokio::time::timeout(PROBE_LIMIT, self.run_probes()).await;
        let failure = match results {
            Ok(Ok(results)) => return results,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "they took too long".to_owned(),
        };
        probe::none_held(&format!("the probes did not run to their end: {failure}"))
    }

    async fn run_probes(&self) -> Result<Vec<ProbeResult>, SpawnError> {
        let started = self.start(What::Probes, Stdio::Null, None).await?;
        let status = read_status(&started.status)
            .await
            .map_err(SpawnError::Talk)?;
        let results = serde_json::from_slice(&status)
            .map_err(|_| SpawnError::Talk(io::ErrorKind::InvalidData.into()))?;
        self.wait(started.pid.unsigned_abs()).await;
        started.keep();
        Ok(results)
    }

    /// Ends the cage. Returns when the kernel has confirmed that no process of it is left, with the
    /// number of those that were killed, process 1 aside.
    pub async fn destroy(mut self) -> u32 {
        let seen = self.processes().len();
        let killed = tokio::time::timeout(KILL_LIMIT, self.kill_all()).await;
        let _ = kernel::signal_process(self.process.as_fd(), libc::SIGKILL);
        // The kernel lets process 1 end only after every other process of its namespace.
        if let Ok(process) = self.process.try_clone().and_then(kernel::on_runtime) {
            let _ = process.readable().await;
        }
        self.reap();
        killed.unwrap_or(u32::try_from(seen).unwrap_or(u32::MAX))
    }

    fn reap(&mut self) {
        let ended = || waitid(Id::PIDFd(self.process.as_fd()), WaitPidFlag::WEXITED);
        while ended() == Err(nix::Error::EINTR) {}
        self.reaped = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self) -> Option<&AsyncFd<OwnedFd>> {
        self.ready
            .get_or_init(|| self.socket.try_clone().and_then(kernel::on_runtime).ok())
            .as_ref()
    }

    /// Sends a request, waiting for room if need be.
    async fn ask(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let ready = self.ready().ok_or(io::ErrorKind::NotConnected)?;
        loop {
            let mut guard = ready.writable().await?;
            match guard.try_io(|_| wire::send(self.socket.as_fd(), request, fds)) {
                Ok(sent) => return sent,
                Err(_would_block) => {}
            }
        }
    }

    /// Waits until `take` finds what it looks for; `None` when the cage is gone first.
    async fn until<T>(&self, mut take: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let ready = self.ready()?;
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            // From here on no news is missed.
            news.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(found) = take(&mut state) {
                    return Some(found);
                }
                if state.gone {
                    return None;
                }
            }
            tokio::select! {
                () = &mut news => {}
                readable = ready.readable() => match readable {
                    Ok(mut guard) => self.read_all(&mut guard),
                    Err(_) => return None,
                },
            }
        }
    }

    /// Takes in everything that has arrived.
    fn read_all(&self, guard: &mut tokio::io::unix::AsyncFdReadyGuard<'_, OwnedFd>) {
        // Held over reading and noting, so that notices are noted in the order they were sent.
        let mut state = self.state();
        while let Ok(received) = guard.try_io(|_| wire::receive::<Notice>(self.socket.as_fd())) {
            match received {
                Ok(Some((notice, fds))) => self.note(&mut state, notice, fds),
                Ok(None) | Err(_) => {
                    state.gone = true;
                    break;
                }
            }
        }
        drop(state);
        self.news.notify_waiters();
    }

    fn note(&self, state: &mut State, notice: Notice, fds: Vec<OwnedFd>) {
        match notice {
            Notice::Spawned { id, pid } if state.waiting.contains(&id) => {
                state.exits.remove(&pid);
                state.spawned.insert(id, Ok((pid, fds)));
            }
            // Whoever asked has gone away meanwhile.
            Notice::Spawned { pid, .. } => {
                let _ = self.signal(pid.unsigned_abs(), libc::SIGKILL);
            }
            Notice::NotSpawned { id, failed } if state.waiting.contains(&id) => {
                state.spawned.insert(id, Err(SpawnError::of(&failed)));
            }
            Notice::NotSpawned { .. } => {}
            Notice::Exited { pid, exit } => {
                let exit = match exit {
                    Ended::Code(code) => Exit::Code(code),
                    Ended::Signal(signal) => Exit::Signal(signal),
                };
                state.exits.insert(pid, exit);
            }
            Notice::Killed { id, count } if state.waiting.contains(&id) => {
                state.killed.insert(id, count);
            }
            Notice::Killed { .. } => {}
        }
    }

    /// Has a payload forked.
    async fn start(
        &self,
        what: What,
        stdio: Stdio,
        memory: Option<OwnedFd>,
    ) -> Result<Started<'_>, SpawnError> {
        let flags = nix::fcntl::OFlag::O_CLOEXEC;
        let (status, writing) = pipe2(flags).map_err(|error| SpawnError::Talk(error.into()))?;
        let waiting = Waiting::new(self);
        let id = waiting.id;
        let mut fds = vec![writing.as_fd()];
        fds.extend(memory.as_ref().map(AsFd::as_fd));
        self.ask(&Request::Spawn { id, what, stdio }, &fds)
            .await
            .map_err(SpawnError::Talk)?;
        drop(writing);
        let spawned = self.until(|state| state.spawned.remove(&id)).await;
        let (pid, ends) = spawned.ok_or(SpawnError::CageGone)??;
        Ok(Started {
            cage: self,
            pid,
            ends,
            status,
            kept: false,
        })
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = kernel::signal_process(self.process.as_fd(), libc::SIGKILL);
            self.reap();
        }
    }
}

/// A request whose answer is wanted; what arrives after it was dropped is not kept.
struct Waiting<'cage> {
    cage: &'cage Cage,
    id: u64,
}

impl<'cage> Waiting<'cage> {
    fn new(cage: &'cage Cage) -> Self {
        let mut state = cage.state();
        state.next_id += 1;
        let id = state.next_id;
        state.waiting.insert(id);
        Self { cage, id }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.cage.state();
        state.waiting.remove(&self.id);
        state.killed.remove(&self.id);
        if let Some(Ok((pid, _))) = state.spawned.remove(&self.id) {
            let _ = self.cage.signal(pid.unsigned_abs(), libc::SIGKILL);
        }
    }
}

/// A payload that was forked; killed when it is dropped before it was kept.
struct Started<'cage> {
    cage: &'cage Cage,
    pid: i32,
    ends: Vec<OwnedFd>,
    status: OwnedFd,
    kept: bool,
}

impl Started<'_> {
    fn keep(mut self) -> Vec<OwnedFd> {
        self.kept = true;
        std::mem::take(&mut self.ends)
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = self.cage.signal(self.pid.unsigned_abs(), libc::SIGKILL);
        }
    }
}

impl SpawnError {
    fn of(failed: &wire::Failed) -> Self {
        let (step, wall) = (failed.step, failed.step.wall());
        if step == Step::Prepare && failed.errno == Some(libc::EAGAIN) {
            return Self::NotStarted {
                why: "the cage's bound of processes is used up".to_owned(),
            };
        }
        Self::Unconfined {
            step,
            wall,
            detail: failed.detail.clone(),
            source: failed.error(),
        }
    }
}

/// A file in memory that holds a program, at its beginning.
fn memory_file(program: &Program) -> io::Result<OwnedFd> {
    let text = serde_json::to_vec(program).map_err(io::Error::other)?;
    let mut file = std::fs::File::from(memfd_create("program", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&text)?;
    file.rewind()?;
    Ok(file.into())
}

/// Reads a status pipe to its end.
async fn read_status(status: &OwnedFd) -> io::Result<Vec<u8>> {
    kernel::do_not_block(status.as_fd())?;
    let pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(status.try_clone()?)?;
    let mut text = Vec::new();
    pipe.take(MOST_STATUS).read_to_end(&mut text).await?;
    Ok(text)
}
