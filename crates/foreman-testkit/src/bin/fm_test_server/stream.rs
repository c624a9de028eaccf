//! Listeners and sockets: accept, record, serve.

use crate::names::Names;
use crate::record::Recorder;
use crate::web;
use anyhow::Result;
use foreman_testkit::SeenKind;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen as listen_on,
    setsockopt, socket, sockopt,
};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio_rustls::TlsAcceptor;

/// What a stream port does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Answers DNS queries, length-prefixed.
    Names,
    /// Answers HTTP.
    Web,
    /// Answers HTTP within TLS.
    SecureWeb,
    /// Gives everything back.
    Echo,
    /// Reads everything; answers with the count when the other side is done.
    Sink,
    /// Reads a line with a number and sends that many bytes.
    Source,
    /// Takes CONNECT and passes on to the main host, whatever the name.
    Proxy,
    /// Says what a secure shell server says first, then echoes.
    SecureShellBanner,
}

/// What every service needs.
pub struct Shared {
    pub secure: TlsAcceptor,
    pub site: PathBuf,
    pub names: Names,
    pub recorder: Arc<Recorder>,
}

fn raw(address: SocketAddr, kind: SockType) -> std::io::Result<OwnedFd> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(family, kind, flags, None)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
    }
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(fd)
}

pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let fd = raw(address, SockType::Stream)?;
    listen_on(&fd, Backlog::MAXCONN)?;
    TcpListener::from_std(std::net::TcpListener::from(fd))
}

pub fn bind_datagrams(address: SocketAddr) -> std::io::Result<OwnedFd> {
    let fd = raw(address, SockType::Datagram)?;
    if address.is_ipv4() {
        setsockopt(&fd, sockopt::Ipv4PacketInfo, &true)?;
    } else {
        setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true)?;
    }
    Ok(fd)
}

pub async fn accept_all(listener: TcpListener, service: Service, shared: Arc<Shared>) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                eprintln!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            let Ok(local) = stream.local_addr() else {
                return;
            };
            let _ = stream.set_nodelay(true);
            shared
                .recorder
                .note(SeenKind::Accepted, local, peer, 0, b"");
            let mut first = vec![0_u8; 300];
            let head = peek(&stream, &mut first, service).await;
            let count = if crate::is_secure(service) {
                match shared.secure.accept(stream).await {
                    Ok(mut stream) => {
                        let asked = shared.site.with_file_name("asked.jsonl");
                        web::serve(&mut stream, &shared.site, Some(&asked)).await
                    }
                    Err(_) => Ok(0),
                }
            } else {
                serve(stream, service, local, peer, &shared).await
            };
            let count = count.unwrap_or(0).max(head.len() as u64);
            shared
                .recorder
                .note(SeenKind::Closed, local, peer, count, &head);
        });
    }
}

/// The first bytes as they came over the wire. A service that speaks first does not wait for them.
async fn peek(stream: &tokio::net::TcpStream, into: &mut [u8], service: Service) -> Vec<u8> {
    if service == Service::SecureShellBanner {
        return Vec::new();
    }
    match stream.peek(into).await {
        Ok(count) => into[..count].to_vec(),
        Err(_) => Vec::new(),
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    service: Service,
    local: SocketAddr,
    peer: SocketAddr,
    shared: &Shared,
) -> Result<u64> {
    match service {
        Service::Names => names(&mut stream, local, peer, shared).await,
        Service::Web | Service::SecureWeb => web::serve(&mut stream, &shared.site, None).await,
        Service::Echo => echo(&mut stream).await,
        Service::SecureShellBanner => {
            stream.write_all(b"SSH-2.0-test\r\n").await?;
            echo(&mut stream).await
        }
        Service::Proxy => proxy(&mut stream).await,
        Service::Sink => {
            let count = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
            stream.write_all(format!("{count}\n").as_bytes()).await?;
            stream.shutdown().await?;
            Ok(count)
        }
        Service::Source => {
            let mut line = Vec::new();
            while !line.ends_with(b"\n") && line.len() < 32 {
                line.push(stream.read_u8().await?);
            }
            let mut left: usize = String::from_utf8_lossy(&line).trim().parse()?;
            let block = vec![0x5a_u8; 256 * 1024];
            while left > 0 {
                let now = left.min(block.len());
                stream.write_all(&block[..now]).await?;
                left -= now;
            }
            stream.shutdown().await?;
            Ok(line.len() as u64)
        }
    }
}

async fn echo<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<u64> {
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut count = 0;
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            stream.shutdown().await?;
            return Ok(count);
        }
        count += read as u64;
        stream.write_all(&buffer[..read]).await?;
    }
}

