//! What stands at the bottom of the screen while a run is watched: the oldest open card, its keys,
//! and for ten seconds the way back from the newest decision.
//!
//! Pure: the clock comes in as an argument, what to do comes out as an [`Act`]. Everything that
//! changes the drawing starts the settling time of the keys anew (see [`crate::keys`]); figures that
//! merely count up are therefore drawn at most every [`COUNT_EVERY`], so that a cage which keeps
//! knocking cannot keep the keys from ever counting.

use crate::card::{Below, Card, EDGE, once, primary, render};
use crate::keys::{Arming, Key};
use crate::layout::{cells, fit, wrap};
use crate::paint::{Paint, Tone};
use crate::words;
use foreman_domain::{
    AmendmentId, Block, BlockId, Decision, PathText, Scope, Surface, sanitize_line,
};
use foreman_engine::api::{AmendRequest, BlockView, Candidate, Decided, DenyRequest};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long the newest decision can be taken back by a key.
pub const UNDO: Duration = Duration::from_secs(10);

/// How often figures that only count up are drawn.
pub const COUNT_EVERY: Duration = Duration::from_secs(2);

/// What the operator asked for by a key.
#[derive(Debug, Clone)]
pub enum Act {
    /// Nothing, and nothing to draw.
    Nothing,
    /// The panel changed; draw it.
    Redraw,
    /// Let it go on.
    Amend(AmendRequest),
    /// Refuse it.
    Deny(DenyRequest),
    /// Take this decision back.
    Undo(AmendmentId),
    /// Ctrl-C.
    Interrupt,
    /// Stop the run (only where the agent has the terminal).
    Stop,
    /// Leave the run going (only where the agent has the terminal).
    Leave,
    /// Go back to the agent (only where the agent has the terminal).
    Back,
    /// Send the prefix itself to the agent, and go back.
    SendPrefix,
}

/// The panel.
#[derive(Debug)]
pub struct Panel {
    over_tty: bool,
    open: Vec<BlockView>,
    newer: Option<Vec<BlockView>>,
    counted_at: Option<Instant>,
    steps: HashMap<BlockId, String>,
    below: Below,
    arming: Arming,
    undo: Option<(AmendmentId, Instant)>,
    said: Option<String>,
    note: Option<(String, Instant)>,
    busy: Option<&'static str>,
}

impl Panel {
    /// An empty panel; `over_tty` when it is shown over the agent's own terminal, with the keys that
    /// go with that.
    #[must_use]
    pub fn new(over_tty: bool) -> Self {
        Self {
            over_tty,
            open: vec![],
            newer: None,
            counted_at: None,
            steps: HashMap::new(),
            below: Below::Keys,
            arming: Arming::Off,
            undo: None,
            said: None,
            note: None,
            busy: None,
        }
    }

    /// Open blocks.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Whether the panel is shown over the agent's own terminal.
    pub fn set_over_tty(&mut self, over_tty: bool) {
        self.over_tty = over_tty;
        self.below = Below::Keys;
    }

    /// Remembers in which step a block was held.
    pub fn held_in(&mut self, block: BlockId, step: String) {
        self.steps.entry(block).or_insert(step);
    }

    /// Takes the open blocks as they are now, oldest first. True when the panel has to be drawn.
    pub fn set_open(&mut self, open: Vec<BlockView>, now: Instant) -> bool {
        let same_card = match (self.open.first(), open.first()) {
            (None, None) => return false,
            (Some(old), Some(new)) => is_same_question(old, new),
            _ => false,
        };
        if same_card {
            if is_same_figures(&self.open, &open) {
                self.open = open;
                self.newer = None;
                return false;
            }
            if self.counted_at.is_some_and(|then| now < then + COUNT_EVERY) {
                self.newer = Some(open);
                return false;
            }
        } else {
            let still_there =
                |old: &BlockView| open.first().is_some_and(|new| new.block.id == old.block.id);
            if self.open.first().is_some_and(still_there) {
                let text = "This card has changed since it was drawn.".to_owned();
                self.note = Some((text, now + UNDO));
            }
            self.below = Below::Keys;
        }
        self.open = open;
        self.newer = None;
        self.counted_at = Some(now);
        self.changed(now);
        true
    }

    /// Shows `text` in the panel for a while.
    pub fn say(&mut self, text: &str, now: Instant) {
        self.note = Some((text.to_owned(), now + UNDO));
        self.busy = None;
        self.changed(now);
    }

    /// A decision is on its way; keys do nothing until [`Panel::decided`] or [`Panel::say`].
    pub fn working(&mut self, what: &'static str, now: Instant) {
        self.busy = Some(what);
        self.changed(now);
    }

