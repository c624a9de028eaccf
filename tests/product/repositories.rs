//! Odd, large and real repositories.

use anyhow::{Result, ensure};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Bench, Stage, repos};
use std::path::Path;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "repositories",
        [
            this_repository_itself,
            a_real_repository_from_the_crate_serde_json,
            a_real_repository_from_the_crate_regex_syntax,
            a_repository_of_twelve_thousand_files,
            a_repository_of_five_thousand_branches,
            a_repository_with_hooks_runs_none_of_them,
            a_repository_with_hooks_in_its_tree_runs_none_of_them,
            a_repository_with_a_submodule_is_run_or_refused_with_a_reason,
            a_repository_with_a_filter_is_run_or_refused_with_a_reason,
            a_linked_worktree_can_be_run_from,
            the_agent_uses_git_as_it_likes,
        ]
    )
}

/// Runs an agent that edits, commits, rebases and stashes; merges; checks that nothing else changed.
fn whole_way(stage: &Stage, repo: &Path) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let before = repos::fingerprint(bench, repo)?;
    let script = "set -e; git log --oneline | head -3; git status --porcelain; \
                  echo agent > agent-made.txt; git add agent-made.txt; git commit -qm 'add a file'; \
                  echo more >> agent-made.txt; git stash -q; git stash pop -q; git commit -qam 'more'; \
                  git branch side; git checkout -q side; git checkout -q -; git branch -D side; git tag mark; git gc -q; git fsck";
    let run = product.run_to_end(repo, &[], &["sh", "-c", script])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    repos::unchanged(bench, repo, &before)?;
    merge(stage, &product, &run.id()?, repo)?;
    bench.shell(
        repo,
        "git fsck --no-dangling; test \"$(cat agent-made.txt)\" = \"$(printf 'agent\\nmore')\"",
    )?;
    Ok(())
}

fn merge(
    _stage: &Stage,
    product: &foreman_testkit::Product<'_>,
    id: &str,
    _repo: &Path,
) -> Result<()> {
    let diff = product.ask(&["diff", id])?;
    ensure!(
        diff["files"]
            .as_array()
            .is_some_and(|files| files.len() == 1),
        "{diff}"
    );
    let expect = diff["expect"].as_str().unwrap_or_default();
    product.ask(&["merge", id, "--expect", expect])?;
    Ok(())
}

fn this_repository_itself(stage: &Stage) -> Result<()> {
    whole_way(stage, &repos::this_one(&stage.bench)?)
}

fn a_real_repository_from_the_crate_serde_json(stage: &Stage) -> Result<()> {
    whole_way(stage, &repos::of_crate(&stage.bench, "serde_json")?)
}

fn a_real_repository_from_the_crate_regex_syntax(stage: &Stage) -> Result<()> {
    whole_way(stage, &repos::of_crate(&stage.bench, "regex-syntax")?)
}

fn a_repository_of_twelve_thousand_files(stage: &Stage) -> Result<()> {
    whole_way(stage, &repos::with_many_files(&stage.bench, 12_000)?)
}

fn a_repository_of_five_thousand_branches(stage: &Stage) -> Result<()> {
    whole_way(stage, &repos::with_many_refs(&stage.bench, 5_000)?)
}

fn no_mark(bench: &Bench, mark: &Path) -> Result<()> {
    let text = std::fs::read_to_string(mark).unwrap_or_default();
    let _ = bench;
    ensure!(text.is_empty(), "hooks ran on the host: {text}");
    Ok(())
}

fn a_repository_with_hooks_runs_none_of_them(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let (repo, mark) = repos::with_hooks(bench)?;
    let run = product.run_to_end(
        &repo,
        &[],
        &[
            "sh",
            "-c",
            "echo x > x.txt; git add x.txt; git commit -qm x",
        ],
    )?;
    ensure!(run.ended()? == 0, "{}", run.story());
    merge(stage, &product, &run.id()?, &repo)?;
    no_mark(bench, &mark)
}

