//! The live view: one loop over events, keys, signals, answers and the panel's clock.
//!
//! Nothing here waits for anything but that loop: decisions and stops are calls in flight, so that
//! the feed goes on while they are made. Pages are fetched one at a time.

use super::terminal::{Display, Mode};
use super::{Ended, Watching, page};
use crate::error::CliError;
use crate::feed::Feed;
use crate::keys::{self, PREFIX};
use crate::paint::{Paint, Tone};
use crate::panel::{Act, Panel};
use crate::terminal::{Input, size};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use foreman_domain::{
    AmendmentId, AmendmentState, BlockState, Code, Event, EventKind, EventSeq, Failure, LogStream,
    StepKind, sanitize_line,
};
use foreman_engine::api::{
    BlockList, Blocks, Commands, Decided, EventPage, InputRequest, ResizeRequest, RunRef, RunView,
    TerminalSize, UndoRequest,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::HashSet;
use std::pin::Pin;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

/// A call in flight, and what it answered.
enum Answered {
    Page(Result<EventPage, Failure>),
    Blocks(Result<Blocks, Failure>),
    Decided(Result<Decided, Failure>),
    Undone(Result<Decided, Failure>),
    Stopped(Result<(), Failure>),
    Sent(Result<(), Failure>),
    Resized,
}

type Call<'a> = Pin<Box<dyn Future<Output = Answered> + Send + 'a>>;

/// Typed bytes that wait for the agent; more are not read.
const TYPED: usize = 64 << 10;

struct Live<'a, C> {
    engine: &'a C,
    run: String,
    watching: Watching<'a>,
    feed: Feed,
    panel: Panel,
    display: Display,
    calls: FuturesUnordered<Call<'a>>,
    after: EventSeq,
    is_fetching: bool,
    is_listing: bool,
    must_list: bool,
    is_deciding: bool,
    was_stop_asked: bool,
    agent_runs: bool,
    /// Decisions made here.
    ours: HashSet<AmendmentId>,
    /// The last event of before this view; decisions up to it are no news.
    news_after: EventSeq,
    /// The step that started last; blocks do not always say theirs.
    step: Option<String>,
    is_sending: bool,
    typed: Vec<u8>,
    ended: Option<Ended>,
}

/// Follows `run` on the terminal.
pub async fn follow<C: Commands>(
    engine: &C,
    run: &RunView,
    watching: Watching<'_>,
    paint: Paint,
) -> Result<Ended, CliError> {
    let input = Input::open()?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut resumed = signal(SignalKind::from_raw(nix::libc::SIGCONT))?;
    let mut live = Live {
        engine,
        run: run.id.to_string(),
        feed: Feed::new(run.created_at, true),
        panel: Panel::new(false),
        display: Display::new(paint)?,
        calls: FuturesUnordered::new(),
        after: watching.after,
        watching,
        is_fetching: false,
        is_listing: false,
        must_list: true,
        is_deciding: false,
        was_stop_asked: false,
        agent_runs: false,
        ours: HashSet::new(),
        news_after: run.last_seq,
        step: None,
        is_sending: false,
        typed: vec![],
        ended: None,
    };
    loop {
        live.ask();
        if let Some(ended) = live.ended {
            live.display.finish(&mut live.feed)?;
            return Ok(ended);
        }
        let due = live.panel.due();
        tokio::select! {
            answered = live.calls.next(), if !live.calls.is_empty() => {
                if let Some(answered) = answered {
                    live.answered(answered)?;
                }
            }
            typed = input.read(), if live.typed.len() < TYPED => live.typed(&typed?)?,
            () = until(due) => {
                let tick = live.panel.tick(Instant::now());
                if tick.drain && input.drain() {
                    live.interrupted();
                }
                if tick.redraw {
                    live.draw()?;
                }
            }
            _ = resized.recv() => live.resize()?,
            // Whatever was typed while this process stood still was not typed at this card.
            _ = resumed.recv() => {
                live.panel.changed(Instant::now());
                live.draw()?;
            }
            _ = interrupt.recv() => live.interrupted(),
            _ = terminate.recv() => live.ended = Some(Ended::Left),
            _ = hang_up.recv() => live.ended = Some(Ended::Left),
            _ = quit.recv() => live.ended = Some(Ended::Left),
        }
    }
}

/// Waits for a moment; for ever when there is none.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

impl<'a, C: Commands> Live<'a, C> {
    /// Starts the calls that are due.
    fn ask(&mut self) {
        let engine = self.engine;
        if !self.is_fetching && self.display.has_room() {
            self.is_fetching = true;
            let (run, after) = (self.run.clone(), self.after);
            self.call(async move { Answered::Page(page::next(engine, &run, after, &[]).await) });
        }
        if self.must_list && !self.is_listing && !self.is_deciding {
            self.must_list = false;
            self.is_listing = true;
            let request = BlockList {
                run: Some(self.run.clone()),
                all: false,
            };
            self.call(async move { Answered::Blocks(engine.block_list(request).await) });
        }
        if !self.typed.is_empty() && !self.is_sending {
            self.is_sending = true;
            let bytes = BASE64.encode(std::mem::take(&mut self.typed));
            let request = InputRequest {
                run: self.run.clone(),
                bytes,
            };
            self.call(async move { Answered::Sent(engine.run_input(request).await.map(drop)) });
        }
    }

