//! Several runs at one time: side by side, and in a list that is longer than it shows.

use anyhow::{Context, Result, ensure};
use foreman_domain::ExitCode;
use foreman_testkit::suite::Case;
use foreman_testkit::{Stage, cases_of, expect_exit, repos};
use serde_json::Value;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "attempts",
        [
            attempts_are_compared_by_what_they_did,
            a_list_of_runs_says_how_many_it_leaves_out,
        ]
    )
}

fn attempts_are_compared_by_what_they_did(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "attempts")?;
    let run = |script: &str, options: &[&str]| -> Result<String> {
        let run = product.run_to_end(&repo, options, &["sh", "-c", script])?;
        run.id()
    };
    let checks = ["--check", "grep -q three file.txt"];
    let one = run("echo three >> file.txt; echo same > same.txt", &checks)?;
    let other = run(
        "echo four >> file.txt; echo same > same.txt; echo x > x.txt",
        &checks,
    )?;
    let nothing = run("true", &[])?;
    let shown = product.ask(&["compare", &one, &other, &nothing, &one])?;
    let attempts = shown["attempts"].as_array().context("no attempts")?;
    ensure!(attempts.len() == 3, "{shown}");
    let of = |index: usize, key: &str| -> &Value { &attempts[index]["run"][key] };
    ensure!(
        of(0, "id") == one.as_str() && of(1, "id") == other.as_str(),
        "{shown}"
    );
    ensure!(
        of(0, "changes")["files"] == serde_json::json!(["file.txt", "same.txt"]),
        "{shown}"
    );
    ensure!(
        of(1, "changes")["added"] == 3 && of(1, "changes")["removed"] == 0,
        "{shown}"
    );
    ensure!(
        of(0, "failed_checks") == 0 && of(1, "failed_checks") == 1,
        "{shown}"
    );
    ensure!(
        of(2, "changes").is_null() && of(2, "state")["state"] == "no_changes",
        "{shown}"
    );
    let pairs = shown["pairs"].as_array().context("no pairs")?;
    ensure!(pairs.len() == 1, "{shown}");
    ensure!(
        pairs[0]["differ"] == serde_json::json!(["file.txt", "x.txt"]) && pairs[0]["alike"] == 1,
        "{shown}"
    );
    let words = product.call(["compare", &one, &other])?;
    expect_exit(&words, ExitCode::Ok)?;
    ensure!(
        words.stdout.contains("differ in 2 files (1 alike)"),
        "{words:?}"
    );
    ensure!(words.stdout.contains("they stay in Review"), "{words:?}");

    for (wrong, code) in [
        (vec!["compare", one.as_str(), "--json"], ExitCode::Usage),
        (
            vec!["compare", "no-such-group", "--json"],
            ExitCode::BadInput,
        ),
        (
            vec!["compare", one.as_str(), "zzzzzzzz", "--json"],
            ExitCode::BadInput,
        ),
        (vec!["compare", "--json"], ExitCode::Usage),
    ] {
        expect_exit(&product.call(&wrong)?, code)?;
    }
    Ok(())
}

fn a_list_of_runs_says_how_many_it_leaves_out(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "many")?;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(product.run_to_end(&repo, &[], &["true"])?.id()?);
    }
    let page = product.ask(&["runs", "--limit", "2"])?;
    ensure!(page["older"] == 1, "{page}");
    let words = product.call(["runs", "--limit", "2"])?.stdout;
    let next = format!("1 older run: foreman runs --before {}", ids[1]);
    ensure!(words.contains(&next), "{words}");
    let page = product.ask(&["runs", "--before", &ids[1]])?;
    ensure!(
        page["older"] == 0 && page["runs"][0]["id"] == ids[0].as_str(),
        "{page}"
    );
    ensure!(page["runs"].as_array().map(Vec::len) == Some(1), "{page}");
    let words = product.call(["runs", "--before", &ids[0]])?.stdout;
    ensure!(words.contains("There are no older runs."), "{words}");

    // What is not over is found without paging, however old it is.
    let none = product.call(["runs", "--open"])?.stdout;
    ensure!(none.contains("No run is at work"), "{none}");
    let agent = "echo x > x.txt; git add x.txt; git commit -qm x";
    let waits = product.run_to_end(&repo, &[], &["sh", "-c", agent])?.id()?;
    product.run_to_end(&repo, &[], &["true"])?;
    let page = product.ask(&["runs", "--open", "--limit", "1"])?;
    let open = page["runs"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    ensure!(open.len() == 1 && open[0]["id"] == waits.as_str(), "{page}");
    expect_exit(
        &product.call(["runs", "--open", "--before", &ids[0], "--json"])?,
        ExitCode::Usage,
    )
}