async fn proxy<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S) -> Result<u64> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        head.push(stream.read_u8().await?);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let port = text
        .split_whitespace()
        .nth(1)
        .and_then(|to| to.rsplit(':').next()?.parse().ok());
    let Some(port) = port.filter(|_| text.starts_with("CONNECT ")) else {
        stream
            .write_all(b"HTTP/1.1 405 Only CONNECT\r\n\r\n")
            .await?;
        return Ok(head.len() as u64);
    };
    let port: u16 = port;
    match tokio::net::TcpStream::connect((foreman_testkit::MAIN_V4, port)).await {
        Ok(mut upstream) => {
            stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
            let (up, _) = tokio::io::copy_bidirectional(stream, &mut upstream).await?;
            Ok(head.len() as u64 + up)
        }
        Err(_) => {
            stream
                .write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
                .await?;
            Ok(head.len() as u64)
        }
    }
}

async fn names<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    local: SocketAddr,
    peer: SocketAddr,
    shared: &Shared,
) -> Result<u64> {
    let mut count = 0;
    loop {
        let Ok(length) = stream.read_u16().await else {
            return Ok(count);
        };
        let mut query = vec![0_u8; usize::from(length)];
        stream.read_exact(&mut query).await?;
        count += u64::from(length) + 2;
        let Some(answer) = shared.names.answer(&query) else {
            return Ok(count);
        };
        shared
            .recorder
            .query(local, peer, &answer.name, &answer.record);
        if let Some(bytes) = answer.bytes {
            stream.write_u16(u16::try_from(bytes.len())?).await?;
            stream.write_all(&bytes).await?;
        }
    }
}

/// Answers datagrams from the very address that each was sent to.
pub async fn answer_datagrams(fd: OwnedFd, port: u16, shared: Arc<Shared>) {
    use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
    use std::io::{IoSlice, IoSliceMut};
    let Ok(socket) = UdpSocket::from_std(std::net::UdpSocket::from(fd)) else {
        return;
    };
    let Ok(own) = socket.local_addr() else { return };
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        let mut buffer = vec![0_u8; 65_536];
        let mut space = nix::cmsg_space!(nix::libc::in6_pktinfo);
        let received = socket.try_io(tokio::io::Interest::READABLE, || {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let message = recvmsg::<SockaddrStorage>(
                socket.as_raw_fd(),
                &mut parts,
                Some(&mut space),
                MsgFlags::MSG_DONTWAIT,
            )?;
            let mut at = own.ip();
            for part in message.cmsgs()? {
                match part {
                    ControlMessageOwned::Ipv4PacketInfo(info) => {
                        at = std::net::Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into();
                    }
                    ControlMessageOwned::Ipv6PacketInfo(info) => {
                        at = std::net::Ipv6Addr::from(info.ipi6_addr.s6_addr).into();
                    }
                    _ => {}
                }
            }
            Ok((message.bytes, message.address, at))
        });
        let Ok((count, Some(from), at)) = received else {
            continue;
        };
        let Some(peer) = plain(&from) else { continue };
        let local = SocketAddr::new(at, port);
        let content = &buffer[..count];
        let reply = if port == 53 {
            let Some(answer) = shared.names.answer(content) else {
                continue;
            };
            shared
                .recorder
                .query(local, peer, &answer.name, &answer.record);
            answer.bytes
        } else {
            shared
                .recorder
                .note(SeenKind::Datagram, local, peer, count as u64, content);
            Some(content.to_vec())
        };
        let Some(reply) = reply else { continue };
        let parts = [IoSlice::new(&reply)];
        let sent = match at {
            std::net::IpAddr::V4(address) => {
                let info = nix::libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: nix::libc::in_addr {
                        s_addr: u32::from(address).to_be(),
                    },
                    ipi_addr: nix::libc::in_addr { s_addr: 0 },
                };
                let control = [ControlMessage::Ipv4PacketInfo(&info)];
                sendmsg(
                    socket.as_raw_fd(),
                    &parts,
                    &control,
                    MsgFlags::empty(),
                    Some(&from),
                )
            }
            std::net::IpAddr::V6(address) => {
                let info = nix::libc::in6_pktinfo {
                    ipi6_addr: nix::libc::in6_addr {
                        s6_addr: address.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                let control = [ControlMessage::Ipv6PacketInfo(&info)];
                sendmsg(
                    socket.as_raw_fd(),
                    &parts,
                    &control,
                    MsgFlags::empty(),
                    Some(&from),
                )
            }
        };
        if let Err(error) = sent {
            eprintln!("answer {peer}: {error}");
        }
    }
}

fn plain(address: &SockaddrStorage) -> Option<SocketAddr> {
    address
        .as_sockaddr_in()
        .map(|v4| SocketAddr::new(v4.ip().into(), v4.port()))
        .or_else(|| {
            address
                .as_sockaddr_in6()
                .map(|v6| SocketAddr::new(v6.ip().into(), v6.port()))
        })
}
