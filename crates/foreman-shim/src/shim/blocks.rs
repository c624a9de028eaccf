//! The table of blocks: held and refused subjects, the holds under them, and what ends them.
//!
//! Pure: no clock, no IO, no waiting. One block per subject, however many actions wait under it; for
//! files one per access and folder, because a program that fills a folder is one question. A block gets at most one decision, and what no decision covers opens a new one. The number of blocks
//! and of waiting holds is bounded; what is over a bound is refused by the caller.
//!
//! | from | event | to |
//! |---|---|---|
//! | (none), Amended, Denied | held | a new block, Open |
//! | Open, Gone | held | Open |
//! | Open | the last waiting hold gave up | Gone |
//! | Open | nobody answered within the run's limit | Expired |
//! | Expired | attempted again | Expired, refused at once |
//! | Open, Gone, Expired | decided: allowed | Amended |
//! | Open, Gone, Expired | decided: refused | Denied |
//! | (none), Open, Gone, Expired | refused while unattended | Denied by Unattended |

mod files;
mod limit;

pub(super) use files::FileHold;

use super::coalesce::Bucket;
use files::Files;
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, At, Block, BlockId, BlockState, Breach, Decider,
    Decision, HoldId, Holder, QuestionFacts, Revision, RunId, SocketFacts, Subject,
};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Blocks in one run.
pub(super) const BLOCKS: usize = 1_000;
/// Holds that wait at one time in one run.
pub(super) const HOLDS: usize = 20_000;
/// Different processes named on a block.
const HOLDERS: usize = 8;
/// Times that a process is looked up for one block.
const LOOKUPS: u32 = 16;
/// Changes of count of one block are told this far apart, at least.
const TELL_EVERY_MS: u64 = 250;
/// Changes of all blocks together in a second, first openings and decisions aside.
const TELLS_PER_SECOND: u64 = 40;
/// Bytes of a process's argument vector that are kept.
const ARGV_BYTES: usize = 2_048;

/// The table is full: the action is to be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    Blocks,
    Holds,
}

/// A new hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) hold: HoldId,
    pub(super) block: BlockId,
    /// Whether the process behind it should be looked up.
    pub(super) wants_holder: bool,
}

/// What a policy says of a waiting hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Release { amendment: Option<AmendmentId> },
    Refuse { by: Decider, reason: String },
    Wait,
}

/// What a decision did to the holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) released: Vec<HoldId>,
    pub(super) refused: Vec<HoldId>,
}

/// Where and under what something was stopped.
#[derive(Debug, Clone)]
pub(super) struct Stopped<'a> {
    pub(super) subject: &'a Subject,
    /// What else is known of an action on a file.
    pub(super) file: Option<&'a FileHold>,
    pub(super) why: &'a str,
    pub(super) address_vetted: bool,
    pub(super) revision: Revision,
    pub(super) at: At,
}

impl Stopped<'_> {
    /// What makes two of them one block.
    fn key(&self) -> Subject {
        key_of(self.subject, self.file)
    }
}

/// What makes two actions one block: the subject, for a file its folder.
pub(super) fn key_of(subject: &Subject, file: Option<&FileHold>) -> Subject {
    match (subject, file) {
        (Subject::File { access, .. }, Some(file)) => Subject::File {
            access: *access,
            path: file.folder.clone(),
        },
        (subject, _) => subject.clone(),
    }
}

#[derive(Debug)]
struct Entry {
    block: Block,
    waiting: BTreeSet<HoldId>,
    files: Files,
    lookups: u32,
    /// Since when it has been open, where that is limited.
    open_since: Option<u64>,
    told_at: Option<u64>,
    /// Changed since it was told.
    changed: bool,
    /// To be told without regard to rates: it opened, or was decided.
    urgent: bool,
}

#[derive(Debug)]
pub(super) struct BlockTable {
    run: RunId,
    /// Blocks of an earlier supervisor of the run.
    before: u32,
    entries: Vec<Entry>,
    /// The newest block of a subject, by what makes two of them one ([`key_of`]).
    newest: HashMap<Subject, usize>,
    holds: HashMap<HoldId, usize>,
    last_hold: HoldId,
    /// Changed entries, in the order in which they changed.
    changes: VecDeque<usize>,
    bucket: Bucket,
}

impl BlockTable {
    pub(super) fn new(run: RunId) -> Self {
        Self {
            run,
            before: 0,
            entries: Vec::new(),
            newest: HashMap::new(),
            holds: HashMap::new(),
            last_hold: HoldId(0),
            changes: VecDeque::new(),
            bucket: Bucket::new(TELLS_PER_SECOND),
        }
    }