    /// A decision was made here.
    pub fn decided(&mut self, decided: &Decided, now: Instant) {
        self.busy = None;
        self.note = None;
        self.below = Below::Keys;
        if let Some(block) = &decided.block {
            self.open.retain(|view| view.block.id != *block);
        }
        self.newer = None;
        self.undo = Some((decided.amendment.id.clone(), now + UNDO));
        self.said = Some(outcome(decided));
        self.changed(now);
    }

    /// The newest decision was taken back.
    pub fn undone(&mut self, decided: &Decided, now: Instant) {
        self.busy = None;
        self.undo = None;
        let cut = match decided.cut {
            0 => String::new(),
            cut => format!("; {} cut", words::count(cut.into(), "open connection")),
        };
        self.said = None;
        let text = format!("Taken back{cut}. Bytes already sent and files already written stay.");
        self.note = Some((text, now + UNDO));
        self.changed(now);
    }

    /// What is shown was drawn anew after something else had the screen.
    pub fn changed(&mut self, now: Instant) {
        self.arming = if self.is_empty() && !self.over_tty {
            Arming::Off
        } else {
            Arming::drawn(now)
        };
    }

    /// True when there is nothing to show.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.undo.is_none() && self.note.is_none()
    }

    /// When [`Panel::tick`] is due.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let undo = self.undo.as_ref().map(|(_, until)| *until);
        let counts = self
            .newer
            .as_ref()
            .and(self.counted_at)
            .map(|then| then + COUNT_EVERY);
        let note = self.note.as_ref().map(|(_, until)| *until);
        [self.arming.due(), undo, note, counts]
            .into_iter()
            .flatten()
            .min()
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Instant) -> Tick {
        let mut tick = Tick {
            drain: self.arming.settle(now),
            redraw: false,
        };
        if self.undo.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.undo = None;
            self.said = None;
            tick.redraw = true;
        }
        if self.note.as_ref().is_some_and(|(_, until)| now >= *until) {
            self.note = None;
            tick.redraw = true;
        }
        if tick.redraw {
            self.changed(now);
        }
        let is_time = self
            .counted_at
            .is_some_and(|then| now >= then + COUNT_EVERY);
        if is_time && let Some(newer) = self.newer.take() {
            tick.redraw |= self.set_open(newer, now);
        }
        tick
    }

    /// A key was read.
    pub fn key(&mut self, key: Key, now: Instant) -> Act {
        if key == Key::Interrupt {
            return Act::Interrupt;
        }
        if !self.arming.counts(key) {
            return Act::Nothing;
        }
        match key {
            Key::Escape | Key::Prefix if self.over_tty && self.below == Below::Keys => {
                return if key == Key::Escape {
                    Act::Back
                } else {
                    Act::SendPrefix
                };
            }
            Key::Char('q') if self.over_tty => return Act::Leave,
            Key::Char('s') if self.over_tty => return Act::Stop,
            _ if self.busy.is_some() => return Act::Nothing,
            _ => {}
        }
        if let Below::Confirm(number) = self.below {
            self.below = Below::Choices;
            if key == Key::Char('y') {
                return self.amend(
                    |view| view.candidates.iter().find(|c| c.number == number),
                    true,
                    now,
                );
            }
            self.changed(now);
            return Act::Redraw;
        }
        let Key::Char(character) = key else {
            if self.below == Below::Keys {
                return Act::Nothing;
            }
            self.below = Below::Keys;
            self.changed(now);
            return Act::Redraw;
        };
        match character {
            'a' => self.amend(primary, false, now),
            'o' => self.amend(once, false, now),
            '1'..='9' if self.below == Below::Choices => {
                let number = character.to_digit(10).unwrap_or(0);
                self.amend(
                    |view| view.candidates.iter().find(|c| c.number == number),
                    false,
                    now,
                )
            }
            'd' => match self.open.first() {
                Some(view) => Act::Deny(DenyRequest {
                    block: view.block.id.to_string(),
                    expect: view.expect.clone(),
                    reason: String::new(),
                    surface: Some(Surface::CommandLine),
                }),
                None => Act::Nothing,
            },
            'u' => match &self.undo {
                Some((amendment, until)) if now < *until => Act::Undo(amendment.clone()),
                _ => Act::Nothing,
            },
            '?' if !self.open.is_empty() => {
                self.below = if self.below == Below::Keys {
                    Below::Choices
                } else {
                    Below::Keys
                };
                self.changed(now);
                Act::Redraw
            }
            _ => Act::Nothing,
        }
    }

    fn amend(
        &mut self,
        choose: impl Fn(&BlockView) -> Option<&Candidate>,
        confirmed: bool,
        now: Instant,
    ) -> Act {
        let Some(view) = self.open.first() else {
            return Act::Nothing;
        };
        let Some(candidate) = choose(view) else {
            return Act::Nothing;
        };
        if candidate.needs_confirmation && !confirmed {
            self.below = Below::Confirm(candidate.number);
            self.changed(now);
            return Act::Redraw;
        }
        Act::Amend(AmendRequest {
            limit: None,
            block: view.block.id.to_string(),
            expect: view.expect.clone(),
            scope: Some(candidate.scope),
            rule: Some(candidate.number),
            confirmed,
            expires: None,
            surface: Some(Surface::CommandLine),
        })
    }

    /// Draws the panel into at most `height` lines of at most `width` cells.
    #[must_use]
    pub fn lines(&self, width: usize, height: usize, paint: Paint) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(said) = &self.said {
            lines.extend(edged(said, Tone::Good, width, paint));
        }
        if let Some((note, _)) = &self.note {
            lines.extend(edged(&sanitize_line(note), Tone::Warn, width, paint));
        }
        if self.undo.is_some() {
            lines.extend(edged("u  undo (10 s)", Tone::Key, width, paint));
        }
        if let Some(view) = self.open.first() {
            let nothing = Below::Nothing;
            let card = Card {
                view,
                place: (1, self.open.len()),
                step: self.steps.get(&view.block.id).map(String::as_str),
                below: if self.busy.is_some() {
                    &nothing
                } else {
                    &self.below
                },
            };
            lines.extend(render(&card, width, paint));
        }
        if let Some(busy) = self.busy {
            lines.extend(edged(busy, Tone::Warn, width, paint));
        }
        shorten(lines, width, height, paint)
    }
}

