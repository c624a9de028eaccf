//! Who the programs of a cage are.
//!
//! A cage maps one user and one group onto themselves, never user 0 of the machine: user 0 stays
//! what it is even without capabilities, and the kernel trusts it in places (`core_pattern`). A
//! launcher that is root therefore becomes an unprivileged user first. A launcher that is only
//! called root, in a user namespace where user 0 is an ordinary user of the machine, keeps its real
//! identity and gets an unprivileged number inside.

use crate::kernel;
use crate::wire::{During, Failed};
use crate::{CageSpec, Step};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, getegid, geteuid, setgroups, setresgid, setresuid};
use std::io;

/// The user and group of a cage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Number inside.
    pub uid: u32,
    /// Number of the group inside.
    pub gid: u32,
    /// Number in the launcher's namespace.
    outside_uid: u32,
    outside_gid: u32,
    /// Whether the launcher must become it first.
    pub change: bool,
}

impl Identity {
    /// Decides who a cage of this launcher will be.
    pub fn of_launcher(spec: &CageSpec) -> Result<Self, Failed> {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        if uid != 0 {
            let same = Self {
                uid,
                gid,
                outside_uid: uid,
                outside_gid: gid,
                change: false,
            };
            return Ok(same);
        }
        let map = std::fs::read_to_string("/proc/self/uid_map")
            .during(Step::DropRoot, || "reading /proc/self/uid_map".into())?;
        Self::of_root(spec.root_maps_to, gid, &map)
    }

    fn of_root(maps_to: u32, gid: u32, map: &str) -> Result<Self, Failed> {
        let refuse = |why: &str| {
            let error = io::Error::from_raw_os_error(libc::EINVAL);
            Err(Failed::new(Step::DropRoot, why, &error))
        };
        if maps_to == 0 || maps_to == u32::MAX {
            return refuse("the user that root maps to must be an unprivileged one");
        }
        if outside_of(map, maps_to).is_some() {
            return Ok(Self {
                uid: maps_to,
                gid: maps_to,
                outside_uid: maps_to,
                outside_gid: maps_to,
                change: true,
            });
        }
        match outside_of(map, 0) {
            Some(outside) if outside != 0 => Ok(Self {
                uid: maps_to,
                gid: maps_to,
                outside_uid: 0,
                outside_gid: gid,
                change: false,
            }),
            _ => refuse("this namespace has no unprivileged user that root could become"),
        }
    }

    /// User and group of the host that the launcher became for the cage, where it is root.
    pub fn host_user(self) -> Option<(u32, u32)> {
        self.change.then_some((self.outside_uid, self.outside_gid))
    }

    /// Becomes the cage's user, where the launcher is root. In the child only.
    pub fn take(self) -> Result<(), Failed> {
        if !self.change {
            return Ok(());
        }
        let (uid, gid) = (
            Uid::from_raw(self.outside_uid),
            Gid::from_raw(self.outside_gid),
        );
        setgroups(&[]).during(Step::DropRoot, || "setgroups".into())?;
        setresgid(gid, gid, gid).during(Step::DropRoot, || format!("setresgid {gid}"))?;
        setresuid(uid, uid, uid).during(Step::DropRoot, || format!("setresuid {uid}"))?;
        // The change made the files of our own /proc entry root's; the maps are written there.
        kernel::process_control(libc::PR_SET_DUMPABLE, 1)
            .during(Step::DropRoot, || "prctl PR_SET_DUMPABLE".into())?;
        Ok(())
    }

    /// Makes the cage's user namespace around the caller and maps the user into it.
    pub fn enter_namespace(self) -> Result<(), Failed> {
        unshare(CloneFlags::CLONE_NEWUSER)
            .during(Step::UserNamespace, || "unshare CLONE_NEWUSER".into())?;
        write_maps((self.uid, self.outside_uid), (self.gid, self.outside_gid))
    }

    /// Makes a second user namespace, for a payload, inside the first.
    pub fn enter_inner_namespace(self) -> Result<(), Failed> {
        unshare(CloneFlags::CLONE_NEWUSER).during(Step::UserNamespace, || {
            "unshare CLONE_NEWUSER, inner".into()
        })?;
        write_maps((self.uid, self.uid), (self.gid, self.gid))
    }
}

/// Writes both maps of the caller's new user namespace: (inside, outside) of user and group.
fn write_maps(user: (u32, u32), group: (u32, u32)) -> Result<(), Failed> {
    let write = |file: &str, text: String| {
        std::fs::write(format!("/proc/self/{file}"), text)
            .during(Step::MapIds, || format!("writing {file}"))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{} {} 1", user.0, user.1))?;
    write("gid_map", format!("{} {} 1", group.0, group.1))
}

/// Number outside of a user namespace, by the text of its map.
fn outside_of(map: &str, inside: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(outside)), Some(Ok(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return None;
        };
        let offset = u64::from(inside)
            .checked_sub(first)
            .filter(|offset| *offset < count)?;
        u32::try_from(outside + offset).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "         0          0 4294967295\n";

    #[test]
    fn root_of_the_machine_becomes_an_unprivileged_user() {
        let identity = Identity::of_root(65534, 0, WHOLE).unwrap();
        assert!(identity.change);
        assert_eq!((identity.uid, identity.outside_uid), (65534, 65534));
    }

    #[test]
    fn root_is_never_mapped_onto_itself() {
        assert!(Identity::of_root(0, 0, WHOLE).is_err());
        assert!(Identity::of_root(65534, 0, "0 0 1\n").is_err());
    }

    #[test]
    fn root_by_name_only_gets_an_unprivileged_number() {
        let identity = Identity::of_root(65534, 0, "0 1000 1\n").unwrap();
        assert!(!identity.change);
        assert_eq!((identity.uid, identity.outside_uid), (65534, 0));
    }

    #[test]
    fn ranges_of_a_map_are_looked_up() {
        let map = "0 1000 1\n1 100000 65536\n";
        assert_eq!(outside_of(map, 0), Some(1000));
        assert_eq!(outside_of(map, 65534), Some(165_533));
        assert_eq!(outside_of(map, 70000), None);
    }
}
