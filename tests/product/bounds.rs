//! Bounds that are enforced: wall time, output, processes, memory.

use anyhow::{Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, Stage, repos};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "bounds",
        [
            a_run_over_its_wall_time_is_stopped_and_keeps_its_tree,
            a_run_over_its_output_is_stopped_and_says_how_much,
            a_run_over_its_memory_is_stopped_and_says_how_much,
            more_processes_than_allowed_cannot_be_made,
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
        &["--bounds", "wall=2s"],
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
        &["--bounds", "output=1MiB"],
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
        &["--bounds", "memory=128MiB"],
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
    let script = "import subprocess, sys\nall = []\ntry:\n  for _ in range(200): all.append(subprocess.Popen(['sleep', '30']))\n\
                  except OSError as error: print('stopped at', len(all), error)\nfor one in all: one.kill()";
    let run = product.run_to_end(
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
    Ok(())
}
