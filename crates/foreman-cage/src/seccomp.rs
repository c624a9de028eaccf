//! The system call filter of every program in a cage, written by hand for the kernel's own machine.
//!
//! A deny list on top of the other walls: it closes what namespaces do not cover (keyrings, vsock,
//! bpf, performance counters), what would change them (mounts, namespaces), and what a filter cannot
//! look into (`clone3`, io_uring). Programs get the answers they know from older kernels and
//! ordinary users: `ENOSYS` where they then fall back, `EPERM` elsewhere.
//!
//! `ptrace` stays allowed, because debuggers and tracers are ordinary tools of the work: it reaches
//! only processes of the same inner user namespace, and the kernel runs this filter again on what a
//! tracer changes. Reading memory by `process_vm_readv` has no such need.

mod alone;
pub(crate) mod watch;

use crate::kernel;
use std::io;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xc000_00b7;

/// First number of the x32 calls, which share the architecture of the 64-bit ones.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

// Offsets in the structure that a filter looks at. Arguments are 64 bits, little endian.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn low_half_of_argument(index: u32) -> u32 {
    16 + 8 * index
}

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const fn answer(errno: i32) -> u32 {
    0x0005_0000 | errno as u32
}

/// `CLONE_NEW*`: time, mounts, cgroup, names, ipc, user, processes, network.
const NAMESPACES: u32 = 0x0000_0080 | 0x0002_0000 | 0x7e00_0000;
/// The same for `clone`, whose lowest byte is the exit signal.
const NAMESPACES_OF_CLONE: u32 = NAMESPACES & !0xff;

/// Calls that simply do not exist here.
const ABSENT: [i64; 4] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Calls that are not permitted, whatever their arguments.
const DENIED: &[i64] = &[
    // Namespaces and roots.
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    // Mounts, by the old and the new interface.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    // Files by handle, around every mount.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // Programs in the kernel, counters, faults.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_lookup_dcookie,
    // Keys of the operator's session.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Other processes.
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    // The machine.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
];

/// Denied calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
    libc::SYS_vserver,
];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[i64] = &[];

/// `open_tree_attr`, newer than the C library's list.
const OPEN_TREE_ATTR: i64 = 467;

/// Terminal requests that put words into another's mouth, or change a terminal's driver.
const DENIED_IOCTLS: [u32; 3] = [
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x5423, // TIOCSETD
];

const AF_UNIX: u32 = libc::AF_UNIX as u32;
const AF_INET: u32 = libc::AF_INET as u32;
const AF_INET6: u32 = libc::AF_INET6 as u32;
const AF_NETLINK: u32 = libc::AF_NETLINK as u32;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u32 = 0xf;
const MPTCP: u32 = 262;
const QUERY_PERSONALITY: u32 = 0xffff_ffff;

/// So few calls are compared one by one.
const LEAF: usize = 4;

/// A filter under construction. Jumps are only ever forward over a few instructions, inside one
/// check, so each check is a unit that leaves the system call's number in the accumulator or ends.
#[derive(Default)]
struct Program(Vec<libc::sock_filter>);

