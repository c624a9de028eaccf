//! The far side: servers on documentation addresses, a resolver, two proxies.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{RData, Record, RecordType};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

pub const ADDRESSES: &[&str] = &[
    "203.0.113.10/24",
    "203.0.113.20/24",
    "203.0.113.53/24",
    "10.9.8.7/24",
    "2001:db8::10/64",
];
pub const RESOLVER: &str = "203.0.113.53";
pub const SERVER: &str = "203.0.113.10";
pub const SERVER_V6: &str = "2001:db8::10";

pub const ECHO: u16 = 7000;
pub const SOURCE: u16 = 7001;
pub const SINK: u16 = 7002;
/// Takes a connection, reads a byte, and resets it.
pub const RESETTING: u16 = 7003;
/// Says whether the resolver was asked for a name.
pub const ASKED: u16 = 7010;
/// Nobody listens.
pub const CLOSED: u16 = 7004;
pub const HTTP_PROXY: &str = "203.0.113.20:3128";
pub const SOCKS_PROXY: &str = "203.0.113.20:1080";
pub const CREDENTIALS: (&str, &str) = ("us er", "p:w");

pub fn run() -> ExitCode {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let any = |port: u16| SocketAddr::new("::".parse().unwrap(), port);
        serve(any(ECHO), echo).await;
        serve(any(SOURCE), source).await;
        serve(any(SINK), sink).await;
        serve(any(RESETTING), resetting).await;
        serve(any(ASKED), asked).await;
        serve(HTTP_PROXY.parse().unwrap(), http_proxy).await;
        serve(SOCKS_PROXY.parse().unwrap(), socks_proxy).await;
        for address in [SERVER, SERVER_V6] {
            let socket = UdpSocket::bind((address, ECHO)).await.unwrap();
            tokio::spawn(datagram_echo(socket));
        }
        let socket = UdpSocket::bind((RESOLVER, 53)).await.unwrap();
        tokio::spawn(resolver(socket));
        println!("ready");
        std::future::pending::<()>().await;
    });
    ExitCode::SUCCESS
}

async fn serve<F: Future<Output = std::io::Result<()>> + Send + 'static>(
    address: SocketAddr,
    each: impl Fn(TcpStream) -> F + Send + 'static,
) {
    let socket = if address.is_ipv4() {
        tokio::net::TcpSocket::new_v4().unwrap()
    } else {
        tokio::net::TcpSocket::new_v6().unwrap()
    };
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    let listener: TcpListener = socket.listen(4096).unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = stream.set_nodelay(true);
            tokio::spawn(each(stream));
        }
    });
}

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let (mut read, mut write) = stream.split();
    tokio::io::copy(&mut read, &mut write).await?;
    write.shutdown().await
}

/// Reads a length, sends so many bytes of the pattern.
async fn source(mut stream: TcpStream) -> std::io::Result<()> {
    let length = stream.read_u64().await?;
    let mut pattern = Pattern::default();
    let mut sent = 0;
    while sent < length {
        let piece = pattern.piece(length - sent);
        stream.write_all(piece).await?;
        sent += piece.len() as u64;
    }
    stream.shutdown().await
}

/// Reads to the end, then answers with the length and whether it was the pattern.
async fn sink(mut stream: TcpStream) -> std::io::Result<()> {
    let (length, good) = check(&mut stream).await?;
    stream.write_u64(length).await?;
    stream.write_u8(u8::from(good)).await?;
    stream.shutdown().await
}

async fn resetting(mut stream: TcpStream) -> std::io::Result<()> {
    stream.read_u8().await?;
    let linger = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger)?;
    Ok(())
}

/// Reads the pattern to the end: how long it was, and whether it was right.
pub async fn check(stream: &mut TcpStream) -> std::io::Result<(u64, bool)> {
    let mut buffer = vec![0; 256 << 10];
    let mut pattern = Pattern::default();
    let (mut length, mut good) = (0, true);
    loop {
        let got = stream.read(&mut buffer).await?;
        if got == 0 {
            return Ok((length, good));
        }
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            let piece = pattern.piece(rest.len() as u64);
            good &= rest[..piece.len()] == *piece;
            rest = &rest[piece.len()..];
        }
        length += got as u64;
    }
}

/// An endless sequence of bytes whose period is no round number, so that a lost, doubled or moved
/// piece shows.
pub struct Pattern {
    bytes: Vec<u8>,
    at: usize,
}

impl Default for Pattern {
    fn default() -> Self {
        let mut state = 1_u32;
        let next = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (*state >> 24) as u8
        };
        Self {
            bytes: (0..1_000_003).map(|_| next(&mut state)).collect(),
            at: 0,
        }
    }
}

impl Pattern {
    /// The next bytes, at most so many.
    pub fn piece(&mut self, at_most: u64) -> &[u8] {
        let end = self
            .bytes
            .len()
            .min(self.at + usize::try_from(at_most).unwrap_or(usize::MAX));
        let start = self.at;
        self.at = end % self.bytes.len();
        &self.bytes[start..end]
    }
}

