//! Ports of the operator's own machine, by the name `host`: held, amended, and never reached by accident. And
//! ports of a run, published to the operator.

use crate::holds::go;
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Daemon, LiveRun, PATIENCE, Product, Stage, eventually, repos, until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "ports",
        [
            a_held_connect_to_a_port_of_this_machine_goes_on_once_amended,
            a_policy_file_opens_a_port_of_this_machine_on_either_loopback,
            the_cages_own_loopback_stays_its_own,
            why_says_whose_port_it_is,
            a_published_port_leads_into_the_run_and_is_closed_again,
            a_published_port_outlives_the_engine_and_ends_with_the_run,
            a_port_that_is_taken_is_another_one_unless_it_was_named,
            ports_that_cannot_be_published_are_refused_with_a_sentence,
        ]
    )
}

/// A service at an address of the machine's loopback.
fn serve(product: &Product<'_>, address: &str, name: &str) -> Result<Daemon> {
    let program = product.bench().program("fm-attack");
    let daemon = Daemon::start(product.program(&program).args(["serve-tcp", address, name]))?;
    eventually("the service answers", PATIENCE, || {
        product
            .program(&program)
            .args(["talk-tcp", address])
            .output()
            .is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(name))
    })?;
    Ok(daemon)
}

fn policy(stage: &Stage, name: &str, rules: &str) -> Result<String> {
    let file = stage
        .bench
        .scratch(&format!("policy-{name}"))?
        .join("policy.toml");
    let tools = format!("[[read]]\npath = {}\n{rules}", json!(stage.bench.bin()));
    stage.bench.write(&file, tools)?;
    Ok(file.display().to_string())
}

fn a_held_connect_to_a_port_of_this_machine_goes_on_once_amended(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "port-amend")?;
    let _service = serve(&product, "127.0.0.1:15432", "database")?;
    let policy = policy(stage, "port-amend", "")?;
    let program = stage.bench.program("fm-attack").display().to_string();
    let run = product.run(
        &repo,
        &["--policy", &policy],
        &[&program, "talk-tcp", "host:15432"],
    )?;
    let mine = run.said("talking as")?;
    let block = run.block("tcp host:15432")?;
    let card = product.card_with_holder(&block)?;
    let lasting = card["candidates"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["scope"] == "run"))
        .context("no rule for this run")?;
    ensure!(
        lasting["words"]
            == "Let this run connect to host:15432 (this machine's own loopback) until it ends",
        "{lasting}"
    );
    product.amend(&block, &[])?;
    let pid = mine.trim_start_matches("talking as ").to_owned();
    run.said(&format!("database said are you there to {pid}"))?;
    run.ended().map(drop)
}

fn a_policy_file_opens_a_port_of_this_machine_on_either_loopback(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "port-policy")?;
    let _four = serve(&product, "127.0.0.1:15433", "four")?;
    let _six = serve(&product, "[::1]:15434", "six")?;
    let rules =
        "[[egress]]\nhost = \"host\"\nport = 15433\n[[egress]]\nhost = \"host\"\nport = 15434\n";
    let policy = policy(stage, "port-policy", rules)?;
    let talk = format!("'{}' talk-tcp", stage.bench.program("fm-attack").display());
    // The documented address is the name.
    let script = format!("{talk} host:15433; {talk} host:15434; {talk} 198.18.0.1:15433");
    let run = product.run_to_end(&repo, &["--policy", &policy], &["sh", "-c", &script])?;
    run.said("six said")?;
    let four = run
        .events()
        .iter()
        .filter(|event| matches!(&event.kind, EventKind::Output { text, .. } if text.starts_with("four said")))
        .count();
    ensure!(four == 2, "{}", run.story());
    let id = run.id()?;
    ensure!(product.blocks(&id)?.is_empty());
    Ok(())
}

