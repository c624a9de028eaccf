//! Bounds: where nobody attends a run ends at one; else it is paused, and goes on when it is raised.

use anyhow::{Context, Result, ensure};
use foreman_domain::{EventKind, ExitCode};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, eventually, expect_exit, repos, until};
use std::path::{Path, PathBuf};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "bounds",
        [
            a_run_over_its_wall_time_is_stopped_and_keeps_its_tree,
            a_run_over_its_output_is_stopped_and_says_how_much,
            a_run_over_its_memory_is_stopped_and_says_how_much,
            more_processes_than_allowed_cannot_be_made,
            a_run_at_its_memory_waits_and_the_same_process_goes_on_when_it_is_raised,
            a_run_at_its_disk_waits_and_goes_on_when_it_is_raised,
            a_run_at_its_output_waits_and_loses_no_line,
            a_run_at_its_time_waits_and_the_wait_is_no_part_of_it,
            a_denied_bound_stops_the_run_with_that_reason,
            a_bound_below_what_is_used_is_refused_with_a_sentence,
            a_bound_that_nobody_raises_in_time_stops_the_run,
            a_paused_run_can_be_stopped_and_opens_no_shell,
            a_bound_raised_for_the_order_counts_for_later_runs,
            processor_time_is_rationed,
            what_a_run_uses_is_journalled,
        ]
    )
}

fn reached(run: &LiveRun, bound: &str) -> Result<String> {
    run.wait_for(
        &format!("the bound {bound} was reached"),
        |event| match &event.kind {
            EventKind::Bound {
                bound: found,
                figure,
                reached: true,
                ..
            } if found == bound => Some(figure.clone()),
            _ => None,
        },
    )
}

fn a_run_over_its_wall_time_is_stopped_and_keeps_its_tree(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "wall")?;
    let run = product.run(
        &repo,
        &["--unattended", "--bounds", "wall=2s"],
        &[
            "sh",
            "-c",
            "echo kept > kept.txt; trap '' TERM INT; while :; do sleep 0.1; done",
        ],
    )?;
    reached(&run, "wall")?;
    let code = run.ended()?;
    ensure!(code != 0, "exit code {code}");
    let view = product.show(&run.id()?)?;
    let worktree = view["worktree"].as_str().unwrap_or_default();
    ensure!(
        std::path::Path::new(worktree).join("kept.txt").exists(),
        "the tree was not kept: {view}"
    );
    Ok(())
}

fn a_run_over_its_output_is_stopped_and_says_how_much(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "output")?;
    let run = product.run(
        &repo,
        &["--unattended", "--bounds", "output=1MiB"],
        &["sh", "-c", "yes 'line of output'"],
    )?;
    reached(&run, "output")?;
    run.ended()?;
    let bytes: usize = run
        .events()
        .iter()
        .map(|event| match &event.kind {
            EventKind::Output { text, .. } => text.len(),
            _ => 0,
        })
        .sum();
    ensure!(bytes < 2_500_000, "{bytes} bytes were kept");
    Ok(())
}

fn a_run_over_its_memory_is_stopped_and_says_how_much(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "memory")?;
    let run = product.run(
        &repo,
        &["--unattended", "--bounds", "memory=128MiB"],
        &[
            "python3",
            "-c",
            "import threading\nx = [bytearray(b'x' * (1 << 20)) for _ in range(400)]\nthreading.Event().wait(60)",
        ],
    )?;
    let figure = reached(&run, "memory")?;
    ensure!(
        figure.contains('M') || figure.contains('G'),
        "no figure: {figure}"
    );
    run.ended()?;
    Ok(())
}

