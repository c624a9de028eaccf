//! Carries the output of steps to the journal or a file, and keys to a terminal.
//!
//! A pump reads until its stream ends, which may be after its step: a process that a step left behind
//! may still write. It stops reading while the journal has no room, so that the writer waits.

use super::talk::{Held, Talk};
use super::tally::SharedTally;
use super::{Meter, Plan};
use crate::protocol::{Stdio, StepSpec};
use crate::redact::Redactor;
use crate::shim::feed::{Feed, FeedFailure};
use crate::shim::figures;
use crate::shim::output::{ChunkCutter, LineCutter};
use crate::shim::server::TerminalOrder;
use foreman_cage::{Cage, Child};
use foreman_domain::{AgentEvent, At, EventKind, LogStream, StepKind, StepName};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

const BUFFER: usize = 64 << 10;
/// A line that pauses this long is told as far as it is.
const PAUSE: Duration = Duration::from_millis(500);
/// Streams that say nothing for this long after their step's end are left to themselves.
const QUIET: Duration = Duration::from_millis(100);
/// Longest wait for streams after a step's end, and after the end of all.
const SETTLE: Duration = Duration::from_secs(30);

/// All pumps of a run.
#[derive(Default)]
pub(super) struct Pumps {
    running: Vec<JoinHandle<()>>,
}

/// The streams of one step.
pub(super) struct Streams {
    activity: Arc<AtomicU64>,
    ended: watch::Receiver<()>,
    pub(super) file: Option<FilePump>,
    /// The conversation, where the step is an agent that has a driver.
    pub(super) talk: Option<Talk>,
    file_outcome: Option<watch::Receiver<Option<FileOutcome>>>,
}

/// Why a step's file is not whole.
#[derive(Debug, Clone)]
pub(super) enum FileOutcome {
    OverLimit(u64),
    Failed(String),
}

/// Where a pump's events go.
pub(super) struct Sink {
    feed: Feed,
    meter: Arc<Meter>,
    tally: SharedTally,
    step: StepName,
    kind: StepKind,
    activity: Arc<AtomicU64>,
    /// Dropped with the last pump of the step.
    _ended: Option<watch::Sender<()>>,
}

impl Pumps {
    pub(super) fn start(
        &mut self,
        plan: &Plan,
        step: &StepSpec,
        child: Child,
    ) -> io::Result<Streams> {
        self.running.retain(|pump| !pump.is_finished());
        let activity = Arc::new(AtomicU64::new(0));
        let (sender, ended) = watch::channel(());
        let sink = |sender: watch::Sender<()>| Sink {
            feed: plan.feed.clone(),
            meter: Arc::clone(&plan.meter),
            tally: plan.tally.clone(),
            step: step.name.clone(),
            kind: step.kind,
            activity: Arc::clone(&activity),
            _ended: Some(sender),
        };
        let mut streams = Streams {
            activity: Arc::clone(&activity),
            ended,
            file: None,
            talk: None,
            file_outcome: None,
        };
        let Child {
            stdin,
            stdout,
            stderr,
            terminal,
            ..
        } = child;
        if let Some(stderr) = stderr {
            let source = pipe::Receiver::from_owned_fd(stderr)?;
            let pump = pump_lines(source, LogStream::Stderr, sink(sender.clone()));
            self.running.push(tokio::spawn(pump));
        }
        match (&step.stdio, stdout) {
            (Stdio::File { path, limit }, Some(stdout)) => {
                let source = pipe::Receiver::from_owned_fd(stdout)?;
                let file = FilePump::start(source, path.clone(), *limit)?;
                streams.file_outcome = Some(file.outcome.clone());
                streams.file = Some(file);
            }
            (Stdio::Journal, Some(stdout)) if step.conversation.is_some() => {
                let source = pipe::Receiver::from_owned_fd(stdout)?;
                if let Some(conversation) = &step.conversation {
                    let sink = sink(sender.clone());
                    let held = Held {
                        arbiter: plan.keeper.arbiter.clone(),
                        brake: plan.keeper.brake.clone(),
                    };
                    let messages = &plan.messages;
                    let (talk, task) =
                        Talk::begin(conversation, source, stdin, sink, held, messages)?;
                    streams.talk = Some(talk);
                    self.running.push(task);
                }
            }
            (_, Some(stdout)) => {
                let source = pipe::Receiver::from_owned_fd(stdout)?;
                let pump = pump_lines(source, LogStream::Stdout, sink(sender.clone()));
                self.running.push(tokio::spawn(pump));
            }
            (_, None) => {}
        }
        if let Some(terminal) = terminal {
            let orders = plan.terminal.open();
            let cage = Arc::clone(&plan.cage);
            let terminal = open_terminal(terminal)?;
            let pump = pump_terminal(terminal, orders, cage, sink(sender));
            self.running.push(tokio::spawn(pump));
        }
        Ok(streams)
    }

