//! What is seen of the host, and what can be written.

use crate::fixture::{ROOT_MAPS_TO, attack, folder, home, in_cage, run, shell, spec, worktree};
use foreman_cage::{Bind, CageSpec, Exit};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

pub fn the_worktree_is_live_in_both_directions() {
    let mut spec = spec();
    let shown = folder().join("shown");
    std::fs::create_dir(&shown).unwrap();
    std::fs::write(shown.join("file"), "one").unwrap();
    let target = home().join("deep/down/shown");
    spec.binds.push(Bind {
        source: shown.clone(),
        target: target.clone(),
        writable: false,
    });
    in_cage(&spec, async |at| {
        shell(&at.cage, "echo inside > made-inside").await;
        let made = worktree().join("made-inside");
        assert_eq!(std::fs::read_to_string(&made).unwrap(), "inside\n");
        let owner = if nix::unistd::geteuid().is_root() {
            ROOT_MAPS_TO
        } else {
            nix::unistd::geteuid().as_raw()
        };
        assert_eq!(made.metadata().unwrap().uid(), owner);
        std::fs::write(worktree().join("made-outside"), "outside").unwrap();
        assert_eq!(shell(&at.cage, "cat made-outside").await, "outside");
        assert_eq!(
            shell(&at.cage, &format!("cat {}/file", target.display())).await,
            "one"
        );
        std::fs::write(shown.join("file"), "two").unwrap();
        assert_eq!(
            shell(&at.cage, &format!("cat {}/file", target.display())).await,
            "two"
        );
        let tries = [target.join("file"), target.join("new")];
        let tries: Vec<&str> = tries.iter().map(|path| path.to_str().unwrap()).collect();
        for line in attack(&at.cage, "write", &tries).await.lines() {
            // The mount says no, or already the owner of the file.
            assert!(line.ends_with(" 30") || line.ends_with(" 13"), "{line}");
        }
    });
    assert!(
        !home().join("deep").exists(),
        "a mount point was made on the host"
    );
}

pub fn sockets_and_hidden_folders_below_a_system_directory_are_covered() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped as an ordinary user: only root can make a folder below /opt");
        return;
    }
    let place = Path::new("/opt").join(format!("foreman-cage-test-{}", std::process::id()));
    let hidden = place.join("hidden");
    std::fs::create_dir_all(&hidden).unwrap();
    std::fs::write(hidden.join("secret"), "secret").unwrap();
    std::fs::write(place.join("tool"), "tool").unwrap();
    let socket = place.join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&socket, open).unwrap();
    let mut spec = spec();
    spec.hidden.push(hidden.clone());
    let shown = worktree().join("shown");
    std::fs::create_dir(&shown).unwrap();
    spec.binds.push(Bind {
        source: shown,
        target: hidden.join("inside/shown"),
        writable: false,
    });
    let script = format!(
        "cd {}; cat tool; ls -A hidden hidden/inside; test -S socket && echo socket; touch hidden/x || echo sealed",
        place.display()
    );
    in_cage(&spec, async |at| {
        let said = shell(&at.cage, &script).await;
        assert_eq!(
            said,
            "toolhidden:\ninside\n\nhidden/inside:\nshown\nsealed\n"
        );
    });
    std::fs::remove_dir_all(&place).unwrap();
}

pub fn nothing_else_of_the_host_is_seen() {
    let spec = spec();
    let socket = folder().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    in_cage(&spec, async |at| {
        let secret = home().join("secret");
        for path in [
            secret.to_str().unwrap(),
            socket.to_str().unwrap(),
            "/run/dbus",
            "/etc/shadow",
            "/etc/ssh",
            "/etc/sudoers",
            "/etc/fstab",
            "/sys/kernel",
            "/var/log",
            "/var/lib",
            "/boot/grub",
        ] {
            let line = format!("test -e '{path}'");
            assert_eq!(
                run(&at.cage, &["sh", "-c", &line]).await.exit,
                Exit::Code(1),
                "{path}"
            );
        }
        assert_eq!(
            shell(
                &at.cage,
                "ls /tmp /var/tmp /home /root /mnt /srv 2>&1 | \
            grep -v '^/.*:$' | grep -v '^$' | grep -v \"^$(echo $HOME | cut -d/ -f3)$\"; true"
            )
            .await,
            ""
        );
        let listed = shell(&at.cage, "ls -A ~").await;
        assert_eq!(listed, "trees\n");
        // Only its own processes.
        let pids = shell(&at.cage, "ls -d /proc/[0-9]* | wc -l").await;
        assert!(pids.trim().parse::<u32>().unwrap() <= 5, "{pids}");
        let mounts = shell(&at.cage, "cat /proc/self/mountinfo").await;
        assert!(!mounts.contains("secret"), "{mounts}");
    });
}

