//! The application goes away in the middle of a run, by every kind of death, and comes back.

use crate::serving::serve;
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::Case;
use foreman_testkit::{
    Daemon, LiveRun, PATIENCE, Product, Stage, cases_of, eventually, processes_with, repos, until,
};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "adoption",
        [
            t8_a_repository_that_is_away_at_start_costs_no_record_and_no_tree,
            t9_a_run_whose_supervisor_and_tree_are_gone_is_interrupted_with_a_reason,
            t10_a_run_that_outlived_the_application_is_adopted_with_its_events,
            t12_an_agent_that_ended_while_nobody_was_there_is_reviewed_and_not_run_again,
            t13_a_stop_leaves_no_process_of_the_run_and_says_how_many_it_killed,
            a_stop_that_was_asked_for_holds_although_the_application_was_killed,
            an_identity_that_names_a_foreign_process_is_no_supervisor,
            the_doctor_compares_four_truths_and_removes_only_what_holds_nothing,
            a_data_directory_that_cannot_be_written_is_a_sentence,
        ]
    )
}

/// An agent that runs in a live run, whose `foreman` process was then killed.
fn abandoned(product: &Product<'_>, repo: &Path, agent: &str) -> Result<String> {
    let run = product.run(repo, &[], &["sh", "-c", agent])?;
    run.said("going")?;
    let id = run.id()?;
    kill_foreman(&run)?;
    Ok(id)
}

fn kill_foreman(run: &LiveRun) -> Result<()> {
    run.signal(Signal::SIGKILL)?;
    eventually("the foreman process has ended", PATIENCE, || run.is_over())
}

fn folder(product: &Product<'_>, run: &str) -> PathBuf {
    product.data().join("state/runs").join(run)
}

fn signal_shim(product: &Product<'_>, run: &str, signal: &str) -> Result<()> {
    let identity = fs::read(folder(product, run).join("identity.json"))?;
    let identity: Value = serde_json::from_slice(&identity)?;
    let pid = identity["pid"].as_u64().context("a pid")?.to_string();
    // The number is that of the world's process namespace: it is signalled there.
    let sent = product.program("kill").args([signal, &pid]).status()?;
    ensure!(sent.success(), "the supervisor is not there");
    Ok(())
}

fn until_state(product: &Product<'_>, run: &str, state: &str, limit: Duration) -> Result<Value> {
    until(&format!("the run is {state}"), limit, || {
        let view = product.show(run)?;
        Ok((view["state"] == state).then_some(view))
    })
    .with_context(|| format!("{:?}", product.show(run)))
}

/// All events of a run, which must follow each other from 1 on.
fn events(product: &Product<'_>, run: &str) -> Result<Vec<Value>> {
    let printed = product.call(["events", run, "--json"])?;
    ensure!(printed.code == 0, "{printed:?}");
    let events: Vec<Value> = printed
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    for (index, event) in events.iter().enumerate() {
        ensure!(
            event["seq"].as_u64() == Some(index as u64 + 1),
            "a hole at {index}: {event}"
        );
    }
    Ok(events)
}

fn lines_with(events: &[Value], text: &str) -> usize {
    let has = |event: &&Value| {
        event["text"]
            .as_str()
            .is_some_and(|line| line.contains(text))
    };
    events.iter().filter(has).count()
}

pub fn worktree_of(product: &Product<'_>, run: &str) -> Result<PathBuf> {
    let view = product.show(run)?;
    Ok(view["worktree"].as_str().context("a worktree")?.into())
}

