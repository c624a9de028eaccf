//! What to do about a step that failed: from the step, the kernel's answer and a look at the few
//! settings that are known to be behind it.

use crate::wire::Failed;
use crate::{LaunchError, Step};
use std::io;
use std::path::Path;

/// The settings of the machine that decide about user namespaces.
#[derive(Debug, Clone, Copy, Default)]
struct Settings {
    /// `kernel.unprivileged_userns_clone` is 0 (Debian's switch).
    switched_off: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns` is 1 (Ubuntu's).
    apparmor: bool,
    /// `user.max_user_namespaces` is 0.
    none_allowed: bool,
    /// Signs of a container around us.
    container: bool,
}

impl Settings {
    fn read() -> Self {
        let is = |file: &str, value: &str| {
            std::fs::read_to_string(Path::new("/proc/sys").join(file))
                .is_ok_and(|text| text.trim() == value)
        };
        Self {
            switched_off: is("kernel/unprivileged_userns_clone", "0"),
            apparmor: is("kernel/apparmor_restrict_unprivileged_userns", "1"),
            none_allowed: is("user/max_user_namespaces", "0"),
            container: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|at| Path::new(at).exists()),
        }
    }
}

/// Makes the launcher's error of what a child reported.
pub(crate) fn explain(failed: Failed) -> LaunchError {
    let source = failed.error();
    let remedy = words(&failed, &source, Settings::read());
    LaunchError {
        step: failed.step,
        wall: failed.step.wall(),
        detail: failed.detail,
        remedy,
        source,
    }
}

const APPARMOR: &str = "AppArmor restricts user namespaces on this machine: install the package, \
    which brings a profile for foreman-shim, or run `sudo sysctl -w \
    kernel.apparmor_restrict_unprivileged_userns=0`";
const SWITCHED_OFF: &str = "user namespaces are switched off for ordinary users: run `sudo sysctl \
    -w kernel.unprivileged_userns_clone=1`";
const NONE_ALLOWED: &str = "no user namespace may be made on this machine: run `sudo sysctl -w \
    user.max_user_namespaces=15000`";
const TOO_MANY: &str = "the limit of namespaces is reached: end some runs, or raise the limits \
    user.max_*_namespaces with sysctl";
const CONTAINER: &str = "this looks like a container whose runtime forbids namespaces: run outside \
    of it, or allow the calls unshare, clone and mount in its seccomp and AppArmor profiles";
const MASKED_PROC: &str = "the /proc of this container is partly masked, so the kernel allows no \
    fresh one inside: start the container with `--security-opt systempaths=unconfined` (docker) or \
    `--security-opt unmask=ALL` (podman)";
const OLD_KERNEL: &str = "this needs Linux 5.15 or newer";
const NF_TABLES: &str = "the kernel lacks a part of nf_tables: run `sudo modprobe -a nf_tables \
    nft_tproxy nft_queue nft_compat xt_NFQUEUE nfnetlink_queue nft_reject_inet`, or install the \
    kernel's extra modules";

fn words(failed: &Failed, error: &io::Error, settings: Settings) -> Option<String> {
    let errno = error.raw_os_error().unwrap_or(0);
    let refused = matches!(errno, libc::EPERM | libc::EACCES);
    let remedy = match failed.step {
        Step::UserNamespace | Step::MapIds | Step::Namespaces => match errno {
            _ if settings.none_allowed => NONE_ALLOWED,
            libc::ENOSPC | libc::EUSERS => TOO_MANY,
            _ if refused && settings.switched_off => SWITCHED_OFF,
            _ if refused && settings.apparmor => APPARMOR,
            _ if refused => CONTAINER,
            libc::ENOSYS | libc::EINVAL => OLD_KERNEL,
            _ => return None,
        },
        Step::NewRoot
        | Step::SystemDirs
        | Step::EtcView
        | Step::Devices
        | Step::Pivot
        | Step::Proc
        | Step::InitProcess => match errno {
            _ if refused && settings.apparmor => APPARMOR,
            libc::EPERM if failed.step == Step::Proc => MASKED_PROC,
            _ if refused && settings.container => CONTAINER,
            libc::ENOSYS => OLD_KERNEL,
            libc::ENOMEM | libc::ENOSPC => "free some memory",
            _ => return None,
        },
        Step::Plumb => match errno {
            _ if refused && settings.apparmor => APPARMOR,
            libc::ENOENT | libc::EOPNOTSUPP | libc::EPROTONOSUPPORT | libc::EAFNOSUPPORT => {
                NF_TABLES
            }
            _ => return None,
        },
        Step::DropRoot => {
            "run it as an ordinary user, or in a namespace that has more than one user"
        }
        Step::OpenSource => match errno {
            libc::ELOOP => "name the path without symbolic links",
            libc::ENOENT => "the path does not exist; make it, or take it out of the policy",
            _ if refused => "the path is closed to the user of the run",
            _ => return None,
        },
        Step::PlaceBind => match errno {
            libc::ELOOP => "a directory on the way is a symbolic link in the cage",
            _ => return None,
        },
        Step::Seccomp => "the kernel needs CONFIG_SECCOMP_FILTER",
        Step::Answer if errno == libc::ETIMEDOUT => {
            "a path that is shown in the cage may be on a file system that does not answer"
        }
        Step::CheckSpec
        | Step::CountThreads
        | Step::Prepare
        | Step::WhySocket
        | Step::Landlock
        | Step::Answer => return None,
    };
    Some(remedy.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(step: Step, errno: i32, settings: Settings) -> Option<String> {
        let error = io::Error::from_raw_os_error(errno);
        words(&Failed::new(step, "", &error), &error, settings)
    }

    #[test]
    fn ubuntus_restriction_is_named() {
        let settings = Settings {
            apparmor: true,
            ..Settings::default()
        };
        for step in [Step::MapIds, Step::NewRoot, Step::Plumb] {
            let words = remedy(step, libc::EPERM, settings).unwrap();
            assert!(words.contains("AppArmor"), "{step:?}: {words}");
        }
    }

    #[test]
    fn a_switch_that_is_off_is_named() {
        let off = Settings {
            switched_off: true,
            ..Settings::default()
        };
        assert!(
            remedy(Step::UserNamespace, libc::EPERM, off)
                .unwrap()
                .contains("userns_clone=1")
        );
        let none = Settings {
            none_allowed: true,
            ..Settings::default()
        };
        let words = remedy(Step::UserNamespace, libc::ENOSPC, none).unwrap();
        assert!(words.contains("max_user_namespaces"));
    }

    #[test]
    fn a_masked_proc_is_told_from_other_mounts() {
        let words = remedy(Step::Proc, libc::EPERM, Settings::default()).unwrap();
        assert!(words.contains("systempaths=unconfined"));
        assert_eq!(
            remedy(Step::NewRoot, libc::EPERM, Settings::default()),
            None
        );
    }

    #[test]
    fn missing_firewall_modules_are_named() {
        let words = remedy(Step::Plumb, libc::ENOENT, Settings::default()).unwrap();
        assert!(words.contains("nft_tproxy"));
    }
}
