//! Names, TLS and HTTP: the look-up itself is an egress action, and the name that was looked up
//! decides, whatever is said inside the connection.

use crate::Attack;
use crate::attacks;
use crate::ground::Ground;
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::{Daemon, OTHER_RESOLVER, PATIENCE, PRIVATE_V4, SeenKind, eventually};

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E24"] a_secret_in_the_labels_of_a_name_never_leaves,
        ["E25"] other_resolvers_are_answered_by_the_cage,
        ["E25"] encrypted_and_local_name_services_reach_nothing,
        ["E26"] an_allowed_zone_cannot_be_polled_for_other_records,
        ["E27"] an_allowed_name_that_leads_inwards_is_refused,
        ["E27"] an_allowed_name_that_leads_to_a_private_address_needs_a_rule_of_its_own,
        ["E28"] a_name_that_changes_its_address_gains_nothing,
        ["E27", "E28"] a_rule_for_this_machine_opens_no_name_that_leads_to_it,
        ["E29"] metadata_addresses_are_refused_without_a_card,
        ["E30"] odd_bytes_in_a_name_are_refused,
        ["E32"] spelling_does_not_make_another_name,
        ["E34"] the_dialled_host_decides_not_the_host_header,
        ["E35"] the_dialled_host_decides_not_the_server_name_in_tls,
        ["E37", "E38", "E39", "E40", "E41", "E43"] an_allowed_destination_is_called_an_opaque_tunnel,
        ["E42"] protocols_on_other_protocols_ports_are_judged_by_host_and_port,
        ["E44"] another_port_of_an_allowed_host_is_held,
    ]
}

fn a_secret_in_the_labels_of_a_name_never_leaves(ground: &Ground<'_>) -> Result<()> {
    let name = "c2vjcmv0lxrva2vu.e24.example";
    let saw = ground.arena.attack(&["resolve", name])?;
    ensure!(saw["ok"] == true, "a look-up must be answered: {saw}");
    let addresses = saw["addresses"].to_string();
    ensure!(
        addresses.contains("198.18.") || addresses.contains("198.19."),
        "not the cage's own: {saw}"
    );
    for record in [
        "A", "AAAA", "TXT", "MX", "SRV", "CNAME", "NS", "PTR", "NULL",
    ] {
        let reply = ground.arena.attack(&[
            "dns",
            "198.18.0.1:53",
            &format!("{}.{name}", record.to_lowercase()),
            record,
            "udp",
        ])?;
        ensure!(
            record == "A" || reply["answers"].as_array().is_none_or(Vec::is_empty),
            "{record}: {reply}"
        );
    }
    ground.nothing_with("e24")?;
    ground
        .arena
        .run()
        .wait_for("the look-up in the feed", |event| match &event.kind {
            EventKind::NameLookedUp { name: found } if found == name => Some(()),
            _ => None,
        })?;
    ground.control_succeeds(&["resolve", "e24.control.example"])?;
    ensure!(
        !ground.seen_with("e24.control.example")?.is_empty(),
        "the control was not seen"
    );
    Ok(())
}

fn other_resolvers_are_answered_by_the_cage(ground: &Ground<'_>) -> Result<()> {
    for resolver in [
        OTHER_RESOLVER,
        "8.8.8.8",
        "203.0.113.53",
        "2001:db8:ffff::53",
    ] {
        for transport in ["udp", "tcp"] {
            let to = if resolver.contains(':') {
                format!("[{resolver}]:53")
            } else {
                format!("{resolver}:53")
            };
            let saw = ground
                .arena
                .attack(&["dns", &to, "e25.example", "A", transport])?;
            ensure!(saw["ok"] == true, "{to} by {transport}: {saw}");
            let answers = saw["answers"].to_string();
            ensure!(
                answers.contains("198.18.") || answers.contains("198.19."),
                "{to} by {transport}: {saw}"
            );
        }
    }
    ground.nothing_with("e25")?;
    ground.nothing_at(OTHER_RESOLVER, 53)?;
    let control = ground.arena.control(&[
        "dns",
        &format!("{OTHER_RESOLVER}:53"),
        "e25.control.example",
        "A",
        "udp",
    ])?;
    ensure!(
        control["answers"].to_string().contains("203.0.113.10"),
        "{control}"
    );
    Ok(())
}

