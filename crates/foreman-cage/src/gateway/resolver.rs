//! Serves the cage's DNS, over UDP and TCP, to whatever address a query was sent.

use super::datagrams::Datagrams;
use super::dns::{LONGEST_QUERY, Notice, answer};
use super::judge::Judge;
use super::shared::Shared;
use foreman_domain::{Host, Protocol, sanitize_line};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

const PORT: u16 = 53;
/// DNS connections at one time.
const CONNECTIONS: usize = 128;
/// A DNS connection without a query for so long is closed.
const IDLE: Duration = Duration::from_secs(10);

/// Answers datagrams until cancelled.
pub(crate) async fn run_udp<J: Judge>(shared: Arc<Shared<J>>, socket: Datagrams) {
    let mut buffer = vec![0; LONGEST_QUERY];
    loop {
        let arrival = tokio::select! {
            biased;
            () = shared.cancel.cancelled() => return,
            arrival = socket.receive(&mut buffer) => arrival,
        };
        match arrival {
            Ok(Some(arrival)) => {
                let query = buffer.get(..arrival.length).unwrap_or_default();
                let Some(reply) = reply(&shared, Protocol::Udp, query) else {
                    continue;
                };
                let sent = socket.answer(&reply, arrival.destination.ip(), arrival.source);
                if let Err(error) = sent {
                    tracing::debug!(%error, "an answer of the cage's resolver was lost");
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot take a DNS query of the cage");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Answers connections until cancelled.
pub(crate) async fn run_tcp<J: Judge>(shared: Arc<Shared<J>>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.cancel.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        // Without a free place the connection is closed; clients ask again.
        let Ok(place) = places.clone().try_acquire_owned() else {
            continue;
        };
        let shared = shared.clone();
        shared.tasks.clone().spawn(async move {
            tokio::select! {
                () = shared.cancel.cancelled() => {}
                () = serve(&shared, stream) => {}
            }
            drop(place);
        });
    }
}

async fn serve<J: Judge>(shared: &Shared<J>, mut stream: TcpStream) {
    let mut query = Vec::new();
    let exchange = async |stream: &mut TcpStream, query: &mut Vec<u8>| {
        let length = usize::from(stream.read_u16().await.ok()?);
        if length > LONGEST_QUERY {
            return None;
        }
        query.resize(length, 0);
        stream.read_exact(query).await.ok()?;
        let reply = reply(shared, Protocol::Tcp, query)?;
        let mut framed = u16::try_from(reply.len()).ok()?.to_be_bytes().to_vec();
        framed.extend(reply);
        stream.write_all(&framed).await.ok()
    };
    while let Ok(Some(())) = tokio::time::timeout(IDLE, exchange(&mut stream, &mut query)).await {}
}

fn reply<J: Judge>(shared: &Shared<J>, protocol: Protocol, query: &[u8]) -> Option<Vec<u8>> {
    answer(&shared.names, query, |notice| match notice {
        // A name of ours, which says nothing to anybody.
        Notice::FirstLookup(name)
            if shared
                .forward
                .as_ref()
                .is_some_and(|forward| forward.name == name) => {}
        Notice::FirstLookup(name) => shared.judge.looked_up(&name),
        Notice::Refused { text, why } => {
            let shown: String = text.chars().take(253).collect();
            let host = Host::Name(sanitize_line(&shown));
            shared.refusals.tell(protocol, host, PORT, &why);
        }
        Notice::Full(name) => {
            tracing::debug!(name, "too many names in this run");
            let host = Host::Name("(another name)".to_owned());
            let why = "this run has looked up too many names, so new ones fail";
            shared.refusals.tell(protocol, host, PORT, why);
        }
    })
}
