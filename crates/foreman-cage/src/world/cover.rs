//! Folders of the machine that a world does not see: what lies below them is another machine's.

use super::{WorldError, io, system};
use nix::mount::{MsFlags, mount};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Puts an empty file system over each folder of `cover`, and shows the folders of `show`, which may lie
/// below them, at their places again.
pub(super) fn cover(cover: &[PathBuf], show: &[PathBuf]) -> Result<(), WorldError> {
    let none: Option<&str> = None;
    // Opened before anything lies over them.
    let mut shown: Vec<(&PathBuf, File)> = Vec::new();
    for path in show {
        let folder = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path);
        shown.push((path, io(&format!("open {}", path.display()), folder)?));
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    for path in cover {
        let mounted = mount(
            Some("elsewhere"),
            path,
            Some("tmpfs"),
            flags,
            Some("mode=0700"),
        );
        system("cover a folder", mounted)?;
    }
    for (path, folder) in shown {
        let made = std::fs::create_dir_all(path);
        io(&format!("make {}", path.display()), made)?;
        let source = format!("/proc/self/fd/{}", folder.as_raw_fd());
        let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
        let bound = mount(Some(source.as_str()), path, none, bind, none);
        system("show a folder", bound)?;
    }
    Ok(())
}
