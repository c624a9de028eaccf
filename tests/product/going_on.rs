//! What a live run uses, and going on from what was reviewed.

use anyhow::{Context, Result, ensure};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Stage, repos};
use serde_json::Value;
use std::time::{Duration, Instant};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "going_on",
        [
            a_busy_run_is_measured_while_somebody_asks,
            a_follow_up_works_on_the_reviewed_commits,
        ]
    )
}

/// Longest wait for a figure.
const DEADLINE: Duration = Duration::from_secs(60);

fn a_busy_run_is_measured_while_somebody_asks(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "busy")?;
    let script = "head -c 3000000 /dev/urandom > large; while :; do :; done";
    let run = product.run(&repo, &["--bounds", "wall=1h"], &["sh", "-c", script])?;
    let id = run.id()?;
    let deadline = Instant::now() + DEADLINE;
    let is_whole = |sample: &Value| {
        let above = |name: &str, least: u64| sample[name].as_u64().is_some_and(|n| n >= least);
        above("cpu_millicores", 10)
            && above("memory_bytes", 100_000)
            && above("processes", 1)
            && above("disk_bytes", 3_000_000)
    };
    loop {
        let view = product.ask(&["samples", &id])?;
        let samples = view["samples"].as_array().context("samples")?;
        if samples.iter().any(is_whole) {
            let left = view["wall_left_ms"].as_u64().context("wall time")?;
            ensure!(
                (3_000_000..=3_600_000).contains(&left),
                "{left} ms are left"
            );
            break;
        }
        ensure!(Instant::now() < deadline, "never measured: {view}");
        std::thread::sleep(Duration::from_secs(1));
    }
    product.ask(&["stop", &id])?;
    let view = product.ask(&["samples", &id])?;
    ensure!(view["samples"] == serde_json::json!([]), "at rest: {view}");
    Ok(())
}

fn a_follow_up_works_on_the_reviewed_commits(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "comments")?;
    let script = "echo \"${FOREMAN_PROMPT:-first}\" >> said.txt";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    let first = run.id()?;
    let next = product.ask(&["follow-up", &first, "-m", "second"])?;
    let next = next["id"].as_str().context("its id")?.to_owned();
    let deadline = Instant::now() + DEADLINE;
    let view = loop {
        let view = product.show(&next)?;
        match view["state"].as_str() {
            Some("review") => break view,
            Some("provisioning" | "running") => {}
            other => anyhow::bail!("it is {other:?}: {view}"),
        }
        ensure!(Instant::now() < deadline, "it never ends: {view}");
        std::thread::sleep(Duration::from_millis(200));
    };
    let before = product.show(&first)?;
    ensure!(before["state"] == "review", "the first one: {before}");
    ensure!(view["base_commit"] == before["base_commit"], "{view}");
    let diff = product.ask(&["diff", &next])?;
    let patch = diff["patch"].as_str().context("a patch")?;
    ensure!(
        patch.contains("+first\n") && patch.contains("+second\n"),
        "not all of it is shown: {patch}"
    );
    Ok(())
}
