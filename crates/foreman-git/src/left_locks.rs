//! Lock files of git that an engine left which was killed while it changed a repository.
//!
//! Git locks a ref, its packed refs or an index by a file beside it, and nothing takes that file away
//! when its maker is killed: from then on every change is refused, the operator's own included. The
//! repository's lock says whether its last holder was cut short, and since when it held it; only files
//! that are not older than that are looked at. Those of the runs' own refs go at once, for nobody else
//! makes them. The others go only where no git of anybody works in the repository: one that does may be
//! who made them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Deepest folder of refs that is looked into.
const DEEPEST: usize = 8;
/// Places below the common directory that hold refs of runs and of nobody else.
const OURS: [&str; 2] = ["refs/foreman", "refs/heads/foreman"];

/// Takes away what a holder left that held the repository since `since`. True when nothing is left to
/// be looked at again.
pub(crate) fn clear(common: &Path, since: SystemTime) -> bool {
    let mut left = Vec::new();
    for place in OURS {
        find(&common.join(place), DEEPEST, since, &mut left);
    }
    left.iter().for_each(|path| remove(path));

    let mut shared = Vec::new();
    find(&common.join("refs"), DEEPEST, since, &mut shared);
    find(common, 0, since, &mut shared);
    find(&common.join("worktrees"), 1, since, &mut shared);
    if shared.is_empty() {
        return true;
    }
    if somebody_works_in(common) {
        tracing::warn!(repository = %common.display(), "lock files may have been left, and git is at work there");
        return false;
    }
    shared.iter().for_each(|path| remove(path));
    true
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {
            tracing::warn!(path = %path.display(), "an engine that was killed had left this lock");
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a left lock cannot be removed")
        }
    }
}

/// Lock files in a folder and `deeper` levels below it, that are not older than `since`.
fn find(folder: &Path, deeper: usize, since: SystemTime, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        // Of the entry itself: a link is no lock, and leads nowhere.
        let (path, Ok(seen)) = (entry.path(), entry.metadata()) else {
            continue;
        };
        if seen.is_dir() {
            if let Some(deeper) = deeper.checked_sub(1) {
                find(&path, deeper, since, found);
            }
        } else if seen.is_file()
            && path.extension().is_some_and(|ending| ending == "lock")
            && entry.file_name() != crate::lock::FILE
            && seen.modified().is_ok_and(|at| at >= since)
        {
            found.push(path);
        }
    }
}

/// Whether a git of this user has the repository, or a worktree of it that is no run's, as its place. What
/// cannot be seen counts as somebody.
fn somebody_works_in(common: &Path) -> bool {
    let mut places = vec![common.to_owned()];
    if common.file_name().is_some_and(|name| name == ".git")
        && let Some(root) = common.parent()
    {
        places.push(root.to_owned());
    }
    for entry in fs::read_dir(common.join("worktrees"))
        .into_iter()
        .flatten()
        .flatten()
    {
        let is_run = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.parse::<foreman_domain::RunId>().is_ok());
        let pointer = fs::read_to_string(entry.path().join("gitdir")).unwrap_or_default();
        if let Some(place) = Path::new(pointer.trim()).parent().filter(|_| !is_run) {
            places.push(place.to_owned());
        }
    }
    let Ok(processes) = fs::read_dir("/proc") else {
        return true;
    };
    let me = nix::unistd::geteuid().as_raw();
    processes.flatten().any(|entry| {
        let is_ours = entry.metadata().is_ok_and(|seen| seen.uid() == me);
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if !is_ours || !name.starts_with("git") {
            return false;
        }
        match fs::read_link(entry.path().join("cwd")) {
            Ok(cwd) => places.iter().any(|place| cwd.starts_with(place)),
            // It has just ended, or hides.
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    })
}
