//! Whether only the operator writes to what order files are read from, and reading that never waits.
//!
//! An order file starts programs, so it is trusted only where it and its folder belong to the engine's
//! user or root, and where neither group nor others can write. Not looked at: the folders above.

use nix::fcntl::OFlag;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Mode bits with which group or others write.
const OTHERS_WRITE: u32 = 0o022;

/// Why order files of a folder are not taken in; `None` for a folder that only the operator writes to.
pub(super) fn fault_of_folder(folder: &Path) -> Option<String> {
    let shown = folder.display();
    match std::fs::symlink_metadata(folder) {
        Err(error) => Some(format!("{shown} cannot be looked at: {error}")),
        Ok(found) if !found.is_dir() => Some(format!("{shown} is no folder")),
        Ok(found) => distrust(&found).map(|why| format!("the folder {shown} {why}")),
    }
}

/// Why a file or a folder is not trusted, to follow its name.
pub(super) fn distrust(found: &Metadata) -> Option<String> {
    let me = nix::unistd::geteuid().as_raw();
    why_not(found.uid(), found.mode(), me)
}

fn why_not(owner: u32, mode: u32, me: u32) -> Option<String> {
    if owner != me && owner != 0 {
        return Some(format!(
            "belongs to another user (uid {owner}, you are {me}), and order files start programs"
        ));
    }
    (mode & OTHERS_WRITE != 0).then(|| {
        format!(
            "can be written by its group or by others (mode {:03o}), and order files start programs; \
             `chmod go-w` changes that",
            mode & 0o777
        )
    })
}

/// Whether a link is followed when a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    Follow,
    Refuse,
}

/// Opens a regular file and nothing else; never waits for another side, as of a pipe.
pub(super) fn open_regular(path: &Path, links: Links) -> io::Result<(File, Metadata)> {
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    if links == Links::Refuse {
        flags |= OFlag::O_NOFOLLOW;
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(
            |error| match nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
                nix::errno::Errno::ELOOP if links == Links::Refuse => {
                    io::Error::other("it is a link, and links are not followed here")
                }
                // A socket, or a pipe or device without another side.
                nix::errno::Errno::ENXIO => io::Error::other("it is no regular file"),
                _ => error,
            },
        )?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok((file, found))
}

/// Reads at most one byte more than `largest`, so that a larger file is told from a whole one.
pub(super) fn read_up_to(file: File, largest: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(largest.saturating_add(1))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_what_the_operator_or_root_alone_writes_is_trusted() {
        for (owner, mode) in [
            (1000, 0o40755),
            (0, 0o40755),
            (1000, 0o100_600),
            (0, 0o100_444),
        ] {
            assert_eq!(why_not(owner, mode, 1000), None, "{owner} {mode:o}");
        }
        for (owner, mode) in [(1001, 0o755), (1000, 0o775), (1000, 0o757), (0, 0o1777)] {
            assert!(why_not(owner, mode, 1000).is_some(), "{owner} {mode:o}");
        }
        // Root trusts no other user.
        assert!(why_not(1000, 0o700, 0).is_some());
    }

    #[test]
    fn a_folder_that_others_write_to_and_a_link_to_a_folder_have_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("orders");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(fault_of_folder(&folder), None);
        std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o775)).unwrap();
        assert!(fault_of_folder(&folder).unwrap().contains("(mode 775)"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        assert!(fault_of_folder(&link).is_some());
    }

    #[test]
    fn a_pipe_a_link_and_a_folder_are_not_opened_as_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        nix::unistd::mkfifo(&path("pipe"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        for name in ["pipe", "socket", ""] {
            let refused = open_regular(&path(name), Links::Follow).unwrap_err();
            assert!(refused.to_string().contains("no regular file"), "{refused}");
        }
        let refused = open_regular(&path("link"), Links::Refuse).unwrap_err();
        assert!(refused.to_string().contains("link"), "{refused}");
        let (file, _) = open_regular(&path("link"), Links::Follow).unwrap();
        assert_eq!(read_up_to(file, 2).unwrap(), b"tex");
    }
}
