//! Where runs start from: trees made side by side, submodules, stale bases, trees that cannot be made.

use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, Product, Stage, cases_of, repos};
use std::path::{Path, PathBuf};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "bases",
        [
            t16_twenty_runs_at_once_make_twenty_trees_and_no_orphan_branch,
            t18_a_submodule_is_filled_without_a_network_or_said_to_be_empty,
            t19_a_branch_that_is_behind_starts_from_the_remote_or_says_that_it_may_be_old,
            t19_a_remote_that_never_answers_is_waited_for_as_long_as_was_said,
            t20_a_tree_that_cannot_be_made_fails_the_run_and_changes_nothing
        ]
    )
}

/// A repository and a clone of it.
fn cloned(stage: &Stage, name: &str) -> Result<(PathBuf, PathBuf)> {
    let remote = repos::plain(&stage.bench, name)?;
    let place = stage.bench.scratch("clone")?.join("clone");
    let script = format!("git clone -q '{}' '{}'", remote.display(), place.display());
    stage.bench.shell(&remote, &script)?;
    Ok((remote, place))
}

/// Commits on a repository's branch.
fn commits(stage: &Stage, repo: &Path, count: u32) -> Result<String> {
    let script = format!(
        "for n in $(seq {count}); do echo $n >> new-$n; git add new-$n; git commit -qm \"new $n\"; done"
    );
    stage.bench.shell(repo, &script)?;
    repos::tip(&stage.bench, repo, "main")
}

/// Registered worktrees beside the repository's own.
fn linked(stage: &Stage, repo: &Path) -> Result<usize> {
    let listed = stage.bench.shell(repo, "git worktree list --porcelain")?;
    let trees = listed
        .lines()
        .filter(|line| line.starts_with("worktree "))
        .count();
    Ok(trees.saturating_sub(1))
}

fn warned(run: &LiveRun, text: &str) -> bool {
    run.events().iter().any(
        |event| matches!(&event.kind, EventKind::Warning { message } if message.contains(text)),
    )
}

fn t16_twenty_runs_at_once_make_twenty_trees_and_no_orphan_branch(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let (remote, repo) = cloned(stage, "t16")?;
    let tip = commits(stage, &remote, 2)?;
    // One engine for all of them.
    let host = product.run(&repo, &[], &["sleep", "600"])?;
    host.id()?;
    let agent = ["sh", "-c", "echo mine > mine; echo done"];
    let runs = std::thread::scope(|scope| {
        let started: Vec<_> = (0..20)
            .map(|_| scope.spawn(|| product.run_to_end(&repo, &[], &agent)))
            .collect();
        started
            .into_iter()
            .map(|run| run.join().unwrap())
            .collect::<Result<Vec<_>>>()
    })?;
    let mut places = std::collections::BTreeSet::new();
    for run in &runs {
        ensure!(run.ended()? == 0, "{}", run.story());
        let view = product.show(&run.id()?)?;
        ensure!(
            view["base_commit"] == tip,
            "not from the remote's tip: {view}"
        );
        let place = view["worktree"].as_str().context("a worktree")?.to_owned();
        ensure!(
            Path::new(&place).join("mine").is_file(),
            "{place} is not whole"
        );
        places.insert(place);
    }
    ensure!(places.len() == 20, "{} trees", places.len());
    ensure!(linked(stage, &repo)? == 21, "trees and the registry differ");
    let branches = stage
        .bench
        .shell(&repo, "git branch --list 'foreman/*' | wc -l")?;
    ensure!(branches.trim() == "21", "{branches} branches");
    ensure!(
        stage
            .bench
            .shell(&repo, "git fsck --no-dangling 2>&1")?
            .trim()
            .is_empty()
    );
    product.ask(&["stop", &host.id()?])?;
    Ok(())
}

fn t18_a_submodule_is_filled_without_a_network_or_said_to_be_empty(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::with_submodule(&stage.bench)?;
    // Whatever it names is not there any more.
    let url = stage
        .bench
        .shell(&repo, "git config submodule.lib/inner.url")?;
    std::fs::rename(url.trim(), format!("{}-gone", url.trim()))?;
    let agent = ["sh", "-c", "cat lib/inner/file.txt && echo x > x"];
    let run = product.run_to_end(&repo, &[], &agent)?;
    run.said("two")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    // Without the local copy the run goes on, and says which are empty.
    stage
        .bench
        .shell(&repo, "rm -rf .git/modules lib/inner/.git")?;
    let agent = [
        "sh",
        "-c",
        "test -d lib/inner && echo y > y && echo went on",
    ];
    let run = product.run_to_end(&repo, &[], &agent)?;
    run.said("went on")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(
        warned(&run, "submodule lib/inner is empty"),
        "{}",
        run.story()
    );
    Ok(())
}

