//! What the filter adds where there are no namespaces: no network at all, no shared memory or queues of the
//! machine's, and the calls on files, processes and descriptors that Landlock does not look at, or only in
//! newer versions than a kernel may have.

use super::{ALLOW, Program, answer, low_half_of_argument};

/// Owners of descriptors, who get their signals: `FIOSETOWN`, `SIOCSPGRP`.
pub(super) const DENIED_IOCTLS: [u32; 2] = [0x8901, 0x8902];
const F_SETOWN: u32 = 8;
const F_SETOWN_EX: u32 = 15;

/// Not in the C library's list yet.
const FCHMODAT2: i64 = 452;
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;

/// Calls by which Landlock's rules are passed by: what they change is named, not opened.
const CHANGES_BY_NAME: &[i64] = &[
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Calls that reach other processes of the machine.
const OTHERS: &[i64] = &[
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_ioprio_set,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Memory and queues that everybody on the machine has in common.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semctl,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_fanotify_init,
];

/// Calls that programs do without.
const ABSENT: [i64; 2] = [libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal];

/// Answers whatever the arguments.
pub(super) fn answers() -> impl Iterator<Item = (u32, u32)> {
    let denied = CHANGES_BY_NAME.iter().chain(OTHERS);
    let denied = denied.map(|call| (*call as u32, answer(libc::EPERM)));
    denied.chain(ABSENT.map(|call| (call as u32, answer(libc::ENOSYS))))
}

/// Answers that depend on the arguments.
pub(super) fn rules(filter: &mut Program, supervisors: &[u32]) {
    let not_permitted = answer(libc::EPERM);
    filter.of_call(libc::SYS_socket, |body| body.end(answer(libc::EACCES)));
    filter.of_call(libc::SYS_kill, |body| {
        body.load(low_half_of_argument(0));
        // Everybody at once.
        body.end_if_equal(u32::MAX, not_permitted);
        for process in supervisors {
            body.end_if_equal(*process, not_permitted);
            // Its group.
            body.end_if_equal(process.wrapping_neg(), not_permitted);
        }
        body.end(ALLOW);
    });
    filter.of_call(libc::SYS_tgkill, |body| {
        body.load(low_half_of_argument(0));
        for process in supervisors {
            body.end_if_equal(*process, not_permitted);
        }
        body.end(ALLOW);
    });
    filter.of_call(libc::SYS_fcntl, |body| {
        body.load(low_half_of_argument(1));
        body.end_if_equal(F_SETOWN, not_permitted);
        body.end_if_equal(F_SETOWN_EX, not_permitted);
        body.end(ALLOW);
    });
    // Only the caller's own, which is process 0.
    for (call, argument) in [
        (libc::SYS_prlimit64, 0),
        (libc::SYS_setpriority, 1),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_sched_setattr, 0),
    ] {
        filter.of_call(call, |body| {
            body.load(low_half_of_argument(argument));
            body.end_if_equal(0, ALLOW);
            body.end(not_permitted);
        });
    }
    // Times of what is open, not of what is named.
    filter.of_call(libc::SYS_utimensat, |body| {
        body.load(low_half_of_argument(1));
        let mut high = Program::default();
        high.load(low_half_of_argument(1) + 4);
        high.end_if_equal(0, ALLOW);
        body.unless_equal_skip(0, high.0.len() as u8);
        body.0.append(&mut high.0);
        body.end(not_permitted);
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::super::{ARCH, DENIED, DENIED_HERE, KILL_PROCESS, program};
    use super::*;

    const SHIM: u32 = 4_711;

    fn call(number: i64, arguments: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let filter = program(Some(&[SHIM, 4_712]));
        run(&filter, ARCH, u32::try_from(number).unwrap(), all)
    }

    const EPERM: u32 = answer(libc::EPERM);

    #[test]
    fn what_landlock_does_not_look_at_is_denied_beside_everything_else() {
        for number in CHANGES_BY_NAME
            .iter()
            .chain(OTHERS)
            .chain(DENIED)
            .chain(DENIED_HERE)
        {
            assert_eq!(call(*number, &[]), EPERM, "{number}");
        }
        for number in ABSENT {
            assert_eq!(call(number, &[]), answer(libc::ENOSYS), "{number}");
        }
        for number in [
            libc::SYS_openat,
            libc::SYS_execve,
            libc::SYS_fchmod,
            libc::SYS_ftruncate,
        ] {
            assert_eq!(call(number, &[]), ALLOW, "{number}");
        }
        assert_eq!(
            run(&program(Some(&[SHIM])), 0x4000_0003, 20, [0; 6]),
            KILL_PROCESS
        );
    }

    #[test]
    fn no_socket_can_be_made_but_a_pair() {
        for family in 0..50 {
            assert_eq!(
                call(libc::SYS_socket, &[family, 1, 0]),
                answer(libc::EACCES),
                "{family}"
            );
        }
        assert_eq!(call(libc::SYS_socketpair, &[1, 1, 0]), ALLOW);
    }

    #[test]
    fn nobody_signals_the_supervisors_or_everybody() {
        let negative = |pid: u32| u64::from(pid.wrapping_neg());
        for target in [
            u64::from(SHIM),
            negative(SHIM),
            4_712,
            negative(1),
            u64::MAX,
        ] {
            assert_eq!(call(libc::SYS_kill, &[target, 9]), EPERM, "{target:#x}");
        }
        for target in [0, 12, negative(12)] {
            assert_eq!(call(libc::SYS_kill, &[target, 9]), ALLOW, "{target:#x}");
        }
        assert_eq!(call(libc::SYS_tgkill, &[u64::from(SHIM), 5_000, 9]), EPERM);
        assert_eq!(call(libc::SYS_tgkill, &[12, 12, 9]), ALLOW);
        assert_eq!(call(libc::SYS_fcntl, &[3, 8, 12]), EPERM);
        assert_eq!(call(libc::SYS_fcntl, &[3, 1030, 0]), ALLOW);
    }

    #[test]
    fn times_and_limits_are_ones_own() {
        assert_eq!(call(libc::SYS_utimensat, &[3, 0, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_utimensat, &[3, 1 << 40, 0, 0]), EPERM);
        assert_eq!(call(libc::SYS_utimensat, &[3, 4096, 0, 0]), EPERM);
        assert_eq!(call(libc::SYS_prlimit64, &[0, 7, 0, 0]), ALLOW);
        assert_eq!(call(libc::SYS_prlimit64, &[12, 7, 0, 0]), EPERM);
        assert_eq!(call(libc::SYS_setpriority, &[0, 12, 5]), EPERM);
    }
}