async fn datagram_echo(socket: UdpSocket) {
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let _ = socket.send_to(&buffer[..length], from).await;
    }
}

static RESOLVED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

async fn asked(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut name = String::new();
    stream.read_line(&mut name).await?;
    let known = RESOLVED.lock().unwrap().contains(name.trim());
    stream.write_u8(u8::from(known)).await
}

fn addresses_of(name: &str) -> &'static [&'static str] {
    match name {
        "server.example." | "unlisted.example." | "secret.example." => &[SERVER],
        "six.example." => &[SERVER_V6],
        "private.example." => &["10.9.8.7"],
        "loopback.example." => &["127.0.0.1"],
        "metadata.example." => &["169.254.169.254"],
        // The near side's own address.
        "own.example." => &["192.0.2.2"],
        "mixed.example." => &["127.0.0.1", SERVER],
        _ => &[],
    }
}

async fn resolver(socket: UdpSocket) {
    let mut buffer = vec![0; 4096];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let query = Message::from_vec(&buffer[..length]).unwrap();
        let question = query.queries[0].clone();
        let mut reply = Message::response(query.id, query.op_code);
        reply.metadata.recursion_desired = true;
        reply.metadata.recursion_available = true;
        let name = question.name.to_lowercase().to_ascii();
        RESOLVED.lock().unwrap().insert(name.clone());
        let known = addresses_of(&name);
        if known.is_empty() {
            reply.metadata.response_code = ResponseCode::NXDomain;
        }
        for address in known {
            let data = match (address.parse().unwrap(), question.query_type) {
                (IpAddr::V4(address), RecordType::A) => RData::A(A(address)),
                (IpAddr::V6(address), RecordType::AAAA) => RData::AAAA(AAAA(address)),
                _ => continue,
            };
            reply.add_answer(Record::from_rdata(question.name.clone(), 0, data));
        }
        reply.add_query(question);
        let _ = socket.send_to(&reply.to_vec().unwrap(), from).await;
    }
}

/// What a proxy makes of a target: names under `.inner.example` exist only for proxies.
fn proxied(target: &str) -> Option<SocketAddr> {
    let (host, port) = target.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let address = match host {
        "server.inner.example" => SERVER.parse().ok()?,
        "closed.inner.example" => return Some(SocketAddr::new(SERVER.parse().ok()?, CLOSED)),
        other => other.parse().ok()?,
    };
    Some(SocketAddr::new(address, port))
}

async fn http_proxy(stream: TcpStream) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut credentials = None;
    loop {
        let mut header = String::new();
        stream.read_line(&mut header).await?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("Proxy-Authorization: Basic ") {
            credentials = Some(value.trim().to_owned());
        }
    }
    // "us er:p:w"
    if credentials.as_deref() != Some("dXMgZXI6cDp3") {
        return stream.write_all(b"HTTP/1.1 407 Who are you\r\n\r\n").await;
    }
    match proxied(&target) {
        Some(address) => match TcpStream::connect(address).await {
            Ok(mut outside) => {
                // The answer and the first bytes of the other side in one piece.
                stream
                    .write_all(b"HTTP/1.1 200 Yes\r\nX: y\r\n\r\nearly")
                    .await?;
                tokio::io::copy_bidirectional(&mut stream, &mut outside)
                    .await
                    .map(drop)
            }
            Err(_) => stream.write_all(b"HTTP/1.1 502 Closed there\r\n\r\n").await,
        },
        None => {
            stream
                .write_all(b"HTTP/1.1 403 Not \x1b[31mhere\r\n\r\n")
                .await
        }
    }
}

async fn socks_proxy(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    let mut methods = vec![0; usize::from(head[1])];
    stream.read_exact(&mut methods).await?;
    assert!(methods.contains(&2));
    stream.write_all(&[5, 2]).await?;
    let mut head = [0; 2];
    stream.read_exact(&mut head).await?;
    let mut user = vec![0; usize::from(head[1])];
    stream.read_exact(&mut user).await?;
    let mut password = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut password).await?;
    let good = (user, password) == (CREDENTIALS.0.into(), CREDENTIALS.1.into());
    stream.write_all(&[1, u8::from(!good)]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let host = match head[3] {
        3 => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            String::from_utf8(name).unwrap()
        }
        1 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            IpAddr::from(octets).to_string()
        }
        _ => return Ok(()),
    };
    let port = stream.read_u16().await?;
    let reply = |code: u8| [5, code, 0, 1, 0, 0, 0, 0, 0, 0];
    let Some(address) = proxied(&format!("{host}:{port}")) else {
        return stream.write_all(&reply(4)).await;
    };
    match TcpStream::connect(address).await {
        Ok(mut outside) => {
            stream.write_all(&reply(0)).await?;
            tokio::io::copy_bidirectional(&mut stream, &mut outside)
                .await
                .map(drop)
        }
        Err(_) => stream.write_all(&reply(5)).await,
    }
}
