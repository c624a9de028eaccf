//! Unix sockets of the host: held, amended live, once, denied, taken back, opened by the policy file.

use crate::holds::go;
use anyhow::{Context, Result, ensure};
use foreman_domain::{Decider, EventKind};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Daemon, PATIENCE, Product, Stage, eventually, repos, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "sockets",
        [
            a_held_connect_goes_on_in_the_same_process_once_its_socket_is_amended,
            a_service_that_starts_again_is_reached_by_the_same_rule,
            once_lets_exactly_the_waiting_connection_through,
            a_denied_socket_is_refused_and_why_says_the_reason,
            a_revoked_amend_cuts_the_connection_that_it_allowed,
            nobody_waits_for_sockets_in_an_unattended_run,
            a_policy_file_opens_a_socket_from_the_start_also_behind_a_link,
            a_project_decision_opens_it_for_the_next_run_and_is_written_down,
            a_way_out_of_the_cage_asks_again_and_says_what_it_opens,
            the_engines_own_sockets_and_the_keyring_are_refused_without_a_card,
            why_names_the_rule_that_decides_about_a_socket,
            a_rule_that_no_run_can_have_is_refused_before_it_starts,
        ]
    )
}

/// A service of the operator's.
struct Service {
    path: PathBuf,
    _running: Daemon,
}

impl Service {
    /// Answers at a socket of this name in a folder of the operator's.
    fn start(product: &Product<'_>, name: &str) -> Result<Self> {
        let folder = product.bench().scratch(&format!("service-{name}"))?;
        Self::at(product, folder.canonicalize()?.join("s.sock"), name)
    }

    fn at(product: &Product<'_>, path: PathBuf, name: &str) -> Result<Self> {
        let mut server = product.program(product.bench().program("fm-attack"));
        let running =
            Daemon::start(server.args(["serve-unix", &path.display().to_string(), name]))?;
        eventually("the service listens", PATIENCE, || path.exists())?;
        Ok(Self {
            path,
            _running: running,
        })
    }

    fn subject(&self) -> String {
        format!("socket {}", self.path.display())
    }
}

/// A policy that shows the test's own programs in the cage, and has these rules besides.
fn policy(stage: &Stage, name: &str, rules: &str) -> Result<String> {
    let file = stage
        .bench
        .scratch(&format!("policy-{name}"))?
        .join("policy.toml");
    let tools = format!("[[read]]\npath = {}\n{rules}", json!(stage.bench.bin()));
    stage.bench.write(&file, tools)?;
    Ok(file.display().to_string())
}

/// What talks to a service, as a command of a shell.
fn talk(stage: &Stage, path: &Path) -> String {
    let program = stage.bench.program("fm-attack");
    format!("'{}' talk-unix '{}'", program.display(), path.display())
}

fn candidate<'a>(card: &'a Value, scope: &str) -> Option<&'a Value> {
    let mut all = card["candidates"].as_array()?.iter();
    all.find(|candidate| candidate["scope"] == scope)
}

fn a_held_connect_goes_on_in_the_same_process_once_its_socket_is_amended(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-amend")?;
    let service = Service::start(&product, "amend")?;
    let policy = policy(stage, "socket-amend", "")?;
    let program = stage.bench.program("fm-attack").display().to_string();
    let path = service.path.display().to_string();
    let run = product.run(
        &repo,
        &["--policy", &policy],
        &[&program, "talk-unix", &path],
    )?;
    let mine = run.said("talking as")?;
    let block = run.block(&service.subject())?;
    let card = product.card_with_holder(&block)?;
    ensure!(card["waiting"].as_u64() == Some(1), "{card}");
    ensure!(
        card["subject"] == json!({"type": "socket", "path": path}),
        "{card}"
    );
    ensure!(
        card["holders"][0]["argv"][1] == "talk-unix",
        "the card does not name the program: {card}"
    );
    let facts = &card["socket"];
    ensure!(
        facts["listening"] == true
            && facts["owner"] == stage.bench.user()
            && facts["program"]
                .as_str()
                .is_some_and(|program| program.starts_with("fm-attack (pid ")),
        "the card does not say who listens: {card}"
    );
    let lasting = candidate(&card, "run").context("no rule for this run")?;
    ensure!(
        lasting["words"] == format!("Let this run connect to {path} until it ends")
            && lasting["needs_confirmation"] == false,
        "{lasting}"
    );
    let decided = product.amend(&block, &[])?;
    ensure!(decided["released"].as_u64() == Some(1), "{decided}");
    let pid = mine.trim_start_matches("talking as ").to_owned();
    run.said(&format!("amend said are you there to {pid}"))?;
    run.ended()?;
    run.wait_for("the connection in the feed", |event| match &event.kind {
        EventKind::ConnectionClosed {
            subject,
            sent: 14,
            received: 20,
            cut: false,
            ..
        } if subject.to_string() == service.subject() => Some(()),
        _ => None,
    })
}

