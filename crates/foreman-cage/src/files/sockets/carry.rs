//! Carries the bytes of a connection to a socket of the host, and nothing that is attached to them.

use crate::gateway::{Allowance, Closed, Counts};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{Shutdown, shutdown};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

/// The longest packet of a sequence is shorter than this.
const BUFFER: usize = 256 << 10;

/// Carries bytes until both directions have ended, or it is cut.
pub(super) async fn carry(
    inside: UnixStream,
    outside: UnixStream,
    allowance: &Allowance,
    cancel: &CancellationToken,
) -> Closed {
    let (counts, since) = (Counts::default(), Instant::now());
    let gone = CancellationToken::new();
    let carried = async {
        let sending = async {
            let done = one_way(&inside, &outside, &counts.sent).await;
            if is_closed(&inside) {
                // A service that waits for something else is to hear of it as well.
                gone.cancel();
            }
            done
        };
        tokio::join!(sending, one_way(&outside, &inside, &counts.received))
    };
    let cut = tokio::select! {
        biased;
        () = allowance.cut.cancelled() => true,
        () = cancel.cancelled() => false,
        () = gone.cancelled() => false,
        _ = carried => false,
    };
    Closed::Ended {
        sent: counts.sent.into_inner(),
        received: counts.received.into_inner(),
        millis: u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX),
        cut,
    }
}

/// Whether the other end was closed, which is more than to say that it has nothing more to say.
fn is_closed(stream: &UnixStream) -> bool {
    let mut asked = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let hung_up = |asked: &PollFd<'_>| {
        asked
            .revents()
            .is_some_and(|seen| seen.contains(PollFlags::POLLHUP))
    };
    poll(&mut asked, PollTimeout::ZERO).is_ok() && asked.iter().any(hung_up)
}

/// Carries one direction to its end. A plain read takes bytes and leaves behind what is attached to them.
async fn one_way(from: &UnixStream, to: &UnixStream, count: &AtomicU64) -> io::Result<()> {
    let done = copy(from, to, count).await;
    // The other side may be gone already; then there is nobody to tell.
    let _ = shutdown(to.as_raw_fd(), Shutdown::Write);
    if done.is_err() {
        // Nothing can be said to it any more, so nothing more is heard.
        let _ = shutdown(from.as_raw_fd(), Shutdown::Read);
    }
    done
}

async fn copy(from: &UnixStream, to: &UnixStream, count: &AtomicU64) -> io::Result<()> {
    loop {
        from.readable().await?;
        let mut buffer = vec![0; BUFFER];
        let mut rest = match from.try_read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => buffer.get(..length).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{IoSlice, Read as _, Write as _};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn bytes_are_carried_and_descriptors_are_not() {
        let (client, inside) = std::os::unix::net::UnixStream::pair().unwrap();
        let (outside, mut server) = std::os::unix::net::UnixStream::pair().unwrap();
        let stream = |socket: std::os::unix::net::UnixStream| {
            socket.set_nonblocking(true).unwrap();
            UnixStream::from_std(socket).unwrap()
        };
        let allowance = Allowance {
            connection: crate::gateway::ConnectionId(1),
            private: None,
            cut: CancellationToken::new(),
        };
        let (inside, outside) = (stream(inside), stream(outside));
        let carried = tokio::spawn(async move {
            carry(inside, outside, &allowance, &CancellationToken::new()).await
        });
        let served = std::thread::spawn(move || {
            use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
            let file = std::fs::File::open("/").unwrap();
            let fds = [file.as_raw_fd()];
            let rights = [ControlMessage::ScmRights(&fds)];
            let bytes = [IoSlice::new(b"take this")];
            sendmsg::<()>(server.as_raw_fd(), &bytes, &rights, MsgFlags::empty(), None).unwrap();
            let mut got = Vec::new();
            server.read_to_end(&mut got).unwrap();
            server.write_all(b"!").unwrap();
            got
        });
        let client = stream(client);
        let mut got = [0; 64];
        let (length, fds) = loop {
            client.readable().await.unwrap();
            match client.try_io(tokio::io::Interest::READABLE, || {
                received(&client, &mut got)
            }) {
                Ok(received) => break received,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        };
        assert_eq!((&got[..length], fds), (&b"take this"[..], 0));
        let mut client = client;
        client.write_all(b"thanks").await.unwrap();
        client.shutdown().await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"!");
        assert_eq!(served.join().unwrap(), b"thanks");
        let Closed::Ended {
            sent,
            received,
            cut,
            ..
        } = carried.await.unwrap()
        else {
            panic!("not ended");
        };
        assert_eq!((sent, received, cut), (6, 10, false));
    }

    #[tokio::test]
    async fn a_service_that_only_waits_hears_that_its_caller_is_gone() {
        let pair = || UnixStream::pair().unwrap();
        let ((client, inside), (outside, mut server)) = (pair(), pair());
        let allowance = Allowance {
            connection: crate::gateway::ConnectionId(1),
            private: None,
            cut: CancellationToken::new(),
        };
        let carried = tokio::spawn(async move {
            carry(inside, outside, &allowance, &CancellationToken::new()).await
        });
        client.writable().await.unwrap();
        client.try_write(b"x").unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).await.unwrap();
        drop(client);
        // It never closes its own end first.
        let how = tokio::time::timeout(std::time::Duration::from_secs(20), carried).await;
        assert!(matches!(
            how.unwrap().unwrap(),
            Closed::Ended {
                sent: 1,
                cut: false,
                ..
            }
        ));
    }

    /// Bytes, and how many descriptors came with them.
    fn received(from: &UnixStream, into: &mut [u8]) -> io::Result<(usize, usize)> {
        use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
        let mut space = nix::cmsg_space!([std::os::fd::RawFd; 4]);
        let mut bytes = [std::io::IoSliceMut::new(into)];
        let message = recvmsg::<()>(
            from.as_raw_fd(),
            &mut bytes,
            Some(&mut space),
            MsgFlags::empty(),
        )?;
        let rights = message
            .cmsgs()?
            .filter(|one| matches!(one, ControlMessageOwned::ScmRights(_)));
        Ok((message.bytes, rights.count()))
    }
}
