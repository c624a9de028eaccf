//! The suite that every runner context passes: what an engine relies on, whatever the place.
//!
//! A context is tried as a [`Candidate`], which also prepares runs in its surroundings. Each case launches
//! a run of its own, so cases may run at the same time, and leaves nothing behind. A case that fails says
//! what it expected and what it saw; nothing here panics.

mod broken;
mod carried;
mod followed;
mod steered;

pub use broken::Broken;

use crate::port::{Launch, Place, RunnerContext};
use broken::ensure;
use foreman_domain::{Epoch, Event, EventKind, EventSeq, RunEpoch};
use foreman_shim::client::{Hello, ShimClient, Welcome};
use foreman_shim::protocol::{ExitRecord, ShimIdentity};
use foreman_shim::station::Presence;
use futures::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing here takes longer, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A context in its surroundings.
pub trait Candidate: Send + Sync {
    /// The context, as an engine that was just started has it.
    fn context(&self) -> Arc<dyn RunnerContext>;

    /// A new run whose one agent step is this shell script (on a terminal of 90 by 30 where asked for),
    /// followed by the engine's own closing steps, with an empty policy under which everything is held.
    ///
    /// # Errors
    /// When it cannot be prepared.
    fn prepare(&self, script: &str, terminal: bool) -> Result<Launch, Broken>;

    /// Launches it from a process of its own, which is killed as soon as the shim has answered it.
    ///
    /// # Errors
    /// When that did not happen.
    fn launch_by_a_killed_engine(&self, launch: &Launch) -> Result<(), Broken>;

    /// A name and port that answer HTTP where runs are carried, and a piece of what they answer.
    fn destination(&self) -> (String, u16, String);

    /// The repository that runs start from.
    fn repository(&self) -> PathBuf;
}

/// A case: its name, and what it does.
pub type Case = (
    &'static str,
    for<'a> fn(&'a dyn Candidate) -> BoxFuture<'a, Result<(), Broken>>,
);

macro_rules! cases {
    ($($module:ident :: $name:ident),* $(,)?) => {
        /// All cases.
        pub const CASES: &[Case] = &[$((
            stringify!($name),
            |candidate| Box::pin($module::$name(candidate)),
        )),*];
    };
}

cases![
    carried::a_run_is_launched_welcomed_and_comes_to_its_end,
    carried::a_run_that_is_launched_again_is_the_same_run,
    carried::commits_come_back_byte_for_byte,
    carried::a_killed_shim_is_gone_without_a_result_and_takes_its_cage_along,
    carried::a_run_of_a_killed_engine_is_taken_over_from_its_first_event,
    carried::what_is_removed_is_gone_and_a_live_run_is_not_removed,
    followed::events_are_neither_lost_nor_doubled_over_lines_that_break,
    followed::pages_of_large_events_arrive_whole,
    followed::a_reader_that_stands_still_stops_nobody_else,
    followed::hostile_bytes_are_an_error_and_the_run_goes_on,
    steered::a_held_connect_goes_on_when_a_revision_lets_it,
    steered::a_stop_asks_twice_and_then_kills,
    steered::keys_and_sizes_reach_the_agents_terminal,
    steered::an_engine_that_is_not_in_charge_any_more_is_refused,
    steered::only_who_knows_the_secret_is_welcome,
    steered::a_shell_is_opened_beside_the_agent,
];

/// A run that is being followed.
struct Live {
    context: Arc<dyn RunnerContext>,
    launch: Launch,
    identity: ShimIdentity,
    client: ShimClient,
    events: Vec<Event>,
}

/// An introduction as the engine with this epoch.
fn hello(place: &Place, epoch: u64) -> Hello {
    Hello {
        run: place.run.clone(),
        nonce: place.nonce.clone(),
        epoch: Epoch(epoch),
        run_epoch: RunEpoch(1),
    }
}

impl Live {
    /// Launches a run with this script and introduces engine 1.
    async fn begin(candidate: &dyn Candidate, script: &str) -> Result<Self, Broken> {
        Self::launch(candidate, candidate.prepare(script, false)?).await
    }

    async fn launch(candidate: &dyn Candidate, launch: Launch) -> Result<Self, Broken> {
        let context = candidate.context();
        let identity = context.launch(&launch).await?;
        let (client, welcome) = context
            .connect(&launch.place, hello(&launch.place, 1))
            .await?;
        ensure(welcome.identity == identity, || {
            format!(
                "{:?} was launched and {identity:?} answers",
                welcome.identity
            )
        })?;
        Ok(Self {
            context,
            launch,
            identity,
            client,
            events: Vec::new(),
        })
    }

    fn place(&self) -> &Place {
        &self.launch.place
    }

    fn last(&self) -> EventSeq {
        self.events.last().map_or(EventSeq(0), |event| event.seq)
    }