fn a_service_that_starts_again_is_reached_by_the_same_rule(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-again")?;
    let service = Service::start(&product, "first")?;
    let policy = policy(stage, "socket-again", "")?;
    let talk = talk(stage, &service.path);
    let script = format!("{talk}; while ! [ -e go ]; do sleep 0.05; done; {talk}");
    let run = product.run(&repo, &["--policy", &policy], &["sh", "-c", &script])?;
    let block = run.block(&service.subject())?;
    product.amend(&block, &[])?;
    run.said("first said")?;
    let path = service.path.clone();
    drop(service);
    std::fs::remove_file(&path)?;
    let _again = Service::at(&product, path, "second")?;
    go(stage, &product, &run)?;
    run.said("second said")?;
    run.ended().map(drop)
}

fn once_lets_exactly_the_waiting_connection_through(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-once")?;
    let service = Service::start(&product, "once")?;
    let policy = policy(stage, "socket-once", "")?;
    let talk = talk(stage, &service.path);
    let run = product.run(
        &repo,
        &["--policy", &policy],
        &["sh", "-c", &format!("{talk}; {talk}")],
    )?;
    let block = run.block(&service.subject())?;
    product.amend(&block, &["--scope", "once"])?;
    run.said("once said")?;
    let id = run.id()?;
    let again = until("the second connection is held", PATIENCE, || {
        let open = product.blocks(&id)?;
        Ok(open
            .into_iter()
            .find(|card| card["id"] != block && card["waiting"].as_u64() == Some(1)))
    })?;
    product.deny(again["id"].as_str().unwrap_or_default(), "")?;
    run.said("ENOENT")?;
    run.ended().map(drop)
}

fn a_denied_socket_is_refused_and_why_says_the_reason(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-deny")?;
    let service = Service::start(&product, "deny")?;
    let policy = policy(stage, "socket-deny", "")?;
    let talk = talk(stage, &service.path);
    let script = format!("{talk}; foreman why --json; {talk}; echo twice; exit 3");
    let run = product.run(&repo, &["--policy", &policy], &["sh", "-c", &script])?;
    let block = run.block(&service.subject())?;
    let decided = product.deny(&block, "use the one in the cage")?;
    ensure!(decided["refused"].as_u64() == Some(1), "{decided}");
    run.said("ENOENT")?;
    let why = run.said("use the one in the cage")?;
    ensure!(
        why.contains(&service.subject()) && why.contains("\"denied\""),
        "why does not tell: {why}"
    );
    run.said("twice")?;
    run.ended()?;
    let id = run.id()?;
    ensure!(
        product.ask(&["blocks", "--run", &id, "--all"])?["blocks"]
            .as_array()
            .map(Vec::len)
            == Some(1),
        "a repeat of what was denied raised a card"
    );
    Ok(())
}

fn a_revoked_amend_cuts_the_connection_that_it_allowed(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-revoke")?;
    let service = Service::start(&product, "revoke")?;
    let policy = policy(stage, "socket-revoke", "")?;
    let talk = talk(stage, &service.path);
    let run = product.run(
        &repo,
        &["--policy", &policy],
        &["sh", "-c", &format!("{talk} stay; {talk}")],
    )?;
    let block = run.block(&service.subject())?;
    let decided = product.amend(&block, &[])?;
    run.said("revoke said")?;
    let amendment = decided["amendment"]["id"]
        .as_str()
        .context("no amendment")?;
    let revoked = product.ask(&["policy", "revoke", amendment])?;
    ensure!(revoked["cut"].as_u64() == Some(1), "{revoked}");
    run.said("it is over")?;
    run.wait_for("the cut connection in the feed", |event| {
        match &event.kind {
            EventKind::ConnectionClosed {
                subject, cut: true, ..
            } if subject.to_string() == service.subject() => Some(()),
            _ => None,
        }
    })?;
    // And what comes after it is asked about anew.
    let id = run.id()?;
    let again = until("the next connection is held", PATIENCE, || {
        let open = product.blocks(&id)?;
        Ok(open
            .into_iter()
            .find(|card| card["waiting"].as_u64() == Some(1)))
    })?;
    product.deny(again["id"].as_str().unwrap_or_default(), "")?;
    run.ended().map(drop)
}

