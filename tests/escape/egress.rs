//! Direct egress: every way out that is not asked for nicely.

use crate::Attack;
use crate::attacks;
use crate::ground::{Ground, block_is, file_says, is_blocked, newest, none_succeeded};
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::{
    Arena, MAIN_V4, MAIN_V6, NEAR_V4, OTHER_V4, OTHER_V6, PATIENCE, SeenKind, eventually, until,
};
use nix::sys::signal::Signal;
use std::time::Duration;

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E01"] dialling_an_address_without_proxy_variables_is_held,
        ["E01"] dialling_an_ipv6_address_is_held,
        ["E01", "E24", "E29"] a_cage_without_a_network_reaches_nothing,
        ["E02"] an_allowed_name_on_another_address_is_judged_by_that_address,
        ["E03"] proxy_variables_change_nothing,
        ["E04"] a_raw_address_never_inherits_the_rule_of_a_name,
        ["E06"] udp_443_and_853_are_refused_at_once,
        ["E06", "E11"] other_udp_is_held_and_goes_on_when_amended,
        ["E07"] ping_and_raw_packets_are_refused,
        ["E08"] odd_socket_families_cannot_be_had,
        ["E10"] sockets_of_container_runtimes_are_not_there,
        ["E11"] each_message_of_one_socket_is_judged_by_its_own_destination,
        ["E11"] data_with_the_first_segment_is_held,
        ["E11"] multipath_tcp_is_held,
        ["E11"] an_allowed_socket_turned_to_another_destination_is_judged_again,
        ["E13"] absurd_address_lengths_do_no_harm,
        ["E14"] io_uring_is_not_there,
        ["E15"] firewall_routes_and_addresses_cannot_be_changed,
        ["E17"] a_relay_in_the_cage_meets_the_same_verdict,
        ["E18"] another_runs_sockets_and_namespace_are_out_of_reach,
        ["E19"] connections_to_oneself_and_to_the_gateway_end,
        ["E20"] ten_thousand_connections_are_one_card_and_none_gets_out,
        ["E21"] an_unanswered_card_stays_closed,
        ["E22"] killing_the_ui_and_the_supervisor_closes_everything,
        ["E23"] an_open_connection_does_not_survive_its_revoked_rule,
    ]
}

fn dialling_an_address_without_proxy_variables_is_held(ground: &Ground<'_>) -> Result<()> {
    let attack = ["tcp", OTHER_V4, "8443", "mark-e01"];
    ground.held_then_refused(&attack, "tcp 198.51.100.20:8443")?;
    ground.nothing_at(OTHER_V4, 8443)?;
    ground.nothing_with("mark-e01")?;
    ground.control_succeeds(&attack)
}

/// On a machine that cannot hold connections, where the operator accepted a run without a network.
fn a_cage_without_a_network_reaches_nothing(ground: &Ground<'_>) -> Result<()> {
    let options = [
        "--accept-weaker",
        "network",
        "--allow",
        "nonet.control.example:80",
        "--allow",
        "198.51.100.20:8443",
    ];
    let product = ground.stage.product()?.without_nf_tables();
    let repo = foreman_testkit::repos::plain(&ground.stage.bench, "nonet")?;
    let arena = Arena::in_repository(product, &repo, &options)?;
    for attack in [
        &["tcp", OTHER_V4, "8443", "mark-nonet"][..],
        &["tcp", OTHER_V6, "8443", "mark-nonet"],
        &["tcp", NEAR_V4, "8443", "mark-nonet"],
        &["tcp", "169.254.169.254", "80", "mark-nonet"],
        &["udp", "198.51.100.20:7007", "mark-nonet"],
        &["udp", "198.18.0.1:53", "mark-nonet"],
        &["udp", "203.0.113.53:53", "mark-nonet"],
        &["resolve", "nonet.control.example"],
    ] {
        let reply = arena.start_attack(attack)?.wait(PATIENCE)?;
        let saw = reply.json()?;
        ensure!(saw["ok"] == false, "{attack:?} succeeded: {saw}");
        ensure!(reply.millis < 4000, "{attack:?} did not fail at once");
    }
    // Whoever builds a way out of it needs rights that nobody has there.
    none_succeeded(&arena.attack(&["namespaces"])?, &[])?;
    let devices = arena.shell("cat /proc/net/dev; cat /proc/net/route /proc/net/ipv6_route")?;
    ensure!(!devices.stdout.contains("eth"), "{devices:?}");
    ground.nothing_with("mark-nonet")?;
    ground.nothing_with("nonet.control.example")?;
    arena.finish()?;
    ground.control_succeeds(&["tcp", OTHER_V4, "8443", "control"])
}

