//! Diff, merge, and the reasons to refuse one; discard and restore.

use anyhow::{Context, Result, ensure};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Product, Stage, repos};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "gate",
        [
            a_merge_of_something_not_reviewed_is_refused,
            a_base_that_moved_on_is_not_merged_into,
            a_branch_moved_by_hand_is_not_merged,
            a_dirty_base_tree_is_not_overwritten,
            a_discarded_run_comes_back_byte_for_byte,
            a_worktree_removed_by_hand_is_no_obstacle,
            a_live_run_is_neither_merged_nor_discarded,
            planted_autoload_files_are_flagged_on_top,
            a_merge_updates_the_base_where_it_is_not_checked_out,
            what_an_agent_leaves_beside_its_commits_steers_no_check,
            a_check_is_held_and_answered_like_the_agent,
            a_failed_check_keeps_a_run_from_its_base,
            the_merge_queue_takes_one_run_after_the_other,
            a_reviewed_run_is_pushed_and_no_hook_runs,
            the_gates_summary_is_beside_the_diff,
        ]
    )
}

struct Reviewed {
    id: String,
    view: Value,
    repo: PathBuf,
}

fn reviewed(stage: &Stage, product: &Product<'_>, name: &str, script: &str) -> Result<Reviewed> {
    let repo = repos::plain(&stage.bench, name)?;
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let id = run.id()?;
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "{view}");
    Ok(Reviewed { id, view, repo })
}

fn token(product: &Product<'_>, id: &str) -> Result<String> {
    let diff = product.ask(&["diff", id])?;
    Ok(diff["expect"].as_str().context("a token")?.to_owned())
}

/// A merge that must be refused with exit code 4; gives the sentence.
fn refused(product: &Product<'_>, id: &str, expect: &str) -> Result<String> {
    let ran = product.call(["merge", id, "--expect", expect, "--json"])?;
    ensure!(ran.code == 4, "exit code {}: {ran:?}", ran.code);
    let (code, message) = ran.error()?;
    ensure!(
        ["stale", "conflict"].contains(&code.as_str()),
        "{code}: {message}"
    );
    ensure!(
        message.len() > 15 && message.contains(' '),
        "no sentence: {message}"
    );
    Ok(message)
}

fn a_merge_of_something_not_reviewed_is_refused(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = reviewed(stage, &product, "unseen", "echo x > x.txt")?;
    let before = repos::tip(&stage.bench, &run.repo, "main")?;
    refused(&product, &run.id, "feedfacefeedface")?;
    let ran = product.call(["merge", &run.id, "--json"])?;
    ensure!(
        ran.code == 2,
        "a merge without a token and without a terminal: {ran:?}"
    );
    ensure!(
        repos::tip(&stage.bench, &run.repo, "main")? == before,
        "main moved"
    );
    Ok(())
}

fn a_base_that_moved_on_is_not_merged_into(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = reviewed(stage, &product, "moved-base", "echo x > x.txt")?;
    let expect = token(&product, &run.id)?;
    stage.bench.shell(
        &run.repo,
        "echo y > y.txt; git add y.txt; git commit -qm 'meanwhile'",
    )?;
    let before = repos::tip(&stage.bench, &run.repo, "main")?;
    refused(&product, &run.id, &expect)?;
    let diff = product.ask(&["diff", &run.id])?;
    ensure!(
        diff["refusal"].is_string(),
        "the diff does not say that a merge is refused: {diff}"
    );
    ensure!(
        diff["files"]
            .as_array()
            .is_some_and(|files| files.len() == 1),
        "not three-dot: {diff}"
    );
    refused(
        &product,
        &run.id,
        diff["expect"].as_str().unwrap_or_default(),
    )?;
    ensure!(
        repos::tip(&stage.bench, &run.repo, "main")? == before,
        "main moved"
    );
    ensure!(
        product.show(&run.id)?["state"] == "review",
        "a refused merge must go back to review"
    );
    Ok(())
}

