//! Which kind of gate is tried first.
//!
//! A set of rules with a part that the kernel lacks costs a whole grace period of it, longer than
//! everything else that a launch does. The one part that can be asked for beforehand is the older
//! queue target, so where that is there, it goes first.

use super::GateKind;
use super::netlink::{Message, Protocol, Socket, flag};
use std::io;

/// Kinds of gate, the one to try first at the beginning. To be called where rules will be written.
pub(super) fn preference() -> [GateKind; 3] {
    let mut kinds = GateKind::PREFERENCE;
    if knows_queue_target().is_ok() {
        kinds.sort_by_key(|kind| *kind != GateKind::CompatQueue);
    }
    kinds
}

/// Asks `nft_compat` for the target NFQUEUE.
fn knows_queue_target() -> io::Result<()> {
    const COMPAT_GET: u16 = 11 << 8;
    const IPV4: [u8; 4] = [libc::AF_INET as u8, 0, 0, 0];
    const NAME: u16 = 1;
    const REVISION: u16 = 2;
    const KIND: u16 = 3;
    const KIND_TARGET: u32 = 1;
    const NEWEST_REVISION: u32 = 3;
    let mut socket = Socket::open(Protocol::Netfilter)?;
    let sequence = socket.next_sequence();
    let message = Message::new(COMPAT_GET, flag::REQUEST | flag::ACK, sequence)
        .fixed(&IPV4)
        .text(NAME, "NFQUEUE")
        .number(REVISION, NEWEST_REVISION)
        .number(KIND, KIND_TARGET);
    socket.call(message)
}
