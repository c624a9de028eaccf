//! What hostile programs try.

use crate::fixture::{
    ATTACKER, ORDINARY, ROOT_MAPS_TO, attack, in_cage, payload, run, shell, spec, until,
};
use foreman_cage::{CageSpec, Exit};
use std::collections::HashMap;
use std::os::linux::net::SocketAddrExt as _;

async fn tries(cage: &foreman_cage::Cage, name: &str) -> HashMap<String, String> {
    let text = attack(cage, name, &[]).await;
    let pairs = text.lines().map(|line| line.split_once(' ').unwrap());
    pairs
        .map(|(name, answer)| (name.to_owned(), answer.to_owned()))
        .collect()
}

pub fn every_forbidden_call_is_refused() {
    in_cage(&spec(), async |at| {
        let seen = tries(&at.cage, "calls").await;
        let absent = [
            "clone3",
            "io_uring_setup",
            "io_uring_enter",
            "io_uring_register",
        ];
        for (name, answer) in &seen {
            let wanted: &[&str] = match name.as_str() {
                name if absent.contains(&name) => &["38"],
                // Not filtered: the kernel refuses for want of privilege.
                "setuid-root" => &["22", "1"],
                "nice" => &["13", "1"],
                _ => &["1"],
            };
            assert!(wanted.contains(&answer.as_str()), "{name}: {answer}");
        }
        assert!(seen.len() > 50, "{seen:?}");
    });
}

pub fn only_ordinary_sockets_can_be_made() {
    in_cage(&spec(), async |at| {
        for (name, answer) in tries(&at.cage, "sockets").await {
            let wanted = match name.as_str() {
                "unix" | "tcp" | "udp6" | "route" => "done",
                "raw" | "raw6" | "ping" | "sctp" => "1",
                "netfilter" | "audit" | "uevent" => "93",
                _ => "97",
            };
            assert_eq!(answer, wanted, "{name}");
        }
    });
}

pub fn foreign_calls_do_not_work() {
    in_cage(&spec(), async |at| {
        assert_eq!(
            run(&at.cage, &[ATTACKER, "attack", "int80"]).await.exit,
            Exit::Signal(31)
        );
        if cfg!(target_arch = "x86_64") {
            assert_eq!(tries(&at.cage, "x32").await["x32"], "38");
        }
    });
}

pub fn process_1_is_out_of_reach() {
    in_cage(&spec(), async |at| {
        for (name, answer) in tries(&at.cage, "init").await {
            // A signal that may be sent is ignored by the kernel's own rule.
            assert!(
                answer != "done" || name.starts_with("kill"),
                "{name}: {answer}"
            );
        }
        assert_eq!(
            run(&at.cage, &["true"]).await.exit,
            Exit::Code(0),
            "process 1 is gone"
        );
        // Nor can one step trace the program of another.
        let other = at.cage.spawn(payload(&["sleep", "1000.5"])).await.unwrap();
        let line = format!(
            "cat /proc/{0}/environ /proc/{0}/mem 2>&1; ls -l /proc/{0}/root",
            other.pid
        );
        let ended = run(&at.cage, &["sh", "-c", &line]).await;
        assert_ne!(ended.exit, Exit::Code(0), "{ended:?}");
        assert!(!ended.out.contains("PATH="), "{ended:?}");
    });
}

pub fn programs_have_no_privilege() {
    in_cage(&spec(), async |at| {
        let status = shell(&at.cage, "cat /proc/self/status").await;
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert!(
                status.contains(&format!("{set}:\t0000000000000000")),
                "{status}"
            );
        }
        assert!(
            status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"),
            "{status}"
        );
        let map = shell(&at.cage, "cat /proc/self/uid_map /proc/self/setgroups").await;
        let words: Vec<&str> = map.split_whitespace().collect();
        assert_eq!(
            (words[0], words[2], words[3]),
            (words[1], "1", "deny"),
            "{map}"
        );
        assert_ne!(words[0], "0");
        assert_eq!(
            shell(&at.cage, "ulimit -c; cat /proc/self/oom_score_adj").await,
            "0\n500\n"
        );
        // Own session, no terminal.
        assert_eq!(
            shell(&at.cage, "cut -d' ' -f6,7 /proc/$$/stat; echo $$")
                .await
                .lines()
                .count(),
            2
        );
    });
}

pub fn abstract_sockets_of_the_host_are_out_of_reach() {
    let address = std::os::unix::net::SocketAddr::from_abstract_name("foreman-cage-it").unwrap();
    let _listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    in_cage(&spec(), async |at| {
        assert_ne!(tries(&at.cage, "abstract").await["abstract"], "done");
    });
}

pub fn a_fork_bomb_is_bounded_and_the_next_program_starts() {
    let spec = CageSpec {
        processes: 40,
        ..spec()
    };
    in_cage(&spec, async |at| {
        let text = attack(&at.cage, "forks", &[]).await;
        let (count, errno) = text.trim().split_once(' ').unwrap();
        let count: u32 = count.parse().unwrap();
        assert!((30..=40).contains(&count), "{text}");
        assert_eq!(errno, "11");
        // The sleepers are still there: a later program starts all the same.
        until("the sleepers are orphans", || {
            at.cage.processes().len() as u32 >= count
        })
        .await;
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
        // The bound is one for all programs together, but for a few spare ones.
        let more = attack(&at.cage, "forks", &[]).await;
        let more: u32 = more.split_whitespace().next().unwrap().parse().unwrap();
        assert!(count + more <= 40 + 16, "{count} and {more}");
        let killed = at.cage.kill_all().await;
        assert_eq!(killed, count + more);
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
    });
}

pub fn roots_cage_is_an_unprivileged_user_on_the_host() {
    in_cage(&spec(), async |at| {
        let child = at.cage.spawn(payload(&["sleep", "1000.75"])).await.unwrap();
        let seen = crate::fixture::on_host("1000.75");
        assert_eq!(seen.len(), 1, "{seen:?}");
        let ids = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let of = |name: &str| {
                let line = status
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .unwrap();
                line.split_whitespace()
                    .map(|id| id.parse::<u32>().unwrap())
                    .collect::<Vec<_>>()
            };
            (of("Uid:"), of("Gid:"), of("Groups:"))
        };
        let root = nix::unistd::geteuid().is_root();
        let me = nix::unistd::geteuid().as_raw();
        assert!(root || me != 0 && (me == ORDINARY || me != ROOT_MAPS_TO));
        let expected = if root { ROOT_MAPS_TO } else { me };
        for pid in [seen[0], at.cage.init_pid()] {
            let (uids, gids, groups) = ids(pid);
            assert_eq!(uids, [expected; 4], "{pid}");
            if root {
                assert_eq!(gids, [expected; 4], "{pid}");
                assert!(groups.iter().all(|group| *group == expected), "{groups:?}");
            }
        }
        at.cage.signal(child.pid, 9).unwrap();
    });
}
