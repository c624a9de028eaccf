//! Connects to the other side: to the first vetted address that answers, or through a proxy.

use super::proxy::{self, Endpoint};
use super::reach::{Reach, words};
use foreman_domain::Host;
use nix::sys::socket::{setsockopt, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A connection to the other side.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The connection.
    pub stream: TcpStream,
    /// What it already said.
    pub early: Vec<u8>,
}

/// Why there is none; decides what the caller inside sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The other side refused. What was tried and answered, as a sentence.
    Refused(String),
    /// It could not be reached. What was tried and answered, as a sentence.
    Unreachable(String),
}

/// A client waits longer than this, so it sees our answer and not its own time-out.
const LONGEST: Duration = Duration::from_secs(30);
/// An address that has not answered by then gets a competitor.
const HEAD_START: Duration = Duration::from_millis(300);

/// Connects to the first of these addresses that answers.
///
/// # Errors
/// When none does. A refusal by any of them counts as a refusal.
pub(crate) async fn direct(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Obstacle> {
    match tokio::time::timeout(LONGEST, race(addresses, port)).await {
        Ok(result) => result,
        Err(_) => Err(Obstacle::Unreachable(format!(
            "{} did not answer within {} seconds",
            places(addresses, port),
            LONGEST.as_secs()
        ))),
    }
}

async fn race(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Obstacle> {
    let mut waiting = addresses
        .iter()
        .map(|address| SocketAddr::new(*address, port));
    let mut running = JoinSet::new();
    let mut failures: Vec<(SocketAddr, io::Error)> = Vec::new();
    loop {
        if let Some(address) = waiting.next() {
            running.spawn(async move { (address, connect(address).await) });
        } else if running.is_empty() {
            return Err(verdict(&failures, addresses, port));
        }
        let ended = match tokio::time::timeout(HEAD_START, running.join_next()).await {
            Ok(ended) => ended,
            Err(_) if waiting.len() > 0 => continue,
            Err(_) => running.join_next().await,
        };
        match ended {
            Some(Ok((_, Ok(stream)))) => return Ok(stream),
            Some(Ok((address, Err(error)))) => failures.push((address, error)),
            Some(Err(_)) | None => {}
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    // Both ends of a relay are paced by the outer ones.
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    Ok(stream)
}

/// Whether the other side still exists is found out here; the caller inside only sees us.
fn keep_alive(stream: &TcpStream) -> nix::Result<()> {
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &60)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &20)?;
    setsockopt(stream, sockopt::TcpKeepCount, &6)
}

fn verdict(failures: &[(SocketAddr, io::Error)], addresses: &[IpAddr], port: u16) -> Obstacle {
    for (address, error) in failures {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                return Obstacle::Refused(format!("{address} refused the connection"));
            }
            io::ErrorKind::ConnectionReset => {
                return Obstacle::Refused(format!("{address} reset the connection at once"));
            }
            _ => {}
        }
    }
    let why = failures
        .first()
        .map_or_else(|| "no address".to_owned(), |(_, error)| words(error));
    Obstacle::Unreachable(format!(
        "{} could not be reached: {why}",
        places(addresses, port)
    ))
}

fn places(addresses: &[IpAddr], port: u16) -> String {
    match addresses {
        [] => "nothing".to_owned(),
        [only] => SocketAddr::new(*only, port).to_string(),
        [first, rest @ ..] => {
            format!(
                "{} (and {} more)",
                SocketAddr::new(*first, port),
                rest.len()
            )
        }
    }
}

/// Connects through a proxy, which resolves the name itself.
///
/// # Errors
/// When the proxy cannot be reached or does not connect.
pub(crate) async fn by_proxy(
    reach: &Reach,
    endpoint: &Endpoint,
    host: &Host,
    port: u16,
) -> Result<Outside, Obstacle> {
    let unreachable = |why: &str| {
        Obstacle::Unreachable(format!(
            "the operator's proxy {endpoint} did not help: {why}"
        ))
    };
    let addresses = reach
        .resolve(&endpoint.host)
        .await
        .map_err(|why| unreachable(&why))?;
    let mut stream = match direct(&addresses, endpoint.port).await {
        Ok(stream) => stream,
        Err(Obstacle::Refused(why) | Obstacle::Unreachable(why)) => return Err(unreachable(&why)),
    };
    let asked = proxy::open(&mut stream, endpoint, host, port);
    match tokio::time::timeout(LONGEST, asked).await {
        Ok(Ok(early)) => Ok(Outside { stream, early }),
        Ok(Err(refusal)) if refusal.refused => Err(Obstacle::Refused(refusal.why)),
        Ok(Err(refusal)) => Err(Obstacle::Unreachable(refusal.why)),
        Err(_) => Err(unreachable("it did not answer in time")),
    }
}