    /// Goes on behind the blocks and holds that an earlier supervisor of the run had; before the first.
    pub(super) fn go_on_after(&mut self, blocks: u32, holds: HoldId) {
        self.before = blocks;
        self.last_hold = holds;
    }

    /// A new hold, under the subject's block or a new one.
    pub(super) fn hold(&mut self, stopped: &Stopped<'_>) -> Result<Held, Full> {
        if self.holds.len() >= HOLDS {
            return Err(Full::Holds);
        }
        let (index, is_new) = self.entry_for(stopped)?;
        let hold = self.last_hold.next();
        self.last_hold = hold;
        let Some(entry) = self.entries.get_mut(index) else {
            return Err(Full::Blocks);
        };
        entry.waiting.insert(hold);
        entry.files.hold(hold, stopped);
        entry.block.state = BlockState::Open;
        entry.block.last_hold = hold;
        entry.count(stopped);
        let wants_holder = entry.block.holders.len() < HOLDERS && entry.lookups < LOOKUPS;
        entry.lookups += u32::from(wants_holder);
        let block = entry.block.id.clone();
        self.holds.insert(hold, index);
        self.mark(index, is_new);
        Ok(Held {
            hold,
            block,
            wants_holder,
        })
    }

    /// Notes an action that was refused at once because nobody attends. True when the process behind
    /// it should be looked up.
    pub(super) fn refuse_unattended(
        &mut self,
        stopped: &Stopped<'_>,
    ) -> Result<(BlockId, bool), Full> {
        let denied_before = self.newest.get(&stopped.key()).copied().filter(|index| {
            let state = self.entries.get(*index).map(|entry| &entry.block.state);
            matches!(
                state,
                Some(BlockState::Denied {
                    by: Decider::Unattended,
                    ..
                })
            )
        });
        let (index, is_new) = match denied_before {
            Some(index) => (index, false),
            None => self.entry_for(stopped)?,
        };
        let Some(entry) = self.entries.get_mut(index) else {
            return Err(Full::Blocks);
        };
        entry.block.state = BlockState::Denied {
            by: Decider::Unattended,
            reason: String::new(),
        };
        entry.files.name(stopped);
        entry.count(stopped);
        let wants_holder = entry.block.holders.len() < HOLDERS && entry.lookups < LOOKUPS;
        entry.lookups += u32::from(wants_holder);
        let block = entry.block.id.clone();
        self.mark(index, is_new);
        Ok((block, wants_holder))
    }

    /// Counts an action that an earlier decision refused at once, by its key; false when it has no block.
    pub(super) fn count_denied(&mut self, key: &Subject, at: At) -> bool {
        let Some(index) = self.newest.get(key).copied() else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(index) else {
            return false;
        };
        if !matches!(entry.block.state, BlockState::Denied { .. }) {
            return false;
        }
        entry.block.seen = entry.block.seen.saturating_add(1);
        entry.block.last_at = at;
        self.mark(index, false);
        true
    }

    /// The action behind a hold gave up. False when the hold had ended already.
    pub(super) fn give_up(&mut self, hold: HoldId, at: At) -> bool {
        let Some(index) = self.holds.remove(&hold) else {
            return false;
        };
        let Some(entry) = self.entries.get_mut(index) else {
            return false;
        };
        entry.waiting.remove(&hold);
        entry.files.let_go(hold);
        entry.update_waiting();
        entry.block.last_at = at;
        if entry.waiting.is_empty() && entry.block.state == BlockState::Open {
            entry.block.state = BlockState::Gone;
        }
        self.mark(index, false);
        true
    }

    /// Names a process behind a block. Its text is bounded here.
    pub(super) fn add_holder(&mut self, block: &BlockId, holder: Holder) {
        let Some(index) = self.index_of(block) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let holders = &mut entry.block.holders;
        if holders.len() < HOLDERS && !holders.iter().any(|known| known.pid == holder.pid) {
            holders.push(Holder {
                pid: holder.pid,
                argv: bounded_argv(holder.argv, ARGV_BYTES),
            });
            self.mark(index, false);
        }
    }

    /// Who is behind the socket of a block.
    pub(super) fn note_socket(&mut self, block: &BlockId, facts: SocketFacts) {
        let Some(index) = self.index_of(block) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(index) {
            entry.block.socket = Some(facts);
            self.mark(index, false);
        }
    }

