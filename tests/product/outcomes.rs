//! How runs end: their state, their exit code, and what is kept.

use anyhow::{Result, ensure};
use foreman_domain::{EventKind, LogStream, StepKind};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, Product, Stage, repos};
use serde_json::Value;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "outcomes",
        [
            an_unattended_run_refuses_at_once_and_says_so_by_its_exit_code,
            setup_and_checks_run_in_the_cage_in_order,
            a_failing_setup_keeps_the_agent_from_starting,
            a_failing_check_is_told,
            what_the_agent_left_uncommitted_is_committed_and_marked,
            a_run_without_commits_has_no_changes,
            a_failing_agent_without_changes_has_failed,
            a_failing_agent_with_changes_is_reviewed_as_failed,
            a_program_that_is_not_there_is_a_failure_that_names_it,
            events_are_numbered_without_holes_and_can_be_read_again,
            the_agent_gets_no_terminal_and_no_input,
            the_agents_environment_is_an_allow_list,
        ]
    )
}

fn ended(product: &Product<'_>, run: &LiveRun) -> Result<(i32, Value)> {
    let code = run.ended()?;
    Ok((code, product.show(&run.id()?)?))
}

fn an_unattended_run_refuses_at_once_and_says_so_by_its_exit_code(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "unattended")?;
    let script = "curl -sS -m 30 http://unattended.held.example/; echo \"curl said $?\"; echo x > x; git add x; git commit -qm x";
    let run = product.run_to_end(&repo, &["--unattended"], &["sh", "-c", script])?;
    run.said("curl said 7")?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 6, "exit code {code}: {}", run.story());
    ensure!(view["denied_unattended"] == true, "{view}");
    ensure!(
        !stage
            .world
            .names_asked()?
            .iter()
            .any(|name| name.contains("unattended")),
        "a name left"
    );
    Ok(())
}

fn setup_and_checks_run_in_the_cage_in_order(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "steps")?;
    let run = product.run_to_end(
        &repo,
        &[
            "--setup",
            "echo made by setup > dep.ignored; ls /root 2>/dev/null; echo set up",
            "--check",
            "grep -q agent agent.txt && echo checked",
            "--check",
            "true",
        ],
        &["sh", "-c", "cat dep.ignored; echo agent > agent.txt"],
    )?;
    run.said("made by setup")?;
    run.said("checked")?;
    let kinds: Vec<StepKind> = run
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::StepStarted { what, .. } => Some(*what),
            _ => None,
        })
        .collect();
    let place = |kind| kinds.iter().position(|found| *found == kind);
    ensure!(place(StepKind::Setup) < place(StepKind::Agent), "{kinds:?}");
    ensure!(place(StepKind::Agent) < place(StepKind::Check), "{kinds:?}");
    ensure!(
        kinds
            .iter()
            .filter(|kind| **kind == StepKind::Check)
            .count()
            == 2,
        "{kinds:?}"
    );
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 0 && view["state"] == "review", "{code} {view}");
    ensure!(
        view["checks"]
            .as_array()
            .is_some_and(|checks| checks.len() == 2),
        "{view}"
    );
    let diff = product.ask(&["diff", &run.id()?])?;
    ensure!(
        diff["files"]
            .as_array()
            .is_some_and(|files| files.len() == 1),
        "ignored files came along: {diff}"
    );
    Ok(())
}

fn a_failing_setup_keeps_the_agent_from_starting(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "bad-setup")?;
    let run = product.run_to_end(
        &repo,
        &["--setup", "echo broken >&2; exit 4"],
        &["sh", "-c", "echo agent ran"],
    )?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 1, "exit code {code}");
    ensure!(view["state"] == "failed", "{view}");
    ensure!(
        !run.story().contains("agent ran\""),
        "the agent ran: {}",
        run.story()
    );
    run.said("broken")?;
    Ok(())
}

fn a_failing_check_is_told(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "bad-check")?;
    let run = product.run_to_end(
        &repo,
        &["--check", "echo no good; exit 9"],
        &["sh", "-c", "echo x > x.txt"],
    )?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 1, "a failing check is no success: {code}");
    ensure!(view["state"] == "review", "{view}");
    let checks = view["checks"].to_string();
    ensure!(
        checks.contains('9'),
        "the failing check is not told: {view}"
    );
    let diff = product.ask(&["diff", &run.id()?])?;
    let flags = diff["flags"].to_string();
    ensure!(
        flags.contains("no good"),
        "a reviewer is not told of the failing check: {diff}"
    );
    Ok(())
}

