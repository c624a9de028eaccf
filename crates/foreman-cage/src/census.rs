//! Who lives in a cage and what memory they take, read from the cage's own `/proc`: cheap, and a process
//! cannot hide from it, nor behind a first thread that has ended.
//!
//! Beside the processes, memory is in files: those of the cage's file systems in memory, and those that
//! only descriptors name. Not seen are files in memory that nobody holds at the moment (they are on their
//! way through a socket), detached segments of System V, and the buffers of pipes and sockets.

use crate::pause::{Standing, Standings};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use std::collections::HashSet;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Descriptors that one look is spent on.
const MOST_DESCRIPTORS: usize = 20_000;

/// One process of a cage, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// Process id inside the cage.
    pub pid: u32,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// Who is counted: everybody in a `/proc` of the cage's own, or in the machine's, what came of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Population<'a> {
    pub proc: BorrowedFd<'a>,
    pub came_of: Option<u32>,
}

/// Every process but process 1. Empty when the cage is gone.
pub(crate) fn take(proc: Population<'_>) -> Vec<ProcessSample> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten();
    let page = page
        .and_then(|size| u64::try_from(size).ok())
        .unwrap_or(4096);
    let dir = place(proc.proc);
    let pages = |pid: u32| {
        let pages = resident_pages(&dir.join(format!("{pid}/statm")))?;
        if pages > 0 {
            return Some(pages);
        }
        // A first thread that has ended shows nothing of what its process still holds.
        let threads = std::fs::read_dir(dir.join(format!("{pid}/task"))).ok()?;
        let each = threads
            .flatten()
            .filter_map(|thread| resident_pages(&thread.path().join("statm")));
        each.max()
    };
    numbers(&dir, proc)
        .filter_map(|pid| {
            // One that ends at this very moment is not counted.
            Some(ProcessSample {
                pid,
                rss_bytes: pages(pid)? * page,
            })
        })
        .collect()
}

/// The name of an open directory: it leads into the cage's `/proc`, wherever that is mounted.
fn place(proc: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", proc.as_raw_fd()))
}

/// Every process but process 1.
fn numbers(dir: &Path, of: Population<'_>) -> impl Iterator<Item = u32> + use<> {
    let all = match of.came_of {
        Some(first) => family(first).split_off(1),
        None => listed(dir),
    };
    all.into_iter()
}

fn listed(dir: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != 1)
        .collect()
}

/// All that came of a process, for one that adopts orphans and has no children of its own any more.
pub(crate) fn orphans_of(process: u32) -> Vec<u32> {
    family(process).split_off(1)
}

/// A process of the host and all that came of it, itself first.
pub(crate) fn family(process: u32) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        next += 1;
        let threads = std::fs::read_dir(format!("/proc/{parent}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = std::fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            found.extend(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
    }
    found
}

fn resident_pages(statm: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(statm).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

/// What a cage has used of the processors, and how much runs in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Processor time of its processes so far, and of those of theirs that have ended, in milliseconds.
    pub cpu_ms: u64,
    /// Processes and threads, process 1 aside.
    pub threads: u32,
}

/// None when the cage is gone.
pub(crate) fn spent(proc: Population<'_>) -> Option<Spent> {
    let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)
        .ok()
        .flatten();
    let ticks = ticks
        .and_then(|ticks| u64::try_from(ticks).ok())
        .filter(|ticks| *ticks > 0)
        .unwrap_or(100);
    let dir = place(proc.proc);
    let of = |pid: u32| times_of(&std::fs::read_to_string(dir.join(format!("{pid}/stat"))).ok()?);
    // Process 1 has waited for what nobody else did.
    let (mut used, _) = of(proc.came_of.unwrap_or(1))?;
    let mut threads = 0_u32;
    for pid in numbers(&dir, proc) {
        // One that ends at this very moment is counted by its parent.
        if let Some((times, running)) = of(pid) {
            used = used.saturating_add(times);
            threads = threads.saturating_add(running);
        }
    }
    Some(Spent {
        cpu_ms: used.saturating_mul(1000) / ticks,
        threads,
    })
}

/// Ticks of a process and of its children that ended, and its threads.
fn times_of(stat: &str) -> Option<(u64, u32)> {
    // The name may hold anything, a parenthesis too.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let mut ticks = 0_u64;
    for field in fields.get(11..15)? {
        // Children's times are signed; they are never below zero.
        ticks = ticks.saturating_add(field.parse().ok()?);
    }
    Some((ticks, fields.get(17)?.parse().ok()?))
}

/// Every thread of every process but process 1.
pub(crate) fn threads(proc: Population<'_>) -> Standings {
    let dir = place(proc.proc);
    let mut standings = Standings::new();
    for pid in numbers(&dir, proc) {
        let Ok(threads) = std::fs::read_dir(dir.join(format!("{pid}/task"))) else {
            continue;
        };
        for thread in threads.flatten() {
            let Some(number) = thread
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            // One that ends at this very moment does not run any more.
            let status = std::fs::read_to_string(thread.path().join("status"));
            if let Some(standing) = status.ok().as_deref().and_then(standing_of) {
                standings.insert((pid, number), standing);
            }
        }
    }
    standings
}

