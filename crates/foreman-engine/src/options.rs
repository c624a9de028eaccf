//! How to open a host: where an engine keeps its things, and which program carries runs.

use foreman_domain::{Code, Failure};
use std::path::{Path, PathBuf};

/// Name of the supervisor's program.
const SHIM: &str = "foreman-shim";

/// How to open a [`Host`](crate::Host).
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// The data directory; made when absent.
    pub data_dir: PathBuf,
    /// Directory for sockets, usually `$XDG_RUNTIME_DIR`; `<data>/run` when absent.
    pub runtime_dir: Option<PathBuf>,
    /// The `foreman-shim` program; found beside this executable, in `FOREMAN_SHIM` or on `PATH` when
    /// absent.
    pub shim_program: Option<PathBuf>,
}

impl HostOptions {
    /// The supervisor's program, canonical: the kernel runs exactly what is named here.
    pub(crate) fn find_shim(&self) -> Result<PathBuf, Failure> {
        match &self.shim_program {
            Some(given) => usable(std::iter::once(given.clone())),
            None => shim_program(),
        }
    }
}

/// The `foreman-shim` program: beside this executable, in `FOREMAN_SHIM`, or on `PATH`.
///
/// # Errors
/// [`Code::Environment`] when there is none.
pub fn shim_program() -> Result<PathBuf, Failure> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join(SHIM)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    usable(
        beside
            .into_iter()
            .chain(std::env::var_os("FOREMAN_SHIM").map(PathBuf::from))
            .chain(std::env::split_paths(&path).map(|folder| folder.join(SHIM))),
    )
}

fn usable(mut candidates: impl Iterator<Item = PathBuf>) -> Result<PathBuf, Failure> {
    candidates
        .find(|candidate| is_program(candidate))
        .and_then(|path| path.canonicalize().ok())
        .ok_or_else(|| {
            Failure::new(
                Code::Environment,
                format!("the program {SHIM} was not found"),
            )
            .hint("Install it beside the program foreman, or name it in FOREMAN_SHIM.")
        })
}

fn is_program(path: &Path) -> bool {
    path.is_absolute()
        && path.is_file()
        && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
}