/// What [`Panel::tick`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Throw away everything typed so far.
    pub drain: bool,
    /// Draw the panel.
    pub redraw: bool,
}

/// What a decision did, in words.
#[must_use]
pub fn outcome(decided: &Decided) -> String {
    let words = sanitize_line(&decided.amendment.words);
    let mut text = match &decided.amendment.decision {
        Decision::Allow => format!("Amended: {words}"),
        Decision::Deny { .. } => format!("Denied: {words}"),
    };
    for (figure, what) in [(decided.released, "let go"), (decided.refused, "refused")] {
        if figure > 0 {
            text.push_str(&format!(
                "; {} {what}",
                words::count(figure.into(), "action")
            ));
        }
    }
    if !decided.in_force {
        text.push_str("; the run is over, so it is only recorded");
    }
    if let Some(late) = &decided.late {
        text.push_str(&format!(". {}", sanitize_line(late)));
    }
    text
}

/// The same question, apart from figures that count up.
fn is_same_question(old: &BlockView, new: &BlockView) -> bool {
    let (a, b) = (&old.block, &new.block);
    // "Once" comes and goes with what waits, and its words count it.
    let choices = |view: &BlockView| -> Vec<(u32, String, bool)> {
        let lasting = view.candidates.iter().filter(|c| c.scope != Scope::Once);
        lasting
            .map(|c| (c.number, c.words.clone(), c.needs_confirmation))
            .collect()
    };
    a.id == b.id
        && a.subject == b.subject
        && a.state == b.state
        && a.why == b.why
        && a.revision == b.revision
        && a.address_vetted == b.address_vetted
        && places(a) == places(b)
        && choices(old) == choices(new)
}

/// What a card of files speaks of, apart from how much of it waits.
fn places(block: &Block) -> Option<(&PathText, &[PathText])> {
    let facts = block.file.as_ref()?;
    Some((&facts.folder, &facts.paths))
}

fn is_same_figures(old: &[BlockView], new: &[BlockView]) -> bool {
    let (Some(a), Some(b)) = (old.first(), new.first()) else {
        return old.len() == new.len();
    };
    old.len() == new.len()
        && (a.block.waiting, a.block.seen, a.block.last_hold)
            == (b.block.waiting, b.block.seen, b.block.last_hold)
        && a.block.holders == b.block.holders
}

fn edged(text: &str, tone: Tone, width: usize, paint: Paint) -> Vec<String> {
    let inner = width.saturating_sub(cells(EDGE)).max(8);
    let edge = paint.paint(Tone::Edge, EDGE);
    wrap(text, inner)
        .iter()
        .map(|line| format!("{edge}{}", paint.paint(tone, line)))
        .collect()
}

/// Keeps the first facts and the keys where the screen is too low for all of it.
fn shorten(mut lines: Vec<String>, width: usize, height: usize, paint: Paint) -> Vec<String> {
    let height = height.max(3);
    if lines.len() <= height {
        return lines;
    }
    let blank = |line: &String| line.trim_end() == EDGE.trim_end();
    lines.retain(|line| !blank(line));
    if lines.len() <= height {
        return lines;
    }
    let hidden = lines.len() - height + 1;
    let keep = (height - 1) / 2;
    let text = fit(
        &format!("… {hidden} lines more; enlarge the window"),
        width.saturating_sub(2),
    );
    let mark = format!(
        "{}{}",
        paint.paint(Tone::Edge, EDGE),
        paint.paint(Tone::Dim, &text)
    );
    lines.splice(keep..keep + hidden, [mark]);
    lines
}

#[cfg(test)]
pub(crate) mod tests;