fn more_processes_than_allowed_cannot_be_made(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "processes")?;
    let script = "import os, subprocess, time\nall = []\ntry:\n  for _ in range(200): all.append(subprocess.Popen(['sleep', '30']))\n\
                  except OSError as error: print('stopped at', len(all), error, flush=True)\n\
                  while not os.path.exists('seen'): time.sleep(0.05)\nfor one in all: one.kill()";
    let run = product.run(
        &repo,
        &["--bounds", "processes=40"],
        &["python3", "-c", script],
    )?;
    let line = run.said("stopped at")?;
    let made: u32 = line
        .split_whitespace()
        .nth(2)
        .and_then(|text| text.parse().ok())
        .unwrap_or(999);
    ensure!(made < 45, "{line}");
    // Its card asks about later runs, also when this one is over, until somebody answers.
    let id = run.id()?;
    let card = until("a card of the bound", PATIENCE, || {
        Ok(product.blocks(&id)?.into_iter().next())
    })?;
    ensure!(
        card["subject"]["bound"] == "processes" && card["state"] == "gone" && card["asks"] == true,
        "{card}"
    );
    let seen = worktree(&product, &run)?.join("seen");
    stage.bench.write(&seen, "")?;
    run.ended()?;
    let cards = product.blocks(&id)?;
    ensure!(cards.len() == 1, "{cards:?}");
    product.deny(card["id"].as_str().context("an id")?, "")?;
    let cards = product.blocks(&id)?;
    ensure!(cards.is_empty(), "it was answered: {cards:?}");
    Ok(())
}

/// Counts up in memory that it takes and keeps, a mebibyte at a time, until it is told how far to go.
const GROW: &str = "import os, sys, time\n\
     print('pid', os.getpid(), flush=True)\n\
     held = []\n\
     for n in range(int(sys.argv[1])):\n  held.append(bytearray(b'x' * (1 << 20)))\n  time.sleep(0.01)\n\
     print('held', len(held), 'pid', os.getpid(), flush=True)\n";

/// A run whose program takes memory far beyond any bound that is set here.
fn beyond(product: &Product<'_>, repo: &Path, options: &[&str]) -> Result<LiveRun> {
    product.run(repo, options, &["python3", "-c", GROW, "4000"])
}

fn worktree(product: &Product<'_>, run: &LiveRun) -> Result<PathBuf> {
    let view = product.show(&run.id()?)?;
    Ok(PathBuf::from(
        view["worktree"].as_str().context("a worktree")?,
    ))
}

fn a_run_at_its_memory_waits_and_the_same_process_goes_on_when_it_is_raised(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "memory-raised")?;
    let run = product.run(
        &repo,
        &["--bounds", "memory=128MiB"],
        &["python3", "-c", GROW, "400"],
    )?;
    let block = run.block("bound of memory")?;
    let card = product.card(&block)?;
    ensure!(card["waiting"].as_u64() == Some(1), "{card}");
    ensure!(
        card["why"]
            .as_str()
            .is_some_and(|why| why.contains("128 MiB")),
        "the card does not say how much: {card}"
    );
    let (limit, seen) = (&card["breach"]["limit"], &card["breach"]["seen"]);
    ensure!(limit.as_u64() == Some(128 << 20), "{card}");
    ensure!(seen.as_u64() >= limit.as_u64(), "{card}");
    let id = run.id()?;
    let state = product.show(&id)?["state"].clone();
    ensure!(state == "running", "a paused run is {state}");
    // It may be raised more than once, until it is enough.
    let raised = product.amend(&block, &["--limit", "1GiB"])?;
    ensure!(raised["released"].as_u64() == Some(1), "{raised}");
    let code = run.ended()?;
    ensure!(code == 0, "exit code {code}: {}", run.story());
    let first = run.said("pid")?;
    let last = run.said("held 400")?;
    let pid = |line: &str| line.split("pid ").nth(1).map(str::trim).map(str::to_owned);
    ensure!(
        pid(&first).is_some() && pid(&first) == pid(&last),
        "{first} / {last}"
    );
    let paused = run.events().iter().any(|event| {
        matches!(&event.kind, EventKind::Progress { stage, message } if stage == "bound" && message.starts_with("paused"))
    });
    ensure!(paused, "the feed does not say that it was paused");
    Ok(())
}