fn a_branch_moved_by_hand_is_not_merged(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = reviewed(stage, &product, "moved-branch", "echo x > x.txt")?;
    let expect = token(&product, &run.id)?;
    let branch = run.view["branch"].as_str().context("a branch")?;
    let script = format!(
        "git update-ref refs/heads/{branch} \"$(git commit-tree -p {branch} -m sneaked '{branch}^{{tree}}')\""
    );
    stage.bench.shell(&run.repo, &script)?;
    let before = repos::tip(&stage.bench, &run.repo, "main")?;
    refused(&product, &run.id, &expect)?;
    ensure!(
        repos::tip(&stage.bench, &run.repo, "main")? == before,
        "main moved"
    );
    Ok(())
}

fn a_dirty_base_tree_is_not_overwritten(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = reviewed(
        stage,
        &product,
        "dirty",
        "echo agent >> file.txt; echo new > new.txt",
    )?;
    let bench = &stage.bench;
    bench.shell(
        &run.repo,
        "echo mine >> file.txt; echo untracked > elsewhere.txt",
    )?;
    let expect = token(&product, &run.id)?;
    refused(&product, &run.id, &expect)?;
    let text = bench.shell(&run.repo, "cat file.txt; ls")?;
    ensure!(text.contains("mine") && !text.contains("new.txt"), "{text}");
    // Clean where it matters, dirty elsewhere: goes through and leaves the rest alone.
    bench.shell(
        &run.repo,
        "git checkout -q file.txt; echo mine >> src/main.rs",
    )?;
    let expect = token(&product, &run.id)?;
    product.ask(&["merge", &run.id, "--expect", &expect])?;
    let text = bench.shell(
        &run.repo,
        "cat file.txt new.txt src/main.rs elsewhere.txt; git status --porcelain",
    )?;
    for part in [
        "agent",
        "new",
        "mine",
        "untracked",
        " M src/main.rs",
        "?? elsewhere.txt",
    ] {
        ensure!(text.contains(part), "{part} is not in {text}");
    }
    Ok(())
}

/// Every file of a worktree but git's own, with content, mode and link target, as text.
fn listing(stage: &Stage, worktree: &str) -> Result<String> {
    stage.bench.shell(
        Path::new(worktree),
        "find . -name .git -prune -o -printf '%P %y %m %l\\n' | sort
         find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
         git status --porcelain=v2; git rev-parse HEAD",
    )
}

fn a_discarded_run_comes_back_byte_for_byte(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let bench = &stage.bench;
    let script = "echo x > x.txt; git add x.txt; git commit -qm 'one'; \
                  printf 'a\\r\\nb' > 'odd name \u{e9}.txt'; ln -s x.txt link; chmod 755 x.txt; \
                  head -c 70000 /dev/urandom > random.dat; rm file.txt";
    let run = reviewed(stage, &product, "discard", script)?;
    let worktree = run.view["worktree"]
        .as_str()
        .context("a worktree")?
        .to_owned();
    // The operator goes on by hand after the run: staged, unstaged, untracked, ignored.
    bench.shell(
        Path::new(&worktree),
        "echo staged > staged.txt; git add staged.txt; echo more >> x.txt; echo u > untracked.txt; echo i > kept.ignored",
    )?;
    let before = listing(stage, &worktree)?;
    let gone = product.ask(&["discard", &run.id])?;
    ensure!(gone["state"] == "discarded", "{gone}");
    ensure!(
        !Path::new(&worktree).exists(),
        "the worktree is still there"
    );
    let branch = run.view["branch"].as_str().context("a branch")?;
    ensure!(
        repos::tip(bench, &run.repo, branch).is_err(),
        "the branch is still there"
    );
    bench.shell(&run.repo, "git gc -q --prune=now")?;
    let back = product.ask(&["restore", &run.id])?;
    ensure!(back["state"] == "review", "{back}");
    let after = listing(stage, &worktree)?;
    let (before, after) = (without_ignored(&before), without_ignored(&after));
    ensure!(before == after, "not the same:\n{before}\n---\n{after}");
    let expect = token(&product, &run.id)?;
    ensure!(!expect.is_empty());
    Ok(())
}

