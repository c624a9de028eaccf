//! Orders that wait, one of which is bad.

use anyhow::{Context, Result, ensure};
use foreman_domain::ExitCode;
use foreman_testkit::suite::Case;
use foreman_testkit::{Daemon, PATIENCE, Stage, cases_of, eventually, expect_exit, repos, until};
use std::fs;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "queue",
        [t14_of_five_queued_orders_the_four_with_a_repository_dispatch]
    )
}

fn t14_of_five_queued_orders_the_four_with_a_repository_dispatch(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let good = repos::plain(&stage.bench, "t14")?;
    let bad = repos::plain(&stage.bench, "t14-bad")?;
    let away = bad.with_extension("away");
    product.ask(&["orders", "limits", "--total", "0"])?;
    for number in 1..=5 {
        let repo = if number == 2 { &bad } else { &good };
        let repo = repo.to_str().context("a path in UTF-8")?;
        let id = format!("o{number}");
        let script = format!("echo {number} > {number}.txt");
        let added = product.call([
            "order", "add", "--id", &id, "--repo", repo, "--", "sh", "-c", &script,
        ])?;
        expect_exit(&added, ExitCode::Ok)?;
    }
    fs::rename(&bad, &away)?;
    let _service = Daemon::start(&mut product.foreman(["serve"]))?;
    let state = |id: &str| product.ask(&["order", "show", id]);
    for id in ["o1", "o3", "o4", "o5"] {
        until(&format!("{id} is in review"), PATIENCE, || {
            let view = state(id)?;
            Ok((view["last_run"]["state"] == "review").then_some(()))
        })?;
    }
    let fault = until("o2 is found out", PATIENCE, || {
        let view = state("o2")?;
        Ok((view["wait"]["wait"] == "fault").then_some(view))
    })?;
    ensure!(
        fault["state"] == "queued" && fault["attempts"] == 0,
        "{fault}"
    );
    let listed = product.call(["orders"])?;
    ensure!(
        listed.stdout.contains("order o2:") && listed.stdout.contains("t14-bad"),
        "{listed:?}"
    );
    // Nothing of it was lost: put back, it goes on by itself.
    fs::rename(&away, &bad)?;
    eventually("o2 goes on by itself", PATIENCE, || {
        state("o2").is_ok_and(|view| view["last_run"]["state"] == "review")
    })
}
