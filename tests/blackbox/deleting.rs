//! Removing what a run left: nothing is lost, nothing is said to be gone that is not.

use anyhow::{Context, Result, ensure};
use foreman_domain::ExitCode;
use foreman_testkit::suite::{Case, Verdict};
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, cases_of, expect_exit, repos, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    let mut cases = cases_of!(
        stage,
        "deleting",
        [
            t1_untracked_modified_and_ignored_files_come_back_byte_for_byte,
            t3_what_is_live_or_dirty_outlives_any_retention_and_the_reason_is_logged,
            t3_the_quota_takes_landed_work_by_itself_and_nothing_else,
            t5_a_worktree_that_was_removed_by_hand_can_be_deleted_twice,
        ]
    );
    cases.push(Case::new(
        "deleting::t6_what_cannot_be_deleted_is_not_done_and_is_finished_later",
        move || t6_what_cannot_be_deleted_is_not_done_and_is_finished_later(stage),
    ));
    cases
}

fn t1_untracked_modified_and_ignored_files_come_back_byte_for_byte(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t1")?;
    let agent = "echo agent >> file.txt; echo new > new.txt; \
        head -c 5000 /dev/urandom > build.ignored; mkdir -p deep/er; echo i > deep/er/x.ignored";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", agent])?;
    let id = run.id()?;
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "{view}");
    let worktree = worktree_of(&view)?;
    let by_hand = "echo by-hand >> file.txt; rm src/main.rs; printf 'bytes\\0\\377' > 'untracked é'; \
        chmod 640 'untracked é'; ln -s /etc/passwd link; mkdir empty; git add new.txt; \
        echo late > late.ignored; git init -q nested; echo n > nested/n";
    stage.bench.shell(&worktree, by_hand)?;
    let before = picture(&worktree)?;
    let status = stage
        .bench
        .shell(&worktree, "git status --porcelain --ignored")?;

    let discarded = product.ask(&["discard", &id])?;
    ensure!(discarded["state"] == "discarded", "{discarded}");
    let snapshot = discarded["snapshot"]
        .as_str()
        .context("no snapshot is named")?;
    ensure!(!worktree.exists(), "the worktree is still there");
    stage
        .bench
        .shell(&repo, &format!("git rev-parse --verify -q '{snapshot}'"))?;
    let listed = product.ask(&["disk"])?;
    ensure!(
        !listed["repositories"].to_string().contains(&id),
        "{listed}"
    );

    let restored = product.ask(&["restore", &id])?;
    ensure!(restored["state"] == "review", "{restored}");
    same(&before, &picture(&worktree)?)?;
    let after = stage
        .bench
        .shell(&worktree, "git status --porcelain --ignored")?;
    ensure!(status == after, "git sees {after} instead of {status}");
    Ok(())
}

fn t3_what_is_live_or_dirty_outlives_any_retention_and_the_reason_is_logged(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t3")?;
    let live = product.run(&repo, &[], &["sh", "-c", "echo ready; exec sleep 600"])?;
    live.said("ready")?;
    let live_id = live.id()?;
    // Retention of a second, over everything: whatever may go is gone at once.
    product.ask(&["disk", "quota", "none", "--keep", "1s"])?;
    let dirty = nothing_changed(&product, &repo)?;
    let worktree = worktree_of(&product.show(&dirty)?)?;
    stage.bench.shell(&worktree, "echo mine > unfinished.txt")?;
    let unlanded = product
        .run_to_end(&repo, &[], &["sh", "-c", "echo more > more.txt"])?
        .id()?;
    let clean = nothing_changed(&product, &repo)?;
    until("the run is older than the retention", PATIENCE, || {
        Ok(may_go(&product, &clean)?.then_some(()))
    })?;

    let cleaned = product.ask(&["disk", "clean", "--yes"])?;
    ensure!(
        cleaned["removed"].as_array().map(Vec::len) == Some(1)
            && cleaned["removed"][0]["run"] == clean.as_str(),
        "{cleaned}"
    );
    for (run, reason) in [
        (&live_id, "live"),
        (&dirty, "dirty"),
        (&unlanded, "undecided"),
    ] {
        let kept = cleaned["kept"].as_array().into_iter().flatten();
        let kept = kept.into_iter().find(|kept| kept["run"] == run.as_str());
        let kept = kept.with_context(|| format!("{run} is not told: {cleaned}"))?;
        ensure!(kept["kept"]["reason"] == reason, "{kept}");
        let worktree = worktree_of(&product.show(run)?)?;
        ensure!(worktree.is_dir(), "{reason}: the worktree is gone");
        let log = product.ask(&["disk"])?["log"].clone();
        let logged = log.as_array().into_iter().flatten().any(|entry| {
            entry["run"] == run.as_str()
                && entry["action"] == "kept"
                && entry["detail"]
                    .as_str()
                    .is_some_and(|it| it.contains(reason))
        });
        ensure!(logged, "{reason} is not in the log: {log}");
    }
    ensure!(
        std::fs::read_to_string(worktree.join("unfinished.txt"))? == "mine\n",
        "the file changed"
    );
    // Gone, but not lost.
    ensure!(product.ask(&["restore", &clean])?["state"] == "no_changes");
    product.ask(&["stop", &live_id])?;
    Ok(())
}