fn nobody_waits_for_sockets_in_an_unattended_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-unattended")?;
    let service = Service::start(&product, "unattended")?;
    let policy = policy(stage, "socket-unattended", "")?;
    let talk = talk(stage, &service.path);
    let run = product.run_to_end(
        &repo,
        &["--policy", &policy, "--unattended"],
        &["sh", "-c", &format!("{talk}; {talk}")],
    )?;
    run.said("ENOENT")?;
    let id = run.id()?;
    let blocks = product.ask(&["blocks", "--run", &id, "--all"])?;
    let block = &blocks["blocks"][0];
    ensure!(
        block["state"] == "denied" && block["by"] == "unattended" && block["seen"] == 2,
        "{blocks}"
    );
    Ok(())
}

fn a_policy_file_opens_a_socket_from_the_start_also_behind_a_link(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-policy")?;
    let service = Service::start(&product, "policy")?;
    let link = stage.bench.home().join("way-to-a-service");
    let folder = service.path.parent().context("no folder")?;
    std::os::unix::fs::symlink(folder, &link)?;
    let way = link.join("s.sock");
    let rule = format!("[[socket]]\npath = {}\nreason = \"tests\"\n", json!(way));
    let policy = policy(stage, "socket-policy", &rule)?;
    let (by_link, straight) = (talk(stage, &way), talk(stage, &service.path));
    let run = product.run_to_end(
        &repo,
        &["--policy", &policy],
        &["sh", "-c", &format!("{by_link}; {straight}")],
    )?;
    let id = run.id()?;
    ensure!(product.blocks(&id)?.is_empty(), "{}", run.story());
    let count = run
        .events()
        .iter()
        .filter(|event| matches!(&event.kind, EventKind::Output { text, .. } if text.starts_with("policy said")))
        .count();
    ensure!(count == 2, "{count} of 2 got through: {}", run.story());
    Ok(())
}

fn a_project_decision_opens_it_for_the_next_run_and_is_written_down(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-project")?;
    let service = Service::start(&product, "project")?;
    let policy = policy(stage, "socket-project", "")?;
    let options = ["--policy", policy.as_str()];
    let talk = talk(stage, &service.path);
    let run = product.run(&repo, &options, &["sh", "-c", &talk])?;
    let block = run.block(&service.subject())?;
    let decided = product.amend(&block, &["--scope", "project", "--yes"])?;
    run.said("project said")?;
    run.ended()?;
    let next = product.run_to_end(&repo, &options, &["sh", "-c", &talk])?;
    next.said("project said")?;
    let amendment = decided["amendment"]["id"]
        .as_str()
        .context("no amendment")?;
    let written = product.ask(&["policy", "write", amendment])?;
    let text = written["text"].as_str().unwrap_or_default();
    ensure!(text.contains("[[socket]]"), "{written}");
    Ok(())
}

fn a_way_out_of_the_cage_asks_again_and_says_what_it_opens(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-out")?;
    let path = stage.bench.home().join(".gnupg/S.gpg-agent");
    stage.bench.write(&path.with_extension("made"), "")?;
    let service = Service::at(&product, path, "agent")?;
    let policy = policy(stage, "socket-out", "")?;
    let run = product.run(
        &repo,
        &["--policy", &policy],
        &["sh", "-c", &talk(stage, &service.path)],
    )?;
    let block = run.block(&service.subject())?;
    let card = product.card(&block)?;
    for candidate in card["candidates"].as_array().context("no candidates")? {
        ensure!(
            candidate["needs_confirmation"] == true
                && candidate["opens"][0]
                    .as_str()
                    .is_some_and(|opens| opens.starts_with("the gpg agent: ")),
            "{candidate}"
        );
    }
    ensure!(
        product.amend(&block, &[]).is_err(),
        "it was not asked again"
    );
    product.amend(&block, &["--yes"])?;
    run.said("agent said")?;
    run.ended().map(drop)
}

