//! Rules of nf_tables: one table, written as one transaction.
//!
//! Expressions work on registers; everything here uses register 1, so an expression that loads is
//! followed by one that compares or uses.

use super::{Message, Socket, flag};
use std::io;

const SUBSYSTEM: u16 = 10;
const FAMILY_INET: u8 = 1;

/// A table being written; nothing happens before [`Transaction::commit`].
pub(crate) struct Transaction<'a> {
    socket: &'a mut Socket,
    table: &'static str,
    bytes: Vec<u8>,
    wanted: usize,
}

impl<'a> Transaction<'a> {
    /// Starts with an empty new table of the family `inet`.
    pub fn new(socket: &'a mut Socket, table: &'static str) -> Self {
        const BEGIN: u16 = 0x10;
        const NEW_TABLE: u16 = 0;
        let mut transaction = Self {
            socket,
            table,
            bytes: Vec::new(),
            wanted: 0,
        };
        transaction.frame(BEGIN);
        let message = transaction.message(NEW_TABLE, flag::CREATE).text(1, table);
        transaction.push(message);
        transaction
    }

    /// Adds a chain that sees incoming packets before they are routed, lower priorities first.
    pub fn prerouting(&mut self, chain: &str, priority: i32) {
        const NEW_CHAIN: u16 = 3;
        const HOOK_PREROUTING: u32 = 0;
        const POLICY_ACCEPT: u32 = 1;
        let message = self
            .message(NEW_CHAIN, flag::CREATE)
            .text(1, self.table)
            .text(3, chain)
            .nest(4, |hook| {
                hook.number(1, HOOK_PREROUTING)
                    .number(2, priority.cast_unsigned())
            })
            .number(5, POLICY_ACCEPT)
            .text(7, "filter");
        self.push(message);
    }

    /// Adds a rule at the end of a chain.
    pub fn rule(&mut self, chain: &str, expressions: impl IntoIterator<Item = Expression>) {
        const NEW_RULE: u16 = 6;
        const ELEMENT: u16 = 1;
        let message = self
            .message(NEW_RULE, flag::CREATE | flag::APPEND)
            .text(1, self.table)
            .text(2, chain)
            .nest(4, |list| {
                expressions.into_iter().fold(list, |list, expression| {
                    list.nest(ELEMENT, |element| expression.write(element))
                })
            });
        self.push(message);
    }

    /// Makes it so, all of it or nothing.
    pub fn commit(mut self) -> io::Result<()> {
        const END: u16 = 0x11;
        self.frame(END);
        self.socket.send(&self.bytes)?;
        self.socket.acknowledged(self.wanted)
    }

    /// Begin and end of a batch; the kernel does not acknowledge them.
    fn frame(&mut self, kind: u16) {
        let sequence = self.socket.next_sequence();
        let [high, low] = SUBSYSTEM.to_be_bytes();
        let message = Message::new(kind, flag::REQUEST, sequence).fixed(&[0, 0, high, low]);
        self.bytes.extend(message.finish());
    }

    fn message(&mut self, kind: u16, flags: u16) -> Message {
        let flags = flag::REQUEST | flag::ACK | flags;
        Message::new(SUBSYSTEM << 8 | kind, flags, self.socket.next_sequence()).fixed(&[
            FAMILY_INET,
            0,
            0,
            0,
        ])
    }

    fn push(&mut self, message: Message) {
        self.bytes.extend(message.finish());
        self.wanted += 1;
    }
}

/// Which header a payload expression reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// IPv4 or IPv6.
    Network,
    /// TCP, UDP, ICMP.
    Transport,
}

/// What a rejected sender is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// A TCP reset.
    Reset,
    /// Port unreachable.
    Port,
    /// Host unreachable.
    Host,
    /// Administratively prohibited.
    Prohibited,
}

/// What a packet carries with it in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meta {
    /// The mark.
    Mark,
    /// IPv4 or IPv6.
    NetworkProtocol,
    /// TCP, UDP, ICMP.
    TransportProtocol,
}

