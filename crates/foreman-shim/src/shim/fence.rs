//! Who is in charge of the run: the highest fence that introduced itself, kept beside the journal.
//!
//! The room on the disk is taken when the run begins, so that a full disk never keeps an engine from
//! stopping or deciding. A disk that fails is no reason either: the memory of this process is as old as
//! the run, because the run ends with it.

use crate::protocol::fence_record;
use foreman_domain::Fence;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// Bytes of the record: always the same, blanks at its end.
const BYTES: usize = 96;

/// The highest fence. It never goes back.
#[derive(Debug)]
pub(super) struct FenceKeeper {
    file: Arc<File>,
    highest: watch::Sender<Fence>,
    /// Held while a higher one is written down, so that they are written in their order.
    writing: tokio::sync::Mutex<()>,
}

impl FenceKeeper {
    /// Opens the record beside a journal; one that is there already counts.
    pub(super) fn open(journal: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(fence_record(journal))?;
        let mut bytes = [b' '; BYTES];
        let known = match file.read_at(&mut bytes, 0)? {
            0 => Fence::default(),
            count => serde_json::from_slice(bytes.get(..count).unwrap_or_default())?,
        };
        file.write_all_at(&record(known)?, 0)?;
        Ok(Self {
            file: Arc::new(file),
            highest: watch::Sender::new(known),
            writing: tokio::sync::Mutex::default(),
        })
    }

    /// Takes an introduction; false when a higher one was there before.
    pub(super) async fn admit(&self, fence: Fence) -> bool {
        let _one_at_a_time = self.writing.lock().await;
        let highest = self.highest();
        if fence > highest {
            if let Err(error) = self.write(fence).await {
                tracing::warn!(%error, %fence, "who is in charge could not be written down");
            }
            self.highest.send_replace(fence);
        }
        fence >= highest
    }

    /// The highest so far.
    pub(super) fn highest(&self) -> Fence {
        *self.highest.borrow()
    }

    /// Waits until a higher one than this has introduced itself.
    pub(super) async fn above(&self, fence: Fence) {
        let mut highest = self.highest.subscribe();
        if highest.wait_for(|highest| *highest > fence).await.is_err() {
            // The sender lives in `self`, so this cannot be.
            std::future::pending::<()>().await;
        }
    }

    async fn write(&self, fence: Fence) -> io::Result<()> {
        let (file, bytes) = (Arc::clone(&self.file), record(fence)?);
        let written = tokio::task::spawn_blocking(move || {
            file.write_all_at(&bytes, 0)?;
            file.sync_data()
        });
        written.await.map_err(io::Error::other)?
    }
}

fn record(fence: Fence) -> io::Result<[u8; BYTES]> {
    let text = serde_json::to_vec(&fence)?;
    let mut bytes = [b' '; BYTES];
    let room = bytes
        .get_mut(..text.len())
        .ok_or(io::ErrorKind::InvalidData)?;
    room.copy_from_slice(&text);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{Epoch, RunEpoch};

    fn fence(engine: u64, run: u64) -> Fence {
        Fence {
            engine: Epoch(engine),
            run: RunEpoch(run),
        }
    }

    #[tokio::test]
    async fn a_fence_never_goes_back_and_is_read_again_from_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let journal = dir.path().join("journal.ndjson");
        let keeper = FenceKeeper::open(&journal).unwrap();
        assert!(keeper.admit(fence(2, 1)).await);
        assert!(keeper.admit(fence(2, 1)).await, "the same may come twice");
        for stale in [fence(1, 9), fence(2, 0), Fence::default()] {
            assert!(!keeper.admit(stale).await, "{stale}");
        }
        assert!(keeper.admit(fence(2, 2)).await);
        let again = FenceKeeper::open(&journal).unwrap();
        assert_eq!(again.highest(), fence(2, 2));
        assert!(!again.admit(fence(2, 1)).await);
    }

    #[tokio::test]
    async fn who_is_fenced_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let keeper = FenceKeeper::open(&dir.path().join("journal.ndjson")).unwrap();
        keeper.admit(fence(1, 1)).await;
        let ((), admitted) = tokio::join!(keeper.above(fence(1, 1)), keeper.admit(fence(1, 2)));
        assert!(admitted);
    }
}
