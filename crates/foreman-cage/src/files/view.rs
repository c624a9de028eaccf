//! The file tree of a running cage, as this process reaches it.

use super::places::Places;
use crate::identity::Identity;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Handles on a cage's tree that process 1 gave out.
#[derive(Debug)]
pub(crate) struct Handles {
    /// The cage's root, as a path only.
    pub root: OwnedFd,
    /// Its user and mount namespaces.
    pub user: OwnedFd,
    pub mounts: OwnedFd,
    /// File systems in memory that are the cage's own, where mount points may be made.
    pub own: Vec<u64>,
}

/// The tree, and what is fixed about it.
#[derive(Debug)]
pub(crate) struct View {
    pub handles: Handles,
    pub places: Places,
    pub identity: Identity,
    pub shown: super::show::Shown,
}

impl View {
    pub fn new(handles: Handles, places: Places, identity: Identity) -> Self {
        Self {
            handles,
            places,
            identity,
            shown: super::show::Shown::default(),
        }
    }

    /// Opens what a program of the cage would find at an absolute path, as a path only.
    pub fn look(&self, path: &Path, follow: bool) -> nix::Result<OwnedFd> {
        let last = if follow {
            OFlag::empty()
        } else {
            OFlag::O_NOFOLLOW
        };
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC | last)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT);
        openat2(&self.handles.root, path, how)
    }
}

/// Where an open path is in the tree that it belongs to: free of links.
pub(crate) fn place_of(at: &OwnedFd) -> Option<PathBuf> {
    let place = std::fs::read_link(format!("/proc/self/fd/{}", at.as_raw_fd())).ok()?;
    place.is_absolute().then_some(place)
}