/// One step of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// Loads what the kernel knows of the packet.
    LoadMeta(Meta),
    /// Loads bytes of the packet.
    LoadPayload {
        /// From which header.
        header: Header,
        /// From which byte.
        offset: u32,
        /// How many.
        length: u32,
    },
    /// Loads a constant.
    LoadConstant(Vec<u8>),
    /// Keeps only these bits.
    Mask(Vec<u8>),
    /// Goes on only when equal.
    Equals(Vec<u8>),
    /// Ends: the packet passes.
    Accept,
    /// Ends: the packet is gone.
    Drop,
    /// Ends: the packet is gone, and its sender is told.
    Reject(Rejection),
    /// Gives the packet to the transparent socket that listens on the loaded port.
    TransparentProxy,
    /// Holds the packet in a queue.
    Queue(u16),
    /// Holds the packet in a queue, by the older target.
    CompatQueue(u16),
    /// Copies the first bytes of the packet to a log group.
    Log {
        /// The group.
        group: u16,
        /// How many bytes.
        bytes: u32,
    },
}

const REGISTER: u32 = 1;
const VERDICT_REGISTER: u32 = 0;

impl Expression {
    fn write(self, message: Message) -> Message {
        let name = self.name();
        message.text(1, name).nest(2, |data| self.write_data(data))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::LoadMeta(_) => "meta",
            Self::LoadPayload { .. } => "payload",
            Self::LoadConstant(_) | Self::Accept | Self::Drop => "immediate",
            Self::Mask(_) => "bitwise",
            Self::Equals(_) => "cmp",
            Self::Reject(_) => "reject",
            Self::TransparentProxy => "tproxy",
            Self::Queue(_) => "queue",
            Self::CompatQueue(_) => "target",
            Self::Log { .. } => "log",
        }
    }

    fn write_data(self, data: Message) -> Message {
        match self {
            Self::LoadMeta(meta) => data.number(2, meta.key()).number(1, REGISTER),
            Self::LoadPayload {
                header,
                offset,
                length,
            } => data
                .number(1, REGISTER)
                .number(2, header.base())
                .number(3, offset)
                .number(4, length),
            Self::LoadConstant(bytes) => data
                .number(1, REGISTER)
                .nest(2, |value| value.attribute(1, &bytes)),
            Self::Mask(bits) => {
                let nothing = vec![0; bits.len()];
                data.number(1, REGISTER)
                    .number(2, REGISTER)
                    .number(3, u32::try_from(bits.len()).unwrap_or(u32::MAX))
                    .nest(4, |mask| mask.attribute(1, &bits))
                    .nest(5, |xor| xor.attribute(1, &nothing))
            }
            Self::Equals(bytes) => {
                const EQUAL: u32 = 0;
                data.number(1, REGISTER)
                    .number(2, EQUAL)
                    .nest(3, |value| value.attribute(1, &bytes))
            }
            Self::Accept => write_verdict(data, 1),
            Self::Drop => write_verdict(data, 0),
            Self::Reject(rejection) => {
                let (kind, code) = rejection.codes();
                data.number(1, kind).attribute(2, &[code])
            }
            Self::TransparentProxy => {
                const ANY_FAMILY: u32 = 0;
                data.number(1, ANY_FAMILY).number(3, REGISTER)
            }
            Self::Queue(number) => data.short(1, number),
            Self::CompatQueue(number) => {
                // Revision 0 of the target: a 16-bit number, padded to eight bytes.
                let mut info = [0; 8];
                info[..2].copy_from_slice(&number.to_ne_bytes());
                data.text(1, "NFQUEUE").number(2, 0).attribute(3, &info)
            }
            Self::Log { group, bytes } => {
                const AT_ONCE: u16 = 1;
                data.short(1, group).number(3, bytes).short(4, AT_ONCE)
            }
        }
    }
}

fn write_verdict(data: Message, code: u32) -> Message {
    data.number(1, VERDICT_REGISTER)
        .nest(2, |value| value.nest(2, |verdict| verdict.number(1, code)))
}

impl Meta {
    fn key(self) -> u32 {
        match self {
            Self::Mark => 3,
            Self::NetworkProtocol => 15,
            Self::TransportProtocol => 16,
        }
    }
}

impl Header {
    fn base(self) -> u32 {
        match self {
            Self::Network => 1,
            Self::Transport => 2,
        }
    }
}

impl Rejection {
    /// Type and code of the `reject` expression.
    fn codes(self) -> (u32, u8) {
        const TCP_RESET: u32 = 1;
        const UNREACHABLE: u32 = 2;
        match self {
            Self::Reset => (TCP_RESET, 0),
            Self::Port => (UNREACHABLE, 1),
            Self::Host => (UNREACHABLE, 2),
            Self::Prohibited => (UNREACHABLE, 3),
        }
    }
}