impl Program {
    fn push(&mut self, code: u32, jt: u8, jf: u8, k: u32) {
        let code = code as u16; // all codes used here fit
        self.0.push(libc::sock_filter { code, jt, jf, k });
    }
    fn load(&mut self, offset: u32) {
        self.push(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset);
    }
    fn mask(&mut self, bits: u32) {
        self.push(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, bits);
    }
    /// Goes on when equal, else jumps.
    fn unless_equal_skip(&mut self, value: u32, skip: u8) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    }
    fn if_equal_skip(&mut self, value: u32, skip: u8) {
        self.push(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skip, 0, value);
    }
    fn end(&mut self, result: u32) {
        self.push(libc::BPF_RET | libc::BPF_K, 0, 0, result);
    }
    fn end_if_equal(&mut self, value: u32, result: u32) {
        self.unless_equal_skip(value, 1);
        self.end(result);
    }

    /// A search for the call among sorted ones, each with its answer; goes on behind `tail` further
    /// instructions when it is none of them. The kernel walks through a new filter once for every
    /// call there is, so that a mere list would be a considerable part of what a start costs.
    fn search(answers: &[(u32, u32)], tail: u32) -> Self {
        let mut here = Self::default();
        let (lower, upper) = answers.split_at(answers.len() / 2);
        let Some((first_of_upper, _)) = upper.first().filter(|_| answers.len() > LEAF) else {
            for (call, result) in answers {
                here.end_if_equal(*call, *result);
            }
            here.push(libc::BPF_JMP | libc::BPF_JA, 0, 0, tail);
            return here;
        };
        let mut upper = Self::search(upper, tail);
        let mut lower = Self::search(lower, tail + upper.0.len() as u32);
        // The lower half of all calls is about a hundred instructions; a jump reaches 255.
        let skip = u8::try_from(lower.0.len()).unwrap_or(u8::MAX);
        let at_least = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
        here.push(at_least, skip, 0, *first_of_upper);
        here.0.append(&mut lower.0);
        here.0.append(&mut upper.0);
        here
    }

    /// A check of the arguments of one call: `body` must end in every case.
    fn of_call(&mut self, call: i64, body: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        body(&mut inner);
        // A check is a few dozen instructions; a jump reaches 255.
        let length = u8::try_from(inner.0.len()).unwrap_or(u8::MAX);
        self.unless_equal_skip(call as u32, length);
        self.0.append(&mut inner.0);
    }
}

/// The filter; with what makes up for missing namespaces where processes are named that see to the cage.
fn program(supervisors: Option<&[u32]>) -> Vec<libc::sock_filter> {
    let mut filter = Program::default();
    let not_permitted = answer(libc::EPERM);
    filter.load(ARCHITECTURE);
    filter.if_equal_skip(ARCH, 1);
    filter.end(KILL_PROCESS);
    filter.load(NUMBER);
    #[cfg(target_arch = "x86_64")]
    {
        filter.push(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_BIT);
        filter.end(answer(libc::ENOSYS));
    }
    let absent = ABSENT.map(|call| (call as u32, answer(libc::ENOSYS)));
    let denied = DENIED.iter().chain(DENIED_HERE);
    let denied = denied.map(|call| (*call as u32, not_permitted));
    let mut answers: Vec<_> = absent.into_iter().chain(denied).collect();
    answers.extend(supervisors.iter().flat_map(|_| alone::answers()));
    answers.sort_unstable();
    filter.0.append(&mut Program::search(&answers, 0).0);
    if let Some(supervisors) = supervisors {
        alone::rules(&mut filter, supervisors);
    }
    for (call, bits) in [
        (libc::SYS_clone, NAMESPACES_OF_CLONE),
        (libc::SYS_unshare, NAMESPACES),
    ] {
        filter.of_call(call, |body| {
            body.load(low_half_of_argument(0));
            body.push(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 0, 1, bits);
            body.end(not_permitted);
            body.end(ALLOW);
        });
    }
    filter.of_call(libc::SYS_personality, |body| {
        body.load(low_half_of_argument(0));
        body.end_if_equal(0, ALLOW);
        body.end_if_equal(QUERY_PERSONALITY, ALLOW);
        body.end(not_permitted);
    });
    filter.of_call(libc::SYS_ioctl, |body| {
        // The kernel looks at the low half only, so that is what counts.
        body.load(low_half_of_argument(1));
        for request in DENIED_IOCTLS {
            body.end_if_equal(request, not_permitted);
        }
        for request in supervisors.iter().flat_map(|_| alone::DENIED_IOCTLS) {
            body.end_if_equal(request, not_permitted);
        }
        body.end(ALLOW);
    });
    filter.of_call(libc::SYS_socket, socket_rules);
    filter.of_call(libc::SYS_socketpair, |body| {
        body.load(low_half_of_argument(0));
        body.end_if_equal(AF_UNIX, ALLOW);
        body.end(answer(libc::EAFNOSUPPORT));
    });
    filter.end(ALLOW);
    filter.0
}

