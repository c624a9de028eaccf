//! Unix sockets of the host: nothing is reached before somebody decides, and what is allowed carries bytes
//! to the very socket that the card showed, and nothing else.

use crate::Attack;
use crate::attacks;
use crate::ground::Ground;
use anyhow::{Context, Result, ensure};
use foreman_testkit::{Daemon, PATIENCE, eventually};
use std::path::{Path, PathBuf};

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E46"] a_connection_to_a_socket_waits_and_reaches_nothing_before,
        ["E46"] an_allowed_socket_hands_in_bytes_and_no_descriptor,
        ["E46"] datagrams_to_a_socket_of_the_host_go_nowhere,
        ["E97"] the_sockets_that_decide_about_runs_are_never_reached,
        ["E19"] a_published_port_is_no_way_out_of_the_cage,
        ["E65"] a_link_that_is_swapped_while_it_is_held_reaches_what_the_card_showed,
        ["E65"] an_address_that_changes_all_the_time_reaches_nothing_but_what_was_allowed,
    ]
}

/// A service of the operator's that tells its name.
struct Service {
    path: PathBuf,
    _running: Daemon,
}

impl Service {
    fn start(ground: &Ground<'_>, name: &str) -> Result<Self> {
        let folder = ground.stage.bench.scratch(&format!("unix-{name}"))?;
        Self::at(ground, &folder.canonicalize()?.join("s.sock"), name)
    }

    fn at(ground: &Ground<'_>, path: &Path, name: &str) -> Result<Self> {
        let bench = &ground.stage.bench;
        let mut server = ground.arena.product().program(bench.program("fm-attack"));
        let running =
            Daemon::start(server.args(["serve-unix", &path.display().to_string(), name]))?;
        eventually("the service listens", PATIENCE, || path.exists())?;
        let control = ground
            .arena
            .control(&["talk-unix", &path.display().to_string()])?;
        ensure!(
            control["said"] == name,
            "uncaged it must be reached: {control}"
        );
        Ok(Self {
            path: path.to_owned(),
            _running: running,
        })
    }

    fn subject(&self) -> String {
        format!("socket {}", self.path.display())
    }

    fn text(&self) -> String {
        self.path.display().to_string()
    }
}

fn a_connection_to_a_socket_waits_and_reaches_nothing_before(ground: &Ground<'_>) -> Result<()> {
    let service = Service::start(ground, "waits")?;
    let arena = ground.fresh(&[])?;
    let job = arena.start_attack(&["talk-unix", &service.text()])?;
    let block = arena.block(&service.subject())?;
    ensure!(job.reply()?.is_none(), "it did not wait: {:?}", job.reply());
    arena.product().deny(&block, "it is an attack")?;
    let saw = job.wait(PATIENCE)?.json()?;
    ensure!(saw["ok"] == false && saw["errno"] == "ENOENT", "{saw}");
    // Nor is it there by another name of the same place.
    let dotted = service
        .path
        .parent()
        .context("no folder")?
        .join("../")
        .join(
            service
                .path
                .strip_prefix(service.path.ancestors().nth(2).context("no folder")?)?,
        );
    let saw = arena.attack(&["talk-unix", &dotted.display().to_string()])?;
    ensure!(saw["ok"] == false && saw["errno"] == "ENOENT", "{saw}");
    Ok(())
}

fn an_allowed_socket_hands_in_bytes_and_no_descriptor(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let folder = bench.scratch("unix-hands")?.canonicalize()?;
    let (path, secret) = (folder.join("s.sock"), folder.join("handed.txt"));
    bench.write(&secret, "handed over")?;
    let mut server = ground.arena.product().program(bench.program("fm-attack"));
    let text = path.display().to_string();
    let _server = Daemon::start(server.args(["hand-over", &text, &secret.display().to_string()]))?;
    eventually("it listens", PATIENCE, || path.exists())?;
    let control = ground.arena.control(&["receive", &text])?;
    ensure!(control["read"] == "handed over", "uncaged: {control}");
    let arena = ground.fresh(&[])?;
    let job = arena.start_attack(&["receive", &text])?;
    let block = arena.block(&format!("socket {text}"))?;
    arena.product().amend(&block, &[])?;
    let saw = job.wait(PATIENCE)?.json()?;
    ensure!(
        saw["ok"] == false && saw["errno"] == "no descriptor",
        "the descriptor came through: {saw}"
    );
    Ok(())
}

fn datagrams_to_a_socket_of_the_host_go_nowhere(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let path = bench
        .scratch("unix-datagrams")?
        .canonicalize()?
        .join("s.sock");
    let socket = std::os::unix::net::UnixDatagram::bind(&path)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    socket.set_nonblocking(true)?;
    let text = path.display().to_string();
    let control = ground.arena.control(&["datagram-unix", &text])?;
    ensure!(
        control["send"]["ok"] == true && socket.recv(&mut [0; 8])? == 1,
        "uncaged: {control}"
    );
    let saw = ground.arena.attack(&["datagram-unix", &text])?;
    for call in ["send", "connect"] {
        ensure!(saw[call]["errno"] == "ENOENT", "{call}: {saw}");
    }
    ensure!(socket.recv(&mut [0; 8]).is_err(), "a datagram came through");
    ground.refusal_told(&format!("socket {text}")).map(drop)
}

