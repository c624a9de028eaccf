//! The network of a cage while it is built: a namespace with `lo` only, and what captures all of it.
//!
//! Where the gateway cannot be put up, there is no cage, unless the specification accepts
//! [`Wall::Network`] by name. Then the cage gets a second, untouched namespace instead: it has no
//! address but those of `lo` and no route, so every connection fails at once and nothing is held. No
//! failure of any step here leads to a namespace that reaches further than that.

use crate::gateway::netlink::Route;
use crate::launch::no_answer;
use crate::wire::{self, During, Failed, Report};
use crate::{CageSpec, Step, gateway};
use foreman_domain::Wall;
use nix::sched::{CloneFlags, setns, unshare};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

/// Index of `lo` in every new namespace.
const LOOPBACK: u32 = 1;

/// Comes with the network namespace.
#[derive(Debug, Serialize, Deserialize)]
struct Network {
    /// Whether a gateway captures what is sent in it.
    gateway: bool,
}

/// Makes the network and passes the namespace to process 1 and the gateway's sockets to the launcher.
pub(crate) fn make(
    spec: &CageSpec,
    to_first: &OwnedFd,
    to_launcher: &OwnedFd,
) -> Result<(), Failed> {
    let may_be_absent = spec.accept_weaker.contains(&Wall::Network);
    let captured = Network { gateway: true };
    let own = unshared()?;
    if !may_be_absent {
        // The rest takes as long as building the files, so it is done meanwhile.
        pass(captured, &own, to_first)?;
        return tell(gateway::plumb().map_err(not_plumbed)?, to_launcher);
    }
    match gateway::plumb().map_err(not_plumbed) {
        Ok(sockets) => {
            pass(captured, &own, to_first)?;
            tell(sockets, to_launcher)
        }
        Err(why) => {
            // Half-made rules and routes stay behind with the first namespace.
            drop(own);
            let own = unshared()?;
            // For programs that talk to themselves. Without it even that is refused.
            let _ = Route::open().and_then(|mut route| route.link_up(LOOPBACK));
            pass(Network { gateway: false }, &own, to_first)?;
            wire::send(to_launcher.as_fd(), &Report::NotPlumbed(why), &[])
                .during(Step::Prepare, || "answering".into())
        }
    }
}

/// Moves the caller into the network namespace that the other child made; whether it has a gateway.
pub(crate) fn enter(from: &OwnedFd) -> Result<bool, Failed> {
    let received = wire::receive::<Network>(from.as_fd());
    let received = received.during(Step::Namespaces, || "taking the network namespace".into())?;
    let Some((network, fds)) = received else {
        return Err(no_answer("its network was not made", libc::ESRCH));
    };
    let Some(namespace) = fds.into_iter().next() else {
        return Err(no_answer("its network was not made", libc::ESRCH));
    };
    setns(namespace, CloneFlags::CLONE_NEWNET).during(Step::Namespaces, || "setns".into())?;
    Ok(network.gateway)
}

/// Moves the caller into a new network namespace.
fn unshared() -> Result<File, Failed> {
    unshare(CloneFlags::CLONE_NEWNET).during(Step::Namespaces, || "unshare CLONE_NEWNET".into())?;
    File::open("/proc/self/ns/net").during(Step::Namespaces, || "/proc/self/ns/net".into())
}

fn not_plumbed(error: gateway::PlumbError) -> Failed {
    Failed::new(Step::Plumb, format!("cannot {}", error.step), &error.source)
}

fn pass(network: Network, namespace: &File, to_first: &OwnedFd) -> Result<(), Failed> {
    wire::send(to_first.as_fd(), &network, &[namespace.as_fd()])
        .during(Step::Prepare, || "answering".into())
}

fn tell(sockets: gateway::Sockets, to_launcher: &OwnedFd) -> Result<(), Failed> {
    let (fds, description) = sockets.into_fds();
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    wire::send(to_launcher.as_fd(), &Report::Plumbed { description }, &fds)
        .during(Step::Prepare, || "answering".into())
}
