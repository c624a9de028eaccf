//! The cage's `/proc`: fresh, of its own process namespace, with what steers or shows the machine
//! covered.

use crate::Step;
use crate::kernel::{MountFlags, attach_tree, c_path, clone_tree_at, restrict_tree};
use crate::root::NewRoot;
use crate::wire::{During, Failed};
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, access};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Read-only: these steer the machine.
const SEALED: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Covered with nothing: these show the machine or the operator. Where the cage's user cannot read
/// one anyway, there is nothing to cover.
const COVERED: [&str; 11] = [
    "acpi",
    "asound",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
];

/// Handles on it.
pub(crate) struct Proc {
    /// The root of it.
    pub dir: OwnedFd,
    /// `sys/user`, opened before it was covered.
    pub namespace_limits: OwnedFd,
}

pub(crate) fn build(root: &NewRoot) -> Result<Proc, Failed> {
    let proc = root.at("proc");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), &proc, Some("proc"), flags, None::<&str>)
        .during(Step::Proc, || "mounting it".into())?;
    let handles = || {
        let list = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let path = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok::<_, io::Error>(Proc {
            dir: open(&proc, list, Mode::empty())?,
            namespace_limits: open(&proc.join("sys/user"), path, Mode::empty())?,
        })
    };
    let handles = handles().during(Step::Proc, String::new)?;
    for name in SEALED {
        cover(&proc.join(name), &proc.join(name)).during(Step::Proc, || format!("/proc/{name}"))?;
    }
    for name in COVERED {
        let here = proc.join(name);
        if access(&here, AccessFlags::R_OK).is_ok() {
            let nothing = if here.is_dir() {
                root.at("sys")
            } else {
                "/dev/null".into()
            };
            cover(&nothing, &here).during(Step::Proc, || format!("/proc/{name}"))?;
        }
    }
    Ok(handles)
}

/// Lays a read-only clone of `what` over `here`, if there is anything to cover.
fn cover(what: &Path, here: &Path) -> io::Result<()> {
    let tree = match clone_tree_at(&c_path(what)?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        tree => tree?,
    };
    let no_dev = what != Path::new("/dev/null");
    restrict_tree(
        tree.as_fd(),
        MountFlags {
            read_only: true,
            no_suid: true,
            no_dev,
        },
    )?;
    attach_tree(tree.as_fd(), &c_path(here)?)
}
