//! Runs the steps of a plan in the cage, in order, and says how each ended.
//!
//! A stop ends setup, agent and check steps, never finish and harvest: work must not be lost. Before
//! finish, and before everything after it, the cage is emptied, so that nothing changes what is
//! collected. A result that was seen wins over a stop that comes in the same moment.

mod lifecycle;
mod meter;
mod pump;
mod questions;
mod talk;
mod tally;

pub(super) use lifecycle::Lifecycle;
pub(super) use meter::Meter;
pub(super) use pump::{obey, open_terminal};
pub(super) use talk::size_of;
pub(super) use tally::SharedTally;

use super::bounds::Keeper;
use super::feed::Feed;
use super::figures;
use super::server::{MessagePort, TerminalPort};
use super::shells::Shells;
use super::stop::{StopSwitch, StopWish};
use crate::protocol::{OnFailure, Stdio, StepSpec};
use foreman_cage::{Cage, Child, Exit, Payload, PayloadStdio, SpawnError};
use foreman_domain::{CancelCause, EventKind, StepKind, StepName, StepResult};
use pump::{FileOutcome, Pumps};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

/// Longest wait for a program to start.
const START: Duration = Duration::from_secs(60);
/// Grace of the stop of an agent whose model makes no progress.
const STALLED_GRACE: Duration = Duration::from_secs(5);
/// Longest wait for an agent that was asked to stop in its own protocol.
const ASKED: Duration = Duration::from_secs(2);
/// Longest finish or harvest step: they are ours, and quick.
const COLLECT: Duration = Duration::from_secs(600);

/// What steps run in and tell to.
pub(super) struct Plan {
    pub(super) cage: Arc<Cage>,
    pub(super) feed: Feed,
    pub(super) stop: StopSwitch,
    pub(super) lifecycle: Lifecycle,
    pub(super) terminal: TerminalPort,
    pub(super) messages: MessagePort,
    pub(super) shells: Shells,
    pub(super) meter: Arc<Meter>,
    pub(super) tally: SharedTally,
    pub(super) keeper: Keeper,
    /// Whether the step that runs now is one of ours, which save the run's work.
    pub(super) collects: watch::Sender<bool>,
    /// Processes that a bound killed.
    pub(super) killed_by_bound: AtomicU32,
}

/// How all steps ended.
#[derive(Debug, Default)]
pub(super) struct PlanResult {
    /// Each planned step, in order.
    pub(super) steps: Vec<(StepName, StepKind, StepResult)>,
    /// Set when a stop ended or skipped a step.
    pub(super) stopped: Option<CancelCause>,
    /// The file that harvest wrote, when it succeeded.
    pub(super) harvested: Option<PathBuf>,
    /// Processes that were killed between steps.
    pub(super) killed: u32,
    /// A wall that could not be put up around a step, as a sentence.
    pub(super) missing_wall: Option<String>,
}

/// Why the steps that follow do not run.
#[derive(Debug, Clone)]
enum Skip {
    /// Only those before finish.
    ToFinish(String),
    All(String),
}

