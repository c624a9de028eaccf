//! The journal of a run: one JSON record a line, appended, synced in groups, read by cursor.
//!
//! A record is an event, or the lines of output that were read in one go ([`foreman_domain::pack`]).
//! It is the first truth about a run. Sequence numbers rise by one from event to event; a line that a
//! crash tore is cut off when the file is opened for writing and is never shown to a reader. A file
//! has one writer at a time (an advisory lock): the engine before its shim starts and after it ended,
//! the shim in between. Readers need no lock, because a line is complete once its newline is there.

mod reader;
mod writer;

pub use reader::{Index, Reader, read_after};
pub use writer::Writer;

use std::io;
use std::path::PathBuf;

/// A journal could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file could not be opened.
    #[error("could not open the journal {path}")]
    Open {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it open for writing.
    #[error("another process is writing the journal {path}")]
    Busy {
        /// Which file.
        path: PathBuf,
    },
    /// Reading failed.
    #[error("could not read the journal {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Appending or syncing failed; the disk may be full.
    #[error("could not write the journal {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A complete line is not an event, or its number does not follow.
    #[error("the journal {path} is damaged at byte {offset}: {what}")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// Where the bad line starts.
        offset: u64,
        /// What was found, as a phrase.
        what: String,
    },
    /// An event could not be written as JSON. Our bug.
    #[error("an event could not be written as JSON")]
    Encode {
        /// Why.
        source: serde_json::Error,
    },
}

impl JournalError {
    /// True when the disk or the quota is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        let (Self::Write { source, .. } | Self::Open { source, .. }) = self else {
            return false;
        };
        matches!(
            source.raw_os_error(),
            Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
        )
    }
}