fn the_sockets_that_decide_about_runs_are_never_reached(ground: &Ground<'_>) -> Result<()> {
    let own = ground.stage.bench.runtime().join("foreman");
    let mut sockets = Vec::new();
    let mut folders = vec![own.canonicalize()?];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if std::os::unix::fs::FileTypeExt::is_socket(&kind) {
                sockets.push(entry.path());
            }
        }
    }
    // Those of other cases' runs come and go; the own one stays.
    let is_own = |socket: &PathBuf| socket.to_string_lossy().contains(ground.arena.id());
    ensure!(
        sockets.iter().any(is_own),
        "the run has no socket in {}",
        own.display()
    );
    for socket in sockets {
        let text = socket.display().to_string();
        let reply = ground
            .arena
            .start_attack(&["unix", &text])?
            .wait(PATIENCE)?;
        let saw = reply.json()?;
        ensure!(saw[&text]["errno"] == "ENOENT", "{saw}");
        if !socket.exists() {
            // Of a run of another case, which has ended.
            continue;
        }
        let why = ground.refusal_told(&format!("socket {text}"))?;
        ensure!(why.contains("the engine's own"), "{why}");
    }
    Ok(())
}

fn a_published_port_is_no_way_out_of_the_cage(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&["--allow", "host:18090"])?;
    let opened = arena
        .product()
        .ask(&["port", arena.id(), "18091", "--to", "18090"])?;
    ensure!(opened["listening"] == false, "{opened}");
    // Not even where a rule names it: who listens there is a program of the engine's.
    let saw = arena.attack(&["talk-tcp", "host:18090"])?;
    ensure!(
        saw["ok"] == false && saw["errno"] == "ECONNREFUSED",
        "{saw}"
    );
    let told = arena
        .run()
        .wait_for("the refusal in the feed", |event| match &event.kind {
            foreman_domain::EventKind::Egress {
                subject,
                verdict: foreman_domain::ConnectVerdict::Refused { why, .. },
                ..
            } if subject.to_string() == "tcp host:18090" => Some(why.clone()),
            _ => None,
        })?;
    ensure!(told.contains("the engine's own"), "{told}");
    // Its listener is not in the cage's network either.
    for at in ["127.0.0.1:18090", "[::1]:18090"] {
        let saw = arena.attack(&["talk-tcp", at])?;
        ensure!(saw["ok"] == false, "{at}: {saw}");
    }
    let list = arena.product().ask(&["port", arena.id()])?;
    ensure!(list["ports"][0]["connections"] == 0, "{list}");
    Ok(())
}

fn a_link_that_is_swapped_while_it_is_held_reaches_what_the_card_showed(
    ground: &Ground<'_>,
) -> Result<()> {
    let (shown, other) = (
        Service::start(ground, "shown")?,
        Service::start(ground, "other")?,
    );
    let arena = ground.fresh(&[])?;
    arena.shell(&format!("ln -sfn '{}' way.ignored", shown.text()))?;
    let job = arena.start_attack(&["talk-unix", "way.ignored"])?;
    let block = arena.block(&shown.subject())?;
    let swap = arena.shell_job(&format!("ln -sfn '{}' way.ignored", other.text()))?;
    swap.wait(PATIENCE)?;
    arena.product().amend(&block, &[])?;
    let saw = job.wait(PATIENCE)?.json()?;
    ensure!(saw["said"] == "shown", "{saw}");
    // The next one is another question.
    let saw = arena.attack(&["talk-unix", "way.ignored"])?;
    ensure!(saw["ok"] == false && saw["errno"] == "ENOENT", "{saw}");
    Ok(())
}

fn an_address_that_changes_all_the_time_reaches_nothing_but_what_was_allowed(
    ground: &Ground<'_>,
) -> Result<()> {
    let (open, shut) = (
        Service::start(ground, "open")?,
        Service::start(ground, "shut")?,
    );
    let arena = ground.fresh(&[])?;
    for (service, allow) in [(&open, true), (&shut, false)] {
        let job = arena.start_attack(&["talk-unix", &service.text()])?;
        let block = arena.block(&service.subject())?;
        match allow {
            true => arena.product().amend(&block, &[])?,
            false => arena.product().deny(&block, "it is an attack")?,
        };
        job.wait(PATIENCE)?;
    }
    let saw = arena.attack(&["flip-unix", &open.text(), &shut.text(), "400"])?;
    let reached = saw["connected"].as_u64().unwrap_or(0);
    ensure!(
        saw["said"] == serde_json::json!(["open"]) && reached > 0,
        "{saw}"
    );
    Ok(())
}
