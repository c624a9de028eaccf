//! The cage's `/dev`: six harmless devices of the host, its own terminals and shared memory.

use crate::Step;
use crate::kernel::{attach_tree, c_path, clone_tree_at};
use crate::root::NewRoot;
use crate::wire::{During, Failed};
use nix::mount::{MsFlags, mount};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;

const NODES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("ptmx", "pts/ptmx"),
    ("stderr", "/proc/self/fd/2"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
];

pub(crate) fn build(root: &NewRoot) -> Result<(), Failed> {
    let dev = root.at("dev");
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let fill = || {
        mount(
            Some("cage"),
            &dev,
            Some("tmpfs"),
            quiet,
            Some("mode=0755,size=64k,nr_inodes=64"),
        )?;
        for (name, target) in LINKS {
            symlink(target, dev.join(name))?;
        }
        std::fs::create_dir(dev.join("pts"))?;
        std::fs::create_dir(dev.join("shm"))?;
        let terminals = Some("newinstance,ptmxmode=0666,mode=0620,max=64");
        mount(
            Some("cage"),
            &dev.join("pts"),
            Some("devpts"),
            quiet,
            terminals,
        )?;
        let shared = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let size = Some("mode=1777,size=10%,nr_inodes=64k");
        mount(Some("cage"), &dev.join("shm"), Some("tmpfs"), shared, size)?;
        Ok::<_, io::Error>(())
    };
    fill().during(Step::Devices, String::new)?;
    for name in NODES {
        let here = dev.join(name);
        let adopt = || {
            std::fs::write(&here, "")?;
            let node = clone_tree_at(&c_path(format!("/dev/{name}"))?)?;
            attach_tree(node.as_fd(), &c_path(&here)?)
        };
        adopt().during(Step::Devices, || format!("/dev/{name}"))?;
    }
    Ok(())
}
