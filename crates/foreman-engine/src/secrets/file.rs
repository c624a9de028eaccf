//! The file store: secrets in a file of the data directory that only its owner may read. Not encrypted:
//! used where the operator says so.

use super::{Kept, MOST_KEPT};
use crate::failures::io;
use foreman_domain::{At, Code, Failure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

const VERSION: u8 = 1;
/// Longest file that is read.
const LONGEST: u64 = 64 << 20;

#[derive(Serialize, Deserialize)]
struct Content {
    v: u8,
    secrets: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    value: String,
    version: String,
    set_at: At,
}

impl From<Entry> for Kept {
    fn from(entry: Entry) -> Self {
        Self {
            value: entry.value,
            version: entry.version,
            set_at: entry.set_at,
        }
    }
}

/// The store at one path. Its calls block, for a file's time.
#[derive(Debug)]
pub(super) struct FileStore(PathBuf);

impl FileStore {
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub fn get(&self, name: &str) -> Result<Option<Kept>, Failure> {
        let mut content = self.read()?;
        Ok(content.secrets.remove(name).map(Kept::from))
    }

    pub fn names(&self) -> Result<Vec<(String, At)>, Failure> {
        let secrets = self.read()?.secrets.into_iter();
        Ok(secrets.map(|(name, entry)| (name, entry.set_at)).collect())
    }

    pub fn set(&self, name: &str, kept: Kept) -> Result<(), Failure> {
        let mut content = self.read()?;
        let Kept {
            value,
            version,
            set_at,
        } = kept;
        let entry = Entry {
            value,
            version,
            set_at,
        };
        content.secrets.insert(name.to_owned(), entry);
        if content.secrets.len() > MOST_KEPT {
            let message = format!("at most {MOST_KEPT} secrets are kept in a file");
            return Err(Failure::new(Code::BadInput, message));
        }
        self.write(&content)
    }

    pub fn remove(&self, name: &str) -> Result<Option<Kept>, Failure> {
        let mut content = self.read()?;
        let Some(entry) = content.secrets.remove(name) else {
            return Ok(None);
        };
        self.write(&content)?;
        Ok(Some(entry.into()))
    }

    fn read(&self) -> Result<Content, Failure> {
        let path = self.0.display();
        let fail = |error: std::io::Error| io(format!("{path} cannot be read"), &error);
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&self.0);
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Content {
                    v: VERSION,
                    secrets: BTreeMap::new(),
                });
            }
            opened => opened.map_err(fail)?,
        };
        let found = file.metadata().map_err(fail)?;
        if found.mode() & 0o077 != 0 || found.uid() != nix::unistd::geteuid().as_raw() {
            let message = format!("{path} can be read by others, so no secret is taken from it");
            return Err(Failure::new(Code::Environment, message)
                .hint("Make it yours alone (chmod 600) and replace the secrets in it."));
        }
        let mut text = Vec::new();
        file.take(LONGEST).read_to_end(&mut text).map_err(fail)?;
        // Where a damaged file is damaged is said, and nothing of what it says.
        let content: Content = serde_json::from_slice(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let message = format!("{path} is damaged at line {line}, column {column}");
            Failure::new(Code::Environment, message)
        })?;
        match content.v {
            VERSION => Ok(content),
            newer => Err(Failure::new(
                Code::Environment,
                format!("{path} has version {newer}, which this engine does not know"),
            )),
        }
    }

    /// Replaces the file, whole or not at all.
    fn write(&self, content: &Content) -> Result<(), Failure> {
        let part = self.0.with_extension("part");
        let written = || {
            match std::fs::remove_file(&part) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&part)?;
            file.write_all(&serde_json::to_vec(content)?)?;
            file.sync_all()?;
            std::fs::rename(&part, &self.0)?;
            File::open(self.0.parent().unwrap_or(&self.0))?.sync_all()
        };
        written().map_err(|error| {
            let _ = std::fs::remove_file(&part);
            io(format!("{} cannot be written", self.0.display()), &error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn kept(value: &str) -> Kept {
        Kept {
            value: value.to_owned(),
            version: "1".to_owned(),
            set_at: At::from_millis(5),
        }
    }

    #[test]
    fn a_secret_is_kept_replaced_and_forgotten_in_a_file_of_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::at(dir.path().join("secrets.json"));
        assert_eq!(store.get("A").unwrap(), None);
        store.set("A", kept("first value")).unwrap();
        store.set("A", kept("second value")).unwrap();
        store.set("B", kept("another one")).unwrap();
        assert_eq!(store.get("A").unwrap().unwrap().value, "second value");
        assert_eq!(store.names().unwrap().len(), 2);
        let mode = std::fs::metadata(&store.0).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            store.remove("A").unwrap().unwrap().set_at,
            At::from_millis(5)
        );
        assert_eq!(store.remove("A").unwrap(), None);
        let text = std::fs::read_to_string(&store.0).unwrap();
        assert!(
            !text.contains("value") || !text.contains("second"),
            "{text}"
        );
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_damaged_gives_nothing_and_says_nothing_of_itself() {
        let dir = tempfile::tempdir().unwrap();
        let store = FileStore::at(dir.path().join("secrets.json"));
        store.set("A", kept("first value")).unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&store.0, open).unwrap();
        assert!(store.get("A").unwrap_err().message.contains("by others"));
        std::fs::remove_file(&store.0).unwrap();
        store.set("A", kept("first value")).unwrap();
        std::fs::write(&store.0, "{\"v\":1,\"secrets\":\"first value\"}").unwrap();
        let refused = store.get("A").unwrap_err();
        assert!(!refused.message.contains("first value"), "{refused}");
    }
}
