//! Files outside of a run's worktree: held, amended live, once, denied, taken back, kept for a project.

use crate::holds::go;
use anyhow::{Context, Result, ensure};
use foreman_domain::{ConnectVerdict, Decider, EventKind};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, Stage, eventually, repos, until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "files",
        [
            a_held_write_goes_on_in_the_same_process_once_its_folder_is_amended,
            a_file_that_is_there_is_opened_alone,
            once_hands_over_exactly_what_waited,
            a_denied_write_is_refused_and_why_says_the_reason,
            many_files_of_one_folder_are_one_card,
            undo_of_a_denial_lets_the_next_write_be_held_again,
            a_revoked_amend_is_hidden_from_the_cage_again,
            nobody_waits_for_files_in_an_unattended_run,
            a_project_decision_opens_the_folder_for_the_next_run_and_is_written_down,
            a_hidden_read_is_held_only_when_asked_for,
            the_floor_is_refused_without_a_card,
            why_names_the_rule_that_decides_about_a_path,
            programs_are_in_the_feed_and_a_flood_of_them_is_counted,
        ]
    )
}

/// A folder of the operator's, outside of everything that a run has.
fn folder(stage: &Stage, name: &str) -> Result<PathBuf> {
    let place = stage.bench.scratch(&format!("held-{name}"))?;
    Ok(place.canonicalize()?)
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn cards(run: &LiveRun) -> usize {
    let mut cards: Vec<_> = run
        .events()
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::Block { block } => Some(block.id),
            _ => None,
        })
        .collect();
    cards.sort();
    cards.dedup();
    cards.len()
}

fn candidate<'a>(card: &'a Value, scope: &str) -> Option<&'a Value> {
    let mut all = card["candidates"].as_array()?.iter();
    all.find(|candidate| candidate["scope"] == scope)
}

fn a_held_write_goes_on_in_the_same_process_once_its_folder_is_amended(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-amend")?;
    let folder = folder(stage, "amend")?;
    let script = format!(
        "echo \"I am $$\"; cd '{0}' 2>/dev/null; echo one > '{0}/a.txt'; echo \"first $? by $$\"; \
         mkdir '{0}/sub' && mv '{0}/a.txt' '{0}/sub/b.txt'; echo \"second $?\"",
        folder.display()
    );
    let run = product.run(&repo, &[], &["sh", "-c", &script])?;
    let mine = run.said("I am")?;
    let block = run.block(&format!("write {}/a.txt", folder.display()))?;
    let card = product.card_with_holder(&block)?;
    ensure!(card["waiting"].as_u64() == Some(1), "{card}");
    ensure!(
        card["file"]["target"] == "absent"
            && card["file"]["folder"] == folder.display().to_string(),
        "the card names another place: {card}"
    );
    ensure!(
        card["holders"][0]["argv"][0] == "sh",
        "the card does not name the shell: {card}"
    );
    ensure!(!folder.join("a.txt").exists(), "it was written before");
    let narrowest = candidate(&card, "run").context("no rule for this run")?;
    ensure!(
        narrowest["words"]
            == format!(
                "Let this run read and write everything in {} until it ends",
                folder.display()
            ),
        "{narrowest}"
    );
    let decided = product.amend(&block, &[])?;
    ensure!(decided["released"].as_u64() == Some(1), "{decided}");
    let pid = mine.trim_start_matches("I am ").to_owned();
    run.said(&format!("first 0 by {pid}"))?;
    run.said("second 0")?;
    run.ended()?;
    ensure!(text(&folder.join("sub/b.txt"))? == "one\n");
    ensure!(cards(&run) == 1, "more than one card: {}", run.story());
    Ok(())
}

fn a_file_that_is_there_is_opened_alone(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-alone")?;
    let folder = folder(stage, "alone")?;
    stage.bench.write(&folder.join("there.txt"), "before\n")?;
    let script = format!(
        "echo more >> '{0}/there.txt'; echo \"there $?\"; echo new > '{0}/other.txt'; echo \"other $?\"",
        folder.display()
    );
    let run = product.run(&repo, &[], &["sh", "-c", &script])?;
    let block = run.block(&format!("write {}/there.txt", folder.display()))?;
    let decided = product.amend(&block, &[])?;
    ensure!(
        decided["amendment"]["words"]
            == format!(
                "Let this run read and write {}/there.txt until it ends",
                folder.display()
            ),
        "not the narrowest: {decided}"
    );
    run.said("there 0")?;
    let other = run.block(&format!("write {}/other.txt", folder.display()))?;
    ensure!(other != block, "the same card again");
    product.deny(&other, "")?;
    run.said("other 2")?;
    run.ended()?;
    ensure!(text(&folder.join("there.txt"))? == "before\nmore\n");
    ensure!(!folder.join("other.txt").exists());
    Ok(())
}

