//! Files that appear whole or not at all: the identity and the exit record.

use crate::protocol::{ExitRecord, ShimIdentity};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Room kept on the disk for the exit record, so that a run can say that the disk is full.
const RESERVED: usize = 32 << 10;

/// Writes who this shim is.
pub(super) fn write_identity(path: &Path, identity: &ShimIdentity) -> io::Result<()> {
    let part = part_of(path);
    let mut file = create(&part)?;
    file.write_all(&serde_json::to_vec(identity)?)?;
    file.sync_all()?;
    rename(&part, path)
}

/// Room for the exit record, taken while there is room.
#[derive(Debug)]
pub(super) struct ExitSlot {
    path: PathBuf,
    part: PathBuf,
    file: File,
}

impl ExitSlot {
    /// Takes the room beside `path`.
    pub(super) fn reserve(path: &Path) -> io::Result<Self> {
        let part = part_of(path);
        let mut file = create(&part)?;
        file.write_all(&vec![b' '; RESERVED])?;
        file.sync_all()?;
        Ok(Self {
            path: path.to_owned(),
            part,
            file,
        })
    }

    /// Writes the record over it and renames it into place: the run is over.
    pub(super) fn write(self, record: &ExitRecord) -> io::Result<()> {
        use std::os::unix::fs::FileExt;
        let bytes = serde_json::to_vec(record)?;
        self.file.write_all_at(&bytes, 0)?;
        self.file.set_len(bytes.len() as u64)?;
        self.file.sync_all()?;
        rename(&self.part, &self.path)
    }
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(".part");
    path.with_file_name(name)
}

fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    let folder = to.parent().unwrap_or(Path::new("/"));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{EventSeq, RunId};

    #[test]
    fn the_exit_record_appears_only_when_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("exit.json");
        let slot = ExitSlot::reserve(&path).unwrap();
        assert!(!path.exists());
        let record = ExitRecord {
            run: RunId::from_random(1),
            last_seq: EventSeq(7),
            steps: vec![],
            verdict: None,
            head: None,
            killed: 3,
        };
        slot.write(&record).unwrap();
        let read: ExitRecord = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, record);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
