//! A conversation with an agent: its lines go to the journal as they are, then to its driver; what the driver wants
//! told is told, what it wants said is journalled and written to the agent's standard input.
//!
//! The driver lives here, beside the agent, and not with the engine: an engine that dies takes no part of a
//! conversation with it (ADR 26). One task owns the driver, so inputs have one order. The agent's standard input is
//! written by a task of its own, because an agent that does not read must not keep us from reading.

use super::pump::Sink;
use super::questions::Questions;
use crate::redact::Stream;
use crate::shim::arbiter::{Arbiter, Reply};
use crate::shim::bounds::Brake;
use crate::shim::output::LineCutter;
use crate::shim::server::{MessagePort, Saying};
use crate::wire::{Refusal, RpcError};
use foreman_agent::{Conversation, Driver, Effect, Hearing, Input, Line, Lines, Progress, driver};
use foreman_domain::{AgentEvent, AgentOutcome, At, EventKind, LogStream, MessageId, StepResult};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

const BUFFER: usize = 64 << 10;
/// An agent that pauses this long has said what it says.
const PAUSE: Duration = Duration::from_millis(500);
/// Lines that wait to be read by the agent; one that lets more wait is hung up on.
const UNREAD: usize = 256;
/// Orders that wait.
const ORDERS: usize = 16;
/// What holds a run is looked at this often, so that its time does not count for the model's.
const WATCH: Duration = Duration::from_secs(5);
/// Longest wait for the driver's conclusion.
const CONCLUSION: Duration = Duration::from_secs(10);

enum Order {
    Interrupt,
    End(StepResult, oneshot::Sender<(AgentOutcome, String)>),
}

/// What may hold a run, and who holds it.
pub(super) struct Held {
    pub(super) arbiter: Arbiter,
    pub(super) brake: Brake,
}

/// A conversation that goes on.
pub(super) struct Talk {
    orders: mpsc::Sender<Order>,
    /// Becomes true when the model makes no progress.
    stalled: watch::Receiver<bool>,
    /// Whether the agent can be asked to stop in its own protocol.
    pub(super) speaks_both_ways: bool,
}

impl Talk {
    /// Begins it; what is printed after the agent's end is still heard.
    pub(super) fn begin(
        conversation: &Conversation,
        stdout: pipe::Receiver,
        stdin: Option<OwnedFd>,
        sink: Sink,
        held: Held,
        messages: &MessagePort,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (orders, received) = mpsc::channel(ORDERS);
        let (tells_stalled, stalled) = watch::channel(false);
        let patience = conversation.patience.map(u64::from);
        let writer = match stdin {
            Some(stdin) => Some(write_lines(pipe::Sender::from_owned_fd(stdin)?)),
            None => None,
        };
        let ear = Ear {
            driver: driver(conversation),
            redacted: sink.redactor().stream(),
            cutter: LineCutter::new(LogStream::Received),
            lines: Lines::default(),
            writer,
            sink,
            questions: Questions::new(held.arbiter, &conversation.agent),
            brake: held.brake,
            begun: Instant::now(),
            progress: Progress::begin(patience.map(Duration::from_secs), Duration::ZERO),
            stalled: tells_stalled,
            messages: messages.clone(),
        };
        let said = ear.hears_messages().then(|| messages.open());
        let talk = Self {
            orders,
            stalled,
            speaks_both_ways: conversation.wire.speaks_both_ways(),
        };
        Ok((talk, tokio::spawn(ear.listen(stdout, received, said))))
    }

    /// Asks the agent to stop, as far as its protocol has a way.
    pub(super) async fn interrupt(&self) {
        // The task ends only after the step's end.
        let _ = self.orders.send(Order::Interrupt).await;
    }

    /// Waits until its model makes no progress; for ever when it does.
    pub(super) async fn stalled(&self) {
        let mut stalled = self.stalled.clone();
        if stalled.wait_for(|stalled| *stalled).await.is_err() {
            // Nobody listens any more, so nobody says so.
            std::future::pending::<()>().await;
        }
    }

    /// The step's result, once its output was heard: an agent's exit code alone says nothing.
    pub(super) async fn conclude(self, result: StepResult) -> StepResult {
        let (answer, conclusion) = oneshot::channel();
        let order = Order::End(result.clone(), answer);
        let told = async {
            self.orders.send(order).await.ok()?;
            conclusion.await.ok()
        };
        let (outcome, why) = match timeout(CONCLUSION, told).await {
            Ok(Some(told)) => told,
            Ok(None) | Err(_) => (
                AgentOutcome::Lost,
                "what it said could not be read".to_owned(),
            ),
        };
        match result {
            StepResult::Succeeded | StepResult::Exited { .. }
                if outcome == AgentOutcome::Completed =>
            {
                StepResult::Succeeded
            }
            StepResult::Succeeded | StepResult::Exited { .. } => {
                StepResult::Reported { outcome, why }
            }
            // It was stopped for that, and how it went then says nothing.
            StepResult::Signalled { .. } if outcome == AgentOutcome::ModelUnreachable => {
                StepResult::Reported { outcome, why }
            }
            // What ended it from outside says more.
            result => result,
        }
    }
}