/// Ignored files are kept on request only.
fn without_ignored(text: &str) -> String {
    text.lines()
        .filter(|line| !line.contains("kept.ignored"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn a_worktree_removed_by_hand_is_no_obstacle(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let run = reviewed(stage, &product, "removed", "echo x > x.txt")?;
    let worktree = run.view["worktree"].as_str().context("a worktree")?;
    let bench = &stage.bench;
    bench.shell(
        &run.repo,
        &format!("git worktree remove --force --force '{worktree}'"),
    )?;
    ensure!(
        product.show(&run.id)?["state"] == "review",
        "the run is gone with its tree"
    );
    let diff = product.ask(&["diff", &run.id])?;
    ensure!(
        diff["files"][0]["path"] == "x.txt",
        "the commits are lost: {diff}"
    );
    for _ in 0..2 {
        let ran = product.call(["discard", &run.id, "--json"])?;
        ensure!(ran.code == 0 || ran.code == 4, "{ran:?}");
    }
    ensure!(product.show(&run.id)?["state"] == "discarded");
    let second = reviewed(stage, &product, "removed-two", "echo x > x.txt")?;
    let worktree = second.view["worktree"].as_str().context("a worktree")?;
    std::fs::remove_dir_all(worktree)?;
    let expect = token(&product, &second.id)?;
    product.ask(&["merge", &second.id, "--expect", &expect])?;
    Ok(())
}

fn a_live_run_is_neither_merged_nor_discarded(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "live")?;
    let run = product.run(&repo, &[], &["sh", "-c", "echo going; exec sleep 1003"])?;
    run.said("going")?;
    let id = run.id()?;
    for arguments in [
        vec!["discard", &id],
        vec!["merge", &id, "--expect", "x"],
        vec!["restore", &id],
    ] {
        let mut all = arguments.clone();
        all.push("--json");
        let ran = product.call(&all)?;
        ensure!(ran.code == 4, "{arguments:?}: {ran:?}");
    }
    ensure!(product.show(&id)?["state"] == "running");
    product.ask(&["stop", &id])?;
    run.ended()?;
    Ok(())
}

fn planted_autoload_files_are_flagged_on_top(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let script = "mkdir -p .vscode .github/workflows .husky; echo '{}' > .vscode/tasks.json; \
                  echo x > .envrc; echo x > .husky/pre-commit; echo '{}' > .mcp.json; echo plain > plain.txt";
    let run = reviewed(stage, &product, "planted", script)?;
    let diff = product.ask(&["diff", &run.id])?;
    let flags = diff["flags"].to_string();
    for path in [
        ".vscode/tasks.json",
        ".envrc",
        ".husky/pre-commit",
        ".mcp.json",
    ] {
        ensure!(flags.contains(path), "{path} is not flagged: {flags}");
    }
    ensure!(!flags.contains("plain.txt"), "{flags}");
    Ok(())
}

fn a_merge_updates_the_base_where_it_is_not_checked_out(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "elsewhere")?;
    let bench = &stage.bench;
    bench.shell(&repo, "git branch topic; echo dirty >> file.txt")?;
    let run = product.run_to_end(
        &repo,
        &["--base", "topic"],
        &["sh", "-c", "echo x > file.txt"],
    )?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let id = run.id()?;
    let expect = token(&product, &id)?;
    product.ask(&["merge", &id, "--expect", &expect])?;
    let text = bench.shell(
        &repo,
        "git show topic:file.txt; git symbolic-ref HEAD; tail -1 file.txt",
    )?;
    ensure!(text == "x\nrefs/heads/main\ndirty\n", "{text}");
    Ok(())
}

/// Each line plants something that a check in the agent's own tree, cage or home would meet.
fn what_an_agent_leaves_beside_its_commits_steers_no_check(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "planted-beside")?;
    let agent = "echo work > work.txt; git add work.txt; git commit -qm work
        echo planted > verdict.ignored
        mkdir -p ~/bin ~/.config /tmp/planted; echo planted > ~/.config/verdict; echo planted > /tmp/verdict
        git config core.fsmonitor 'touch /tmp/verdict'; git config alias.status '!echo planted'
        printf 'src/main.rs filter=x\\n' > \"$(git rev-parse --git-common-dir)/info/attributes\"
        git update-index --assume-unchanged file.txt
        (while sleep 0.1; do echo planted > verdict.ignored; done) & disown 2>/dev/null; echo left";
    let check = "ls -A . ~ /tmp ~/.config; git status --porcelain; git config --list
        ! test -e verdict.ignored && ! test -e /tmp/verdict && ! test -e ~/.config/verdict \\
        && test -e work.txt && ! git config core.fsmonitor && ! git config alias.status \\
        && test -z \"$(git status --porcelain)\" && echo clean";
    let run = product.run_to_end(&repo, &["--check", check], &["sh", "-c", agent])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    run.said("clean")?;
    let view = product.show(&run.id()?)?;
    ensure!(view["failed_checks"] == 0, "{view} {}", run.story());
    ensure!(
        view["gate"]["checks"][0]["result"]["result"] == "succeeded",
        "{view}"
    );
    let left = stage
        .bench
        .shell(&product.data(), "ls checks state/runs/*/ | cat")?;
    ensure!(
        !left.contains("checks-1"),
        "a round left its folder: {left}"
    );
    Ok(())
}

