//! Ways to send something out that a library would not use.

use crate::{Saw, answer, failed, last_error, number, result};
use anyhow::Context;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

pub fn attack(name: &str, words: &[&str]) -> Option<Saw> {
    Some(match name {
        "tcp" => tcp(words),
        "resolve" => resolve(words),
        "udp" => udp(words),
        "udp-to" => udp_to(words),
        "sendmmsg" => sendmmsg(words),
        "reconnect-udp" => reconnect_udp(words),
        "dns" => dns(words),
        "fast-open" => fast_open(words),
        "mptcp" => mptcp(words),
        "families" => Ok(families()),
        "ping" => ping(words),
        "absurd" => absurd(words),
        "marks" => Ok(marks()),
        "raw-send" => raw_send(words),
        "many" => many(words),
        "relay" => relay(words),
        "keep-open" => keep_open(words),
        _ => return None,
    })
}

fn timeout(words: &[&str], index: usize) -> Duration {
    Duration::from_secs(number(words, index, 60))
}

/// `tcp HOST PORT [TEXT] [SECONDS]`: connects, sends, reads what comes back.
fn tcp(words: &[&str]) -> Saw {
    let begin = Instant::now();
    let host = *words.first().context("a host")?;
    let text = words.get(2).copied().unwrap_or("");
    let targets: Vec<SocketAddr> = match (host, number(words, 1, 443_u16)).to_socket_addrs() {
        Ok(targets) => targets.collect(),
        Err(error) => {
            return Ok(json!({"ok": false, "errno": "resolve", "detail": error.to_string()}));
        }
    };
    let mut saw = json!({"ok": false, "errno": "no address"});
    for target in targets {
        saw = match TcpStream::connect_timeout(&target, timeout(words, 3)) {
            Ok(mut stream) => talk(&mut stream, text),
            Err(error) => failed(&error),
        };
        saw["target"] = json!(target.to_string());
        if saw["ok"] == true {
            break;
        }
    }
    saw["millis"] = json!(begin.elapsed().as_millis());
    Ok(saw)
}

fn talk(stream: &mut TcpStream, text: &str) -> Value {
    let mut heard = Vec::new();
    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let said = stream
        .write_all(text.replace("\\r", "\r").replace("\\n", "\n").as_bytes())
        .and_then(|()| stream.shutdown(std::net::Shutdown::Write))
        .and_then(|()| stream.take(4096).read_to_end(&mut heard));
    let mut saw = result(said);
    saw["ok"] = json!(true);
    saw["heard"] = json!(String::from_utf8_lossy(&heard));
    saw
}

/// `resolve NAME`: what the C library says.
fn resolve(words: &[&str]) -> Saw {
    Ok(
        match (*words.first().context("a name")?, 1).to_socket_addrs() {
            Ok(all) => {
                let all: Vec<String> = all.map(|address| address.ip().to_string()).collect();
                json!({"ok": true, "addresses": all})
            }
            Err(error) => json!({"ok": false, "detail": error.to_string()}),
        },
    )
}

fn unspecified(like: &SocketAddr) -> SocketAddr {
    if like.is_ipv4() {
        SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)
    } else {
        SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), 0)
    }
}

fn target(words: &[&str], index: usize) -> anyhow::Result<SocketAddr> {
    let text = *words.get(index).context("an address:port")?;
    text.to_socket_addrs()?.next().context("an address")
}

/// `udp ADDRESS:PORT TEXT [SECONDS]`: a connected datagram socket; sends until something comes back.
fn udp(words: &[&str]) -> Saw {
    let to = target(words, 0)?;
    let text = words.get(1).copied().unwrap_or("x");
    let begin = Instant::now();
    let limit = timeout(words, 2);
    let socket = UdpSocket::bind(unspecified(&to))?;
    if let Err(error) = socket.connect(to) {
        return Ok(failed(&error));
    }
    if let Err(error) = socket.send(text.as_bytes()) {
        return Ok(failed(&error));
    }
    socket.set_read_timeout(Some(limit))?;
    let mut heard = [0_u8; 2048];
    let mut saw = match socket.recv(&mut heard) {
        Ok(count) => json!({"ok": true, "heard": String::from_utf8_lossy(&heard[..count])}),
        Err(error) => failed(&error),
    };
    saw["millis"] = json!(begin.elapsed().as_millis());
    Ok(saw)
}

