//! Who listens on loopback. Of the operator's own: which ports are the engine's, and so never reached from a
//! cage.
//!
//! Known by who listens: a program of the engine's own, of this account. A port that only another account
//! may look at is none of ours.

use super::sockets_of::{Row, rows};
use foreman_domain::Protocol;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::net::IpAddr;

/// The kernel's number for a socket that listens.
const LISTENS: u8 = 10;

/// Programs of the engine.
const OWN: [&str; 3] = ["foreman", "foreman-shim", "sdf"];

/// Why a port of this machine's loopback can never be reached from a cage, as a sentence; `None` when a rule
/// decides. A scan of this account's processes where somebody listens. Blocking.
///
/// # Errors
/// When it cannot be found out.
pub(crate) fn why_forbidden(port: u16) -> io::Result<Option<String>> {
    let rows = listeners(std::process::id())?;
    let listening: HashSet<u64> = rows
        .filter(|row| row.local.port() == port)
        .map(|row| row.inode)
        .collect();
    if listening.is_empty() || !engine_has(&listening)? {
        return Ok(None);
    }
    Ok(Some(format!(
        "port {port} of this machine is the engine's own, which no rule can open"
    )))
}

/// The ports of loopback on which anything listens in the network of a process.
///
/// # Errors
/// When that cannot be read.
pub(crate) fn listening_ports(pid: u32) -> io::Result<HashSet<u16>> {
    Ok(listeners(pid)?.map(|row| row.local.port()).collect())
}

fn listeners(pid: u32) -> io::Result<impl Iterator<Item = Row>> {
    let rows = rows(pid, Protocol::Tcp)?.into_iter();
    Ok(rows.filter(|row| row.state == LISTENS && is_own(row.local.ip())))
}

/// Whether a listener there takes connections to loopback.
fn is_own(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

fn engine_has(listening: &HashSet<u64>) -> io::Result<bool> {
    for entry in fs::read_dir("/proc")?.flatten() {
        let process = entry.path();
        // Another account's, or gone.
        let Ok(program) = fs::read_link(process.join("exe")) else {
            continue;
        };
        let name = program
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        // A program that was replaced while it runs, as by an update.
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        if !OWN.contains(&name) {
            continue;
        }
        let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
            continue;
        };
        let has = descriptors.flatten().any(|entry| {
            fs::read_link(entry.path())
                .ok()
                .and_then(|link| {
                    let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
                    inode.parse().ok()
                })
                .is_some_and(|inode: u64| listening.contains(&inode))
        });
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_another_program_is_a_matter_of_rules() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(why_forbidden(port).unwrap(), None);
        drop(listener);
        assert_eq!(why_forbidden(port).unwrap(), None);
    }
}
