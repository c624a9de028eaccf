//! The cage as its supervisor holds it.

use crate::ahead::First;
use crate::census::Population;
use crate::child::in_memory;
use crate::exchange::{Exchange, Started};
use crate::files::show::Sockets;
use crate::files::view::View;
use crate::files::watch::{self, Watch};
use crate::files::{self, FileJudge, Supervisor};
use crate::probe::Depth;
use crate::wire::{NotRun, Stdio, Tried, What};
use crate::{
    Child, Confinement, Exit, Open, Payload, PayloadStdio, ProbeResult, ProcessSample, SpawnError,
    Spent, census, kernel, probe, wire,
};
use foreman_domain::FileAccess;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the probes may take: they end by themselves long before.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// How long process 1 may take to kill all the others before it is killed itself.
const KILL_LIMIT: Duration = Duration::from_secs(5);

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
    exchange: Exchange,
    /// Its file tree.
    view: Arc<View>,
    /// Who takes its programs' calls on files, and why it could not take those of one.
    supervisor: OnceLock<Supervisor>,
    unwatched: OnceLock<String>,
    /// A program that was started ahead.
    first: Mutex<Option<First>>,
    reaped: bool,
    confinement: Confinement,
}

impl Cage {
    pub(crate) fn new(
        init: Pid,
        process: OwnedFd,
        proc: OwnedFd,
        view: View,
        exchange: Exchange,
        first: Option<First>,
        confinement: Confinement,
    ) -> Self {
        Self {
            init,
            process,
            proc,
            exchange,
            view: Arc::new(view),
            supervisor: OnceLock::new(),
            unwatched: OnceLock::new(),
            first: Mutex::new(first),
            reaped: false,
            confinement,
        }
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
        let first = self.first().take();
        let watch = self.watch();
        let released = match first {
            Some(first) => first.release(&payload, watch, &self.exchange).await,
            None => None,
        };
        let Some((started, gate)) = released else {
            return self.spawn_beside(payload).await;
        };
        self.child(started, payload.stdio, watch.map(|_| gate))
            .await
    }

    /// Starts a program beside what was started ahead, which goes on waiting for its turn: confined like
    /// any other.
    ///
    /// # Errors
    /// As [`Cage::spawn`].
    pub async fn spawn_beside(&self, payload: Payload) -> Result<Child, SpawnError> {
        let watch = self.watch();
        let memory = payload.memory_file(watch).map_err(SpawnError::Talk)?;
        let (what, stdio) = (What::Program, payload.stdio.into());
        let (door, theirs) = wire::pair().map_err(SpawnError::Talk)?;
        let mut fds = vec![memory];
        fds.extend(watch.map(|_| theirs));
        let started = self.exchange.start(what, stdio, &fds).await?;
        drop(fds);
        self.child(started, payload.stdio, watch.map(|_| door))
            .await
    }

    /// What is to be watched of a program that is started now.
    fn watch(&self) -> Option<Watch> {
        self.supervisor.get().map(Supervisor::watch)
    }

    /// Takes the calls of a program from now on: its very first one waits for that.
    async fn take_over(&self, door: OwnedFd) -> Result<(), SpawnError> {
        match watch::taken_at(door).await {
            Ok(Some(listener)) => {
                let supervisor = self.supervisor.get();
                supervisor.map_or(Ok(()), |supervisor| supervisor.add(listener))
            }
            // It ended before, and has said why.
            Ok(None) => Ok(()),
            Err(error) if error.raw_os_error().is_some() => {
                // The mounts refuse what nobody is asked about.
                let _ = self.unwatched.set(error.to_string());
                Ok(())
            }
            Err(error) => Err(error),
        }
        .map_err(SpawnError::Talk)
    }

