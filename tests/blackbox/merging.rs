//! Approval is for what was seen, and a base that moves under it.

use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{Product, Stage, cases_of, repos};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "merging",
        [
            t28_a_commit_made_after_the_approval_is_shown_and_not_merged,
            t29_a_base_that_moved_is_synced_checked_and_fast_forwarded,
            t29_a_conflict_is_told_and_leaves_base_and_run_alone,
        ]
    )
}

struct Reviewed {
    id: String,
    view: Value,
    repo: PathBuf,
}

fn reviewed(
    stage: &Stage,
    product: &Product<'_>,
    name: &str,
    options: &[&str],
    script: &str,
) -> Result<Reviewed> {
    let repo = repos::plain(&stage.bench, name)?;
    let run = product.run_to_end(&repo, options, &["sh", "-c", script])?;
    let id = run.id()?;
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "{view} {}", run.story());
    Ok(Reviewed { id, view, repo })
}

fn text(value: &Value, name: &str) -> Result<String> {
    let found = value[name].as_str().map(str::to_owned);
    found.with_context(|| format!("no {name} in {value}"))
}

fn t28_a_commit_made_after_the_approval_is_shown_and_not_merged(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let check = ["--check", "true"];
    let run = reviewed(stage, &product, "t28", &check, "echo a > seen.txt")?;
    let bench = &stage.bench;
    let base = repos::tip(bench, &run.repo, "main")?;
    let diff = product.ask(&["diff", &run.id])?;
    let (approved, expect) = (text(&diff, "head")?, text(&diff, "expect")?);
    let worktree = text(&run.view, "worktree")?;
    bench.shell(
        Path::new(&worktree),
        "echo sneaked > unseen.txt; git add unseen.txt; git commit -qm 'after the approval'",
    )?;
    let added = repos::tip(bench, &run.repo, &text(&run.view, "branch")?)?;
    let ran = product.call(["merge", &run.id, "--expect", &expect, "--json"])?;
    let (code, message) = ran.error()?;
    ensure!(ran.code == 4 && code == "stale", "{ran:?}");
    ensure!(message.contains("by hand"), "{message}");
    ensure!(
        repos::tip(bench, &run.repo, "main")? == base,
        "something was merged"
    );
    let hint = ran.json()?["error"]["hint"].to_string();
    ensure!(hint.contains(&format!("--since {approved}")), "{hint}");
    // Back in review, as what it is now.
    let view = product.show(&run.id)?;
    ensure!(view["state"] == "review" && view["head"] == added, "{view}");
    ensure!(
        view["failed_checks"] == 1,
        "the pass was another commit's: {view}"
    );
    let since = product.ask(&["diff", &run.id, "--since", &approved])?;
    let patch = text(&since, "patch")?;
    ensure!(
        patch.contains("+sneaked") && !patch.contains("seen.txt b/seen.txt"),
        "{patch}"
    );
    // The old approval is for nothing any more; a new one for all of it, once it is checked.
    let ran = product.call(["merge", &run.id, "--expect", &expect, "--json"])?;
    ensure!(ran.code == 4, "{ran:?}");
    product.ask(&["sync", &run.id])?;
    let now = product.ask(&["diff", &run.id])?;
    product.ask(&["merge", &run.id, "--expect", &text(&now, "expect")?])?;
    ensure!(repos::tip(bench, &run.repo, "main")? == added);
    Ok(())
}

fn t29_a_base_that_moved_is_synced_checked_and_fast_forwarded(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let check = [
        "--check",
        "cat own.txt; test ! -e others.txt || grep -q others others.txt",
    ];
    let run = reviewed(stage, &product, "t29", &check, "echo own > own.txt")?;
    let bench = &stage.bench;
    bench.shell(
        &run.repo,
        "echo others > others.txt; git add .; git commit -qm 'others'",
    )?;
    let base = repos::tip(bench, &run.repo, "main")?;
    let diff = product.ask(&["diff", &run.id])?;
    ensure!(diff["gate"]["base_moved"] == 1, "{diff}");
    let why = text(&diff, "refusal")?;
    ensure!(why.contains("foreman sync"), "no way out is told: {why}");
    ensure!(!text(&diff, "patch")?.contains("others"), "{diff}");
    let synced = product.ask(&["sync", &run.id])?;
    ensure!(synced["sync"]["sync"] == "synced", "{synced}");
    ensure!(synced["base_commit"] == base, "{synced}");
    ensure!(
        synced["checks_now"][0]["result"]["result"] == "succeeded",
        "{synced}"
    );
    let diff = product.ask(&["diff", &run.id])?;
    ensure!(diff["refusal"].is_null(), "{diff}");
    let patch = text(&diff, "patch")?;
    ensure!(
        patch.contains("+own") && !patch.contains("others"),
        "not only its own changes: {patch}"
    );
    product.ask(&["merge", &run.id, "--expect", &text(&diff, "expect")?])?;
    let seen = bench.shell(
        &run.repo,
        "git status --porcelain; git rev-parse main~1; cat own.txt others.txt",
    )?;
    ensure!(seen == format!("{base}\nown\nothers\n"), "{seen}");
    Ok(())
}

fn t29_a_conflict_is_told_and_leaves_base_and_run_alone(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = reviewed(stage, &product, "t29-clash", &[], "echo agent > file.txt")?;
    let bench = &stage.bench;
    bench.shell(&run.repo, "echo mine > file.txt; git commit -qam 'mine'")?;
    let refs = bench.shell(&run.repo, "git for-each-ref")?;
    let ran = product.call(["sync", &run.id, "--json"])?;
    let answer = ran.json()?;
    ensure!(ran.code == 4, "{ran:?}");
    ensure!(
        answer["sync"]["sync"] == "conflict" && answer["sync"]["paths"][0] == "file.txt",
        "{answer}"
    );
    ensure!(
        bench.shell(&run.repo, "git for-each-ref")? == refs,
        "something was moved"
    );
    let worktree = text(&run.view, "worktree")?;
    let status = bench.shell(Path::new(&worktree), "git status --porcelain; cat file.txt")?;
    ensure!(status == "agent\n", "{status}");
    ensure!(product.show(&run.id)?["state"] == "review");
    // And on a terminal, in words.
    let ran = product.call(["sync", &run.id])?;
    ensure!(ran.code == 4 && ran.stdout.contains("file.txt"), "{ran:?}");
    Ok(())
}