/// `udp-to TEXT ADDRESS:PORT…`: one unconnected socket, a destination a message (sendto).
fn udp_to(words: &[&str]) -> Saw {
    let text = *words.first().context("a text")?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut sent = Vec::new();
    for index in 1..words.len() {
        sent.push(result(
            socket.send_to(text.as_bytes(), target(words, index)?),
        ));
    }
    Ok(json!({"ok": true, "sent": sent, "heard": listen(&socket)}))
}

fn listen(socket: &UdpSocket) -> Vec<String> {
    let _ = socket.set_read_timeout(Some(Duration::from_millis(1500)));
    let mut heard = Vec::new();
    let mut buffer = [0_u8; 2048];
    while let Ok((_, from)) = socket.recv_from(&mut buffer) {
        heard.push(from.to_string());
    }
    heard
}

/// `sendmmsg TEXT ADDRESS:PORT…`: the same by one sendmmsg call, and by one sendmsg call each.
fn sendmmsg(words: &[&str]) -> Saw {
    use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg, sendmsg};
    use std::io::IoSlice;
    use std::os::fd::AsRawFd;
    let text = words.first().context("a text")?.as_bytes().to_vec();
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut targets = Vec::new();
    for index in 1..words.len() {
        let SocketAddr::V4(to) = target(words, index)? else {
            continue;
        };
        targets.push(SockaddrIn::from(to));
    }
    let parts = [IoSlice::new(&text)];
    let slices = vec![&parts[..]; targets.len()];
    let names: Vec<Option<SockaddrIn>> = targets.iter().copied().map(Some).collect();
    let mut headers = MultiHeaders::preallocate(targets.len(), None);
    let many = sendmmsg(
        socket.as_raw_fd(),
        &mut headers,
        &slices,
        &names,
        [],
        MsgFlags::empty(),
    )
    .map(Iterator::count)
    .map_err(std::io::Error::from);
    let mut single = Vec::new();
    for name in &targets {
        let sent = sendmsg(
            socket.as_raw_fd(),
            &parts,
            &[],
            MsgFlags::empty(),
            Some(name),
        );
        single.push(result(sent.map_err(std::io::Error::from)));
    }
    Ok(json!({"ok": true, "sendmmsg": result(many), "sendmsg": single, "heard": listen(&socket)}))
}

/// `reconnect-udp FIRST SECOND TEXT`: connects to one, disconnects (AF_UNSPEC), sends to the other.
fn reconnect_udp(words: &[&str]) -> Saw {
    use std::os::fd::AsRawFd;
    let (first, second) = (target(words, 0)?, target(words, 1)?);
    let text = words.get(2).copied().unwrap_or("x");
    let socket = UdpSocket::bind(unspecified(&first))?;
    let connected = result(socket.connect(first).and_then(|()| socket.send(b"first")));
    let nowhere = libc::sockaddr {
        sa_family: libc::AF_UNSPEC as u16,
        sa_data: [0; 14],
    };
    // SAFETY: `nowhere` is a whole sockaddr that lives over the call, and the size is its own.
    let apart = unsafe { libc::connect(socket.as_raw_fd(), &raw const nowhere, 16) };
    let sent = result(socket.send_to(text.as_bytes(), second));
    Ok(
        json!({"ok": true, "first": connected, "apart": answer(i64::from(apart)), "second": sent,
        "heard": listen(&socket)}),
    )
}

/// `dns ADDRESS:PORT NAME TYPE udp|tcp`: a query by hand; gives the answers' data as text.
fn dns(words: &[&str]) -> Saw {
    use hickory_proto::op::{Message, MessageType, OpCode, Query};
    use hickory_proto::rr::{Name, RecordType};
    let to = target(words, 0)?;
    let name = Name::from_ascii(words.get(1).context("a name")?)?;
    let record: RecordType = words.get(2).copied().unwrap_or("A").parse()?;
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(name, record));
    let query = message.to_vec()?;
    let reply = if words.get(3) == Some(&"tcp") {
        ask_tcp(to, &query)
    } else {
        ask_udp(to, &query)
    };
    Ok(match reply {
        Ok(bytes) => {
            let reply = Message::from_vec(&bytes)?;
            let data: Vec<String> = reply
                .answers
                .iter()
                .map(|record| record.data.to_string())
                .collect();
            json!({"ok": true, "code": reply.metadata.response_code.to_string(), "answers": data})
        }
        Err(error) => failed(&error),
    })
}

