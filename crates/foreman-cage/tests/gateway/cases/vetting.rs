//! What names resolve to, and whether that may be dialled.

use super::{Run, deadline, echoes, error_of};
use crate::cage::Cage;
use crate::servers::{ASKED, ECHO, SERVER};
use crate::table::Rule;
use nix::libc::ECONNREFUSED;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Whether the far resolver was ever asked for a name.
async fn was_resolved(name: &str) -> bool {
    let mut stream = tokio::net::TcpStream::connect((SERVER, ASKED))
        .await
        .unwrap();
    stream
        .write_all(format!("{name}.\n").as_bytes())
        .await
        .unwrap();
    deadline(stream.read_u8()).await.unwrap() == 1
}

pub async fn nothing_is_resolved_before_it_is_allowed(cage: Cage) {
    let run = Run::start(cage, &[]);
    let address = run.lookup("secret.example").await;
    let connecting = run.connecting(SocketAddr::new(address, ECHO));
    run.table.until_asked("tcp secret.example:7000").await;
    assert!(!was_resolved("secret.example").await);
    run.table.set("tcp secret.example:7000", Rule::Allow);
    deadline(connecting).await.unwrap().unwrap();
    assert!(was_resolved("secret.example").await);
    run.stop().await;
}

pub async fn a_private_address_is_asked_about(cage: Cage) {
    let run = Run::start(cage, &[("tcp private.example:7000", Rule::Allow)]);
    let address = run.lookup("private.example").await;
    let connecting = run.connecting(SocketAddr::new(address, ECHO));
    run.table
        .until_asked("tcp private.example:7000 at 10.9.8.7")
        .await;
    assert!(!connecting.is_finished());
    run.table
        .set("tcp private.example:7000 at 10.9.8.7", Rule::Allow);
    echoes(
        &mut deadline(connecting).await.unwrap().unwrap(),
        b"private",
    )
    .await;
    run.stop().await;
}

pub async fn a_rule_may_cover_private_addresses(cage: Cage) {
    let run = Run::start(
        cage,
        &[(
            "tcp private.example:7000",
            Rule::AllowPrivate("10.9.0.0/16"),
        )],
    );
    echoes(
        &mut run.connect("private.example", ECHO).await.unwrap(),
        b"private",
    )
    .await;
    run.stop().await;
}

pub async fn forbidden_addresses_behind_names_are_refused(cage: Cage) {
    let names = ["loopback.example", "metadata.example", "own.example"];
    let rules = names.map(|name| (format!("tcp {name}:7000"), Rule::AllowPrivate("0.0.0.0/0")));
    let rules = rules
        .each_ref()
        .map(|(name, rule)| (name.as_str(), rule.clone()));
    let run = Run::start(cage, &rules);
    for name in names {
        assert_eq!(
            error_of(run.connect(name, ECHO).await),
            ECONNREFUSED,
            "{name}"
        );
        let why = run.table.until_refused(&format!("tcp {name}:7000")).await;
        assert!(why.contains("no rule can open"), "{why}");
    }
    run.stop().await;
}

pub async fn the_harmless_address_of_a_name_is_dialled(cage: Cage) {
    let run = Run::start(cage, &[("tcp mixed.example:7000", Rule::Allow)]);
    echoes(
        &mut run.connect("mixed.example", ECHO).await.unwrap(),
        b"mixed",
    )
    .await;
    run.stop().await;
}