fn once_hands_over_exactly_what_waited(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-once")?;
    let folder = folder(stage, "once")?;
    let script = format!(
        "umask 027; echo one > '{0}/a.txt'; echo \"first $?\"; echo two >> '{0}/a.txt'; echo \"second $?\"",
        folder.display()
    );
    let run = product.run(&repo, &[], &["sh", "-c", &script])?;
    let subject = format!("write {}/a.txt", folder.display());
    let block = run.block(&subject)?;
    let card = product.card(&block)?;
    if candidate(&card, "once").is_none() {
        // Without Landlock a descriptor could be opened anew in another way.
        ensure!(card["file"]["once"].as_u64() == Some(0), "{card}");
        product.deny(&block, "")?;
        run.ended()?;
        return Ok(());
    }
    product.amend(&block, &["--scope", "once"])?;
    run.said("first 0")?;
    let id = run.id()?;
    let again = until("the second open is held", PATIENCE, || {
        let open = product.blocks(&id)?;
        Ok(open
            .into_iter()
            .find(|card| card["id"] != block && card["waiting"].as_u64() == Some(1)))
    })?;
    product.deny(again["id"].as_str().unwrap_or_default(), "")?;
    run.said("second 2")?;
    run.ended()?;
    ensure!(text(&folder.join("a.txt"))? == "one\n");
    use std::os::unix::fs::MetadataExt;
    let made = fs::metadata(folder.join("a.txt"))?;
    ensure!(
        made.mode() & 0o777 == 0o640 && made.uid() == stage.bench.uid(),
        "mode {:o} of {}",
        made.mode(),
        made.uid()
    );
    Ok(())
}

fn a_denied_write_is_refused_and_why_says_the_reason(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-deny")?;
    let folder = folder(stage, "deny")?;
    let script = format!(
        "echo one > '{0}/a.txt'; echo \"first $?\"; foreman why --json; \
         echo one > '{0}/a.txt'; echo \"again $?\"; exit 3",
        folder.display()
    );
    let run = product.run(&repo, &[], &["sh", "-c", &script])?;
    let block = run.block(&format!("write {}/a.txt", folder.display()))?;
    let decided = product.deny(&block, "write below the worktree")?;
    ensure!(decided["refused"].as_u64() == Some(1), "{decided}");
    run.said("first 2")?;
    let why = run.said("write below the worktree")?;
    ensure!(
        why.contains(&format!("write {}/a.txt", folder.display())) && why.contains("\"denied\""),
        "why does not tell: {why}"
    );
    run.said("again 2")?;
    ensure!(run.ended()? == 1, "{}", run.story());
    ensure!(
        cards(&run) == 1,
        "a repeat of what was denied raised a card"
    );
    ensure!(!folder.join("a.txt").exists());
    Ok(())
}

fn many_files_of_one_folder_are_one_card(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-many")?;
    let folder = folder(stage, "many")?;
    let script = format!(
        "for n in $(seq 40); do (echo $n > '{0}/'$n.txt) & done; wait; echo \"all $(ls '{0}' | wc -l)\"",
        folder.display()
    );
    let run = product.run(&repo, &[], &["sh", "-c", &script])?;
    let id = run.id()?;
    let card = until("all of them wait on one card", PATIENCE, || {
        let open = product.blocks(&id)?;
        Ok(open
            .into_iter()
            .find(|card| card["waiting"].as_u64() == Some(40)))
    })?;
    ensure!(product.blocks(&id)?.len() == 1, "more than one card");
    ensure!(
        card["file"]["different"].as_u64() == Some(40)
            && card["file"]["paths"].as_array().map(Vec::len) == Some(8),
        "{card}"
    );
    let block = card["id"].as_str().unwrap_or_default();
    let decided = product.amend(block, &[])?;
    ensure!(decided["released"].as_u64() == Some(40), "{decided}");
    run.said("all 40")?;
    run.ended()?;
    ensure!(cards(&run) == 1, "{}", run.story());
    Ok(())
}

/// Writes, and once told to, writes once more.
fn twice(folder: &Path) -> String {
    format!(
        "echo one > '{0}/a.txt'; echo \"first $?\"; while ! [ -e go ]; do sleep 0.05; done; \
         echo two > '{0}/b.txt'; echo \"second $?\"",
        folder.display()
    )
}

