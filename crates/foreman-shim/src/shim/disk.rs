//! What a run takes on the disk: a walk through its worktree, on a thread of its own, which nobody waits
//! for.
//!
//! The run can change its worktree meanwhile, so the walk never leaves it, whatever is put in its way. What
//! cannot be looked into is not taken for nothing: the figure says so, and so does one of a walk that was
//! ended because it took too long. An entry counts as a kibibyte at least, because one without any bytes
//! takes room, too.

use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two walks, and how many times as long as the last one took.
const WALK_EVERY: Duration = Duration::from_secs(10);
const TIMES_AS_LONG: u32 = 20;
/// The same where there is a bound to keep.
const WALK_CLOSELY: Duration = Duration::from_secs(1);
/// A walk ends after so long: without a bound, and with one.
const PATIENCE: Duration = Duration::from_secs(3);
const LONG_PATIENCE: Duration = Duration::from_secs(30);
/// What an entry counts as, at least.
const ENTRY: u64 = 1 << 10;
/// A path that is longer than this is opened for what lies below it.
const LONG_PATH: usize = 2_000;

/// What a walk found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Taken {
    /// Bytes on the file system: all, or at least these.
    pub(super) bytes: u64,
    /// The walk did not come to its end.
    pub(super) more: bool,
    /// Something could not be looked into.
    pub(super) hidden: bool,
}

impl Taken {
    /// The figure, where it is a whole one.
    pub(super) fn whole(self) -> Option<u64> {
        (!self.more).then_some(self.bytes)
    }
}

/// Measures a worktree; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Disk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    worktree: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    taken: Option<Taken>,
    walks: u64,
    is_walking: bool,
    next: Option<Instant>,
}

impl Disk {
    pub(super) fn new(worktree: &Path) -> Self {
        Self(Arc::new(Inner {
            worktree: worktree.to_owned(),
            state: Mutex::default(),
        }))
    }

    /// What the last walk found, and its number; begins the next one, where that is wanted, when it is time.
    /// With a bound that is often, and a walk ends soon after it is known to be reached.
    pub(super) fn taken(&self, bound: Option<u64>, is_wanted: bool) -> Option<(u64, Taken)> {
        let mut state = self.lock();
        let is_time = state.next.is_none_or(|next| Instant::now() >= next);
        if is_wanted && is_time && !state.is_walking {
            state.is_walking = true;
            let disk = self.clone();
            tokio::task::spawn_blocking(move || disk.walk(bound));
        }
        state.taken.map(|taken| (state.walks, taken))
    }

    /// The next look begins a walk, however recent the last one is.
    pub(super) fn hurry(&self) {
        self.lock().next = None;
    }

    fn walk(&self, bound: Option<u64>) {
        let begun = Instant::now();
        let (patience, enough, every) = match bound {
            Some(bound) => (LONG_PATIENCE, bound.saturating_mul(2), WALK_CLOSELY),
            None => (PATIENCE, u64::MAX, WALK_EVERY),
        };
        let found = walk(&self.0.worktree, enough, patience);
        let mut state = self.lock();
        state.taken = found;
        state.walks += 1;
        state.is_walking = false;
        let pause = every.max(begun.elapsed() * TIMES_AS_LONG);
        state.next = Instant::now().checked_add(pause);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A folder to look into: below which open one, and where there.
struct Folder {
    base: Arc<OwnedFd>,
    path: PathBuf,
}

/// Bytes that a folder and everything below it take on its file system, at most about `enough`; none when
/// it is not there.
fn walk(root: &Path, enough: u64, patience: Duration) -> Option<Taken> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let root = Arc::new(openat2(AT_FDCWD, root, how).ok()?);
    let begun = Instant::now();
    let mut taken = Taken::default();
    let mut folders = vec![Folder {
        base: root,
        path: PathBuf::from("."),
    }];
    while let Some(folder) = folders.pop() {
        let how = OpenHow::new().flags(flags).resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_SYMLINKS
                | ResolveFlag::RESOLVE_NO_XDEV,
        );
        let open = match openat2(&*folder.base, &folder.path, how) {
            Ok(open) => Arc::new(open),
            // It is gone, is no folder any more, or is on another file system.
            Err(
                nix::Error::ENOENT | nix::Error::ENOTDIR | nix::Error::ELOOP | nix::Error::EXDEV,
            ) => {
                continue;
            }
            Err(_) => {
                taken.hidden = true;
                continue;
            }
        };
        let Ok(entries) = std::fs::read_dir(format!("/proc/self/fd/{}", open.as_raw_fd())) else {
            taken.hidden = true;
            continue;
        };
        let (base, path) = match folder.path.as_os_str().len() > LONG_PATH {
            true => (Arc::clone(&open), PathBuf::from(".")),
            false => (folder.base, folder.path),
        };
        for entry in entries.flatten() {
            if taken.bytes >= enough || begun.elapsed() > patience {
                taken.more = true;
                return Some(taken);
            }
            let Ok(meta) = entry.metadata() else { continue };
            // A file of several names is divided among them.
            let bytes = meta.blocks().saturating_mul(512) / shares(&meta);
            taken.bytes = taken.bytes.saturating_add(bytes.max(ENTRY));
            if meta.is_dir() && !is_dots(entry.file_name().as_bytes()) {
                folders.push(Folder {
                    base: Arc::clone(&base),
                    path: path.join(entry.file_name()),
                });
            }
        }
    }
    Some(taken)
}

