//! What the panel's icon and notifications need to know of the engine, kept up by its hints.

mod watcher;

#[cfg(test)]
mod tests;

pub use watcher::watch;

use crate::notice::{Happening, destination, short};
use crate::tray::menu::Picture;
use foreman_domain::{BlockId, Failure, RunId, RunState};
use foreman_engine::api::{BlockView, Commands, RunHint, RunList, RunView};
use std::collections::{BTreeMap, HashMap};

/// Runs in one list.
const PAGE: u32 = 200;
/// Longest title in the menu, in characters.
const TITLE: usize = 28;

/// States in which a run is at work.
const LIVE: &[&str] = &["provisioning", "running", "stopping"];

/// What is known.
#[derive(Debug, Default)]
pub struct Board {
    blocks: BTreeMap<BlockId, BlockView>,
    /// The tag of each known run's state.
    runs: HashMap<RunId, String>,
    /// True when the queue is paused.
    pub paused: bool,
}

impl Board {
    /// Begins anew with what the lists say.
    #[must_use]
    pub fn of(blocks: Vec<BlockView>, runs: &[RunView], paused: bool) -> Self {
        let tag = |run: &RunView| (run.id.clone(), run.state.tag().to_owned());
        Self {
            blocks: blocks
                .into_iter()
                .map(|block| (block.block.id.clone(), block))
                .collect(),
            runs: runs.iter().map(tag).collect(),
            paused,
        }
    }

    /// Blocks that ask something, as they are to be notified.
    pub fn open(&self) -> impl Iterator<Item = Happening> {
        self.blocks.values().map(held)
    }

    /// True when the block asks something.
    #[must_use]
    pub fn is_open(&self, id: &str) -> bool {
        id.parse::<BlockId>()
            .is_ok_and(|id| self.blocks.contains_key(&id))
    }

    /// Takes a block in as it is now.
    pub fn see_block(&mut self, block: BlockView) -> Seen {
        let id = block.block.id.clone();
        if block.asks {
            let happening = held(&block);
            self.blocks.insert(id, block);
            Seen::Asks(happening)
        } else {
            self.blocks.remove(&id);
            Seen::Over(id)
        }
    }

    /// A block is not there any more.
    pub fn lose_block(&mut self, id: &BlockId) {
        self.blocks.remove(id);
    }

    /// Takes a run's state in; true when it came to an end just now that is worth a word.
    pub fn see_run(&mut self, hint: &RunHint) -> bool {
        if matches!(hint.state.as_str(), "merged" | "discarded") {
            // What went on in it is settled: nothing of it is asked any more.
            self.blocks.retain(|block, _| *block.run() != hint.run);
        }
        let before = self.runs.insert(hint.run.clone(), hint.state.clone());
        let was_at_work = before.is_none_or(|tag| LIVE.contains(&tag.as_str()));
        was_at_work && matches!(hint.state.as_str(), "review" | "failed")
    }

    /// What the menu shows.
    #[must_use]
    pub fn picture(&self, demo: bool) -> Picture {
        let mut blocks: Vec<&BlockView> = self.blocks.values().collect();
        blocks.sort_by_key(|block| block.block.first_at);
        let words = |block: &&BlockView| {
            let place = destination(&block.block.subject);
            (
                block.block.id.clone(),
                format!("{}: {place}", short(&block.title, TITLE)),
            )
        };
        Picture {
            needs_you: blocks.len(),
            running: self
                .runs
                .values()
                .filter(|tag| LIVE.contains(&tag.as_str()))
                .count(),
            blocks: blocks.iter().take(3).map(words).collect(),
            paused: self.paused,
            demo,
            down: None,
        }
    }
}

/// How a block was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// It asks something: to be notified if it was not.
    Asks(Happening),
    /// It asks nothing any more.
    Over(BlockId),
}

fn held(block: &BlockView) -> Happening {
    Happening::Held {
        block: block.block.id.clone(),
        title: block.title.clone(),
        subject: block.block.subject.clone(),
    }
}

/// How a run's end is notified; `None` where it goes on after all.
#[must_use]
pub fn ended(run: &RunView) -> Option<Happening> {
    let (id, title) = (run.id.clone(), run.title.clone());
    match run.state {
        RunState::Review { .. } => Some(Happening::Review { run: id, title }),
        RunState::Failed { .. } => Some(Happening::Failed { run: id, title }),
        _ => None,
    }
}

/// The newest runs and all that are not over, and the cursor from which on nothing is missing.
///
/// # Errors
/// What the engine answers.
pub async fn known_runs(engine: &impl Commands) -> Result<(Vec<RunView>, String), Failure> {
    let newest = RunList {
        limit: Some(PAGE),
        ..RunList::default()
    };
    let page = engine.run_list(newest).await?;
    let mut runs = page.runs;
    runs.extend(open_runs(engine).await?);
    Ok((runs, page.cursor))
}

/// Runs that are at work.
///
/// # Errors
/// What the engine answers.
pub async fn live_runs(engine: &impl Commands) -> Result<Vec<RunId>, Failure> {
    let live = open_runs(engine)
        .await?
        .into_iter()
        .filter(|run| LIVE.contains(&run.state.tag()));
    Ok(live.map(|run| run.id).collect())
}

async fn open_runs(engine: &impl Commands) -> Result<Vec<RunView>, Failure> {
    let open = RunList {
        limit: Some(u32::MAX),
        open: true,
        ..RunList::default()
    };
    Ok(engine.run_list(open).await?.runs)
}