/// `socket(family, type, protocol)`: Unix; TCP, MPTCP and UDP over IP; route netlink.
fn socket_rules(body: &mut Program) {
    let not_permitted = answer(libc::EPERM);
    body.load(low_half_of_argument(0));
    body.end_if_equal(AF_UNIX, ALLOW);
    let mut netlink = Program::default();
    netlink.load(low_half_of_argument(2));
    netlink.end_if_equal(0, ALLOW); // NETLINK_ROUTE
    netlink.end(answer(libc::EPROTONOSUPPORT));
    body.unless_equal_skip(AF_NETLINK, netlink.0.len() as u8);
    body.0.append(&mut netlink.0);
    body.if_equal_skip(AF_INET, 2);
    body.if_equal_skip(AF_INET6, 1);
    body.end(answer(libc::EAFNOSUPPORT));
    body.load(low_half_of_argument(1));
    body.mask(SOCKET_TYPE);
    for (kind, protocols) in [
        (
            libc::SOCK_STREAM as u32,
            &[0, libc::IPPROTO_TCP as u32, MPTCP][..],
        ),
        (libc::SOCK_DGRAM as u32, &[0, libc::IPPROTO_UDP as u32][..]),
    ] {
        let mut inner = Program::default();
        inner.load(low_half_of_argument(2));
        for protocol in protocols {
            inner.end_if_equal(*protocol, ALLOW);
        }
        inner.end(not_permitted);
        body.unless_equal_skip(kind, inner.0.len() as u8);
        body.0.append(&mut inner.0);
    }
    body.end(not_permitted);
}

/// A filter ready to be installed.
pub(crate) struct Filter(Vec<libc::sock_filter>);

impl Filter {
    pub fn new() -> Self {
        Self(program(None))
    }

    /// The filter where there are no namespaces, which closes what those would have. These processes must not
    /// be signalled.
    pub fn without_namespaces(supervisors: &[u32]) -> Self {
        Self(program(Some(supervisors)))
    }

