//! Datagrams.

use super::{Run, deadline, error_of, server};
use crate::cage::{Ask, Cage};
use crate::servers::{CLOSED, ECHO, SERVER, SERVER_V6};
use crate::table::{Note, Rule};
use nix::libc::ECONNREFUSED;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::UdpSocket;

async fn echoes(socket: &UdpSocket, data: &[u8]) {
    socket.send(data).await.unwrap();
    let mut back = vec![0; 65_536];
    let length = deadline(socket.recv(&mut back)).await.unwrap();
    assert!(back[..length] == *data);
}

pub async fn a_held_datagram_is_answered_once_it_is_allowed(cage: Cage) {
    let run = Run::start(cage, &[]);
    let address = run.lookup("server.example").await;
    let socket = run.cage.datagrams(SocketAddr::new(address, ECHO)).await;
    for text in [b"one", b"two"] {
        socket.send(text).await.unwrap();
    }
    run.table.until_asked("udp server.example:7000").await;
    run.table.set("udp server.example:7000", Rule::Allow);
    let mut back = [0; 16];
    for text in [b"one", b"two"] {
        assert_eq!(deadline(socket.recv(&mut back)).await.unwrap(), 3);
        assert_eq!(&back[..3], text);
    }
    // One flow, one question.
    echoes(&socket, b"three").await;
    let asked = |note: &&Note| matches!(note, Note::Asked { .. });
    assert_eq!(run.table.notes().iter().filter(asked).count(), 1);
    run.stop().await;
}

pub async fn a_denied_flow_is_refused(cage: Cage) {
    let run = Run::start(cage, &[("udp 203.0.113.10:7000", Rule::Refuse)]);
    let socket = run.cage.datagrams(server(ECHO)).await;
    socket.send(b"x").await.unwrap();
    assert_eq!(
        error_of(deadline(socket.recv(&mut [0])).await),
        ECONNREFUSED
    );
    // An amendment helps the next try.
    run.table.set("udp 203.0.113.10:7000", Rule::Allow);
    let tries = async {
        loop {
            if socket.send(b"again").await.is_ok()
                && matches!(
                    tokio::time::timeout(Duration::from_millis(200), socket.recv(&mut [0; 8]))
                        .await,
                    Ok(Ok(5))
                )
            {
                return;
            }
        }
    };
    deadline(tries).await;
    run.stop().await;
}

pub async fn http_3_and_dns_over_quic_are_refused_at_once(cage: Cage) {
    let run = Run::start(cage, &[("udp server.example:443", Rule::Allow)]);
    let address = run.lookup("server.example").await;
    for port in [443, 853] {
        let socket = run.cage.datagrams(SocketAddr::new(address, port)).await;
        socket.send(b"x").await.unwrap();
        let result = tokio::time::timeout(Duration::from_secs(2), socket.recv(&mut [0])).await;
        assert_eq!(error_of(result.expect("at once")), ECONNREFUSED);
        run.table
            .until_refused(&format!("udp server.example:{port}"))
            .await;
    }
    assert!(
        !run.table
            .notes()
            .iter()
            .any(|note| matches!(note, Note::Asked { .. }))
    );
    run.stop().await;
}

pub async fn each_destination_of_one_socket_is_judged(cage: Cage) {
    let run = Run::start(cage, &[("udp 203.0.113.10:7000", Rule::Allow)]);
    let socket = std::net::UdpSocket::from(run.cage.socket(Ask::Udp4));
    socket.set_nonblocking(true).unwrap();
    let socket = UdpSocket::from_std(socket).unwrap();
    socket.send_to(b"good", server(ECHO)).await.unwrap();
    let mut back = [0; 16];
    let (length, from) = deadline(socket.recv_from(&mut back)).await.unwrap();
    assert_eq!((&back[..length], from), (&b"good"[..], server(ECHO)));
    // The same socket, elsewhere: its own question, and nothing is sent.
    socket.send_to(b"bad", server(CLOSED)).await.unwrap();
    run.table.until_asked("udp 203.0.113.10:7004").await;
    socket
        .send_to(b"meta", "169.254.169.254:80".parse::<SocketAddr>().unwrap())
        .await
        .unwrap();
    run.table.until_refused("udp 169.254.169.254:80").await;
    run.stop().await;
}

pub async fn ipv6_flows_are_relayed(cage: Cage) {
    let run = Run::start(cage, &[("udp [2001:db8::10]:7000", Rule::Allow)]);
    let socket = run
        .cage
        .datagrams(SocketAddr::new(SERVER_V6.parse().unwrap(), ECHO))
        .await;
    echoes(&socket, b"six").await;
    let socket = run
        .cage
        .datagrams(SocketAddr::new(SERVER_V6.parse().unwrap(), 443))
        .await;
    socket.send(b"x").await.unwrap();
    assert_eq!(
        error_of(deadline(socket.recv(&mut [0])).await),
        ECONNREFUSED
    );
    run.stop().await;
}

pub async fn a_cut_flow_asks_again(cage: Cage) {
    let run = Run::start(cage, &[("udp 203.0.113.10:7000", Rule::Allow)]);
    let socket = run.cage.datagrams(server(ECHO)).await;
    echoes(&socket, b"hello").await;
    run.table.set("udp 203.0.113.10:7000", Rule::Refuse);
    run.table.cuts.lock().unwrap()["udp 203.0.113.10:7000"].cancel();
    assert_eq!(run.table.until_ended().await, (5, 5, true));
    socket.send(b"more").await.unwrap();
    assert_eq!(
        error_of(deadline(socket.recv(&mut [0])).await),
        ECONNREFUSED
    );
    run.stop().await;
}

pub async fn large_datagrams_pass_whole(cage: Cage) {
    let run = Run::start(cage, &[("udp 203.0.113.10:7000", Rule::Allow)]);
    let socket = run.cage.datagrams(server(ECHO)).await;
    echoes(&socket, b"").await;
    echoes(&socket, &[3; 1_400]).await;
    echoes(&socket, &[5; 40_000]).await;
    echoes(&socket, &[7; 65_507]).await;
    run.stop().await;
}

pub async fn a_refusal_of_the_other_side_is_mirrored(cage: Cage) {
    let run = Run::start(cage, &[("udp 203.0.113.10:7004", Rule::Allow)]);
    let socket = run
        .cage
        .datagrams(SocketAddr::new(SERVER.parse().unwrap(), CLOSED))
        .await;
    socket.send(b"x").await.unwrap();
    assert_eq!(
        error_of(deadline(socket.recv(&mut [0])).await),
        ECONNREFUSED
    );
    run.stop().await;
}

pub async fn a_caller_that_gave_up_is_noticed(cage: Cage) {
    let run = Run::start(cage, &[]);
    let socket = run.cage.datagrams(server(ECHO)).await;
    let patient = run.cage.datagrams(server(1)).await;
    socket.send(b"x").await.unwrap();
    patient.send(b"x").await.unwrap();
    run.table.until_asked("udp 203.0.113.10:7000").await;
    run.table.until_asked("udp 203.0.113.10:1").await;
    drop(socket);
    let gone = |notes: &[Note]| {
        notes
            .contains(&Note::Gone("udp 203.0.113.10:7000".into()))
            .then_some(())
    };
    run.table.until("caller that gave up", gone).await;
    assert!(
        !run.table
            .notes()
            .contains(&Note::Gone("udp 203.0.113.10:1".into()))
    );
    run.stop().await;
}
