//! The host's side of a cage's binds: detached clones of mount trees, opened before anything is
//! built.
//!
//! A source is opened without following any symlink, so that nothing planted on its way can make a
//! bind show something else. A launcher that is root opens them while it still is root: the cage's
//! user cannot pass through root's home.

use crate::kernel::{self, MountFlags};
use crate::wire::{During, Failed};
use crate::{CageSpec, Step};
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{SFlag, fstat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Everything of the host that a cage shows because its specification says so.
#[derive(Debug)]
pub(crate) struct Sources {
    /// In the order of the specification.
    pub binds: Vec<Source>,
    /// The program of `foreman why`.
    pub why_program: Source,
}

/// One detached tree.
#[derive(Debug)]
pub(crate) struct Source {
    pub tree: OwnedFd,
    pub is_dir: bool,
    /// Path inside the cage.
    pub target: PathBuf,
}

/// Where the program of `foreman why` is seen.
pub(crate) const WHY_PROGRAM: &str = "/run/foreman/bin/foreman";

impl Sources {
    /// Opens and clones all of them. The caller must have all capabilities over its mount
    /// namespace.
    pub fn open(spec: &CageSpec) -> Result<Self, Failed> {
        let binds = spec
            .binds
            .iter()
            .map(|bind| {
                let flags = if bind.writable {
                    MountFlags::WRITABLE
                } else {
                    MountFlags::SEALED
                };
                clone(&bind.source, &bind.target, flags)
                    .during(Step::OpenSource, || bind.source.display().to_string())
            })
            .collect::<Result<_, _>>()?;
        let program = &spec.why_program;
        let why_program = std::fs::canonicalize(program)
            .and_then(|program| clone(&program, Path::new(WHY_PROGRAM), MountFlags::SEALED))
            .during(Step::OpenSource, || program.display().to_string())?;
        Ok(Self { binds, why_program })
    }
}

fn clone(source: &Path, target: &Path, flags: MountFlags) -> io::Result<Source> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let at = openat2(AT_FDCWD, source, how)?;
    let kind = SFlag::from_bits_truncate(fstat(&at)?.st_mode) & SFlag::S_IFMT;
    let is_dir = kind == SFlag::S_IFDIR;
    if !is_dir && kind != SFlag::S_IFREG {
        // A socket, device or pipe would connect the cage with whatever is behind it.
        return Err(io::Error::other(
            "only files and directories can be put into a cage",
        ));
    }
    let tree = kernel::clone_tree(at.as_fd())?;
    kernel::restrict_tree(tree.as_fd(), flags)?;
    Ok(Source {
        tree,
        is_dir,
        target: target.to_owned(),
    })
}
