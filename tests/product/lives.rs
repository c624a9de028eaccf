//! Stopping, killing, re-attaching, several at once.

use crate::holds::fetch;
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{
    LiveRun, PATIENCE, Product, Stage, eventually, processes_with, repos, until,
};
use nix::sys::signal::Signal;
use std::fs;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "lives",
        [
            a_stopped_run_is_cancelled_and_leaves_no_process,
            interrupting_the_command_line_stops_the_run,
            amending_works_after_the_hosting_command_line_was_killed,
            attach_follows_to_the_end_with_the_runs_exit_code,
            a_killed_supervisor_leaves_an_interrupted_run_and_no_process,
            a_second_command_joins_the_engine_that_is_up,
            two_runs_in_one_repository_go_side_by_side,
            five_starts_at_once_one_of_them_bad_give_four_runs,
            what_outlives_the_agent_dies_with_the_run,
        ]
    )
}

fn state_of(product: &Product<'_>, id: &str) -> String {
    product
        .show(id)
        .ok()
        .and_then(|view| view["state"].as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn a_stopped_run_is_cancelled_and_leaves_no_process(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "stop")?;
    let script = "trap '' INT TERM HUP; echo kept > kept.txt; echo going; while :; do sleep 0.1; done # mark-stop-17";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    run.said("going")?;
    ensure!(
        processes_with("mark-stop-17") > 0,
        "the agent cannot be seen"
    );
    let id = run.id()?;
    let view = product.ask(&["stop", &id])?;
    ensure!(view["state"] == "cancelled", "{view}");
    ensure!(processes_with("mark-stop-17") == 0, "the agent lives on");
    let code = run.ended()?;
    ensure!(code == 7, "exit code {code}");
    let worktree = view["worktree"].as_str().context("a worktree")?;
    ensure!(
        fs::read_to_string(format!("{worktree}/kept.txt"))? == "kept\n",
        "a stop lost work"
    );
    Ok(())
}

fn interrupting_the_command_line_stops_the_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "interrupt")?;
    let run = product.run(&repo, &[], &["sh", "-c", "echo going; exec sleep 1001"])?;
    run.said("going")?;
    run.signal(Signal::SIGINT)?;
    let code = run.ended()?;
    ensure!(
        code == 7 || code == 130,
        "exit code {code}: {}",
        run.story()
    );
    let id = run.id()?;
    eventually("the run is cancelled", PATIENCE, || {
        state_of(&product, &id) == "cancelled"
    })
}

fn amending_works_after_the_hosting_command_line_was_killed(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "orphan")?;
    let run = product.run(&repo, &[], &["sh", "-c", &fetch("orphan.held.example")])?;
    let block = run.block("tcp orphan.held.example:80")?;
    let id = run.id()?;
    run.signal(Signal::SIGKILL)?;
    run.ended()?;
    ensure!(
        !stage
            .world
            .names_asked()?
            .iter()
            .any(|name| name.contains("orphan")),
        "a name left"
    );
    let decided = product.amend(&block, &[])?;
    ensure!(decided["released"].as_u64() == Some(1), "{decided}");
    eventually("the run is in review", PATIENCE, || {
        state_of(&product, &id) == "review"
    })?;
    let diff = product.ask(&["diff", &id])?;
    ensure!(diff["files"][0]["path"] == "got.txt", "{diff}");
    let expect = diff["expect"].as_str().unwrap_or_default();
    product.ask(&["merge", &id, "--expect", expect])?;
    let events = product.call(["events", &id, "--json"])?;
    let numbers: Vec<u64> = events
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?["seq"].as_u64())
        .collect();
    ensure!(
        numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
        "holes: {numbers:?}"
    );
    Ok(())
}

fn attach_follows_to_the_end_with_the_runs_exit_code(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "attach")?;
    let run = product.run(
        &repo,
        &[],
        &[
            "sh",
            "-c",
            "curl -sS -m 100 http://attach.held.example/; exit 5",
        ],
    )?;
    let block = run.block("tcp attach.held.example:80")?;
    let id = run.id()?;
    run.signal(Signal::SIGKILL)?;
    run.ended()?;
    let attached = LiveRun::start(product.foreman(["attach", &id, "--json"]))?;
    attached.block("tcp attach.held.example:80")?;
    product.amend(&block, &[])?;
    attached.said("hello from the far side")?;
    let code = attached.ended()?;
    ensure!(code == 1, "exit code {code}");
    Ok(())
}

