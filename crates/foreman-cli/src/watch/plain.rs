//! Following a run where nobody can be asked: lines, or JSON lines.
//!
//! Ctrl-C once stops the run, twice leaves it; a terminate or hang-up signal leaves it at once.

use super::{Ended, Watching, page};
use crate::answer::Answer;
use crate::card::{Below, Card, primary, render};
use crate::error::CliError;
use crate::feed::Feed;
use crate::paint::Tone;
use foreman_domain::{BlockState, EventKind, EventSeq, Failure, Surface};
use foreman_engine::api::{
    AmendRequest, BlockRef, BlockView, Commands, EventPage, RunRef, RunView,
};
use std::collections::HashSet;
use std::pin::Pin;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals of a process that nobody types at.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> Result<Self, CliError> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one; true for Ctrl-C.
    async fn next(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
            _ = self.hang_up.recv() => false,
        }
    }
}

/// A call that stops the run.
type Stopping<'a> = Pin<Box<dyn Future<Output = Result<RunView, Failure>> + Send + 'a>>;

/// Calls `take` with every page until the run ends or a signal says to leave.
async fn pages<C: Commands>(
    engine: &C,
    run: &RunView,
    mut after: EventSeq,
    kinds: &[String],
    answer: &Answer,
    take: &mut (dyn AsyncTake + '_),
) -> Result<Ended, CliError> {
    let name = run.id.to_string();
    let mut signals = Signals::new()?;
    let mut stopping: Option<Stopping<'_>> = None;
    let mut was_asked = false;
    loop {
        let next = page::next(engine, &name, after, kinds);
        tokio::pin!(next);
        let page = loop {
            tokio::select! {
                page = &mut next => break page?,
                is_interrupt = signals.next() => {
                    if !is_interrupt {
                        return Ok(Ended::Left);
                    }
                    if was_asked {
                        return Ok(Ended::LeftStopping);
                    }
                    was_asked = true;
                    stopping = Some(Box::pin(engine.run_stop(RunRef { run: name.clone() })));
                    if !answer.is_json() {
                        answer.line("Stopping the run; press Ctrl-C again to leave without waiting.")?;
                    }
                }
                stopped = async {
                    match &mut stopping {
                        Some(call) => call.await,
                        None => std::future::pending().await,
                    }
                } => {
                    stopping = None;
                    if let Err(failure) = stopped {
                        answer.refusal(&failure)?;
                        was_asked = false;
                    }
                }
            }
        };
        after = page.cursor;
        let ended = page.ended && page.events.is_empty();
        take.take(page).await?;
        if ended {
            return Ok(Ended::Over);
        }
    }
}

/// What is done with a page.
trait AsyncTake {
    fn take<'a>(
        &'a mut self,
        page: EventPage,
    ) -> Pin<Box<dyn Future<Output = Result<(), CliError>> + 'a>>;
}

/// Prints events as JSON lines; those of `kinds` only, when any are named.
pub async fn json<C: Commands>(
    engine: &C,
    run: &RunView,
    after: EventSeq,
    kinds: &[String],
    answer: &Answer,
) -> Result<Ended, CliError> {
    struct Json<'a>(&'a Answer);
    impl AsyncTake for Json<'_> {
        fn take<'a>(
            &'a mut self,
            page: EventPage,
        ) -> Pin<Box<dyn Future<Output = Result<(), CliError>> + 'a>> {
            Box::pin(async move {
                page.events
                    .iter()
                    .try_for_each(|event| self.0.object(event))?;
                Ok(())
            })
        }
    }
    pages(engine, run, after, kinds, answer, &mut Json(answer)).await
}

/// Prints events as lines, with a hint where something waits.
pub async fn lines<C: Commands>(
    engine: &C,
    run: &RunView,
    watching: Watching<'_>,
    answer: &Answer,
) -> Result<Ended, CliError> {
    let after = watching.after;
    let mut lines = Lines {
        engine,
        feed: Feed::new(run.created_at, watching.amends_itself),
        watching,
        answer,
        amended: HashSet::new(),
    };
    let ended = pages(engine, run, after, &[], answer, &mut lines).await?;
    Ok(ended)
}

struct Lines<'w, C> {
    engine: &'w C,
    feed: Feed,
    watching: Watching<'w>,
    answer: &'w Answer,
    amended: HashSet<String>,
}

impl<C: Commands> AsyncTake for Lines<'_, C> {
    fn take<'a>(
        &'a mut self,
        page: EventPage,
    ) -> Pin<Box<dyn Future<Output = Result<(), CliError>> + 'a>> {
        Box::pin(async move {
            for event in &page.events {
                if self.answer.is_json() {
                    self.answer.object(event)?;
                } else {
                    if let Some(line) = self.watching.narrate(event) {
                        self.feed.note(event.at, Tone::Key, line);
                    }
                    self.feed.push(event);
                }
                if let EventKind::Block { block } = &event.kind
                    && self.watching.amends_itself
                    && block.state == BlockState::Open
                    && self.amended.insert(block.id.to_string())
                {
                    self.draw()?;
                    self.amend(&block.id.to_string()).await?;
                }
            }
            self.draw()
        })
    }
}

impl<C: Commands> Lines<'_, C> {
    fn draw(&mut self) -> Result<(), CliError> {
        let paint = self.answer.paint();
        let width = self.answer.columns();
        for entry in self.feed.take() {
            self.answer.lines(&self.feed.render(&entry, width, paint))?;
        }
        Ok(())
    }

    /// Shows the card and takes its first choice, as the demo does where nobody is there to press it.
    async fn amend(&mut self, block: &str) -> Result<(), CliError> {
        let view = self
            .engine
            .block_show(BlockRef {
                block: block.to_owned(),
            })
            .await?;
        if view.block.state != BlockState::Open {
            return Ok(());
        }
        if !self.answer.is_json() {
            self.show(&view)?;
        }
        let Some(candidate) = primary(&view) else {
            return Ok(());
        };
        let request = AmendRequest {
            limit: None,
            block: block.to_owned(),
            expect: view.expect.clone(),
            scope: Some(candidate.scope),
            rule: Some(candidate.number),
            confirmed: false,
            expires: None,
            surface: Some(Surface::CommandLine),
        };
        self.engine.block_amend(request).await?;
        Ok(())
    }

    fn show(&self, view: &BlockView) -> Result<(), CliError> {
        let below = Below::Keys;
        let card = Card {
            view,
            place: (1, 1),
            step: None,
            below: &below,
        };
        self.answer.line("")?;
        self.answer
            .lines(&render(&card, self.answer.width(), self.answer.paint()))?;
        self.answer.line("")?;
        self.answer
            .line("There is no terminal to ask on, so the demo now presses `a` itself.")?;
        Ok(())
    }
}