fn encrypted_and_local_name_services_reach_nothing(ground: &Ground<'_>) -> Result<()> {
    // DNS over TLS and over HTTPS are connections like any other.
    ground.held_then_refused(
        &["tcp", OTHER_RESOLVER, "853", "mark-e25"],
        "tcp 192.0.2.129:853",
    )?;
    ground.held_then_refused(
        &["tcp", OTHER_RESOLVER, "443", "mark-e25"],
        "tcp 192.0.2.129:443",
    )?;
    // DNS over QUIC, and QUIC itself.
    for port in ["853", "443"] {
        let to = format!("{OTHER_RESOLVER}:{port}");
        ground.refused_at_once(&["udp", &to, "mark-e25"], &format!("udp {to}"))?;
    }
    // Multicast names reach nobody.
    for to in [
        "224.0.0.251:5353",
        "224.0.0.252:5355",
        "255.255.255.255:5353",
    ] {
        let saw = ground.arena.attack(&["udp", to, "mark-e25", "1"])?;
        ensure!(saw["ok"] == false, "{to} answered: {saw}");
    }
    for port in [853, 443, 5353, 5355] {
        ground.nothing_at(OTHER_RESOLVER, port)?;
    }
    ground.nothing_with("mark-e25")
}

fn an_allowed_zone_cannot_be_polled_for_other_records(ground: &Ground<'_>) -> Result<()> {
    for record in [
        "TXT", "NULL", "ANY", "MX", "SRV", "HTTPS", "SVCB", "CAA", "NS", "SOA", "AAAA",
    ] {
        for transport in ["udp", "tcp"] {
            let saw = ground.arena.attack(&[
                "dns",
                "198.18.0.1:53",
                "allowed.example",
                record,
                transport,
            ])?;
            let answers = saw["answers"].as_array().cloned().unwrap_or_default();
            ensure!(answers.is_empty(), "{record}: {saw}");
        }
    }
    let seen = ground.stage.world.seen()?;
    let types: Vec<_> = seen
        .iter()
        .filter(|seen| seen.name.as_deref() == Some("allowed.example"))
        .filter_map(|seen| seen.record.as_deref())
        .filter(|record| !["A", "AAAA"].contains(record))
        .collect();
    ensure!(types.is_empty(), "asked upstream: {types:?}");
    Ok(())
}

fn an_allowed_name_that_leads_inwards_is_refused(ground: &Ground<'_>) -> Result<()> {
    for label in [
        "ip-127-0-0-1",
        "ip-169-254-169-254",
        "ip-192-0-2-2",
        "ip-0-0-0-0",
        "ip-198-18-0-9",
        "ip-224-0-0-1",
        "ip-100-100-100-200",
        "ip-255-255-255-255",
        "ip-240-0-0-1",
    ] {
        let name = format!("{label}.e27.example");
        let reply = ground
            .arena
            .start_attack(&["tcp", &name, "80", "mark-e27"])?
            .wait(PATIENCE)?;
        let saw = reply.json()?;
        ensure!(
            saw["ok"] == false && saw["errno"] == "ECONNREFUSED",
            "{name}: {saw}"
        );
        told_unreachable_or_refused(ground, &format!("tcp {name}:80"))?;
    }
    ground.nothing_with("mark-e27")
}

fn told_unreachable_or_refused(ground: &Ground<'_>, subject: &str) -> Result<()> {
    use foreman_domain::ConnectVerdict::{Refused, Unreachable};
    ground.arena.run().wait_for(
        &format!("a word on {subject} in the feed"),
        |event| match &event.kind {
            EventKind::Egress {
                subject: found,
                verdict: Refused { .. } | Unreachable { .. },
                ..
            } if found.to_string().starts_with(subject) => Some(()),
            _ => None,
        },
    )
}

