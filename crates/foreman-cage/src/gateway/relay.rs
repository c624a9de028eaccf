//! Carries bytes between the cage and the other side, and counts them.
//!
//! Bytes go through a pipe inside the kernel (`splice`). Where no pipe can be had, they are copied.
//! Each direction ends by itself: when one side says it is done, the other is told, and the other
//! direction goes on. A failure of either side resets both.

mod pipes;

pub(crate) use pipes::Pipes;

use nix::sys::socket::{setsockopt, sockopt};
use pipes::{Pipe, moved};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Bytes of a connection, counted when the receiving side's kernel has them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// From the cage.
    pub sent: AtomicU64,
    /// To the cage.
    pub received: AtomicU64,
}

/// Carries bytes until both directions have ended. Returns true when `cut` ended it. Both sockets
/// are closed afterwards; by a reset, unless both sides ended by themselves.
pub(crate) async fn relay(
    mut inside: TcpStream,
    outside: TcpStream,
    early: &[u8],
    counts: &Counts,
    pipes: &Pipes,
    cut: &CancellationToken,
) -> bool {
    let carried = async {
        inside.write_all(early).await?;
        counts
            .received
            .fetch_add(early.len() as u64, Ordering::Relaxed);
        tokio::try_join!(
            one_way(&inside, &outside, &counts.sent, pipes),
            one_way(&outside, &inside, &counts.received, pipes),
        )
    };
    let (done, was_cut) = tokio::select! {
        biased;
        () = cut.cancelled() => (false, true),
        carried = carried => (carried.is_ok(), false),
    };
    if !done {
        reset(inside);
        reset(outside);
    }
    was_cut
}

/// Closes a connection at once: the peer sees a reset, and unsent bytes are gone.
pub(crate) fn reset(stream: TcpStream) {
    let at_once = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // Where it fails the connection is closed in the usual way.
    let _ = setsockopt(&stream, sockopt::Linger, &at_once);
}

async fn one_way(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    pipes: &Pipes,
) -> io::Result<()> {
    loop {
        from.readable().await?;
        let more = match pipes.take() {
            Ok(pipe) => {
                let more = by_pipe(from, to, count, &pipe).await?;
                pipes.give_back(pipe);
                more
            }
            Err(_) => by_copy(from, to, count).await?,
        };
        if !more {
            break;
        }
    }
    // The other side may be gone already; then there is nobody to tell.
    let _ = nix::sys::socket::shutdown(as_raw(to), nix::sys::socket::Shutdown::Write);
    Ok(())
}

/// Moves bytes until there are none for now (true) or for ever (false). The pipe is empty after.
async fn by_pipe(
    from: &TcpStream,
    to: &TcpStream,
    count: &AtomicU64,
    pipe: &Pipe,
) -> io::Result<bool> {
    loop {
        let into = || moved(from.as_fd(), pipe.write.as_fd(), Pipes::CHUNK);
        let mut left = match from.try_io(Interest::READABLE, into) {
            Ok(0) => return Ok(false),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        while left > 0 {
            to.writable().await?;
            let out = || moved(pipe.read.as_fd(), to.as_fd(), left);
            match to.try_io(Interest::WRITABLE, out) {
                Ok(length) => {
                    left -= length;
                    count.fetch_add(length as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// As [`by_pipe`], one buffer at a time.
async fn by_copy(from: &TcpStream, to: &TcpStream, count: &AtomicU64) -> io::Result<bool> {
    const BUFFER: usize = 64 << 10;
    let mut buffer = vec![0; BUFFER];
    let mut rest = match from.try_read(&mut buffer) {
        Ok(0) => return Ok(false),
        Ok(length) => buffer.get(..length).unwrap_or_default(),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
        Err(error) => return Err(error),
    };
    while !rest.is_empty() {
        to.writable().await?;
        match to.try_write(rest) {
            Ok(length) => {
                rest = rest.get(length..).unwrap_or_default();
                count.fetch_add(length as u64, Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn as_raw(stream: &TcpStream) -> std::os::fd::RawFd {
    std::os::fd::AsRawFd::as_raw_fd(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        (dialled.unwrap(), accepted.unwrap().0)
    }

    async fn deadline<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(20), future)
            .await
            .unwrap()
    }

    fn bytes(length: usize) -> Vec<u8> {
        let mut state = 7_u32;
        let next = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (*state >> 24) as u8
        };
        (0..length).map(|_| next(&mut state)).collect()
    }

    async fn carries(pipes: Pipes) {
        let (mut client, inside) = pair().await;
        let (outside, mut server) = pair().await;
        let counts = std::sync::Arc::new(Counts::default());
        let relayed = {
            let counts = counts.clone();
            let cut = CancellationToken::new();
            tokio::spawn(
                async move { relay(inside, outside, b"early", &counts, &pipes, &cut).await },
            )
        };
        let sent = bytes(3_000_000);
        let expected = sent.clone();
        let served = tokio::spawn(async move {
            let mut got = Vec::new();
            server.read_to_end(&mut got).await.unwrap();
            // The client's direction has ended; ours still carries.
            server.write_all(&got).await.unwrap();
            got
        });
        let (mut read, mut write) = client.split();
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
        let mut back = Vec::new();
        deadline(read.read_to_end(&mut back)).await.unwrap();
        assert!(deadline(served).await.unwrap() == expected);
        assert!(back[..5] == *b"early" && back[5..] == expected[..]);
        assert!(!deadline(relayed).await.unwrap());
        assert_eq!(counts.sent.load(Ordering::Relaxed), 3_000_000);
        assert_eq!(counts.received.load(Ordering::Relaxed), 3_000_005);
    }

    #[tokio::test]
    async fn bytes_arrive_whole_through_pipes_and_each_direction_ends_by_itself() {
        carries(Pipes::default()).await;
    }

    #[tokio::test]
    async fn bytes_arrive_whole_when_there_are_no_pipes() {
        carries(Pipes::none()).await;
    }

    #[tokio::test]
    async fn a_cut_resets_both_sides() {
        let (mut client, inside) = pair().await;
        let (outside, mut server) = pair().await;
        let cut = CancellationToken::new();
        let token = cut.clone();
        let relayed = tokio::spawn(async move {
            relay(
                inside,
                outside,
                b"",
                &Counts::default(),
                &Pipes::default(),
                &token,
            )
            .await
        });
        client.write_all(b"x").await.unwrap();
        let mut byte = [0];
        deadline(server.read_exact(&mut byte)).await.unwrap();
        cut.cancel();
        assert!(deadline(relayed).await.unwrap());
        for side in [&mut client, &mut server] {
            let error = deadline(side.read(&mut byte)).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
    }

    #[tokio::test]
    async fn a_reset_by_one_side_reaches_the_other() {
        let (client, inside) = pair().await;
        let (outside, mut server) = pair().await;
        let relayed = tokio::spawn(async move {
            let cut = CancellationToken::new();
            relay(
                inside,
                outside,
                b"",
                &Counts::default(),
                &Pipes::default(),
                &cut,
            )
            .await
        });
        reset(client);
        let error = deadline(server.read(&mut [0])).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        assert!(!deadline(relayed).await.unwrap());
    }
}
