//! The cage's resolver.

use super::{Run, address, deadline, query};
use crate::cage::Cage;
use crate::table::Note;
use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn resolver() -> SocketAddr {
    "198.18.0.1:53".parse().unwrap()
}

pub async fn a_name_has_one_address_and_is_told_once(cage: Cage) {
    let run = Run::start(cage, &[]);
    let first = run.lookup("server.example").await;
    let other = run.lookup("other.example").await;
    assert_ne!(first, other);
    assert_eq!(run.lookup("Server.EXAMPLE").await, first);
    let back = Name::from(first).to_ascii();
    let reply = run.query(resolver(), &back, RecordType::PTR).await;
    let RData::PTR(name) = &reply.answers[0].data else {
        panic!("{reply}")
    };
    assert_eq!(name.0.to_ascii(), "server.example.");
    let told: Vec<Note> = ["server.example", "other.example"]
        .map(|name| Note::LookedUp(name.into()))
        .into();
    assert_eq!(run.table.notes(), told);
    run.stop().await;
}

pub async fn other_types_are_empty(cage: Cage) {
    let run = Run::start(cage, &[]);
    for kind in [
        RecordType::AAAA,
        RecordType::TXT,
        RecordType::HTTPS,
        RecordType::SRV,
    ] {
        let reply = run.query(resolver(), "server.example", kind).await;
        assert_eq!(reply.response_code, ResponseCode::NoError, "{kind}");
        assert!(reply.answers.is_empty(), "{kind}");
    }
    let reply = run.query(resolver(), "localhost", RecordType::AAAA).await;
    assert_eq!(reply.answers.len(), 1);
    run.stop().await;
}

pub async fn any_resolver_address_answers(cage: Cage) {
    let run = Run::start(cage, &[]);
    let expected = run.lookup("server.example").await;
    for text in [
        "203.0.113.200:53",
        "127.0.0.53:53",
        "[2001:db8::53]:53",
        "[::1]:53",
        "10.0.0.1:53",
    ] {
        // The socket is connected, so it takes an answer from the asked address only.
        let reply = run
            .query(text.parse().unwrap(), "server.example", RecordType::A)
            .await;
        assert_eq!(address(&reply).map(Into::into), Some(expected), "{text}");
    }
    run.stop().await;
}

pub async fn queries_over_tcp_are_answered(cage: Cage) {
    let run = Run::start(cage, &[]);
    for text in [
        "198.18.0.1:53",
        "203.0.113.200:53",
        "[2001:db8::53]:53",
        "127.0.0.1:53",
    ] {
        let mut stream = deadline(run.cage.connect(text.parse().unwrap()))
            .await
            .unwrap();
        for name in ["one.example", "two.example"] {
            let bytes = query(name, RecordType::A).to_vec().unwrap();
            stream.write_u16(bytes.len() as u16).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            let mut reply = vec![0; usize::from(deadline(stream.read_u16()).await.unwrap())];
            deadline(stream.read_exact(&mut reply)).await.unwrap();
            assert!(address(&Message::from_vec(&reply).unwrap()).is_some());
        }
    }
    run.stop().await;
}

pub async fn names_of_the_local_network_do_not_exist(cage: Cage) {
    let run = Run::start(cage, &[]);
    let reply = run.query(resolver(), "printer.local", RecordType::A).await;
    assert_eq!(reply.response_code, ResponseCode::NXDomain);
    assert!(
        !run.table
            .until_refused("udp printer.local:53")
            .await
            .is_empty()
    );
    let reply = run.query(resolver(), "xn--0.example", RecordType::A).await;
    assert_eq!(reply.response_code, ResponseCode::NXDomain);
    run.stop().await;
}

pub async fn nonsense_does_not_stop_the_resolver(cage: Cage) {
    let run = Run::start(cage, &[]);
    let socket = run.cage.datagrams(resolver()).await;
    for length in 0..200 {
        socket.send(&vec![0xc0; length]).await.unwrap();
        socket.send(&vec![0x00; length]).await.unwrap();
    }
    socket.send(&vec![0x41; 60_000]).await.unwrap();
    let mut stream = deadline(run.cage.connect(resolver())).await.unwrap();
    stream.write_all(&[0xff; 64]).await.unwrap();
    assert!(matches!(
        deadline(stream.read(&mut [0])).await,
        Ok(0) | Err(_)
    ));
    run.lookup("server.example").await;
    run.stop().await;
}
