//! What is kept of a run, how little it takes, and finding it again.

use anyhow::{Context, Result, ensure};
use foreman_domain::{EventKind, ExitCode};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Stage, expect_exit, repos};
use std::path::Path;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "keeping",
        [
            short_lines_by_the_hundred_thousand_take_little_more_than_their_text,
            words_are_found_in_the_output_of_a_run_and_in_all_runs,
            a_database_that_is_none_is_refused_in_words_and_kept,
        ]
    )
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn short_lines_by_the_hundred_thousand_take_little_more_than_their_text(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "flood")?;
    // A live run's journal is whole, so it is looked at before the end.
    let script = "seq 1 300000; echo all-said; read wait < /dev/zero";
    let run = product.run(&repo, &[], &["bash", "-c", script])?;
    run.said("all-said")?;
    let id = run.id()?;
    let state = product.data().join("state");
    let journal = size(&state.join("runs").join(&id).join("journal.ndjson"));
    let text: u64 = (1..=300_000_u64)
        .map(|n| n.to_string().len() as u64 + 1)
        .sum();
    ensure!(
        journal < text * 2,
        "{journal} bytes of journal for {text} of text"
    );
    product.ask(&["stop", &id])?;
    run.ended()?;
    let lines: Vec<String> = run
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Output { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect();
    let wanted = (1..=300_000_u64).map(|n| n.to_string());
    ensure!(
        lines.iter().take(300_000).cloned().eq(wanted),
        "lines were lost or moved"
    );
    let database = size(&state.join("foreman.db"));
    ensure!(
        database < text * 3 + (2 << 20),
        "{database} bytes of database for {text} of text"
    );
    Ok(())
}

fn words_are_found_in_the_output_of_a_run_and_in_all_runs(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "search")?;
    let one = product
        .run_to_end(&repo, &[], &["sh", "-c", "echo The Needle in hay; exit 7"])?
        .id()?;
    let two = product
        .run_to_end(&repo, &[], &["sh", "-c", "echo hay"])?
        .id()?;
    let found = product.ask(&["search", "needle", "--run", &one, "--kind", "output"])?;
    let events = found["events"].as_array().context("events")?;
    ensure!(
        events.len() == 1 && events[0]["text"] == "The Needle in hay",
        "{found}"
    );
    let found = product.ask(&["search", "needle", "--run", &two])?;
    let said = |event: &serde_json::Value| event["kind"] == "output";
    ensure!(
        !found["events"]
            .as_array()
            .is_some_and(|events| events.iter().any(said)),
        "{found}"
    );
    let found = product.ask(&["search", "exit", "code", "7"])?;
    let events = found["events"].as_array().context("events")?;
    ensure!(
        events.iter().any(|event| event["run"] == one.as_str()),
        "{found}"
    );
    ensure!(
        events.iter().all(|event| event["run"] != two.as_str()),
        "{found}"
    );
    for (words, code) in [
        (&["search", "x", "--kind", "output"][..], ExitCode::Usage),
        (&["search", "x", "--kind", "nonsense"], ExitCode::Usage),
        (&["search", "\"*\""], ExitCode::Usage),
        (&["search", "x", "--run", "zzzz"], ExitCode::BadInput),
        (&["search", "NEAR(\"a\" AND", "--limit", "3"], ExitCode::Ok),
    ] {
        expect_exit(&product.call(words)?, code)?;
    }
    Ok(())
}

fn a_database_that_is_none_is_refused_in_words_and_kept(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    product.ask(&["runs"])?;
    let database = product.data().join("state/foreman.db");
    let text = "No database at all.\n".repeat(1_000);
    for beside in ["foreman.db-wal", "foreman.db-shm"] {
        let _ = std::fs::remove_file(database.with_file_name(beside));
    }
    stage.bench.write(&database, &text)?;
    let ran = product.call(["--json", "runs"])?;
    expect_exit(&ran, ExitCode::Environment)?;
    let (code, message) = ran.error()?;
    ensure!(
        code == "environment" && message.contains("is damaged"),
        "{message}"
    );
    ensure!(
        ran.json()?["error"]["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("another folder"))
    );
    ensure!(
        std::fs::read_to_string(&database)? == text,
        "it was changed"
    );
    Ok(())
}