fn the_engines_own_sockets_and_the_keyring_are_refused_without_a_card(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-floor")?;
    let own = stage.bench.runtime().join("foreman/planted.sock");
    stage.bench.write(&own.with_extension("made"), "")?;
    let own = Service::at(&product, own.canonicalize().unwrap_or(own), "own")?;
    let keyring = stage.bench.home().join(".local/share/keyrings/control");
    stage.bench.write(&keyring.with_extension("made"), "")?;
    let keyring = Service::at(&product, keyring, "keyring")?;
    let policy = policy(stage, "socket-floor", "")?;
    let script = format!(
        "{}; {}; foreman why --json",
        talk(stage, &own.path),
        talk(stage, &keyring.path)
    );
    let run = product.run_to_end(&repo, &["--policy", &policy], &["sh", "-c", &script])?;
    for (service, why) in [
        (&own, "a socket of the engine's own"),
        (&keyring, "a socket of your keyring"),
    ] {
        run.wait_for("the refusal in the feed", |event| match &event.kind {
            EventKind::Egress {
                subject,
                verdict:
                    foreman_domain::ConnectVerdict::Refused {
                        by: Decider::Floor,
                        why: said,
                    },
                ..
            } if subject.to_string() == service.subject() && said.contains(why) => Some(()),
            _ => None,
        })?;
        run.said(why)?;
    }
    let id = run.id()?;
    let all = product.ask(&["blocks", "--run", &id, "--all"])?;
    ensure!(all["blocks"].as_array().is_some_and(Vec::is_empty), "{all}");
    Ok(())
}

fn why_names_the_rule_that_decides_about_a_socket(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-why")?;
    let policy = policy(stage, "socket-why", "[[socket]]\npath = \"/srv/x.sock\"\n")?;
    let run = product.run_to_end(&repo, &["--policy", &policy], &["true"])?;
    let id = run.id()?;
    let why = |what: &str| product.ask(&["policy", "why", what, "--run", &id]);
    let allowed = why("socket:/srv/x.sock")?;
    ensure!(
        allowed["verdict"] == "allowed" && allowed["rule"] == "order:2",
        "{allowed}"
    );
    let held = why("socket:/srv/y.sock")?;
    ensure!(
        held["verdict"] == "held" && held["words"] == "No rule allows connecting to /srv/y.sock",
        "{held}"
    );
    let keyring = why("socket:/run/user/7/keyring/control")?;
    ensure!(
        keyring["verdict"] == "refused" && keyring["layer"] == "floor",
        "{keyring}"
    );
    let shown = product.call(["policy", "show", "--run", &id])?;
    ensure!(
        shown.stdout.contains("socket  /srv/x.sock"),
        "{}",
        shown.stdout
    );
    Ok(())
}

fn a_rule_that_no_run_can_have_is_refused_before_it_starts(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "socket-input")?;
    let way = stage.bench.home().join("way-to-our-own");
    std::os::unix::fs::symlink(stage.bench.runtime().join("foreman"), &way)?;
    let behind = way.join("control.sock").display().to_string();
    for (path, code, words) in [
        ("run/x.sock", "bad_policy", "is relative"),
        ("/run/*.sock", "bad_policy", "has a pattern in it"),
        (
            "/run/user/1000/keyring/control",
            "bad_policy",
            "a socket of your keyring",
        ),
        (&behind, "bad_policy", "a socket of the engine's own"),
    ] {
        let rule = format!("[[socket]]\npath = {}\n", json!(path));
        let policy = policy(stage, "socket-input", &rule)?;
        let repo = repo.display().to_string();
        let ran = product.call([
            "run", "--json", "--repo", &repo, "--policy", &policy, "--", "true",
        ])?;
        let (found, message) = ran.error()?;
        ensure!(
            found == code && message.contains(words),
            "{path}: {found} {message}"
        );
    }
    Ok(())
}
