//! Cards, and decisions about them.

use anyhow::{Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::Case;
use foreman_testkit::{Stage, cases_of, repos};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "deciding",
        [t23_of_three_clients_that_amend_at_once_one_makes_one_revision]
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