impl Plan {
    /// Runs every step, or says why it was skipped.
    pub(super) async fn carry_out(&self, steps: &[StepSpec]) -> PlanResult {
        let mut result = PlanResult::default();
        let mut skip: Option<Skip> = None;
        let mut pumps = Pumps::default();
        for step in steps {
            if step.kind == StepKind::Finish && matches!(skip, Some(Skip::ToFinish(_))) {
                skip = None;
            }
            let why_not = match (&skip, is_stoppable(step.kind), self.stop.wish()) {
                (Some(Skip::ToFinish(why) | Skip::All(why)), _, _) => Some(why.clone()),
                (None, true, Some(wish)) => {
                    result.stopped = Some(wish.cause.clone());
                    Some(words_of(&wish))
                }
                (None, _, _) => None,
            };
            let ended = match why_not {
                Some(why) => self.tell_skipped(step, why).await,
                None => {
                    if !matches!(step.kind, StepKind::Setup | StepKind::Agent) {
                        self.shells.shut_door().await;
                        result.killed += self.cage.kill_all().await;
                    }
                    self.run(step, &mut pumps, &mut result).await
                }
            };
            if !ended.is_success() && !matches!(ended, StepResult::Skipped { .. }) {
                let why = format!("step {} did not succeed", step.name);
                skip = match step.on_failure {
                    OnFailure::Continue => skip,
                    OnFailure::SkipToFinish => skip.or(Some(Skip::ToFinish(why))),
                    OnFailure::Abort => Some(Skip::All(why)),
                };
            }
            result.steps.push((step.name.clone(), step.kind, ended));
        }
        self.shells.shut_door().await;
        result.killed += self.cage.kill_all().await;
        result.killed += self.killed_by_bound.load(Ordering::Relaxed);
        pumps.finish().await;
        self.shells.finish().await;
        self.meter.tell_dropped(&self.feed);
        result
    }

    async fn tell_skipped(&self, step: &StepSpec, why: String) -> StepResult {
        let result = StepResult::Skipped { why };
        let ended = EventKind::StepEnded {
            result: result.clone(),
            millis: 0,
        };
        self.feed.tell_of(ended, Some(&step.name), None);
        result
    }

    async fn run(&self, step: &StepSpec, pumps: &mut Pumps, plan: &mut PlanResult) -> StepResult {
        self.lifecycle.running(&step.name);
        self.collects.send_replace(!is_stoppable(step.kind));
        let started = EventKind::StepStarted {
            what: step.kind,
            argv: match step.kind {
                StepKind::Setup | StepKind::Agent | StepKind::Check => step.argv.clone(),
                // Our own scripts: long, the same in every run, and nothing that was asked for.
                StepKind::Finish | StepKind::Harvest => vec![],
            },
        };
        self.feed.tell_of(started, Some(&step.name), None);
        let clock = Instant::now();
        let result = match self.start(step).await {
            Ok(child) => {
                if matches!(step.kind, StepKind::Setup | StepKind::Agent) {
                    self.shells.open_door(&self.cage).await;
                }
                self.attend(step, child, pumps, plan).await
            }
            Err(NotStarted { why, missing_wall }) => {
                plan.missing_wall = missing_wall.or(plan.missing_wall.take());
                StepResult::NotStarted { why }
            }
        };
        if matches!(result, StepResult::Signalled { signal } if i32::from(signal) == libc::SIGKILL)
            && let Some(message) = self.keeper.ran_out_of_memory()
        {
            self.feed.tell(EventKind::Warning { message });
        }
        let millis = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let ended = EventKind::StepEnded {
            result: result.clone(),
            millis,
        };
        let seq = self.feed.tell_of(ended, Some(&step.name), None);
        if let Err(error) = self.feed.wait_durable(seq).await {
            // The failing disk stops the run by itself.
            tracing::warn!(%error, step = %step.name, "the end of a step is not on disk yet");
        }
        result
    }

    /// Whether what runs now saves the run's work.
    pub(super) fn is_collecting(&self) -> bool {
        *self.collects.borrow()
    }

    /// Waits until the run's work is being saved.
    pub(super) async fn collecting(&self) {
        let mut collects = self.collects.subscribe();
        if collects.wait_for(|collects| *collects).await.is_err() {
            // The sender lives in `self`, so this cannot be.
            std::future::pending::<()>().await;
        }
    }

    async fn start(&self, step: &StepSpec) -> Result<Child, NotStarted> {
        if is_stoppable(step.kind) {
            // Nothing begins in a run that waits at a bound; one that is stopped there need not wait.
            tokio::select! {
                () = self.keeper.brake.is_free() => {}
                _ = self.stop.asked() => {}
            }
        }
        match timeout(START, self.cage.spawn(payload_of(step))).await {
            Ok(Ok(child)) => Ok(child),
            Ok(Err(error)) => {
                let wall_is_missing = matches!(error, SpawnError::Unconfined { .. });
                let why = error.to_string();
                let missing_wall = wall_is_missing.then(|| why.clone());
                Err(NotStarted { why, missing_wall })
            }
            Err(_) => Err(NotStarted {
                why: format!("It did not start within {}", figures::duration(START)),
                missing_wall: None,
            }),
        }
    }

