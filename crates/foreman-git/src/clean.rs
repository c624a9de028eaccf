//! Whether a checked-out tree can take a set of changes without losing anything of the operator's.
//!
//! Each changed path must be, in the index and on disk, either as the old commit has it or already
//! as the new one does. What stands in the way of a new file, ignored or not, refuses. Files are
//! compared by the index's times and sizes first and by content second, never by a filter program.

use crate::GitError;
use crate::checked_out::Tree;
use git2::{ObjectType, Oid};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The index entry flag of files that a sparse checkout leaves out.
const SKIP_WORKTREE: u16 = 1 << 14;

/// One path that differs between two commits; object and mode on either side.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    pub(crate) old: Option<(Oid, u32)>,
    pub(crate) new: Option<(Oid, u32)>,
}

impl Change {
    /// Its path, safe to show.
    pub(crate) fn shown(&self) -> String {
        foreman_domain::sanitize_line(&self.path.to_string_lossy())
    }
}

/// What was found in a tree.
#[derive(Debug)]
pub(crate) enum State {
    /// Everything is as the old commit has it.
    Clean,
    /// An earlier update was cut short: some is as the new commit has it.
    HalfDone,
    /// Something of the operator's is in the way; why, as a sentence.
    Refused(String),
}

/// What differs between the commits `old` and `new`.
pub(crate) fn changes(
    repo: &git2::Repository,
    old: Oid,
    new: Oid,
) -> Result<Vec<Change>, GitError> {
    let what = "compare the run's tip with the base branch";
    let tree = |oid| repo.find_commit(oid).and_then(|commit| commit.tree());
    let (old, new) = (
        tree(old).map_err(GitError::git(what))?,
        tree(new).map_err(GitError::git(what))?,
    );
    let mut options = git2::DiffOptions::new();
    options.include_typechange(true).skip_binary_check(true);
    let diff = repo
        .diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options))
        .map_err(GitError::git(what))?;
    let side = |file: git2::DiffFile<'_>| {
        (!file.id().is_zero()).then(|| (file.id(), u32::from(file.mode())))
    };
    Ok(diff
        .deltas()
        .map(|delta| {
            let bytes = delta
                .new_file()
                .path_bytes()
                .or(delta.old_file().path_bytes());
            Change {
                path: PathBuf::from(OsStr::from_bytes(bytes.unwrap_or_default())),
                old: side(delta.old_file()),
                new: side(delta.new_file()),
            }
        })
        .collect())
}

impl Tree {
    /// Whether it can take `changes`.
    pub(crate) fn state(
        &self,
        repo: &git2::Repository,
        changes: &[Change],
    ) -> Result<State, GitError> {
        if let Some(paused) = self.paused {
            return Ok(State::Refused(paused.sentence(&self.shown())));
        }
        if self.git_dir.join("index.lock").symlink_metadata().is_ok() {
            return Ok(State::Refused(format!(
                "another git command is at work in the tree at {} (remove {} if none is)",
                self.shown(),
                self.git_dir.join("index.lock").display()
            )));
        }
        let index = match git2::Index::open(&self.index()) {
            Ok(index) => index,
            Err(error) => {
                return Ok(State::Refused(format!(
                    "the index of the tree at {} is of a form that is not updated here ({}): merge \
                     by hand with `git merge --ff-only`",
                    self.shown(),
                    error.message()
                )));
            }
        };
        let look = Look {
            root: &self.root,
            written: fs::metadata(self.index())
                .map(|m| (m.mtime(), m.mtime_nsec()))
                .ok(),
            filemode: repo
                .config()
                .and_then(|config| config.get_bool("core.filemode"))
                .unwrap_or(true),
            index,
            touched: changes.iter().map(|change| change.path.as_path()).collect(),
        };
        let mut half_done = false;
        let mut dirty = Vec::new();
        for change in changes {
            match look.at(change) {
                Found::Old => {}
                Found::New => half_done = true,
                Found::Sparse => {
                    return Ok(State::Refused(format!(
                        "the tree at {} is a sparse checkout that leaves out {}: merge by hand with \
                         `git merge --ff-only`",
                        self.shown(),
                        change.shown()
                    )));
                }
                Found::Other => dirty.push(change.shown()),
            }
        }
        if dirty.is_empty() {
            return Ok(if half_done {
                State::HalfDone
            } else {
                State::Clean
            });
        }
        let more = dirty.len().saturating_sub(5);
        dirty.truncate(5);
        let mut names = dirty.join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        Ok(State::Refused(format!(
            "the tree at {} has changes of its own in files that the run changed ({names}): commit, \
             stash or move them first",
            self.shown()
        )))
    }
}

enum Found {
    Old,
    New,
    Sparse,
    Other,
}

struct Look<'a> {
    root: &'a Path,
    written: Option<(i64, i64)>,
    filemode: bool,
    index: git2::Index,
    touched: HashSet<&'a Path>,
}