fn is_dots(name: &[u8]) -> bool {
    matches!(name, b"." | b"..")
}

fn shares(meta: &std::fs::Metadata) -> u64 {
    match meta.is_dir() {
        true => 1,
        false => meta.nlink().max(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn all(root: &Path) -> Taken {
        walk(root, u64::MAX, LONG_PATIENCE).unwrap()
    }

    #[test]
    fn a_walk_counts_what_is_in_the_worktree_and_never_leaves_it() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let large = vec![7_u8; 4 << 20];
        std::fs::write(outside.path().join("large"), &large).unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        std::fs::create_dir(inside.path().join("folder")).unwrap();
        std::fs::write(inside.path().join("folder/file"), &large[..1 << 20]).unwrap();
        let taken = all(inside.path());
        assert!((1 << 20..2 << 20).contains(&taken.bytes), "{taken:?}");
        assert!(!taken.more && !taken.hidden);
        assert_eq!(walk(&inside.path().join("link"), 1, PATIENCE), None);
    }

    #[test]
    fn files_without_bytes_count_and_a_walk_ends_when_it_has_seen_enough() {
        let inside = tempfile::tempdir().unwrap();
        for number in 0..300 {
            std::fs::write(inside.path().join(number.to_string()), "").unwrap();
        }
        assert!(all(inside.path()).bytes >= 300 << 10);
        let taken = walk(inside.path(), 10 << 10, PATIENCE).unwrap();
        assert!(
            taken.more && (10 << 10..20 << 10).contains(&taken.bytes),
            "{taken:?}"
        );
        assert_eq!(taken.whole(), None);
    }

    #[test]
    fn what_lies_deeper_than_a_path_can_say_is_found() {
        let inside = tempfile::tempdir().unwrap();
        let name = "d".repeat(200);
        let mut at = Arc::new(
            openat2(
                AT_FDCWD,
                inside.path(),
                OpenHow::new().flags(OFlag::O_DIRECTORY),
            )
            .unwrap(),
        );
        for _ in 0..40 {
            nix::sys::stat::mkdirat(&*at, name.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
            at = Arc::new(
                openat2(
                    &*at,
                    name.as_str(),
                    OpenHow::new().flags(OFlag::O_DIRECTORY),
                )
                .unwrap(),
            );
        }
        let deep = format!("/proc/self/fd/{}/file", at.as_raw_fd());
        std::fs::write(&deep, vec![1_u8; 3 << 20]).unwrap();
        let taken = all(inside.path());
        assert!(taken.bytes >= 3 << 20 && !taken.hidden, "{taken:?}");
    }

    #[test]
    fn what_cannot_be_looked_into_is_said() {
        if nix::unistd::geteuid().is_root() {
            eprintln!("skipped: root may look into every folder");
            return;
        }
        let inside = tempfile::tempdir().unwrap();
        let shut = inside.path().join("shut");
        std::fs::create_dir(&shut).unwrap();
        std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o000)).unwrap();
        assert!(all(inside.path()).hidden);
    }

    #[test]
    fn a_file_of_several_names_is_counted_once() {
        let inside = tempfile::tempdir().unwrap();
        std::fs::write(inside.path().join("a"), vec![1_u8; 1 << 20]).unwrap();
        std::fs::hard_link(inside.path().join("a"), inside.path().join("b")).unwrap();
        let taken = all(inside.path());
        assert!((1 << 20..1 << 21).contains(&taken.bytes), "{taken:?}");
    }
}