    async fn attend(
        &self,
        step: &StepSpec,
        child: Child,
        pumps: &mut Pumps,
        plan: &mut PlanResult,
    ) -> StepResult {
        let pid = child.pid;
        let mut streams = match pumps.start(self, step, child) {
            Ok(streams) => streams,
            Err(error) => {
                plan.killed += self.cage.kill_all().await;
                return StepResult::Stopped {
                    why: format!("Its output could not be read: {error}"),
                };
            }
        };
        let talk = streams.talk.take();
        let mut result = self
            .wait_or_stop(step, pid, &mut streams, talk.as_ref(), plan)
            .await;
        if let Some(file) = streams.file.take() {
            // What is left may still hold the file's pipe open, and must not add to it.
            plan.killed += self.cage.kill_all().await;
            match file.finish().await {
                Ok(()) if result.is_success() && step.kind == StepKind::Harvest => {
                    if let Stdio::File { path, .. } = &step.stdio {
                        plan.harvested = Some(path.clone());
                    }
                }
                Ok(()) => {}
                Err(why) => result = StepResult::Stopped { why },
            }
        }
        streams.settle(&self.meter).await;
        match talk {
            Some(talk) => talk.conclude(result).await,
            None => result,
        }
    }

    /// Waits for a step's end; ends it when the run is stopped or it takes too long.
    async fn wait_or_stop(
        &self,
        step: &StepSpec,
        pid: u32,
        streams: &mut pump::Streams,
        talk: Option<&talk::Talk>,
        plan: &mut PlanResult,
    ) -> StepResult {
        let stop = async {
            if is_stoppable(step.kind) {
                self.stop.asked().await
            } else {
                std::future::pending().await
            }
        };
        let stalled = async {
            match talk {
                Some(talk) => talk.stalled().await,
                None => std::future::pending().await,
            }
        };
        let too_long = async {
            if is_stoppable(step.kind) {
                std::future::pending().await
            } else {
                tokio::time::sleep(COLLECT).await;
            }
        };
        tokio::select! {
            biased;
            exit = self.cage.wait(pid) => match (exit, self.stop.wish()) {
                // A bound that kills at once asks to stop first, so the signal is ours.
                (Exit::Signal(_), Some(wish)) if is_stoppable(step.kind) => {
                    plan.stopped = Some(wish.cause.clone());
                    StepResult::Stopped { why: words_of(&wish) }
                }
                (exit, _) => result_of(exit),
            },
            outcome = streams.file_failed() => {
                plan.killed += self.cage.kill_all().await;
                self.cage.wait(pid).await;
                match outcome {
                    FileOutcome::OverLimit(limit) => {
                        StepResult::Stopped { why: format!("It wrote more than {}", figures::bytes(limit)) }
                    }
                    FileOutcome::Failed(why) => StepResult::Stopped { why },
                }
            }
            wish = stop => {
                let why = words_of(&wish);
                plan.stopped = Some(wish.cause);
                self.shells.shut_door().await;
                plan.killed += self.end_step(pid, talk, Duration::ZERO).await;
                StepResult::Stopped { why }
            }
            // What becomes of the step is the conversation's to say.
            () = stalled => {
                plan.killed += self.end_step(pid, talk, STALLED_GRACE).await;
                result_of(self.cage.wait(pid).await)
            }
            () = too_long => {
                plan.killed += self.cage.kill_all().await;
                self.cage.wait(pid).await;
                let limit = figures::duration(COLLECT);
                StepResult::Stopped { why: format!("It took longer than {limit}") }
            }
        }
    }

