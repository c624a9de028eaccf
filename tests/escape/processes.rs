//! IPC and process: nothing of the host can be talked to, seen, traced or outlived.

use crate::Attack;
use crate::attacks;
use crate::ground::{Ground, block_is, is_blocked, none_succeeded};
use anyhow::{Context, Result, ensure};
use foreman_testkit::{Daemon, PATIENCE, Who, eventually, processes_with};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E46"] sockets_of_the_session_are_not_there,
        ["E46"] a_socket_in_the_worktree_hands_nothing_in_unless_the_operator_put_it_there,
        ["E47"] abstract_sockets_of_the_host_are_out_of_reach,
        ["E51"] shared_memory_queues_and_keyrings_are_private,
        ["E52"] processes_of_the_host_cannot_be_touched,
        ["E52"] the_first_process_of_the_cage_cannot_be_traced_or_killed,
        ["E54"] only_processes_and_network_of_the_cage_are_seen,
        ["E56"] nested_namespaces_and_mounts_are_refused,
        ["E57"] a_program_without_a_file_meets_the_same_walls,
        ["E58"] dangerous_system_calls_are_blocked,
        ["E58"] system_calls_of_another_architecture_are_blocked,
        ["E61"] set_user_id_programs_gain_nothing,
        ["E62"] a_daemon_dies_with_the_run,
        ["E63"] a_card_names_the_process_that_waits_and_forgets_it_when_it_is_gone,
    ]
}

fn sockets_of_the_session_are_not_there(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let (runtime, home) = (bench.runtime(), bench.home());
    let mut listeners = Vec::new();
    let mut paths = vec![
        "/run/dbus/system_bus_socket".to_owned(),
        "/var/run/nscd/socket".to_owned(),
    ];
    for path in [
        runtime.join("bus"),
        runtime.join("gnupg/S.gpg-agent"),
        runtime.join("wayland-0"),
        home.join(".ssh-agent.sock"),
        home.join(".docker/run/docker.sock"),
    ] {
        // A session may have one of its own: that is as good.
        if !path.exists() {
            bench.write(&path.with_extension("made"), "")?;
            listeners.push(UnixListener::bind(&path)?);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
        }
        let path = path.display().to_string();
        let control = ground.arena.control(&["unix", &path])?;
        ensure!(
            control[&path]["ok"] == true,
            "uncaged, {path} must be reached: {control}"
        );
        paths.push(path);
    }
    let mut attack = vec!["unix"];
    attack.extend(paths.iter().map(String::as_str));
    let saw = ground.arena.attack(&attack)?;
    none_succeeded(&saw, &[])?;
    let environment = ground.arena.exec(&["env"])?.stdout;
    for name in [
        "SSH_AUTH_SOCK",
        "DBUS_SESSION_BUS_ADDRESS",
        "WAYLAND_DISPLAY",
        "DISPLAY",
        "GPG_AGENT",
    ] {
        ensure!(!environment.contains(name), "{name} is in the environment");
    }
    Ok(())
}

/// The worktree is shared, so a listener that the operator puts there can be reached; nothing else can
/// put one there. What counts is that the cage cannot reach a listener by a link or a bind of its own.
fn a_socket_in_the_worktree_hands_nothing_in_unless_the_operator_put_it_there(
    ground: &Ground<'_>,
) -> Result<()> {
    let bench = &ground.stage.bench;
    let path = bench.home().join("hand.sock").display().to_string();
    let secret = bench.home().join("handed.txt");
    bench.write(&secret, "handed over")?;
    let mut server = ground.arena.product().program(bench.program("fm-attack"));
    let _server = Daemon::start(server.args(["hand-over", &path, &secret.display().to_string()]))?;
    eventually("it listens", PATIENCE, || {
        std::path::Path::new(&path).exists()
    })?;
    let control = ground.arena.control(&["receive", &path])?;
    ensure!(
        control["read"] == "handed over",
        "uncaged it must be handed over: {control}"
    );
    let saw = ground.arena.attack(&["receive", &path])?;
    ensure!(saw["ok"] == false, "{saw}");
    ground
        .arena
        .shell(&format!("ln -s '{path}' e46-link.ignored"))?;
    let saw = ground.arena.attack(&["receive", "e46-link.ignored"])?;
    ensure!(saw["ok"] == false, "by a link: {saw}");
    Ok(())
}