fn ask_udp(to: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let socket = UdpSocket::bind(unspecified(&to))?;
    socket.set_read_timeout(Some(Duration::from_secs(3)))?;
    socket.connect(to)?;
    socket.send(query)?;
    let mut buffer = vec![0_u8; 4096];
    let count = socket.recv(&mut buffer)?;
    buffer.truncate(count);
    Ok(buffer)
}

fn ask_tcp(to: SocketAddr, query: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(3))?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    let length = u16::try_from(query.len()).unwrap_or(0).to_be_bytes();
    stream.write_all(&[&length[..], query].concat())?;
    let mut length = [0_u8; 2];
    stream.read_exact(&mut length)?;
    let mut reply = vec![0_u8; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut reply)?;
    Ok(reply)
}

fn v4(address: SocketAddr) -> libc::sockaddr_in {
    let ip = match address.ip() {
        IpAddr::V4(ip) => u32::from(ip),
        IpAddr::V6(_) => 0,
    };
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: ip.to_be() },
        sin_zero: [0; 8],
    }
}

fn open(family: i32, kind: i32, protocol: i32) -> std::io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: socket takes three integers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: the descriptor was just made and has no other owner.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}

/// `fast-open ADDRESS:PORT TEXT`: data with the very first segment, without connect().
fn fast_open(words: &[&str]) -> Saw {
    use std::os::fd::AsRawFd;
    let to = v4(target(words, 0)?);
    let text = words.get(1).copied().unwrap_or("x").as_bytes();
    let socket = open(libc::AF_INET, libc::SOCK_STREAM, 0)?;
    // SAFETY: the buffer and the address live over the call, with their own sizes.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            text.as_ptr().cast(),
            text.len(),
            libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL,
            (&raw const to).cast(),
            size_of_val(&to) as u32,
        )
    };
    let mut saw = answer(sent as i64);
    if sent >= 0 {
        let mut stream = TcpStream::from(socket);
        saw = talk(&mut stream, "");
    }
    Ok(saw)
}

/// `mptcp ADDRESS:PORT TEXT`: the same by multipath TCP.
fn mptcp(words: &[&str]) -> Saw {
    use std::os::fd::AsRawFd;
    let to = v4(target(words, 0)?);
    let socket = match open(libc::AF_INET, libc::SOCK_STREAM, 262) {
        Ok(socket) => socket,
        Err(error) => return Ok(failed(&error)),
    };
    // SAFETY: the address lives over the call, with its own size.
    let done = unsafe {
        libc::connect(
            socket.as_raw_fd(),
            (&raw const to).cast(),
            size_of_val(&to) as u32,
        )
    };
    let mut saw = answer(i64::from(done));
    if done == 0 {
        let mut stream = TcpStream::from(socket);
        saw = talk(&mut stream, words.get(1).copied().unwrap_or(""));
    }
    Ok(saw)
}

/// `families`: which kinds of sockets can be had at all.
fn families() -> Value {
    let wanted: [(&str, i32, i32, i32); 16] = [
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, 0x0300),
        ("packet_dgram", libc::AF_PACKET, libc::SOCK_DGRAM, 0x0300),
        ("vsock", libc::AF_VSOCK, libc::SOCK_STREAM, 0),
        ("bluetooth", libc::AF_BLUETOOTH, libc::SOCK_RAW, 1),
        ("alg", libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
        ("can", libc::AF_CAN, libc::SOCK_RAW, 1),
        ("tipc", libc::AF_TIPC, libc::SOCK_STREAM, 0),
        ("xdp", 44, libc::SOCK_RAW, 0),
        ("rds", 21, libc::SOCK_SEQPACKET, 0),
        ("smc", 43, libc::SOCK_STREAM, 0),
        ("key", 15, libc::SOCK_RAW, 2),
        ("raw_icmp", libc::AF_INET, libc::SOCK_RAW, 1),
        ("raw_tcp", libc::AF_INET, libc::SOCK_RAW, 255),
        ("netfilter", libc::AF_NETLINK, libc::SOCK_RAW, 12),
        ("audit", libc::AF_NETLINK, libc::SOCK_RAW, 9),
        ("uevent", libc::AF_NETLINK, libc::SOCK_RAW, 15),
    ];
    let mut saw = json!({"ok": true});
    for (name, family, kind, protocol) in wanted {
        saw[name] = result(open(family, kind, protocol));
    }
    for (name, family, kind, protocol) in [
        ("inet_stream", libc::AF_INET, libc::SOCK_STREAM, 0),
        ("inet_dgram", libc::AF_INET, libc::SOCK_DGRAM, 0),
        ("unix", libc::AF_UNIX, libc::SOCK_STREAM, 0),
        ("route", libc::AF_NETLINK, libc::SOCK_RAW, 0),
        ("sctp", libc::AF_INET, libc::SOCK_STREAM, 132),
        ("dccp", libc::AF_INET, 6, 33),
        ("udplite", libc::AF_INET, libc::SOCK_DGRAM, 136),
    ] {
        saw[name] = result(open(family, kind, protocol));
    }
    saw
}