fn undo_of_a_denial_lets_the_next_write_be_held_again(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-undo")?;
    let folder = folder(stage, "undo")?;
    let run = product.run(&repo, &[], &["sh", "-c", &twice(&folder)])?;
    let block = run.block(&format!("write {}/a.txt", folder.display()))?;
    let denied = product.deny(&block, "")?;
    run.said("first 2")?;
    let id = denied["amendment"]["id"].as_str().unwrap_or_default();
    let undone = product.ask(&["policy", "revoke", id])?;
    ensure!(undone["amendment"]["state"] == "revoked", "{undone}");
    go(stage, &product, &run)?;
    let run_id = run.id()?;
    let open = until("it is held again", PATIENCE, || {
        let mut open = product.blocks(&run_id)?.into_iter();
        Ok(open.find(|card| card["waiting"].as_u64() == Some(1)))
    })?;
    product.amend(open["id"].as_str().unwrap_or_default(), &[])?;
    run.said("second 0")?;
    run.ended()?;
    ensure!(!folder.join("a.txt").exists() && text(&folder.join("b.txt"))? == "two\n");
    Ok(())
}

fn a_revoked_amend_is_hidden_from_the_cage_again(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-revoke")?;
    let folder = folder(stage, "revoke")?;
    let run = product.run(&repo, &[], &["sh", "-c", &twice(&folder)])?;
    let block = run.block(&format!("write {}/a.txt", folder.display()))?;
    let decided = product.amend(&block, &[])?;
    run.said("first 0")?;
    let id = decided["amendment"]["id"].as_str().unwrap_or_default();
    product.ask(&["policy", "revoke", id])?;
    go(stage, &product, &run)?;
    let run_id = run.id()?;
    let again = until("the second write is held", PATIENCE, || {
        let mut open = product.blocks(&run_id)?.into_iter();
        Ok(open.find(|card| card["waiting"].as_u64() == Some(1)))
    })?;
    product.deny(again["id"].as_str().unwrap_or_default(), "")?;
    run.said("second 2")?;
    run.ended()?;
    ensure!(text(&folder.join("a.txt"))? == "one\n" && !folder.join("b.txt").exists());
    Ok(())
}

fn nobody_waits_for_files_in_an_unattended_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-unattended")?;
    let folder = folder(stage, "unattended")?;
    let script = format!(
        "echo one > '{}/a.txt'; echo \"wrote $?\"; foreman why",
        folder.display()
    );
    let run = product.run_to_end(&repo, &["--unattended"], &["sh", "-c", &script])?;
    run.said("wrote 2")?;
    run.said("Nobody can allow it during this run")?;
    ensure!(run.ended()? == 6, "{}", run.story());
    run.wait_for("the refusal in the feed", |event| match &event.kind {
        EventKind::File {
            verdict:
                ConnectVerdict::Refused {
                    by: Decider::Unattended,
                    ..
                },
            ..
        } => Some(()),
        _ => None,
    })?;
    ensure!(!folder.join("a.txt").exists());
    Ok(())
}

fn a_project_decision_opens_the_folder_for_the_next_run_and_is_written_down(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-project")?;
    let folder = folder(stage, "project")?;
    let script = format!("echo $$ > '{}/a.txt'; echo \"wrote $?\"", folder.display());
    let run = product.run(&repo, &[], &["sh", "-c", &script])?;
    let block = run.block(&format!("write {}/a.txt", folder.display()))?;
    let card = product.card(&block)?;
    let expect = card["expect"].as_str().unwrap_or_default();
    let asked = [
        "amend", &block, "--scope", "project", "--expect", expect, "--json",
    ];
    let refused = product.call(asked)?;
    ensure!(refused.code == 2, "no second word was needed: {refused:?}");
    let decided = product.amend(&block, &["--scope", "project", "--yes"])?;
    run.said("wrote 0")?;
    run.ended()?;
    let next = product.run_to_end(&repo, &["--unattended"], &["sh", "-c", &script])?;
    next.said("wrote 0")?;
    ensure!(next.ended()? == 0, "{}", next.story());
    ensure!(cards(&next) == 0, "it was held: {}", next.story());

    let id = decided["amendment"]["id"].as_str().unwrap_or_default();
    let written = product.ask(&["policy", "write", id])?;
    let file = written["text"].as_str().unwrap_or_default();
    ensure!(
        file.contains("[[write]]") && file.contains(&folder.display().to_string()),
        "{written}"
    );
    product.ask(&["policy", "revoke", id])?;
    stage
        .bench
        .shell(&repo, "git add .foreman; git commit -qm policy")?;
    let third = product.run_to_end(&repo, &["--unattended"], &["sh", "-c", &script])?;
    third.said("wrote 0")?;
    Ok(())
}

