//! What the run uses now: measured when an engine asks, and at no other time.
//!
//! Processor time, memory and processes come from one walk through the cage's own `/proc`. What the
//! worktree takes on the disk is found by a walk through it, seldom and bounded, which nobody waits for:
//! until there is a figure there is none. The run can change its worktree meanwhile, so the walk never
//! leaves it, whatever is put in its way.

use crate::protocol::Usage;
use foreman_cage::Cage;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::Mode;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two walks through the worktree; longer after one that took long.
const WALK_EVERY: Duration = Duration::from_secs(10);
const TIMES_AS_LONG: u32 = 20;
/// A walk ends without a figure after so many entries, or so long.
const ENTRIES: usize = 300_000;
const PATIENCE: Duration = Duration::from_secs(3);

/// Measures a run; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Gauge(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    worktree: PathBuf,
    began: Instant,
    /// The cage, while there is one to measure. Held while it is measured.
    cage: tokio::sync::Mutex<Option<Arc<Cage>>>,
    /// When the wall time is up.
    wall_end: Mutex<Option<Instant>>,
    disk: Mutex<Disk>,
}

#[derive(Debug, Default)]
struct Disk {
    bytes: Option<u64>,
    is_walking: bool,
    next: Option<Instant>,
}

impl Gauge {
    pub(super) fn new(worktree: &Path) -> Self {
        Self(Arc::new(Inner {
            worktree: worktree.to_owned(),
            began: Instant::now(),
            cage: tokio::sync::Mutex::default(),
            wall_end: Mutex::default(),
            disk: Mutex::default(),
        }))
    }

    /// From here on there is something to measure.
    pub(super) async fn open(&self, cage: &Arc<Cage>, wall_seconds: Option<u64>) {
        *self.0.cage.lock().await = Some(Arc::clone(cage));
        let end = wall_seconds
            .and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        *lock(&self.0.wall_end) = end;
    }

    /// From here on there is not, and nobody holds the cage.
    pub(super) async fn close(&self) {
        *self.0.cage.lock().await = None;
        *lock(&self.0.wall_end) = None;
    }

    /// What the run uses now. Nothing is known of one whose cage is not there.
    pub(super) async fn measure(&self) -> Usage {
        let mut usage = Usage {
            elapsed_ms: millis(self.0.began.elapsed()),
            ..Usage::default()
        };
        {
            let cage = self.0.cage.lock().await;
            let Some(cage) = cage.as_ref() else {
                return usage;
            };
            // A few files of `/proc` a process: as quick as one look of the watchdog.
            let processes = cage.processes();
            let held: u64 = processes.iter().map(|process| process.rss_bytes).sum();
            usage.memory_bytes = Some(held.saturating_add(cage.files_in_memory()));
            if let Some(spent) = cage.spent() {
                usage.cpu_ms = Some(spent.cpu_ms);
                usage.processes = Some(spent.threads);
            }
        }
        usage.disk_bytes = self.disk();
        usage.wall_left_ms =
            lock(&self.0.wall_end).map(|end| millis(end.saturating_duration_since(Instant::now())));
        usage
    }

    /// The last figure, and a walk for the next one when it is time.
    fn disk(&self) -> Option<u64> {
        let mut disk = lock(&self.0.disk);
        let is_time = disk.next.is_none_or(|next| Instant::now() >= next);
        if is_time && !disk.is_walking {
            disk.is_walking = true;
            let gauge = self.clone();
            tokio::task::spawn_blocking(move || {
                let begun = Instant::now();
                let found = size_of(&gauge.0.worktree);
                let mut disk = lock(&gauge.0.disk);
                disk.bytes = found;
                disk.is_walking = false;
                let pause = WALK_EVERY.max(begun.elapsed() * TIMES_AS_LONG);
                disk.next = Instant::now().checked_add(pause);
            });
        }
        disk.bytes
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Bytes that a folder and everything below it take on its file system; none when there is too much.
fn size_of(root: &Path) -> Option<u64> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let root = nix::fcntl::open(root, flags, Mode::empty()).ok()?;
    let (begun, mut seen, mut bytes) = (Instant::now(), 0, 0_u64);
    let mut folders = vec![PathBuf::from(".")];
    while let Some(folder) = folders.pop() {
        let how = OpenHow::new().flags(flags).resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_XDEV,
        );
        // What is gone, or is not a folder any more, takes nothing.
        let Ok(open) = openat2(&root, &folder, how) else {
            continue;
        };
        let Ok(entries) = std::fs::read_dir(format!("/proc/self/fd/{}", open.as_raw_fd())) else {
            continue;
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > ENTRIES || begun.elapsed() > PATIENCE {
                return None;
            }
            let Ok(meta) = entry.metadata() else { continue };
            bytes = bytes.saturating_add(meta.blocks().saturating_mul(512));
            if meta.is_dir() {
                folders.push(folder.join(entry.file_name()));
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_counts_what_is_in_the_worktree_and_never_leaves_it() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let large = vec![7_u8; 4 << 20];
        std::fs::write(outside.path().join("large"), &large).unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        std::fs::create_dir(inside.path().join("folder")).unwrap();
        std::fs::write(inside.path().join("folder/file"), &large[..1 << 20]).unwrap();
        let bytes = size_of(inside.path()).unwrap();
        assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
        assert_eq!(size_of(&inside.path().join("link")), None);
    }

    #[tokio::test]
    async fn a_run_without_a_cage_has_no_figures() {
        let gauge = Gauge::new(Path::new("/nowhere"));
        let usage = gauge.measure().await;
        assert_eq!(usage.memory_bytes, None);
        assert_eq!(usage.wall_left_ms, None);
    }
}
