//! What all parts of a gateway share.

use super::datagrams::Packets;
use super::downfall::Downfall;
use super::forward::Forward;
use super::holder::Holders;
use super::judge::{HolderProbe, Judge};
use super::names::Names;
use super::packet::Flow;
use super::proxy::Proxies;
use super::reach::Reach;
use super::refusals::Refusals;
use super::relay::Pipes;
use foreman_domain::{Host, Protocol};
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// One gateway's common ground.
#[derive(Debug)]
pub(crate) struct Shared<J> {
    /// Who decides.
    pub judge: Arc<J>,
    /// The cage's names.
    pub names: Names,
    /// What is refused without asking.
    pub refusals: Refusals<J>,
    /// Which addresses may be dialled.
    pub reach: Reach,
    /// The operator's proxies.
    pub proxies: Proxies,
    /// A name that leads elsewhere.
    pub forward: Option<Arc<Forward>>,
    /// Sends packets into the cage.
    pub packets: Arc<Packets>,
    /// Who is behind what.
    pub holders: Arc<Holders>,
    /// What connections carry bytes with.
    pub pipes: Pipes,
    /// Connections that may be open at one time; as many as there may be open files for.
    pub open: Arc<Semaphore>,
    /// Something is held now; wakes who looks after it.
    pub held: Notify,
    /// Where a part says that it can serve no more.
    pub downfall: Arc<Downfall>,
    /// Ends everything.
    pub cancel: CancellationToken,
    /// Every task of the gateway.
    pub tasks: TaskTracker,
}

impl<J: Judge> Shared<J> {
    /// Whom a flow wants to reach.
    pub fn host_of(&self, flow: Flow) -> Host {
        self.names.host_of(flow.destination.ip())
    }

    /// Finds the process behind a flow, when asked.
    pub fn probe(&self, protocol: Protocol, flow: Flow) -> HolderProbe {
        let holders = self.holders.clone();
        HolderProbe(Arc::new(move || holders.find(protocol, flow)))
    }

    /// Sends a packet into the cage. One that cannot be sent is lost, as packets are.
    pub fn send_inside(&self, packet: &[u8], flow: Flow) {
        if let Err(error) = self.packets.send(packet, flow.source.ip()) {
            tracing::debug!(%error, "a packet into the cage was lost");
        }
    }
}
