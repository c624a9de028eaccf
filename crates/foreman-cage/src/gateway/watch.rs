//! Notices that a caller gave up: its socket no longer waits in the kernel's tables.
//!
//! The tables are read in pieces while they change, so a socket counts as gone only when it is
//! missing twice. When they cannot be read, nobody is gone: what is held stays held.
//!
//! While nothing is held it sleeps without a timer: many runs wait for their agents, and each timer
//! of each of them would cost something every second.

use super::gate::Gate;
use super::judge::Judge;
use super::packet::Flow;
use super::shared::Shared;
use super::sockets_of::rows;
use super::udp::Flows;
use foreman_domain::Protocol;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const PERIOD: Duration = Duration::from_secs(1);
const SECOND_LOOK: Duration = Duration::from_millis(100);
/// Younger holds are not looked at.
const YOUNG: Duration = Duration::from_millis(300);

type Waiting = Vec<(Flow, CancellationToken)>;

/// Looks once a second while something is held, until cancelled.
pub(crate) async fn run<J: Judge>(
    shared: Arc<Shared<J>>,
    gate: Arc<Gate<J>>,
    flows: Arc<Flows<J>>,
) {
    let watched = async {
        loop {
            shared.held.notified().await;
            while gate.holds_any() || flows.holds_any() {
                tokio::time::sleep(PERIOD).await;
                look(&shared, Protocol::Tcp, gate.waiting(YOUNG)).await;
                look(&shared, Protocol::Udp, flows.waiting(YOUNG)).await;
            }
        }
    };
    tokio::select! {
        () = shared.cancel.cancelled() => {}
        () = watched => {}
    }
}

async fn look<J: Judge>(shared: &Shared<J>, protocol: Protocol, waiting: Waiting) {
    let init = shared.holders.init();
    let missing = missing(init, protocol, waiting).await;
    if missing.is_empty() {
        return;
    }
    tokio::time::sleep(SECOND_LOOK).await;
    for (_, gone) in self::missing(init, protocol, missing).await {
        gone.cancel();
    }
}

/// Those whose socket is in none of the tables.
async fn missing(init: u32, protocol: Protocol, waiting: Waiting) -> Waiting {
    if waiting.is_empty() {
        return waiting;
    }
    let looked = tokio::task::spawn_blocking(move || {
        let Ok(rows) = rows(init, protocol) else {
            return Waiting::new();
        };
        match protocol {
            Protocol::Tcp => {
                let connecting = rows.iter().filter(|row| row.is_connecting());
                let alive: HashSet<Flow> = connecting
                    .map(|row| Flow::new(row.local, row.remote))
                    .collect();
                waiting
                    .into_iter()
                    .filter(|(flow, _)| !alive.contains(flow))
                    .collect()
            }
            Protocol::Udp => {
                let alive = |flow: Flow| rows.iter().any(|row| row.is_end_of(protocol, flow));
                waiting
                    .into_iter()
                    .filter(|(flow, _)| !alive(*flow))
                    .collect()
            }
        }
    });
    looked.await.unwrap_or_default()
}