fn t3_the_quota_takes_landed_work_by_itself_and_nothing_else(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t3-quota")?;
    let merged = product
        .run_to_end(&repo, &[], &["sh", "-c", "echo landed > landed.txt"])?
        .id()?;
    let expect = product.ask(&["diff", &merged])?["expect"].clone();
    let expect = expect.as_str().context("no token")?;
    product.ask(&["merge", &merged, "--expect", expect])?;
    let dirty = nothing_changed(&product, &repo)?;
    let kept = worktree_of(&product.show(&dirty)?)?;
    stage.bench.shell(&kept, "echo mine > unfinished.txt")?;
    let gone = worktree_of(&product.show(&merged)?)?;
    ensure!(gone.is_dir());
    product.ask(&["disk", "quota", "0", "--keep", "1s"])?;
    // Somebody has to host the engine.
    let host = product.run(&repo, &[], &["sh", "-c", "exec sleep 600"])?;
    host.id()?;
    until("what is landed went by itself", PATIENCE, || {
        Ok((!gone.exists()).then_some(()))
    })?;
    let told = until("the log tells of both", PATIENCE, || {
        let log = product.ask(&["disk"])?["log"].clone();
        let of = |run: &str, action: &str| {
            let entries = log.as_array().into_iter().flatten();
            entries
                .filter(|entry| entry["run"] == run && entry["action"] == action)
                .count()
        };
        let both = of(&merged, "removed") == 1 && of(&dirty, "kept") >= 1;
        Ok(both.then(|| of(&dirty, "kept")))
    })?;
    ensure!(told <= 2, "the same reason was logged {told} times");
    ensure!(kept.is_dir(), "unfinished work was removed");
    ensure!(product.show(&merged)?["state"] == "merged");
    let events = product.call(["events", &merged, "--json"])?.stdout;
    let snapshot = format!("refs/foreman/snapshots/{merged}");
    ensure!(events.contains(&snapshot), "no event names the snapshot");
    let landed = stage.bench.shell(&repo, "git show main:landed.txt")?;
    ensure!(landed == "landed\n", "{landed}");
    product.ask(&["stop", &host.id()?])?;
    Ok(())
}

fn t5_a_worktree_that_was_removed_by_hand_can_be_deleted_twice(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t5")?;
    let run = product.run_to_end(&repo, &[], &["sh", "-c", "echo x > x.txt"])?;
    let id = run.id()?;
    let worktree = worktree_of(&product.show(&id)?)?;
    let remove = format!(
        "git worktree unlock '{0}'; git worktree remove --force '{0}'",
        worktree.display()
    );
    stage.bench.shell(&repo, &remove)?;
    ensure!(!worktree.exists());
    let mut seqs = Vec::new();
    for _ in 0..2 {
        let view = product.ask(&["discard", &id])?;
        ensure!(view["state"] == "discarded", "{view}");
        seqs.push(view["last_seq"].clone());
    }
    ensure!(seqs[0] == seqs[1], "deleting again did something: {seqs:?}");
    let report = product.ask(&["disk"])?;
    ensure!(
        !report["repositories"].to_string().contains(&id),
        "it is still listed: {report}"
    );
    let left = stage.bench.shell(
        &repo,
        "git worktree list --porcelain; git branch --list 'foreman/*'",
    )?;
    ensure!(!left.contains(&id), "git still knows it: {left}");
    // What it had committed is not lost with the folder.
    let kept = format!("git show refs/foreman/snapshots/{id}^1:x.txt");
    ensure!(stage.bench.shell(&repo, &kept)? == "x\n");
    Ok(())
}

