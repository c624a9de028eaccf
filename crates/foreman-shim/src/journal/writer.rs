//! Appends events to a journal.

use super::JournalError;
use super::reader::{Index, scan};
use foreman_domain::{
    At, Event, EventKind, EventSeq, Packed, ProcessRef, RunId, Span, StepName, WIRE_VERSION, pack,
};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pause between two looks whether a journal has been let go of.
const LOOK: Duration = Duration::from_millis(2);

/// The one writer of a journal. Blocking: meant for a thread of its own, or for few events.
///
/// After an error of writing or syncing nothing of the failed group is in the file and all of it is
/// still buffered: a later [`Writer::sync`] tries it again.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    file: File,
    run: RunId,
    next: EventSeq,
    /// Length of the file up to the last complete line.
    len: u64,
    /// Encoded lines that are not in the file yet.
    buffer: Vec<u8>,
    unsynced: bool,
}

impl Writer {
    /// Opens or makes the journal at `path`, cuts off a torn last line, and goes on after its last
    /// event, or at `next_seq` when that is further (the caller knows of events that the file lost).
    ///
    /// # Errors
    /// When the file cannot be opened, is being written by another process, or is damaged before its
    /// last line.
    pub fn open(path: &Path, run: RunId, next_seq: EventSeq) -> Result<Self, JournalError> {
        Self::open_indexed(path, run, next_seq).map(|(writer, _)| writer)
    }

    /// As [`Writer::open_indexed`], and waits for whoever has the journal to let go of it, but not longer
    /// than `patience`. A writer that is gone may have it a moment more: a child that its process is
    /// just starting has every lock with it until it becomes its program.
    ///
    /// # Errors
    /// As [`Writer::open`].
    pub fn open_in_turn(
        path: &Path,
        run: &RunId,
        next_seq: EventSeq,
        patience: Duration,
    ) -> Result<(Self, Index), JournalError> {
        let deadline = Instant::now() + patience;
        loop {
            match Self::open_indexed(path, run.clone(), next_seq) {
                Err(JournalError::Busy { .. }) if Instant::now() < deadline => {
                    std::thread::sleep(LOOK);
                }
                opened => return opened,
            }
        }
    }

