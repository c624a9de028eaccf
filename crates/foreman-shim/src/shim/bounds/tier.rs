//! Who keeps a run's bounds: the kernel, by a control group, or the supervisor, by limits and looks.

use super::group::Group;
use super::scope;
use foreman_cage::Cage;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Where the groups of the second version are.
const MOUNT: &str = "/sys/fs/cgroup";

/// Who keeps a run's bounds.
#[derive(Debug)]
pub(in crate::shim) enum Tier {
    /// A control group of the run's own.
    Group {
        group: Group,
        /// Whether the user's service manager made it, in words.
        by: &'static str,
    },
    /// Limits of processes, and a watchdog. Why there is no group, in words.
    Watchdog { why: String },
}

impl Tier {
    pub(super) fn group(&self) -> Option<&Group> {
        match self {
            Self::Group { group, .. } => Some(group),
            Self::Watchdog { .. } => None,
        }
    }

    /// Takes away what it needed; the cage has ended.
    pub(in crate::shim) fn end(&self) {
        if let Self::Group { group, .. } = self {
            group.remove();
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group { group, by } => write!(
                out,
                "bounds are kept by the kernel in a control group {by} ({})",
                group.dir().display()
            ),
            Self::Watchdog { why } => write!(
                out,
                "bounds are kept by process limits and a watchdog, because {why}"
            ),
        }
    }
}

/// Finds out who can keep the bounds of a cage in which nothing runs yet, and puts it there.
pub(in crate::shim) async fn choose(cage: &Cage, run: &str) -> Tier {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match place(Path::new(MOUNT), &own) {
        Err(why) => Tier::Watchdog {
            why: why.to_owned(),
        },
        Ok(Place::Delegated(parent)) => settle(
            cage,
            &parent,
            &format!("foreman-{run}"),
            "below one that is delegated to this user",
        ),
        Ok(Place::Ask(bus)) => {
            let processes = || cage.on_the_host();
            match scope::begin(&bus, Path::new(MOUNT), run, processes).await {
                Ok(scope) => settle(cage, &scope, "cage", "made by your service manager"),
                Err(error) => Tier::Watchdog {
                    why: format!("the user's service manager gave no control group ({error})"),
                },
            }
        }
    }
}

/// Where the bounds of a new run would be kept, in words; else why not by the kernel.
///
/// # Errors
/// Why no control group can be had, in words.
pub(crate) fn where_bounds_are_kept() -> Result<String, String> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match place(Path::new(MOUNT), &own) {
        Ok(Place::Delegated(group)) => Ok(format!(
            "{} is delegated to this user; every run gets a group of its own below it",
            group.display()
        )),
        Ok(Place::Ask(_)) => Ok(
            "your service manager is asked for a control group of each run's own; a run that gets none \
             says so"
                .to_owned(),
        ),
        Err(why) => Err(why.to_owned()),
    }
}

/// Makes the group and puts the cage into it, all or nothing.
fn settle(cage: &Cage, parent: &Path, name: &str, by: &'static str) -> Tier {
    let settled = into_a_group(cage, parent, name);
    settled.map_or_else(
        |error| Tier::Watchdog {
            why: format!(
                "the control group {} cannot be used ({error})",
                parent.display()
            ),
        },
        |group| Tier::Group { group, by },
    )
}

fn into_a_group(cage: &Cage, parent: &Path, name: &str) -> io::Result<Group> {
    let group = Group::make(parent, name)?;
    // The processes leave the parent before it may give its controllers to groups below.
    let settled = move_into(cage, &group).and_then(|()| group.give_controllers());
    if let Err(error) = settled {
        group.remove();
        return Err(error);
    }
    Ok(group)
}

/// Moves the cage's processes, and what they forked meanwhile.
fn move_into(cage: &Cage, group: &Group) -> io::Result<()> {
    let mut moved = Vec::new();
    loop {
        let all = cage.on_the_host();
        if all == moved {
            return Ok(());
        }
        for process in &all {
            match group.take_in(*process) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
                _ => {}
            }
        }
        moved = all;
    }
}

