//! Paths of the host that no rule can open: credential stores, sockets that give the machine away, the
//! kernel's own trees, the engine's data, and everything that contains one of them.
//!
//! Textual only. The caller asks once with the path as written (done by the parser) and again with the
//! canonical path, so that a symlink does not lead around it.

mod lists;

use foreman_domain::FileAccess;
use lists::{ABSOLUTE, CONTAINS, GIT, IN_HOME, OWN_DATA, RUN_BY_HOST, SYSTEM};
use std::path::{Component, Path, PathBuf};

/// Why no rule can open `path` for reading or writing, as "a store of credentials"; `None` when a rule
/// can. `path` is absolute or starts with `~/`.
///
/// Every account's home is guarded alike: `home`, `~`, `/root`, each directory in `/home` and `/Users`.
#[must_use]
pub fn path_floor(path: &Path, home: &Path, data_dir: &Path) -> Option<&'static str> {
    if !is_plain(path) {
        return Some("not a plain path from the root or from ~/");
    }
    relation(path, data_dir)
        .map(|relation| relation.word(OWN_DATA))
        .or_else(|| first(path, ABSOLUTE, Path::new("/")))
        .or_else(|| in_homes(path, home, IN_HOME, true))
}

/// Why no rule can open `path` for writing, although one might open it for reading: the host would run
/// what the cage writes there. Ask [`path_floor`] besides.
#[must_use]
pub fn write_floor(path: &Path, home: &Path) -> Option<&'static str> {
    if path.components().any(|part| part.as_os_str() == ".git") {
        return Some(GIT);
    }
    first(path, SYSTEM, Path::new("/")).or_else(|| in_homes(path, home, RUN_BY_HOST, false))
}

/// Why no rule can open this very path for what is wanted, whatever is beneath it; `None` when one can.
/// `own` are the engine's places. A folder that merely contains what is on the floor is not on it here:
/// no rule opens it, but another path in it can be.
#[must_use]
pub fn file_floor(
    path: &Path,
    access: FileAccess,
    home: &Path,
    own: &[PathBuf],
) -> Option<&'static str> {
    if !is_plain(path) {
        return Some("not a plain path from the root");
    }
    if own.iter().any(|own| path.starts_with(own)) {
        return Some(OWN_DATA);
    }
    let within = |why: &&'static str| *why != CONTAINS;
    first(path, ABSOLUTE, Path::new("/"))
        .filter(within)
        .or_else(|| in_homes(path, home, IN_HOME, true).filter(within))
        .or_else(|| match access {
            FileAccess::Read => None,
            FileAccess::Write => write_floor(path, home).filter(within),
        })
}

fn is_plain(path: &Path) -> bool {
    let ordinary = |part: Component<'_>| {
        matches!(
            part,
            Component::RootDir | Component::Normal(_) | Component::Prefix(_)
        )
    };
    (path.is_absolute() || path.starts_with("~")) && path.components().all(ordinary)
}

/// How a path stands to one that is on the floor.
enum Relation {
    Within,
    Contains,
}

