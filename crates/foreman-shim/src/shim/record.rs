//! Files that appear whole or not at all: the identity and the exit record.

use crate::protocol::{ExitRecord, ShimIdentity};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Room kept on the disk for the exit record, so that a run can say that the disk is full.
const RESERVED: usize = 32 << 10;

/// Writes who this shim is; it is on disk when this returns. It is renamed first, because then one
/// commit of the file system holds both: what a power failure cuts short before that belongs to a run
/// that has not begun, and an identity that cannot be read says so, too.
pub(super) fn write_identity(path: &Path, identity: &ShimIdentity) -> io::Result<()> {
    let part = part_of(path);
    let mut file = create(&part)?;
    file.write_all(&serde_json::to_vec(identity)?)?;
    std::fs::rename(&part, path)?;
    file.sync_all()?;
    folder_of(path)?.sync_all()
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
        let file = create(&part)?;
        take_room(&file)?;
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

/// Asks for the room by name where the file system can, which needs no waiting for the disk.
fn take_room(mut file: &File) -> io::Result<()> {
    let (from, length) = (0, RESERVED as libc::off_t);
    match nix::fcntl::fallocate(file, nix::fcntl::FallocateFlags::empty(), from, length) {
        Ok(()) => Ok(()),
        Err(nix::Error::EOPNOTSUPP | nix::Error::ENOSYS) => {
            file.write_all(&vec![b' '; RESERVED])?;
            file.sync_all()
        }
        Err(error) => Err(error.into()),
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
    folder_of(to)?.sync_all()
}

fn folder_of(path: &Path) -> io::Result<File> {
    File::open(path.parent().unwrap_or(Path::new("/")))
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
            breach: None,
            fence: foreman_domain::Fence::default(),
        };
        slot.write(&record).unwrap();
        let read: ExitRecord = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read, record);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