fn what_the_agent_left_uncommitted_is_committed_and_marked(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "leftovers")?;
    let script = "seq 1 50 > committed; git add committed; git commit -qm 'by the agent'; \
                  echo two > left; echo three > secret.ignored; rm file.txt; seq 100 200 > left; chmod +x src/main.rs";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    run.wait_for("the commits, the last one ours", |event| {
        match &event.kind {
            EventKind::Commits {
                finished_by_us: true,
                count: 2,
                ..
            } => Some(()),
            _ => None,
        }
    })?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 0, "{view}");
    let diff = product.ask(&["diff", &run.id()?])?;
    let paths: Vec<&str> = diff["files"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|file| file["path"].as_str())
        .collect();
    for path in ["committed", "left", "file.txt", "src/main.rs"] {
        ensure!(
            paths.contains(&path),
            "{path} is not in the diff: {paths:?}"
        );
    }
    ensure!(
        !paths.contains(&"secret.ignored"),
        "an ignored file came along"
    );
    Ok(())
}

fn a_run_without_commits_has_no_changes(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "nothing")?;
    let run = product.run_to_end(&repo, &[], &["true"])?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 0 && view["state"] == "no_changes", "{code} {view}");
    Ok(())
}

fn a_failing_agent_without_changes_has_failed(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "failing")?;
    let run = product.run_to_end(&repo, &[], &["sh", "-c", "exit 42"])?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 1 && view["state"] == "failed", "{code} {view}");
    ensure!(
        view.to_string().contains("42"),
        "the code is not told: {view}"
    );
    Ok(())
}

fn a_failing_agent_with_changes_is_reviewed_as_failed(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "failing-with-changes")?;
    let run = product.run_to_end(&repo, &[], &["sh", "-c", "echo x > x.txt; exit 1"])?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 1 && view["state"] == "review", "{code} {view}");
    ensure!(view["agent_succeeded"] == false, "{view}");
    Ok(())
}

fn a_program_that_is_not_there_is_a_failure_that_names_it(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "no-program")?;
    let run = product.run_to_end(&repo, &[], &["no-such-agent-program", "--x"])?;
    let (code, view) = ended(&product, &run)?;
    ensure!(code == 1 || code == 3, "exit code {code}: {}", run.story());
    ensure!(
        format!("{view}{}", run.story()).contains("no-such-agent-program"),
        "{view}"
    );
    Ok(())
}

fn events_are_numbered_without_holes_and_can_be_read_again(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "events")?;
    let run = product.run_to_end(&repo, &[], &["sh", "-c", "seq 1 3000; echo err >&2"])?;
    let events = run.events();
    for (index, event) in events.iter().enumerate() {
        ensure!(event.v == 1, "{event:?}");
        ensure!(event.seq.0 == index as u64 + 1, "a hole before {event:?}");
    }
    let lines = events.iter().filter(|event| matches!(&event.kind,
        EventKind::Output { stream: LogStream::Stdout, .. } if event.step.as_ref().is_some_and(|step| step.0 == "agent")));
    ensure!(lines.count() == 3000, "lines of output were lost");
    let id = run.id()?;
    let again = product.call(["events", &id, "--json"])?;
    ensure!(
        again.stdout.lines().count() >= events.len(),
        "events cannot all be read again"
    );
    let some = product.call(["events", &id, "--json", "--kind", "state,commits"])?;
    ensure!(
        some.stdout.lines().count() < 20,
        "the filter does not filter"
    );
    ensure!(some.stdout.contains("\"state\""), "{some:?}");
    Ok(())
}

fn the_agent_gets_no_terminal_and_no_input(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "stdin")?;
    let script = "readlink /proc/self/fd/0; tty; ls /proc/self/fd | wc -l; cat; echo 'no input'";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    run.said("/dev/null")?;
    run.said("not a tty")?;
    run.said("no input")?;
    Ok(())
}

fn the_agents_environment_is_an_allow_list(stage: &Stage) -> Result<()> {
    let product = stage
        .product()?
        .with_variable("SECRET_TOKEN", "hunter2hunter2")
        .with_variable("SSH_AUTH_SOCK", "/tmp/agent.sock")
        .with_variable("GIT_DIR", "/nowhere")
        .with_variable("LD_PRELOAD", "")
        .with_variable("WANTED", "lent");
    let repo = repos::plain(&stage.bench, "environment")?;
    let options = ["--env", "WANTED", "--env", "SET=by hand"];
    let run = product.run_to_end(
        &repo,
        &options,
        &["sh", "-c", "env; cat /proc/*/environ | tr '\\0' '\\n'"],
    )?;
    run.said("WANTED=lent")?;
    run.said("SET=by hand")?;
    let story: String = run
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Output { text, .. } => Some(format!("{text}\n")),
            _ => None,
        })
        .collect();
    for name in [
        "hunter2",
        "SSH_AUTH_SOCK",
        "GIT_DIR=/nowhere",
        "DBUS_SESSION",
        "http_proxy",
    ] {
        ensure!(!story.contains(name), "{name} came into the cage: {story}");
    }
    Ok(())
}
