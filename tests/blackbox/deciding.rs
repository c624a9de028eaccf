//! Cards, and decisions about them.

use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::Case;
use foreman_testkit::{
    OTHER_RESOLVER, OTHER_V4, OTHER_V6, PATIENCE, Stage, cases_of, eventually, repos, until,
};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "deciding",
        [
            t23_of_three_clients_that_amend_at_once_one_makes_one_revision,
            t25_an_ask_past_its_limit_is_expired_and_not_denied,
            t26_every_way_to_a_denied_host_is_closed_until_it_is_amended,
        ]
    )
}

fn t23_of_three_clients_that_amend_at_once_one_makes_one_revision(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t23")?;
    let agent = "curl -sS -m 100 http://t23.held.example/ && echo resumed";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp t23.held.example:80")?;
    let expect = product.card(&block)?["expect"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let amend = || product.call(["amend", block.as_str(), "--expect", &expect, "--json"]);
    let answers = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..3).map(|_| scope.spawn(amend)).collect();
        asked
            .into_iter()
            .map(|client| client.join().unwrap())
            .collect::<Result<Vec<_>>>()
    })?;
    let (won, late): (Vec<_>, Vec<_>) = answers.iter().partition(|ran| ran.code == 0);
    ensure!(won.len() == 1, "{} clients decided: {answers:?}", won.len());
    for ran in late {
        let (code, message) = ran.error()?;
        ensure!(ran.code == 4, "a late answer ended with {}", ran.code);
        ensure!(
            ["already_decided", "stale"].contains(&code.as_str()),
            "a late client was told {code}: {message}"
        );
    }
    run.said("resumed")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let applied = |kind: &EventKind| matches!(kind, EventKind::PolicyApplied { .. });
    let revisions = run
        .events()
        .iter()
        .filter(|event| applied(&event.kind))
        .count();
    ensure!(revisions == 1, "{revisions} revisions were applied");
    Ok(())
}

fn t25_an_ask_past_its_limit_is_expired_and_not_denied(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t25")?;
    let agent = "curl -sS -m 100 http://t25.held.example/; echo first ended $?; foreman why --json; \
        curl -sS -m 100 http://t25.held.example/; echo second ended $?; exec sleep 600";
    let limit = Duration::from_secs(8);
    let first = product.run(&repo, &["--hold-limit", "8s"], &["sh", "-c", agent])?;
    let asked = Instant::now();
    let block = first.block("tcp t25.held.example:80")?;
    let run = first.id()?;
    // The engine goes away and comes back before the limit.
    first.signal(Signal::SIGKILL)?;
    eventually("its process has ended", PATIENCE, || first.is_over())?;
    let card = product.card(&block)?;
    ensure!(card["state"] == "open", "{card}");
    ensure!(
        asked.elapsed() < limit,
        "this machine is too slow for the case"
    );

    let shown = until("the ask is over", PATIENCE, || {
        let events = product
            .call(["events", &run, "--json", "--kind", "block"])?
            .stdout;
        let over = events.lines().rev().find_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            let state = event["block"]["state"].as_str()?;
            (event["block"]["id"] == block.as_str() && state != "open").then(|| state.to_owned())
        });
        Ok(over)
    })?;
    ensure!(shown == "expired", "the ask is {shown}");
    ensure!(asked.elapsed() >= limit, "it was over before its limit");
    let heard = until("the agent tried again", PATIENCE, || {
        let output = product
            .call(["events", &run, "--json", "--kind", "output"])?
            .stdout;
        Ok(output.contains("second ended").then_some(output))
    })?;
    // Told once, in words that are no denial, and not asked again.
    ensure!(heard.matches("first ended").count() == 1, "{heard}");
    ensure!(
        heard.contains("\\\"state\\\":\\\"expired\\\"") && !heard.contains("denied\\\""),
        "the agent was told something else: {heard}"
    );
    let states = product
        .call(["events", &run, "--json", "--kind", "block"])?
        .stdout;
    ensure!(!states.contains("\"denied\""), "{states}");
    let cards = product.blocks(&run)?;
    ensure!(cards.is_empty(), "it was asked again: {cards:?}");
    let view = product.show(&run)?;
    ensure!(view["denied_unattended"] == false, "{view}");
    ensure!(
        stage
            .world
            .names_asked()?
            .iter()
            .all(|name| name != "t25.held.example"),
        "the name left"
    );
    product.ask(&["stop", &run])?;

    // Without a limit it waits.
    let patient = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = patient.block("tcp t25.held.example:80")?;
    let asked = Instant::now();
    eventually("the other run's limit is over", PATIENCE, || {
        asked.elapsed() > limit + Duration::from_secs(1)
    })?;
    ensure!(product.card(&block)?["state"] == "open");
    product.ask(&["stop", &patient.id()?])?;
    Ok(())
}

