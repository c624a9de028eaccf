//! Connections from the supervisor into a cage: to a port of its own loopback.
//!
//! The socket is made by process 1, so that it belongs to the cage's network, and connected here. Nothing in
//! the cage can ask for one, and bytes flow only on connections that the supervisor made.

use crate::Cage;
use crate::gateway::{Counts, Pipes, listening_ports, relay};
use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, connect};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Longest wait for a program of the cage to take a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a connection carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Carried {
    /// Bytes from the cage.
    pub sent: u64,
    /// Bytes to the cage.
    pub received: u64,
}

impl Cage {
    /// Connects to a port of the cage's own loopback, of whichever family answers.
    ///
    /// # Errors
    /// `ConnectionRefused` when nothing listens there; that the cage is gone, or does not answer.
    pub async fn reach(&self, port: u16) -> io::Result<TcpStream> {
        let reaching = async {
            let [four, six] = self.sockets().await?;
            match connected(four, (Ipv4Addr::LOCALHOST, port).into()).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    connected(six, (Ipv6Addr::LOCALHOST, port).into()).await
                }
                connected => connected,
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reaching).await;
        reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Whether anything listens on a port of the cage's own loopback.
    ///
    /// # Errors
    /// When that cannot be seen.
    pub fn listens(&self, port: u16) -> io::Result<bool> {
        Ok(listening_ports(self.init_pid())?.contains(&port))
    }
}

/// Carries bytes between the cage and somebody outside until both have ended, or `cut` fires.
pub async fn carry(inside: TcpStream, outside: TcpStream, cut: &CancellationToken) -> Carried {
    let counts = Counts::default();
    relay(inside, outside, &[], &counts, &Pipes::default(), cut).await;
    Carried {
        sent: counts.sent.load(Ordering::Relaxed),
        received: counts.received.load(Ordering::Relaxed),
    }
}

async fn connected(socket: OwnedFd, address: SocketAddr) -> io::Result<TcpStream> {
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) | Err(Errno::EINPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from_std(socket.into())?;
    stream.writable().await?;
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    // Both ends of a relay are paced by the outer ones.
    stream.set_nodelay(true)?;
    Ok(stream)
}
