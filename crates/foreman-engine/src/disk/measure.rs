//! How much space the folders of a data directory take, by run.
//!
//! Nothing is followed and nothing is opened but folders. A folder that a run closed to everybody counts
//! as far as it can be read.

use crate::layout::Layout;
use foreman_domain::RunId;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes of one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub worktree: u64,
    pub shadow: u64,
    /// What its agent keeps of its home.
    pub home: u64,
    pub record: u64,
}

impl Sizes {
    /// What goes with the run's worktree.
    pub fn removable(self) -> u64 {
        self.worktree
            .saturating_add(self.shadow)
            .saturating_add(self.home)
    }

    pub fn all(self) -> u64 {
        self.removable().saturating_add(self.record)
    }
}

/// What is on disk.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// By run, with or without a worktree.
    pub runs: BTreeMap<RunId, Sizes>,
    /// Folders of no run's name, and their bytes.
    pub strangers: Vec<(PathBuf, u64)>,
    pub database: u64,
}

impl Usage {
    /// Everything.
    pub fn bytes(&self) -> u64 {
        let runs = self.runs.values().map(|sizes| sizes.all());
        let strangers = self.strangers.iter().map(|(_, bytes)| *bytes);
        runs.chain(strangers)
            .fold(self.database, u64::saturating_add)
    }
}

/// Looks at everything. Blocking.
pub(crate) fn look(layout: &Layout) -> io::Result<Usage> {
    let mut usage = Usage::default();
    for slug in entries(&layout.worktrees())? {
        for folder in entries(&slug)? {
            add(&mut usage, &folder, |sizes| &mut sizes.worktree);
        }
    }
    for folder in entries(&layout.shadows())? {
        add(&mut usage, &folder, |sizes| &mut sizes.shadow);
    }
    for folder in entries(&layout.homes())? {
        add(&mut usage, &folder, |sizes| &mut sizes.home);
    }
    for folder in entries(&layout.runs())? {
        add(&mut usage, &folder, |sizes| &mut sizes.record);
    }
    let database = layout.database();
    for suffix in ["", "-wal", "-shm"] {
        let mut name = database.clone().into_os_string();
        name.push(suffix);
        if let Ok(meta) = fs::symlink_metadata(PathBuf::from(name)) {
            usage.database = usage.database.saturating_add(meta.blocks() * BLOCK);
        }
    }
    Ok(usage)
}

/// What `stat` counts in.
const BLOCK: u64 = 512;

fn add(usage: &mut Usage, folder: &Path, part: fn(&mut Sizes) -> &mut u64) {
    let bytes = size_of(folder);
    match run_of(folder) {
        Some(run) => {
            let part = part(usage.runs.entry(run).or_default());
            *part = part.saturating_add(bytes);
        }
        None => usage.strangers.push((folder.to_owned(), bytes)),
    }
}

/// The run that a folder's name tells, also while it is being removed or brought back.
fn run_of(folder: &Path) -> Option<RunId> {
    let name = folder.file_name()?.to_str()?;
    let name = name.strip_suffix(".removing").unwrap_or(name);
    name.strip_suffix(".restoring").unwrap_or(name).parse().ok()
}

/// The entries of a folder; none when it is not there or no folder.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

/// Bytes that a folder and everything in it take on disk; a file with several names counts once.
fn size_of(root: &Path) -> u64 {
    let (mut bytes, mut seen) = (0_u64, HashSet::new());
    let mut next = vec![root.to_owned()];
    while let Some(path) = next.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        if !meta.is_dir() && meta.nlink() > 1 && !seen.insert((meta.dev(), meta.ino())) {
            continue;
        }
        bytes = bytes.saturating_add(meta.blocks() * BLOCK);
        if meta.is_dir() {
            let inner = fs::read_dir(&path).into_iter().flatten().flatten();
            next.extend(inner.map(|entry| entry.path()));
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_nowhere_and_a_file_with_two_names_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("big"), vec![1; 1 << 20]).unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        let empty = size_of(&root);
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        assert!(size_of(&root) < empty + (1 << 16));
        fs::write(root.join("one"), vec![1; 1 << 16]).unwrap();
        fs::hard_link(root.join("one"), root.join("two")).unwrap();
        let size = size_of(&root);
        assert!(
            size >= empty + (1 << 16) && size < empty + (2 << 16),
            "{size}"
        );
    }

    #[test]
    fn a_folder_is_of_the_run_that_it_is_named_after() {
        let run = RunId::from_random(7);
        for name in [
            run.to_string(),
            format!("{run}.removing"),
            format!("{run}.restoring"),
        ] {
            assert_eq!(run_of(Path::new(&name)), Some(run.clone()));
        }
        for name in ["x", "lost+found", ".removing", &format!("{run}.bak")] {
            assert_eq!(run_of(Path::new(name)), None, "{name}");
        }
    }
}