fn t8_a_repository_that_is_away_at_start_costs_no_record_and_no_tree(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t8")?;
    let ended = product
        .run_to_end(&repo, &[], &["sh", "-c", "echo a > a.txt"])?
        .id()?;
    let script = "echo going; until [ -e /tmp/go ]; do sleep 0.05; [ -e stop ] && touch /tmp/go; done; \
                  echo b > b.txt";
    let live = abandoned(&product, &repo, script)?;
    let away = repo.with_extension("away");
    fs::rename(&repo, &away)?;
    fs::write(worktree_of(&product, &live)?.join("stop"), "")?;
    eventually("the agent's supervisor has ended", PATIENCE, || {
        folder(&product, &live).join("exit.json").exists()
    })?;

    let _service = serve(&product)?;
    for run in [&ended, &live] {
        let view = product.show(run)?;
        ensure!(view["repo_reachable"] == false, "{view}");
        ensure!(worktree_of(&product, run)?.is_dir(), "a tree was removed");
    }
    ensure!(product.show(&ended)?["state"] == "review");
    let listed = product.call(["runs"])?;
    ensure!(listed.stdout.contains("unreachable"), "{listed:?}");
    let report = product.ask(&["doctor", "--repair"])?;
    let truths = report["truths"].as_array().context("truths")?;
    let told = truths
        .iter()
        .filter(|truth| truth["git"] == "repository unreachable");
    ensure!(told.count() == 2, "{report}");
    // It is away for longer than a reconcile takes, and nothing is settled as lost meanwhile.
    std::thread::sleep(Duration::from_secs(4));
    ensure!(
        product.ask(&["runs"])?["runs"]
            .as_array()
            .is_some_and(|runs| runs.len() == 2)
    );
    ensure!(worktree_of(&product, &live)?.is_dir());
    let state = product.show(&live)?["state"].clone();
    ensure!(
        state == "running" || state == "stopping",
        "settled as {state}"
    );

    fs::rename(&away, &repo)?;
    until_state(&product, &live, "review", PATIENCE)?;
    let diff = product.ask(&["diff", &live])?;
    ensure!(
        diff["files"]
            .as_array()
            .is_some_and(|files| files.iter().any(|file| file["path"] == "b.txt")),
        "{diff}"
    );
    ensure!(product.show(&ended)?["repo_reachable"] == true);
    Ok(())
}

fn t9_a_run_whose_supervisor_and_tree_are_gone_is_interrupted_with_a_reason(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t9")?;
    let script = "for n in 1 2 3; do echo line-$n; done; echo going; \
                  while :; do sleep 0.1; done # mark-t9-live";
    let id = abandoned(&product, &repo, script)?;
    signal_shim(&product, &id, "-KILL")?;
    let tree = product.data().join("worktrees");
    fs::remove_dir_all(&tree)?;
    let clock = Instant::now();
    let _service = serve(&product)?;
    let view = until_state(&product, &id, "interrupted", Duration::from_secs(5))?;
    ensure!(
        clock.elapsed() < Duration::from_secs(5),
        "{:?}",
        clock.elapsed()
    );
    let reason = view["reason"].to_string();
    ensure!(
        reason.contains("lost") && reason.contains("is gone"),
        "{view}"
    );
    ensure!(
        processes_with("mark-t9-live") == 0,
        "the agent outlived its cage"
    );
    let events = events(&product, &id)?;
    for line in ["line-1", "line-2", "line-3", "going"] {
        ensure!(lines_with(&events, line) == 1, "{line} was not kept");
    }
    let shown = product.call(["show", &id])?;
    ensure!(shown.stdout.contains("interrupted"), "{shown:?}");
    Ok(())
}

fn t10_a_run_that_outlived_the_application_is_adopted_with_its_events(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t10")?;
    let script = "echo going; n=0; while [ ! -e stop ]; do n=$((n+1)); echo tick-$n.; sleep 0.02; done; \
                  echo done-after $n # mark-t10-live";
    let id = abandoned(&product, &repo, script)?;
    let written = fs::metadata(folder(&product, &id).join("journal.ndjson"))?.len();
    eventually("the agent goes on without an application", PATIENCE, || {
        fs::metadata(folder(&product, &id).join("journal.ndjson"))
            .is_ok_and(|journal| journal.len() > written + 2_000)
    })?;
    let agents = processes_with("mark-t10-live");
    let _service = serve(&product)?;
    ensure!(product.show(&id)?["state"] == "running");
    ensure!(
        processes_with("mark-t10-live") == agents,
        "a second agent was started"
    );
    let attached = LiveRun::start(product.foreman(["attach", &id, "--json"]))?;
    attached.said("tick-1.")?;
    fs::write(worktree_of(&product, &id)?.join("stop"), "")?;
    let last = attached.said("done-after")?;
    let ticks: usize = last
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|count| count.parse().ok())
        .context("a count")?;
    until_state(&product, &id, "review", PATIENCE)?;
    let events = events(&product, &id)?;
    ensure!(
        lines_with(&events, "tick-") == ticks,
        "of {ticks} lines some are lost or doubled"
    );
    let steps = events
        .iter()
        .filter(|event| event["kind"] == "step_started" && event["step"] == "agent");
    ensure!(steps.count() == 1, "the agent was started twice");
    Ok(())
}

fn t12_an_agent_that_ended_while_nobody_was_there_is_reviewed_and_not_run_again(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t12")?;
    let script =
        "echo going; sleep 1; echo x > t12.txt; git add t12.txt; git commit -qm t12; exit 0";
    let id = abandoned(&product, &repo, script)?;
    eventually("it ended while nobody was there", PATIENCE, || {
        folder(&product, &id).join("exit.json").exists()
    })?;
    let _service = serve(&product)?;
    let view = until_state(&product, &id, "review", PATIENCE)?;
    ensure!(view["agent_succeeded"] == true, "{view}");
    // Longer than a tick of anything takes.
    std::thread::sleep(Duration::from_secs(4));
    let runs = product.ask(&["runs"])?;
    ensure!(
        runs["runs"].as_array().is_some_and(|runs| runs.len() == 1),
        "{runs}"
    );
    ensure!(product.show(&id)?["state"] == "review");
    Ok(())
}

