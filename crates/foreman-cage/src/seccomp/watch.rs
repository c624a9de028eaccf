//! The second filter: which calls on files and sockets wait for an answer.
//!
//! It lies on top of the first one, whose refusals win over it, and is put up last, so that everything
//! before a program's own first call needs nobody who answers. It opens nothing: what is told to go on
//! is judged by the kernel like any other call.

use super::{ALLOW, ARCH, ARCHITECTURE, NUMBER, Program, low_half_of_argument};
use crate::files::calls;
use crate::kernel;
use std::io;
use std::os::fd::OwnedFd;

const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;

/// Flags of an open that changes something. `O_TMPFILE` is never without one of the first two.
const WRITES: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;

/// `open` and its like, with the argument that holds their flags.
const OPENS: &[(i64, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

fn program(reads: bool) -> Vec<libc::sock_filter> {
    let mut filter = Program::default();
    filter.load(ARCHITECTURE);
    filter.if_equal_skip(ARCH, 1);
    filter.end(ALLOW); // The first filter kills.
    filter.load(NUMBER);
    for (call, flags) in OPENS {
        filter.of_call(*call, |body| {
            body.load(low_half_of_argument(*flags));
            let mask = if reads { libc::O_PATH as u32 } else { WRITES };
            let (set, clear) = if reads {
                (ALLOW, NOTIFY)
            } else {
                (NOTIFY, ALLOW)
            };
            body.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, mask);
            body.end(set);
            body.end(clear);
        });
    }
    let notified = calls::numbers().chain([libc::SYS_connect]);
    let mut notified: Vec<_> = notified.map(|call| (call as u32, NOTIFY)).collect();
    notified.retain(|(call, _)| !OPENS.iter().any(|(open, _)| *open as u32 == *call));
    notified.sort_unstable();
    filter.0.append(&mut Program::search(&notified, 0).0);
    filter.end(ALLOW);
    filter.0
}

/// Puts the caller, and everything it will ever start, behind the filter; the descriptor on which its
/// calls are answered. With `reads` every open waits. Needs `no_new_privs`.
pub(crate) fn install(reads: bool) -> io::Result<OwnedFd> {
    kernel::install_listening_filter(&program(reads))
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    fn call(reads: bool, number: i64, arguments: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        run(&program(reads), ARCH, u32::try_from(number).unwrap(), all)
    }

    #[test]
    fn opens_wait_when_they_write() {
        for flags in [
            libc::O_WRONLY,
            libc::O_RDWR,
            libc::O_CREAT,
            libc::O_TRUNC,
            libc::O_TMPFILE | libc::O_RDWR,
        ] {
            let flags = u64::from(flags.unsigned_abs());
            assert_eq!(call(false, libc::SYS_openat, &[0, 0, flags]), NOTIFY);
            #[cfg(target_arch = "x86_64")]
            assert_eq!(call(false, libc::SYS_open, &[0, flags]), NOTIFY);
        }
        let quiet =
            u64::from((libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NOFOLLOW).unsigned_abs());
        assert_eq!(call(false, libc::SYS_openat, &[0, 0, quiet]), ALLOW);
        assert_eq!(call(true, libc::SYS_openat, &[0, 0, quiet]), NOTIFY);
        let path = u64::from(libc::O_PATH.unsigned_abs());
        assert_eq!(call(true, libc::SYS_openat, &[0, 0, path]), ALLOW);
    }

    #[test]
    fn every_listed_call_waits_and_no_other() {
        let listed: Vec<i64> = calls::numbers().chain([libc::SYS_connect]).collect();
        assert!(listed.len() > 20);
        for number in 0..600 {
            if OPENS.iter().any(|(open, _)| *open == number) {
                continue;
            }
            let waits = call(false, number, &[]) == NOTIFY;
            assert_eq!(waits, listed.contains(&number), "{number}");
        }
    }

    #[test]
    fn calls_of_another_architecture_are_left_to_the_first_filter() {
        for number in 0..600 {
            assert_eq!(run(&program(true), 0x4000_0003, number, [0; 6]), ALLOW);
        }
    }
}