fn dialling_an_ipv6_address_is_held(ground: &Ground<'_>) -> Result<()> {
    ground.held_then_refused(
        &["tcp", OTHER_V6, "7007", "mark6"],
        "tcp [2001:db8:1::20]:7007",
    )?;
    ground.nothing_at(OTHER_V6, 7007)?;
    // The same host as an IPv4 address in IPv6 clothes.
    let mapped = format!("::ffff:{OTHER_V4}");
    let job = ground
        .arena
        .start_attack(&["tcp", &mapped, "7019", "mark6"])?;
    let block = ground.held(&job, "tcp 198.51.100.20:7019")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.json()?["ok"] == false);
    ground.nothing_at(OTHER_V4, 7019)?;
    ground.control_succeeds(&["tcp", MAIN_V6, "7007", "control"])
}

fn an_allowed_name_on_another_address_is_judged_by_that_address(ground: &Ground<'_>) -> Result<()> {
    let resolve = format!("allowed.example:80:{OTHER_V4}");
    let job = ground.arena.start(&[
        "curl",
        "-sS",
        "-m",
        "60",
        "--resolve",
        &resolve,
        "http://allowed.example/mark-e02",
    ])?;
    let block = ground.held(&job, "tcp 198.51.100.20:80")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.code == 7);
    let job = ground.arena.start(&[
        "curl",
        "-sS",
        "-m",
        "60",
        "--connect-to",
        "allowed.example:80:e02.other.example:80",
        "http://allowed.example/mark-e02",
    ])?;
    let block = ground.held(&job, "tcp e02.other.example:80")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.code == 7);
    ground.nothing_with("mark-e02")
}

fn proxy_variables_change_nothing(ground: &Ground<'_>) -> Result<()> {
    let job = ground.arena.start(&[
        "env",
        "NO_PROXY=*",
        "curl",
        "-sS",
        "-m",
        "60",
        "http://e03.example/mark-e03",
    ])?;
    let block = ground.held(&job, "tcp e03.example:80")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.code == 7);
    let proxy = format!("ALL_PROXY=socks5h://{OTHER_V4}:7022");
    let job = ground.arena.start(&[
        "env",
        &proxy,
        "curl",
        "-sS",
        "-m",
        "60",
        "http://allowed.example/mark-e03",
    ])?;
    let block = ground.held(&job, "tcp 198.51.100.20:7022")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.code != 0);
    let inside = ground.arena.shell("env | grep -i _proxy= || true")?;
    ensure!(
        inside.stdout.is_empty(),
        "proxy variables in the cage: {}",
        inside.stdout
    );
    ground.nothing_with("mark-e03")
}

fn a_raw_address_never_inherits_the_rule_of_a_name(ground: &Ground<'_>) -> Result<()> {
    // The name is allowed, used, and leads to this very address.
    let allowed = ground
        .arena
        .exec(&["curl", "-sS", "-m", "30", "http://allowed.example/"])?;
    ensure!(allowed.stdout.contains("hello"), "{allowed:?}");
    let job = ground
        .arena
        .start_attack(&["tcp", MAIN_V4, "80", "mark-e04"])?;
    let block = ground.held(&job, "tcp 203.0.113.10:80")?;
    let card = ground.arena.product().card(&block)?;
    ensure!(
        card["subject"]["host"]["address"] == MAIN_V4,
        "the card does not show the address: {card}"
    );
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.json()?["errno"] == "ECONNREFUSED");
    ground.nothing_with("mark-e04")
}