fn a_check_is_held_and_answered_like_the_agent(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "held-check")?;
    // The agent's own block has the number 1: that of the check is another one.
    let agent = "curl -sS -m 100 http://agent.held.example/ > got.txt";
    let check = [
        "--check",
        "curl -sS -m 100 http://check.held.example/ && echo fetched",
    ];
    let run = product.run(&repo, &check, &["sh", "-c", agent])?;
    let first = run.block("tcp agent.held.example:80")?;
    product.amend(&first, &[])?;
    let second = run.block("tcp check.held.example:80")?;
    ensure!(first != second, "both are {first}");
    product.amend(&second, &[])?;
    run.said("fetched")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let view = product.show(&run.id()?)?;
    ensure!(view["failed_checks"] == 0, "{view}");
    ensure!(
        view["gate"]["amendments"]
            .as_array()
            .is_some_and(|all| all.len() == 2),
        "{view}"
    );
    Ok(())
}

fn a_failed_check_keeps_a_run_from_its_base(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "no-pass")?;
    let check = ["--check", "echo the reason; exit 7"];
    let run = product.run_to_end(&repo, &check, &["sh", "-c", "echo x > x.txt"])?;
    ensure!(run.ended()? == 1, "{}", run.story());
    let id = run.id()?;
    let expect = token(&product, &id)?;
    let before = repos::tip(&stage.bench, &repo, "main")?;
    let why = refused(&product, &id, &expect)?;
    ensure!(why.contains("exit code 7"), "{why}");
    let shown = product.call(["diff", &id])?;
    ensure!(shown.stdout.contains("| the reason"), "{shown:?}");
    ensure!(repos::tip(&stage.bench, &repo, "main")? == before);
    let arguments = [
        "merge",
        &id,
        "--expect",
        &expect,
        "--despite-checks",
        "known flake",
    ];
    product.ask(&arguments)?;
    let told = product.call(["events", &id, "--json"])?;
    ensure!(
        told.stdout.contains("known flake"),
        "the reason is not recorded"
    );
    Ok(())
}

