//! What lies below a path that a rule opens: what a mount would hand over beside files.

use std::collections::VecDeque;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Entries that are looked at below one path.
const MOST_ENTRIES: usize = 20_000;

/// What is below a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// A socket, which would connect the cage to whoever listens there.
    pub socket: Option<PathBuf>,
    /// Not all of it was looked at.
    pub large: bool,
}

/// Looks below a path, bounded, without following links. Blocking.
///
/// # Errors
/// Why it cannot be opened, as "it is neither a file nor a folder". A writable folder with a git directory
/// in it, or in one, would let the agent plant what git runs on the host.
pub fn contents(source: &Path, writable: bool) -> Result<Contents, String> {
    let kind = std::fs::symlink_metadata(source)
        .map_err(|error| format!("it cannot be looked at ({error})"))?
        .file_type();
    if !kind.is_dir() && !kind.is_file() {
        return Err("it is neither a file nor a folder".to_owned());
    }
    if writable
        && let Some(git) = source
            .ancestors()
            .map(|up| up.join(".git"))
            .find(|git| git.exists())
    {
        return Err(format!(
            "it lies in the git repository of {}",
            git.display()
        ));
    }
    let mut found = Contents {
        socket: None,
        large: false,
    };
    let mut folders = VecDeque::from([source.to_owned()]);
    let mut seen = 0;
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                found.large = true;
                return Ok(found);
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_socket() && found.socket.is_none() {
                found.socket = Some(entry.path());
            }
            if writable && entry.file_name() == ".git" {
                return Err(format!(
                    "it holds the git repository of {}",
                    entry.path().display()
                ));
            }
            if kind.is_dir() {
                folders.push_back(entry.path());
            }
        }
    }
    Ok(found)
}