struct Ear {
    driver: Box<dyn Driver>,
    /// Before anything else has them: what a driver makes of a line goes to the feed, too.
    redacted: Stream,
    cutter: LineCutter,
    lines: Lines,
    writer: Option<mpsc::Sender<String>>,
    sink: Sink,
    questions: Questions,
    brake: Brake,
    begun: Instant,
    progress: Progress,
    stalled: watch::Sender<bool>,
    messages: MessagePort,
}

impl Ear {
    fn hears_messages(&self) -> bool {
        self.driver.hears() != Hearing::Never
    }

    async fn listen(
        mut self,
        mut stdout: pipe::Receiver,
        mut orders: mpsc::Receiver<Order>,
        mut said: Option<mpsc::Receiver<Saying>>,
    ) {
        self.take(Input::Begin).await;
        let mut buffer = vec![0; BUFFER];
        let (mut is_open, mut is_fresh) = (true, false);
        loop {
            let next_watch = self.next_watch();
            tokio::select! {
                read = stdout.read(&mut buffer), if is_open => {
                    match read {
                        Ok(0) => is_open = false,
                        Ok(count) => {
                            self.sink.is_active();
                            self.hear(buffer.get(..count).unwrap_or_default()).await;
                            is_fresh = true;
                        }
                        Err(error) => {
                            tracing::warn!(%error, "an agent could not be heard");
                            is_open = false;
                        }
                    }
                    if !is_open {
                        self.finish().await;
                    }
                }
                () = tokio::time::sleep(PAUSE), if is_fresh => {
                    is_fresh = false;
                    let mut safe = Vec::new();
                    self.redacted.pause(&mut safe);
                    self.heed(&safe).await;
                    if let Some(piece) = self.cutter.pause() {
                        self.sink.tell(&mut vec![piece]).await;
                    }
                    self.take(Input::Pause).await;
                }
                (request, reply) = self.questions.answered() => self.answer(&request, &reply).await,
                () = tokio::time::sleep(next_watch) => self.watch().await,
                Some(saying) = next(&mut said) => self.pass_on(saying).await,
                order = orders.recv() => match order {
                    Some(Order::Interrupt) => self.take(Input::Interrupt).await,
                    Some(Order::End(result, answer)) => {
                        self.finish().await;
                        let told = self.end(&result).await;
                        let _ = answer.send(told);
                        return;
                    }
                    // Whoever runs the step is gone, and the cage with it.
                    None => return,
                }
            }
        }
    }

    async fn hear(&mut self, bytes: &[u8]) {
        let mut safe = Vec::new();
        self.redacted.push(bytes, &mut safe);
        self.heed(&safe).await;
    }