    /// Another line, of the engine with this epoch.
    async fn reconnect(&mut self, epoch: u64) -> Result<Welcome, Broken> {
        let hello = hello(self.place(), epoch);
        let (client, welcome) = self.context.connect(&self.launch.place, hello).await?;
        self.client = client;
        Ok(welcome)
    }

    /// Pulls one page; true when it said that no event will follow.
    async fn pull(&mut self, limit: u32) -> Result<bool, Broken> {
        let page = self.client.events(self.last(), limit, 2_000).await?;
        self.take(page.events)?;
        Ok(page.ended)
    }

    fn take(&mut self, events: Vec<Event>) -> Result<(), Broken> {
        for event in events {
            let wanted = self.last().next();
            ensure(event.seq == wanted, || {
                format!("event {} came where {wanted} was due", event.seq)
            })?;
            self.events.push(event);
        }
        Ok(())
    }

    /// Pulls until `find` finds something.
    async fn until<T>(
        &mut self,
        what: &str,
        mut find: impl FnMut(&EventKind) -> Option<T>,
    ) -> Result<T, Broken> {
        let deadline = Instant::now() + PATIENCE;
        let mut looked_at = 0;
        loop {
            for event in self.events.iter().skip(looked_at) {
                if let Some(found) = find(&event.kind) {
                    return Ok(found);
                }
            }
            looked_at = self.events.len();
            ensure(Instant::now() < deadline, || {
                format!("no {what} in {}", self.story())
            })?;
            if self.pull(512).await? && looked_at == self.events.len() {
                return Err(Broken::new(format!(
                    "it ended without {what}: {}",
                    self.story()
                )));
            }
        }
    }

    async fn says(&mut self, wanted: &str) -> Result<(), Broken> {
        let find = |kind: &EventKind| match kind {
            EventKind::Output { text, .. } if text.contains(wanted) => Some(()),
            _ => None,
        };
        self.until(&format!("output with \"{wanted}\""), find).await
    }

    /// What a shim told that nobody heard: once it is gone, its journal has it.
    async fn rest_from_journal(&mut self) -> Result<(), Broken> {
        gone(self.context.as_ref(), self.place()).await?;
        self.context.collect(self.place()).await?;
        let journal = &self.launch.place.files.journal;
        let rest = foreman_shim::journal::read_after(journal, self.last(), usize::MAX)?;
        self.take(rest)
    }

    /// Pulls to the end, waits until the shim is gone, and collects.
    async fn end(mut self) -> Result<Ended, Broken> {
        let deadline = Instant::now() + PATIENCE;
        while !self.pull(512).await? {
            ensure(Instant::now() < deadline, || {
                format!("it does not end: {}", self.story())
            })?;
        }
        self.settle().await
    }

    /// Waits until the shim is gone, collects, and has everything removed.
    async fn settle(self) -> Result<Ended, Broken> {
        gone(self.context.as_ref(), self.place()).await?;
        self.context.collect(self.place()).await?;
        let record = exit_record(self.place())?
            .ok_or_else(|| Broken::new("it ended and left no result".to_owned()))?;
        ensure(record.last_seq == self.last(), || {
            format!(
                "event {} was the last, not {}",
                self.last(),
                record.last_seq
            )
        })?;
        let place = self.launch.place.clone();
        self.context.remove(&place).await?;
        Ok(Ended {
            record,
            place,
            events: self.events,
        })
    }

    /// The newest events, for messages.
    fn story(&self) -> String {
        let from = self.events.len().saturating_sub(20);
        let newest = self.events.iter().skip(from);
        newest
            .filter_map(|event| serde_json::to_string(event).ok())
            .map(|line| line.chars().take(300).collect::<String>() + "\n")
            .collect()
    }
}

/// A run that has ended and was collected.
struct Ended {
    record: ExitRecord,
    place: Place,
    events: Vec<Event>,
}

impl Ended {
    /// Lines of its output.
    fn lines(&self) -> Vec<String> {
        let text = self.events.iter().filter_map(|event| match &event.kind {
            EventKind::Output {
                text, continued, ..
            } => Some(format!("{text}{}", if *continued { "" } else { "\n" })),
            _ => None,
        });
        text.collect::<String>()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

/// Waits until a run's shim is gone.
async fn gone(context: &dyn RunnerContext, place: &Place) -> Result<(), Broken> {
    let deadline = Instant::now() + PATIENCE;
    while context.look(place).await?.presence != Presence::Gone {
        ensure(Instant::now() < deadline, || "its shim does not end".into())?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The terminal result, where it was collected.
fn exit_record(place: &Place) -> Result<Option<ExitRecord>, Broken> {
    match std::fs::read(&place.files.exit) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