fn abstract_sockets_of_the_host_are_out_of_reach(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let name = format!("fm-e47-{}", bench.uid());
    let mut server = ground.arena.product().program(bench.program("fm-attack"));
    let _server = Daemon::start(server.args(["listen-abstract", &name]))?;
    let reached = eventually("the control reaches it", PATIENCE, || {
        ground
            .arena
            .control(&["abstract", &name])
            .is_ok_and(|saw| saw["ok"] == true)
    });
    reached?;
    let saw = ground.arena.attack(&["abstract", &name])?;
    ensure!(saw["ok"] == false, "{saw}");
    Ok(())
}

fn shared_memory_queues_and_keyrings_are_private(ground: &Ground<'_>) -> Result<()> {
    let key = (46_000 + ground.stage.bench.uid()).to_string();
    let made = ground.arena.control(&["shared-memory", "make", &key])?;
    let found = ground.arena.control(&["shared-memory", "find", &key])?;
    let saw = ground.arena.attack(&["shared-memory", "find", &key]);
    ground.arena.control(&["shared-memory", "remove", &key])?;
    ensure!(
        made["segment"]["ok"] == true && found["segment"]["ok"] == true,
        "{made} {found}"
    );
    let saw = saw?;
    none_succeeded(&saw, &[])?;
    let saw = ground.arena.attack(&["keys"])?;
    for call in ["session", "add_key", "request_key"] {
        ensure!(is_blocked(&saw[call]), "{call}: {saw}");
    }
    let shm = ground
        .arena
        .shell("echo private > /dev/shm/fm-e51 && ls /dev/shm")?;
    ensure!(
        !std::path::Path::new("/dev/shm/fm-e51").exists(),
        "/dev/shm is shared: {shm:?}"
    );
    Ok(())
}

fn processes_of_the_host_cannot_be_touched(ground: &Ground<'_>) -> Result<()> {
    let mut victim = Daemon::start(ground.stage.bench.command("sleep").arg("1004"))?;
    for pid in [
        victim.pid(),
        std::process::id().cast_signed(),
        ground.stage.world.first_process(),
    ] {
        let saw = ground.arena.attack(&["process", &pid.to_string()])?;
        none_succeeded(&saw, &[])?;
        ensure!(saw["kill"]["errno"] == "ESRCH", "{saw}");
    }
    ensure!(victim.is_alive(), "the process of the host died");
    Ok(())
}

fn the_first_process_of_the_cage_cannot_be_traced_or_killed(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["process", "1"])?;
    for way in [
        "trace",
        "read",
        "getfd",
        "memory",
        "environment",
        "root",
        "descriptors",
    ] {
        ensure!(saw[way]["ok"] == false, "{way}: {saw}");
    }
    let reply = ground
        .arena
        .shell("kill -KILL 1; kill -STOP 1; kill -SEGV 1; sleep 0.2; echo alive")?;
    ensure!(reply.stdout.contains("alive"), "{reply:?}");
    ensure!(ground.arena.exec(&["true"])?.code == 0);
    Ok(())
}

fn only_processes_and_network_of_the_cage_are_seen(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["processes"])?;
    let all = saw["processes"].as_object().context("processes")?;
    ensure!(all.len() < 60, "{} processes are seen", all.len());
    for name in all.values() {
        ensure!(
            !["systemd", "cargo", "foreman"].contains(&name.as_str().unwrap_or_default()),
            "{saw}"
        );
    }
    let saw = ground.arena.attack(&[
        "read",
        "/proc/1/environ",
        "/proc/1/maps",
        "/proc/1/cwd",
        "/proc/1/root",
        "/proc/kcore",
        "/proc/kmsg",
        "/proc/sysrq-trigger",
        "/sys/kernel/debug",
        "/sys/firmware/efi/efivars",
    ])?;
    none_succeeded(&saw, &["/sys/kernel/debug", "/sys/firmware/efi/efivars"])?;
    let net = ground.arena.shell("cut -d: -f1 /proc/net/dev | tail -n +3; cat /proc/net/unix | wc -l; cat /proc/keys 2>/dev/null | wc -l; cat /proc/net/route")?;
    ensure!(
        net.stdout.contains("lo") && !net.stdout.contains("up0") && !net.stdout.contains("eth"),
        "{net:?}"
    );
    let reply = ground.arena.shell("echo x > /proc/sysrq-trigger; echo x > /proc/sys/kernel/core_pattern; \
        echo 1 > /proc/sys/vm/drop_caches; echo 1 > /proc/irq/default_smp_affinity; echo written $?")?;
    ensure!(!reply.stdout.contains("written 0"), "{reply:?}");
    Ok(())
}