pub fn the_system_and_proc_are_read_only() {
    in_cage(&spec(), async |at| {
        let tries = [
            "/x",
            "/usr/x",
            "/usr/bin/env",
            "/bin/x",
            "/etc/x",
            "/etc/passwd",
            "/etc/ld.so.preload",
            "/dev/x",
            "/dev/pts/x",
            "/run/x",
            "/run/foreman/x",
            "/run/foreman/bin/foreman",
            "/proc/sys/kernel/core_pattern",
            "/proc/sys/kernel/hostname",
            "/proc/sys/user/max_user_namespaces",
            "/proc/sys/net/ipv4/ip_forward",
            "/proc/sys/kernel/modprobe",
            "/proc/sysrq-trigger",
            "/proc/irq/default_smp_affinity",
            "/sys/x",
            "/home",
            "/run/attacker/it",
            "/opt/x",
            "/var/x",
        ];
        let text = attack(&at.cage, "write", &tries).await;
        for line in text.lines() {
            let stopped = [" 30", " 13", " 21", " 2", " 1", " 26"]
                .iter()
                .any(|end| line.ends_with(end));
            assert!(stopped, "{line}");
        }
        assert_eq!(text.lines().count(), tries.len());
        for path in [
            "/proc/keys",
            "/proc/timer_list",
            "/proc/kcore",
            "/proc/kmsg",
        ] {
            let seen = shell(&at.cage, &format!("head -c 10 {path} 2>/dev/null | wc -c")).await;
            assert_eq!(seen.trim(), "0", "{path}");
        }
        // What is meant to be written can be.
        let open = [
            "/tmp/x",
            "/var/tmp/x",
            "/dev/shm/x",
            "/dev/null",
            "/dev/full",
        ];
        for line in attack(&at.cage, "write", &open).await.lines() {
            assert!(line.ends_with(" done"), "{line}");
        }
    });
}

pub fn the_git_file_can_be_neither_written_nor_replaced() {
    let spec = spec();
    let before = std::fs::read_to_string(worktree().join(".git")).unwrap();
    in_cage(&spec, async |at| {
        for line in [
            "echo evil > .git",
            "rm -f .git",
            "mv .git elsewhere",
            "mv -T other .git",
            "ln -sf x .git",
            "cp other .git",
            "chmod 777 .git",
            "truncate -s 0 .git",
            "touch -d yesterday .git",
            "cd .. && mv run away && mkdir run",
            "rm -rf ../run/.git",
        ] {
            let ended = run(
                &at.cage,
                &["sh", "-c", &format!("echo evil > other; {line}")],
            )
            .await;
            assert_ne!(ended.exit, Exit::Code(0), "{line}: {ended:?}");
        }
        // Through another name of the same directory.
        let ended = run(
            &at.cage,
            &["sh", "-c", "ln -s . here; echo evil > here/.git"],
        )
        .await;
        assert_ne!(ended.exit, Exit::Code(0));
    });
    assert_eq!(
        std::fs::read_to_string(worktree().join(".git")).unwrap(),
        before
    );
}

