//! Tries at the network: two questions to the gateway, and a look at the devices.

use super::Tries;
use crate::{ProbeResult, kernel};
use foreman_domain::Wall;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Where the probes connect: a metadata service, which no policy can allow, at a port that nobody else
/// has a use for. What is refused there is no news.
pub const PROBE_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(169, 254, 169, 254), 1);

/// The name that the probes look up: reserved, so nobody has it, but an ordinary one to the gateway.
pub const PROBE_NAME: &str = "probe.foreman.example";

const ID: [u8; 2] = [0x46, 0x4d];

/// Both answers come from the gateway, without leaving the machine.
const LIMIT: Duration = Duration::from_secs(2);

/// What a connection must be answered where there is no gateway: there is no way to anywhere.
const NO_WAY: [i32; 3] = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::ENETDOWN];

/// Questions under way.
pub(super) struct Asked {
    gateway: bool,
    since: Instant,
    connecting: io::Result<OwnedFd>,
    looking_up: io::Result<UdpSocket>,
}

/// Asks both questions; waits for nothing.
pub(super) fn ask(gateway: bool) -> Asked {
    let since = Instant::now();
    let connecting = kernel::begin_connect(PROBE_ADDRESS);
    let looking_up = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.send_to(&query(), (crate::gateway::resolver_address(), 53))?;
        Ok(socket)
    });
    Asked {
        gateway,
        since,
        connecting,
        looking_up,
    }
}

impl Asked {
    /// Waits for both answers.
    pub fn answers(self) -> [ProbeResult; 2] {
        let deadline = self.since + LIMIT;
        if self.gateway {
            let refused = &[libc::ECONNREFUSED];
            [
                network(self.connecting, refused, deadline),
                dns(self.looking_up, deadline),
            ]
        } else {
            [
                network(self.connecting, &NO_WAY, deadline),
                no_dns(self.looking_up),
            ]
        }
    }
}

fn network(connecting: io::Result<OwnedFd>, answers: &[i32], deadline: Instant) -> ProbeResult {
    let mut tries = Tries::at(Wall::Network);
    let devices = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let devices: Vec<&str> = devices
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim())
        .collect();
    if devices == ["lo"] {
        tries.note("see a network device but lo", true);
    } else {
        tries.note(
            format!("see the network devices {}", devices.join(", ")),
            false,
        );
    }
    let connected = connecting.and_then(|socket| {
        let left = deadline.saturating_duration_since(Instant::now());
        kernel::finish_connect(socket.as_fd(), left)
    });
    tries.must_fail(format!("connect to {PROBE_ADDRESS}"), connected, answers);
    tries.result()
}

/// Nothing can even be asked where there is no way to anywhere.
fn no_dns(looking_up: io::Result<UdpSocket>) -> ProbeResult {
    let mut tries = Tries::at(Wall::Dns);
    tries.must_fail(format!("ask for {PROBE_NAME}"), looking_up, &NO_WAY);
    tries.result()
}

fn dns(looking_up: io::Result<UdpSocket>, deadline: Instant) -> ProbeResult {
    let answer = looking_up.and_then(|socket| {
        let left = deadline.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut buffer = [0u8; 512];
        let length = socket.recv(&mut buffer)?;
        Ok(address_in(buffer.get(..length).unwrap_or_default()))
    });
    let name = PROBE_NAME;
    let (holds, detail) = match answer {
        Ok(Some(address)) if is_fake(address) => (
            true,
            format!("{name} got {address} from the cage's own resolver"),
        ),
        Ok(Some(address)) => (
            false,
            format!("{name} got {address}, which is not the cage's own"),
        ),
        Ok(None) => (false, format!("the resolver gave no address for {name}")),
        Err(error) => (false, format!("the resolver did not answer: {error}")),
    };
    ProbeResult {
        wall: Wall::Dns,
        holds,
        detail,
    }
}

/// 198.18.0.0/15, which the gateway gives out.
fn is_fake(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 198 && matches!(second, 18 | 19)
}

/// A question for an address of [`PROBE_NAME`].
fn query() -> Vec<u8> {
    let mut query = ID.to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]); // recursion desired; one question
    for label in PROBE_NAME.split('.') {
        query.push(label.len() as u8); // all are short
        query.extend(label.bytes());
    }
    query.extend([0, 0, 1, 0, 1]); // end of name, type A, class IN
    query
}

/// The first address in an answer to [`query`].
fn address_in(answer: &[u8]) -> Option<Ipv4Addr> {
    let question = query().len();
    if answer.get(..2)? != ID || answer.get(2)? & 0x80 == 0 || answer.get(3)? & 0x0f != 0 {
        return None;
    }
    // The question comes back, then a record whose name is mostly a pointer to it.
    let mut at = question;
    loop {
        match *answer.get(at)? {
            0 => break at += 1,
            pointer if pointer & 0xc0 == 0xc0 => break at += 2,
            label => at += 1 + usize::from(label),
        }
    }
    let record = answer.get(at..at + 14)?;
    let (head, address) = record.split_at(10);
    let is_address = head.starts_with(&[0, 1, 0, 1]) && head.ends_with(&[0, 4]);
    is_address.then(|| {
        address
            .try_into()
            .map(|octets: [u8; 4]| Ipv4Addr::from(octets))
            .ok()
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_with(record: &[u8]) -> Vec<u8> {
        let mut answer = query();
        answer[2] |= 0x80;
        answer[7] = 1;
        answer.extend(record);
        answer
    }

    #[test]
    fn an_address_is_found_behind_a_pointer_and_behind_a_name() {
        let fields = [0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 9];
        let by_pointer = [&[0xc0, 12][..], &fields].concat();
        assert_eq!(
            address_in(&answer_with(&by_pointer)),
            Some(Ipv4Addr::new(198, 18, 0, 9))
        );
        let by_name = [&[1, b'a', 0][..], &fields].concat();
        assert_eq!(
            address_in(&answer_with(&by_name)),
            Some(Ipv4Addr::new(198, 18, 0, 9))
        );
    }

    #[test]
    fn anything_else_is_no_address() {
        assert_eq!(address_in(&query()), None, "a question");
        assert_eq!(address_in(&[]), None);
        let text = [0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60, 0, 4, 1, 2, 3, 4];
        assert_eq!(address_in(&answer_with(&text)), None, "another type");
        let mut refused = answer_with(&[]);
        refused[3] |= 3;
        assert_eq!(address_in(&refused), None, "no such name");
    }

    #[test]
    fn only_the_pool_counts_as_the_cages_own() {
        assert!(is_fake(Ipv4Addr::new(198, 19, 255, 1)));
        assert!(!is_fake(Ipv4Addr::new(198, 20, 0, 1)));
    }
}
