//! The kernel's tables of sockets (`/proc/<pid>/net/tcp` and its like), read as rows.
//!
//! The text comes from the kernel, but what is in it is chosen by the cage. A line that is not
//! understood is left out.

use super::packet::{Flow, canonical};
use foreman_domain::Protocol;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its own end.
    pub local: SocketAddr,
    /// The other end; unspecified when it has none.
    pub remote: SocketAddr,
    /// The kernel's number for its state.
    pub state: u8,
    /// Its inode: what a process's descriptors point to. 0 when no process has it any more.
    pub inode: u64,
}

impl Row {
    /// True for a TCP socket that waits for the answer to its first segment.
    pub fn is_connecting(&self) -> bool {
        const SYN_SENT: u8 = 2;
        self.state == SYN_SENT
    }

    /// True when this socket is the inner end of `flow`.
    pub fn is_end_of(&self, protocol: Protocol, flow: Flow) -> bool {
        let same_source = self.local.port() == flow.source.port()
            && (self.local.ip() == flow.source.ip()
                || (protocol == Protocol::Udp && self.local.ip().is_unspecified()));
        let same_destination = self.remote == flow.destination
            || (protocol == Protocol::Udp && self.remote.ip().is_unspecified());
        same_source && same_destination
    }
}

/// All sockets of a protocol in the network namespace of a process.
///
/// # Errors
/// When none of the tables can be read.
pub(crate) fn rows(pid: u32, protocol: Protocol) -> io::Result<Vec<Row>> {
    let names = match protocol {
        Protocol::Tcp => ["tcp", "tcp6"],
        Protocol::Udp => ["udp", "udp6"],
    };
    let mut rows = Vec::new();
    let [first, second] = names.map(|name| read_into(&mut rows, pid, name));
    // A kernel without IPv6 has no second table.
    first.or(second)?;
    Ok(rows)
}

fn read_into(rows: &mut Vec<Row>, pid: u32, name: &str) -> io::Result<()> {
    const ROWS_AT_MOST: usize = 200_000;
    let file = std::fs::File::open(format!("/proc/{pid}/net/{name}"))?;
    let mut lines = BufReader::with_capacity(64 << 10, file);
    let mut line = String::new();
    while rows.len() < ROWS_AT_MOST && lines.read_line(&mut line)? > 0 {
        rows.extend(row(&line));
        line.clear();
    }
    Ok(())
}

/// `sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode ...`
fn row(line: &str) -> Option<Row> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = end(fields.next()?)?;
    let remote = end(fields.next()?)?;
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    let inode = fields.nth(5)?.parse().ok()?;
    Some(Row {
        local,
        remote,
        state,
        inode,
    })
}

fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| {
        let digits = address.get(at..at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let mut octets = [0; 16];
            for (index, place) in octets.chunks_mut(4).enumerate() {
                place.copy_from_slice(&word(index * 8)?);
            }
            Ipv6Addr::from(octets).into()
        }
        _ => return None,
    };
    Some(canonical(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_row_of_each_family_is_read() {
        let line = "   0: 0200A8C0:9C40 0A7100CB:01BB 02 00000001:00000000 01:00000014 00000000  \
                    1000        0 4242 2 0000000000000000";
        let read = row(line).unwrap();
        assert_eq!(read.local, "192.168.0.2:40000".parse().unwrap());
        assert_eq!(read.remote, "203.0.113.10:443".parse().unwrap());
        assert!(read.is_connecting());
        assert_eq!(read.inode, 4242);
        let mapped = "0: 0000000000000000FFFF00000200A8C0:9C40 \
                      B80D0120000000000000000001000000:0035 07 0:0 0:0 0 0 0 7";
        let read = row(mapped).unwrap();
        assert_eq!(read.local, "192.168.0.2:40000".parse().unwrap());
        assert_eq!(read.remote, "[2001:db8::1]:53".parse().unwrap());
    }

    #[test]
    fn the_tables_of_this_process_hold_its_listener() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let local = listener.local_addr().unwrap();
        let rows = rows(std::process::id(), Protocol::Tcp).unwrap();
        assert!(rows.iter().any(|row| row.local == local && row.inode != 0));
    }

    #[test]
    fn an_unconnected_datagram_socket_is_the_end_of_its_flows() {
        let flow = Flow::new(
            "198.18.0.2:5000".parse().unwrap(),
            "203.0.113.1:9".parse().unwrap(),
        );
        let any = "0.0.0.0:0".parse().unwrap();
        let local = "0.0.0.0:5000".parse().unwrap();
        let row = Row {
            local,
            remote: any,
            state: 7,
            inode: 1,
        };
        assert!(row.is_end_of(Protocol::Udp, flow));
        assert!(!row.is_end_of(Protocol::Tcp, flow));
    }

    proptest! {
        #[test]
        fn any_line_can_be_read(line: String) {
            let _ = row(&line);
        }
    }
}
