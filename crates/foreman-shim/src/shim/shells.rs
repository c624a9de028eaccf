//! Shells: programs of the operator's beside the step that runs, in the same cage.
//!
//! A shell is one more payload, so its walls are those of the step. It can be opened only while a setup
//! or agent step runs; the door is shut before anything is collected, and emptying the cage ends every
//! shell. It is journalled that, by whom and with which arguments it was opened, and how it ended; what
//! goes through it is not.
//!
//! What a shell writes waits in a bounded outbox until its reader says that it has it: the program waits
//! meanwhile, nothing is lost when a connection breaks, and a shell that nobody reads is ended. What the
//! reader types is counted, so that what arrives twice is taken once.

mod outbox;
mod streams;

use super::feed::Feed;
use super::plan::{obey, result_of};
use super::server::TerminalOrder;
use crate::protocol::Response;
use crate::wire::{Refusal, RpcError};
use foreman_cage::{Cage, Payload, PayloadStdio};
use foreman_domain::{EventKind, ShellId, StepResult};
use outbox::Outbox;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use streams::{Source, Streams};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Shells that are open at one time.
const MOST: usize = 4;
/// Shells that are remembered, ended ones among them.
const REMEMBERED: usize = 16;
/// Longest wait for a program to start.
const START: Duration = Duration::from_secs(60);
/// A shell that nobody reads for so long is ended.
const ABANDONED: Duration = Duration::from_secs(60);
/// Between hanging up and killing.
const HANG_UP: Duration = Duration::from_secs(1);
/// A stream that somebody else holds open counts as ended when it says nothing for so long.
const QUIET: Duration = Duration::from_millis(200);
/// Longest wait for shells to end with their cage.
const LAST: Duration = Duration::from_secs(2);
/// Longest command line and name.
const ARGV_BYTES: usize = 128 << 10;
const NAME_BYTES: usize = 64;
/// Bytes of one read.
const BUFFER: usize = 16 << 10;
/// How long an order may wait for a terminal.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is to be opened.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) shell: ShellId,
    pub(super) by: String,
    pub(super) argv: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) terminal: Option<(u16, u16)>,
}

/// All shells of a run; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Shells(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    feed: Feed,
    /// The cage, while shells may be opened in it. Held while one is being opened.
    door: tokio::sync::Mutex<Option<Arc<Cage>>>,
    /// Why none may be opened for now, in words.
    barred: Mutex<Option<String>>,
    known: Mutex<HashMap<ShellId, Arc<Shell>>>,
    tasks: TaskTracker,
    /// Fires when the cage is empty for good.
    over: CancellationToken,
}

