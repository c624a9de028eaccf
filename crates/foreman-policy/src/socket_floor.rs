//! Unix sockets of the host: which no rule can open, and what opening some of the others gives away.
//!
//! Textual only, like [`crate::path_floor`]: asked with the path as written and again with the canonical one.

mod lists;

use lists::{FLOOR, GIVES_AWAY};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Why no rule can open the socket at `path`, as "a socket of your keyring"; `None` when a rule can.
/// `path` is absolute or starts with `~/`; `own` are the engine's places.
#[must_use]
pub fn socket_floor(path: &Path, own: &[PathBuf]) -> Option<&'static str> {
    let ordinary = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let rooted = path.is_absolute() || path.starts_with("~");
    if !rooted || !path.components().all(ordinary) {
        return Some("not a plain path from the root or from ~/");
    }
    if own.iter().any(|own| path.starts_with(own)) {
        return Some(lists::OWN);
    }
    first(path, FLOOR)
}

/// What a rule that opens the socket at `path` gives away, as "the container engine: …"; `None` for one of
/// which nothing is known.
#[must_use]
pub fn socket_gives_away(path: &Path) -> Option<&'static str> {
    first(path, GIVES_AWAY)
}

fn first(path: &Path, list: &[(&str, &'static str)]) -> Option<&'static str> {
    let path = in_one_place(path);
    let found = list
        .iter()
        .find(|(pattern, _)| match pattern.strip_prefix("~/") {
            None => is_in(&path, Path::new(pattern)),
            // In whosever home, and wherever homes are.
            Some(below) => {
                let mut rest = path.components();
                std::iter::from_fn(|| rest.next().map(|_| rest.as_path()))
                    .any(|rest| is_in(rest, Path::new(below)))
            }
        });
    found.map(|(_, what)| *what)
}

/// `/var/run` is another name of `/run` on every machine of today.
fn in_one_place(path: &Path) -> PathBuf {
    match path.strip_prefix("/var/run") {
        Ok(rest) => Path::new("/run").join(rest),
        Err(_) => path.to_owned(),
    }
}

/// Whether a path is what a pattern says, or below it. A `*` at the end of a part stands for any end.
fn is_in(path: &Path, pattern: &Path) -> bool {
    let mut parts = path.components();
    pattern.components().all(|wanted| {
        parts
            .next()
            .is_some_and(|part| matches(part.as_os_str(), wanted.as_os_str()))
    })
}

fn matches(part: &OsStr, pattern: &OsStr) -> bool {
    match pattern.as_bytes().split_last() {
        Some((b'*', begin)) => part.as_bytes().starts_with(begin),
        _ => part == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(path: &str) -> Option<&'static str> {
        socket_floor(
            Path::new(path),
            &[
                "/srv/people/op/data".into(),
                "/run/user/1000/elsewhere".into(),
            ],
        )
    }

    fn gives_away(path: &str) -> Option<&'static str> {
        socket_gives_away(Path::new(path))
    }

    #[test]
    fn the_engines_own_sockets_and_the_keyring_are_on_the_floor() {
        for path in [
            "/run/user/1000/foreman/control.sock",
            "/var/run/user/7/foreman/x",
            "/run/user/1000/elsewhere/control.sock",
            "/srv/people/op/data/run/control.sock",
            "/home/other/.local/share/foreman/run/x",
            "~/.local/share/foreman/run/x",
            "/run/user/1000/keyring/control",
            "/run/user/1000/keyring/ssh",
            "/tmp/keyring-Ab12/control",
            "/run/user/1000/kwallet5.socket",
            "/proc/1/root/run/x",
            "/sys/x",
            "/dev/log",
            "relative",
            "/run/../run/x",
        ] {
            assert!(floor(path).is_some(), "{path}");
        }
    }

    #[test]
    fn services_can_be_opened() {
        for path in [
            "/run/postgresql/.s.PGSQL.5432",
            "/run/docker.sock",
            "/run/user/1000/bus",
            "/run/user/1000/foremanx/x",
            "/srv/people/op/.gnupg/S.gpg-agent",
            "/srv/app/x.sock",
        ] {
            assert_eq!(floor(path), None, "{path}");
        }
    }

    #[test]
    fn what_opening_a_way_out_gives_away_is_known() {
        for path in [
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/run/user/1000/docker.sock",
            "/run/containerd/containerd.sock",
            "/run/user/1000/podman/podman.sock",
            "/srv/people/op/.docker/run/docker.sock",
            "/run/user/1000/bus",
            "/run/dbus/system_bus_socket",
            "/run/systemd/private",
            "/run/user/1000/systemd/private",
            "/tmp/.X11-unix/X0",
            "/run/user/1000/wayland-0",
            "/tmp/ssh-Abc/agent.12",
            "/home/other/.ssh/agent/s.x",
            "/run/user/1000/gnupg/S.gpg-agent",
            "/root/.gnupg/S.gpg-agent.extra",
            "/tmp/tmux-1000/default",
        ] {
            assert!(gives_away(path).is_some(), "{path}");
        }
        for path in [
            "/run/postgresql/.s.PGSQL.5432",
            "/run/docker.sock2",
            "/srv/run/docker.sock",
            "/run",
        ] {
            assert_eq!(gives_away(path), None, "{path}");
        }
    }
}
