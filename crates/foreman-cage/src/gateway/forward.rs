//! A name that only the cage knows: what connects to it is carried to one other host, by somebody who speaks
//! for the cage there.
//!
//! Such a connection is judged, dialled, cut, counted and told as one to that host. Only what is done with the
//! bytes is not ours: both connections are handed to a [`Carrier`]. Nothing listens anywhere for it: the inner
//! connection is one of the cage's network, as all others are.

use super::relay::Counts;
use foreman_domain::{Host, Protocol};
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a name inside stands for.
#[derive(Debug, Clone)]
pub struct Forward {
    /// The name, canonical.
    pub name: String,
    /// The only port of it.
    pub port: u16,
    /// Whom connections to it are carried to.
    pub host: Host,
    /// Where there.
    pub host_port: u16,
    /// Who carries them.
    pub carrier: Arc<dyn Carrier>,
}

/// How a carrying ended: `Err` with a sentence where nothing could be carried at all.
pub type Carried<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Speaks with the cage on one side, and for it on the other.
pub trait Carrier: Debug + Send + Sync {
    /// Carries one connection of the cage, until both sides are done. Dropped when it is cut.
    fn carry(&self, inside: TcpStream, outside: Outer) -> Carried<'_>;
}

impl Forward {
    /// Whether a destination is the name; `Some` with what is refused about it, as a sentence.
    pub(super) fn refuses(&self, protocol: Protocol, host: &Host, port: u16) -> Option<String> {
        let fits = protocol == Protocol::Tcp && port == self.port;
        (self.is_meant_by(host) && !fits).then(|| {
            format!(
                "{} is there for HTTP on port {} only, and leads to {}",
                self.name, self.port, self.host
            )
        })
    }

    /// Whether a host is the name.
    pub(super) fn is_meant_by(&self, host: &Host) -> bool {
        matches!(host, Host::Name(name) if *name == self.name)
    }
}

/// The connection to the other side; counts what goes over it.
#[derive(Debug)]
pub struct Outer {
    stream: TcpStream,
    /// What the other side said before it was asked anything.
    early: Vec<u8>,
    counts: Arc<Counts>,
}

impl Outer {
    /// One that nobody asks for its counts: for tests of carriers.
    #[must_use]
    pub fn uncounted(stream: TcpStream) -> Self {
        Self::new(stream, Vec::new(), Arc::default())
    }

    pub(super) fn new(stream: TcpStream, early: Vec<u8>, counts: Arc<Counts>) -> Self {
        Self {
            stream,
            early,
            counts,
        }
    }
}

impl AsyncRead for Outer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        if self.early.is_empty() {
            std::task::ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        } else {
            let length = self.early.len().min(into.remaining());
            let rest = self.early.split_off(length);
            into.put_slice(&self.early);
            self.early = rest;
        }
        let length = into.filled().len().saturating_sub(before);
        let received = &self.counts.received;
        received.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Outer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let length = std::task::ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.counts.sent.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Ok(length))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[derive(Debug)]
    struct Nobody;

    impl Carrier for Nobody {
        fn carry(&self, _: TcpStream, _: Outer) -> Carried<'_> {
            Box::pin(async { Ok(()) })
        }
    }

    #[test]
    fn only_one_port_of_the_name_leads_anywhere() {
        let forward = Forward {
            name: "key".into(),
            port: 80,
            host: Host::Name("model.example".into()),
            host_port: 443,
            carrier: Arc::new(Nobody),
        };
        let key = Host::Name("key".into());
        assert_eq!(forward.refuses(Protocol::Tcp, &key, 80), None);
        for (protocol, port) in [(Protocol::Tcp, 443), (Protocol::Udp, 80)] {
            let why = forward.refuses(protocol, &key, port).unwrap();
            assert!(why.contains("model.example"), "{why}");
        }
        let other = Host::Name("keys".into());
        assert_eq!(forward.refuses(Protocol::Tcp, &other, 443), None);
        assert!(!forward.is_meant_by(&other));
    }

    #[tokio::test]
    async fn what_came_early_comes_first_and_all_of_it_is_counted() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (dialled, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut other, counts) = (accepted.unwrap().0, Arc::new(Counts::default()));
        let mut outer = Outer::new(dialled.unwrap(), b"early".to_vec(), counts.clone());
        other.write_all(b" late").await.unwrap();
        let mut got = [0; 10];
        outer.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"early late");
        outer.write_all(b"abc").await.unwrap();
        assert_eq!(counts.received.load(Ordering::Relaxed), 10);
        assert_eq!(counts.sent.load(Ordering::Relaxed), 3);
    }
}