    /// Puts the caller, and everything it will ever start, behind the filter. Needs
    /// `no_new_privs`.
    pub fn install(&self) -> io::Result<()> {
        kernel::install_filter(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the filter as the kernel does.
    pub(super) fn run(
        filter: &[libc::sock_filter],
        arch: u32,
        number: u32,
        arguments: [u64; 6],
    ) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend(0u64.to_le_bytes());
        arguments
            .iter()
            .for_each(|argument| data.extend(argument.to_le_bytes()));
        let (mut at, mut accumulator) = (0usize, 0u32);
        loop {
            let step = filter[at];
            at += 1;
            let code = u32::from(step.code);
            let jump = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
            if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
                let from = step.k as usize;
                accumulator = u32::from_le_bytes(data[from..from + 4].try_into().unwrap());
            } else if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K {
                accumulator &= step.k;
            } else if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
                at += jump(accumulator == step.k);
            } else if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K {
                at += jump(accumulator >= step.k);
            } else if code == libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K {
                at += jump(accumulator & step.k != 0);
            } else if code == libc::BPF_JMP | libc::BPF_JA {
                at += step.k as usize;
            } else if code == libc::BPF_RET | libc::BPF_K {
                return step.k;
            } else {
                panic!("unknown instruction {code:#x}");
            }
        }
    }

    fn call(number: i64, arguments: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        run(&program(None), ARCH, u32::try_from(number).unwrap(), all)
    }

    const EPERM: u32 = answer(libc::EPERM);

    #[test]
    fn ordinary_calls_are_allowed() {
        for number in [
            libc::SYS_openat,
            libc::SYS_execve,
            libc::SYS_futex,
            libc::SYS_ptrace,
        ] {
            assert_eq!(call(number, &[]), ALLOW, "{number}");
        }
    }

    #[test]
    fn foreign_architectures_are_killed_and_x32_does_not_exist() {
        assert_eq!(run(&program(None), 0x4000_0003, 20, [0; 6]), KILL_PROCESS);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(
            run(&program(None), ARCH, X32_BIT | 39, [0; 6]),
            answer(libc::ENOSYS)
        );
    }

    #[test]
    fn every_denied_call_is_denied() {
        for number in DENIED.iter().chain(DENIED_HERE) {
            assert_eq!(call(*number, &[]), EPERM, "{number}");
        }
        for number in ABSENT {
            assert_eq!(call(number, &[]), answer(libc::ENOSYS), "{number}");
        }
    }

    #[test]
    fn no_call_is_denied_but_those_that_are_listed() {
        let listed = |number: i64| {
            DENIED
                .iter()
                .chain(DENIED_HERE)
                .chain(&ABSENT)
                .any(|call| *call == number)
        };
        let with_rules = [
            libc::SYS_personality,
            libc::SYS_socket,
            libc::SYS_socketpair,
        ];
        for number in (0..600).filter(|number| !with_rules.contains(number)) {
            assert_eq!(call(number, &[]) != ALLOW, listed(number), "{number}");
        }
    }

    #[test]
    fn each_namespace_flag_is_denied_and_threads_are_not() {
        for bit in [17, 25, 26, 27, 28, 29, 30] {
            let flag = 1u64 << bit;
            assert_eq!(
                call(libc::SYS_clone, &[flag | 17]),
                EPERM,
                "clone {flag:#x}"
            );
            assert_eq!(call(libc::SYS_unshare, &[flag]), EPERM, "unshare {flag:#x}");
        }
        assert_eq!(call(libc::SYS_unshare, &[0x80]), EPERM, "time");
        assert_eq!(call(libc::SYS_clone, &[0x3d_0f00]), ALLOW, "a thread");
        assert_eq!(call(libc::SYS_clone, &[0x0120_0011]), ALLOW, "fork");
        assert_eq!(call(libc::SYS_unshare, &[0x200]), ALLOW, "own file table");
    }

    #[test]
    fn terminal_injection_is_denied_whatever_the_high_half_says() {
        for request in [0x5412u64, 0xdead_0000_0000_5412, 0x541c, 0x5423] {
            assert_eq!(call(libc::SYS_ioctl, &[0, request]), EPERM, "{request:#x}");
        }
        assert_eq!(call(libc::SYS_ioctl, &[0, 0x5413]), ALLOW);
    }

    #[test]
    fn only_unix_tcp_udp_and_route_netlink_sockets_can_be_made() {
        let socket = |family: u64, kind: u64, protocol: u64| {
            call(libc::SYS_socket, &[family, kind, protocol])
        };
        let flags = libc::SOCK_CLOEXEC as u64 | libc::SOCK_NONBLOCK as u64;
        for family in [2, 10] {
            assert_eq!(socket(family, 1 | flags, 0), ALLOW);
            assert_eq!(socket(family, 1, 6), ALLOW);
            assert_eq!(socket(family, 1, 262), ALLOW, "mptcp");
            assert_eq!(socket(family, 2 | flags, 17), ALLOW);
            assert_eq!(socket(family, 2, 1), EPERM, "ping");
            assert_eq!(socket(family, 3, 1), EPERM, "raw");
            assert_eq!(socket(family, 3 | flags, 255), EPERM, "raw");
            assert_eq!(socket(family, 10, 0), EPERM, "packet");
            assert_eq!(socket(family, 1, 132), EPERM, "sctp");
            assert_eq!(socket(family, 1, 256), EPERM, "smc");
            assert_eq!(socket(family, 5, 132), EPERM, "sctp");
            assert_eq!(socket(family, 6, 33), EPERM, "dccp");
        }
        assert_eq!(socket(1, 5, 0), ALLOW, "unix");
        assert_eq!(socket(16, 3, 0), ALLOW, "route");
        for protocol in [4, 5, 9, 12, 15, 16, 20] {
            assert_eq!(
                socket(16, 3, protocol),
                answer(libc::EPROTONOSUPPORT),
                "{protocol}"
            );
        }
        for family in [0, 3, 15, 17, 21, 29, 30, 31, 38, 40, 43, 44, 45] {
            assert_eq!(
                socket(family, 1, 0),
                answer(libc::EAFNOSUPPORT),
                "family {family}"
            );
        }
        assert_eq!(call(libc::SYS_socketpair, &[1, 1, 0]), ALLOW);
        assert_eq!(
            call(libc::SYS_socketpair, &[30, 1, 0]),
            answer(libc::EAFNOSUPPORT)
        );
    }

    #[test]
    fn a_personality_can_be_asked_for_but_not_set() {
        assert_eq!(call(libc::SYS_personality, &[0xffff_ffff]), ALLOW);
        assert_eq!(call(libc::SYS_personality, &[0]), ALLOW);
        assert_eq!(call(libc::SYS_personality, &[0x0004_0000]), EPERM);
        assert_eq!(call(libc::SYS_personality, &[8]), EPERM);
    }
}
