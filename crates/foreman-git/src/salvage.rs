//! Commits that a run made but that were never collected, made reachable for people who look at a
//! snapshot with plain git.
//!
//! The shadow directory is not opened as a repository: its refs are read as bounded text, its
//! objects are copied as files into a quarantine, packed there by git under our own configuration,
//! and checked like any harvest before they enter the store. It is best effort: whatever is not in
//! order is left out, and stays in the snapshot as plain files.

use crate::program::Program;
use crate::quarantine::Quarantine;
use crate::{GitError, Repository, Worktree, bounded};
use git2::Oid;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Bound of a copied object file.
const OBJECT: u64 = 2 << 30;
/// The most objects files that are looked at.
const OBJECTS: usize = 200_000;
/// The most tips that are kept.
const TIPS: usize = 200;
/// How long git may take over one step.
const STEP: Duration = Duration::from_secs(10 * 60);

impl Repository {
    /// The tips in the shadow directory that this repository did not have, now that it has them.
    pub(crate) fn salvage(
        &self,
        repo: &git2::Repository,
        worktree: &Worktree,
        shadow: &Path,
    ) -> Vec<Oid> {
        let unknown: Vec<Oid> = tips(worktree, shadow)
            .into_iter()
            .filter(|oid| repo.odb().is_ok_and(|odb| !odb.exists(*oid)))
            .take(TIPS)
            .collect();
        if unknown.is_empty() {
            return Vec::new();
        }
        match self.bring_in(worktree, shadow, &unknown) {
            Ok(()) => {}
            Err(error) => {
                tracing::warn!(run = worktree.run, %error, "uncollected commits stay as files");
                return Vec::new();
            }
        }
        let _ = repo.odb().and_then(|odb| odb.refresh());
        unknown
            .into_iter()
            .filter(|oid| repo.find_commit(*oid).is_ok())
            .collect()
    }

    fn bring_in(&self, worktree: &Worktree, shadow: &Path, tips: &[Oid]) -> Result<(), GitError> {
        let store = self.objects_dir()?;
        let raw = Quarantine::make(&store, &format!("{}-raw", worktree.run))?;
        copy_objects(&shadow.join("objects"), raw.dir())?;
        for entry in fs::read_dir(raw.dir().join("pack"))
            .into_iter()
            .flatten()
            .flatten()
        {
            // The index beside a pack is the run's own: it is made anew.
            Program::new(self.common_dir(), "index-pack", STEP)
                .arg(entry.path())
                .run(|_| Ok(()))?;
        }
        let packed = raw.dir().join("foreman.pack");
        let mut wanted = String::new();
        for tip in tips {
            wanted.push_str(&format!("{tip}\n"));
        }
        wanted.push_str(&format!("--not\n{}\n", worktree.base_commit));
        let feed = |input: &mut dyn std::io::Write| {
            input
                .write_all(wanted.as_bytes())
                .map_err(GitError::io("cannot ask", "git"))
        };
        Program::new(self.common_dir(), "pack-objects", STEP)
            .objects(raw.dir())
            .args([
                "--revs",
                "--stdout",
                "--quiet",
                "--thin",
                "--delta-base-offset",
            ])
            .output(&packed)?
            .run(feed)?;
        let checked = Quarantine::make(&store, &worktree.run)?;
        let mut pack = fs::File::open(&packed).map_err(GitError::io("cannot read", &packed))?;
        checked.take_pack(self.common_dir(), &mut pack, OBJECT)?;
        checked.prove_whole(self.common_dir(), tips, &worktree.base_commit)?;
        checked.release()
    }
}

/// Object names in the shadow's HEAD, branches and stash.
fn tips(worktree: &Worktree, shadow: &Path) -> Vec<Oid> {
    let mut found = BTreeSet::new();
    let mut read = |path: &Path| {
        if let Ok(bytes) = bounded::read(path, 16 << 20) {
            for line in String::from_utf8_lossy(&bytes).lines() {
                found.extend(
                    line.get(..40)
                        .and_then(|hex| crate::worktree::parse_oid(hex).ok()),
                );
            }
        }
    };
    read(&shadow.join("worktrees").join(&worktree.admin).join("HEAD"));
    read(&shadow.join("refs/stash"));
    read(&shadow.join("packed-refs"));
    let mut folders = vec![shadow.join("refs/heads")];
    let mut left = 10_000;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            left -= 1;
            if left == 0 {
                return found.into_iter().collect();
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => read(&entry.path()),
                _ => {}
            }
        }
    }
    found.into_iter().collect()
}

/// Copies well-named object files, and nothing else that may lie in there (alternates above all).
fn copy_objects(from: &Path, to: &Path) -> Result<(), GitError> {
    let hex = |name: &str, len| name.len() == len && name.bytes().all(|b| b.is_ascii_hexdigit());
    let mut left = OBJECTS;
    for folder in fs::read_dir(from)
        .map_err(GitError::io("cannot read", from))?
        .flatten()
    {
        let name = folder.file_name().to_string_lossy().into_owned();
        let packs = name == "pack";
        let is_dir = folder.file_type().is_ok_and(|kind| kind.is_dir());
        if !(is_dir && (packs || hex(&name, 2))) {
            continue;
        }
        for entry in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let wanted = if packs {
                file.strip_prefix("pack-")
                    .and_then(|rest| rest.strip_suffix(".pack"))
                    .is_some_and(|rest| hex(rest, 40))
            } else {
                hex(&file, 38)
            };
            if !wanted {
                continue;
            }
            left = left.checked_sub(1).ok_or_else(|| GitError::BadHarvest {
                what: "there are too many uncollected objects".into(),
            })?;
            let source = entry.path();
            let target = to.join(&name).join(&file);
            let copy = || -> std::io::Result<()> {
                let opened = bounded::open_regular(&source)?;
                if opened.metadata()?.len() > OBJECT {
                    return Err(std::io::ErrorKind::FileTooLarge.into());
                }
                fs::create_dir_all(to.join(&name))?;
                let mut out = fs::File::create_new(&target)?;
                std::io::copy(&mut std::io::Read::take(opened, OBJECT), &mut out)?;
                Ok(())
            };
            copy().map_err(GitError::io("cannot copy", &source))?;
        }
    }
    Ok(())
}