fn nested_namespaces_and_mounts_are_refused(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["namespaces"])?;
    none_succeeded(&saw, &[])?;
    let saw = ground.arena.attack(&["mounts"])?;
    none_succeeded(&saw, &[])?;
    for call in [
        "mount",
        "umount",
        "pivot_root",
        "chroot",
        "fsopen",
        "open_tree",
        "move_mount",
        "mount_setattr",
    ] {
        ensure!(is_blocked(&saw[call]), "{call}: {saw}");
    }
    let reply = ground
        .arena
        .shell("unshare -Urmn mount -t tmpfs x /tmp; echo $?; cat /proc/self/uid_map")?;
    ensure!(!reply.stdout.starts_with("0\n"), "{reply:?}");
    let control = ground.arena.control(&["namespaces"])?;
    ensure!(
        control["unshare_user"]["ok"] == true,
        "uncaged, a namespace can be made: {control}"
    );
    Ok(())
}

fn a_program_without_a_file_meets_the_same_walls(ground: &Ground<'_>) -> Result<()> {
    let program = ground
        .stage
        .bench
        .program("fm-attack")
        .display()
        .to_string();
    let job = ground.arena.start_attack(&[
        "memory-exec",
        &program,
        "tcp",
        "e57.example",
        "443",
        "mark-e57",
    ])?;
    let opened = ground.arena.block("tcp e57.example:443");
    if let Some(reply) = job.reply()? {
        // Or it cannot be run at all.
        ensure!(reply.json()?["ok"] == false, "{reply:?}");
        return Ok(());
    }
    let block = opened?;
    eventually("the card names the process", PATIENCE, || {
        ground.arena.product().card(&block).is_ok_and(|card| {
            card["holders"][0]["argv"]
                .to_string()
                .contains("e57.example")
        })
    })?;
    ground.deny(&block)?;
    job.wait(PATIENCE)?;
    ground.nothing_with("e57")
}

fn dangerous_system_calls_are_blocked(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["calls"])?;
    for call in [
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "kexec_load",
        "kexec_file_load",
        "init_module",
        "finit_module",
        "delete_module",
        "syslog",
        "reboot",
        "swapon",
        "open_by_handle_at",
        "personality",
        "acct",
        "iopl",
        "ioperm",
        "quotactl",
    ] {
        ensure!(
            is_blocked(&saw[call]),
            "{call} looks at its arguments: {saw}"
        );
    }
    none_succeeded(&saw, &["name_to_handle_at"])?;
    let saw = ground.arena.attack(&["terminal"])?;
    for call in ["tiocsti", "tiocsti_high_bits", "tioclinux"] {
        ensure!(is_blocked(&saw[call]), "{call}: {saw}");
    }
    ensure!(saw["has_terminal"]["ok"] == false, "{saw}");
    let control = ground.arena.control(&["calls"])?;
    ensure!(
        control["personality"]["ok"] == true,
        "uncaged, some must go through: {control}"
    );
    Ok(())
}

fn system_calls_of_another_architecture_are_blocked(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["foreign-calls"])?;
    none_succeeded(&saw, &[])
}