fn t26_every_way_to_a_denied_host_is_closed_until_it_is_amended(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t26")?;
    let mut ways = vec![
        (
            "name",
            "tcp t26.held.example:80",
            "http://t26.held.example/t26-name".to_owned(),
        ),
        (
            "literal",
            "tcp 198.51.100.20:80",
            format!("http://{OTHER_V4}/t26-literal"),
        ),
        (
            "redirect",
            "tcp t26.elsewhere.example:80",
            "-L http://t26.allowed.example/redirect?http://t26.elsewhere.example/t26-redirect"
                .to_owned(),
        ),
        (
            "doh",
            "tcp 192.0.2.129:443",
            format!("-k https://{OTHER_RESOLVER}/dns-query?t26-doh"),
        ),
        (
            "ssh",
            "tcp t26.held.example:22",
            "telnet://t26.held.example:22".to_owned(),
        ),
    ];
    if stage.world.has(OTHER_V6.parse()?) {
        let url = format!("-g http://[{OTHER_V6}]/t26-six");
        ways.push(("six", "tcp [2001:db8:1::20]:80", url));
    }
    let mut agent = String::new();
    for (way, _, arguments) in &ways {
        agent.push_str(&format!(
            "(curl -sS -m 100 -o /dev/null {arguments}; echo {way} ended $?) </dev/null & "
        ));
    }
    agent.push_str("curl -sS -m 100 http://t26.allowed.example/t26-beside; echo beside $?; wait");
    let options = ["--allow", "t26.allowed.example:80"];
    let run = product.run(&repo, &options, &["bash", "-c", &agent])?;
    let blocks = ways
        .iter()
        .map(|(_, subject, _)| run.block(subject))
        .collect::<Result<Vec<_>>>()?;
    run.said("beside 0")?;
    let arrived = || -> Result<Vec<&str>> {
        let seen = stage.world.seen()?;
        let named = |way: &str, port: u16, address: &str| {
            seen.iter().any(|seen| {
                seen.head.contains(&format!("/t26-{way}"))
                    || (!address.is_empty() && seen.port == port && seen.local == address)
            })
        };
        Ok(ways
            .iter()
            .map(|(way, _, _)| *way)
            .filter(|way| match *way {
                "literal" => named(way, 80, OTHER_V4),
                "six" => named(way, 80, OTHER_V6),
                "doh" => named(way, 443, OTHER_RESOLVER),
                way => named(way, 0, ""),
            })
            .collect())
    };
    let asked = || -> Result<Vec<String>> {
        let held = ["t26.held.example", "t26.elsewhere.example"];
        let names = stage.world.names_asked()?;
        Ok(names
            .into_iter()
            .filter(|name| held.contains(&name.as_str()))
            .collect())
    };
    ensure!(asked()?.is_empty(), "a name left: {:?}", asked()?);
    let mut amended = Vec::new();
    for ((way, subject, _), block) in ways.iter().zip(&blocks) {
        ensure!(
            arrived()? == sorted(&ways, &amended),
            "{:?} arrived before {way}",
            arrived()?
        );
        product
            .amend(block, &["--yes"])
            .with_context(|| (*subject).to_owned())?;
        let ended = run.said(&format!("{way} ended"))?;
        match *way {
            // Nobody listens there on the far side, and that is what the agent hears.
            "ssh" => ensure!(ended.contains("ended 7"), "{ended}"),
            _ => {
                ensure!(ended.contains("ended 0"), "{ended}");
                amended.push(*way);
            }
        }
    }
    until("everything arrived", PATIENCE, || {
        Ok((arrived()? == sorted(&ways, &amended)).then_some(()))
    })?;
    ensure!(run.ended()? == 0, "{}", run.story());
    Ok(())
}

/// The ways that were amended so far, in the order of all.
fn sorted<'a>(ways: &[(&'a str, &str, String)], amended: &[&str]) -> Vec<&'a str> {
    let all = ways.iter().map(|(way, _, _)| *way);
    all.filter(|way| amended.contains(way)).collect()
}
