//! Who lives in a cage, read from the cage's own `/proc`: cheap, and nobody can hide from it.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

/// One process of a cage, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSample {
    /// Process id inside the cage.
    pub pid: u32,
    /// Resident memory.
    pub rss_bytes: u64,
}

/// Every process but process 1. Empty when the cage is gone.
pub(crate) fn take(proc: BorrowedFd<'_>) -> Vec<ProcessSample> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)
        .ok()
        .flatten();
    let page = page
        .and_then(|size| u64::try_from(size).ok())
        .unwrap_or(4096);
    // The name of an open directory: it leads into the cage's /proc, wherever that is mounted.
    let dir = format!("/proc/self/fd/{}", proc.as_raw_fd());
    let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != 1)
        .filter_map(|pid| {
            // One that ends at this very moment is not counted.
            let text =
                std::fs::read_to_string(Path::new(&dir).join(format!("{pid}/statm"))).ok()?;
            let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
            Some(ProcessSample {
                pid,
                rss_bytes: pages * page,
            })
        })
        .collect()
}