    /// Waits until a program is executed.
    async fn child(
        &self,
        started: Started<'_>,
        stdio: PayloadStdio,
        door: Option<OwnedFd>,
    ) -> Result<Child, SpawnError> {
        if let Some(door) = door {
            self.take_over(door).await?;
        }
        let status = started.status().await?;
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
            stdin: None,
            stdout: None,
            stderr: None,
            terminal: None,
        };
        match stdio {
            PayloadStdio::Null => {}
            PayloadStdio::Pipes => (child.stdout, child.stderr) = (ends.next(), ends.next()),
            PayloadStdio::Conversation => {
                (child.stdout, child.stderr, child.stdin) = (ends.next(), ends.next(), ends.next());
            }
            PayloadStdio::Terminal { .. } => child.terminal = ends.next(),
        }
        Ok(child)
    }

    /// Waits until a program has ended. May be asked again, until another program gets its number.
    pub async fn wait(&self, pid: u32) -> Exit {
        match i32::try_from(pid) {
            Ok(pid) => self.exchange.exit(pid).await,
            Err(_) => Exit::CageGone,
        }
    }

    /// Sends a signal to the process group of a program that [`Cage::spawn`] started.
    ///
    /// # Errors
    /// When the cage is gone. A program that has ended is no error.
    pub fn signal(&self, pid: u32, signal: i32) -> io::Result<()> {
        let pid = i32::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.exchange.signal(pid, signal)
    }

    /// Kills every process but the cage's process 1; returns how many when none is left.
    pub async fn kill_all(&self) -> u32 {
        self.dismiss_first().await;
        self.exchange.kill_all().await.unwrap_or(0)
    }

    /// Has calls on files outside of what the cage may write wait for a judge, and tells it of programs;
    /// for every program that is started from now on, until `cancel` fires. Must be called on a runtime,
    /// and once. Where [`files::available`] fails, programs run without, and the mounts refuse as ever.
    ///
    /// # Errors
    /// When it cannot be begun.
    pub fn hold_files<J: FileJudge>(
        &self,
        config: files::Config,
        judge: Arc<J>,
        cancel: &CancellationToken,
    ) -> io::Result<()> {
        let view = Arc::clone(&self.view);
        let (init, cancel) = (self.init_pid(), cancel.child_token());
        let supervisor = Supervisor::start(view, init, &config, judge, cancel)?;
        self.view.places.close(config.closed);
        let begun = self.supervisor.set(supervisor);
        begun.map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    /// Why calls on files are not held although they should be: the kernel's answer.
    #[must_use]
    pub fn why_files_are_not_held(&self) -> Option<&str> {
        self.unwatched.get().map(String::as_str)
    }

    /// Whether a path could be shown in the running cage, as far as that does not change: cheap.
    ///
    /// # Errors
    /// [`files::ShowError::Closed`] and [`files::ShowError::Covers`].
    pub fn may_show(&self, root: &Path, access: FileAccess) -> Result<(), files::ShowError> {
        self.has_mounts(root)?;
        self.view.may_show(root, access)
    }

    /// Nothing can be mounted where there are no namespaces.
    fn has_mounts(&self, root: &Path) -> Result<(), files::ShowError> {
        if self.confinement.has_namespaces() {
            return Ok(());
        }
        Err(files::ShowError::Closed {
            path: root.to_owned(),
            why: "this run has no namespaces, so what it sees is fixed from its start",
        })
    }

    /// Shows a folder or file of the host in the running cage, at its own place, with all that is
    /// mounted in it. Its programs see it from now on; they need not be started again. Done already when it,
    /// or a folder above it, is shown. All or nothing, also when the future is dropped.
    ///
    /// A program that stood in a folder that was seen before, or has a file of it open, keeps the old view
    /// of it. A single file cannot be replaced by another (EBUSY): show its folder.
    ///
    /// # Errors
    /// Why nothing was shown.
    pub async fn show(&self, root: &Path, access: FileAccess) -> Result<(), files::ShowError> {
        self.has_mounts(root)?;
        self.view.show(root, access, Sockets::Refuse).await
    }

    /// As [`Cage::show`], although sockets of the host are below: whoever reaches one reaches the program
    /// behind it.
    ///
    /// # Errors
    /// As [`Cage::show`].
    pub async fn show_with_sockets(
        &self,
        root: &Path,
        access: FileAccess,
    ) -> Result<(), files::ShowError> {
        self.has_mounts(root)?;
        self.view.show(root, access, Sockets::Accept).await
    }

    /// Hides what [`Cage::show`] showed at this very path; whether there was any. New opens fail from now
    /// on. What is open stays open, and can be written where it was opened for that.
    ///
    /// # Errors
    /// Why it is still shown.
    pub async fn hide(&self, root: &Path) -> Result<bool, files::ShowError> {
        self.view.hide(root).await
    }

    /// Every process of the cage but process 1.
    #[must_use]
    pub fn processes(&self) -> Vec<ProcessSample> {
        census::take(self.population())
    }

    /// What it has used of the processors, and how much runs in it; none when it is gone.
    #[must_use]
    pub fn spent(&self) -> Option<Spent> {
        census::spent(self.population())
    }

    /// Bytes of files that are in memory: scratch directories, shared memory, nameless files.
    #[must_use]
    pub fn files_in_memory(&self) -> u64 {
        census::files_in_memory(self.population())
    }

    /// Bytes that its scratch directories and shared memory hold.
    #[must_use]
    pub fn scratch(&self) -> u64 {
        census::scratch(self.population())
    }

    /// What is open in it, beside what has a name.
    #[must_use]
    pub fn open(&self) -> Open {
        census::open(self.population())
    }

    /// Process ids on the host of process 1 and all that came of it.
    #[must_use]
    pub fn on_the_host(&self) -> Vec<u32> {
        census::family(self.init_pid())
    }

    /// Limits how many files each program that is started from now on may have open, and everything that
    /// comes of it. Nobody can raise that again. A program that was started ahead is given up for it.
    ///
    /// # Errors
    /// When the cage is gone.
    pub async fn limit_open_files(&self, most: u32) -> io::Result<()> {
        self.dismiss_first().await;
        self.exchange.limit_files(most)
    }

    pub(crate) fn proc(&self) -> BorrowedFd<'_> {
        self.proc.as_fd()
    }

    pub(crate) async fn sockets(&self) -> io::Result<[OwnedFd; 2]> {
        // Process 1 would make them in the machine's own network.
        if !self.confinement.has_namespaces() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.exchange.sockets().await
    }

    /// Who is counted as the cage's.
    pub(crate) fn population(&self) -> Population<'_> {
        Population {
            proc: self.proc.as_fd(),
            came_of: (!self.confinement.has_namespaces()).then(|| self.init_pid()),
        }
    }

    /// What keeps its programs in.
    #[must_use]
    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    pub(crate) async fn stop_all(&self) -> io::Result<()> {
        let stopped = self.exchange.stop_all().await;
        stopped.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sets the size of a program's terminal and tells the program.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn resize(&self, terminal: BorrowedFd<'_>, columns: u16, rows: u16) -> io::Result<()> {
        kernel::resize_terminal(terminal, columns, rows)
    }

    /// Tries the walls from inside, as a fully confined program. The gateway must be running: two
    /// probes ask it, one of them about [`PROBE_NAME`](crate::PROBE_NAME). In a cage without any, the
    /// network wall holds when there is no way to anywhere. After
    /// [`launch_ahead`](crate::launch_ahead) the first program has tried them. A cage without a `.git`
    /// in its working directory yields no [`Wall::Git`](foreman_domain::Wall::Git).
    pub async fn probe(&self) -> Vec<ProbeResult> {
        let results = tokio::time::timeout(PROBE_LIMIT, self.run_probes()).await;
        let failure = match results {
            Ok(Ok(results)) => return results,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "they took too long".to_owned(),
        };
        probe::none_held(&format!("the probes did not run to their end: {failure}"))
    }

    /// Tries the walls once more, in a cage whose programs run. What was shown since is no hole.
    ///
    /// # Errors
    /// When they could not be tried to the end: a paused cage, or one without room for a process more, says
    /// nothing about its walls.
    pub async fn probe_again(&self, depth: Depth) -> Result<Vec<ProbeResult>, SpawnError> {
        let shown = self.view.shown().await;
        let tried = tokio::time::timeout(PROBE_LIMIT, self.try_walls(Tried { depth, shown })).await;
        tried.unwrap_or_else(|_| Err(SpawnError::Talk(io::ErrorKind::TimedOut.into())))
    }

    /// Kills all but process 1, also while they are frozen, and waits for none of them.
    pub fn kill_where_they_stand(&self) {
        let others = self.on_the_host().into_iter();
        for pid in others.filter(|pid| *pid != self.init_pid()) {
            if let Ok(pid) = i32::try_from(pid) {
                // One that has ended meanwhile is what is wanted.
                let _ = nix::sys::signal::kill(Pid::from_raw(pid), nix::sys::signal::SIGKILL);
            }
        }
    }

    async fn run_probes(&self) -> Result<Vec<ProbeResult>, SpawnError> {
        let first = self.first().take();
        if let Some(mut first) = first {
            let results = first.results().await;
            *self.first() = Some(first);
            if let Some(results) = results {
                return Ok(results);
            }
        }
        self.try_walls(Tried::default()).await
    }

    async fn try_walls(&self, tried: Tried) -> Result<Vec<ProbeResult>, SpawnError> {
        let order = in_memory(&tried).map_err(SpawnError::Talk)?;
        let started = self
            .exchange
            .start(What::Probes, Stdio::Null, &[order])
            .await?;
        let status = started.status().await?;
        let results = serde_json::from_slice(&status)
            .map_err(|_| SpawnError::Talk(io::ErrorKind::InvalidData.into()))?;
        // What ends by itself is none of those that are killed with the cage.
        self.wait(started.pid.unsigned_abs()).await;
        started.keep();
        Ok(results)
    }

    /// Ends the cage. Returns when the kernel has confirmed that no process of it is left, with the
    /// number of those that were killed, process 1 aside.
    pub async fn destroy(mut self) -> u32 {
        self.dismiss_first().await;
        let seen = self.processes().len();
        let killed = tokio::time::timeout(KILL_LIMIT, self.exchange.kill_all()).await;
        let _ = kernel::signal_process(self.process.as_fd(), libc::SIGKILL);
        // The kernel lets process 1 end only after every other process of its namespace.
        if let Ok(process) = self.process.try_clone().and_then(kernel::on_runtime) {
            let _ = process.readable().await;
        }
        self.reap();
        if !self.confinement.has_namespaces() {
            self.end_orphans().await;
        }
        killed
            .ok()
            .flatten()
            .unwrap_or(u32::try_from(seen).unwrap_or(u32::MAX))
    }

    /// Kills what came of the cage and has outlived it: it has come to us, whose children are otherwise none
    /// but short-lived helpers of other cages.
    async fn end_orphans(&self) {
        let deadline = tokio::time::Instant::now() + KILL_LIMIT;
        loop {
            let orphans = census::orphans_of(std::process::id());
            if orphans.is_empty() || tokio::time::Instant::now() > deadline {
                return;
            }
            for orphan in orphans.iter().filter_map(|pid| i32::try_from(*pid).ok()) {
                let _ = nix::sys::signal::kill(Pid::from_raw(orphan), nix::sys::signal::SIGKILL);
                let _ = nix::sys::wait::waitpid(Pid::from_raw(orphan), Some(WaitPidFlag::WNOHANG));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// What was started for nothing is none of those that are killed.
    async fn dismiss_first(&self) {
        let first = self.first().take();
        if let Some(first) = first {
            first.dismiss(&self.exchange).await;
        }
    }

    fn first(&self) -> MutexGuard<'_, Option<First>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reap(&mut self) {
        let ended = || waitid(Id::PIDFd(self.process.as_fd()), WaitPidFlag::WEXITED);
        while ended() == Err(nix::Error::EINTR) {}
        self.reaped = true;
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