fn a_run_at_its_disk_waits_and_goes_on_when_it_is_raised(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "disk-raised")?;
    let script = "i=0; while ! test -e enough; do head -c 1000000 /dev/zero > big.$((i % 200)); \
                  i=$((i+1)); sleep 0.02; done; echo \"wrote $i\"; rm -f big.* enough";
    let run = product.run(&repo, &["--bounds", "disk=20MiB"], &["sh", "-c", script])?;
    let block = run.block("bound of disk")?;
    let tree = worktree(&product, &run)?;
    let count = || std::fs::read_dir(&tree).map_or(0, |entries| entries.count());
    let before = count();
    let card = product.card(&block)?;
    ensure!(card["breach"]["seen"].as_u64() >= Some(20 << 20), "{card}");
    ensure!(count() == before, "a paused run wrote on");
    product.amend(&block, &["--limit", "2GiB"])?;
    eventually("it writes on", PATIENCE, || count() > before)?;
    std::fs::write(tree.join("enough"), "")?;
    run.said("wrote ")?;
    let code = run.ended()?;
    ensure!(code == 0, "exit code {code}: {}", run.story());
    Ok(())
}

fn a_run_at_its_output_waits_and_loses_no_line(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "output-raised")?;
    let run = product.run(&repo, &["--bounds", "output=64KiB"], &["seq", "1", "20000"])?;
    let block = run.block("bound of output")?;
    product.amend(&block, &["--limit", "16MiB"])?;
    let code = run.ended()?;
    ensure!(code == 0, "exit code {code}: {}", run.story());
    let lines = run
        .events()
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Output { .. }))
        .count();
    ensure!(lines == 20_000, "{lines} lines of 20000 were kept");
    Ok(())
}

fn a_run_at_its_time_waits_and_the_wait_is_no_part_of_it(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "wall-raised")?;
    let script = "while ! test -e enough; do sleep 0.1; done; rm enough; echo over";
    let run = product.run(&repo, &["--bounds", "wall=2s"], &["sh", "-c", script])?;
    let block = run.block("bound of wall time")?;
    product.amend(&block, &["--limit", "1h"])?;
    let tree = worktree(&product, &run)?;
    std::fs::write(tree.join("enough"), "")?;
    run.said("over")?;
    let code = run.ended()?;
    ensure!(code == 0, "exit code {code}: {}", run.story());
    Ok(())
}

fn a_denied_bound_stops_the_run_with_that_reason(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "memory-denied")?;
    let run = beyond(&product, &repo, &["--bounds", "memory=96MiB"])?;
    let block = run.block("bound of memory")?;
    let denied = product.deny(&block, "use less")?;
    ensure!(denied["refused"].as_u64() == Some(1), "{denied}");
    let code = run.ended()?;
    ensure!(code == 1, "exit code {code}: {}", run.story());
    let view = product.show(&run.id()?)?;
    ensure!(view["state"] == "failed", "{view}");
    let why = view["outcome"]["reason"].to_string();
    ensure!(
        view.to_string().contains("96 MiB"),
        "it does not say at which bound: {why}"
    );
    let breach = run.events().iter().any(|event| {
        matches!(&event.kind, EventKind::State { to: foreman_domain::RunState::Stopping { cause: foreman_domain::CancelCause::Bound { breach: Some(breach), .. }, .. } } if breach.limit == 96 << 20)
    });
    ensure!(
        breach,
        "the stop does not carry the figures: {}",
        run.story()
    );
    Ok(())
}

fn a_bound_below_what_is_used_is_refused_with_a_sentence(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "memory-below")?;
    let run = beyond(&product, &repo, &["--bounds", "memory=96MiB"])?;
    let block = run.block("bound of memory")?;
    let expect = product.card(&block)?["expect"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let amend = |limit: &str| {
        product.call([
            "amend", &block, "--json", "--expect", &expect, "--limit", limit,
        ])
    };
    for limit in ["40MiB", "97MiB"] {
        let ran = amend(limit)?;
        // 97 MiB may be enough on a machine that looked in time; 40 MiB never is.
        if limit == "40MiB" || ran.code != 0 {
            expect_exit(&ran, ExitCode::BadInput)?;
            let (_, message) = ran.error()?;
            ensure!(message.contains("used already"), "{message}");
        }
    }
    let ran = amend("lots")?;
    ensure!(ran.code != 0, "{ran:?}");
    product.ask(&["stop", &run.id()?])?;
    run.ended()?;
    Ok(())
}

