//! What a cage is to be, as data: written by the engine, built by the shim.

use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// A cage to build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CageSpec {
    /// Host name inside, also in the private hosts file.
    pub hostname: String,
    /// Working directory of every step; a path inside the cage.
    pub workdir: PathBuf,
    /// The operator's home path: an empty, private, size-limited directory inside.
    pub home: PathBuf,
    /// Paths of the host that are seen inside, in order (later ones may lie inside earlier ones).
    pub binds: Vec<Bind>,
    /// Folders of the host that are seen as empty ones wherever a cage would show them: the engine's
    /// own. Binds may lie inside.
    #[serde(default)]
    pub hidden: Vec<PathBuf>,
    /// The whole environment of every step; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Program that is `foreman` inside (only `foreman why`): a file of the host.
    pub why_program: PathBuf,
    /// Processes and threads at one time, by RLIMIT_NPROC of the payload's user namespace.
    pub processes: u32,
    /// Host user and group for the payload when the shim runs as root; ignored otherwise.
    pub root_maps_to: u32,
    /// Walls that may be missing, by name, because the operator accepted it.
    pub accept_weaker: Vec<foreman_domain::Wall>,
    /// What keeps its programs in.
    #[serde(default)]
    pub confinement: Confinement,
    /// Folder of the host for what is a cage's own otherwise: home and scratch files, in `home` and `tmp`.
    /// Needed where there are no namespaces, and made then.
    #[serde(default)]
    pub private: Option<PathBuf>,
}

/// What keeps the programs of a cage in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confinement {
    /// Namespaces, with a root and a network of its own, and the other walls around each program.
    #[default]
    Namespaces,
    /// Landlock and the system call filter alone. Binds open their *sources*, at their own places; targets mean
    /// nothing. Programs can make no socket, and change no permissions of a file by its name.
    Landlock,
    /// Nothing. Never a fallback of anything: only for who asked for it by name.
    Nothing,
}

impl Confinement {
    /// Whether the cage has processes, files and a network of its own.
    #[must_use]
    pub fn has_namespaces(self) -> bool {
        self == Self::Namespaces
    }
}

/// A path of the host that is seen inside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Canonical path on the host: no symlinks.
    pub source: PathBuf,
    /// Path inside.
    pub target: PathBuf,
    /// Read-only, or read and write. Always nosuid and nodev.
    pub writable: bool,
}

impl CageSpec {
    /// Checks what no cage can be built from.
    ///
    /// # Errors
    /// `InvalidInput` with a sentence.
    pub(crate) fn check(&self) -> io::Result<()> {
        let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        let name_is_plain = self
            .hostname
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        if self.hostname.is_empty() || self.hostname.len() > 63 || !name_is_plain {
            return refuse(format!("{:?} is no host name", self.hostname));
        }
        let binds = self
            .binds
            .iter()
            .flat_map(|bind| [&bind.source, &bind.target]);
        for path in binds.chain(&self.hidden).chain([&self.workdir, &self.home]) {
            if !is_plain(path) {
                return refuse(format!("{} is not an absolute, plain path", path.display()));
            }
        }
        let targets = self.binds.iter().map(|bind| &bind.target);
        for path in targets.chain([&self.home]) {
            if OURS.iter().any(|ours| path.starts_with(ours)) || is_whole_system(path) {
                return refuse(format!("{} belongs to the cage itself", path.display()));
            }
        }
        if self.processes == 0 {
            return refuse("a cage without processes can run nothing".to_owned());
        }
        Ok(())
    }
}

/// Where nothing of the host may be put, nor a home be. Beside the last two, `/run/foreman` takes what
/// the engine puts there (the repository's objects).
const OURS: [&str; 6] = [
    "/proc",
    "/sys",
    "/dev",
    "/etc",
    "/run/foreman/bin",
    "/run/foreman/why.sock",
];

/// Whether putting something here would cover the system, or everything.
fn is_whole_system(path: &Path) -> bool {
    let above_or_at = |name: &str| Path::new("/").join(name).starts_with(path);
    crate::root::SYSTEM.iter().any(|name| above_or_at(name))
        || Path::new("/run/foreman").starts_with(path)
}

/// Absolute, without `.` and `..`, without a NUL byte.
fn is_plain(path: &Path) -> bool {
    let parts = path
        .components()
        .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    path.is_absolute() && parts && !path.as_os_str().as_bytes().contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> CageSpec {
        CageSpec {
            hostname: "cage".into(),
            workdir: "/home/op/w".into(),
            home: "/home/op".into(),
            binds: vec![],
            hidden: vec![],
            env: vec![],
            why_program: "/bin/true".into(),
            processes: 10,
            root_maps_to: 65534,
            accept_weaker: vec![],
            confinement: Confinement::Namespaces,
            private: None,
        }
    }

    #[test]
    fn an_ordinary_specification_is_fine() {
        spec().check().unwrap();
    }

    #[test]
    fn nothing_may_cover_what_the_cage_is_made_of() {
        for target in [
            "/",
            "/usr",
            "/nix",
            "/proc/1",
            "/dev/shm",
            "/etc",
            "/run",
            "/run/foreman",
            "/run/foreman/bin/x",
        ] {
            let bind = Bind {
                source: "/srv".into(),
                target: target.into(),
                writable: true,
            };
            let spec = CageSpec {
                binds: vec![bind],
                ..spec()
            };
            assert!(spec.check().is_err(), "{target}");
        }
        for home in ["/", "/usr", "home/op", "/home/../etc"] {
            assert!(
                CageSpec {
                    home: home.into(),
                    ..spec()
                }
                .check()
                .is_err(),
                "{home}"
            );
        }
    }

    #[test]
    fn a_tool_below_a_system_directory_may_be_shown() {
        let bind = Bind {
            source: "/srv/x".into(),
            target: "/opt/x".into(),
            writable: false,
        };
        CageSpec {
            binds: vec![bind],
            ..spec()
        }
        .check()
        .unwrap();
    }

    #[test]
    fn odd_host_names_are_refused() {
        for name in ["", "a b", "a\nb", &"x".repeat(64)] {
            assert!(
                CageSpec {
                    hostname: name.to_owned(),
                    ..spec()
                }
                .check()
                .is_err(),
                "{name:?}"
            );
        }
    }
}