    /// What an agent lets itself be answered.
    pub(super) fn note_question(&mut self, block: &BlockId, facts: QuestionFacts) {
        let Some(index) = self.index_of(block) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(index) {
            entry.block.question = Some(facts);
            self.mark(index, false);
        }
    }

    /// The figures of a bound's block, and what is said of them: they are those of the newest hold.
    pub(super) fn note_breach(&mut self, block: &BlockId, breach: Breach, why: &str) {
        let Some(index) = self.index_of(block) else {
            return;
        };
        if let Some(entry) = self.entries.get_mut(index) {
            entry.block.breach = Some(breach);
            entry.block.why = why.to_owned();
            self.mark(index, true);
        }
    }

    /// Judges every waiting hold, and every block that can still be decided, anew.
    ///
    /// `named` is the block that the decision answered. A hold that the decision does not cover goes
    /// on waiting, under a new block when others of its block were let go.
    pub(super) fn settle(
        &mut self,
        named: Option<(&BlockId, &Amendment)>,
        fallback: &AmendmentId,
        now: (At, Revision),
        mut fate: impl FnMut(&Subject, Option<HoldId>) -> Fate,
    ) -> Settled {
        let mut settled = Settled::default();
        for index in 0..self.entries.len() {
            let Some(entry) = self.entries.get_mut(index) else {
                break;
            };
            if !entry.block.state.is_decidable() {
                continue;
            }
            let answered = named.filter(|(id, amendment)| {
                **id == entry.block.id && amendment.state == AmendmentState::Active
            });
            let (state, left) = if entry.waiting.is_empty() {
                let said = match fate(&entry.block.subject, None) {
                    Fate::Wait => answered.map(|(_, amendment)| spoken(amendment)),
                    other => other.ends_as(fallback),
                };
                (said, BTreeSet::new())
            } else {
                let mut said = None;
                let mut left = BTreeSet::new();
                for hold in std::mem::take(&mut entry.waiting) {
                    let fate = fate(&entry.block.subject, Some(hold));
                    match &fate {
                        Fate::Release { .. } => settled.released.push(hold),
                        Fate::Refuse { .. } => settled.refused.push(hold),
                        Fate::Wait => {
                            left.insert(hold);
                            continue;
                        }
                    }
                    self.holds.remove(&hold);
                    entry.files.let_go(hold);
                    said = fate.ends_as(fallback);
                }
                (said, left)
            };
            match state {
                Some(state) => {
                    entry.block.state = state;
                    entry.update_waiting();
                    entry.block.last_at = now.0;
                    self.mark(index, true);
                    if !left.is_empty() {
                        self.split(index, left, now);
                    }
                }
                None => {
                    entry.waiting = left;
                    entry.update_waiting();
                }
            }
        }
        settled
    }

