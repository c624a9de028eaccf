//! Much of everything.

use super::{Run, deadline, echoes, error_of, server};
use crate::cage::{Ask, Cage};
use crate::servers::{ECHO, Pattern, SINK, SOURCE, check};
use crate::table::Rule;
use nix::libc::ECONNREFUSED;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub async fn sixty_four_mebibytes_arrive_whole_each_way(cage: Cage) {
    const LENGTH: u64 = 64 << 20;
    let rules = [
        ("tcp server.example:7001", Rule::Allow),
        ("tcp server.example:7002", Rule::Allow),
    ];
    let run = Run::start(cage, &rules);
    let mut stream = run.connect("server.example", SOURCE).await.unwrap();
    stream.write_u64(LENGTH).await.unwrap();
    assert_eq!(deadline(check(&mut stream)).await.unwrap(), (LENGTH, true));
    drop(stream);
    assert_eq!(run.table.until_ended().await, (8, LENGTH, false));

    let mut stream = run.connect("server.example", SINK).await.unwrap();
    let mut pattern = Pattern::default();
    let mut left = LENGTH;
    while left > 0 {
        let piece = pattern.piece(left);
        deadline(stream.write_all(piece)).await.unwrap();
        left -= piece.len() as u64;
    }
    stream.shutdown().await.unwrap();
    assert_eq!(deadline(stream.read_u64()).await.unwrap(), LENGTH);
    assert_eq!(deadline(stream.read_u8()).await.unwrap(), 1);
    run.stop().await;
}

pub async fn a_thousand_connects_go_on_at_once(cage: Cage) {
    const MANY: usize = 1000;
    let run = Run::start(cage, &[]);
    let address = SocketAddr::new(run.lookup("server.example").await, ECHO);
    let connecting: Vec<_> = (0..MANY).map(|_| run.connecting(address)).collect();
    run.table
        .until_totals("questions", |totals| totals.asked == MANY)
        .await;
    run.table.set("tcp server.example:7000", Rule::Allow);
    let mut streams = Vec::new();
    for connecting in connecting {
        streams.push(deadline(connecting).await.unwrap().unwrap());
    }
    for stream in &mut streams {
        echoes(stream, b"all of us").await;
    }
    drop(streams);
    run.table
        .until_totals("ends", |totals| totals.ended == MANY)
        .await;
    run.stop().await;
}

pub async fn ten_thousand_connects_are_held_and_refused(cage: Cage) {
    const MANY: usize = 10_000;
    let run = Run::start(cage, &[("tcp 203.0.113.10:7000", Rule::Allow)]);
    let connecting: Vec<_> = (0..MANY).map(|_| run.connecting(server(1))).collect();
    run.table
        .until_totals("questions", |totals| totals.asked == MANY)
        .await;
    // Others are served meanwhile.
    echoes(
        &mut deadline(run.cage.connect(server(ECHO))).await.unwrap(),
        b"meanwhile",
    )
    .await;
    assert!(
        connecting
            .iter()
            .all(|connecting| !connecting.is_finished())
    );
    run.table.set("tcp 203.0.113.10:1", Rule::Refuse);
    for connecting in connecting {
        assert_eq!(error_of(deadline(connecting).await.unwrap()), ECONNREFUSED);
    }
    run.stop().await;
}

pub async fn a_flood_of_flows_is_bounded(cage: Cage) {
    const MANY: usize = 3000;
    /// As many flows as the gateway holds.
    const HELD: usize = 1024;
    let run = Run::start(cage, &[]);
    let socket = run.cage.datagrams(server(1)).await;
    let mut others = Vec::new();
    socket.send(b"x").await.unwrap();
    for port in 0..MANY {
        let to = SocketAddr::new(server(1).ip(), 10_000 + port as u16);
        let other = run.cage.datagrams(to).await;
        other.send(&[0; 1000]).await.unwrap();
        others.push(other);
    }
    run.table
        .until_totals("as many questions as flows", |totals| totals.asked == HELD)
        .await;
    // Connections are served meanwhile, and a flow that ends makes room for another.
    run.table.set("tcp 203.0.113.10:7000", Rule::Allow);
    echoes(
        &mut deadline(run.cage.connect(server(ECHO))).await.unwrap(),
        b"meanwhile",
    )
    .await;
    run.table.set("udp 203.0.113.10:1", Rule::Refuse);
    assert_eq!(
        error_of(deadline(socket.recv(&mut [0])).await),
        ECONNREFUSED
    );
    run.table.set("udp 203.0.113.10:7000", Rule::Allow);
    let late = run.cage.datagrams(server(ECHO)).await;
    let answered = async {
        loop {
            late.send(b"late").await.unwrap();
            let mut back = [0; 8];
            let answer = late.recv(&mut back);
            if tokio::time::timeout(Duration::from_millis(100), answer)
                .await
                .is_ok()
            {
                return;
            }
        }
    };
    deadline(answered).await;
    run.stop().await;
}

pub async fn a_flood_to_forbidden_places_is_told_as_numbers(cage: Cage) {
    const MANY: u64 = 2000;
    let run = Run::start(cage, &[]);
    let metadata: SocketAddr = "169.254.169.254:80".parse().unwrap();
    let mut left = MANY;
    while left > 0 {
        let socket = std::net::TcpStream::from(run.cage.socket(Ask::Tcp4));
        let socket = tokio::net::TcpSocket::from_std_stream(socket);
        let result = tokio::time::timeout(Duration::from_secs(5), socket.connect(metadata)).await;
        assert_eq!(error_of(result.expect("at once")), ECONNREFUSED);
        left -= 1;
    }
    let told = run
        .table
        .until_totals("refusals", |totals| totals.refused == MANY)
        .await;
    assert!(told.refused_lines < 30, "{told:?}");
    run.stop().await;
}