pub fn users_hosts_and_the_resolver_are_the_cages_own() {
    in_cage(&spec(), async |at| {
        assert_eq!(
            shell(&at.cage, "id -un; hostname; cat /etc/resolv.conf").await,
            "tester\ncage-under-test\nnameserver 198.18.0.1\n"
        );
        let hosts = shell(&at.cage, "getent hosts localhost cage-under-test | wc -l").await;
        assert_eq!(hosts.trim(), "2");
        assert!(
            shell(&at.cage, "grep hosts: /etc/nsswitch.conf")
                .await
                .contains("files dns")
        );
        let passwd = shell(&at.cage, "cat /etc/passwd").await;
        assert!(
            passwd.contains(&format!(":{}:/bin/", home().display())),
            "{passwd}"
        );
        assert!(passwd.lines().count() <= 3, "{passwd}");
        // The certificates and the dynamic linker's view are the host's, where it has them.
        for there in ["/etc/ssl/certs", "/etc/ld.so.cache"] {
            if Path::new(there).exists() {
                shell(&at.cage, &format!("test -e {there}")).await;
            }
        }
        let id = shell(&at.cage, "cat /etc/machine-id").await;
        assert_ne!(Some(id), std::fs::read_to_string("/etc/machine-id").ok());
    });
}

pub fn the_cages_files_hold_no_setuid_and_no_devices() {
    let mut spec = spec();
    let shown = folder().join("shown");
    std::fs::create_dir(&shown).unwrap();
    spec.binds.push(Bind {
        source: shown,
        target: home().join("shown"),
        writable: true,
    });
    in_cage(&spec, async |at| {
        let options = shell(&at.cage, "awk '{print $5, $6}' /proc/self/mountinfo").await;
        for line in options.lines() {
            let (point, options) = line.split_once(' ').unwrap();
            let options: Vec<&str> = options.split(',').collect();
            let device = point.starts_with("/dev/") || point == "/dev";
            let covered = point.starts_with("/proc/");
            assert!(
                options.contains(&"nosuid") || (device && !point.ends_with("shm")),
                "{line}"
            );
            assert!(options.contains(&"nodev") || device || covered, "{line}");
            let open = ["/tmp", "/var/tmp", "/proc", "/dev/pts", "/dev/shm"].contains(&point)
                || point.starts_with(home().to_str().unwrap())
                || point.starts_with("/dev/");
            assert!(open || options.contains(&"ro"), "{line}");
        }
        // A setuid copy of a shell gains nothing, and mknod makes nothing.
        shell(
            &at.cage,
            "cp /bin/sh s && chmod 4755 s && ./s -c 'test $(id -u) = $(id -ru)'",
        )
        .await;
        let ended = run(&at.cage, &["sh", "-c", "mknod /tmp/null c 1 3"]).await;
        assert_ne!(ended.exit, Exit::Code(0));
    });
}

pub fn foreman_and_its_socket_are_there() {
    // The program is `echo` in these tests.
    let spec: CageSpec = spec();
    in_cage(&spec, async |at| {
        assert_eq!(shell(&at.cage, "foreman why").await, "why\n");
        let listener = UnixListener::from(at.why);
        let answer = std::thread::spawn(move || {
            listener.set_nonblocking(false).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"because").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        let line = "import socket,sys; s=socket.socket(socket.AF_UNIX); \
            s.connect('/run/foreman/why.sock'); print(s.recv(99).decode()); s.sendall(b'thanks')";
        let ended = run(&at.cage, &["/usr/bin/python3", "-c", line]).await;
        assert_eq!(ended.out, "because\n", "{ended:?}");
        assert_eq!(answer.join().unwrap(), "thanks");
        let ended = run(&at.cage, &["sh", "-c", "rm -f /run/foreman/why.sock"]).await;
        assert_ne!(ended.exit, Exit::Code(0));
    });
}

pub fn odd_paths_are_no_obstacle() {
    let mut spec = spec();
    let odd = home().join("a b/tüv\n日本\"'$x");
    std::fs::create_dir_all(&odd).unwrap();
    std::fs::write(odd.join("file"), "odd").unwrap();
    spec.binds.push(Bind {
        source: odd.clone(),
        target: odd.clone(),
        writable: false,
    });
    spec.workdir = odd;
    in_cage(&spec, async |at| {
        assert_eq!(shell(&at.cage, "cat file").await, "odd");
        assert!(at.cage.probe().await.iter().all(|result| result.holds));
    });
}
