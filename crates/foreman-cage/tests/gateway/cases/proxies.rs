//! The operator's proxies.

use super::{Run, deadline, echoes, error_of};
use crate::cage::Cage;
use crate::servers::{ECHO, HTTP_PROXY, SOCKS_PROXY};
use crate::table::{Note, Rule, Table};
use foreman_cage::gateway::ProxyConfig;
use nix::libc::{ECONNREFUSED, EHOSTUNREACH};
use std::net::SocketAddr;
use tokio::io::AsyncReadExt;

fn start(cage: Cage, proxy: ProxyConfig, rules: &[(&str, Rule)]) -> Run {
    Run::with(cage, Table::with(rules), proxy)
}

fn https() -> ProxyConfig {
    let https = Some(format!("http://us%20er:p%3Aw@{HTTP_PROXY}"));
    ProxyConfig {
        https,
        ..ProxyConfig::default()
    }
}

fn socks() -> ProxyConfig {
    let all = Some(format!("socks5h://us%20er:p%3Aw@{SOCKS_PROXY}"));
    ProxyConfig {
        all,
        ..ProxyConfig::default()
    }
}

fn asked_by_proxy(run: &Run) -> Vec<bool> {
    let by_proxy = |note: &Note| match note {
        Note::Asked { by_proxy, .. } => Some(*by_proxy),
        _ => None,
    };
    run.table.notes().iter().filter_map(by_proxy).collect()
}

pub async fn connect_goes_through_with_credentials(cage: Cage) {
    let run = start(
        cage,
        https(),
        &[("tcp server.inner.example:7000", Rule::Allow)],
    );
    let mut stream = run.connect("server.inner.example", ECHO).await.unwrap();
    let mut early = [0; 5];
    deadline(stream.read_exact(&mut early)).await.unwrap();
    assert_eq!(&early, b"early");
    echoes(&mut stream, b"by proxy").await;
    assert_eq!(asked_by_proxy(&run), [true]);
    drop(stream);
    assert_eq!(run.table.until_ended().await, (8, 13, false));
    run.stop().await;
}

pub async fn socks_goes_through_with_credentials(cage: Cage) {
    let rules = [
        ("tcp server.inner.example:7000", Rule::Allow),
        ("tcp 203.0.113.10:7000", Rule::Allow),
    ];
    let run = start(cage, socks(), &rules);
    echoes(
        &mut run.connect("server.inner.example", ECHO).await.unwrap(),
        b"by name",
    )
    .await;
    echoes(
        &mut deadline(run.cage.connect(super::server(ECHO)))
            .await
            .unwrap(),
        b"by address",
    )
    .await;
    assert_eq!(asked_by_proxy(&run), [true, true]);
    run.stop().await;
}

pub async fn what_a_proxy_answers_is_mirrored(cage: Cage) {
    let rules = [
        ("tcp closed.inner.example:7004", Rule::Allow),
        ("tcp nowhere.inner.example:443", Rule::Allow),
    ];
    let proxy = ProxyConfig {
        https: https().https,
        ..socks()
    };
    let run = start(cage, proxy, &rules);
    // By SOCKS, which can say "refused".
    assert_eq!(
        error_of(run.connect("closed.inner.example", 7004).await),
        ECONNREFUSED
    );
    let why = run.table.until_unreachable().await;
    assert!(why.ends_with("connection refused"), "{why}");
    // By HTTP, which is asked first for this port.
    assert_eq!(
        error_of(run.connect("nowhere.inner.example", 443).await),
        EHOSTUNREACH
    );
    let said = run
        .table
        .until("answer of the proxy", |notes| {
            notes.iter().find_map(|note| match note {
                Note::Unreachable(why) if why.contains("403") => Some(why.clone()),
                _ => None,
            })
        })
        .await;
    assert!(!said.contains('\x1b') && !said.contains("p:w"), "{said:?}");
    run.stop().await;
}

pub async fn exceptions_are_dialled_directly(cage: Cage) {
    let proxy = ProxyConfig {
        no_proxy: Some("localhost,.example".into()),
        ..https()
    };
    let run = start(cage, proxy, &[("tcp server.example:7000", Rule::Allow)]);
    echoes(
        &mut run.connect("server.example", ECHO).await.unwrap(),
        b"directly",
    )
    .await;
    assert_eq!(asked_by_proxy(&run), [false]);
    run.stop().await;
}

pub async fn datagrams_and_floor_addresses_do_not_go_through(cage: Cage) {
    let run = start(cage, socks(), &[]);
    let metadata: SocketAddr = "169.254.169.254:80".parse().unwrap();
    assert_eq!(
        error_of(deadline(run.cage.connect(metadata)).await),
        ECONNREFUSED
    );
    let socket = run.cage.datagrams(super::server(ECHO)).await;
    socket.send(b"x").await.unwrap();
    assert_eq!(
        error_of(deadline(socket.recv(&mut [0])).await),
        ECONNREFUSED
    );
    let why = run.table.until_refused("udp 203.0.113.10:7000").await;
    assert!(why.contains("proxy"), "{why}");
    assert!(asked_by_proxy(&run).is_empty());
    run.stop().await;
}
