//! Single connections.

use super::{Run, deadline, echoes, error_of, server};
use crate::cage::{Ask, Cage};
use crate::servers::{CLOSED, ECHO, RESETTING, SERVER, SERVER_V6};
use crate::table::{Note, Rule, Table};
use foreman_cage::gateway::ProxyConfig;
use nix::libc::{ECONNREFUSED, ECONNRESET, EHOSTUNREACH};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub async fn a_held_connect_succeeds_once_it_is_allowed(cage: Cage) {
    let run = Run::start(cage, &[]);
    let address = run.lookup("unlisted.example").await;
    let connecting = run.connecting(SocketAddr::new(address, ECHO));
    run.table.until_asked("tcp unlisted.example:7000").await;
    assert!(!connecting.is_finished());
    run.table.set("tcp unlisted.example:7000", Rule::Allow);
    let mut stream = deadline(connecting).await.unwrap().unwrap();
    assert_eq!(stream.peer_addr().unwrap().ip(), address);
    echoes(&mut stream, b"hello").await;
    run.stop().await;
}

pub async fn a_repeated_first_segment_is_no_new_question(cage: Cage) {
    let run = Run::start(cage, &[]);
    let connecting = run.connecting(server(ECHO));
    let table = format!("/proc/{}/net/tcp", run.cage.init_pid());
    let repeats = || {
        let text = std::fs::read_to_string(&table).unwrap();
        let waiting = |line: &str| {
            let mut fields = line.split_whitespace().skip(3);
            (fields.next() == Some("02"))
                .then(|| fields.nth(2).map(str::to_owned))
                .flatten()
        };
        text.lines()
            .find_map(waiting)
            .map(|count| u32::from_str_radix(&count, 16).unwrap())
    };
    let repeated_twice = async {
        while repeats().unwrap_or(0) < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    deadline(repeated_twice).await;
    let asked = run
        .table
        .until_totals("questions", |totals| totals.asked > 0)
        .await;
    assert_eq!(asked.asked, 1);
    run.table.set("tcp 203.0.113.10:7000", Rule::Allow);
    echoes(
        &mut deadline(connecting).await.unwrap().unwrap(),
        b"after a while",
    )
    .await;
    run.stop().await;
}

pub async fn a_denied_connect_is_refused(cage: Cage) {
    let run = Run::start(cage, &[]);
    let connecting = run.connecting(server(ECHO));
    run.table.until_asked("tcp 203.0.113.10:7000").await;
    run.table.set("tcp 203.0.113.10:7000", Rule::Refuse);
    assert_eq!(error_of(deadline(connecting).await.unwrap()), ECONNREFUSED);
    // A repeat is refused at once, by the same rule.
    assert_eq!(
        error_of(deadline(run.cage.connect(server(ECHO))).await),
        ECONNREFUSED
    );
    run.stop().await;
}

pub async fn a_floor_address_is_refused_at_once(cage: Cage) {
    let run = Run::start(cage, &[]);
    for text in [
        "169.254.169.254:80",
        "100.100.100.200:80",
        "198.18.0.3:80",
        "198.18.77.77:443",
        "240.0.0.1:1",
        "[fd00:ec2::254]:80",
        "[64:ff9b::7f00:1]:80",
        // The near side's own addresses.
        "192.0.2.2:22",
        "[2001:db8:ffff::2]:22",
    ] {
        let result = run.cage.connect(text.parse().unwrap());
        let result = tokio::time::timeout(Duration::from_secs(2), result)
            .await
            .expect(text);
        assert_eq!(error_of(result), ECONNREFUSED, "{text}");
        assert!(
            !run.table
                .until_refused(&format!("tcp {text}"))
                .await
                .is_empty()
        );
    }
    let asked = |note: &Note| matches!(note, Note::Asked { .. });
    assert!(!run.table.notes().iter().any(asked));
    run.stop().await;
}

pub async fn a_refusal_of_the_other_side_is_mirrored(cage: Cage) {
    let run = Run::start(cage, &[("tcp server.example:7004", Rule::Allow)]);
    assert_eq!(
        error_of(run.connect("server.example", CLOSED).await),
        ECONNREFUSED
    );
    let why = run.table.until_unreachable().await;
    assert_eq!(why, format!("{SERVER}:7004 refused the connection"));
    run.stop().await;
}

pub async fn a_name_without_an_address_is_no_route_to_host(cage: Cage) {
    let run = Run::start(cage, &[("tcp absent.example:443", Rule::Allow)]);
    assert_eq!(
        error_of(run.connect("absent.example", 443).await),
        EHOSTUNREACH
    );
    let why = run.table.until_unreachable().await;
    assert!(
        why.starts_with("the name absent.example could not be resolved: "),
        "{why}"
    );
    run.stop().await;
}

pub async fn ipv6_is_held_and_let_go(cage: Cage) {
    let run = Run::start(cage, &[]);
    let to = SocketAddr::new(SERVER_V6.parse().unwrap(), ECHO);
    let refused = run.connecting(SocketAddr::new(to.ip(), 1));
    let connecting = run.connecting(to);
    run.table.until_asked("tcp [2001:db8::10]:7000").await;
    run.table.set("tcp [2001:db8::10]:7000", Rule::Allow);
    let mut stream = deadline(connecting).await.unwrap().unwrap();
    echoes(&mut stream, b"six").await;
    run.table.set("tcp [2001:db8::10]:1", Rule::Refuse);
    assert_eq!(error_of(deadline(refused).await.unwrap()), ECONNREFUSED);
    // A name that only has an IPv6 address is dialled over IPv6.
    run.table.set("tcp six.example:7000", Rule::Allow);
    echoes(
        &mut run.connect("six.example", ECHO).await.unwrap(),
        b"by name",
    )
    .await;
    run.stop().await;
}

pub async fn a_mapped_address_is_its_own(cage: Cage) {
    let run = Run::start(cage, &[("tcp 203.0.113.10:7000", Rule::Allow)]);
    let mapped = |text: &str| text.parse::<SocketAddr>().unwrap();
    let connected = run
        .cage
        .connect_with(Ask::Tcp6, mapped("[::ffff:203.0.113.10]:7000"));
    echoes(&mut deadline(connected).await.unwrap(), b"mapped").await;
    let metadata = run
        .cage
        .connect_with(Ask::Tcp6, mapped("[::ffff:169.254.169.254]:80"));
    assert_eq!(error_of(deadline(metadata).await), ECONNREFUSED);
    run.stop().await;
}

pub async fn a_caller_that_gave_up_is_noticed(cage: Cage) {
    let run = Run::start(cage, &[]);
    let connecting = run.connecting(server(ECHO));
    let patient = run.connecting(server(1));
    run.table.until_asked("tcp 203.0.113.10:7000").await;
    run.table.until_asked("tcp 203.0.113.10:1").await;
    connecting.abort();
    let gone = |notes: &[Note]| {
        notes
            .contains(&Note::Gone("tcp 203.0.113.10:7000".into()))
            .then_some(())
    };
    run.table.until("caller that gave up", gone).await;
    assert!(
        !run.table
            .notes()
            .contains(&Note::Gone("tcp 203.0.113.10:1".into()))
    );
    assert!(!patient.is_finished());
    run.stop().await;
}

pub async fn a_cut_resets_both_sides_and_says_so(cage: Cage) {
    let run = Run::start(cage, &[("tcp server.example:7000", Rule::Allow)]);
    let mut stream = run.connect("server.example", ECHO).await.unwrap();
    echoes(&mut stream, b"before").await;
    run.table.cuts.lock().unwrap()["tcp server.example:7000"].cancel();
    let error = deadline(stream.read_u8()).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(ECONNRESET));
    assert_eq!(run.table.until_ended().await, (6, 6, true));
    run.stop().await;
}