/// Where a group for a run may come from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Below this group, which is ours to divide and has no processes of its own.
    Delegated(PathBuf),
    /// From the manager at this bus.
    Ask(PathBuf),
}

/// Decides from what `/proc/self/cgroup` says and what the groups' files allow.
pub(super) fn place(mount: &Path, own: &str) -> Result<Place, &'static str> {
    let group = scope::group_of(own).ok_or("this machine has no control groups of version 2")?;
    let controllers = std::fs::read_to_string(mount.join("cgroup.controllers")).unwrap_or_default();
    if !has_needed(&controllers) {
        return Err("control groups of version 2 have no memory and pids controllers here");
    }
    // A group that holds processes cannot be divided, so it is the one above ours.
    if let Some(parent) = group.parent().map(|parent| mount.join(parent))
        && parent != mount
        && may_be_divided(&parent)
    {
        return Ok(Place::Delegated(parent));
    }
    let bus = scope::bus().ok_or(
        "no control group is delegated to this user, and there is no service manager of the user's \
         to ask for one",
    )?;
    // To the manager our numbers of processes would be those of others.
    if !has_the_managers_numbers() {
        return Err(
            "this runs in a process namespace of its own, so the user's service manager cannot be told \
             which processes are meant",
        );
    }
    Ok(Place::Ask(bus))
}

/// Whether we are in the machine's own process namespace, whose number never changes.
fn has_the_managers_numbers() -> bool {
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|namespace| namespace.as_os_str() == FIRST)
}

fn may_be_divided(group: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    let read = |name: &str| std::fs::read_to_string(group.join(name)).unwrap_or_default();
    let is_writable = |name: &str| access(&group.join(name), AccessFlags::W_OK).is_ok();
    has_needed(&read("cgroup.controllers"))
        && read("cgroup.procs").trim().is_empty()
        && is_writable("cgroup.procs")
        && is_writable("cgroup.subtree_control")
        && access(group, AccessFlags::W_OK).is_ok()
}

fn has_needed(controllers: &str) -> bool {
    let has = |wanted| controllers.split_whitespace().any(|name| name == wanted);
    has("memory") && has("pids")
}

#[cfg(test)]
mod tests {
    use super::super::group::tests::folder;
    use super::*;

    #[test]
    fn a_group_above_ours_is_used_when_it_can_be_divided() {
        let mount = folder(&[("cgroup.controllers", "cpu memory pids\n")]);
        let parent = mount.path().join("user.slice");
        std::fs::create_dir_all(parent.join("own")).unwrap();
        for (name, text) in [
            ("cgroup.controllers", "memory pids\n"),
            ("cgroup.procs", ""),
            ("cgroup.subtree_control", ""),
        ] {
            std::fs::write(parent.join(name), text).unwrap();
        }
        let own = "0::/user.slice/own\n";
        assert_eq!(
            place(mount.path(), own),
            Ok(Place::Delegated(parent.clone()))
        );
        // One that holds processes of its own cannot be divided.
        std::fs::write(parent.join("cgroup.procs"), "17\n").unwrap();
        assert!(!matches!(place(mount.path(), own), Ok(Place::Delegated(_))));
        std::fs::write(parent.join("cgroup.procs"), "").unwrap();
        std::fs::write(parent.join("cgroup.controllers"), "cpu\n").unwrap();
        assert!(!matches!(place(mount.path(), own), Ok(Place::Delegated(_))));
    }

    #[test]
    fn a_machine_of_the_first_version_says_so() {
        let mount = folder(&[]);
        let why = place(mount.path(), "4:memory:/\n").unwrap_err();
        assert!(why.contains("no control groups"), "{why}");
        // The second version without controllers, as on machines that have both.
        let why = place(mount.path(), "4:memory:/\n0::/\n").unwrap_err();
        assert!(why.contains("controllers"), "{why}");
    }
}
