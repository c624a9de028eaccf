//! Answers `foreman why`: the one thing that a cage may ask of its supervisor.
//!
//! The caller is hostile: few connections at once, few bytes, short waits, one verb, no writes.

use super::arbiter::Arbiter;
use crate::why::{ANSWER_BYTES, PATIENCE, VERB, WhyAnswer};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Connections served at one time; more wait in the kernel's short queue.
const CONNECTIONS: usize = 4;

/// Serves the listening socket `why` until it is dropped.
pub(super) async fn serve(why: OwnedFd, arbiter: Arbiter) -> io::Result<()> {
    let listener = std::os::unix::net::UnixListener::from(why);
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let mut answering = tokio::task::JoinSet::new();
    loop {
        // The permit comes first: what is not accepted costs nothing.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return Ok(());
        };
        while answering.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let arbiter = arbiter.clone();
                answering.spawn(async move {
                    let _permit = permit;
                    // An unanswered question is the asker's loss only.
                    let _ = timeout(PATIENCE, answer(stream, &arbiter)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a question from the cage");
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

async fn answer(mut stream: UnixStream, arbiter: &Arbiter) -> io::Result<()> {
    let mut verb = [0; VERB.len()];
    stream.read_exact(&mut verb).await?;
    if verb == *VERB.as_bytes() {
        stream.write_all(&encode(arbiter.why())).await?;
        stream.shutdown().await?;
    }
    Ok(())
}

/// As JSON, with the oldest left out where it would be too long.
fn encode(mut answer: WhyAnswer) -> Vec<u8> {
    loop {
        let bytes = serde_json::to_vec(&answer).unwrap_or_default();
        if bytes.len() <= ANSWER_BYTES || answer.items.pop().is_none() {
            return bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::{Item, Status};
    use foreman_domain::{At, RunId};

    #[test]
    fn an_answer_never_passes_its_bound() {
        let item = Item {
            subject: "tcp a.example:443".into(),
            state: Status::Denied,
            why: "w".repeat(9_000),
            hint: String::new(),
            at: At::from_millis(0),
            count: 1,
            block: None,
        };
        let answer = WhyAnswer {
            v: 1,
            network: None,
            run: RunId::from_random(1),
            items: vec![item; 20],
        };
        let bytes = encode(answer);
        assert!(bytes.len() <= ANSWER_BYTES);
        assert_eq!(
            serde_json::from_slice::<WhyAnswer>(&bytes)
                .unwrap()
                .items
                .len(),
            7
        );
    }
}