fn a_bound_that_nobody_raises_in_time_stops_the_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "memory-unanswered")?;
    let run = beyond(
        &product,
        &repo,
        &["--bounds", "memory=96MiB", "--hold-limit", "1s"],
    )?;
    let code = run.ended()?;
    ensure!(code == 1, "exit code {code}: {}", run.story());
    let expired = run.events().iter().any(
        |event| matches!(&event.kind, EventKind::Block { block } if block.state.tag() == "expired"),
    );
    ensure!(expired, "the card did not expire: {}", run.story());
    ensure!(
        !run.story().contains("\"denied\""),
        "it was called denied: {}",
        run.story()
    );
    Ok(())
}

fn a_paused_run_can_be_stopped_and_opens_no_shell(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "memory-stopped")?;
    let run = beyond(&product, &repo, &["--bounds", "memory=96MiB"])?;
    let block = run.block("bound of memory")?;
    let id = run.id()?;
    let shell = product.call(["shell", &id, "--", "true"])?;
    ensure!(
        shell.code != 0 && shell.stderr.contains("paused"),
        "a shell was opened in a paused run: {shell:?}"
    );
    let view = product.ask(&["stop", &id])?;
    ensure!(view["state"] == "cancelled", "{view}");
    let code = run.ended()?;
    ensure!(code == 7, "exit code {code}: {}", run.story());
    eventually("nothing waits any more", PATIENCE, || {
        product.card(&block).is_err()
    })?;
    Ok(())
}

fn a_bound_raised_for_the_order_counts_for_later_runs(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "memory-project")?;
    let agent = ["python3", "-c", GROW, "200"];
    let options = ["--bounds", "memory=96MiB"];
    let run = product.run(&repo, &options, &agent)?;
    let block = run.block("bound of memory")?;
    product.amend(&block, &["--scope", "project", "--limit", "2GiB", "--yes"])?;
    let code = run.ended()?;
    ensure!(code == 0, "exit code {code}: {}", run.story());
    let again = product.run_to_end(&repo, &options, &agent)?;
    again.said("held 200")?;
    let held = again
        .events()
        .iter()
        .any(|event| matches!(event.kind, EventKind::Block { .. }));
    ensure!(!held, "a later run was held again: {}", again.story());
    Ok(())
}

fn processor_time_is_rationed(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "cpu")?;
    // So much processor time takes a while at a fifth of a processor; the first second is not rationed. On a
    // busy machine it takes longer still.
    let script = "import time\nbegin = time.monotonic()\n\
                  while time.process_time() < 2: pass\nprint('took', time.monotonic() - begin)";
    let run = product.run_to_end(&repo, &["--bounds", "cpu=0.2"], &["python3", "-c", script])?;
    let line = run.said("took")?;
    let took: f64 = line
        .split_whitespace()
        .nth(1)
        .context("a figure")?
        .parse()?;
    ensure!(
        took > 5.0,
        "2 s at a fifth of a processor took {took} s only"
    );
    Ok(())
}

fn what_a_run_uses_is_journalled(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "samples-kept")?;
    let run = product.run(
        &repo,
        &["--bounds", "memory=2GiB"],
        &[
            "sh",
            "-c",
            "while ! test -e enough; do sleep 0.1; done; rm enough",
        ],
    )?;
    let memory = run.wait_for("a sample", |event| match &event.kind {
        EventKind::Sample {
            memory_bytes: Some(memory),
            processes: Some(1..),
            ..
        } => Some(*memory),
        _ => None,
    })?;
    ensure!(memory > 0, "no figure");
    std::fs::write(worktree(&product, &run)?.join("enough"), "")?;
    run.ended()?;
    let id = run.id()?;
    let kept = until("it is kept", PATIENCE, || {
        let listed = product.call(["events", &id, "--json", "--kind", "sample"])?;
        Ok(Some(listed.stdout).filter(|text| text.contains("memory_bytes")))
    })?;
    ensure!(kept.lines().count() < 60, "it floods the journal: {kept}");
    let view = product.show(&id)?;
    ensure!(
        view["bounds_kept"]
            .as_str()
            .is_some_and(|kept| kept.contains("bounds are kept by")),
        "it does not say who kept its bounds: {view}"
    );
    Ok(())
}