fn udp_443_and_853_are_refused_at_once(ground: &Ground<'_>) -> Result<()> {
    for port in ["443", "853"] {
        let to = format!("{OTHER_V4}:{port}");
        ground.refused_at_once(&["udp", &to, "mark-e06"], &format!("udp {to}"))?;
    }
    ground.nothing_with("mark-e06")?;
    ground.control_succeeds(&["udp", &format!("{OTHER_V4}:443"), "control"])
}

fn other_udp_is_held_and_goes_on_when_amended(ground: &Ground<'_>) -> Result<()> {
    let to = format!("{OTHER_V4}:7007");
    let job = ground.arena.start_attack(&["udp", &to, "mark-udp"])?;
    let block = ground.held(&job, "udp 198.51.100.20:7007")?;
    ground.nothing_with("mark-udp")?;
    ground.arena.product().amend(&block, &["--yes"])?;
    let saw = job.wait(PATIENCE)?.json()?;
    ensure!(
        saw["heard"] == "mark-udp",
        "the held datagram did not go on: {saw}"
    );
    let seen = ground.seen_with("mark-udp")?;
    ensure!(
        seen.len() == 1 && seen[0].kind == SeenKind::Datagram,
        "{seen:?}"
    );
    Ok(())
}

fn ping_and_raw_packets_are_refused(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["ping", OTHER_V4])?;
    ensure!(is_blocked(&saw["raw"]), "{saw}");
    ensure!(saw["dgram"]["ok"] == false, "{saw}");
    let saw = ground
        .arena
        .attack(&["raw-send", &format!("{OTHER_V4}:8853"), "mark-e07"])?;
    ensure!(is_blocked(&saw), "{saw}");
    let saw = ground.arena.attack(&["marks"])?;
    for option in ["mark", "transparent", "rcvbufforce"] {
        ensure!(saw[option]["ok"] == false, "{option}: {saw}");
    }
    ground.nothing_with("mark-e07")
}

fn odd_socket_families_cannot_be_had(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["families"])?;
    for family in [
        "packet",
        "packet_dgram",
        "vsock",
        "bluetooth",
        "alg",
        "can",
        "tipc",
        "xdp",
        "rds",
        "smc",
        "key",
        "raw_icmp",
        "raw_tcp",
        "netfilter",
        "audit",
        "uevent",
    ] {
        ensure!(saw[family]["ok"] == false, "{family} can be had: {saw}");
    }
    for family in ["inet_stream", "inet_dgram", "unix"] {
        ensure!(
            saw[family]["ok"] == true,
            "ordinary sockets are refused: {saw}"
        );
    }
    let control = ground.arena.control(&["families"])?;
    ensure!(
        control["uevent"]["ok"] == true,
        "uncaged, some must be there: {control}"
    );
    Ok(())
}

fn sockets_of_container_runtimes_are_not_there(ground: &Ground<'_>) -> Result<()> {
    let podman = ground.stage.bench.runtime().join("podman/podman.sock");
    ground
        .stage
        .bench
        .write(&podman.with_file_name("made"), "")?;
    let listener = std::os::unix::net::UnixListener::bind(&podman)?;
    ground.stage.bench.own(&podman)?;
    let path = podman.display().to_string();
    let paths = [
        &path,
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/podman/podman.sock",
        "/run/crio/crio.sock",
    ];
    let mut attack = vec!["unix"];
    attack.extend(paths);
    let saw = ground.arena.attack(&attack)?;
    for path in paths {
        ensure!(saw[path]["errno"] == "ENOENT", "{path}: {saw}");
    }
    let control = ground.arena.control(&["unix", &path])?;
    ensure!(
        control[&path]["ok"] == true,
        "uncaged it must be reached: {control}"
    );
    drop(listener);
    Ok(())
}