fn set_user_id_programs_gain_nothing(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["privileges"])?;
    ensure!(saw["no_new_privs"] == "1" && saw["seccomp"] == "2", "{saw}");
    for set in ["effective", "permitted", "bounding"] {
        ensure!(
            saw[set]
                .as_str()
                .is_some_and(|mask| mask.trim_matches('0').is_empty()),
            "{set}: {saw}"
        );
    }
    ensure!(
        saw["setuid_0"]["ok"] == false && saw["setgroups"]["ok"] == false,
        "{saw}"
    );
    ensure!(!host_root(&saw), "the payload is root outside: {saw}");
    if Who::all().contains(&Who::Root) {
        // A set-user-id copy of `id`, owned by root, where the cage can see it.
        let copy = ground.stage.bench.bin().join("root-id");
        std::fs::copy("/usr/bin/id", &copy)?;
        nix::unistd::chown(&copy, Some(0.into()), Some(0.into()))?;
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o6755))?;
        let path = copy.display().to_string();
        let reply = ground.arena.exec(&[&path, "-u"])?;
        let plain = ground.arena.exec(&["id", "-u"])?;
        std::fs::remove_file(&copy)?;
        ensure!(
            reply.code != 0 || reply.stdout == plain.stdout,
            "{reply:?} {plain:?}"
        );
    }
    let reply = ground
        .arena
        .shell("su -c id root </dev/null; sudo -n id; newgrp root </dev/null; echo done")?;
    ensure!(!reply.stdout.contains("uid=0"), "{reply:?}");
    Ok(())
}

/// The payload's user outside of all namespaces: the outermost number of its map of ids is not told
/// inside, so the files it makes in the worktree tell.
fn host_root(saw: &Value) -> bool {
    saw["uid"]
        .as_str()
        .is_some_and(|ids| ids.split_whitespace().next() == Some("0"))
}

fn a_daemon_dies_with_the_run(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let mark = format!("fm-e62-{}", ground.stage.bench.uid());
    arena.attack(&["daemonise", "beat.ignored", &mark])?;
    let beat = arena.worktree().join("beat.ignored");
    let first = crate::ground::file_says(&beat, |text| !text.is_empty())?;
    crate::ground::file_says(&beat, |text| !text.is_empty() && text != first)?;
    let code = arena.finish()?;
    ensure!(code == 0, "exit code {code}");
    let last = std::fs::read_to_string(&beat).unwrap_or_default();
    let changed = eventually("", std::time::Duration::from_millis(400), || {
        std::fs::read_to_string(&beat).unwrap_or_default() != last
    });
    ensure!(changed.is_err(), "the daemon writes on after the run");
    ensure!(
        processes_with(&mark) == 0,
        "the daemon lives on after the run"
    );
    Ok(())
}

fn a_card_names_the_process_that_waits_and_forgets_it_when_it_is_gone(
    ground: &Ground<'_>,
) -> Result<()> {
    let first = ground.arena.start(&[
        "bash",
        "-c",
        "exec -a first-name curl -sS -m 60 http://e63.example/",
    ])?;
    let block = ground.held(&first, "tcp e63.example:80")?;
    let card = ground.arena.product().card_with_holder(&block)?;
    ensure!(card["holders"][0]["argv"][0] == "first-name", "{card}");
    let pid = card["holders"][0]["pid"].as_u64().context("a pid")?;
    first.kill()?;
    first.wait(PATIENCE)?;
    block_is(ground.arena.run(), &block, "gone")?;
    // Somebody else is counted as somebody else, though its number may be any.
    let second = ground.arena.start(&[
        "bash",
        "-c",
        "exec -a second-name curl -sS -m 60 http://e63.example/",
    ])?;
    let again = ground
        .arena
        .run()
        .wait_for("it is held again", |event| match &event.kind {
            foreman_domain::EventKind::Block { block }
                if block.subject.to_string() == "tcp e63.example:80"
                    && block.waiting == 1
                    && block
                        .holders
                        .iter()
                        .any(|holder| holder.argv[0] == "second-name") =>
            {
                Some(block.clone())
            }
            _ => None,
        })?;
    let holder = again
        .holders
        .iter()
        .find(|holder| holder.argv[0] == "second-name")
        .context("a holder")?;
    ensure!(
        u64::from(holder.pid) != pid,
        "the new process is shown as the old one: {again:?}"
    );
    ground.deny(&again.id.to_string())?;
    ensure!(second.wait(PATIENCE)?.code == 7);
    ground.nothing_with("e63")
}
