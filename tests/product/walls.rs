//! A wall that falls while a run goes on: noticed by the probes from inside, and the run is stopped. Taken down
//! by root, because nobody else could.

use anyhow::{Context, Result, ensure};
use foreman_domain::{EventKind, ExitCode, Wall};
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, cases_of, repos, run as finish, until};
use std::time::{Duration, Instant};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "walls",
        [
            a_network_that_opens_is_noticed_at_the_next_decision,
            a_file_tree_that_becomes_writable_is_noticed_within_a_minute,
            a_run_whose_walls_stand_goes_on_through_decisions,
        ]
    )
}

/// Process 1 of the run's cage, as its world numbers it: its supervisor wrote that down.
fn init_of(run: &LiveRun, product: &Product<'_>) -> Result<u64> {
    let path = product
        .data()
        .join("state/runs")
        .join(run.id()?)
        .join("cage.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let identity: serde_json::Value = serde_json::from_str(&text)?;
    identity["pid"].as_u64().context("a process id")
}

/// Does something to the run's cage, as root.
fn in_cage(product: &Product<'_>, run: &LiveRun, what: &[&str], script: &str) -> Result<()> {
    let init = init_of(run, product)?.to_string();
    let mut command = product.program("nsenter");
    command
        .args(["-t", &init])
        .args(what)
        .args(["--", "sh", "-ec", script]);
    finish(&mut command).map(drop)
}

const WAITS: &[&str] = &[
    "sh",
    "-c",
    "echo waits; while ! test -e enough; do sleep 0.1; done; echo went on > done.txt; rm enough",
];

fn has_fallen(run: &LiveRun, product: &Product<'_>, wall: Wall) -> Result<()> {
    run.wait_for("a wall that fell", |event| match &event.kind {
        EventKind::Warning { message } if message.contains("fell while the run went on") => {
            Some(())
        }
        _ => None,
    })?;
    let code = run.ended()?;
    ensure!(
        code == ExitCode::WallMissing as i32,
        "exit code {code}: {}",
        run.story()
    );
    let view = product.show(&run.id()?)?;
    ensure!(view["state"] == "failed", "{view}");
    let words = view["outcome"].to_string();
    ensure!(
        words.contains(wall.name()) && words.contains("fell"),
        "{words}"
    );
    let paused = run.events().iter().any(|event| {
        matches!(&event.kind, EventKind::Probe { wall: found, holds: false, .. } if *found == wall)
    });
    ensure!(paused, "{}", run.story());
    Ok(())
}

fn a_network_that_opens_is_noticed_at_the_next_decision(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "fallen-network")?;
    let agent = "curl -sS -m 100 http://fallen.amended.example/ >/dev/null; echo asked; \
                 while ! test -e enough; do sleep 0.1; done";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp fallen.amended.example:80")?;
    in_cage(
        &product,
        &run,
        &["--net"],
        "ip link add way type veth peer name out",
    )?;
    product.amend(&block, &[])?;
    has_fallen(&run, &product, Wall::Network)
}

fn a_file_tree_that_becomes_writable_is_noticed_within_a_minute(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "fallen-mounts")?;
    let run = product.run(&repo, &[], WAITS)?;
    run.said("waits")?;
    let view = product.show(&run.id()?)?;
    let tree = view["worktree"].as_str().context("a worktree")?;
    in_cage(
        &product,
        &run,
        &["--mount"],
        // Where Landlock allows writing, so that the mount was all that kept it from the agent.
        &format!("mount -o remount,bind,rw '{tree}/.git'"),
    )?;
    // Nothing else happens in it, so nobody looks before the minute is over.
    until("the next look at the walls", PATIENCE * 2, || {
        Ok(run.story().contains("fell while").then_some(()))
    })?;
    has_fallen(&run, &product, Wall::Mounts)
}

fn a_run_whose_walls_stand_goes_on_through_decisions(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "standing")?;
    let agent = "curl -sS -m 100 http://standing.amended.example/ >/dev/null; echo asked; \
                 while ! test -e enough; do sleep 0.1; done; rm enough";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp standing.amended.example:80")?;
    product.amend(&block, &[])?;
    run.said("asked")?;
    let view = product.show(&run.id()?)?;
    let tree = view["worktree"].as_str().context("a worktree")?;
    // Longer than it takes until the walls are proven the next time.
    let begun = Instant::now();
    let fell = until("the walls were proven again", PATIENCE * 2, || {
        let fell = run.story().contains("fell while");
        Ok((fell || begun.elapsed() > Duration::from_secs(65)).then_some(fell))
    })?;
    ensure!(!fell, "{}", run.story());
    let is_news = run.events().iter().any(|event| {
        let is_probe = matches!(event.kind, EventKind::Probe { .. });
        let text = serde_json::to_string(&event.kind).unwrap_or_default();
        !is_probe && (text.contains("169.254.169.254") || text.contains("probe.foreman"))
    });
    ensure!(!is_news, "our own probes are in the feed: {}", run.story());
    std::fs::write(format!("{tree}/enough"), "")?;
    let code = run.ended()?;
    ensure!(code == 0, "exit code {code}: {}", run.story());
    Ok(())
}