fn each_message_of_one_socket_is_judged_by_its_own_destination(ground: &Ground<'_>) -> Result<()> {
    let (allowed, one, two) = (
        format!("{MAIN_V4}:7007"),
        format!("{OTHER_V4}:7008"),
        format!("{MAIN_V4}:8853"),
    );
    for attack in ["udp-to", "sendmmsg"] {
        let saw = ground
            .arena
            .attack(&[attack, "mark-e11", &allowed, &one, &two])?;
        let heard = saw["heard"].to_string();
        ensure!(
            heard.contains(&allowed),
            "the allowed destination did not answer: {saw}"
        );
        ensure!(!heard.contains(&one) && !heard.contains(&two), "{saw}");
    }
    for subject in ["udp 198.51.100.20:7008", "udp 203.0.113.10:8853"] {
        let block = ground.arena.block(subject)?;
        // The sender has ended, so the block may be gone already; the decision still counts.
        let _ = ground.deny(&block);
    }
    let seen = ground.seen_with("mark-e11")?;
    let meant = seen
        .iter()
        .all(|seen| seen.local == MAIN_V4 && seen.port == 7007);
    ensure!(meant && !seen.is_empty(), "{seen:?}");
    let control = ground.arena.control(&["sendmmsg", "control", &one, &two])?;
    ensure!(
        control["heard"]
            .as_array()
            .is_some_and(|heard| heard.len() >= 2),
        "{control}"
    );
    Ok(())
}

fn data_with_the_first_segment_is_held(ground: &Ground<'_>) -> Result<()> {
    let to = format!("{OTHER_V4}:7009");
    let job = ground
        .arena
        .start_attack(&["fast-open", &to, "mark-fast"])?;
    let block = ground.held(&job, "tcp 198.51.100.20:7009")?;
    ground.nothing_at(OTHER_V4, 7009)?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.json()?["ok"] == false);
    ground.nothing_with("mark-fast")?;
    ground.control_succeeds(&["fast-open", &format!("{OTHER_V4}:7008"), "control"])
}

fn multipath_tcp_is_held(ground: &Ground<'_>) -> Result<()> {
    let to = format!("{OTHER_V4}:853");
    let job = ground.arena.start_attack(&["mptcp", &to, "mark-mptcp"])?;
    let opened = until("it is held, or there is no multipath TCP", PATIENCE, || {
        if let Some(reply) = job.reply()? {
            return Ok(Some(Err(reply)));
        }
        Ok(ground
            .arena
            .run()
            .events()
            .iter()
            .find_map(|event| match &event.kind {
                EventKind::Block { block }
                    if block.subject.to_string() == "tcp 198.51.100.20:853" =>
                {
                    Some(Ok(block.id.to_string()))
                }
                _ => None,
            }))
    })?;
    match opened {
        Ok(block) => {
            ground.deny(&block)?;
            ensure!(job.wait(PATIENCE)?.json()?["ok"] == false);
        }
        Err(reply) => ensure!(reply.json()?["ok"] == false, "{reply:?}"),
    }
    ground.nothing_with("mark-mptcp")
}

fn an_allowed_socket_turned_to_another_destination_is_judged_again(
    ground: &Ground<'_>,
) -> Result<()> {
    let (allowed, other) = (format!("{MAIN_V4}:7007"), format!("{MAIN_V4}:784"));
    let saw = ground
        .arena
        .attack(&["reconnect-udp", &allowed, &other, "mark-turn"])?;
    ensure!(!saw["heard"].to_string().contains(&other), "{saw}");
    let block = ground.arena.block("udp 203.0.113.10:784")?;
    let _ = ground.deny(&block);
    ground.nothing_with("mark-turn")?;
    let control = ground
        .arena
        .control(&["reconnect-udp", &allowed, &other, "control"])?;
    ensure!(control["heard"].to_string().contains(&other), "{control}");
    Ok(())
}

fn absurd_address_lengths_do_no_harm(ground: &Ground<'_>) -> Result<()> {
    let saw = ground
        .arena
        .attack(&["absurd", &format!("{OTHER_V4}:7007")])?;
    for answer in saw["answers"].as_array().context("answers")? {
        ensure!(answer["ok"] == false, "{saw}");
        ensure!(
            [
                "EINVAL",
                "EFAULT",
                "EAFNOSUPPORT",
                "EDESTADDRREQ",
                "EPIPE",
                "ENOTCONN"
            ]
            .contains(&answer["errno"].as_str().unwrap_or_default()),
            "{saw}"
        );
    }
    ensure!(
        ground.arena.exec(&["true"])?.code == 0,
        "the supervisor suffered"
    );
    Ok(())
}

