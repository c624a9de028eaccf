//! The port through which the gateway asks what may leave, and tells what happened.

use foreman_domain::{Holder, Host, Protocol};
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

/// One new connection or flow that wants to leave.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// The name behind the cage's own address, or the bare address.
    pub host: Host,
    /// Destination port.
    pub port: u16,
    /// Whether the name will be resolved by a proxy, so that its address cannot be vetted here.
    pub by_proxy: bool,
    /// The address that the name resolved to, on the second question of a name that resolved to a
    /// private address; `None` on the first, before anything was resolved.
    pub resolved: Option<IpAddr>,
    /// Finds the process behind it; costs a scan, so it is called only for what is held or refused.
    pub holder: HolderProbe,
    /// Becomes true when the caller inside gave up (socket closed, process gone).
    pub gone: tokio_util::sync::CancellationToken,
}

/// Finds the process behind an attempt, when asked.
#[derive(Clone)]
pub struct HolderProbe(pub Arc<dyn Fn() -> Option<Holder> + Send + Sync>);

impl std::fmt::Debug for HolderProbe {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("HolderProbe")
    }
}

/// What the judge says.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// Connect, and let it go on.
    Allow(Allowance),
    /// Refuse it: seen inside as ECONNREFUSED.
    Refuse,
}

/// What came with an allowing verdict.
#[derive(Debug, Clone)]
pub struct Allowance {
    /// Names the connection for its whole life.
    pub connection: ConnectionId,
    /// Private addresses the name may resolve to, by the rule that allowed it.
    pub private: Option<ipnet::IpNet>,
    /// Cut the connection when this fires.
    pub cut: tokio_util::sync::CancellationToken,
}

/// Names an allowed connection towards the judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u64);

/// How an allowed connection ended.
#[derive(Debug, Clone)]
pub enum Closed {
    /// It carried bytes.
    Ended {
        /// Bytes from the cage.
        sent: u64,
        /// Bytes to the cage.
        received: u64,
        /// How long it was open.
        millis: u64,
        /// True when [`Allowance::cut`] ended it.
        cut: bool,
    },
    /// The other side could not be reached; the refusal was mirrored inside.
    Unreachable {
        /// What the other side or the resolver answered, as a sentence.
        why: String,
    },
    /// The caller inside gave up before it was connected, or the question was asked anew because
    /// the name resolved to a private address.
    Abandoned,
}

/// How the gateway would reach a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Directly: the address is vetted here.
    Direct,
    /// Through the operator's proxy, which resolves the name itself.
    Proxy,
}

/// Decides about attempts. Implemented by the shim; by a table in tests.
pub trait Judge: Send + Sync + 'static {
    /// Answers an attempt, after as long as it takes. Must end soon after `attempt.gone` fires.
    fn judge(&self, attempt: Attempt) -> impl Future<Output = Verdict> + Send;

    /// A name was looked up for the first time in this run.
    fn looked_up(&self, name: &str);

    /// An allowed connection ended.
    fn closed(&self, connection: ConnectionId, how: Closed);

    /// The gateway refused something by itself, before any rule was asked (floor addresses, UDP 443,
    /// a name that is no name): for the feed and for `foreman why`.
    fn refused(&self, protocol: Protocol, host: Host, port: u16, why: &str);

    /// As [`Judge::refused`], for `count` more like one that was told before. Repeats are counted
    /// and told at most once a second.
    fn refused_again(&self, protocol: Protocol, host: Host, port: u16, why: &str, count: u64) {
        let _ = count;
        self.refused(protocol, host, port, why);
    }
}
