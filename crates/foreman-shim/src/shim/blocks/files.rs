//! The places behind a block of files: which paths, and which of those that wait can go on once.

use super::Stopped;
use foreman_domain::{FileFacts, FileTarget, HoldId, PATHS_NAMED, PathText};
use std::collections::{BTreeMap, HashSet};

/// Different paths of one block that are told apart; more are not counted.
const DIFFERENT: usize = 10_000;

/// What is known of one action on a file, beside its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::shim) struct FileHold {
    pub(in crate::shim) path: PathText,
    /// The nearest folder that is there.
    pub(in crate::shim) folder: PathText,
    pub(in crate::shim) target: FileTarget,
    pub(in crate::shim) call: &'static str,
    /// Whether it opens a file, so that it can be let go alone.
    pub(in crate::shim) can_once: bool,
    /// Whether opening the path itself would let it go on.
    pub(in crate::shim) alone: bool,
}

/// The places of one block; nothing for a block of another kind.
#[derive(Debug, Default)]
pub(super) struct Files {
    first: Option<FileHold>,
    named: Vec<PathText>,
    different: HashSet<PathText>,
    held: BTreeMap<HoldId, FileHold>,
    once: u32,
    /// One of them needs more than its own path.
    needs_more: bool,
}

impl Files {
    /// Takes a new hold in.
    pub(super) fn hold(&mut self, hold: HoldId, stopped: &Stopped<'_>) {
        if let Some(file) = stopped.file {
            self.insert(hold, file.clone());
        }
    }

    /// Takes an action in that does not wait.
    pub(super) fn name(&mut self, stopped: &Stopped<'_>) {
        if let Some(file) = stopped.file {
            self.see(file);
        }
    }

    /// A hold has ended.
    pub(super) fn let_go(&mut self, hold: HoldId) {
        if let Some(file) = self.held.remove(&hold) {
            self.once -= u32::from(file.can_once);
        }
    }

    /// Those that still wait, as the files of a block of their own.
    pub(super) fn split(&mut self) -> Self {
        let mut left = Self::default();
        for (hold, file) in std::mem::take(&mut self.held) {
            left.insert(hold, file);
        }
        self.once = 0;
        left
    }

    pub(super) fn first(&self) -> Option<&FileHold> {
        self.first.as_ref()
    }

    pub(super) fn facts(&self) -> Option<FileFacts> {
        let first = self.first.as_ref()?;
        Some(FileFacts {
            folder: first.folder.clone(),
            paths: self.named.clone(),
            different: u32::try_from(self.different.len()).unwrap_or(u32::MAX),
            target: first.target,
            call: first.call.to_owned(),
            once: self.once,
            alone: !self.needs_more,
        })
    }

    fn insert(&mut self, hold: HoldId, file: FileHold) {
        self.see(&file);
        self.once += u32::from(file.can_once);
        self.held.insert(hold, file);
    }

    fn see(&mut self, file: &FileHold) {
        self.needs_more |= !file.alone;
        if self.first.is_none() {
            self.first = Some(file.clone());
        }
        let is_new = self.different.len() < DIFFERENT && self.different.insert(file.path.clone());
        if is_new && self.named.len() < PATHS_NAMED {
            self.named.push(file.path.clone());
        }
    }
}