/// `ping ADDRESS`: ICMP echo by a raw socket and by a ping socket.
fn ping(words: &[&str]) -> Saw {
    use std::os::fd::AsRawFd;
    let to = v4(SocketAddr::new(
        words.first().context("an address")?.parse()?,
        0,
    ));
    let mut saw = json!({"ok": true});
    for (name, kind) in [("raw", libc::SOCK_RAW), ("dgram", libc::SOCK_DGRAM)] {
        let socket = match open(libc::AF_INET, kind, libc::IPPROTO_ICMP) {
            Ok(socket) => socket,
            Err(error) => {
                saw[name] = failed(&error);
                continue;
            }
        };
        let packet = [8_u8, 0, 0xf7, 0xff, 0, 0, 0, 0];
        // SAFETY: the packet and the address live over the call, with their own sizes.
        let sent = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const to).cast(),
                size_of_val(&to) as u32,
            )
        };
        if sent < 0 {
            saw[name] = failed(&last_error());
            continue;
        }
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        saw[name] = result(socket.recv(&mut [0_u8; 256]));
    }
    Ok(saw)
}

/// `absurd ADDRESS:PORT`: sockaddr lengths that make no sense.
fn absurd(words: &[&str]) -> Saw {
    use std::os::fd::AsRawFd;
    let to = v4(target(words, 0)?);
    let mut room = [0_u8; 8192];
    // SAFETY: the address is plain data, and the room is larger than it.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const to).cast::<u8>(),
            room.as_mut_ptr(),
            size_of_val(&to),
        );
    }
    let mut saw = Vec::new();
    for length in [
        0_u32,
        1,
        2,
        15,
        129,
        4096,
        i32::MAX as u32,
        u32::MAX,
        0x8000_0000,
    ] {
        let socket = open(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        // SAFETY: the kernel copies at most 128 bytes and refuses longer lengths before it reads;
        // the room has more than that.
        let done = unsafe { libc::connect(socket.as_raw_fd(), room.as_ptr().cast(), length) };
        saw.push(answer(i64::from(done)));
        let socket = open(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // SAFETY: as above.
        let sent = unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                room.as_ptr().cast(),
                1,
                0,
                room.as_ptr().cast(),
                length,
            )
        };
        saw.push(answer(sent as i64));
    }
    Ok(json!({"ok": true, "answers": saw}))
}

/// `marks`: socket options that would step around routing and rules.
fn marks() -> Value {
    use std::os::fd::AsRawFd;
    let mut saw = json!({"ok": true});
    for (name, level, option) in [
        ("mark", libc::SOL_SOCKET, libc::SO_MARK),
        ("transparent", libc::SOL_IP, libc::IP_TRANSPARENT),
        ("rcvbufforce", libc::SOL_SOCKET, 33),
        ("bpf_attach", libc::SOL_SOCKET, 50),
        ("debug", libc::SOL_SOCKET, libc::SO_DEBUG),
    ] {
        let Ok(socket) = open(libc::AF_INET, libc::SOCK_STREAM, 0) else {
            continue;
        };
        let one = 1_i32;
        // SAFETY: the value lives over the call, with its own size.
        let done = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                level,
                option,
                (&raw const one).cast(),
                4,
            )
        };
        saw[name] = answer(i64::from(done));
    }
    saw
}

/// `raw-send ADDRESS:PORT TEXT`: a UDP packet with a header of our own making.
fn raw_send(words: &[&str]) -> Saw {
    use std::os::fd::AsRawFd;
    let address = target(words, 0)?;
    let socket = match open(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW) {
        Ok(socket) => socket,
        Err(error) => return Ok(failed(&error)),
    };
    let IpAddr::V4(ip) = address.ip() else {
        return Ok(json!({"ok": false}));
    };
    let text = words.get(1).copied().unwrap_or("x").as_bytes();
    let total = u16::try_from(28 + text.len())?;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0]);
    packet.extend(ip.octets());
    packet.extend(40_000_u16.to_be_bytes());
    packet.extend(address.port().to_be_bytes());
    packet.extend((total - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(text);
    let to = v4(address);
    // SAFETY: the packet and the address live over the call, with their own sizes.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            0,
            (&raw const to).cast(),
            size_of_val(&to) as u32,
        )
    };
    Ok(answer(sent as i64))
}