fn t19_a_branch_that_is_behind_starts_from_the_remote_or_says_that_it_may_be_old(
    stage: &Stage,
) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let (remote, repo) = cloned(stage, "t19")?;
    let local = repos::tip(bench, &repo, "main")?;
    let tip = commits(stage, &remote, 40)?;
    let before = repos::fingerprint(bench, &repo)?;
    let agent = ["sh", "-c", "test -f new-40 && echo mine > mine"];
    let run = product.run_to_end(&repo, &[], &agent)?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let view = product.show(&run.id()?)?;
    ensure!(
        view["base_commit"] == tip && view["freshness"]["source"] == "remote",
        "{view}"
    );
    ensure!(view["freshness"]["stale"].is_null(), "{view}");
    ensure!(
        repos::tip(bench, &repo, "main")? == local,
        "the operator's branch moved"
    );
    repos::unchanged(bench, &repo, &before)?;
    // The review shows the run's own work, and a merge brings the branch up to it.
    let diff = product.ask(&["diff", &run.id()?])?;
    ensure!(
        diff["files"]
            .as_array()
            .is_some_and(|files| files.len() == 1),
        "{diff}"
    );
    let expect = diff["expect"].as_str().context("a token")?.to_owned();
    product.ask(&["merge", &run.id()?, "--expect", &expect])?;
    let merged = repos::tip(bench, &repo, "main")?;
    bench.shell(
        &repo,
        &format!("git merge-base --is-ancestor {tip} {merged}"),
    )?;
    ensure!(
        bench
            .shell(&repo, "git status --porcelain")?
            .trim()
            .is_empty()
    );

    // Unreachable: the run starts from what is here, and says how old that may be.
    commits(stage, &remote, 3)?;
    bench.shell(&repo, "git fetch -q")?;
    let local = repos::tip(bench, &repo, "main")?;
    std::fs::rename(&remote, remote.with_extension("gone"))?;
    let run = product.run_to_end(&repo, &[], &["sh", "-c", "echo again > again"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(
        warned(&run, "the base may be old: origin/main was not fetched"),
        "{}",
        run.story()
    );
    let view = product.show(&run.id()?)?;
    ensure!(view["base_commit"] == local, "{view}");
    ensure!(
        view["freshness"]["fetched"] == false && view["freshness"]["behind"] == 3,
        "{view}"
    );
    ensure!(view["freshness"]["committed_at"].is_string(), "{view}");
    let shown = product.call(["show", &run.id()?])?.stdout;
    ensure!(shown.contains("3 commits behind"), "{shown}");
    Ok(())
}

fn t19_a_remote_that_never_answers_is_waited_for_as_long_as_was_said(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let (_remote, repo) = cloned(stage, "t19-slow")?;
    let script = bench.scratch("slow")?.join("upload-pack");
    bench.write(&script, "#!/bin/sh\nexec sleep 1000\n")?;
    bench.shell(
        &repo,
        &format!(
            "chmod +x '{0}'; git config remote.origin.uploadpack '{0}'",
            script.display()
        ),
    )?;
    let run = product.run(&repo, &["--fetch-limit", "2"], &["true"])?;
    // What it waits for is said while it waits.
    run.wait_for("what is waited for", |event| match &event.kind {
        EventKind::Progress { stage, message } if stage == "base" && message.contains("2 s") => {
            Some(())
        }
        _ => None,
    })?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(warned(&run, "no end after 2 s"), "{}", run.story());
    let run = product.run(&repo, &["--no-fetch"], &["true"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(!warned(&run, "no end"), "{}", run.story());
    // Stopped while it waits: nothing is left of it.
    let run = product.run(&repo, &["--fetch-limit", "600"], &["true"])?;
    let id = run.id()?;
    product.ask(&["stop", &id])?;
    ensure!(run.ended()? == 7, "{}", run.story());
    let view = product.show(&id)?;
    let place = PathBuf::from(view["worktree"].as_str().context("a worktree")?);
    ensure!(!place.exists() && view["state"] == "cancelled", "{view}");
    let branch = view["branch"].as_str().context("a branch")?.to_owned();
    ensure!(
        bench
            .shell(&repo, &format!("git branch --list '{branch}'"))?
            .is_empty()
    );
    Ok(())
}

fn t20_a_tree_that_cannot_be_made_fails_the_run_and_changes_nothing(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let repo = repos::plain(bench, "t20")?;
    bench.shell(&repo, "echo dirty >> file.txt; echo new > new")?;
    // Where registrations go there is a file.
    bench.shell(&repo, "echo x > .git/worktrees")?;
    let before = repos::fingerprint(bench, &repo)?;
    let run = product.run(&repo, &[], &["sh", "-c", "echo never > never"])?;
    ensure!(run.ended()? == 9, "{}", run.story());
    let id = run.id()?;
    let view = product.show(&id)?;
    ensure!(
        view["state"] == "failed" && view["reason"]["reason"] == "provision",
        "{view}"
    );
    repos::unchanged(bench, &repo, &before)?;
    ensure!(
        bench
            .shell(&repo, "git for-each-ref refs/foreman refs/heads/foreman")?
            .is_empty()
    );
    bench.shell(&repo, "test \"$(cat .git/worktrees)\" = x; test ! -e never")?;
    ensure!(!Path::new(view["worktree"].as_str().context("a worktree")?).exists());
    // Once it is mended, the same is tried again as it was asked for.
    bench.shell(&repo, "rm .git/worktrees")?;
    let again = LiveRun::start(product.foreman(["retry", &id, "--json"]))?;
    ensure!(again.ended()? == 0, "{}", again.story());
    let again = product.show(&again.id()?)?;
    ensure!(
        again["order"] == view["order"] && again["id"] != view["id"],
        "{again}"
    );
    ensure!(again["state"] == "review", "{again}");
    no_retry_of_what_goes_on(&product, &repo)
}

fn no_retry_of_what_goes_on(product: &Product<'_>, repo: &Path) -> Result<()> {
    let live = product.run(repo, &[], &["sh", "-c", "echo on; sleep 600"])?;
    live.said("on")?;
    let ran = product.call(["retry", &live.id()?, "--json"])?;
    ensure!(ran.code == 4 && ran.error()?.0 == "conflict", "{ran:?}");
    product.ask(&["stop", &live.id()?])?;
    Ok(())
}