fn an_allowed_name_that_leads_to_a_private_address_needs_a_rule_of_its_own(
    ground: &Ground<'_>,
) -> Result<()> {
    let name = "ip-10-20-30-40.e27.example";
    let job = ground.arena.start_attack(&[
        "tcp",
        name,
        "80",
        "GET /mark-private HTTP/1.0\\r\\n\\r\\n",
    ])?;
    let block = ground.held(&job, &format!("tcp {name}:80 at {PRIVATE_V4}"))?;
    ground.nothing_at(PRIVATE_V4, 80)?;
    let card = ground.arena.product().card(&block)?;
    ensure!(
        card["subject"]["resolved"] == PRIVATE_V4,
        "the card does not show the address: {card}"
    );
    ground.arena.product().amend(&block, &["--yes"])?;
    let saw = job.wait(PATIENCE)?.json()?;
    ensure!(saw["ok"] == true, "{saw}");
    // The rule is for this name and this address: the address alone is another thing.
    ground.held_then_refused(
        &["tcp", PRIVATE_V4, "80", "mark-e27p"],
        &format!("tcp {PRIVATE_V4}:80"),
    )?;
    ground.nothing_with("mark-e27p")
}

fn a_rule_for_this_machine_opens_no_name_that_leads_to_it(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let arena = ground.fresh(&[
        "--allow",
        "host:18080",
        "--allow",
        "*.e27.example:18080",
        "--allow",
        "*.e28.example:18080",
    ])?;
    let program = bench.program("fm-attack");
    let mut server = arena.product().program(&program);
    let _server = Daemon::start(server.args(["serve-tcp", "127.0.0.1:18080", "this machine"]))?;
    eventually("it is reached by its name", PATIENCE, || {
        arena
            .attack(&["talk-tcp", "host:18080"])
            .is_ok_and(|saw| saw["said"] == "this machine")
    })?;
    for name in [
        "ip-127-0-0-1.e27.example",
        "rebind-127-0-0-1-127-0-0-1.e28.example",
    ] {
        for _ in 0..2 {
            let saw = arena.attack(&["talk-tcp", &format!("{name}:18080")])?;
            ensure!(
                saw["ok"] == false && saw["errno"] == "ECONNREFUSED",
                "{name}: {saw}"
            );
        }
    }
    // The cage's own loopback, by every name of it, is its own.
    for own in [
        "127.0.0.1",
        "localhost",
        "a.localhost",
        "[::1]",
        "127.9.9.9",
    ] {
        let saw = arena.attack(&["talk-tcp", &format!("{own}:18080")])?;
        ensure!(saw["ok"] == false, "{own}: {saw}");
    }
    Ok(())
}

fn a_name_that_changes_its_address_gains_nothing(ground: &Ground<'_>) -> Result<()> {
    let name = "rebind-203-0-113-10-127-0-0-1.e28.example";
    let first = ground
        .arena
        .attack(&["tcp", name, "80", "GET / HTTP/1.0\\r\\n\\r\\n"])?;
    ensure!(first["ok"] == true, "{first}");
    let asked = ground
        .seen_with(name)?
        .iter()
        .filter(|seen| seen.kind == SeenKind::Query && seen.record.as_deref() == Some("A"))
        .count();
    ensure!(
        asked == 1,
        "asked {asked} times for one connection: what was vetted is not what is dialled"
    );
    let second = ground
        .arena
        .attack(&["tcp", name, "80", "GET /mark-e28 HTTP/1.0\\r\\n\\r\\n"])?;
    ensure!(
        second["ok"] == false || second["heard"].to_string().contains("404"),
        "{second}"
    );
    ensure!(
        first["target"] == second["target"],
        "the cage saw another address: {first} {second}"
    );
    // The other way round: refused first, and a public address the second time.
    let name = "rebind-127-0-0-1-198-51-100-20.e28.example";
    let first = ground
        .arena
        .attack(&["tcp", name, "80", "mark-e28-first"])?;
    ensure!(first["ok"] == false, "{first}");
    ground.nothing_with("mark-e28-first")
}