    /// Waits for the end of every stream; nobody is left who could write.
    pub(super) async fn finish(self) {
        for mut pump in self.running {
            if timeout(SETTLE, &mut pump).await.is_err() {
                tracing::warn!("an output stream did not end with its cage");
                pump.abort();
            }
        }
    }
}

impl Streams {
    /// Waits until the streams have ended, or say nothing more although somebody holds them open. What waits
    /// at the bound of output is waited for, however long that takes.
    pub(super) async fn settle(mut self, meter: &Meter) {
        loop {
            meter.nobody_waits().await;
            let quiet = async {
                loop {
                    let before = self.activity.load(Ordering::Relaxed);
                    tokio::time::sleep(QUIET).await;
                    if self.activity.load(Ordering::Relaxed) == before {
                        return;
                    }
                }
            };
            // An error is the end: every pump has dropped its sender.
            let ended = async { while self.ended.changed().await.is_ok() {} };
            tokio::select! {
                biased;
                () = ended => return,
                () = quiet => {}
                () = tokio::time::sleep(SETTLE) => {}
            }
            if !meter.is_waiting() {
                return;
            }
        }
    }

    /// Waits until the file cannot become whole; for ever when it can, or when there is none.
    pub(super) async fn file_failed(&mut self) -> FileOutcome {
        let Some(outcome) = &mut self.file_outcome else {
            return std::future::pending().await;
        };
        match outcome
            .wait_for(Option::is_some)
            .await
            .map(|outcome| outcome.clone())
        {
            Ok(Some(outcome)) => outcome,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}

impl Sink {
    /// Tells what one read gave: all of one moment, however long the journal takes for it.
    pub(super) async fn tell(&self, events: &mut Vec<EventKind>) {
        let at = At::now();
        for event in events.drain(..) {
            let bytes = match &event {
                EventKind::Output { text, raw, .. } => raw.as_ref().map_or(text.len(), String::len),
                _ => 0,
            };
            let admitted = self.meter.admit(self.kind, bytes as u64 + 1, &self.feed);
            if admitted.await {
                self.feed.wait_for_room().await;
                self.feed.tell_at(at, event, Some(&self.step), None);
            }
            self.activity.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Sink {
    /// Tells what was understood of lines that were told, and were counted, before.
    pub(super) async fn tell_of_agent(&self, at: At, event: AgentEvent) {
        self.tally.take_in(&event);
        self.tell_freely(at, EventKind::Agent { event }).await;
    }

    /// Tells something that no bound of output is for: it is no more than what was counted, or it is ours.
    pub(super) async fn tell_freely(&self, at: At, event: EventKind) {
        self.feed.wait_for_room().await;
        self.feed.tell_at(at, event, Some(&self.step), None);
        self.is_active();
    }

    #[cfg(test)]
    pub(super) fn for_tests(feed: Feed, meter: Arc<Meter>) -> Self {
        Self {
            feed,
            meter,
            step: StepName("agent".to_owned()),
            kind: StepKind::Agent,
            activity: Arc::default(),
            tally: SharedTally::default(),
            _ended: None,
        }
    }

    /// The stream says something.
    pub(super) fn is_active(&self) {
        self.activity.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until all that was told so far is in the journal.
    pub(super) async fn is_durable(&self) -> Result<(), FeedFailure> {
        self.feed.wait_durable(self.feed.newest()).await
    }

    /// What finds values of secrets in what is told.
    pub(super) fn redactor(&self) -> Redactor {
        self.feed.redactor()
    }

    /// The stream has ended.
    pub(super) fn is_over(&mut self) {
        self._ended = None;
    }
}

async fn pump_lines(mut source: pipe::Receiver, stream: LogStream, sink: Sink) {
    let mut cutter = LineCutter::new(stream);
    let mut redacted = sink.feed.redactor().stream();
    let mut safe = Vec::new();
    let mut buffer = vec![0; BUFFER];
    let mut events = Vec::new();
    loop {
        let read = if cutter.has_partial() || redacted.holds_back() {
            match timeout(PAUSE, source.read(&mut buffer)).await {
                Ok(read) => read,
                Err(_) => {
                    redacted.pause(&mut safe);
                    cutter.push(&safe, &mut events);
                    safe.clear();
                    events.extend(cutter.pause());
                    sink.tell(&mut events).await;
                    // What a pause leaves is the beginning of a character: wait for its rest.
                    source.read(&mut buffer).await
                }
            }
        } else {
            source.read(&mut buffer).await
        };
        let count = match read {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => {
                tracing::warn!(%error, "an output stream could not be read");
                break;
            }
        };
        sink.activity.fetch_add(1, Ordering::Relaxed);
        redacted.push(buffer.get(..count).unwrap_or_default(), &mut safe);
        cutter.push(&safe, &mut events);
        safe.clear();
        sink.tell(&mut events).await;
    }
    redacted.finish(&mut safe);
    cutter.push(&safe, &mut events);
    events.extend(cutter.finish());
    sink.tell(&mut events).await;
}

pub(in crate::shim) fn open_terminal(terminal: OwnedFd) -> io::Result<AsyncFd<File>> {
    let flags = nix::fcntl::fcntl(&terminal, nix::fcntl::FcntlArg::F_GETFL)?;
    let flags = nix::fcntl::OFlag::from_bits_retain(flags) | nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&terminal, nix::fcntl::FcntlArg::F_SETFL(flags))?;
    // SAFETY: the `AsyncFd` owns the file, whose descriptor is therefore open until it is taken off the
    // reactor; nothing here takes the file out or puts another in.
    Ok(unsafe { AsyncFd::register(File::from(terminal)) }?)
}

async fn pump_terminal(
    terminal: AsyncFd<File>,
    orders: mpsc::Receiver<TerminalOrder>,
    cage: Arc<Cage>,
    sink: Sink,
) {
    let output = async {
        let mut cutter = ChunkCutter::default();
        let mut redacted = sink.feed.redactor().stream();
        let mut safe = Vec::new();
        let mut buffer = vec![0; BUFFER];
        let mut events = Vec::new();
        loop {
            let ready = match redacted.holds_back() {
                false => terminal.readable().await,
                true => match timeout(PAUSE, terminal.readable()).await {
                    Ok(ready) => ready,
                    Err(_) => {
                        redacted.pause(&mut safe);
                        cutter.push(&safe, &mut events);
                        safe.clear();
                        sink.tell(&mut events).await;
                        // What a pause keeps may be the beginning of a secret: wait for its rest.
                        terminal.readable().await
                    }
                },
            };
            let Ok(mut ready) = ready else {
                break;
            };
            match ready.try_io(|terminal| terminal.get_ref().read(&mut buffer)) {
                // No process has the other side open any more: the kernel answers EIO.
                Ok(Ok(0) | Err(_)) => break,
                Ok(Ok(count)) => {
                    redacted.push(buffer.get(..count).unwrap_or_default(), &mut safe);
                    cutter.push(&safe, &mut events);
                    safe.clear();
                    sink.tell(&mut events).await;
                }
                Err(_would_block) => {}
            }
        }
        redacted.finish(&mut safe);
        cutter.push(&safe, &mut events);
        events.extend(cutter.finish());
        sink.tell(&mut events).await;
    };
    tokio::select! {
        () = output => {}
        () = obey(&terminal, orders, &cage) => {}
    }
}

/// Carries out orders; goes on for ever when no more come, for the output is not over then.
pub(in crate::shim) async fn obey(
    terminal: &AsyncFd<File>,
    mut orders: mpsc::Receiver<TerminalOrder>,
    cage: &Cage,
) {
    while let Some(order) = orders.recv().await {
        match order {
            TerminalOrder::Input(bytes) => {
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let Ok(mut ready) = terminal.writable().await else {
                        return;
                    };
                    match ready.try_io(|terminal| terminal.get_ref().write(rest)) {
                        Ok(Ok(count)) => rest = rest.get(count..).unwrap_or_default(),
                        // The program is gone; its output ends the pump.
                        Ok(Err(_)) => break,
                        Err(_would_block) => {}
                    }
                }
            }
            TerminalOrder::Resize { columns, rows } => {
                if let Err(error) = cage.resize(terminal.get_ref().as_fd(), columns, rows) {
                    tracing::warn!(%error, "a terminal could not be resized");
                }
            }
        }
    }
    std::future::pending().await
}

/// Writes a step's standard output to a file of the host.
pub(super) struct FilePump {
    pump: JoinHandle<Result<(), String>>,
    outcome: watch::Receiver<Option<FileOutcome>>,
}

impl FilePump {
    fn start(source: pipe::Receiver, path: PathBuf, limit: u64) -> io::Result<Self> {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let (sender, outcome) = watch::channel(None);
        let file = tokio::fs::File::from_std(file);
        let pump = tokio::spawn(async move {
            let result = write_file(source, file, limit).await;
            let (outcome, result) = match result {
                Ok(()) => (None, Ok(())),
                Err(FileOutcome::OverLimit(limit)) => (
                    Some(FileOutcome::OverLimit(limit)),
                    Err(format!("It wrote more than {}", figures::bytes(limit))),
                ),
                Err(FileOutcome::Failed(why)) => (Some(FileOutcome::Failed(why.clone())), Err(why)),
            };
            sender.send_replace(outcome);
            result
        });
        Ok(Self { pump, outcome })
    }

    /// Waits until the file is whole and on disk; else says why it is not.
    pub(super) async fn finish(self) -> Result<(), String> {
        let Self { mut pump, outcome } = self;
        drop(outcome);
        match timeout(SETTLE, &mut pump).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(format!("Its output could not be written: {error}")),
            Err(_) => {
                pump.abort();
                Err("Its output did not end".to_owned())
            }
        }
    }
}

async fn write_file(
    mut source: pipe::Receiver,
    mut file: tokio::fs::File,
    limit: u64,
) -> Result<(), FileOutcome> {
    let failed = |error: io::Error| {
        FileOutcome::Failed(format!("disk: its output could not be written: {error}"))
    };
    let mut buffer = vec![0; BUFFER];
    let mut written = 0;
    loop {
        let count = source.read(&mut buffer).await.map_err(failed)?;
        if count == 0 {
            break;
        }
        written += count as u64;
        if written > limit {
            return Err(FileOutcome::OverLimit(limit));
        }
        file.write_all(buffer.get(..count).unwrap_or_default())
            .await
            .map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    file.sync_all().await.map_err(failed)
}
