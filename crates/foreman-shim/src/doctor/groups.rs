//! Control groups: reported, not required. Bounds are watched by the shim until they are delegated.

use super::WallFinding;
use foreman_domain::Wall;
use std::path::{Path, PathBuf};

pub(super) fn finding() -> WallFinding {
    let found = delegated();
    let (holds, detail, remedy) = match found {
        Ok(group) => (
            true,
            format!(
                "{} is delegated to this user; memory and processes are watched by the shim for now",
                group.display()
            ),
            None,
        ),
        Err(why) => (
            false,
            format!("{why}; memory is watched by the shim, processes by a resource limit"),
            Some(
                "Nothing to do. Where systemd delegates memory and pids to user sessions on cgroup v2, \
                 the kernel could enforce bounds."
                    .to_owned(),
            ),
        ),
    };
    let wall = Wall::Cgroup;
    WallFinding {
        wall,
        holds,
        required: wall.is_required(),
        detail,
        remedy,
    }
}

/// The own control group, when this user may make groups below it with the controllers that matter.
fn delegated() -> Result<PathBuf, &'static str> {
    let memberships = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let unified = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::/"));
    let unified = unified.ok_or("this machine has no cgroup v2")?;
    let group = Path::new("/sys/fs/cgroup").join(unified);
    let controllers = std::fs::read_to_string(group.join("cgroup.controllers"))
        .map_err(|_| "the own control group cannot be seen")?;
    let has = |wanted| controllers.split_whitespace().any(|name| name == wanted);
    if !(has("memory") && has("pids")) {
        return Err("the own control group has no memory and pids controllers");
    }
    let may_write =
        |name: &str| nix::unistd::access(&group.join(name), nix::unistd::AccessFlags::W_OK).is_ok();
    if may_write("cgroup.procs") && may_write("cgroup.subtree_control") {
        Ok(group)
    } else {
        Err("the own control group is not delegated to this user")
    }
}