    fn call(&mut self, call: impl Future<Output = Answered> + Send + 'a) {
        self.calls.push(Box::pin(call));
    }

    fn answered(&mut self, answered: Answered) -> Result<(), CliError> {
        let now = Instant::now();
        match answered {
            Answered::Page(page) => {
                self.is_fetching = false;
                return self.page(page?);
            }
            Answered::Blocks(blocks) => {
                self.is_listing = false;
                // A list from before the decision would show the decided card again.
                if self.is_deciding {
                    self.must_list = true;
                    return Ok(());
                }
                match blocks {
                    Ok(blocks) => return self.blocks(blocks, now),
                    Err(failure) => self.panel.say(&sentence(&failure), now),
                }
            }
            Answered::Decided(result) => {
                self.is_deciding = false;
                self.must_list = true;
                match result {
                    Ok(decided) => {
                        self.ours.insert(decided.amendment.id.clone());
                        self.panel.decided(&decided, now);
                    }
                    Err(failure) => self.panel.say(&sentence(&failure), now),
                }
            }
            Answered::Undone(result) => {
                self.is_deciding = false;
                self.must_list = true;
                match result {
                    Ok(decided) => self.panel.undone(&decided, now),
                    Err(failure) => self.panel.say(&sentence(&failure), now),
                }
            }
            Answered::Stopped(Ok(())) => return Ok(()),
            Answered::Stopped(Err(failure)) => {
                self.was_stop_asked = false;
                self.display
                    .note(&mut self.feed, Tone::Bad, &sentence(&failure));
            }
            Answered::Sent(result) => {
                self.is_sending = false;
                // The agent may have ended meanwhile; its end says so.
                let _ = result;
                return Ok(());
            }
            Answered::Resized => return Ok(()),
        }
        self.draw()
    }

    fn page(&mut self, page: EventPage) -> Result<(), CliError> {
        self.after = page.cursor;
        for event in &page.events {
            self.event(event)?;
        }
        if page.ended && page.events.is_empty() {
            self.ended = Some(Ended::Over);
        }
        self.draw()
    }

    fn event(&mut self, event: &Event) -> Result<(), CliError> {
        if let Some(line) = self.watching.narrate(event) {
            self.feed.note(event.at, Tone::Key, line);
        }
        if let EventKind::StepStarted { .. } = &event.kind {
            self.step = event.step.as_ref().map(|step| step.0.clone());
        }
        match &event.kind {
            EventKind::Output {
                stream: LogStream::Terminal,
                text,
                raw,
                ..
            } => {
                // A run that was given a terminal is recognised by it also on attach.
                if self.display.mode() == Mode::Feed {
                    self.draw()?;
                    self.display.lend()?;
                    self.announce(false)?;
                    self.nudge();
                }
                let exact = raw.as_ref().and_then(|raw| BASE64.decode(raw).ok());
                self.display
                    .agent_wrote(exact.as_deref().unwrap_or(text.as_bytes()))?;
                return Ok(());
            }
            EventKind::StepStarted {
                what: StepKind::Agent,
                ..
            } => {
                self.feed.push(event);
                self.agent_runs = true;
                if self.watching.tty {
                    self.draw()?;
                    self.display.lend()?;
                    self.announce(false)?;
                }
                return Ok(());
            }
            EventKind::StepEnded { .. } if self.agent_runs || self.display.mode() != Mode::Feed => {
                self.agent_runs = false;
                self.panel.set_over_tty(false);
                self.panel.changed(Instant::now());
                self.display.take_back()?;
            }
            EventKind::Block { block } => {
                self.must_list = true;
                let step = event
                    .step
                    .as_ref()
                    .map(|step| &step.0)
                    .or(self.step.as_ref());
                if let (BlockState::Open, Some(step)) = (&block.state, step) {
                    self.panel.held_in(block.id.clone(), step.clone());
                }
            }
            EventKind::Amendment { amendment } => {
                self.must_list = true;
                let is_news = event.seq > self.news_after
                    && amendment.state == AmendmentState::Active
                    && !self.is_deciding
                    && !self.ours.contains(&amendment.id);
                if is_news {
                    let text = format!(
                        "Decided on another surface at {}: {}",
                        crate::words::clock(amendment.decided_at),
                        sanitize_line(&amendment.words)
                    );
                    self.panel.say(&text, Instant::now());
                }
            }
            EventKind::PolicyApplied { .. } => self.must_list = true,
            _ => {}
        }
        self.feed.push(event);
        Ok(())
    }