fn a_repository_with_hooks_in_its_tree_runs_none_of_them(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let (repo, mark) = repos::with_hooks_path(bench)?;
    let script = format!(
        "for name in {}; do printf '#!/bin/sh\\necho $0 >> {}\\n' > .husky/$name; chmod +x .husky/$name; done; echo x > x.txt",
        repos::ALL_HOOKS.join(" "),
        mark.display()
    );
    let run = product.run_to_end(&repo, &[], &["sh", "-c", &script])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let id = run.id()?;
    let diff = product.ask(&["diff", &id])?;
    ensure!(
        diff["flags"].to_string().contains(".husky"),
        "planted hooks are not flagged: {diff}"
    );
    product.ask(&["discard", &id])?;
    product.ask(&["restore", &id])?;
    let diff = product.ask(&["diff", &id])?;
    product.ask(&[
        "merge",
        &id,
        "--expect",
        diff["expect"].as_str().unwrap_or_default(),
    ])?;
    no_mark(bench, &mark)
}

/// Either the whole way, or a refusal with a sentence that names the reason.
fn whole_way_or_reason(stage: &Stage, repo: &Path, script: &str, reason: &str) -> Result<()> {
    let product = stage.product()?;
    let before = repos::fingerprint(&stage.bench, repo)?;
    let run = product.run(repo, &[], &["sh", "-c", script])?;
    let ran = run.ran()?;
    if ran.code == 3 {
        ensure!(ran.error()?.1.contains(reason), "{ran:?}");
        return Ok(());
    }
    ensure!(ran.code == 0, "{}", run.story());
    ensure!(
        run.story().contains(reason),
        "nothing is said of the {reason}: {}",
        run.story()
    );
    repos::unchanged(&stage.bench, repo, &before)?;
    merge(stage, &product, &run.id()?, repo)
}

fn a_repository_with_a_submodule_is_run_or_refused_with_a_reason(stage: &Stage) -> Result<()> {
    let repo = repos::with_submodule(&stage.bench)?;
    whole_way_or_reason(
        stage,
        &repo,
        "ls lib/inner; echo x > x.txt; git add x.txt; git commit -qm x",
        "submodule",
    )
}

fn a_repository_with_a_filter_is_run_or_refused_with_a_reason(stage: &Stage) -> Result<()> {
    let repo = repos::with_filter(&stage.bench)?;
    whole_way_or_reason(
        stage,
        &repo,
        "head -c 100 big.bin; echo x > x.txt; git add x.txt; git commit -qm x",
        "filter",
    )
}

fn a_linked_worktree_can_be_run_from(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let repo = repos::plain(bench, "linked")?;
    let tree = bench.scratch("linked")?.join("tree");
    bench.shell(
        &repo,
        &format!("git worktree add -q -b topic '{}'", tree.display()),
    )?;
    let run = product.run_to_end(&tree, &[], &["sh", "-c", "echo x > x.txt"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let view = product.show(&run.id()?)?;
    ensure!(view["base_branch"] == "topic", "{view}");
    let place = view["worktree"].as_str().unwrap_or_default();
    ensure!(
        !Path::new(place).starts_with(&tree),
        "a worktree inside a worktree"
    );
    merge(stage, &product, &run.id()?, &tree)?;
    ensure!(
        tree.join("x.txt").exists(),
        "the linked tree was not updated"
    );
    Ok(())
}

fn the_agent_uses_git_as_it_likes(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let repo = repos::plain(bench, "git")?;
    let before = repos::fingerprint(bench, &repo)?;
    let script = "set -e; git config user.name Agent; git config alias.x '!echo hi'; git x; \
                  echo a > a.txt; git add a.txt; git commit -qm a; echo b > a.txt; git commit -qam b; \
                  GIT_SEQUENCE_EDITOR='sed -i 2s/pick/squash/' GIT_EDITOR=true git rebase -q -i HEAD~2; \
                  git notes add -m note; git reflog > /dev/null; git worktree list; git remote add o https://o.example/x; \
                  git log --format=%an -1";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    repos::unchanged(bench, &repo, &before)?;
    merge(stage, &product, &run.id()?, &repo)
}
