//! Ports of the operator's own machine, by the name `host`: held, amended, and never reached by accident.

use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Daemon, PATIENCE, Product, Stage, eventually, repos};
use serde_json::json;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "ports",
        [
            a_held_connect_to_a_port_of_this_machine_goes_on_once_amended,
            a_policy_file_opens_a_port_of_this_machine_on_either_loopback,
            the_cages_own_loopback_stays_its_own,
            why_says_whose_port_it_is,
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
    let file = stage.bench.scratch(&format!("policy-{name}"))?.join("policy.toml");
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
    let run = product.run(&repo, &["--policy", &policy], &[&program, "talk-tcp", "host:15432"])?;
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
    let rules = "[[egress]]\nhost = \"host\"\nport = 15433\n[[egress]]\nhost = \"host\"\nport = 15434\n";
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
    let policy = policy(stage, "port-own", "[[egress]]\nhost = \"host\"\nport = 15435\n")?;
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
    let refused = product.call(["run", "--json", "--allow", "udp:host:15436", "--", "true"])?.error()?;
    ensure!(refused.1.contains("Only TCP ports"), "{refused:?}");
    Ok(())
}
