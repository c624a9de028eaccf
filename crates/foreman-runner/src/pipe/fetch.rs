//! Bringing back what a run left.

use super::conversation::{BUFFER, Conversation, is_refused};
use crate::port::{Place, RunnerError};
use foreman_shim::station::{Answer, Piece, Reason, Request};
use std::io;
use std::path::{Path, PathBuf};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;

/// Largest terminal result, and largest file of commits, that is taken.
const EXIT_BYTES: u64 = 4 << 20;
const COMMITS_BYTES: u64 = 8 << 30;
/// Largest journal.
const JOURNAL_BYTES: u64 = 64 << 30;

/// Brings journal, log and commits, then the terminal result.
pub(super) async fn collect(
    conversation: &mut Conversation,
    place: &Place,
) -> Result<(), RunnerError> {
    let files = &place.files;
    // Asked first and put in place last: once it is there, the rest is whole.
    let exit = begin(conversation, place, Piece::Exit, 0, EXIT_BYTES).await?;
    let result = match exit {
        Some(size) => {
            let part = part_of(&files.exit);
            write_anew(conversation, &part, size).await?;
            Some(part)
        }
        None => None,
    };
    append(conversation, place, Piece::Journal, &files.journal).await?;
    append(conversation, place, Piece::Log, &files.log).await?;
    let Some(result) = result else {
        return Ok(());
    };
    if let Some(size) = begin(conversation, place, Piece::Bundle, 0, COMMITS_BYTES).await? {
        let part = part_of(&files.bundle);
        write_anew(conversation, &part, size).await?;
        rename(&part, &files.bundle).await?;
    }
    rename(&result, &files.exit).await
}

/// How many bytes of a file follow; nothing when there is no such file.
async fn begin(
    conversation: &mut Conversation,
    place: &Place,
    piece: Piece,
    from: u64,
    limit: u64,
) -> Result<Option<u64>, RunnerError> {
    let request = Request::Fetch {
        run: place.run.clone(),
        nonce: place.nonce.clone(),
        piece,
        from,
    };
    match conversation.ask(request).await {
        Ok(Answer::File { size }) if size <= limit => Ok(Some(size)),
        Ok(Answer::File { size }) => {
            Err(conversation.garbled(format!("a file of {size} bytes, which is too large")))
        }
        Ok(other) => Err(conversation.garbled(format!("the answer {other:?} to fetch"))),
        Err(error) if is_refused(&error, Reason::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Adds what is new of a file that only grows.
async fn append(
    conversation: &mut Conversation,
    place: &Place,
    piece: Piece,
    path: &Path,
) -> Result<(), RunnerError> {
    let have = match tokio::fs::metadata(path).await {
        Ok(found) => found.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(source) => return Err(failed("read", path, source)),
    };
    let Some(size) = begin(conversation, place, piece, have, JOURNAL_BYTES).await? else {
        return Ok(());
    };
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let file = options.open(path).await;
    let file = file.map_err(|source| failed("write", path, source))?;
    write(conversation, file, path, size).await
}

async fn write_anew(
    conversation: &mut Conversation,
    path: &Path,
    size: u64,
) -> Result<(), RunnerError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path).await;
    let file = file.map_err(|source| failed("write", path, source))?;
    write(conversation, file, path, size).await
}

async fn write(
    conversation: &mut Conversation,
    mut file: File,
    path: &Path,
    size: u64,
) -> Result<(), RunnerError> {
    let mut left = size;
    let mut buffer = vec![0; BUFFER];
    while left > 0 {
        let bytes = conversation.piece(left, &mut buffer).await?;
        let written = file.write_all(bytes).await;
        written.map_err(|source| failed("write", path, source))?;
        left -= bytes.len() as u64;
    }
    let synced = async {
        file.flush().await?;
        file.sync_all().await
    };
    synced.await.map_err(|source| failed("write", path, source))
}

async fn rename(from: &Path, to: &Path) -> Result<(), RunnerError> {
    let renamed = tokio::fs::rename(from, to).await;
    renamed.map_err(|source| failed("write", to, source))
}

fn part_of(path: &Path) -> PathBuf {
    path.with_extension("part")
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> RunnerError {
    RunnerError::File {
        doing,
        path: path.to_owned(),
        source,
    }
}