fn the_cages_own_loopback_stays_its_own(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "port-own")?;
    let _service = serve(&product, "127.0.0.1:15435", "outside")?;
    let policy = policy(
        stage,
        "port-own",
        "[[egress]]\nhost = \"host\"\nport = 15435\n",
    )?;
    let program = stage.bench.program("fm-attack").display().to_string();
    let script = format!(
        "'{program}' talk-tcp 127.0.0.1:15435; '{program}' serve-tcp 127.0.0.1:15435 inside & \
         until '{program}' talk-tcp 127.0.0.1:15435 | grep 'inside said'; do sleep 0.05; done; \
         '{program}' talk-tcp host:15435; kill $!"
    );
    let run = product.run_to_end(&repo, &["--policy", &policy], &["sh", "-c", &script])?;
    run.said("ECONNREFUSED")?;
    run.said("inside said")?;
    run.said("outside said")?;
    Ok(())
}

fn why_says_whose_port_it_is(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "port-why")?;
    let rules = "[[egress]]\nhost = \"host\"\nport = 15436\n";
    let policy = policy(stage, "port-why", rules)?;
    let run = product.run_to_end(&repo, &["--policy", &policy], &["true"])?;
    let id = run.id()?;
    let why = |what: &str| product.ask(&["policy", "why", what, "--run", &id]);
    let allowed = why("host:15436")?;
    ensure!(
        allowed["verdict"] == "allowed"
            && allowed["words"]
                .as_str()
                .is_some_and(|words| words.contains("this machine's own loopback")),
        "{allowed}"
    );
    let udp = why("udp:host:15436")?;
    ensure!(
        udp["verdict"] == "refused" && udp["layer"] == "floor",
        "{udp}"
    );
    let refused = product
        .call(["run", "--json", "--allow", "udp:host:15436", "--", "true"])?
        .error()?;
    ensure!(refused.1.contains("Only TCP ports"), "{refused:?}");
    Ok(())
}

/// A run in which this port of its loopback answers with "inside", until it is told to go.
fn serving(stage: &Stage, product: &Product<'_>, name: &str, port: u16) -> Result<LiveRun> {
    let repo = repos::plain(&stage.bench, name)?;
    let policy = policy(stage, name, "")?;
    let program = stage.bench.program("fm-attack").display().to_string();
    let script = format!(
        "'{program}' serve-tcp 127.0.0.1:{port} inside & \
         until '{program}' talk-tcp 127.0.0.1:{port} | grep -q 'inside said'; do sleep 0.05; done; \
         echo serving; while ! [ -e go ]; do sleep 0.05; done; kill $!"
    );
    let run = product.run(&repo, &["--policy", &policy], &["sh", "-c", &script])?;
    run.said("serving")?;
    Ok(run)
}

/// What somebody on this machine hears at an address.
fn hears(product: &Product<'_>, at: &Value) -> Result<Value> {
    let address = format!("127.0.0.1:{at}");
    let mut client = product.program(product.bench().program("fm-attack"));
    let out = client.args(["talk-tcp", &address]).output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().last().unwrap_or_default();
    Ok(serde_json::from_str(line).unwrap_or_default())
}

fn a_published_port_leads_into_the_run_and_is_closed_again(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = serving(stage, &product, "port-publish", 13001)?;
    let id = run.id()?;
    let opened = product.ask(&["port", &id, "13001"])?;
    ensure!(
        opened["at"] == 13001
            && opened["url"] == "http://127.0.0.1:13001/"
            && opened["listening"] == true,
        "{opened}"
    );
    ensure!(hears(&product, &opened["at"])?["said"] == "inside");
    // Asked twice it is the same.
    let again = product.ask(&["port", &id, "13001"])?;
    ensure!(again["at"] == 13001, "{again}");
    until("it has carried what was said", PATIENCE, || {
        let list = product.ask(&["port", &id])?;
        let port = &list["ports"][0];
        Ok(
            (port["connections"] == 1 && port["sent"] == 21 && port["received"] == 14)
                .then_some(()),
        )
    })?;
    let closed = product.ask(&["port", &id, "13001", "--close"])?;
    ensure!(closed["connections"] == 1, "{closed}");
    ensure!(hears(&product, &opened["at"])?["errno"] == "ECONNREFUSED");
    ensure!(product.ask(&["port", &id])?["ports"] == json!([]));
    for wanted in ["port_opened", "port_closed"] {
        run.wait_for(wanted, |event| (event.kind.tag() == wanted).then_some(()))?;
    }
    go(stage, &product, &run)?;
    run.ended().map(drop)
}

