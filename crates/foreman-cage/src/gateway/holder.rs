//! Finds the process behind a connection or flow: socket table, then the descriptors of the cage's
//! own processes.
//!
//! Only descendants of the cage's process 1 are looked at, so a process of the host can never be
//! named. What is found is a statement about a moment; a process that is gone gives `None`. Finding
//! costs a walk, so it is limited: a cage that floods gets its first holders named, and then few.

use super::packet::Flow;
use super::sockets_of::rows;
use foreman_domain::{Holder, Protocol};
use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Arguments of a process that are kept, and bytes of each.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 256;

/// Walks that may follow each other at once.
const BURST: f64 = 64.0;
/// Walks a second in the long run.
const RATE: f64 = 20.0;
/// A walk ends here, found or not.
const LONGEST_WALK: Duration = Duration::from_millis(250);

/// Finds processes of one cage.
#[derive(Debug)]
pub(crate) struct Holders {
    init: u32,
    allowance: Mutex<Allowance>,
}

#[derive(Debug)]
struct Allowance {
    walks: f64,
    at: Instant,
}

impl Holders {
    /// For the cage whose process 1 this process sees as `init`.
    pub fn new(init: u32) -> Self {
        Self {
            init,
            allowance: Mutex::new(Allowance {
                walks: BURST,
                at: Instant::now(),
            }),
        }
    }

    /// Process 1 of the cage, as this process sees it.
    pub fn init(&self) -> u32 {
        self.init
    }

    /// The process that has the inner end of `flow`.
    pub fn find(&self, protocol: Protocol, flow: Flow) -> Option<Holder> {
        if !self.may_walk() {
            return None;
        }
        let until = Instant::now() + LONGEST_WALK;
        let table = rows(self.init, protocol).ok()?;
        let row = table
            .iter()
            .find(|row| row.is_end_of(protocol, flow) && row.inode != 0)?;
        let wanted = format!("socket:[{}]", row.inode);
        let mut queue = vec![self.init];
        let mut seen = HashSet::new();
        while let Some(pid) = queue.pop() {
            if !seen.insert(pid) {
                continue;
            }
            if Instant::now() > until {
                return None;
            }
            if let Some(holder) = self.holder_if_it_has(pid, &wanted) {
                return Some(holder);
            }
            children(pid, &mut queue);
        }
        None
    }

    fn may_walk(&self) -> bool {
        let mut allowance = self
            .allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let earned = now.duration_since(allowance.at).as_secs_f64() * RATE;
        allowance.walks = (allowance.walks + earned).min(BURST);
        allowance.at = now;
        if allowance.walks < 1.0 {
            return false;
        }
        allowance.walks -= 1.0;
        true
    }

    fn holder_if_it_has(&self, pid: u32, wanted: &str) -> Option<Holder> {
        let has = |entry: &std::path::Path| {
            fs::read_link(entry).is_ok_and(|target| target.as_os_str() == wanted)
        };
        let descriptor = fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| has(path))?;
        let holder = Holder {
            pid: self.pid_inside(pid)?,
            argv: argv(pid),
        };
        // Still the same process: a number can be given to another one meanwhile.
        has(&descriptor).then_some(holder)
    }

    /// The process's number in the cage: the kernel lists one for each nested namespace, and the
    /// cage is as deep as its process 1.
    fn pid_inside(&self, pid: u32) -> Option<u32> {
        let depth = numbers(self.init)?.len();
        numbers(pid)?.get(depth.checked_sub(1)?).copied()
    }
}

fn numbers(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace()
        .map(|number| number.parse().ok())
        .collect()
}

/// Adds the children of a process. Where the kernel does not list them, all processes are searched.
fn children(pid: u32, into: &mut Vec<u32>) {
    const CHILDREN_AT_MOST: usize = 65_536;
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return;
    };
    for thread in threads.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => {
                let found = list
                    .split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok());
                into.extend(found.take(CHILDREN_AT_MOST));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                into.extend(children_by_search(pid));
                return;
            }
            Err(_) => {}
        }
    }
}

fn children_by_search(parent: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let parent = parent.to_string();
    let is_child = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|status| {
            let parents = status.lines().filter_map(|line| line.strip_prefix("PPid:"));
            parents.map(str::trim).any(|found| found == parent)
        })
    };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_child)
        .collect()
}

/// Argument vector of a process, as it claims it.
pub(crate) fn argv(pid: u32) -> Vec<String> {
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(format!("/proc/{pid}/cmdline")) {
        let most = (ARGUMENTS * ARGUMENT_BYTES * 2) as u64;
        let _ = file.take(most).read_to_end(&mut bytes);
    }
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes
        .split(|byte| *byte == 0)
        .take(ARGUMENTS)
        .map(shortened)
        .collect()
}

fn shortened(argument: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(argument).into_owned();
    if text.len() > ARGUMENT_BYTES {
        text.truncate(text.floor_char_boundary(ARGUMENT_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_below_the_first_one_is_found_by_its_socket() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let socket = std::net::TcpStream::connect(here).unwrap();
        let flow = Flow::new(socket.local_addr().unwrap(), here);
        let found = Holders::new(std::process::id())
            .find(Protocol::Tcp, flow)
            .unwrap();
        assert_eq!(found.pid, std::process::id());
        assert!(!found.argv.is_empty());
    }

    #[test]
    fn walks_are_limited() {
        let holders = Holders::new(std::process::id());
        let walks = (0..1000).filter(|_| holders.may_walk()).count();
        assert!((64..100).contains(&walks), "{walks}");
    }

    #[test]
    fn long_arguments_are_cut_between_characters() {
        let long = shortened("ä".repeat(1000).as_bytes());
        assert!(long.len() <= ARGUMENT_BYTES && long.ends_with("ä…"));
        assert_eq!(shortened(b"plain"), "plain");
    }
}