fn io_uring_is_not_there(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["io-uring"])?;
    for call in ["setup", "enter", "register"] {
        ensure!(is_blocked(&saw[call]), "{call}: {saw}");
    }
    Ok(())
}

fn firewall_routes_and_addresses_cannot_be_changed(ground: &Ground<'_>) -> Result<()> {
    let mut commands = vec![
        "ip route add 198.51.100.0/24 dev lo",
        "ip route del local 0.0.0.0/0 dev lo table local",
        "ip addr add 198.51.100.20/32 dev lo",
        "ip link set lo down",
        "ip link add d0 type dummy",
        "ip rule add prio 1 table 5",
        "ip netns add x",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        "echo 0 > /proc/sys/net/ipv4/tcp_syn_retries",
        "sysctl -w net.ipv4.ip_forward=1",
    ];
    if ground.has("nft") {
        commands.extend([
            "nft flush ruleset",
            "nft delete table inet foreman",
            "nft add table inet x",
        ]);
    }
    for command in commands {
        let reply = ground.arena.shell(command)?;
        ensure!(reply.code != 0, "\"{command}\" went through: {reply:?}");
    }
    ground.held_then_refused(
        &["tcp", "e15.example", "443", "mark-e15"],
        "tcp e15.example:443",
    )?;
    ground.nothing_with("e15")
}

fn a_relay_in_the_cage_meets_the_same_verdict(ground: &Ground<'_>) -> Result<()> {
    let job = ground
        .arena
        .start_attack(&["relay", "e17.example", "443"])?;
    let block = ground.held(&job, "tcp e17.example:443")?;
    ground.deny(&block)?;
    let saw = job.wait(PATIENCE)?.json()?;
    ensure!(
        saw["ok"] == false && saw["reply"].to_string().contains("ECONNREFUSED"),
        "{saw}"
    );
    ground.nothing_with("e17")?;
    ground.control_succeeds(&["relay", "e17.control.example", "443"])
}

fn another_runs_sockets_and_namespace_are_out_of_reach(ground: &Ground<'_>) -> Result<()> {
    let other = ground.fresh(&["--allow", "e18.example:80"])?;
    let runs = other.product().data().join("state/runs").join(other.id());
    let paths: Vec<String> = ["identity.json", "journal.ndjson", "spec.json", "shim.log"]
        .iter()
        .map(|file| runs.join(file).display().to_string())
        .collect();
    let mut attack = vec!["read"];
    attack.extend(paths.iter().map(String::as_str));
    let runtime = ground.stage.bench.runtime().display().to_string();
    attack.push(&runtime);
    let tree = other.worktree().display().to_string();
    attack.push(&tree);
    let saw = ground.arena.attack(&attack)?;
    for path in &attack[1..] {
        let empty = saw[*path]["names"].as_array().is_some_and(Vec::is_empty);
        ensure!(
            saw[*path]["ok"] == false || empty,
            "{path} can be seen: {saw}"
        );
    }
    let sockets = ground.stage.bench.shell(
        &ground.stage.bench.runtime(),
        "find . -name '*.sock' -type s",
    )?;
    ensure!(
        sockets.lines().count() >= 2,
        "there are no sockets to attack: {sockets}"
    );
    for socket in sockets.lines() {
        let path = format!("{runtime}/{}", socket.trim_start_matches("./"));
        let saw = ground.arena.attack(&["unix", &path])?;
        ensure!(saw[&path]["ok"] == false, "{path} can be reached: {saw}");
    }
    // What the other run may reach, this one may not.
    ground.held_then_refused(
        &["tcp", "e18.example", "80", "mark-e18"],
        "tcp e18.example:80",
    )?;
    ground.nothing_with("mark-e18")?;
    other.finish()?;
    Ok(())
}

