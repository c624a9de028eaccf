//! The conversation with a cage's process 1.
//!
//! Everything goes over one socket. Whoever waits for something reads the socket for all that wait,
//! so there is no task to own, and any future may be dropped at any time: what arrives for nobody is
//! kept (exits) or undone (programs).

use crate::wire::{self, Ended, Failed, Notice, Request, Stdio, What};
use crate::{Exit, SpawnError, Step, kernel};
use nix::unistd::pipe2;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::io::AsyncReadExt as _;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Most bytes that a status pipe may carry.
const MOST_STATUS: u64 = 256 * 1024;

/// Our side of the conversation.
#[derive(Debug)]
pub(crate) struct Exchange {
    socket: OwnedFd,
    /// The socket on the runtime of the first call.
    ready: OnceLock<Option<AsyncFd<OwnedFd>>>,
    state: Mutex<State>,
    /// Something in the state changed.
    news: Notify,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    /// Requests somebody waits for.
    waiting: HashSet<u64>,
    spawned: HashMap<u64, Result<(i32, Vec<OwnedFd>), SpawnError>>,
    exits: HashMap<i32, Exit>,
    killed: HashMap<u64, u32>,
    all_stopped: HashSet<u64>,
    sockets: HashMap<u64, Vec<OwnedFd>>,
    gone: bool,
}

impl Exchange {
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        kernel::do_not_block(socket.as_fd())?;
        Ok(Self {
            socket,
            ready: OnceLock::new(),
            state: Mutex::default(),
            news: Notify::new(),
        })
    }

    /// Waits for the exit of a program.
    pub async fn exit(&self, pid: i32) -> Exit {
        let exit = self.until(|state| state.exits.get(&pid).copied()).await;
        exit.unwrap_or(Exit::CageGone)
    }

    /// Sends a signal to a program's process group.
    pub fn signal(&self, pid: i32, signal: i32) -> io::Result<()> {
        wire::send(self.socket.as_fd(), &Request::Signal { pid, signal }, &[])
    }

    /// Kills everything but process 1; `None` when the cage is gone.
    pub async fn kill_all(&self) -> Option<u32> {
        let waiting = Waiting::new(self);
        let id = waiting.id;
        self.ask(&Request::KillAll { id }, &[]).await.ok()?;
        self.until(|state| state.killed.remove(&id)).await
    }

    /// Limits how many files each process that is forked later may have open.
    pub fn limit_files(&self, most: u32) -> io::Result<()> {
        wire::send(self.socket.as_fd(), &Request::LimitFiles { most }, &[])
    }

    /// Sends SIGSTOP to everything but process 1; `None` when the cage is gone.
    pub async fn stop_all(&self) -> Option<()> {
        let waiting = Waiting::new(self);
        let id = waiting.id;
        self.ask(&Request::StopAll { id }, &[]).await.ok()?;
        self.until(|state| state.all_stopped.remove(&id).then_some(()))
            .await
    }

    /// A socket of each family in the cage's network.
    pub async fn sockets(&self) -> io::Result<[OwnedFd; 2]> {
        let waiting = Waiting::new(self);
        let id = waiting.id;
        self.ask(&Request::Sockets { id }, &[]).await?;
        let made = self.until(|state| state.sockets.remove(&id)).await;
        let made = made.ok_or(io::ErrorKind::NotConnected)?;
        made.try_into()
            .map_err(|_| io::Error::other("the cage made no sockets"))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a new request; its answer is kept until somebody asks for it.
    fn expect_answer(&self) -> u64 {
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        state.waiting.insert(id);
        id
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
                let _ = self.signal(pid, libc::SIGKILL);
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
            Notice::AllStopped { id } if state.waiting.contains(&id) => {
                state.all_stopped.insert(id);
            }
            Notice::AllStopped { .. } => {}
            Notice::Sockets { id } if state.waiting.contains(&id) => {
                state.sockets.insert(id, fds);
            }
            Notice::Sockets { .. } => {}
        }
    }

    /// Has a payload forked; `more` follows the status pipe. When the future is dropped, the payload
    /// is killed.
    pub async fn start(
        &self,
        what: What,
        stdio: Stdio,
        more: &[OwnedFd],
    ) -> Result<Started<'_>, SpawnError> {
        let (status, writing) = status_pipe().map_err(SpawnError::Talk)?;
        let waiting = Waiting::new(self);
        let id = waiting.id;
        let fds: Vec<_> = [&writing]
            .into_iter()
            .chain(more)
            .map(AsFd::as_fd)
            .collect();
        self.ask(&Request::Spawn { id, what, stdio }, &fds)
            .await
            .map_err(SpawnError::Talk)?;
        drop(writing);
        self.started(&waiting, status).await
    }

    /// As [`Exchange::start`], without waiting for anything, also where there is no runtime yet.
    pub fn begin(&self, what: What, stdio: Stdio, more: &[OwnedFd]) -> io::Result<Begun> {
        let (status, writing) = status_pipe()?;
        let id = self.expect_answer();
        let fds: Vec<_> = [&writing]
            .into_iter()
            .chain(more)
            .map(AsFd::as_fd)
            .collect();
        wire::send(
            self.socket.as_fd(),
            &Request::Spawn { id, what, stdio },
            &fds,
        )?;
        Ok(Begun { id, status })
    }

    /// Waits until what was begun is forked. When it is dropped before, it is killed.
    pub async fn adopt(&self, begun: Begun) -> Result<Started<'_>, SpawnError> {
        let waiting = Waiting {
            exchange: self,
            id: begun.id,
        };
        self.started(&waiting, begun.status).await
    }

    async fn started(
        &self,
        waiting: &Waiting<'_>,
        status: OwnedFd,
    ) -> Result<Started<'_>, SpawnError> {
        let spawned = self.until(|state| state.spawned.remove(&waiting.id)).await;
        let (pid, ends) = spawned.ok_or(SpawnError::CageGone)??;
        Ok(Started {
            exchange: self,
            pid,
            ends,
            status,
            kept: false,
        })
    }
}