fn a_killed_supervisor_leaves_an_interrupted_run_and_no_process(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "lost")?;
    let run = product.run(
        &repo,
        &[],
        &[
            "sh",
            "-c",
            "echo going; while :; do sleep 0.1; done # mark-lost-18",
        ],
    )?;
    run.said("going")?;
    let id = run.id()?;
    let identity = product
        .data()
        .join("state/runs")
        .join(&id)
        .join("identity.json");
    let identity: serde_json::Value = serde_json::from_slice(&fs::read(identity)?)?;
    // The number is that of the world's process namespace: kill it there.
    let pid = identity["pid"].as_u64().context("a pid")?.to_string();
    let killed = product.program("kill").args(["-KILL", &pid]).status()?;
    ensure!(killed.success(), "the supervisor was not there");
    eventually("no process of the cage lives", PATIENCE, || {
        processes_with("mark-lost-18") == 0
    })?;
    let code = run.ended()?;
    ensure!(code == 8, "exit code {code}: {}", run.story());
    eventually("the run is interrupted", PATIENCE, || {
        state_of(&product, &id) == "interrupted"
    })?;
    run.said("going")?;
    Ok(())
}

fn a_second_command_joins_the_engine_that_is_up(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "join")?;
    let run = product.run(
        &repo,
        &["--title", "joined"],
        &["sh", "-c", "echo going; exec sleep 1002"],
    )?;
    run.said("going")?;
    let id = run.id()?;
    let runs = product.ask(&["runs"])?;
    ensure!(
        runs["runs"][0]["id"] == id.as_str() && runs["runs"][0]["title"] == "joined",
        "{runs}"
    );
    ensure!(runs["runs"][0]["state"] == "running", "{runs}");
    let second = product.run_to_end(&repo, &[], &["true"])?;
    ensure!(second.ended()? == 0, "{}", second.story());
    product.ask(&["stop", &id])?;
    run.ended()?;
    Ok(())
}

fn two_runs_in_one_repository_go_side_by_side(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "parallel")?;
    let first = product.run(&repo, &[], &["sh", "-c", &fetch("one.parallel.example")])?;
    let second = product.run(&repo, &[], &["sh", "-c", &fetch("two.parallel.example")])?;
    let one = first.block("tcp one.parallel.example:80")?;
    let two = second.block("tcp two.parallel.example:80")?;
    product.amend(&two, &[])?;
    ensure!(second.ended()? == 0, "{}", second.story());
    ensure!(!first.is_over(), "an amend of one run let another go on");
    product.amend(&one, &[])?;
    ensure!(first.ended()? == 0, "{}", first.story());
    let branches = stage.bench.shell(
        &repo,
        "git for-each-ref --format='%(refname)' refs/heads/foreman",
    )?;
    ensure!(branches.lines().count() == 2, "{branches}");
    Ok(())
}

fn five_starts_at_once_one_of_them_bad_give_four_runs(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "crowd")?;
    let nowhere = stage.bench.scratch("nowhere")?;
    let runs: Vec<LiveRun> = (0..5)
        .map(|number| {
            let place = if number == 1 { &nowhere } else { &repo };
            product.run(place, &[], &["sh", "-c", "echo x > x.txt"])
        })
        .collect::<Result<_>>()?;
    let codes: Vec<i32> = runs.iter().map(LiveRun::ended).collect::<Result<_>>()?;
    ensure!(codes == [0, 3, 0, 0, 0], "{codes:?}: {}", runs[0].story());
    let trees = stage.bench.shell(
        &repo,
        "git worktree list --porcelain | grep -c '^worktree '",
    )?;
    ensure!(trees.trim() == "5", "{trees}");
    Ok(())
}

fn what_outlives_the_agent_dies_with_the_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "daemon")?;
    let script = "(setsid nohup sh -c 'while :; do sleep 0.1; done # mark-daemon-19' >/dev/null 2>&1 &) & \
                  sleep 0.3; echo left";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let left = until("nothing is left", PATIENCE, || {
        let left = processes_with("mark-daemon-19");
        Ok((left == 0).then_some(left))
    })?;
    ensure!(left == 0);
    ensure!(
        run.events()
            .iter()
            .any(|event| matches!(event.kind, EventKind::StepEnded { .. })),
        "no step ended"
    );
    Ok(())
}