    fn blocks(&mut self, blocks: Blocks, now: Instant) -> Result<(), CliError> {
        let before = self.panel.open_count();
        let is_drawn = self.panel.set_open(blocks.blocks, now);
        let held = self.panel.open_count();
        if held != before {
            self.announce(held > before)?;
        }
        if is_drawn { self.draw() } else { Ok(()) }
    }

    fn announce(&mut self, is_new: bool) -> Result<(), CliError> {
        Ok(self.display.announce(self.panel.open_count(), is_new)?)
    }

    fn draw(&mut self) -> Result<(), CliError> {
        Ok(self.display.draw(&mut self.feed, &self.panel)?)
    }

    fn typed(&mut self, chunk: &[u8]) -> Result<(), CliError> {
        let now = Instant::now();
        if chunk.is_empty() {
            // The terminal is gone.
            self.ended = Some(Ended::Left);
            return Ok(());
        }
        if self.display.mode() == Mode::Lent {
            // What was typed behind the prefix was typed before our screen was there.
            let (agents, is_ours) = match chunk.iter().position(|byte| *byte == PREFIX) {
                Some(at) => (chunk.get(..at).unwrap_or_default(), true),
                None => (chunk, false),
            };
            self.typed.extend_from_slice(agents);
            if is_ours {
                self.display.come_between()?;
                self.panel.set_over_tty(true);
                self.panel.changed(now);
                self.draw()?;
            }
            return Ok(());
        }
        let Some(key) = keys::parse(chunk) else {
            return Ok(());
        };
        let act = self.panel.key(key, now);
        self.act(act, now)
    }

    fn act(&mut self, act: Act, now: Instant) -> Result<(), CliError> {
        let engine = self.engine;
        match act {
            Act::Nothing => return Ok(()),
            Act::Redraw => {}
            Act::Amend(request) => {
                self.is_deciding = true;
                self.panel.working("amending…", now);
                self.call(async move { Answered::Decided(engine.block_amend(request).await) });
            }
            Act::Deny(request) => {
                self.is_deciding = true;
                self.panel.working("denying…", now);
                self.call(async move { Answered::Decided(engine.block_deny(request).await) });
            }
            Act::Undo(amendment) => {
                self.is_deciding = true;
                self.panel.working("taking it back…", now);
                let request = UndoRequest {
                    amendment: Some(amendment),
                };
                self.call(async move { Answered::Undone(engine.undo(request).await) });
            }
            Act::Interrupt => self.interrupted(),
            Act::Stop => {
                self.back()?;
                self.stop();
            }
            Act::Leave => self.ended = Some(Ended::Left),
            Act::Back => self.back()?,
            Act::SendPrefix => {
                self.back()?;
                self.typed.push(PREFIX);
            }
        }
        self.draw()
    }

    /// From our screen back to the agent's.
    fn back(&mut self) -> Result<(), CliError> {
        self.panel.set_over_tty(false);
        if self.display.mode() == Mode::Over {
            self.display.back_to_agent()?;
            self.announce(false)?;
            if self.display.is_lent_full_screen() {
                self.nudge();
            }
        }
        Ok(())
    }

    /// Makes the agent draw its screen anew: its terminal changes size, and back.
    fn nudge(&mut self) {
        let (columns, rows) = size();
        self.tell_sizes(vec![
            TerminalSize {
                columns,
                rows: rows.saturating_sub(1).max(1),
            },
            TerminalSize { columns, rows },
        ]);
    }

    fn resize(&mut self) -> Result<(), CliError> {
        if self.display.mode() != Mode::Feed {
            let (columns, rows) = size();
            self.tell_sizes(vec![TerminalSize { columns, rows }]);
        }
        self.panel.changed(Instant::now());
        self.draw()
    }

    fn tell_sizes(&mut self, sizes: Vec<TerminalSize>) {
        let (engine, run) = (self.engine, self.run.clone());
        self.call(async move {
            for size in sizes {
                // A run without a terminal, or one that has just ended, has no size to change.
                let _ = engine
                    .run_resize(ResizeRequest {
                        run: run.clone(),
                        size,
                    })
                    .await;
            }
            Answered::Resized
        });
    }

    /// Ctrl-C: first stops the run, then leaves.
    fn interrupted(&mut self) {
        if self.was_stop_asked {
            self.ended = Some(Ended::LeftStopping);
        } else {
            self.stop();
        }
    }

    fn stop(&mut self) {
        if self.was_stop_asked {
            return;
        }
        self.was_stop_asked = true;
        let text = "Stopping the run; press Ctrl-C again to leave without waiting.";
        self.display.note(&mut self.feed, Tone::Warn, text);
        let (engine, run) = (self.engine, self.run.clone());
        self.call(
            async move { Answered::Stopped(engine.run_stop(RunRef { run }).await.map(drop)) },
        );
    }
}

fn sentence(failure: &Failure) -> String {
    let message = sanitize_line(&failure.message);
    match (failure.code, &failure.hint) {
        (Code::Stale, _) => format!("{message}. Look at the card again."),
        (_, Some(hint)) => format!("{message}. {}", sanitize_line(hint)),
        (_, None) => format!("{message}."),
    }
}
