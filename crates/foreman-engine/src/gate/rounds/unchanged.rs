//! Whether checks left the commit's files as they were: the checks of a round share one copy, so that
//! code of the agent, under test in an early one, can rewrite what a later one uses.
//!
//! The copy is noted down before anything runs, out of the cage's reach, and compared when the round is
//! over. Files that came to it meanwhile are what builds make; they are not looked for.

use crate::failures::{internal, io};
use foreman_domain::{Failure, sanitize_line};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// How many files are named in a sentence.
const NAMED: usize = 5;

/// Everything that a fresh copy holds.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    files: Vec<(Vec<u8>, Content)>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Content {
    File {
        bytes: u64,
        runs: bool,
        hash: [u8; 32],
    },
    Link(Vec<u8>),
}

/// Notes down what is at `tree`. Blocking.
pub(super) fn note(tree: &Path, at: &Path) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot = |error| io(format!("{} cannot be read", folder.display()), &error);
        for entry in fs::read_dir(&folder).map_err(cannot)? {
            let path = entry.map_err(cannot)?.path();
            if path.file_name() == Some(OsStr::new(".git")) {
                continue;
            }
            if path.symlink_metadata().map_err(cannot)?.is_dir() {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(tree).map_err(internal)?;
            let name = below.as_os_str().as_bytes().to_owned();
            files.push((name, content(&path, None).map_err(cannot)?));
        }
    }
    files.sort_by(|one, other| one.0.cmp(&other.0));
    let text = serde_json::to_vec(&Noted { files }).map_err(internal)?;
    fs::write(at, text).map_err(|error| io(format!("{} cannot be written", at.display()), &error))
}

/// What is not as it was noted down, in words; none when all is. Blocking.
pub(super) fn difference(tree: &Path, at: &Path) -> Option<String> {
    let read = fs::read(at).map_err(|error| error.to_string());
    let noted: Noted = match read
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
    {
        Ok(noted) => noted,
        Err(why) => {
            return Some(format!(
                "it is not known whether the checks changed what they checked ({why})"
            ));
        }
    };
    let is_other = |path: &[u8], was: &Content| {
        let path = Path::new(OsStr::from_bytes(path));
        let mut above = path.ancestors().skip(1);
        let is_reached = above.all(|folder| {
            let meta = tree.join(folder).symlink_metadata();
            meta.is_ok_and(|meta| meta.is_dir())
        });
        !is_reached || !content(&tree.join(path), Some(was)).is_ok_and(|now| now == *was)
    };
    let changed: Vec<String> = noted
        .files
        .iter()
        .filter(|(path, was)| is_other(path, was))
        .map(|(path, _)| sanitize_line(&String::from_utf8_lossy(path)))
        .collect();
    let more = match changed.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let some = changed.get(..NAMED).unwrap_or(&changed).join(", ");
    (!changed.is_empty()).then(|| format!("the setup or a check changed {some}{more}"))
}

/// What is at `path`, by itself; `was` saves reading what cannot be the same.
fn content(path: &Path, was: Option<&Content>) -> std::io::Result<Content> {
    let other = || std::io::Error::other("it is neither a file nor a link");
    let meta = path.symlink_metadata()?;
    if meta.is_symlink() {
        let target = fs::read_link(path)?;
        return Ok(Content::Link(target.as_os_str().as_bytes().to_owned()));
    }
    if !meta.is_file() {
        return Err(other());
    }
    if let Some(Content::File { bytes, .. }) = was
        && *bytes != meta.len()
    {
        return Err(std::io::Error::other("it has another length"));
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(other());
    }
    let (mut hash, mut buffer, mut file) = (
        Sha256::new(),
        vec![0; 64 << 10],
        file.take(meta.len().saturating_add(1)),
    );
    let mut bytes = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        bytes += count as u64;
        hash.update(&buffer[..count]);
    }
    Ok(Content::File {
        bytes,
        runs: meta.permissions().mode() & 0o100 != 0,
        hash: hash.finalize().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_a_check_rewrites_is_told_of_and_what_it_builds_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, at) = (dir.path().join("tree"), dir.path().join("copy.json"));
        fs::create_dir_all(tree.join("a/b")).unwrap();
        fs::write(tree.join("a/b/c"), "one").unwrap();
        fs::write(tree.join("run"), "two").unwrap();
        symlink("run", tree.join("link")).unwrap();
        assert!(difference(&tree, &at).unwrap().contains("not known"));
        note(&tree, &at).unwrap();
        fs::write(tree.join("a/built"), "x").unwrap();
        fs::write(tree.join("run"), "two").unwrap();
        assert_eq!(difference(&tree, &at), None);
        fs::write(tree.join("a/b/c"), "two").unwrap();
        assert!(difference(&tree, &at).unwrap().contains("a/b/c"));
        fs::write(tree.join("a/b/c"), "one").unwrap();
        fs::remove_file(tree.join("link")).unwrap();
        assert!(difference(&tree, &at).unwrap().ends_with("link"));
        symlink("run", tree.join("link")).unwrap();
        assert_eq!(difference(&tree, &at), None);
        // A folder that stands for another one, with the same in it.
        fs::rename(tree.join("a"), dir.path().join("away")).unwrap();
        symlink("../away", tree.join("a")).unwrap();
        assert!(difference(&tree, &at).unwrap().contains("a/b/c"));
    }
}
