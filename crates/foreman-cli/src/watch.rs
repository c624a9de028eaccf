//! Follows a run until it ends or the operator leaves: as JSON lines, as plain lines, or live on a
//! terminal with cards and keys. All three read the same pages of events.

mod live;
mod page;
mod plain;
mod terminal;

pub use plain::{json, lines};
pub(crate) use terminal::Display;

use crate::answer::Answer;
use crate::error::CliError;
use foreman_domain::{Event, EventSeq};
use foreman_engine::api::{Commands, RunView};

/// How the watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The run is over.
    Over,
    /// The operator left; the run goes on.
    Left,
    /// The operator asked to stop the run and left before it had.
    LeftStopping,
}

/// Told of every event before it is drawn; returns an explanation to draw first.
pub type Narrator<'a> = Box<dyn FnMut(&Event) -> Option<String> + Send + 'a>;

/// How to follow a run.
pub struct Watching<'a> {
    /// The last event that needs no showing.
    pub after: EventSeq,
    /// True when the agent was given a terminal.
    pub tty: bool,
    /// Explains what happens, in the demo.
    pub narrator: Option<Narrator<'a>>,
    /// Amend what is held without being asked, where there is no terminal to ask on. The demo's.
    pub amends_itself: bool,
}

impl Watching<'_> {
    /// From this event on, without narration.
    #[must_use]
    pub fn after(after: EventSeq) -> Self {
        Self {
            after,
            tty: false,
            narrator: None,
            amends_itself: false,
        }
    }

    fn narrate(&mut self, event: &Event) -> Option<String> {
        self.narrator.as_mut().and_then(|narrator| narrator(event))
    }
}

/// Follows `run` in the way that fits the answer and the terminal.
pub async fn follow<C: Commands>(
    engine: &C,
    run: &RunView,
    watching: Watching<'_>,
    answer: &Answer,
) -> Result<Ended, CliError> {
    if answer.is_json() && !watching.amends_itself {
        return plain::json(engine, run, watching.after, &[], answer).await;
    }
    if answer.can_ask() && std::env::var("TERM").is_ok_and(|term| term != "dumb") {
        return live::follow(engine, run, watching, answer.paint()).await;
    }
    plain::lines(engine, run, watching, answer).await
}