/// `many HOST PORT COUNT PARALLEL SECONDS`: connects COUNT times, PARALLEL at a time, giving each the
/// seconds.
fn many(words: &[&str]) -> Saw {
    use std::sync::atomic::{AtomicU32, Ordering};
    let host = *words.first().context("a host")?;
    let port: u16 = number(words, 1, 443);
    let (count, parallel): (u32, u32) = (number(words, 2, 100), number(words, 3, 100));
    let limit = Duration::from_millis(number(words, 4, 1000));
    let to = (host, port)
        .to_socket_addrs()?
        .next()
        .context("an address")?;
    let (next, made, refused, waited, other) = (
        AtomicU32::new(0),
        AtomicU32::new(0),
        AtomicU32::new(0),
        AtomicU32::new(0),
        AtomicU32::new(0),
    );
    std::thread::scope(|scope| {
        for _ in 0..parallel {
            let dial = || {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    let counter = match TcpStream::connect_timeout(&to, limit) {
                        Ok(_) => &made,
                        Err(error) => match error.kind() {
                            std::io::ErrorKind::ConnectionRefused => &refused,
                            std::io::ErrorKind::TimedOut => &waited,
                            _ => &other,
                        },
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            };
            let room = std::thread::Builder::new().stack_size(64 * 1024);
            if room.spawn_scoped(scope, dial).is_err() {
                break;
            }
        }
    });
    let read = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
    Ok(
        json!({"ok": true, "made": read(&made), "refused": read(&refused), "waited": read(&waited),
        "other": read(&other)}),
    )
}

/// `relay HOST PORT`: a proxy on the cage's loopback that passes CONNECT on, and a client of it.
fn relay(words: &[&str]) -> Saw {
    let (host, port) = (*words.first().context("a host")?, number(words, 1, 443_u16));
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?;
    let upstream = (host.to_owned(), port);
    std::thread::spawn(move || {
        let Ok((mut client, _)) = listener.accept() else {
            return;
        };
        let mut request = [0_u8; 1024];
        let _ = client.read(&mut request);
        let connected = upstream
            .to_socket_addrs()
            .and_then(|mut all| all.next().ok_or_else(last_error))
            .and_then(|to| TcpStream::connect_timeout(&to, Duration::from_secs(60)));
        let line = match connected {
            Ok(_) => "HTTP/1.1 200 Connected\r\n\r\n".to_owned(),
            Err(error) => format!("HTTP/1.1 502 {}\r\n\r\n", failed(&error)["errno"]),
        };
        let _ = client.write_all(line.as_bytes());
    });
    let mut client = TcpStream::connect(own)?;
    client
        .write_all(format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    let mut reply = String::new();
    client.read_to_string(&mut reply)?;
    Ok(json!({"ok": reply.contains(" 200 "), "reply": reply.lines().next()}))
}

/// `keep-open HOST PORT FILE`: keeps sending and hearing an echo, noting each round in a file, until
/// the connection ends.
fn keep_open(words: &[&str]) -> Saw {
    let to = (
        *words.first().context("a host")?,
        number(words, 1, 7007_u16),
    );
    let to = to.to_socket_addrs()?.next().context("an address")?;
    let file = *words.get(2).context("a file")?;
    let mut stream = match TcpStream::connect_timeout(&to, Duration::from_secs(60)) {
        Ok(stream) => stream,
        Err(error) => return Ok(failed(&error)),
    };
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut rounds = 0_u32;
    let ended = loop {
        let mut heard = [0_u8; 5];
        if let Err(error) = stream
            .write_all(b"still")
            .and_then(|()| stream.read_exact(&mut heard))
        {
            break failed(&error);
        }
        rounds += 1;
        std::fs::write(file, rounds.to_string())?;
        std::thread::sleep(Duration::from_millis(10));
        if rounds > 6000 {
            break json!({"ok": true});
        }
    };
    Ok(json!({"ok": true, "rounds": rounds, "ended": ended}))
}
