//! What lies in a worktree, committed or not: repositories that were planted in it, and files in no
//! commit that something loads by itself when the folder is opened.
//!
//! One bounded walk that never follows a link: the run can still change what it walks through.

use super::{MOST, autoloaded};
use crate::hostile_dir::OUT_OF_USE;
use foreman_domain::sanitize_line;
use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, fstatat};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The most entries of the worktree that are looked at.
const ENTRIES: usize = 2_000_000;
/// The deepest folder that is looked into.
const DEPTH: usize = 200;
/// The most paths that are kept before those of the commit are left out.
const PATHS: usize = 20_000;
/// Folders full of other people's projects, whose settings nothing loads by itself.
const DEPENDENCIES: &[&str] = &["node_modules"];
const FOLDER: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// What was found, as sentences without a final period.
pub(crate) struct Lying {
    /// Planted repositories.
    pub(crate) flags: Vec<String>,
    /// Files in no commit that something loads by itself.
    pub(crate) uncommitted: Vec<String>,
}

/// Looks through the worktree at `root`, whose commit has the files of `tree`.
pub(crate) fn of_worktree(root: &Path, tree: &git2::Tree<'_>) -> Lying {
    let mut walk = Walk {
        left: ENTRIES,
        repositories: vec![],
        loading: vec![],
    };
    if let Ok(dir) = Dir::open(root, FOLDER, Mode::empty()) {
        walk.through(dir, &PathBuf::new(), 0, false);
    }
    Lying {
        flags: walk.flags(),
        uncommitted: walk.uncommitted(tree),
    }
}

struct Walk {
    left: usize,
    repositories: Vec<PathBuf>,
    loading: Vec<PathBuf>,
}

impl Walk {
    fn through(&mut self, mut dir: Dir, below: &Path, depth: usize, in_dependency: bool) {
        let mut folders = Vec::new();
        for entry in dir.iter().flatten() {
            let name = entry.file_name().to_owned();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if self.left == 0 || self.repositories.len() > MOST {
                return;
            }
            self.left -= 1;
            if name.to_bytes().eq_ignore_ascii_case(b".git")
                || name.to_bytes().starts_with(OUT_OF_USE.as_bytes())
            {
                if depth > 0 {
                    self.repositories.push(below.to_owned());
                }
                continue;
            }
            let is_folder = entry
                .file_type()
                .map(|kind| kind == nix::dir::Type::Directory);
            if !in_dependency && is_folder != Some(true) && self.loading.len() < PATHS {
                let path = below.join(OsStr::from_bytes(name.to_bytes()));
                if autoloaded(&path).is_some() {
                    self.loading.push(path);
                }
            }
            // Of unknown kind on some file systems: looked at below.
            if is_folder != Some(false) {
                folders.push(name);
            }
        }
        if depth == DEPTH {
            self.left = 0;
            return;
        }
        for name in folders {
            let text = OsStr::from_bytes(name.to_bytes());
            let in_dependency = in_dependency || DEPENDENCIES.iter().any(|known| text == *known);
            let is_dir =
                fstatat(&dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| {
                    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
                });
            if is_dir && let Ok(next) = Dir::openat(&dir, name.as_c_str(), FOLDER, Mode::empty()) {
                self.through(next, &below.join(text), depth + 1, in_dependency);
            }
        }
    }

    fn flags(&self) -> Vec<String> {
        let sentence = |path: &PathBuf| {
            format!(
                "{} is a repository inside the worktree: never run git in there, its configuration \
                 is the run's",
                sanitize_line(&path.to_string_lossy())
            )
        };
        let mut flags: Vec<String> = self.repositories.iter().take(MOST).map(sentence).collect();
        if self.left == 0 || self.repositories.len() > MOST {
            flags.push("not all of the worktree was searched for repositories".to_owned());
        }
        flags
    }

    fn uncommitted(&self, tree: &git2::Tree<'_>) -> Vec<String> {
        let mut paths: Vec<&PathBuf> = self
            .loading
            .iter()
            .filter(|path| tree.get_path(path).is_err())
            .collect();
        paths.sort();
        let sentence = |path: &&PathBuf| {
            let what = autoloaded(path).unwrap_or_default();
            let shown = sanitize_line(&path.to_string_lossy());
            format!("{shown} lies in the worktree and in no commit ({what})")
        };
        let mut said: Vec<String> = paths.iter().take(MOST).map(sentence).collect();
        if paths.len() > MOST || self.loading.len() == PATHS || self.left == 0 {
            said.push("there is more of this kind than is listed".to_owned());
        }
        said
    }
}