impl Look<'_> {
    fn at(&self, change: &Change) -> Found {
        if (1..=3).any(|stage| self.index.get_path(&change.path, stage).is_some()) {
            return Found::Other;
        }
        let entry = self.index.get_path(&change.path, 0);
        if entry
            .as_ref()
            .is_some_and(|entry| entry.flags_extended & SKIP_WORKTREE != 0)
        {
            return Found::Sparse;
        }
        let listed = entry.as_ref().map(|entry| (entry.id, entry.mode));
        let index_old = listed == change.old;
        let index_new = listed == change.new;
        if !(index_old || index_new) || !self.way_is_free(change) {
            return Found::Other;
        }
        let disk_old = self.disk_is(change, change.old, entry.as_ref());
        if index_old && disk_old {
            return Found::Old;
        }
        if disk_old || self.disk_is(change, change.new, entry.as_ref()) {
            return Found::New;
        }
        Found::Other
    }

    /// No folder on the way to the path is something else on disk, unless that goes away as well.
    fn way_is_free(&self, change: &Change) -> bool {
        let mut above: Vec<&Path> = change.path.ancestors().skip(1).collect();
        above.pop();
        above
            .iter()
            .rev()
            .all(|dir| match fs::symlink_metadata(self.root.join(dir)) {
                Ok(meta) => meta.is_dir() || self.touched.contains(dir),
                Err(_) => true,
            })
    }

    fn disk_is(
        &self,
        change: &Change,
        wanted: Option<(Oid, u32)>,
        entry: Option<&git2::IndexEntry>,
    ) -> bool {
        let path = self.root.join(&change.path);
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => Some(meta),
            // Below something that is not a folder there is nothing.
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                None
            }
            Err(_) => return false,
        };
        match (wanted, meta) {
            (None, None) => true,
            // A folder in the place of nothing: all below it must be going away or coming.
            (None, Some(meta)) => meta.is_dir() && self.holds_only_touched(&path, &change.path),
            (Some((_, 0o160_000)), meta) => meta.is_none_or(|meta| meta.is_dir()),
            (Some(_), None) => false,
            (Some((oid, mode)), Some(meta)) => {
                self.same_kind(mode, &meta)
                    && (self.unchanged_since_indexed(oid, entry, &meta)
                        || content_is(&path, oid, &meta))
            }
        }
    }

    fn holds_only_touched(&self, dir: &Path, relative: &Path) -> bool {
        fs::read_dir(dir).is_ok_and(|entries| {
            entries.flatten().all(|entry| {
                let inner = relative.join(entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => self.holds_only_touched(&entry.path(), &inner),
                    Ok(_) => self.touched.contains(inner.as_path()),
                    Err(_) => false,
                }
            })
        })
    }

    fn same_kind(&self, mode: u32, meta: &Metadata) -> bool {
        match mode & 0o170_000 {
            0o120_000 => meta.file_type().is_symlink(),
            _ => {
                let executable = meta.permissions().mode() & 0o100 != 0;
                meta.is_file() && (!self.filemode || executable == (mode & 0o100 != 0))
            }
        }
    }

    fn unchanged_since_indexed(
        &self,
        wanted: Oid,
        entry: Option<&git2::IndexEntry>,
        meta: &Metadata,
    ) -> bool {
        let Some(entry) = entry.filter(|entry| entry.id == wanted) else {
            return false;
        };
        let times = i64::from(entry.mtime.seconds()) == meta.mtime()
            && i64::from(entry.mtime.nanoseconds()) == meta.mtime_nsec();
        // A file changed in the moment in which the index was written may have kept its times.
        let settled = self
            .written
            .is_some_and(|written| (meta.mtime(), meta.mtime_nsec()) < written);
        times
            && settled
            && u64::from(entry.file_size) == meta.size() & 0xffff_ffff
            && u64::from(entry.ino) == meta.ino() & 0xffff_ffff
    }
}

fn content_is(path: &Path, wanted: Oid, meta: &Metadata) -> bool {
    let hash =
        |bytes: &[u8]| Oid::hash_object(ObjectType::Blob, bytes).is_ok_and(|oid| oid == wanted);
    if meta.file_type().is_symlink() {
        return fs::read_link(path).is_ok_and(|target| hash(target.as_os_str().as_bytes()));
    }
    let Ok(bytes) = fs::read(path) else {
        return false;
    };
    if hash(&bytes) {
        return true;
    }
    // Checked out with the operator's line endings.
    let mut plain = Vec::with_capacity(bytes.len());
    for (at, byte) in bytes.iter().enumerate() {
        if !(*byte == b'\r' && bytes.get(at + 1) == Some(&b'\n')) {
            plain.push(*byte);
        }
    }
    plain.len() != bytes.len() && hash(&plain)
}