fn metadata_addresses_are_refused_without_a_card(ground: &Ground<'_>) -> Result<()> {
    for address in ["169.254.169.254", "100.100.100.200", "168.63.129.16"] {
        ground.refused_at_once(
            &["tcp", address, "80", "mark-e29"],
            &format!("tcp {address}:80"),
        )?;
    }
    ground.refused_at_once(
        &["tcp", "fd00:ec2::254", "80", "mark-e29"],
        "tcp [fd00:ec2::254]:80",
    )?;
    for address in [
        "169.254.1.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ] {
        let reply = ground
            .arena
            .start_attack(&["tcp", address, "80", "mark-e29", "8"])?
            .wait(PATIENCE)?;
        ensure!(reply.json()?["ok"] == false, "{address}: {reply:?}");
        let carded = ground
            .arena
            .run()
            .events()
            .iter()
            .any(|event| match &event.kind {
                EventKind::Block { block } => block.subject.to_string().contains("169.254"),
                _ => false,
            });
        ensure!(!carded, "a card was raised for {address}");
    }
    ground.nothing_with("mark-e29")
}

const RAW_QUERY: &str = r#"
import json, socket, struct, sys
def ask(label):
    name = bytes([len(label)]) + label + b"\x03e30\x07example\x00"
    query = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1.5); s.connect(("198.18.0.1", 53)); s.send(query)
    try: reply = s.recv(4096)
    except OSError: return -1
    return struct.unpack(">H", reply[6:8])[0]
print(json.dumps({repr(label): ask(label) for label in [b"a\x00b", b"a\rb", b"a\nb", b"a b", b"a\x1b[2Jb", b"a\xe2\x80\xaeb", b"a/b", b"a:1", b"a@b", b"a%00b"]}))
"#;

fn odd_bytes_in_a_name_are_refused(ground: &Ground<'_>) -> Result<()> {
    let reply = ground.arena.exec(&["python3", "-c", RAW_QUERY])?;
    for (label, answers) in reply.json()?.as_object().context("answers")? {
        ensure!(
            answers.as_i64().is_some_and(|count| count <= 0),
            "{label} has an address: {reply:?}"
        );
    }
    for event in ground.arena.run().events() {
        let name = match &event.kind {
            EventKind::NameLookedUp { name } => name.clone(),
            EventKind::Block { block } => block.subject.to_string(),
            _ => continue,
        };
        let plain = name.chars().all(|one| one.is_ascii_graphic() || one == ' ');
        ensure!(
            plain && !name.contains("..") && !name.contains('\\'),
            "an odd name came through: {name:?}"
        );
    }
    // In a rule they are refused where they are read.
    for allow in [
        "a b.example:80",
        "a\nb.example:80",
        "a\r.example:80",
        "a%00b.example:80",
        "a/b.example:80",
    ] {
        let option = format!("--allow={allow}");
        let ran = ground.stage.product()?.call([
            "run".as_ref(),
            "--json".as_ref(),
            "--repo".as_ref(),
            ground.repo.as_os_str(),
            option.as_ref(),
            "--".as_ref(),
            "true".as_ref(),
        ])?;
        ensure!(
            ran.code == 3 || ran.code == 2,
            "{allow:?} was taken: {ran:?}"
        );
    }
    ground.nothing_with("e30")
}

fn spelling_does_not_make_another_name(ground: &Ground<'_>) -> Result<()> {
    for host in ["ALLOWED.example", "allowed.EXAMPLE.", "AlLoWeD.eXaMpLe"] {
        let reply = ground
            .arena
            .exec(&["curl", "-sS", "-m", "30", &format!("http://{host}/")])?;
        ensure!(reply.stdout.contains("hello"), "{host}: {reply:?}");
    }
    let job = ground
        .arena
        .start(&["curl", "-sS", "-m", "60", "http://E32-Mixed.EXAMPLE./"])?;
    let block = ground.held(&job, "tcp e32-mixed.example:80")?;
    ground.deny(&block)?;
    job.wait(PATIENCE)?;
    // A Cyrillic letter in an allowed name.
    let script = "import socket\ntry: socket.create_connection(('\u{430}llowed.example'.encode('idna').decode(), 80), 60)\nexcept OSError as error: print(error.errno)";
    let job = ground.arena.start(&["python3", "-c", script])?;
    let block = ground
        .arena
        .run()
        .wait_for("a block in punycode", |event| match &event.kind {
            EventKind::Block { block } if block.subject.to_string().starts_with("tcp xn--") => {
                Some(block.id.to_string())
            }
            _ => None,
        })?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.stdout.contains("111"), "not refused");
    ground.nothing_with("xn--")
}