fn standing_of(status: &str) -> Option<Standing> {
    let (mut state, mut switches) = (None, 0_u64);
    // The name of a program is escaped by the kernel, so that it is one line.
    for line in status.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        match key {
            "State" => state = value.trim_start().bytes().next(),
            "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches" => {
                switches = switches.saturating_add(value.trim().parse().ok()?);
            }
            _ => {}
        }
    }
    Some(Standing {
        state: state?,
        switches,
    })
}

/// Bytes of files in memory.
pub(crate) fn files_in_memory(proc: Population<'_>) -> u64 {
    let dir = place(proc.proc);
    scratch(proc).saturating_add(behind_descriptors(&dir, proc, true).bytes)
}

/// Bytes that the cage's file systems in memory hold.
pub(crate) fn scratch(proc: Population<'_>) -> u64 {
    let dir = place(proc.proc);
    if proc.came_of.is_some() {
        // File systems in memory are the machine's own there.
        return 0;
    }
    let mounted = numbers(&dir, proc).find_map(|pid| on_file_systems(&dir.join(pid.to_string())));
    mounted.unwrap_or(0)
}

/// What is open in a cage, beside what has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Open {
    /// Bytes of files of a disk that were removed and are still open.
    pub removed_bytes: u64,
    /// Descriptors of the process that has the most.
    pub most: u32,
}

pub(crate) fn open(proc: Population<'_>) -> Open {
    let found = behind_descriptors(&place(proc.proc), proc, false);
    Open {
        removed_bytes: found.bytes,
        most: found.most,
    }
}

/// What the cage's file systems in memory hold, as one of its processes sees them; all see the same.
fn on_file_systems(process: &Path) -> Option<u64> {
    let table = std::fs::read_to_string(process.join("mountinfo")).ok()?;
    let root = process.join("root");
    let path = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(&root, path, nix::sys::stat::Mode::empty()).ok()?;
    let mut seen = HashSet::new();
    let used = table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let (number, point) = (left.split(' ').nth(2)?, left.split(' ').nth(4)?);
        if !right.starts_with("tmpfs ") || !seen.insert(number.to_owned()) {
            return None;
        }
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS;
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(resolve);
        let at = openat2(&root, unescaped(point).as_str(), how).ok()?;
        let figures = nix::sys::statfs::fstatfs(&at).ok()?;
        let block = u64::try_from(figures.block_size()).ok()?;
        let blocks = figures.blocks().saturating_sub(figures.blocks_free());
        Some(blocks.saturating_mul(block))
    });
    Some(used.sum())
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
pub(crate) fn unescaped(point: &str) -> String {
    let escapes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    escapes
        .iter()
        .fold(point.to_owned(), |text, (code, plain)| {
            text.replace(code, plain)
        })
}

/// Files that have no name but a descriptor's, each counted once.
#[derive(Debug, Default)]
struct Nameless {
    bytes: u64,
    /// Descriptors of the process that has the most, as far as was looked.
    most: u32,
}

/// Looks through descriptors: at files in memory, or at those of a disk that were removed.
fn behind_descriptors(dir: &Path, of: Population<'_>, in_memory: bool) -> Nameless {
    const BLOCK: u64 = 512;
    let mut seen = HashSet::new();
    let (mut found, mut looked) = (Nameless::default(), 0);
    for pid in numbers(dir, of) {
        let Ok(descriptors) = std::fs::read_dir(dir.join(format!("{pid}/fd"))) else {
            continue;
        };
        let mut own = 0_u32;
        for descriptor in descriptors.flatten() {
            own = own.saturating_add(1);
            looked += 1;
            if looked > MOST_DESCRIPTORS {
                break;
            }
            let path = descriptor.path();
            let is_memory = std::fs::read_link(&path)
                .is_ok_and(|name| name.as_os_str().as_encoded_bytes().starts_with(b"/memfd:"));
            if is_memory == in_memory
                && let Ok(file) = path.metadata()
                && (in_memory || (file.is_file() && file.nlink() == 0))
                && seen.insert((file.dev(), file.ino()))
            {
                found.bytes = found
                    .bytes
                    .saturating_add(file.blocks().saturating_mul(BLOCK));
            }
        }
        found.most = found.most.max(own);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_whatever_its_program_calls_itself() {
        let status = "Name:\tState:\\nR\nUmask:\t0022\nState:\tT (stopped)\nPid:\t7\n\
                      voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        let standing = Standing {
            state: b'T',
            switches: 15,
        };
        assert_eq!(standing_of(status), Some(standing));
        assert_eq!(standing_of("Name:\tx\n"), None);
    }

    #[test]
    fn times_are_read_whatever_the_process_calls_itself() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 22 33 44 20 0 3 0 99";
        assert_eq!(times_of(stat), Some((11 + 22 + 33 + 44, 3)));
        assert_eq!(times_of("7 (a) S 1"), None);
    }
}