/// The pipe on which a payload says what kept it from running: reading and writing end.
fn status_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

/// A payload that was asked for and that nobody waits for yet.
#[derive(Debug)]
pub(crate) struct Begun {
    id: u64,
    status: OwnedFd,
}

/// A request whose answer is wanted; what arrives after it was dropped is not kept.
struct Waiting<'it> {
    exchange: &'it Exchange,
    id: u64,
}

impl<'it> Waiting<'it> {
    fn new(exchange: &'it Exchange) -> Self {
        let id = exchange.expect_answer();
        Self { exchange, id }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.exchange.state();
        state.waiting.remove(&self.id);
        state.killed.remove(&self.id);
        state.all_stopped.remove(&self.id);
        state.sockets.remove(&self.id);
        if let Some(Ok((pid, _))) = state.spawned.remove(&self.id) {
            let _ = self.exchange.signal(pid, libc::SIGKILL);
        }
    }
}

/// A payload that was forked; killed when it is dropped before it was kept.
pub(crate) struct Started<'it> {
    exchange: &'it Exchange,
    pub pid: i32,
    ends: Vec<OwnedFd>,
    status: OwnedFd,
    kept: bool,
}

impl Started<'_> {
    /// What it says before it becomes its program, or ends: all until the status pipe is closed.
    pub async fn status(&self) -> Result<Vec<u8>, SpawnError> {
        read_to_end(&self.status).await.map_err(SpawnError::Talk)
    }

    /// Ends it.
    pub fn kill(&self) {
        let _ = self.exchange.signal(self.pid, libc::SIGKILL);
    }

    /// Leaves it running; our ends of its standard streams.
    pub fn keep(mut self) -> Vec<OwnedFd> {
        self.kept = true;
        std::mem::take(&mut self.ends)
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.kill();
        }
    }
}

impl SpawnError {
    pub(crate) fn of(failed: &Failed) -> Self {
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

async fn read_to_end(pipe: &OwnedFd) -> io::Result<Vec<u8>> {
    kernel::do_not_block(pipe.as_fd())?;
    let pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(pipe.try_clone()?)?;
    let mut text = Vec::new();
    pipe.take(MOST_STATUS).read_to_end(&mut text).await?;
    Ok(text)
}