pub async fn bytes_are_counted(cage: Cage) {
    let run = Run::start(cage, &[("tcp server.example:7000", Rule::Allow)]);
    let mut stream = run.connect("server.example", ECHO).await.unwrap();
    echoes(&mut stream, &[7; 12_345]).await;
    stream.shutdown().await.unwrap();
    assert_eq!(deadline(stream.read(&mut [0])).await.unwrap(), 0);
    assert_eq!(run.table.until_ended().await, (12_345, 12_345, false));
    run.stop().await;
}

pub async fn half_a_close_leaves_the_other_half_open(cage: Cage) {
    let run = Run::start(cage, &[("tcp server.example:7002", Rule::Allow)]);
    let mut stream = run
        .connect("server.example", crate::servers::SINK)
        .await
        .unwrap();
    let mut pattern = crate::servers::Pattern::default();
    stream.write_all(pattern.piece(100_000)).await.unwrap();
    stream.shutdown().await.unwrap();
    // The server answers only after the end of what we send.
    assert_eq!(deadline(stream.read_u64()).await.unwrap(), 100_000);
    assert_eq!(deadline(stream.read_u8()).await.unwrap(), 1);
    run.stop().await;
}

pub async fn a_reset_of_the_other_side_reaches_the_caller(cage: Cage) {
    let run = Run::start(cage, &[("tcp server.example:7003", Rule::Allow)]);
    let mut stream = run.connect("server.example", RESETTING).await.unwrap();
    stream.write_u8(1).await.unwrap();
    let error = deadline(stream.read(&mut [0])).await.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(ECONNRESET));
    assert_eq!(run.table.until_ended().await, (1, 0, false));
    run.stop().await;
}