fn connections_to_oneself_and_to_the_gateway_end(ground: &Ground<'_>) -> Result<()> {
    let script = "own=$(ip -o -4 addr show dev lo | awk '{print $4}' | cut -d/ -f1)\n\
        ports=$(awk 'NR>1 && $4==\"0A\" {print $2}' /proc/net/tcp | cut -d: -f2)\n\
        for a in $own 127.0.0.2; do for p in $ports; do\n\
        timeout 8 bash -c \"exec 3<>/dev/tcp/$a/$((16#$p)); printf 'GET / HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3\" >/dev/null 2>&1\n\
        code=$?; [ $code = 124 ] && echo \"$a:$p hangs\"; done; done; echo tried $ports";
    let reply = ground.arena.exec(&["bash", "-c", script])?;
    ensure!(
        reply.stdout.contains("tried") && !reply.stdout.contains("hangs"),
        "{reply:?}"
    );
    // The machine's own address, as the cage would see it from outside.
    let reply = ground
        .arena
        .start_attack(&["tcp", NEAR_V4, "7007", "mark-e19"])?;
    let saw = until("it ends or is held", PATIENCE, || {
        if let Some(block) =
            ground
                .arena
                .run()
                .events()
                .iter()
                .find_map(|event| match &event.kind {
                    EventKind::Block { block }
                        if block.subject.to_string() == "tcp 192.0.2.2:7007" =>
                    {
                        Some(block.id.to_string())
                    }
                    _ => None,
                })
        {
            // Held like any address; allowed, it must still not come back to this machine.
            let _ = ground.arena.product().amend(&block, &["--yes"]);
        }
        reply.reply()
    })?;
    ensure!(saw.json()?["ok"] == false, "{saw:?}");
    ensure!(
        ground.arena.exec(&["true"])?.code == 0,
        "the gateway suffered"
    );
    Ok(())
}

fn resident_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .trim()
                .split(' ')
                .next()?
                .parse()
                .ok()
        })
        .unwrap_or(0)
}

fn ten_thousand_connections_are_one_card_and_none_gets_out(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let before: u64 = supervisors().iter().map(|pid| resident_kib(*pid)).sum();
    let job = arena.start_attack(&["many", "e20.example", "443", "10000", "400", "150"])?;
    let block = arena.block("tcp e20.example:443")?;
    let saw = job.wait(Duration::from_secs(180))?.json()?;
    ensure!(saw["made"] == 0, "{saw}");
    let blocks = arena
        .run()
        .events()
        .iter()
        .filter(|event| match &event.kind {
            EventKind::Block { block } => block.first_at == block.last_at && block.seen == 1,
            _ => false,
        })
        .count();
    ensure!(blocks <= 3, "{blocks} cards");
    let ids: std::collections::BTreeSet<String> = arena
        .run()
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Block { block } => Some(block.id.to_string()),
            _ => None,
        })
        .collect();
    ensure!(ids.len() == 1, "more than one block: {ids:?}");
    let events = arena.run().events().len();
    ensure!(events < 3000, "{events} events for one subject");
    let after: u64 = supervisors().iter().map(|pid| resident_kib(*pid)).sum();
    ensure!(
        after < before + 200_000,
        "the supervisors grew from {before} to {after} KiB"
    );
    ground.nothing_with("e20")?;
    let _ = arena.product().deny(&block, "");
    arena.finish()?;
    Ok(())
}

