//! The table of contents of a snapshot: what git's own trees cannot hold (exact modes, times, empty
//! folders, names that git refuses) beside the objects that hold the content.
//!
//! One JSON object a line: first [`Header`], then [`Row`]s, folders before their entries.

use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The format that is written.
pub(crate) const VERSION: u32 = 1;

/// First line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) v: u32,
    pub(crate) run: String,
    /// The branch, short, and where it was; absent when it was gone.
    pub(crate) branch: String,
    pub(crate) branch_at: Option<String>,
    /// Where `refs/foreman/<run>/head` was, if it was there.
    pub(crate) head_at: Option<String>,
    /// How many rows follow.
    pub(crate) rows: usize,
}

/// Where a row belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    /// The worktree.
    Worktree,
    /// Its registration in the repository.
    Admin,
    /// The run's shadow directory, as plain files: never used as a repository on the host.
    Shadow,
}

impl Part {
    pub(crate) const ALL: [Self; 3] = [Self::Worktree, Self::Admin, Self::Shadow];

    /// Name of its folder in the snapshot's tree.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Worktree => "worktree",
            Self::Admin => "admin",
            Self::Shadow => "shadow",
        }
    }
}

/// One file, folder or link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) part: Part,
    /// Relative path, with bytes that are not plain written as `%XX`; empty for the part itself.
    pub(crate) path: String,
    pub(crate) what: What,
    pub(crate) mode: u32,
    /// Modification time: seconds and nanoseconds.
    pub(crate) time: (i64, i64),
}

/// What a row is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// A folder.
    Folder,
    /// A file with the content of this object.
    File(String),
    /// A symbolic link with the content of this object as its target.
    Link(String),
    /// A named pipe.
    Pipe,
    /// A socket or device, which is not brought back.
    Other,
}

/// A path as text: letters, digits and `/._-+=@,` stand for themselves.
pub(crate) fn encode(path: &Path) -> String {
    let mut out = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(*byte)),
            b'/' | b'.' | b'_' | b'-' | b'+' | b'=' | b'@' | b',' => out.push(char::from(*byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// The path of [`encode`]d text; none when it is malformed or would lead out of its folder.
pub(crate) fn decode(text: &str) -> Option<PathBuf> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = std::str::from_utf8(bytes.get(at + 1..at + 3)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    if out.contains(&0) {
        return None;
    }
    let path = PathBuf::from(OsStr::from_bytes(&out));
    let plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    // Also refuses doubled and trailing slashes, which components() would hide.
    let exact = path
        .components()
        .collect::<PathBuf>()
        .as_os_str()
        .as_bytes()
        == out.as_slice();
    (plain && exact).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_survives_and_none_leads_out() {
        for name in [b"a/b c".as_slice(), b"\xff\xfe", b"100%", b"new\nline", b""] {
            let path = Path::new(OsStr::from_bytes(name));
            assert_eq!(decode(&encode(path)).as_deref(), Some(path));
        }
        for text in [
            "../x", "/etc", "a/../b", "a//b", "a/", "%2E%2E/x", "%2", "%00",
        ] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