fn a_hidden_read_is_held_only_when_asked_for(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-read")?;
    let folder = folder(stage, "read")?;
    let file = folder.join("notes.txt");
    stage.bench.write(&file, "noted\n")?;
    let script = format!("cat '{}'; echo \"cat $?\"", file.display());
    let without = product.run_to_end(&repo, &[], &["sh", "-c", &script])?;
    without.said("cat 1")?;
    ensure!(cards(&without) == 0, "{}", without.story());

    let run = product.run(&repo, &["--hold-reads"], &["sh", "-c", &script])?;
    let block = run.block(&format!("read {}", file.display()))?;
    product.amend(&block, &[])?;
    run.said("noted")?;
    run.said("cat 0")?;
    run.ended()?;
    Ok(())
}

fn the_floor_is_refused_without_a_card(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-floor")?;
    let secret = stage.bench.home().join(".ssh/floor_key");
    stage.bench.write(&secret, "SECRET\n")?;
    let script = format!(
        "cat '{0}'; echo \"read $?\"; echo x >> '{0}'; echo \"write $?\"; foreman why",
        secret.display()
    );
    let run = product.run_to_end(&repo, &["--hold-reads"], &["sh", "-c", &script])?;
    run.said("read 1")?;
    run.said("write 2")?;
    ensure!(cards(&run) == 0, "the floor raised a card: {}", run.story());
    ensure!(text(&secret)? == "SECRET\n");
    run.wait_for("the refusal in the feed", |event| match &event.kind {
        EventKind::File {
            verdict:
                ConnectVerdict::Refused {
                    by: Decider::Floor,
                    why,
                },
            ..
        } if why.contains("a store of credentials") => Some(()),
        _ => None,
    })?;
    run.said("no rule can open")?;
    Ok(())
}

fn why_names_the_rule_that_decides_about_a_path(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-why")?;
    let folder = folder(stage, "why")?;
    let policy = stage.bench.scratch("policy")?.join("file-why.toml");
    stage.bench.write(
        &policy,
        format!("[[read]]\npath = \"{}\"\n", folder.display()),
    )?;
    let policy = policy.display().to_string();
    let run = product.run_to_end(&repo, &["--policy", &policy], &["true"])?;
    let id = run.id()?;
    let why = |kind: &str, path: &Path| {
        let asked = format!("{kind}:{}", path.display());
        product.ask(&["policy", "why", &asked, "--run", &id])
    };
    let read = why("read", &folder.join("x"))?;
    ensure!(
        read["verdict"] == "allowed" && read["layer"] == "order",
        "{read}"
    );
    let write = why("write", &folder.join("x"))?;
    ensure!(
        write["verdict"] == "held" && write.to_string().contains("for reading only"),
        "{write}"
    );
    let floor = why("read", &stage.bench.home().join(".ssh/id"))?;
    ensure!(
        floor["verdict"] == "refused" && floor["layer"] == "floor",
        "{floor}"
    );
    Ok(())
}

fn programs_are_in_the_feed_and_a_flood_of_them_is_counted(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "file-exec")?;
    let script =
        "/bin/echo hello; for n in $(seq 300); do /bin/true; done; sh -c 'exit 7'; echo done";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    let id = run.id()?;
    let page = product.call(["events", &id, "--kind", "exec", "--json"])?;
    let events: Vec<Value> = page
        .stdout
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let of = |name: &str| {
        let all = events.iter().filter(|event| {
            let program = event["program"].as_str().unwrap_or_default();
            program.ends_with(name)
        });
        let counts: Vec<u64> = all.filter_map(|event| event["count"].as_u64()).collect();
        (counts.len(), counts.iter().sum::<u64>())
    };
    let hello = events.iter().find(|event| {
        let argv = &event["process"]["argv"];
        argv[1] == "hello"
    });
    let hello = hello.with_context(|| format!("no echo in {events:?}"))?;
    ensure!(hello["cwd"].is_string(), "{hello}");
    let (told, counted) = of("/true");
    ensure!(
        counted == 300 && told < 100,
        "{counted} of 300 counted in {told} events"
    );
    eventually("the exit code is told", PATIENCE, || {
        run.events().iter().any(|event| {
            matches!(
                &event.kind,
                EventKind::Exit {
                    code: Some(7) | None,
                    ..
                }
            )
        })
    })?;
    Ok(())
}