    /// Blocks to tell now, each as a whole, and whether more wait to be told.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Vec<Block> {
        self.take(now_ms, false)
    }

    /// Every block that changed since it was told, at the end of a run.
    pub(super) fn take_all(&mut self, now_ms: u64) -> Vec<Block> {
        self.take(now_ms, true)
    }

    fn take(&mut self, now_ms: u64, all: bool) -> Vec<Block> {
        let mut due = Vec::new();
        for _ in 0..self.changes.len() {
            let Some(index) = self.changes.pop_front() else {
                break;
            };
            let Some(entry) = self.entries.get_mut(index) else {
                continue;
            };
            let rested = entry
                .told_at
                .is_none_or(|told| now_ms >= told + TELL_EVERY_MS);
            if all || entry.urgent || (rested && self.bucket.take(now_ms)) {
                entry.changed = false;
                entry.urgent = false;
                entry.told_at = Some(now_ms);
                due.push(entry.block.clone());
            } else {
                self.changes.push_back(index);
            }
        }
        due
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Blocks for `foreman why`: the newest changes first.
    pub(super) fn recent(&self, limit: usize) -> Vec<&Block> {
        let mut blocks: Vec<&Block> = self.entries.iter().map(|entry| &entry.block).collect();
        blocks.sort_by_key(|block| std::cmp::Reverse(block.last_at));
        blocks.truncate(limit);
        blocks
    }

    fn entry_for(&mut self, stopped: &Stopped<'_>) -> Result<(usize, bool), Full> {
        if let Some(index) = self.newest.get(&stopped.key()).copied()
            && self
                .entries
                .get(index)
                .is_some_and(|entry| entry.block.state.is_decidable())
        {
            return Ok((index, false));
        }
        if self.entries.len() >= BLOCKS {
            return Err(Full::Blocks);
        }
        Ok((self.open(stopped), true))
    }

    fn open(&mut self, stopped: &Stopped<'_>) -> usize {
        let index = self.entries.len();
        let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
        let number = number.saturating_add(self.before);
        let block = Block {
            id: BlockId::new(self.run.clone(), number),
            subject: stopped.subject.clone(),
            state: BlockState::Open,
            why: stopped.why.to_owned(),
            address_vetted: stopped.address_vetted,
            waiting: 0,
            seen: 0,
            last_hold: HoldId(0),
            revision: stopped.revision,
            first_at: stopped.at,
            last_at: stopped.at,
            holders: Vec::new(),
            file: None,
            socket: None,
            breach: None,
            question: None,
        };
        self.newest.insert(stopped.key(), index);
        self.entries.push(Entry {
            block,
            waiting: BTreeSet::new(),
            files: Files::default(),
            lookups: 0,
            open_since: None,
            told_at: None,
            changed: false,
            urgent: false,
        });
        index
    }

    /// Moves holds that a decision did not cover to a block of their own: the old one is decided. May
    /// pass the bound on blocks, by no more than one for each decision.
    fn split(&mut self, from: usize, left: BTreeSet<HoldId>, now: (At, Revision)) {
        let Some(entry) = self.entries.get_mut(from) else {
            return;
        };
        let (old, files) = (entry.block.clone(), entry.files.split());
        let first = files.first().cloned();
        let subject = match (&old.subject, &first) {
            (Subject::File { access, .. }, Some(file)) => Subject::File {
                access: *access,
                path: file.path.clone(),
            },
            (subject, _) => subject.clone(),
        };
        let index = self.open(&Stopped {
            subject: &subject,
            file: first.as_ref(),
            why: &old.why,
            address_vetted: old.address_vetted,
            revision: now.1,
            at: now.0,
        });
        for hold in &left {
            self.holds.insert(*hold, index);
        }
        if let Some(entry) = self.entries.get_mut(index) {
            entry.block.last_hold = left.last().copied().unwrap_or_default();
            entry.block.seen = left.len() as u64;
            entry.block.holders = old.holders;
            entry.block.socket = old.socket;
            entry.block.question = old.question;
            entry.waiting = left;
            entry.files = files;
            entry.update_waiting();
        }
        self.mark(index, true);
    }

    fn index_of(&self, block: &BlockId) -> Option<usize> {
        let index = usize::try_from(block.number().checked_sub(self.before)?)
            .ok()?
            .checked_sub(1)?;
        self.entries
            .get(index)
            .filter(|entry| entry.block.id == *block)
            .map(|_| index)
    }

    fn mark(&mut self, index: usize, urgent: bool) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        entry.urgent |= urgent;
        if !entry.changed {
            entry.changed = true;
            self.changes.push_back(index);
        }
    }
}

impl Entry {
    fn count(&mut self, stopped: &Stopped<'_>) {
        self.update_waiting();
        self.block.seen = self.block.seen.saturating_add(1);
        self.block.last_at = stopped.at;
        self.block.address_vetted = stopped.address_vetted;
    }

    fn update_waiting(&mut self) {
        self.block.waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        self.block.file = self.files.facts();
    }
}

impl Fate {
    /// The state of a block that this ends; `None` when it does not.
    fn ends_as(self, fallback: &AmendmentId) -> Option<BlockState> {
        match self {
            Self::Release { amendment } => Some(BlockState::Amended {
                amendment: amendment.unwrap_or_else(|| fallback.clone()),
            }),
            Self::Refuse { by, reason } => Some(BlockState::Denied { by, reason }),
            Self::Wait => None,
        }
    }
}

/// The state of a block that a decision answered while nothing waited under it.
fn spoken(amendment: &Amendment) -> BlockState {
    match &amendment.decision {
        Decision::Allow => BlockState::Amended {
            amendment: amendment.id.clone(),
        },
        Decision::Deny { reason } => BlockState::Denied {
            by: Decider::Operator,
            reason: reason.clone(),
        },
    }
}

/// An argument vector cut to so many bytes.
pub(super) fn bounded_argv(argv: Vec<String>, mut room: usize) -> Vec<String> {
    let mut kept = Vec::new();
    for mut argument in argv.into_iter().take(64) {
        if room == 0 {
            break;
        }
        if argument.len() > room {
            argument.truncate(argument.floor_char_boundary(room));
            argument.push('…');
        }
        room = room.saturating_sub(argument.len().max(1));
        kept.push(argument);
    }
    kept
}

#[cfg(test)]
#[path = "blocks/tests.rs"]
mod tests;