pub async fn data_on_the_first_segment_does_not_pass(cage: Cage) {
    let run = Run::start(cage, &[]);
    let socket = run.cage.socket(Ask::Tcp4);
    let to = nix::sys::socket::SockaddrStorage::from(server(ECHO));
    let flags = nix::sys::socket::MsgFlags::from_bits_retain(nix::libc::MSG_FASTOPEN);
    // What the kernel took of it, or that it is still connecting.
    let _ = nix::sys::socket::sendto(socket.as_raw_fd(), b"early", &to, flags);
    run.table.until_asked("tcp 203.0.113.10:7000").await;
    run.table.set("tcp 203.0.113.10:7000", Rule::Allow);
    let mut stream = tokio::net::TcpStream::from_std(std::net::TcpStream::from(socket)).unwrap();
    deadline(stream.writable()).await.unwrap();
    stream.write_all(b"late").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    deadline(stream.read_to_end(&mut back)).await.unwrap();
    assert!(back == b"late" || back == b"earlylate", "{back:?}");
    run.stop().await;
}

pub async fn our_own_sockets_are_closed_to_the_cage(cage: Cage) {
    let run = Run::start(cage, &[]);
    for text in [
        "127.0.0.1:61953",
        "198.18.0.2:61953",
        "[::1]:61953",
        "203.0.113.10:61953",
    ] {
        let to: SocketAddr = text.parse().unwrap();
        if text.starts_with("203") {
            // An address elsewhere is a destination like any other.
            let _connecting = run.connecting(to);
            run.table.until_asked(&format!("tcp {text}")).await;
        } else {
            assert_eq!(
                error_of(deadline(run.cage.connect(to)).await),
                ECONNREFUSED,
                "{text}"
            );
        }
    }
    run.stop().await;
}

pub async fn servers_inside_are_reached_inside(cage: Cage) {
    let run = Run::start(cage, &[]);
    for bound in ["127.0.0.1:0", "198.18.0.2:0", "[::1]:0"] {
        let bound: SocketAddr = bound.parse().unwrap();
        let ask = if bound.is_ipv4() {
            Ask::Tcp4
        } else {
            Ask::Tcp6
        };
        let socket = std::net::TcpStream::from(run.cage.socket(ask));
        let socket = tokio::net::TcpSocket::from_std_stream(socket);
        socket.bind(bound).unwrap();
        let listener = socket.listen(8).unwrap();
        let connected = run.cage.connect(listener.local_addr().unwrap());
        let (connected, accepted) =
            deadline(async { tokio::join!(connected, listener.accept()) }).await;
        connected.unwrap().write_all(b"x").await.unwrap();
        assert_eq!(deadline(accepted.unwrap().0.read_u8()).await.unwrap(), b'x');
    }
    assert_eq!(run.table.notes(), []);
    run.stop().await;
}

pub async fn what_is_held_stays_held_when_the_gateway_ends(cage: Cage) {
    let run = Run::start(cage, &[("tcp 203.0.113.10:7000", Rule::Allow)]);
    let held = run.connecting(server(1));
    run.table.until_asked("tcp 203.0.113.10:1").await;
    let mut open = deadline(run.cage.connect(server(ECHO))).await.unwrap();
    let (cage, _) = run.stop().await;
    // What was open is closed, what was held is held, what comes is not answered.
    assert!(matches!(
        deadline(open.read(&mut [0])).await,
        Ok(0) | Err(_)
    ));
    let late = cage.connect(server(ECHO));
    let late = tokio::time::timeout(Duration::from_secs(1), late).await;
    assert!(late.is_err() || late.unwrap().is_err());
    assert!(!held.is_finished() || held.await.unwrap().is_err());
}

pub async fn the_holder_is_named(cage: Cage) {
    let mut table = Table::default();
    table.with_holders = true;
    let run = Run::with(cage, table, ProxyConfig::default());
    let socket = std::net::TcpStream::from(run.cage.socket(Ask::Kept4));
    let connecting =
        tokio::spawn(tokio::net::TcpSocket::from_std_stream(socket).connect(server(ECHO)));
    let holder = run
        .table
        .until("holder", |notes| {
            notes.iter().find_map(|note| match note {
                Note::Asked { holder, .. } => Some(holder.clone()),
                _ => None,
            })
        })
        .await
        .expect("a holder");
    assert_eq!(holder.pid, run.cage.init_pid());
    let own: Vec<String> = std::env::args().collect();
    assert_eq!(holder.argv, own);
    connecting.abort();
    run.stop().await;
}
