//! Which files of a kind a commit has near its root, and what a small one says: how a repository is found
//! out about without checking anything out. Names and texts are the repository's own, so untrusted.

use crate::worktree::parse_oid;
use crate::{GitError, Repository};
use git2::{ObjectType, Tree};

/// Folders below the root that are looked into.
const FOLDERS: usize = 200;
/// Longest text that is read.
const LONGEST: usize = 4_096;

impl Repository {
    /// Paths of the files in the root of `commit` and in the folders right below it whose name is
    /// `wanted`, those of the root first.
    ///
    /// # Errors
    /// [`GitError::Corrupt`] when an object is missing or damaged.
    pub fn files_near_root(
        &self,
        commit: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, GitError> {
        let repo = self.git()?;
        let root = self.tree_of(&repo, commit)?;
        let mut found = named(&root, "", &wanted);
        let folders = root
            .iter()
            .filter(|entry| entry.kind() == Some(ObjectType::Tree))
            .take(FOLDERS);
        for folder in folders {
            let (Ok(name), Ok(tree)) = (folder.name(), repo.find_tree(folder.id())) else {
                continue;
            };
            found.extend(named(&tree, &format!("{name}/"), &wanted));
        }
        Ok(found)
    }

    /// The text of a small file of `commit`; `None` when it has no such file, or one that is large, a
    /// link, or no text.
    ///
    /// # Errors
    /// [`GitError::Corrupt`] when an object is missing or damaged.
    pub fn small_text(&self, commit: &str, path: &str) -> Result<Option<String>, GitError> {
        let repo = self.git()?;
        let root = self.tree_of(&repo, commit)?;
        let Ok(entry) = root.get_path(std::path::Path::new(path)) else {
            return Ok(None);
        };
        let is_file = matches!(entry.filemode(), 0o100_644 | 0o100_755);
        let blob = match repo.find_blob(entry.id()) {
            Ok(blob) if is_file && blob.size() <= LONGEST => blob,
            Ok(_) | Err(_) => return Ok(None),
        };
        Ok(std::str::from_utf8(blob.content()).ok().map(str::to_owned))
    }

    fn tree_of<'a>(&self, repo: &'a git2::Repository, commit: &str) -> Result<Tree<'a>, GitError> {
        repo.find_commit(parse_oid(commit)?)
            .and_then(|commit| commit.tree())
            .map_err(|error| GitError::Corrupt {
                path: self.common_dir().to_owned(),
                what: error.message().to_owned(),
            })
    }
}

fn named(tree: &Tree<'_>, above: &str, wanted: &impl Fn(&str) -> bool) -> Vec<String> {
    tree.iter()
        .filter(|entry| entry.kind() == Some(ObjectType::Blob))
        .filter_map(|entry| entry.name().ok().map(str::to_owned))
        .filter(|name| wanted(name))
        .map(|name| format!("{above}{name}"))
        .collect()
}