#[derive(Debug)]
struct Shell {
    pid: u32,
    clock: Instant,
    outbox: Outbox,
    /// Where keys go; absent without a terminal.
    orders: Option<mpsc::Sender<TerminalOrder>>,
    /// Bytes typed so far.
    typed: tokio::sync::Mutex<u64>,
    /// When somebody last cared.
    cared: Mutex<Instant>,
    /// Fires when it is to end.
    end: CancellationToken,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shells {
    pub(super) fn new(feed: Feed) -> Self {
        Self(Arc::new(Inner {
            feed,
            door: tokio::sync::Mutex::default(),
            barred: Mutex::default(),
            known: Mutex::default(),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
        }))
    }

    /// From here on shells can be opened.
    pub(super) async fn open_door(&self, cage: &Arc<Cage>) {
        *self.0.door.lock().await = Some(Arc::clone(cage));
    }

    /// From here on none can; one that was being opened has been when this returns.
    pub(super) async fn shut_door(&self) {
        *self.0.door.lock().await = None;
    }

    /// From here on none can be opened, for this reason, or they can again. One that was being opened has
    /// been when this returns.
    pub(super) async fn bar(&self, why: Option<String>) {
        let _nobody_opens_one = self.0.door.lock().await;
        *lock(&self.0.barred) = why;
    }

    /// Waits until nothing here holds the cage any more, which has been emptied.
    pub(super) async fn finish(&self) {
        self.shut_door().await;
        self.0.tasks.close();
        if timeout(LAST, self.0.tasks.wait()).await.is_err() {
            self.0.over.cancel();
            self.0.tasks.wait().await;
        }
    }

    /// Opens a shell.
    pub(super) async fn open(&self, asked: Asked) -> Result<(), RpcError> {
        let Asked {
            shell: id,
            by,
            argv,
            env,
            terminal,
        } = asked;
        let size: usize = argv.iter().map(|word| word.len() + 1).sum();
        if argv.is_empty() || size > ARGV_BYTES || by.len() > NAME_BYTES {
            return Err(Refusal::Malformed.says("That is no command line for a shell"));
        }
        // One at a time, so that asking twice opens one.
        let door = self.0.door.lock().await;
        if lock(&self.0.known).contains_key(&id) {
            return Ok(());
        }
        let Some(cage) = door.as_ref() else {
            return Err(Refusal::NoStep.says(
                "No setup or agent step of the run runs now, and a shell is opened only beside one",
            ));
        };
        if let Some(why) = lock(&self.0.barred).clone() {
            return Err(Refusal::Busy.says(format!("The run is paused: {why}")));
        }
        self.make_room()?;
        let told = self.0.feed.tell(EventKind::ShellOpened {
            shell: id.clone(),
            by,
            argv: argv.clone(),
            terminal: terminal.is_some(),
        });
        // It is on record before it can do anything.
        if let Err(error) = self.0.feed.wait_durable(told).await {
            return Err(Refusal::Disk.says(error.to_string()));
        }
        let stdio = match terminal {
            Some((columns, rows)) => PayloadStdio::Terminal { columns, rows },
            None => PayloadStdio::Pipes,
        };
        let payload = Payload { argv, env, stdio };
        let clock = Instant::now();
        let started = match timeout(START, cage.spawn_beside(payload)).await {
            Ok(started) => started.map_err(|error| error.to_string()),
            Err(_) => Err("It did not start in time".to_owned()),
        };
        match started.and_then(|child| {
            Streams::of(child, cage).map_err(|error| format!("It cannot be talked to: {error}"))
        }) {
            Ok(streams) => {
                self.attend(id, streams, Arc::clone(cage), clock);
                Ok(())
            }
            Err(why) => {
                self.0.feed.tell(EventKind::ShellEnded {
                    shell: id,
                    result: StepResult::NotStarted { why: why.clone() },
                    millis: millis_since(clock),
                });
                Err(Refusal::NotStarted.says(why))
            }
        }
    }

    /// What a shell wrote after the chunks that the reader has, as soon as there is something.
    pub(super) async fn read(
        &self,
        id: &ShellId,
        after: u64,
        wait: Duration,
    ) -> Result<Response, RpcError> {
        let shell = self.find(id)?;
        let (chunks, ended) = shell.outbox.take(after, wait).await;
        shell.is_cared_for();
        Ok(Response::Shell { chunks, ended })
    }

    /// Types into a shell.
    pub(super) async fn type_in(
        &self,
        id: &ShellId,
        at: u64,
        bytes: Vec<u8>,
    ) -> Result<(), RpcError> {
        let shell = self.find(id)?;
        let mut typed = shell.typed.lock().await;
        let Some(known) = typed.checked_sub(at) else {
            return Err(Refusal::Stale.says("Some of what was typed before did not arrive"));
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let fresh = bytes.get(known..).unwrap_or_default().to_vec();
        if fresh.is_empty() {
            return Ok(());
        }
        let count = fresh.len() as u64;
        shell.order(TerminalOrder::Input(fresh)).await?;
        *typed += count;
        Ok(())
    }

    /// Tells a shell the size of its terminal.
    pub(super) async fn resize(
        &self,
        id: &ShellId,
        columns: u16,
        rows: u16,
    ) -> Result<(), RpcError> {
        let order = TerminalOrder::Resize { columns, rows };
        self.find(id)?.order(order).await
    }

    /// Ends a shell.
    pub(super) fn end(&self, id: &ShellId) -> Result<(), RpcError> {
        self.find(id)?.end.cancel();
        Ok(())
    }

    fn find(&self, id: &ShellId) -> Result<Arc<Shell>, RpcError> {
        let found = lock(&self.0.known).get(id).map(Arc::clone);
        let shell = found.ok_or_else(|| Refusal::NoShell.says("There is no such shell"))?;
        shell.is_cared_for();
        Ok(shell)
    }

    /// Forgets shells that have ended and that nobody reads any more.
    fn make_room(&self) -> Result<(), RpcError> {
        let mut known = lock(&self.0.known);
        known.retain(|_, shell| !(shell.outbox.has_ended() && shell.is_abandoned()));
        let open = known.values().filter(|shell| !shell.outbox.has_ended());
        if open.count() >= MOST || known.len() >= REMEMBERED {
            return Err(Refusal::Busy.says(format!("{MOST} shells of this run are open already")));
        }
        Ok(())
    }

    fn attend(&self, id: ShellId, streams: Streams, cage: Arc<Cage>, clock: Instant) {
        let Streams {
            pid,
            sources,
            orders,
            to_obey,
        } = streams;
        let shell = Arc::new(Shell {
            pid,
            clock,
            outbox: Outbox::default(),
            orders,
            typed: tokio::sync::Mutex::default(),
            cared: Mutex::new(Instant::now()),
            end: self.0.over.child_token(),
        });
        lock(&self.0.known).insert(id.clone(), Arc::clone(&shell));
        let inner = Arc::clone(&self.0);
        self.0.tasks.spawn(async move {
            let result = tokio::select! {
                result = shell.carry(&cage, sources, to_obey) => result,
                () = inner.over.cancelled() => result_of(foreman_cage::Exit::CageGone),
            };
            drop(cage);
            inner.feed.tell(EventKind::ShellEnded {
                shell: id,
                result: result.clone(),
                millis: millis_since(shell.clock),
            });
            shell.outbox.close(result);
        });
    }
}

impl Shell {
    /// Until the program has ended and what it wrote is in the outbox.
    async fn carry(
        &self,
        cage: &Cage,
        sources: Vec<Source>,
        to_obey: Option<mpsc::Receiver<TerminalOrder>>,
    ) -> StepResult {
        let terminal = sources.iter().find_map(Source::terminal);
        let obeying = async {
            if let (Some(terminal), Some(orders)) = (terminal, to_obey) {
                obey(terminal, orders, cage).await;
            }
            std::future::pending::<Infallible>().await
        };
        let pumping = futures::future::join_all(sources.iter().map(|source| self.pump(source)));
        let ending = async {
            let exit = tokio::select! {
                exit = cage.wait(self.pid) => exit,
                () = self.unwanted() => self.hang_up(cage).await,
            };
            // What a program left behind may hold the streams open without a word.
            self.fall_silent().await;
            result_of(exit)
        };
        tokio::pin!(pumping, ending, obeying);
        tokio::select! {
            result = &mut ending => result,
            // Nothing more will be written; the exit itself may still be to come.
            _ = &mut pumping => tokio::select! {
                exit = cage.wait(self.pid) => result_of(exit),
                () = self.unwanted() => result_of(self.hang_up(cage).await),
            },
            never = &mut obeying => match never {},
        }
    }

    async fn pump(&self, source: &Source) {
        let mut buffer = vec![0; BUFFER];
        while let Some(count) = source.read(&mut buffer).await {
            let read = buffer.get(..count).unwrap_or_default();
            self.outbox.put(source.stream(), read).await;
        }
    }

    /// Waits until nothing was written for a moment, though there was room for it.
    async fn fall_silent(&self) {
        loop {
            let before = self.outbox.written();
            tokio::time::sleep(QUIET).await;
            if self.outbox.has_room() && self.outbox.written() == before {
                return;
            }
            if self.end.is_cancelled() || self.is_abandoned() {
                return;
            }
        }
    }

    /// Waits until it is to end, or nobody has cared for long.
    async fn unwanted(&self) {
        let abandoned = async {
            while !self.is_abandoned() {
                let due = *lock(&self.cared) + ABANDONED;
                tokio::time::sleep_until(due.into()).await;
            }
        };
        tokio::select! {
            () = self.end.cancelled() => {}
            () = abandoned => {}
        }
    }

    async fn hang_up(&self, cage: &Cage) -> foreman_cage::Exit {
        for signal in [libc::SIGHUP, libc::SIGKILL] {
            if let Err(error) = cage.signal(self.pid, signal) {
                tracing::warn!(%error, signal, "a shell could not be signalled");
            }
            if let Ok(exit) = timeout(HANG_UP, cage.wait(self.pid)).await {
                return exit;
            }
        }
        cage.wait(self.pid).await
    }

    async fn order(&self, order: TerminalOrder) -> Result<(), RpcError> {
        let none = || Refusal::NoShell.says("The shell has no terminal, or has ended");
        let orders = self.orders.as_ref().ok_or_else(none)?;
        match timeout(PATIENCE, orders.send(order)).await {
            Ok(sent) => sent.map_err(|_| none()),
            Err(_) => Err(Refusal::Busy.says("The shell does not read its terminal")),
        }
    }

    fn is_cared_for(&self) {
        *lock(&self.cared) = Instant::now();
    }

    fn is_abandoned(&self) -> bool {
        lock(&self.cared).elapsed() >= ABANDONED
    }
}

fn millis_since(clock: Instant) -> u64 {
    u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX)
}