fn the_dialled_host_decides_not_the_host_header(ground: &Ground<'_>) -> Result<()> {
    let job = ground.arena.start(&[
        "curl",
        "-sS",
        "-m",
        "60",
        "-H",
        "Host: allowed.example",
        "http://e34.example/mark-e34",
    ])?;
    let block = ground.held(&job, "tcp e34.example:80")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.code == 7);
    ground.nothing_with("e34")
}

fn the_dialled_host_decides_not_the_server_name_in_tls(ground: &Ground<'_>) -> Result<()> {
    let script = "import socket, ssl, sys\nc = ssl.create_default_context(); c.check_hostname = False; c.verify_mode = ssl.CERT_NONE\n\
        try:\n  s = socket.create_connection(('e35.example', 443), 60); c.wrap_socket(s, server_hostname=sys.argv[1] or None); print('through')\n\
        except OSError as error: print('refused', error.errno)";
    for server_name in ["allowed.example", ""] {
        let job = ground
            .arena
            .start(&["python3", "-c", script, server_name])?;
        if server_name.is_empty() {
            // The denial of the first is remembered: refused at once, without a card.
            ensure!(job.wait(PATIENCE)?.stdout.contains("refused 111"));
            continue;
        }
        let block = ground.held(&job, "tcp e35.example:443")?;
        let card = ground.arena.product().card(&block)?;
        ensure!(card["subject"]["host"]["name"] == "e35.example", "{card}");
        ground.deny(&block)?;
        ensure!(job.wait(PATIENCE)?.stdout.contains("refused 111"));
    }
    ground.nothing_with("e35")
}

fn an_allowed_destination_is_called_an_opaque_tunnel(ground: &Ground<'_>) -> Result<()> {
    let product = ground.arena.product();
    let words = product.ask(&[
        "policy",
        "why",
        "allowed.example:443",
        "--run",
        ground.arena.id(),
    ])?;
    let words = words["words"].as_str().context("words")?.to_owned();
    ensure!(
        words.contains("opaque tunnel"),
        "nothing says that contents are not looked into: {words}"
    );
    // And so it is: what goes through is neither parsed nor judged again, whatever it looks like.
    let through = ground.arena.attack(&["tcp", "allowed.example", "80",
        "GET / HTTP/1.1\\r\\nHost: e37.example\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"])?;
    ensure!(through["heard"].to_string().contains("hello"), "{through}");
    // A redirect to an unlisted host is a connection of its own, and held.
    let job = ground.arena.start(&[
        "curl",
        "-sSL",
        "-m",
        "60",
        "http://allowed.example/redirect?http://e41.example/mark-e41",
    ])?;
    let block = ground.held(&job, "tcp e41.example:80")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.code == 7);
    ground.nothing_with("GET /mark-e41")?;
    ensure_no_query(ground, "e41.example")
}

fn ensure_no_query(ground: &Ground<'_>, name: &str) -> Result<()> {
    let asked = ground.stage.world.names_asked()?;
    ensure!(
        !asked.iter().any(|asked| asked == name),
        "{name} was looked up"
    );
    Ok(())
}

fn protocols_on_other_protocols_ports_are_judged_by_host_and_port(
    ground: &Ground<'_>,
) -> Result<()> {
    let job =
        ground
            .arena
            .start_attack(&["tcp", "e42.example", "443", "SSH-2.0-mark-e42\\r\\n"])?;
    let block = ground.held(&job, "tcp e42.example:443")?;
    ground.deny(&block)?;
    job.wait(PATIENCE)?;
    let job = ground
        .arena
        .start(&["curl", "-sSk", "-m", "60", "https://e42.example:22/"])?;
    let block = ground.held(&job, "tcp e42.example:22")?;
    ground.deny(&block)?;
    ensure!(job.wait(PATIENCE)?.code == 7);
    ground.nothing_with("e42")
}

fn another_port_of_an_allowed_host_is_held(ground: &Ground<'_>) -> Result<()> {
    let attack = ["tcp", "allowed.example", "8080", "mark-e44"];
    ground.held_then_refused(&attack, "tcp allowed.example:8080")?;
    ground.nothing_with("mark-e44")
}
