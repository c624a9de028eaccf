//! Which places of a cage are never opened while it runs, whatever anybody decides.

use crate::root::is_system;
use crate::{Bind, CageSpec};
use foreman_domain::FileAccess;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Where nothing of the host is ever shown, for reading neither.
const NEVER: [&str; 4] = ["/proc", "/sys", "/dev", "/run/foreman"];

/// Scratch folders, which are the cage's own as a whole.
const SCRATCH: [&str; 2] = ["/tmp", "/var/tmp"];

/// Whether a path is below a top-level folder. Landlock allows what lies below one, and the root itself to
/// be listed, see `landlock_wall`; a rule of a folder does not count for what is mounted right on it.
pub(crate) fn is_deep_enough(path: &Path) -> bool {
    path.components().count() > 2
}

/// Whether the cage has something of its own at a path, whatever the host has there.
pub(crate) fn is_the_cages_own(path: &Path) -> bool {
    NEVER.iter().any(|never| path.starts_with(never))
}

/// What a specification says about places.
#[derive(Debug)]
pub(crate) struct Places {
    binds: Vec<Bind>,
    home: PathBuf,
    hidden: Vec<PathBuf>,
    /// Added by whoever supervises.
    closed: OnceLock<Vec<PathBuf>>,
}

impl Places {
    pub fn of(spec: &CageSpec) -> Self {
        Self {
            binds: spec.binds.clone(),
            home: spec.home.clone(),
            hidden: spec.hidden.clone(),
            closed: OnceLock::new(),
        }
    }

    /// Adds paths that are closed. Counts once.
    pub fn close(&self, paths: Vec<PathBuf>) {
        let _ = self.closed.set(paths);
    }

    /// Why nothing at or below `path` can be opened in the running cage, as words that follow "because".
    pub fn why_closed(&self, path: &Path, access: FileAccess) -> Option<&'static str> {
        if is_the_cages_own(path) {
            return Some("the cage has its own there");
        }
        // Fixed for the life of a program: see `landlock_wall`.
        if access == FileAccess::Write && (is_system(path) || path.starts_with("/etc")) {
            return Some(
                "Landlock keeps the system's folders read-only for as long as the run lasts",
            );
        }
        let bind = self.bind_over(path);
        if let Some(bind) = bind {
            if bind.source != bind.target {
                return Some("the cage has a private view of it");
            }
            if !bind.writable && self.is_protected(bind) {
                return Some("it is protected inside a folder that the run may write");
            }
        }
        // What is bound from below a hidden folder is shown on purpose; the rest is the engine's.
        let of_hidden = |hidden: &&PathBuf| {
            path.starts_with(hidden) && !bind.is_some_and(|bind| bind.target.starts_with(hidden))
        };
        if self.hidden.iter().any(|hidden| of_hidden(&hidden)) {
            return Some("it belongs to the engine");
        }
        let closed = self
            .closed
            .get()
            .is_some_and(|closed| closed.iter().any(|closed| path.starts_with(closed)));
        closed.then_some("no rule may open it")
    }

    /// The innermost bind that a path is in.
    fn bind_over(&self, path: &Path) -> Option<&Bind> {
        let over = self
            .binds
            .iter()
            .filter(|bind| path.starts_with(&bind.target));
        over.max_by_key(|bind| bind.target.components().count())
    }

    /// How a place is seen since the cage was built, where it is seen as it is on the host.
    pub fn shown_by(&self, path: &Path) -> Option<FileAccess> {
        let bind = self.bind_over(path)?;
        let access = if bind.writable {
            FileAccess::Write
        } else {
            FileAccess::Read
        };
        (bind.source == bind.target).then_some(access)
    }

    /// A read-only bind right inside a writable one is there to protect what it shows.
    fn is_protected(&self, inner: &Bind) -> bool {
        let above = self
            .binds
            .iter()
            .filter(|bind| bind.target != inner.target && inner.target.starts_with(&bind.target));
        above
            .max_by_key(|bind| bind.target.components().count())
            .is_some_and(|bind| bind.writable)
    }

    /// What the cage shows in its own way at or below `root`, so that showing `root` would cover it.
    pub fn covered_by(&self, root: &Path) -> Option<PathBuf> {
        let own = NEVER.iter().chain(&SCRATCH).map(Path::new);
        let binds = self.binds.iter().filter(|bind| {
            // A read-only view of the same place may give way to a writable one.
            bind.target != root || bind.source != bind.target
        });
        let closed = self.closed.get().into_iter().flatten();
        let paths = own
            .chain(binds.map(|bind| bind.target.as_path()))
            .chain([self.home.as_path()])
            .chain(self.hidden.iter().map(PathBuf::as_path))
            .chain(closed.map(PathBuf::as_path));
        let mut covered = paths.filter(|path| path.starts_with(root));
        covered.next().map(Path::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        let bind = |source: &str, target: &str, writable| Bind {
            source: source.into(),
            target: target.into(),
            writable,
        };
        let places = Places {
            binds: vec![
                bind("/home/op/data/trees/run", "/home/op/data/trees/run", true),
                bind(
                    "/home/op/data/trees/run/.git",
                    "/home/op/data/trees/run/.git",
                    false,
                ),
                bind("/home/op/data/shadow", "/home/op/code/.git", true),
                bind("/home/op/.cargo", "/home/op/.cargo", false),
            ],
            home: "/home/op".into(),
            hidden: vec!["/home/op/data".into()],
            closed: OnceLock::new(),
        };
        places.close(vec!["/home/op/.ssh".into()]);
        places
    }

    fn closed(path: &str) -> (bool, bool) {
        let (places, path) = (places(), Path::new(path));
        let why = |access| places.why_closed(path, access).is_some();
        (why(FileAccess::Read), why(FileAccess::Write))
    }

    #[test]
    fn what_the_cage_is_made_of_is_closed() {
        for path in [
            "/proc/self/mem",
            "/dev/sda",
            "/sys/x",
            "/run/foreman/bin",
            "/home/op/code/.git/hooks/pre-commit",
            "/home/op/data/trees/run/.git",
            "/home/op/data/state/db",
            "/home/op/.ssh/config",
        ] {
            assert_eq!(closed(path), (true, true), "{path}");
        }
        for path in ["/usr/local/bin/x", "/etc/hosts", "/opt/x"] {
            assert_eq!(closed(path), (false, true), "{path}");
        }
        for path in [
            "/home/op/code/x",
            "/home/op/.cargo/registry",
            "/srv/x",
            "/procure",
        ] {
            assert_eq!(closed(path), (false, false), "{path}");
        }
    }

    #[test]
    fn what_is_bound_at_its_own_place_is_shown_already() {
        let shown = |path: &str| places().shown_by(Path::new(path));
        assert_eq!(shown("/home/op/data/trees/run/x"), Some(FileAccess::Write));
        assert_eq!(shown("/home/op/.cargo/registry"), Some(FileAccess::Read));
        assert_eq!(shown("/home/op/code/.git/x"), None);
        assert_eq!(shown("/srv/x"), None);
    }

    #[test]
    fn nothing_may_cover_what_the_cage_shows_in_its_own_way() {
        let places = places();
        for root in [
            "/",
            "/home",
            "/home/op",
            "/home/op/code",
            "/home/op/data",
            "/tmp",
            "/run",
        ] {
            assert!(places.covered_by(Path::new(root)).is_some(), "{root}");
        }
        for root in ["/home/op/.cargo", "/home/op/code/src", "/tmp/x", "/srv"] {
            assert_eq!(places.covered_by(Path::new(root)), None, "{root}");
        }
    }
}