    /// The ladder: where an agent can be asked, that; interrupt, terminate, then everything in the cage is
    /// killed. `grace` counts where the run itself is not stopped. Gives how many.
    async fn end_step(&self, pid: u32, talk: Option<&talk::Talk>, grace: Duration) -> u32 {
        let own = grace;
        if let Some(talk) = talk {
            talk.interrupt().await;
            let grace = self.stop.wish().map_or(own, |wish| wish.grace);
            if talk.speaks_both_ways && !grace.is_zero() {
                let message = "asked the agent to stop, in its own protocol".to_owned();
                self.feed.tell(EventKind::Progress {
                    stage: "stop".to_owned(),
                    message,
                });
                let mut wishes = self.stop.watch();
                wishes.mark_unchanged();
                tokio::select! {
                    biased;
                    // It went by itself: what it left behind is all there is to end.
                    _ = self.cage.wait(pid) => return self.cage.kill_all().await,
                    () = tokio::time::sleep(ASKED.min(grace)) => {}
                    // A shorter grace begins the ladder at once.
                    _ = wishes.changed() => {}
                }
            }
        }
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let mut wishes = self.stop.watch();
            let wish = wishes.borrow_and_update().as_ref().map(|wish| wish.grace);
            let grace = wish.unwrap_or(own);
            if grace.is_zero() {
                break;
            }
            self.tell_rung(signal, grace);
            if let Err(error) = self.cage.signal(pid, signal) {
                tracing::warn!(%error, signal, "a step could not be signalled");
            }
            let deadline = tokio::time::sleep(grace);
            tokio::select! {
                biased;
                _ = self.cage.wait(pid) => break,
                () = deadline => {}
                // A shorter grace begins the next rung at once.
                _ = wishes.changed() => {}
            }
        }
        let killed = self.cage.kill_all().await;
        self.cage.wait(pid).await;
        killed
    }

    /// Says which rung is taken now, and when the next one follows.
    fn tell_rung(&self, signal: i32, grace: Duration) {
        let (sent, next) = match signal {
            libc::SIGINT => ("interrupt (SIGINT)", "terminate (SIGTERM)"),
            _ => (
                "terminate (SIGTERM)",
                "the killing of everything in the cage",
            ),
        };
        let message = format!(
            "sent {sent}; {next} follows in {}",
            figures::duration(grace)
        );
        self.feed.tell(EventKind::Progress {
            stage: "stop".to_owned(),
            message,
        });
    }
}

/// The program of a step.
pub(super) fn payload_of(step: &StepSpec) -> Payload {
    let stdio = match step.stdio {
        Stdio::Journal | Stdio::File { .. } => match &step.conversation {
            Some(conversation) if conversation.wire.speaks_both_ways() => {
                PayloadStdio::Conversation
            }
            Some(_) | None => PayloadStdio::Pipes,
        },
        Stdio::Terminal { columns, rows } => PayloadStdio::Terminal { columns, rows },
    };
    Payload {
        argv: step.argv.clone(),
        env: step.env.clone(),
        stdio,
    }
}

struct NotStarted {
    why: String,
    missing_wall: Option<String>,
}

fn is_stoppable(kind: StepKind) -> bool {
    match kind {
        StepKind::Setup | StepKind::Agent | StepKind::Check => true,
        StepKind::Finish | StepKind::Harvest => false,
    }
}

fn words_of(wish: &StopWish) -> String {
    match &wish.cause {
        CancelCause::Operator => "the operator stopped the run".to_owned(),
        CancelCause::Bound { what, .. } => what.clone(),
    }
}

pub(super) fn result_of(exit: Exit) -> StepResult {
    match exit {
        Exit::Code(0) => StepResult::Succeeded,
        Exit::Code(code) => StepResult::Exited { code },
        Exit::Signal(signal) => StepResult::Signalled { signal },
        Exit::CageGone => StepResult::Stopped {
            why: "The cage itself ended".to_owned(),
        },
    }
}