    /// As [`Writer::open`], and gives the index of what the file holds.
    ///
    /// # Errors
    /// As [`Writer::open`].
    pub fn open_indexed(
        path: &Path,
        run: RunId,
        next_seq: EventSeq,
    ) -> Result<(Self, Index), JournalError> {
        let open_error = |source| JournalError::Open {
            path: path.to_owned(),
            source,
        };
        let mut file = loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(path)
                .map_err(open_error)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(JournalError::Busy {
                        path: path.to_owned(),
                    });
                }
                Err(TryLockError::Error(source)) => return Err(open_error(source)),
            }
            // Whoever had the lock may have put another file in its place.
            if file.metadata().map_err(open_error)?.nlink() > 0 {
                break file;
            }
        };
        let index = scan(&file, path)?;
        let write_error = |source| JournalError::Write {
            path: path.to_owned(),
            source,
        };
        if index.is_empty() {
            // A file may be new, and then what is synced in it is found again only if its name is.
            sync_folder_of(path).map_err(open_error)?;
        }
        if file.metadata().map_err(open_error)?.len() > index.len() {
            file.set_len(index.len()).map_err(write_error)?;
            file.sync_data().map_err(write_error)?;
        }
        file.seek(SeekFrom::Start(index.len()))
            .map_err(write_error)?;
        let next = index.last().next().max(next_seq).max(EventSeq(1));
        let len = index.len();
        let path = path.to_owned();
        let writer = Self {
            path,
            file,
            run,
            next,
            len,
            buffer: Vec::new(),
            unsynced: false,
        };
        Ok((writer, index))
    }

    /// The number of the event that was appended last; 0 when there is none.
    #[must_use]
    pub fn last_seq(&self) -> EventSeq {
        EventSeq(self.next.0.saturating_sub(1))
    }

    /// Appends an event of now. It is on disk when this returns if its kind is durable at once;
    /// otherwise it is in the file's buffer until the next [`Writer::sync`].
    ///
    /// # Errors
    /// When the file cannot be written or synced.
    pub fn append(
        &mut self,
        kind: EventKind,
        step: Option<StepName>,
        process: Option<ProcessRef>,
    ) -> Result<EventSeq, JournalError> {
        let durable = kind.is_durable_at_once();
        let seq = self.next;
        let event = Event {
            v: WIRE_VERSION,
            run: self.run.clone(),
            seq,
            at: At::now(),
            step,
            process,
            kind,
        };
        self.push(&event)?;
        if durable {
            self.sync()?;
        }
        Ok(seq)
    }

    /// Buffers an event that already has its number, which must be the next one.
    ///
    /// # Errors
    /// When it cannot be encoded or does not follow.
    pub fn push(&mut self, event: &Event) -> Result<(), JournalError> {
        for packed in pack(std::slice::from_ref(event)) {
            self.push_packed(packed)?;
        }
        Ok(())
    }

    /// Buffers events as one line; the first must have the next number. Gives the numbers that the
    /// line stands for, and its length with its newline.
    ///
    /// # Errors
    /// When they cannot be encoded or do not follow.
    pub fn push_packed(&mut self, packed: Packed<'_>) -> Result<(Span, u64), JournalError> {
        let first = packed.first().map_or(EventSeq(0), |event| event.seq);
        if first != self.next {
            return Err(JournalError::Damaged {
                path: self.path.clone(),
                offset: self.len,
                what: format!("event {first} was to follow event {}", self.last_seq()),
            });
        }
        let start = self.buffer.len();
        if let Err(source) = serde_json::to_writer(&mut self.buffer, &packed) {
            self.buffer.truncate(start);
            return Err(JournalError::Encode { source });
        }
        self.buffer.push(b'\n');
        // A gap in a journal is one event of one number, whatever range it tells of.
        let last = packed.events().last().map_or(first, |event| event.seq);
        self.next = last.next();
        self.unsynced = true;
        Ok((Span { first, last }, (self.buffer.len() - start) as u64))
    }

    /// Bytes that wait for the next [`Writer::sync`].
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Writes what is buffered and waits until it is on disk. Gives the length of the file.
    ///
    /// # Errors
    /// When the file cannot be written or synced.
    pub fn sync(&mut self) -> Result<u64, JournalError> {
        if self.unsynced {
            let written = self
                .file
                .seek(SeekFrom::Start(self.len))
                .and_then(|_| self.file.write_all(&self.buffer))
                .and_then(|()| self.file.sync_data());
            if let Err(source) = written {
                // A half-written line must not stay: a reader would take what follows for its rest.
                let _ = self.file.set_len(self.len);
                return Err(JournalError::Write {
                    path: self.path.clone(),
                    source,
                });
            }
            self.len += self.buffer.len() as u64;
            self.buffer.clear();
            self.unsynced = false;
        }
        Ok(self.len)
    }
}

impl Writer {
    /// Cuts the journal down to its last line. For whoever has stored every event of it elsewhere: the
    /// line that stays says where the numbers stand, so that whoever writes next goes on behind it. The
    /// file is replaced in one step, and is whole when that fails.
    ///
    /// # Errors
    /// When what was appended cannot be synced, or the file cannot be read or replaced.
    pub fn keep_last_line(mut self) -> Result<(), JournalError> {
        self.sync()?;
        let line = self.last_line().map_err(|source| JournalError::Read {
            path: self.path.clone(),
            source,
        })?;
        let replace = || {
            let part = self.path.with_extension("part");
            let _ = std::fs::remove_file(&part);
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&part)?;
            file.write_all(&line)?;
            file.sync_all()?;
            std::fs::rename(&part, &self.path)?;
            sync_folder_of(&self.path)
        };
        replace().map_err(|source| JournalError::Write {
            path: self.path.clone(),
            source,
        })
    }

    /// The last line with its newline; empty when there is none.
    fn last_line(&self) -> std::io::Result<Vec<u8>> {
        let mut size = 16 << 10;
        loop {
            let from = self.len.saturating_sub(size);
            let mut tail = vec![0; usize::try_from(self.len - from).unwrap_or(usize::MAX)];
            self.file.read_exact_at(&mut tail, from)?;
            let before = tail.strip_suffix(b"\n").unwrap_or(&tail);
            let begin = before.iter().rposition(|byte| *byte == b'\n');
            match begin {
                Some(newline) => return Ok(tail.split_off(newline + 1)),
                None if from == 0 => return Ok(tail),
                None => size *= 4,
            }
        }
    }
}

fn sync_folder_of(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Best effort: whoever needs certainty calls `sync`.
        let _ = self.sync();
    }
}
