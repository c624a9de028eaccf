//! What a shell wrote and its reader has not got yet: bounded, numbered, kept until it is acknowledged.

use crate::protocol::ShellChunk;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{LogStream, StepResult};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Bytes that wait; beyond that the program waits.
const ROOM: usize = 256 << 10;

/// One shell's outbox.
#[derive(Debug)]
pub(super) struct Outbox {
    held: Mutex<Held>,
    /// Counts changes.
    moved: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Held {
    /// How many chunks were let go of.
    gone: u64,
    chunks: VecDeque<(LogStream, Vec<u8>)>,
    bytes: usize,
    written: u64,
    ended: Option<StepResult>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            held: Mutex::default(),
            moved: watch::Sender::new(0),
        }
    }
}

impl Outbox {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.moved
            .send_modify(|moved| *moved = moved.wrapping_add(1));
    }

    /// Adds something, once there is room.
    pub(super) async fn put(&self, stream: LogStream, bytes: &[u8]) {
        let mut moved = self.moved.subscribe();
        loop {
            moved.borrow_and_update();
            {
                let mut held = self.held();
                if held.bytes < ROOM {
                    held.bytes += bytes.len();
                    held.written += bytes.len() as u64;
                    held.chunks.push_back((stream, bytes.to_vec()));
                    break;
                }
            }
            if moved.changed().await.is_err() {
                return;
            }
        }
        self.tell();
    }

    /// Lets go of what the reader has, and gives what follows, as soon as there is something.
    pub(super) async fn take(
        &self,
        after: u64,
        wait: Duration,
    ) -> (Vec<ShellChunk>, Option<StepResult>) {
        let deadline = Instant::now() + wait;
        let mut moved = self.moved.subscribe();
        loop {
            moved.borrow_and_update();
            let (freed, page, ended) = {
                let mut held = self.held();
                let freed = held.forget(after);
                let page: Vec<_> = held.chunks.iter().map(as_chunk).collect();
                (freed, page, held.ended.clone())
            };
            if freed {
                self.tell();
                moved.borrow_and_update();
            }
            if !page.is_empty() {
                // The end comes when everything before it is known to have arrived.
                return (page, None);
            }
            if ended.is_some() || Instant::now() >= deadline {
                return (page, ended);
            }
            let _ = timeout_at(deadline, moved.changed()).await;
        }
    }

    /// Nothing more will be written.
    pub(super) fn close(&self, result: StepResult) {
        self.held().ended = Some(result);
        self.tell();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.held().ended.is_some()
    }

    pub(super) fn has_room(&self) -> bool {
        self.held().bytes < ROOM
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.held().written
    }
}

impl Held {
    /// Drops the chunks up to `after`; true when there were any.
    fn forget(&mut self, after: u64) -> bool {
        let before = self.gone;
        while self.gone < after {
            let Some((_, bytes)) = self.chunks.pop_front() else {
                break;
            };
            self.bytes -= bytes.len();
            self.gone += 1;
        }
        self.gone > before
    }
}

fn as_chunk((stream, bytes): &(LogStream, Vec<u8>)) -> ShellChunk {
    ShellChunk {
        stream: *stream,
        bytes: STANDARD.encode(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_not_acknowledged_is_given_again_and_the_end_comes_last() {
        let outbox = Outbox::default();
        outbox.put(LogStream::Stdout, b"one").await;
        outbox.put(LogStream::Stderr, b"two").await;
        outbox.close(StepResult::Succeeded);
        for _ in 0..2 {
            let (chunks, ended) = outbox.take(0, Duration::ZERO).await;
            assert_eq!((chunks.len(), ended), (2, None));
        }
        let (chunks, ended) = outbox.take(1, Duration::ZERO).await;
        assert_eq!((chunks.len(), ended), (1, None));
        assert_eq!(chunks[0].stream, LogStream::Stderr);
        let (chunks, ended) = outbox.take(2, Duration::ZERO).await;
        assert_eq!((chunks.len(), ended), (0, Some(StepResult::Succeeded)));
    }

    #[tokio::test]
    async fn a_program_waits_while_its_reader_does_not_read() {
        let outbox = Outbox::default();
        let big = vec![b'x'; ROOM];
        outbox.put(LogStream::Stdout, &big).await;
        let blocked = outbox.put(LogStream::Stdout, b"more");
        tokio::pin!(blocked);
        let early = tokio::time::timeout(Duration::from_millis(50), &mut blocked).await;
        assert!(early.is_err(), "it found room where there was none");
        let reading = outbox.take(1, Duration::from_secs(5));
        let (page, ()) = tokio::join!(reading, blocked);
        assert_eq!(page.0.len(), 1);
    }
}