fn t13_a_stop_leaves_no_process_of_the_run_and_says_how_many_it_killed(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t13")?;
    let script = "trap '' INT TERM HUP; \
        setsid sh -c 'trap \"\" INT TERM HUP; while :; do sleep 0.1; done # mark-t13' & \
        (setsid nohup sh -c 'trap \"\" TERM; while :; do sleep 0.1; done # mark-t13' >/dev/null 2>&1 &) & \
        sleep 0.3; echo going; while :; do sleep 0.1; done # mark-t13";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    run.said("going")?;
    let id = run.id()?;
    ensure!(
        processes_with("mark-t13") >= 3,
        "the sleepers are not there"
    );
    let clock = Instant::now();
    let stopped = product.call(["stop", &id])?;
    ensure!(stopped.code == 0, "{stopped:?}");
    ensure!(
        clock.elapsed() < Duration::from_secs(30),
        "past its deadline"
    );
    ensure!(
        processes_with("mark-t13") == 0,
        "a process of the run lives"
    );
    let view = product.show(&id)?;
    let killed = view["killed"].as_u64().context("a count")?;
    ensure!(killed >= 3, "{view}");
    let wanted = format!("{killed} processes were killed");
    ensure!(stopped.stdout.contains(&wanted), "{stopped:?}");
    ensure!(run.ended()? == 7, "{}", run.story());
    // Each rung of the ladder was told with its deadline before it was taken.
    let rungs = run.events().iter().find_map(|event| match &event.kind {
        EventKind::State {
            to: foreman_domain::RunState::Stopping { ladder, .. },
        } => Some(ladder.len()),
        _ => None,
    });
    ensure!(rungs == Some(3), "{rungs:?}");
    Ok(())
}

fn a_stop_that_was_asked_for_holds_although_the_application_was_killed(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "wish")?;
    let script = "echo going; while :; do sleep 0.1; done # mark-wish";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    run.said("going")?;
    let id = run.id()?;
    // A supervisor that hears nothing: the wish can only be recorded.
    signal_shim(&product, &id, "-STOP")?;
    let mut stopping = Daemon::start(&mut product.foreman(["stop", &id]))?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(stopping.is_alive(), "it was not waited for");
    drop(stopping);
    kill_foreman(&run)?;
    signal_shim(&product, &id, "-CONT")?;
    let _service = serve(&product)?;
    until_state(&product, &id, "cancelled", PATIENCE)?;
    ensure!(processes_with("mark-wish") == 0);
    Ok(())
}

fn an_identity_that_names_a_foreign_process_is_no_supervisor(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "reuse")?;
    let script = "echo going; while :; do sleep 0.1; done # mark-reuse";
    let id = abandoned(&product, &repo, script)?;
    signal_shim(&product, &id, "-KILL")?;
    // Somebody else's process, with everything about it as it is: number, start and boot.
    let mut foreign = Daemon::start(
        product.program("sh").args([
            "-c",
            "echo $$ > \"$0\"; read stat < /proc/$$/stat; echo \"$stat\" >> \"$0\"; exec sleep 600",
            &stage
                .bench
                .scratch("foreign")?
                .join("who")
                .display()
                .to_string(),
        ]),
    )?;
    let who = until("the foreign process says who it is", PATIENCE, || {
        let folder = stage.bench.home().parent().map(|root| root.join("scratch"));
        let found = folder
            .into_iter()
            .flat_map(|folder| fs::read_dir(folder).into_iter().flatten());
        Ok(found
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("foreign-"))
            .filter_map(|entry| fs::read_to_string(entry.path().join("who")).ok())
            .find(|text| text.lines().count() == 2 && text.ends_with('\n')))
    })?;
    let (pid, stat) = who.trim().split_once('\n').context("two lines")?;
    let after_name = stat.rsplit_once(')').context("a stat line")?.1;
    let start = after_name
        .split_ascii_whitespace()
        .nth(19)
        .context("a start")?;
    let path = folder(&product, &id).join("identity.json");
    let mut identity: Value = serde_json::from_slice(&fs::read(&path)?)?;
    identity["pid"] = pid.parse::<u64>()?.into();
    identity["start_ticks"] = start.parse::<u64>()?.into();
    fs::write(&path, serde_json::to_vec(&identity)?)?;

    let _service = serve(&product)?;
    until_state(&product, &id, "interrupted", Duration::from_secs(5))?;
    let stopped = product.call(["stop", &id])?;
    ensure!(stopped.code == 0, "{stopped:?}");
    ensure!(foreign.is_alive(), "a foreign process was killed");
    Ok(())
}

