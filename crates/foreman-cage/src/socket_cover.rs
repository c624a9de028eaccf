//! Sockets of the host below the system's directories: a read-only view does not keep a program from
//! connecting to one, so each that exists when the cage is built is covered by an empty file.
//!
//! What it does not cover: a socket that a host service makes there while the cage runs. Services keep
//! theirs below `/run` or a home, and a cage shows neither.

use crate::kernel::{MountFlags, attach_tree, c_path, clone_tree_at, restrict_tree};
use crate::root::{NewRoot, is_system};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Paths of all listening and bound sockets of the network namespace that the caller is in.
const BOUND: &str = "/proc/self/net/unix";

/// Covers them. The caller is still in the host's network namespace.
pub(crate) fn build(root: &NewRoot) -> io::Result<()> {
    for socket in below_system(&std::fs::read(BOUND)?) {
        let nothing = clone_tree_at(c"/dev/null")?;
        restrict_tree(nothing.as_fd(), MountFlags::SEALED)?;
        match attach_tree(nothing.as_fd(), &c_path(root.below(&socket))?) {
            // Gone meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => done?,
        }
    }
    Ok(())
}

/// Canonical paths of the sockets in a table that every cage would show.
fn below_system(table: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(table);
    let mut named: Vec<_> = text
        .lines()
        .filter_map(|line| line.find(" /").map(|at| &line[at + 1..]))
        .collect();
    // Every connection to a socket is a row with its name.
    named.sort_unstable();
    named.dedup();
    // What cannot be found or entered by this user cannot be reached by the cage either.
    let mut found: Vec<_> = named
        .into_iter()
        .filter_map(|path| Path::new(path).canonicalize().ok())
        .filter(|path| is_system(path))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_sockets_below_the_system_are_meant() {
        let table = b"Num RefCount Protocol Flags Type St Inode Path\n\
            0: 00000002 00000000 00010000 0001 01 1 /usr/bin\n\
            0: 00000002 00000000 00010000 0001 01 2 /usr/gone.sock\n\
            0: 00000003 00000000 00000000 0001 03 3\n\
            0: 00000002 00000000 00010000 0001 01 4 @/usr/lib\n\
            0: 00000002 00000000 00010000 0001 01 5 /proc/self\n";
        assert_eq!(below_system(table), [PathBuf::from("/usr/bin")]);
    }
}
