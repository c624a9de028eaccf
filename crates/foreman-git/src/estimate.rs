//! How much room a checkout takes, before it is made: tracked files only, as the base commit has them.

use crate::deep_stack::on_deep_stack;
use crate::worktree::parse_oid;
use crate::{GitError, Repository};
use git2::{ObjectType, Oid};
use std::collections::HashMap;
use std::path::Path;

/// What a file takes at least: one block of most file systems.
const BLOCK: u64 = 4096;

/// What a checkout takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needed {
    /// Bytes on disk, whole blocks.
    pub bytes: u64,
    /// Files and folders.
    pub entries: u64,
}

impl Needed {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.entries = self.entries.saturating_add(other.entries);
    }
}

impl Repository {
    /// What a checkout of `commit` takes. Each tree is counted once, however often it is used.
    ///
    /// # Errors
    /// [`GitError::Corrupt`] when an object is missing or damaged.
    pub fn checkout_size(&self, commit: &str) -> Result<Needed, GitError> {
        // Trees may nest as deep as somebody liked.
        on_deep_stack(|| {
            let damaged = |error: git2::Error| GitError::Corrupt {
                path: self.common_dir().to_owned(),
                what: error.message().to_owned(),
            };
            let repo = self.git()?;
            let tree = repo
                .find_commit(parse_oid(commit)?)
                .and_then(|commit| commit.tree())
                .map_err(damaged)?;
            let odb = repo.odb().map_err(damaged)?;
            size_of(&repo, &odb, tree.id(), &mut HashMap::new()).map_err(damaged)
        })
    }

    /// Refuses a checkout of `commit` that would not fit where `place` will be.
    ///
    /// # Errors
    /// [`GitError::NoRoom`]; failures to read objects or the file system.
    pub fn refuse_without_room(&self, commit: &str, place: &Path) -> Result<Needed, GitError> {
        let needed = self.checkout_size(commit)?;
        let free = free_at(place)?;
        if needed.bytes > free {
            return Err(GitError::NoRoom {
                path: place.to_owned(),
                needed: needed.bytes,
                free,
            });
        }
        Ok(needed)
    }
}

fn size_of(
    repo: &git2::Repository,
    odb: &git2::Odb<'_>,
    tree: Oid,
    known: &mut HashMap<Oid, Needed>,
) -> Result<Needed, git2::Error> {
    if let Some(needed) = known.get(&tree) {
        return Ok(*needed);
    }
    let mut sum = Needed {
        bytes: BLOCK,
        entries: 1,
    };
    for entry in repo.find_tree(tree)?.iter() {
        match entry.kind() {
            Some(ObjectType::Tree) => sum.add(size_of(repo, odb, entry.id(), known)?),
            Some(ObjectType::Blob) => {
                let (size, _) = odb.read_header(entry.id())?;
                let size = u64::try_from(size).unwrap_or(u64::MAX);
                sum.add(Needed {
                    bytes: size.div_ceil(BLOCK).max(1).saturating_mul(BLOCK),
                    entries: 1,
                });
            }
            // A submodule's folder.
            _ => sum.add(Needed {
                bytes: BLOCK,
                entries: 1,
            }),
        }
    }
    known.insert(tree, sum);
    Ok(sum)
}

/// Bytes that this user may still write where `place` is or will be.
fn free_at(place: &Path) -> Result<u64, GitError> {
    let there = place
        .ancestors()
        .find(|above| above.exists())
        .unwrap_or(Path::new("/"));
    let found = nix::sys::statvfs::statvfs(there)
        .map_err(GitError::io_errno("cannot look at the disk of", there))?;
    Ok(found
        .blocks_available()
        .saturating_mul(found.fragment_size()))
}