/// Host numbers of all `foreman-shim` processes.
fn supervisors() -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| {
            std::fs::read_to_string(entry.path().join("comm"))
                .is_ok_and(|comm| comm.trim() == "foreman-shim")
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn an_unanswered_card_stays_closed(ground: &Ground<'_>) -> Result<()> {
    let impatient =
        ground
            .arena
            .start(&["curl", "-sS", "-m", "2", "http://e21.example/mark-e21"])?;
    let block = ground.held(&impatient, "tcp e21.example:80")?;
    ensure!(
        impatient.wait(PATIENCE)?.code == 28,
        "curl gives up by its own time-out"
    );
    block_is(ground.arena.run(), &block, "gone")?;
    let again = ground
        .arena
        .start(&["curl", "-sS", "-m", "3", "http://e21.example/mark-e21"])?;
    ensure!(
        again.wait(PATIENCE)?.code == 28,
        "the time-out of a card let something through"
    );
    let state = newest(ground.arena.run(), &block)
        .context("the block")?
        .state;
    ensure!(
        ["gone", "open"].contains(&state.tag()),
        "it became {state:?} by itself"
    );
    ground.nothing_with("e21")
}

fn killing_the_ui_and_the_supervisor_closes_everything(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&["--allow", "e22.amended.example:7008"])?;
    let rounds = arena.worktree().join("rounds.ignored");
    let open =
        arena.start_attack(&["keep-open", "e22.amended.example", "7008", "rounds.ignored"])?;
    file_says(&rounds, |text| {
        text.parse::<u32>().is_ok_and(|rounds| rounds > 3)
    })?;
    let held = arena.start_attack(&["tcp", "e22.example", "443", "mark-e22"])?;
    arena.block("tcp e22.example:443")?;
    arena.run().signal(Signal::SIGKILL)?;
    arena.run().ended()?;
    ensure!(
        held.reply()?.is_none(),
        "without its window, the held connect went on: {:?}",
        held.reply()
    );
    // The file is empty for a moment each time it is written.
    let now: u32 = until("the rounds are read", PATIENCE, || {
        Ok(std::fs::read_to_string(&rounds)?.parse().ok())
    })?;
    file_says(&rounds, |text| {
        text.parse::<u32>().is_ok_and(|rounds| rounds > now + 3)
    })
    .context("the run must go on without a window")?;
    let identity = arena
        .product()
        .data()
        .join("state/runs")
        .join(arena.id())
        .join("identity.json");
    let identity: serde_json::Value = serde_json::from_slice(&std::fs::read(identity)?)?;
    let pid = identity["pid"].to_string();
    ensure!(
        arena
            .product()
            .program("kill")
            .args(["-KILL", &pid])
            .status()?
            .success(),
        "no supervisor {pid}"
    );
    eventually(
        "the far side saw the allowed connection end",
        PATIENCE,
        || {
            ground.stage.world.seen_on(7008).is_ok_and(|seen| {
                seen.iter()
                    .any(|seen| seen.kind == SeenKind::Closed && seen.head.contains("still"))
            })
        },
    )?;
    ensure!(
        open.reply()?.is_none() && held.reply()?.is_none(),
        "something outlived the supervisor"
    );
    let product = arena.product();
    eventually("the run is marked", PATIENCE, || {
        product
            .show(arena.id())
            .is_ok_and(|view| view["state"] == "interrupted")
    })?;
    ground.nothing_with("mark-e22")
}

fn an_open_connection_does_not_survive_its_revoked_rule(ground: &Ground<'_>) -> Result<()> {
    let job =
        ground
            .arena
            .start_attack(&["keep-open", "e23.amended.example", "7007", "e23.ignored"])?;
    let block = ground.held(&job, "tcp e23.amended.example:7007")?;
    let decided = ground.arena.product().amend(&block, &[])?;
    let rounds = ground.arena.worktree().join("e23.ignored");
    file_says(&rounds, |text| {
        text.parse::<u32>().is_ok_and(|rounds| rounds > 3)
    })?;
    let amendment = decided["amendment"]["id"]
        .as_str()
        .context("an amendment")?
        .to_owned();
    let revoked = ground
        .arena
        .product()
        .ask(&["policy", "revoke", &amendment])?;
    ensure!(revoked["cut"].as_u64() == Some(1), "{revoked}");
    let saw = job.wait(PATIENCE)?.json()?;
    ensure!(saw["ended"]["ok"] == false, "{saw}");
    ground
        .arena
        .run()
        .wait_for("the cut in the feed", |event| match &event.kind {
            EventKind::ConnectionClosed {
                cut: true, subject, ..
            } if subject.to_string() == "tcp e23.amended.example:7007" => Some(()),
            _ => None,
        })
}