fn the_merge_queue_takes_one_run_after_the_other(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "queue")?;
    let check = ["--check", "test ! -e poison.txt"];
    let mut ids = Vec::new();
    for script in [
        "echo 1 > one.txt",
        "echo 1 > file.txt",
        "echo 2 > file.txt",
        "echo 3 > three.txt",
    ] {
        let run = product.run_to_end(&repo, &check, &["sh", "-c", script])?;
        ensure!(run.ended()? == 0, "{}", run.story());
        ids.push(run.id()?);
    }
    let mut codes = Vec::new();
    for id in &ids {
        let expect = token(&product, id)?;
        let ran = product.call(["merge", "--queue", id, "--expect", &expect, "--json"])?;
        codes.push((ran.code, ran.stdout + &ran.stderr));
    }
    let all: Vec<i32> = codes.iter().map(|(code, _)| *code).collect();
    ensure!(all == [0, 0, 4, 0], "{codes:?}");
    ensure!(
        codes[2].1.contains("conflicts with main in file.txt"),
        "{codes:?}"
    );
    let queue = product.ask(&["merges", "--all"])?;
    let standings: Vec<&str> = queue["merges"]
        .as_array()
        .context("a list")?
        .iter()
        .filter_map(|entry| entry["standing"].as_str())
        .collect();
    ensure!(
        standings == ["merged", "returned", "merged", "merged"],
        "{queue}"
    );
    let text = stage.bench.shell(
        &repo,
        "cat one.txt three.txt file.txt; git status --porcelain; git fsck --strict 2>&1",
    )?;
    ensure!(text == "1\n3\n1\n", "{text}");
    let view = product.show(&ids[2])?;
    ensure!(view["state"] == "review", "{view}");
    ensure!(view["gate"]["queue"]["standing"] == "returned", "{view}");
    Ok(())
}

fn a_reviewed_run_is_pushed_and_no_hook_runs(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let (repo, mark) = repos::with_hooks(&stage.bench)?;
    let bench = &stage.bench;
    bench.shell(
        &repo,
        "git -c core.hooksPath=/dev/null clone -q --bare . ../pushed.git
         git remote add origin \"$PWD/../pushed.git\"
         printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-push; chmod +x .git/hooks/pre-push",
    )?;
    let run = product.run_to_end(&repo, &[], &["sh", "-c", "echo x > x.txt"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let id = run.id()?;
    let _ = std::fs::remove_file(&mark);
    let diff = product.ask(&["diff", &id])?;
    let expect = diff["expect"].as_str().context("a token")?;
    let none = product.call(["push", &id, "--json"])?;
    ensure!(none.code == 2, "a push without a token: {none:?}");
    let pushed = product.ask(&["push", &id, "--expect", expect, "--branch", "topic/x"])?;
    ensure!(
        pushed["head"] == diff["head"] && pushed["branch"] == "topic/x",
        "{pushed}"
    );
    let there = bench.shell(&repo, "git --git-dir ../pushed.git rev-parse topic/x")?;
    ensure!(diff["head"] == there.trim(), "{there}");
    ensure!(!mark.exists(), "a hook ran");
    let nowhere = product.call([
        "push", &id, "--expect", expect, "--remote", "nowhere", "--json",
    ])?;
    ensure!(nowhere.code == 3, "{nowhere:?}");
    bench.shell(&repo, "git remote set-url origin ssh://127.0.0.1:1/x.git")?;
    let away = product.call(["push", &id, "--expect", expect, "--json"])?;
    ensure!(away.code == 9, "{away:?}");
    Ok(())
}

fn the_gates_summary_is_beside_the_diff(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let script = "echo all: > Makefile; mkdir -p .github/workflows; echo on: push > .github/workflows/ci.yml; \
                  ln -s Makefile link; echo x > src/plain.rs; chmod +x file.txt; \
                  curl -sS -m 5 http://refused.example/; true";
    let repo = repos::plain(&stage.bench, "summary")?;
    let run = product.run_to_end(&repo, &["--unattended"], &["sh", "-c", script])?;
    let id = run.id()?;
    let diff = product.ask(&["diff", &id])?;
    let steering = diff["gate"]["steering"].to_string();
    for path in ["Makefile", ".github/workflows/ci.yml", "link", "file.txt"] {
        ensure!(steering.contains(path), "{path} is not in {steering}");
    }
    ensure!(!steering.contains("plain.rs"), "{steering}");
    let denied = diff["gate"]["denied"].to_string();
    ensure!(denied.contains("refused.example"), "{diff}");
    let shown = product.call(["show", &id])?;
    ensure!(
        shown.stdout.contains("Makefile") && shown.stdout.contains("refused.example"),
        "{shown:?}"
    );
    Ok(())
}
