//! A look at a repository before anything is run in it: what an operator should know of it.
//!
//! By libgit2 alone, and bounded: what takes too long to count is left out. No hook, filter program or
//! file system monitor of the repository runs.

use crate::deep_stack::on_deep_stack;
use crate::operator::without_credentials;
use crate::{GitError, Repository};
use foreman_domain::sanitize_line;
use git2::{BranchType, ObjectType, StatusOptions, TreeWalkMode, TreeWalkResult};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Branches and submodules that are named.
const NAMED: usize = 500;
/// Commits, files of the git directory and entries of the tree that are counted.
const COUNTED: u64 = 200_000;
/// Longest for any one of them.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of an attributes file that are read.
const ATTRIBUTES: usize = 1 << 20;

/// What was seen of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looks {
    /// The branch that is checked out, short.
    pub branch: Option<String>,
    /// Local branches by name. Untrusted text.
    pub branches: Vec<String>,
    /// Paths of its submodules. Untrusted text.
    pub submodules: Vec<String>,
    /// Attributes name the filter of large files.
    pub lfs: bool,
    /// Only a part of it is checked out.
    pub sparse: bool,
    /// Hooks that are installed.
    pub hooks: Vec<String>,
    /// Bytes of its git directory; absent when there was too much to count.
    pub size_bytes: Option<u64>,
    /// Commits of the branch; absent when there are too many to count.
    pub commits: Option<u64>,
    /// Files that are not as they are in the branch; a folder of new files counts as one.
    pub dirty_files: Option<u32>,
    /// Address of the remote, without credentials. Untrusted text.
    pub remote: Option<String>,
    /// What stands in the way of a run, or what the operator should know, as sentences.
    pub warnings: Vec<String>,
}

impl Repository {
    /// Looks at it.
    ///
    /// # Errors
    /// When it cannot be opened any more. What cannot be told is left out.
    pub fn look(&self) -> Result<Looks, GitError> {
        let (repo, tree) = (self.git()?, self.git_at_root()?);
        let mut looks = Looks {
            size_bytes: size_of(self.common_dir()),
            commits: count_commits(&tree),
            dirty_files: count_dirty(&tree),
            ..Looks::default()
        };
        if let Ok(head) = tree.find_reference("HEAD")
            && let Ok(Some(name)) = head.symbolic_target()
        {
            looks.branch = name.strip_prefix("refs/heads/").map(str::to_owned);
        }
        if let Ok(branches) = repo.branches(Some(BranchType::Local)) {
            let names = branches.flatten().filter_map(|(branch, _)| {
                let name = branch.name_bytes().ok()?;
                Some(String::from_utf8_lossy(name).into_owned())
            });
            looks.branches = names.take(NAMED).collect();
            looks.branches.sort();
        }
        on_deep_stack(|| {
            // Opened anew: a handle does not go to another thread.
            walk(&self.git_at_root()?, &mut looks);
            Ok(())
        })?;
        let config = tree
            .config()
            .map_err(GitError::git("read the configuration"))?;
        looks.sparse = config.get_bool("core.sparsecheckout").unwrap_or(false);
        looks.hooks = hooks(&config, self.common_dir(), self.root());
        let branch = looks.branch.clone().unwrap_or_default();
        let remote = match self.upstream(&branch)? {
            Some(upstream) => Some(upstream.remote),
            None => only_remote(&repo),
        };
        looks.remote = remote.map(|name| {
            let address = config.get_string(&format!("remote.{name}.url"));
            without_credentials(&address.unwrap_or(name))
        });
        match self.preflight(None) {
            Ok(found) => looks.warnings = found.warnings,
            Err(error) => looks.warnings.push(error.to_string()),
        }
        Ok(looks)
    }
}

/// `origin`, or the one remote that there is.
fn only_remote(repo: &git2::Repository) -> Option<String> {
    let remotes = repo.remotes().ok()?;
    let names: Vec<&str> = remotes
        .iter()
        .filter_map(|name| name.ok().flatten())
        .collect();
    let found = match names.as_slice() {
        [only] => Some(*only),
        several => several.iter().copied().find(|name| *name == "origin"),
    };
    found.map(str::to_owned)
}

fn walk(repo: &git2::Repository, looks: &mut Looks) {
    let Ok(tree) = repo.head().and_then(|head| head.peel_to_tree()) else {
        return;
    };
    let (begun, mut seen) = (Instant::now(), 0);
    let walked = tree.walk(TreeWalkMode::PreOrder, |folder, entry| {
        seen += 1;
        if seen > COUNTED || begun.elapsed() > PATIENCE {
            return TreeWalkResult::Abort;
        }
        let name = String::from_utf8_lossy(entry.name_bytes());
        match entry.kind() {
            Some(ObjectType::Commit) if looks.submodules.len() < NAMED => {
                looks.submodules.push(format!("{folder}{name}"));
            }
            Some(ObjectType::Blob) if name == ".gitattributes" => {
                if let Ok(blob) = repo.find_blob(entry.id()) {
                    let bytes = blob.content();
                    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(ATTRIBUTES)]);
                    looks.lfs |= text
                        .lines()
                        .filter(|line| !line.trim_start().starts_with('#'))
                        .any(|line| line.split_whitespace().any(|word| word == "filter=lfs"));
                }
            }
            _ => {}
        }
        TreeWalkResult::Ok
    });
    if walked.is_err() {
        looks.warnings.push(
            "it has more files than could be looked at for submodules and large-file filters"
                .to_owned(),
        );
    }
}

fn count_commits(repo: &git2::Repository) -> Option<u64> {
    let mut walk = repo.revwalk().ok()?;
    walk.push_head().ok()?;
    let (begun, mut count) = (Instant::now(), 0);
    for commit in walk {
        commit.ok()?;
        count += 1;
        if count > COUNTED || begun.elapsed() > PATIENCE {
            return None;
        }
    }
    Some(count)
}

fn count_dirty(repo: &git2::Repository) -> Option<u32> {
    // What is ignored is nobody's work, and submodules are asked about themselves.
    let mut options = StatusOptions::new();
    options
        .include_untracked(true)
        .recurse_untracked_dirs(false)
        .exclude_submodules(true)
        .update_index(false)
        .no_refresh(false);
    let found = repo.statuses(Some(&mut options)).ok()?;
    u32::try_from(found.len()).ok()
}

/// Bytes of a folder and everything below it, links not followed.
fn size_of(folder: &Path) -> Option<u64> {
    let (begun, mut seen, mut bytes) = (Instant::now(), 0, 0_u64);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).ok()?.flatten() {
            seen += 1;
            if seen > COUNTED || begun.elapsed() > PATIENCE {
                return None;
            }
            let Ok(meta) = entry.path().symlink_metadata() else {
                continue;
            };
            if meta.is_dir() {
                folders.push(entry.path());
            } else {
                bytes = bytes.saturating_add(meta.len());
            }
        }
    }
    Some(bytes)
}

/// Names of the hooks that git would start, were it git that is run here.
fn hooks(config: &git2::Config, common: &Path, root: &Path) -> Vec<String> {
    let folder = match config.get_path("core.hookspath") {
        Ok(path) => root.join(path),
        Err(_) => common.join("hooks"),
    };
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .take(NAMED)
        .filter(|entry| {
            let is_sample = entry.path().extension().is_some_and(|end| end == "sample");
            let meta = entry.path().metadata();
            !is_sample
                && meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
        .map(|entry| sanitize_line(&entry.file_name().to_string_lossy()))
        .collect();
    names.sort();
    names
}