impl Relation {
    fn word(self, what: &'static str) -> &'static str {
        match self {
            Self::Within => what,
            Self::Contains => CONTAINS,
        }
    }
}

fn relation(path: &Path, floor: &Path) -> Option<Relation> {
    if path.starts_with(floor) {
        Some(Relation::Within)
    } else if floor.starts_with(path) {
        Some(Relation::Contains)
    } else {
        None
    }
}

fn first(path: &Path, list: &[(&str, &'static str)], base: &Path) -> Option<&'static str> {
    let mut contains = None;
    for (floor, what) in list {
        match relation(path, &base.join(floor)) {
            Some(Relation::Within) => return Some(what),
            Some(Relation::Contains) => contains = Some(CONTAINS),
            None => {}
        }
    }
    contains
}

fn in_homes(
    path: &Path,
    home: &Path,
    list: &[(&str, &'static str)],
    whole_too: bool,
) -> Option<&'static str> {
    // "~" too: a path that the caller has not expanded yet must not slip through.
    let known = [home, Path::new("~"), Path::new("/root")];
    if let Some(why) = known.iter().find_map(|home| first(path, list, home)) {
        return Some(why);
    }
    for homes in ["/home", "/Users"] {
        let Ok(beneath) = path.strip_prefix(homes) else {
            continue;
        };
        let mut parts = beneath.components();
        match parts.next() {
            Some(account) => {
                let account = Path::new(homes).join(account);
                if let Some(why) = first(path, list, &account) {
                    return Some(why);
                }
            }
            None if whole_too => return Some(CONTAINS),
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::lists::CREDENTIALS;
    use super::*;

    fn floor(path: &str) -> Option<&'static str> {
        path_floor(
            Path::new(path),
            Path::new("/srv/people/op"),
            Path::new("/srv/people/op/data/foreman"),
        )
    }

    #[test]
    fn credential_stores_are_on_the_floor_in_every_home() {
        for home in ["/srv/people/op", "/root", "/home/other", "/Users/other"] {
            for path in [
                ".ssh",
                ".ssh/id_ed25519",
                ".gnupg/private-keys-v1.d",
                ".aws/credentials",
                ".config/gcloud",
                ".docker/config.json",
                ".kube",
                ".netrc",
                ".mozilla/firefox",
                ".local/share/keyrings/login.keyring",
                ".bash_history",
                ".config/google-chrome",
            ] {
                assert!(floor(&format!("{home}/{path}")).is_some(), "{home}/{path}");
            }
        }
    }

    #[test]
    fn the_kernels_trees_sockets_and_own_data_are_on_the_floor() {
        for path in [
            "/proc",
            "/proc/1/environ",
            "/sys/kernel",
            "/dev/sda",
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/run/user/1000/bus",
            "/srv/people/op/data/foreman/state",
            "/tmp/.X11-unix/X0",
            "/etc/shadow",
        ] {
            assert!(floor(path).is_some(), "{path}");
        }
    }

    #[test]
    fn what_contains_the_floor_is_on_the_floor() {
        for path in [
            "/",
            "/home",
            "/home/other",
            "/srv",
            "/srv/people",
            "/srv/people/op",
            "/root",
            "/var",
            "/srv/people/op/.config",
            "/srv/people/op/.local/share",
            "/srv/people/op/data",
            "/etc",
            "/tmp",
            "/srv/people/op/.cargo",
        ] {
            assert_eq!(floor(path), Some(CONTAINS), "{path}");
        }
    }

    #[test]
    fn ordinary_paths_can_be_opened() {
        for path in [
            "/srv/people/op/.cargo/registry",
            "/srv/people/op/.cache/pip",
            "/srv/people/op/.sshx",
            "/opt/tool",
            "/tmp/scratch",
            "/etc/ssl/certs",
            "/home/other/src",
            "/data",
        ] {
            assert_eq!(floor(path), None, "{path}");
        }
    }

    #[test]
    fn a_home_given_as_a_tilde_is_a_home() {
        let tilde =
            |path: &str| path_floor(Path::new(path), Path::new("~"), Path::new("~/x/foreman"));
        assert_eq!(tilde("~/.ssh"), Some(CREDENTIALS));
        assert_eq!(tilde("~"), Some(CONTAINS));
        assert_eq!(tilde("~/x"), Some(CONTAINS));
        assert_eq!(tilde("~/.cache/pip"), None);
    }

    #[test]
    fn what_only_contains_the_floor_can_be_asked_about() {
        let home = Path::new("/srv/people/op");
        let own = [PathBuf::from("/srv/people/op/data/foreman")];
        let asked = |path: &str, access| file_floor(Path::new(path), access, home, &own).is_some();
        for path in ["/home", "/srv/people/op", "/srv/people/op/notes", "/data/x"] {
            assert!(!asked(path, FileAccess::Read), "{path}");
        }
        for path in [
            "/srv/people/op/.ssh/id",
            "/home/other/.aws",
            "/proc/1/environ",
            "/srv/people/op/data/foreman/state",
            "/srv/../etc/shadow",
            "relative",
        ] {
            assert!(asked(path, FileAccess::Read), "{path}");
        }
        for path in ["/usr/lib/x", "/srv/people/op/.bashrc", "/srv/r/.git/config"] {
            assert!(!asked(path, FileAccess::Read), "{path}");
            assert!(asked(path, FileAccess::Write), "{path}");
        }
    }

    #[test]
    fn odd_paths_are_never_open() {
        for path in [
            "",
            "relative",
            "../up",
            "/srv/people/op/.cache/../.ssh",
            "./x",
        ] {
            assert!(floor(path).is_some(), "{path}");
        }
        // Doubled slashes and single dots are no way around.
        assert_eq!(floor("/srv//people/op/./.ssh/"), Some(CREDENTIALS));
    }

    #[test]
    fn what_the_host_would_run_can_be_read_but_not_written() {
        let write = |path: &str| write_floor(Path::new(path), Path::new("/srv/people/op"));
        for path in [
            "/srv/people/op/.bashrc",
            "/srv/people/op/bin",
            "/home/other/.local/bin/x",
            "/srv/people/op/src/other/.git",
            "/srv/people/op/src/other/.git/hooks",
            "/usr/local/lib",
            "/etc/profile.d",
            "/srv/people/op/.cargo",
        ] {
            assert!(write(path).is_some(), "{path}");
        }
        assert_eq!(floor("/srv/people/op/.bashrc"), None);
        assert_eq!(write("/srv/people/op/.cache/pip"), None);
    }
}
