//! The task that follows the engine: by its hints, never by looking again and again.

use super::{Board, Seen, ended, known_runs};
use crate::app::Settings;
use crate::engines::Engine;
use crate::notice::{Coalescer, Happening, Marks};
use crate::shell::{Shell, Surface};
use crate::tray::menu::Picture;
use foreman_domain::{BlockId, Code, Failure};
use foreman_engine::api::{
    BlockList, BlockRef, Commands, Hints, LimitsChange, Remote, RunRef, WatchRequest,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for the first change, in milliseconds.
const WAIT_MS: u32 = 25_000;
/// Pause between two answers, so that a busy run costs little here.
const PAUSE: Duration = Duration::from_millis(300);
/// Pause before an engine that failed is asked again.
const AGAIN: Duration = Duration::from_secs(2);
/// More changed blocks than this are read as a list.
const MANY: usize = 32;

/// Follows whichever engine answers, until the app ends.
pub async fn watch(shell: Arc<Shell>) {
    let mut teller = Teller::new(&shell);
    let mut picture = Picture::default();
    while !shell.cancel.is_cancelled() {
        let failure = match shell.engines.current().await {
            Ok(engine) => follow(&shell, engine, &mut teller, &mut picture)
                .await
                .err(),
            Err(failure) => Some(failure),
        };
        let Some(failure) = failure else {
            continue;
        };
        // Another engine answers now, which is no trouble; the next round asks it.
        if failure.code != Code::Busy || shell.engines.demo().is_none() {
            tracing::info!(%failure, "the engine does not answer");
            let down = Picture {
                down: Some(failure.message),
                ..picture.clone()
            };
            paint(&shell, &mut picture, down);
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = shell.cancel.cancelled() => return,
        }
    }
}

/// Follows one engine until another one answers, or the app ends.
async fn follow(
    shell: &Shell,
    engine: Engine,
    teller: &mut Teller,
    picture: &mut Picture,
) -> Result<(), Failure> {
    let is_demo = engine.is_demo();
    let remote = Remote(engine);
    teller.change_engine(is_demo);
    let mut cursor: Option<String> = None;
    let mut board = Board::default();
    loop {
        if shell.cancel.is_cancelled() || !remote.0.is_current() {
            return Ok(());
        }
        let from = match cursor.take() {
            Some(cursor) => cursor,
            None => {
                let from;
                (board, from) = read(&remote).await?;
                teller.forget_all_but_open(&board);
                for happening in board.open() {
                    teller.held(happening);
                }
                from
            }
        };
        paint(shell, picture, board.picture(is_demo));
        let request = WatchRequest {
            cursor: Some(from.clone()),
            wait_ms: WAIT_MS,
        };
        tokio::select! {
            hints = remote.watch(request) => {
                let hints = hints?;
                if !hints.resync {
                    cursor = Some(hints.to.clone());
                    apply(shell, &remote, &mut board, teller, hints).await?;
                }
                rest(shell, teller.due()).await;
            }
            () = until(teller.due()) => cursor = Some(from),
            () = shell.nudge.notified() => {
                cursor = Some(from);
                board.paused = remote.orders_limits(LimitsChange::default()).await?.paused;
            }
            () = shell.cancel.cancelled() => return Ok(()),
        }
        teller.tell(shell).await;
    }
}

async fn read(engine: &impl Commands) -> Result<(Board, String), Failure> {
    let (runs, cursor) = known_runs(engine).await?;
    let blocks = engine.block_list(BlockList::default()).await?.blocks;
    let queue = engine.orders_limits(LimitsChange::default()).await?;
    Ok((Board::of(blocks, &runs, queue.paused), cursor))
}

async fn apply(
    shell: &Shell,
    engine: &impl Commands,
    board: &mut Board,
    teller: &mut Teller,
    hints: Hints,
) -> Result<(), Failure> {
    if hints.blocks.len() > MANY {
        let changed: BTreeSet<BlockId> = hints.blocks.into_iter().collect();
        for id in &changed {
            board.lose_block(id);
        }
        for block in engine.block_list(BlockList::default()).await?.blocks {
            if changed.contains(&block.block.id) {
                teller.see(board.see_block(block));
            }
        }
    } else {
        for id in hints.blocks {
            match engine
                .block_show(BlockRef {
                    block: id.to_string(),
                })
                .await
            {
                Ok(block) => teller.see(board.see_block(block)),
                Err(failure) if failure.code == Code::NotFound => board.lose_block(&id),
                Err(failure) => return Err(failure),
            }
        }
    }
    for hint in &hints.runs {
        if !board.see_run(hint) || shell.surface().is_some_and(Surface::is_focused) {
            continue;
        }
        let name = RunRef {
            run: hint.run.to_string(),
        };
        if let Some(happening) = ended(&engine.run_show(name).await?) {
            teller.ended(happening);
        }
    }
    if !hints.orders.is_empty() {
        board.paused = engine.orders_limits(LimitsChange::default()).await?.paused;
    }
    Ok(())
}

fn paint(shell: &Shell, known: &mut Picture, now: Picture) {
    if *known != now {
        if let Some(surface) = shell.surface() {
            surface.paint(&now);
        }
        *known = now;
    }
}

/// A short pause, ended early by what is due or the end of the app.
async fn rest(shell: &Shell, due: Option<Instant>) {
    tokio::select! {
        () = tokio::time::sleep(PAUSE) => {}
        () = until(due) => {}
        () = shell.cancel.cancelled() => {}
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// Tells what happens: each held action once.
struct Teller {
    all: Coalescer,
    /// What of the operator's own was told.
    marks: Marks,
    /// What of the demo was told; forgotten with it.
    of_demo: BTreeSet<BlockId>,
    is_demo: bool,
    is_marked: bool,
}

impl Teller {
    fn new(shell: &Shell) -> Self {
        Self {
            all: Coalescer::default(),
            marks: Marks::read(&shell.marks_file),
            of_demo: BTreeSet::new(),
            is_demo: false,
            is_marked: false,
        }
    }

    fn change_engine(&mut self, is_demo: bool) {
        if self.is_demo != is_demo {
            self.of_demo.clear();
            self.all = Coalescer::default();
            self.is_demo = is_demo;
        }
    }

    fn forget_all_but_open(&mut self, board: &Board) {
        if !self.is_demo && self.marks.keep_only(|id| board.is_open(id)) {
            self.is_marked = true;
        }
    }

    fn see(&mut self, seen: Seen) {
        match seen {
            Seen::Asks(happening) => self.held(happening),
            Seen::Over(id) => self.all.forget(&id),
        }
    }

    fn held(&mut self, happening: Happening) {
        let Happening::Held { block, .. } = &happening else {
            return;
        };
        let is_new = match self.is_demo {
            true => self.of_demo.insert(block.clone()),
            false => self.marks.mark(block),
        };
        if is_new {
            self.is_marked |= !self.is_demo;
            self.all.add(happening, Instant::now());
        }
    }

    fn ended(&mut self, happening: Happening) {
        self.all.add(happening, Instant::now());
    }

    fn due(&self) -> Option<Instant> {
        self.all.due()
    }

    /// Says what is due. Nothing is said where the operator does not want it; it counts as said.
    async fn tell(&mut self, shell: &Shell) {
        let notices = self.all.take(Instant::now());
        if self.is_marked && self.all.due().is_none() {
            self.is_marked = false;
            if let Err(error) = self.marks.write() {
                tracing::warn!(%error, "what was notified could not be kept");
            }
        }
        if notices.is_empty() {
            return;
        }
        let Settings { notify, .. } = shell.settings.read_or_default();
        if notify {
            for notice in notices {
                shell.notify(notice).await;
            }
        }
    }
}