    /// Each line goes to the journal before its driver has it.
    async fn heed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut raw = Vec::new();
            self.cutter.push(piece, &mut raw);
            self.sink.tell(&mut raw).await;
            let mut effects = Vec::new();
            let driver = &mut self.driver;
            self.lines.push(piece, |line: Line<'_>| {
                driver.take(Input::Line(line), &mut effects)
            });
            self.carry_out(effects).await;
        }
    }

    /// What was begun is a line, too.
    async fn finish(&mut self) {
        let mut safe = Vec::new();
        self.redacted.finish(&mut safe);
        self.heed(&safe).await;
        if let Some(last) = self.cutter.finish() {
            self.sink.tell(&mut vec![last]).await;
        }
        let mut effects = Vec::new();
        let driver = &mut self.driver;
        self.lines
            .finish(|line| driver.take(Input::Line(line), &mut effects));
        self.carry_out(effects).await;
        self.questions.withdraw_all();
        self.sink.is_over();
    }

    async fn answer(&mut self, request: &str, reply: &Reply) {
        self.take(Input::Answer {
            request,
            answer: reply.answer,
            reason: &reply.reason,
        })
        .await;
    }

    /// How long until the model's progress is to be looked at.
    fn next_watch(&self) -> Duration {
        match self.progress.due(self.begun.elapsed()) {
            Some(due) if !*self.stalled.borrow() => due.min(WATCH),
            Some(_) | None => Duration::MAX,
        }
    }

    /// Looks at the model's progress; says once when there is none.
    async fn watch(&mut self) {
        let now = self.begun.elapsed();
        if self.questions.holds_the_run() || self.brake.is_pulled() {
            return self.progress.waits_for_others(now);
        }
        let Some(stalled) = self.progress.check(now) else {
            return;
        };
        let message = format!("{}, and is stopped", stalled.why);
        self.sink
            .tell_of_agent(At::now(), AgentEvent::Problem { message })
            .await;
        self.take(Input::Stalled(&stalled.why)).await;
        self.stalled.send_replace(true);
    }

    async fn take(&mut self, input: Input<'_>) {
        let mut effects = Vec::new();
        self.driver.take(input, &mut effects);
        self.carry_out(effects).await;
    }

    /// Something that the operator says; answered once it is in the journal.
    async fn pass_on(&mut self, saying: Saying) {
        let Saying {
            message,
            by,
            text,
            answer,
        } = saying;
        // Whoever said it has given up, and was told so.
        if answer.is_closed() {
            return;
        }
        let said = self.say(message, &by, &text).await;
        // Who asks again is told that it is there.
        let _ = answer.send(said);
    }

    async fn say(&mut self, message: MessageId, by: &str, text: &str) -> Result<(), RpcError> {
        if self.messages.has(&message) {
            return Ok(());
        }
        match self.driver.hears() {
            Hearing::Hears => {}
            Hearing::Full => {
                return Err(Refusal::Busy.says("Too many messages wait for the agent already"));
            }
            Hearing::Over | Hearing::Never => {
                return Err(Refusal::NotHeard.says("The agent has come to its end"));
            }
        }
        self.take(Input::Say { by, text }).await;
        self.messages.note(message);
        let kept = self.sink.is_durable().await;
        kept.map_err(|failure| Refusal::Disk.says(failure.message))
    }

    async fn end(&mut self, result: &StepResult) -> (AgentOutcome, String) {
        let mut effects = Vec::new();
        self.driver.take(Input::End(result), &mut effects);
        let told = effects.iter().rev().find_map(|effect| match effect {
            Effect::Tell(AgentEvent::Ended { outcome, why }) => Some((*outcome, why.clone())),
            _ => None,
        });
        self.carry_out(effects).await;
        told.unwrap_or((AgentOutcome::Lost, String::new()))
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut waiting = std::collections::VecDeque::from(effects);
        while let Some(effect) = waiting.pop_front() {
            match effect {
                Effect::Tell(event) => {
                    self.progress.saw(&event, self.begun.elapsed());
                    self.sink.tell_of_agent(At::now(), event).await;
                }
                Effect::Send(line) => self.send(line).await,
                // The writer ends once what waits is written, and closes the pipe.
                Effect::HangUp => self.writer = None,
                Effect::Withdraw { request } => self.questions.withdraw(&request),
                Effect::Ask {
                    request,
                    tool,
                    arguments,
                    options,
                } => {
                    let asked = self.questions.ask(&request, &tool, &arguments, &options);
                    // It waits for the operator, or is answered by what was decided before.
                    let Some(reply) = asked else { continue };
                    let mut more = Vec::new();
                    let answer = Input::Answer {
                        request: &request,
                        answer: reply.answer,
                        reason: &reply.reason,
                    };
                    self.driver.take(answer, &mut more);
                    for effect in more.into_iter().rev() {
                        waiting.push_front(effect);
                    }
                }
            }
        }
    }

    async fn send(&mut self, line: String) {
        let Some(writer) = &self.writer else { return };
        let mut raw = Vec::new();
        let mut cutter = LineCutter::new(LogStream::Sent);
        cutter.push(self.sink.redactor().text(&line).as_bytes(), &mut raw);
        raw.extend(cutter.finish());
        for event in raw {
            self.sink.tell_freely(At::now(), event).await;
        }
        if writer.try_send(line).is_err() {
            let message = "it does not read what it is told, and is told nothing more".to_owned();
            self.sink
                .tell_of_agent(At::now(), AgentEvent::Problem { message })
                .await;
            self.writer = None;
        }
    }
}

/// The next thing that is said; never, where the agent cannot be told anything.
async fn next(said: &mut Option<mpsc::Receiver<Saying>>) -> Option<Saying> {
    match said {
        Some(said) => said.recv().await,
        None => std::future::pending().await,
    }
}

/// Writes lines until no more come, or nobody reads them any more.
fn write_lines(mut stdin: pipe::Sender) -> mpsc::Sender<String> {
    let (sender, mut lines) = mpsc::channel::<String>(UNREAD);
    tokio::spawn(async move {
        while let Some(mut line) = lines.recv().await {
            line.push('\n');
            // It ended, or closed its standard input: its end says the rest.
            if stdin.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    sender
}

/// What the events of an agent take, for the journal's queue.
pub(in crate::shim) fn size_of(kind: &EventKind) -> usize {
    let EventKind::Agent { event } = kind else {
        return 0;
    };
    match event {
        AgentEvent::Message { text, .. } | AgentEvent::Thought { text, .. } => text.len(),
        AgentEvent::ToolStarted { arguments, .. }
        | AgentEvent::PermissionAsked { arguments, .. } => arguments.len(),
        AgentEvent::ToolEnded { result, .. } => result.len(),
        AgentEvent::Retry { why, .. } => why.len(),
        AgentEvent::Problem { message } => message.len(),
        AgentEvent::Told { text, .. } => text.len(),
        AgentEvent::Session { .. }
        | AgentEvent::Edit { .. }
        | AgentEvent::PermissionAnswered { .. }
        | AgentEvent::Usage { .. }
        | AgentEvent::Given { .. }
        | AgentEvent::Replayed { .. }
        | AgentEvent::Limited { .. }
        | AgentEvent::Unknown { .. }
        | AgentEvent::Unreadable { .. }
        | AgentEvent::Ended { .. } => 0,
    }
}

#[cfg(test)]
#[path = "talk/tests.rs"]
mod tests;