fn t6_what_cannot_be_deleted_is_not_done_and_is_finished_later(stage: &Stage) -> Result<Verdict> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "t6")?;
    let id = product
        .run_to_end(&repo, &[], &["sh", "-c", "echo x > x.txt"])?
        .id()?;
    let worktree = worktree_of(&product.show(&id)?)?;
    let stuck = worktree.join("src/main.rs");
    let Some(_stuck) = Undeletable::make(&stuck)? else {
        return Ok(Verdict::Skipped(
            "making a file undeletable needs root and a file system with attributes".into(),
        ));
    };
    let inode = std::fs::metadata(&stuck)?.ino();
    let host = product.run(&repo, &[], &["sh", "-c", "exec sleep 600"])?;
    host.id()?;
    let branch = format!("git rev-parse --verify -q refs/heads/foreman/{id}");

    let ran = product.call(["discard", &id, "--json"])?;
    expect_exit(&ran, ExitCode::Environment)?;
    let (_, message) = ran.error()?;
    ensure!(
        message.contains("main.rs"),
        "the file is not named: {message}"
    );
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "it is reported as done: {view}");
    let pending = pending(&product, &id)?.context("the removal is not shown")?;
    ensure!(
        pending["error"].to_string().contains("main.rs"),
        "{pending}"
    );
    stage
        .bench
        .shell(&repo, &branch)
        .context("the branch went before the files")?;
    until("it was tried again", PATIENCE, || {
        let tries = pending_tries(&product, &id)?;
        Ok((tries >= 2).then_some(()))
    })?;
    let aside = worktree.with_file_name(format!("{id}.removing"));
    let there = std::fs::metadata(aside.join("src/main.rs")).map(|meta| meta.ino());
    ensure!(
        there.ok() == Some(inode),
        "the file is not where it was put"
    );

    drop(_stuck);
    until("the removal was finished by itself", PATIENCE, || {
        let view = product.show(&id)?;
        Ok((view["state"] == "discarded").then_some(()))
    })?;
    ensure!(!aside.exists() && !worktree.exists(), "something is left");
    ensure!(
        stage.bench.shell(&repo, &branch).is_err(),
        "the branch stays"
    );
    ensure!(pending_tries(&product, &id)? == 0, "it is still pending");
    product.ask(&["restore", &id])?;
    ensure!(stuck.is_file(), "the file does not come back");
    stage.bench.shell(&repo, &branch)?;
    product.ask(&["stop", &host.id()?])?;
    Ok(Verdict::Passed)
}

/// A file that nobody can delete, until this drops.
struct Undeletable(PathBuf);

impl Undeletable {
    /// `None` where this machine cannot make one.
    fn make(path: &Path) -> Result<Option<Self>> {
        let made = Command::new("chattr").arg("+i").arg(path).output();
        let made = made.is_ok_and(|ran| ran.status.success());
        Ok(made.then(|| Self(path.to_owned())))
    }
}

impl Drop for Undeletable {
    fn drop(&mut self) {
        // By now it may be where the removal put it.
        let aside = self.0.ancestors().nth(2).map(|worktree| {
            let mut name = worktree.file_name().unwrap_or_default().to_owned();
            name.push(".removing");
            worktree.with_file_name(name).join("src/main.rs")
        });
        for path in [Some(self.0.clone()), aside].into_iter().flatten() {
            let _ = Command::new("chattr").arg("-i").arg(path).output();
        }
    }
}

fn nothing_changed(product: &Product<'_>, repo: &Path) -> Result<String> {
    let run: LiveRun = product.run_to_end(repo, &[], &["true"])?;
    let id = run.id()?;
    let view = product.show(&id)?;
    ensure!(view["state"] == "no_changes", "{view}");
    Ok(id)
}

fn worktree_of(view: &Value) -> Result<PathBuf> {
    let path = view["worktree"].as_str().context("no worktree")?;
    Ok(PathBuf::from(path))
}

fn listed(product: &Product<'_>, run: &str) -> Result<Option<Value>> {
    let report = product.ask(&["disk"])?;
    let repositories = report["repositories"].as_array().cloned();
    Ok(repositories
        .into_iter()
        .flatten()
        .flat_map(|repo| repo["runs"].as_array().cloned().unwrap_or_default())
        .find(|listed| listed["run"] == run))
}

fn may_go(product: &Product<'_>, run: &str) -> Result<bool> {
    Ok(listed(product, run)?.is_some_and(|run| run["may_go"] == true))
}

fn pending(product: &Product<'_>, run: &str) -> Result<Option<Value>> {
    let listed = listed(product, run)?.map(|run| run["removal"].clone());
    Ok(listed.filter(Value::is_object))
}

fn pending_tries(product: &Product<'_>, run: &str) -> Result<u64> {
    let pending = pending(product, run)?;
    Ok(pending.map_or(0, |it| it["tries"].as_u64().unwrap_or(0)))
}

/// Every entry below a folder: kind and permissions, time of change, content.
type Picture = BTreeMap<PathBuf, (u32, i64, Vec<u8>)>;

fn picture(root: &Path) -> Result<Picture> {
    let mut all = Picture::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let meta = path.symlink_metadata()?;
            let content = if meta.is_symlink() {
                std::fs::read_link(&path)?
                    .into_os_string()
                    .into_encoded_bytes()
            } else if meta.is_file() {
                std::fs::read(&path)?
            } else {
                folders.push(path.clone());
                Vec::new()
            };
            let name = path.strip_prefix(root)?.to_owned();
            all.insert(name, (meta.mode(), meta.mtime(), content));
        }
    }
    Ok(all)
}

fn same(before: &Picture, after: &Picture) -> Result<()> {
    for (path, was) in before {
        let is = after.get(path);
        ensure!(
            is == Some(was),
            "{} was {was:?} and is {is:?}",
            path.display()
        );
    }
    ensure!(before.len() == after.len(), "something came along");
    Ok(())
}