fn the_doctor_compares_four_truths_and_removes_only_what_holds_nothing(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "doctor")?;
    let kept = product
        .run_to_end(&repo, &[], &["sh", "-c", "echo a > a.txt"])?
        .id()?;
    fs::remove_dir_all(worktree_of(&product, &kept)?)?;
    stage.bench.shell(
        &repo,
        "git branch foreman/rbcdfghj && git checkout -q -b foreman/rkmnpqrs && \
         git commit -q --allow-empty -m work && git checkout -q -",
    )?;
    let data = product.data();
    for folder in ["state/runs/rvwxz234", "state/runs/r6543zxw"] {
        stage
            .bench
            .shell(&data, &format!("mkdir -m 700 {folder}"))?;
    }
    stage
        .bench
        .shell(&data, "echo work > state/runs/r6543zxw/notes")?;

    let truth_of = |report: &Value, run: &str| -> Result<Value> {
        let truths = report["truths"].as_array().context("truths")?;
        let found = truths.iter().find(|truth| truth["run"] == run);
        found
            .cloned()
            .with_context(|| format!("no {run} in {report}"))
    };
    let dry = product.ask(&["doctor"])?;
    ensure!(
        truth_of(&dry, &kept)?["differences"][0]
            .to_string()
            .contains("removed by hand")
    );
    for run in ["rbcdfghj", "rvwxz234"] {
        let truth = truth_of(&dry, run)?;
        ensure!(
            truth["would"]
                .as_array()
                .is_some_and(|steps| steps.len() == 1),
            "{truth}"
        );
    }
    for run in ["rkmnpqrs", "r6543zxw"] {
        let truth = truth_of(&dry, run)?;
        ensure!(
            truth["would"].as_array().is_some_and(Vec::is_empty),
            "{truth}"
        );
        ensure!(
            truth["differences"][0]
                .to_string()
                .contains("may hold work"),
            "{truth}"
        );
    }
    let branches = || {
        stage.bench.shell(
            &repo,
            "git for-each-ref --format='%(refname:short)' refs/heads/foreman",
        )
    };
    ensure!(branches()?.contains("rbcdfghj"), "a dry run did it");
    let done = product.ask(&["doctor", "--repair"])?;
    ensure!(
        truth_of(&done, "rbcdfghj")?["done"]
            .as_array()
            .is_some_and(|done| done.len() == 1)
    );
    let left = branches()?;
    ensure!(
        !left.contains("rbcdfghj") && left.contains("rkmnpqrs"),
        "{left}"
    );
    ensure!(left.contains(&kept), "a run's branch was removed: {left}");
    ensure!(!data.join("state/runs/rvwxz234").exists());
    ensure!(data.join("state/runs/r6543zxw/notes").exists());
    let again = product.ask(&["doctor", "--repair"])?;
    let undone = again["truths"].as_array().context("truths")?;
    ensure!(
        undone
            .iter()
            .all(|truth| truth["done"].as_array().is_some_and(Vec::is_empty)),
        "{again}"
    );
    let words = product.call(["doctor"])?;
    ensure!(
        words.stdout.contains("processes") && words.stdout.contains("removed by hand"),
        "{words:?}"
    );
    Ok(())
}

fn a_data_directory_that_cannot_be_written_is_a_sentence(stage: &Stage) -> Result<()> {
    let data = stage.bench.scratch("read-only")?;
    let product = stage.product()?.with_data(&data);
    product.ask(&["runs"])?;
    let mount = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec \"$@\"",
        data.display()
    );
    let foreman = stage.bench.program("foreman").display().to_string();
    let mut command = product.program("unshare");
    command.args([
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &mount,
        "sh",
    ]);
    let ran = command.args([&foreman, "runs", "--json"]).output()?;
    ensure!(ran.status.code() == Some(9), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stdout);
    let refusal: Value = serde_json::from_str(said.trim())?;
    let error = &refusal["error"];
    ensure!(error["code"] == "environment", "{refusal}");
    ensure!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("FOREMAN_DATA_DIR")),
        "{refusal}"
    );
    let message = error["message"].as_str().unwrap_or_default();
    ensure!(
        message.to_lowercase().contains("read-only file system"),
        "{message}"
    );
    Ok(())
}
