//! Files as a run's policy speaks of them: what was wanted, where, and what is there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::text::is_unsafe;

/// Different paths that a block names.
pub const PATHS_NAMED: usize = 8;

/// A path as text, without loss: a backslash is written twice, and a byte that is no text, or that would
/// be unsafe to show, as `\x0a`. What has none of these reads as itself.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
#[serde(from = "String", into = "String")]
#[schemars(with = "String")]
#[specta(type = String)]
pub struct PathText(String);

impl PathText {
    /// The text of a path.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mut text = String::new();
        for chunk in path.as_os_str().as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                if character == '\\' {
                    text.push_str("\\\\");
                } else if is_unsafe(character) {
                    push_bytes(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes());
                } else {
                    text.push(character);
                }
            }
            push_bytes(&mut text, chunk.invalid());
        }
        Self(text)
    }

    /// The path.
    #[must_use]
    pub fn to_path(&self) -> PathBuf {
        OsString::from_vec(bytes_of(&self.0)).into()
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn push_bytes(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// The bytes that a text stands for. A backslash before anything else stands for itself.
fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match after {
            [b'\\', left @ ..] => {
                bytes.push(b'\\');
                rest = left;
            }
            [b'x', high, low, left @ ..] => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    bytes.push(high << 4 | low);
                    rest = left;
                }
                _ => bytes.push(b'\\'),
            },
            _ => bytes.push(b'\\'),
        }
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

impl From<String> for PathText {
    /// In the one form that each path has, so that equal paths are equal texts.
    fn from(text: String) -> Self {
        Self::of(&PathBuf::from(OsString::from_vec(bytes_of(&text))))
    }
}

impl From<PathText> for String {
    fn from(path: PathText) -> Self {
        path.0
    }
}

impl fmt::Display for PathText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What was at a path when an action on it was held.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, specta::Type,
)]
#[serde(rename_all = "snake_case")]
pub enum FileTarget {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// Nothing yet.
    Absent,
    /// Something else: a device, a pipe, a socket, a link.
    Other,
}

/// What is known of the places behind a block of files. Actions of one access in one folder are one
/// block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct FileFacts {
    /// The nearest folder that is there: that of a file, or the nearest above what is not there yet.
    pub folder: PathText,
    /// Different paths, the first one first; at most [`PATHS_NAMED`].
    pub paths: Vec<PathText>,
    /// How many different ones there were, those that are not named included.
    pub different: u32,
    /// What was at the first path.
    pub target: FileTarget,
    /// The system call that was held first.
    pub call: String,
    /// How many of those that wait are an open of a file, which alone can go on once.
    pub once: u32,
    /// Whether opening the first path alone would let it go on: not when a name in its folder is made,
    /// removed or replaced.
    pub alone: bool,
}

/// Who is behind a Unix socket of the host, as far as it could be seen when a connection to it was held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, specta::Type)]
pub struct SocketFacts {
    /// Name or number of the account that the socket belongs to.
    pub owner: String,
    /// Whether anybody listens there now.
    pub listening: bool,
    /// The program that has it open, where it is one of the operator's own: `postgres (pid 812)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ordinary_path_reads_as_itself() {
        for path in ["/srv/data/ö b.txt", "~/x", ""] {
            assert_eq!(PathText::of(Path::new(path)).as_str(), path);
        }
    }

    #[test]
    fn what_is_no_text_or_would_redraw_a_terminal_is_written_out() {
        let path = OsString::from_vec(b"/a\xff\n\\x41/\xe2\x80\xaeb".to_vec());
        let text = PathText::of(Path::new(&path));
        assert_eq!(text.as_str(), "/a\\xff\\x0a\\\\x41/\\xe2\\x80\\xaeb");
        assert_eq!(text.to_path(), Path::new(&path));
    }

    #[test]
    fn equal_paths_are_equal_texts_however_they_were_written() {
        let read = |json: &str| serde_json::from_str::<PathText>(json).unwrap();
        assert_eq!(read(r#""/a\\x41""#), read(r#""/aA""#));
        assert_eq!(read(r#""/a\\q""#), read(r#""/a\\\\q""#));
    }

    proptest! {
        #[test]
        fn every_path_survives_its_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let text = PathText::of(&path);
            prop_assert_eq!(text.to_path(), path);
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<PathText>(&json).unwrap(), text.clone());
            prop_assert!(!text.as_str().chars().any(char::is_control));
        }
    }
}
