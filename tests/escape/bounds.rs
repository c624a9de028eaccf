//! Bounds and secrets, as far as they are enforced now.

use crate::Attack;
use crate::attacks;
use crate::ground::Ground;
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::{Arena, PATIENCE, repos};
use std::time::{Duration, Instant};

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E85"] a_fork_bomb_and_a_thread_bomb_meet_their_bound,
        ["E86"] a_memory_hog_is_stopped_with_its_tree,
        ["E89"] a_flood_of_output_is_bounded_and_neutralised,
        ["E91"] priority_cannot_be_raised,
        ["E92"] tokens_of_the_operators_environment_stay_outside,
    ]
}

fn a_fork_bomb_and_a_thread_bomb_meet_their_bound(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&["--bounds", "processes=100"])?;
    let saw = arena.attack(&["fork-bomb", "5000"])?;
    ensure!(
        saw["children"].as_u64().is_some_and(|count| count < 100),
        "{saw}"
    );
    let saw = arena.attack(&["thread-bomb", "5000"])?;
    ensure!(
        saw["threads"].as_u64().is_some_and(|count| count < 100),
        "{saw}"
    );
    let job = arena.start(&["bash", "-c", "bomb() { bomb | bomb & }; bomb; sleep 1"])?;
    // The host stays responsive meanwhile: another command answers.
    let begin = Instant::now();
    arena.product().ask(&["runs"])?;
    ensure!(
        begin.elapsed() < Duration::from_secs(10),
        "the host was slow: {:?}",
        begin.elapsed()
    );
    let _ = job;
    let view = arena.product().ask(&["stop", arena.id()])?;
    ensure!(view["state"] == "cancelled", "{view}");
    Ok(())
}

fn a_memory_hog_is_stopped_with_its_tree(ground: &Ground<'_>) -> Result<()> {
    // Wherever it is put: in a process, in one that hides behind a first thread that has ended, in files of
    // the file systems in memory, in a file without a name.
    let attacks = ["memory-hog", "hidden-hog", "nameless-hog"];
    for attack in attacks {
        is_stopped(ground, |arena| {
            arena.start_attack(&[attack, "600"]).map(drop)
        })
        .with_context(|| attack.to_owned())?;
    }
    for folder in ["/tmp", "/dev/shm", "$HOME"] {
        let script = format!("head -c 150M /dev/zero > {folder}/hog; sleep 60");
        is_stopped(ground, |arena| {
            arena.start(&["sh", "-c", &script]).map(drop)
        })
        .with_context(|| format!("a file in {folder}"))?;
    }
    Ok(())
}

fn is_stopped(ground: &Ground<'_>, start: impl FnOnce(&Arena<'_>) -> Result<()>) -> Result<()> {
    let arena = ground.fresh(&["--bounds", "memory=96MiB"])?;
    start(&arena)?;
    let figure = arena
        .run()
        .wait_for("the bound on memory was reached", |event| {
            match &event.kind {
                EventKind::Bound {
                    bound,
                    figure,
                    reached: true,
                    ..
                } if bound == "memory" => Some(figure.clone()),
                _ => None,
            }
        })?;
    ensure!(figure.contains('B'), "it does not say how much: {figure}");
    arena.run().ended()?;
    Ok(())
}

fn a_flood_of_output_is_bounded_and_neutralised(ground: &Ground<'_>) -> Result<()> {
    let product = ground.stage.product()?;
    let repo = repos::plain(&ground.stage.bench, "e89")?;
    let program = ground
        .stage
        .bench
        .program("fm-attack")
        .display()
        .to_string();
    let policy = ground.stage.bench.scratch("policy")?.join("tools.toml");
    let text = format!(
        "[[read]]\npath = {}\n",
        serde_json::json!(ground.stage.bench.bin())
    );
    ground.stage.bench.write(&policy, text)?;
    let policy = policy.display().to_string();
    let run = product.run(
        &repo,
        &["--policy", &policy, "--bounds", "output=2MiB"],
        &[&program, "flood", "300000000"],
    )?;
    run.wait_for("the bound on output was reached", |event| {
        match &event.kind {
            EventKind::Bound {
                bound,
                reached: true,
                ..
            } if bound == "output" => Some(()),
            _ => None,
        }
    })?;
    run.ended()?;
    let id = run.id()?;
    let shown = product.call(["events", &id])?;
    ensure!(
        shown.stdout.len() < 30_000_000,
        "{} bytes",
        shown.stdout.len()
    );
    for bad in ["\u{1b}[2J", "\u{202e}", "\u{7}"] {
        ensure!(!shown.stdout.contains(bad), "{bad:?} reached the terminal");
    }
    Ok(())
}

fn priority_cannot_be_raised(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["priority"])?;
    ensure!(
        saw["nice"]["ok"] == false && saw["realtime"]["ok"] == false,
        "{saw}"
    );
    let reply = ground
        .arena
        .start(&["nice", "-n", "-10", "true"])?
        .wait(PATIENCE)?;
    ensure!(
        reply.stderr.contains("Permission") || reply.code != 0,
        "{reply:?}"
    );
    Ok(())
}

fn tokens_of_the_operators_environment_stay_outside(ground: &Ground<'_>) -> Result<()> {
    let product = ground
        .stage
        .product()?
        .with_variable("AWS_SECRET_ACCESS_KEY", "SECRET-E92")
        .with_variable("GITHUB_TOKEN", "SECRET-E92")
        .with_variable("ANTHROPIC_API_KEY", "SECRET-E92");
    let repo = repos::plain(&ground.stage.bench, "e92")?;
    let script = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; echo looked";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    run.said("looked")?;
    ensure!(!run.story().contains("SECRET-E92"), "{}", run.story());
    let state = product.data().join("state");
    let found = ground
        .stage
        .bench
        .shell(&state, "grep -rl SECRET-E92 . || true")?;
    ensure!(found.is_empty(), "kept on disk: {found}");
    Ok(())
}