fn a_published_port_outlives_the_engine_and_ends_with_the_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = serving(stage, &product, "port-outlives", 13002)?;
    let id = run.id()?;
    let opened = product.ask(&["port", &id, "13002"])?;
    run.signal(Signal::SIGKILL)?;
    ensure!(hears(&product, &opened["at"])?["said"] == "inside");
    let list = product.ask(&["port", &id])?;
    ensure!(list["ports"][0]["port"] == 13002, "{list}");
    go(stage, &product, &run)?;
    until("the port ends with the run", PATIENCE, || {
        Ok((hears(&product, &opened["at"])?["errno"] == "ECONNREFUSED").then_some(()))
    })?;
    until("the run has ended", PATIENCE, || {
        let view = product.show(&id)?;
        let state = view["state"]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        Ok((!["running", "provisioning", "stopping"].contains(&state.as_str())).then_some(()))
    })?;
    let events = product.call(["events", &id, "--json"])?.stdout;
    ensure!(events.contains("\"port_closed\""), "{events}");
    let (code, message) = product.call(["port", &id, "13002", "--json"])?.error()?;
    ensure!(
        code == "conflict" && message.contains("is not running"),
        "{code} {message}"
    );
    Ok(())
}

fn a_port_that_is_taken_is_another_one_unless_it_was_named(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let _taken = serve(&product, "127.0.0.1:13003", "somebody else")?;
    let run = serving(stage, &product, "port-taken", 13003)?;
    let id = run.id()?;
    for options in [&["--bind"][..], &["--to", "13003"]] {
        let mut words = vec!["port", &id, "13003"];
        words.extend(options);
        let (code, message) = product.call(words.iter().chain(&["--json"]))?.error()?;
        ensure!(
            code == "conflict" && message.contains("another program listens there"),
            "{options:?}: {code} {message}"
        );
    }
    let opened = product.ask(&["port", &id, "13003"])?;
    ensure!(opened["at"] != 13003, "{opened}");
    ensure!(hears(&product, &opened["at"])?["said"] == "inside");
    let (code, message) = product
        .call(["port", &id, "13003", "--to", "13009", "--json"])?
        .error()?;
    ensure!(
        code == "conflict" && message.contains("is published at"),
        "{code} {message}"
    );
    go(stage, &product, &run)?;
    run.ended().map(drop)
}

fn ports_that_cannot_be_published_are_refused_with_a_sentence(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = serving(stage, &product, "port-input", 13004)?;
    let id = run.id()?;
    let quiet = product.call(["port", &id, "13005"])?;
    ensure!(
        quiet.code == 0
            && quiet
                .stdout
                .contains("Nothing listens on port 13005 in the run yet"),
        "{quiet:?}"
    );
    for (words, code, message) in [
        (&["port", &id, "0"][..], "bad_input", "0 is not a port"),
        (
            &["port", &id, "13004", "--close"],
            "not_found",
            "is not published",
        ),
        (&["port", &id, "70000"], "usage", "70000"),
        (&["port", "rzzzzzzz", "1"], "not_found", "rzzzzzzz"),
    ] {
        let mut all = words.to_vec();
        all.push("--json");
        let (found, said) = product.call(&all)?.error()?;
        ensure!(
            found == code && said.contains(message),
            "{words:?}: {found} {said}"
        );
    }
    go(stage, &product, &run)?;
    run.ended().map(drop)
}
