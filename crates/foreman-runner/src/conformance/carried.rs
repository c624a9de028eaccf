//! There and back: launched, taken over, lost, collected, removed.

use super::broken::ensure;
use super::{Broken, Candidate, Live, PATIENCE, exit_record, gone, hello};
use crate::port::RunnerError;
use foreman_domain::{EventSeq, StepKind, StepResult};
use foreman_shim::client::ClientError;
use foreman_shim::station::{Presence, Reason};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

pub(super) async fn a_run_is_launched_welcomed_and_comes_to_its_end(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let live = Live::begin(candidate, "echo out; echo oops >&2; exit 3").await?;
    let run = live.place().run.clone();
    ensure(live.identity.run == run, || {
        format!("the shim says that it carries {}", live.identity.run)
    })?;
    let seen = live.context.look(live.place()).await?;
    ensure(seen.presence != Presence::Unborn, || format!("{seen:?}"))?;
    ensure(seen.identity.as_ref() == Some(&live.identity), || {
        format!("{seen:?} but {:?} answers", live.identity)
    })?;
    let ended = live.end().await?;
    ensure(ended.record.run == run, || format!("{:?}", ended.record))?;
    let agent = ended
        .record
        .steps
        .iter()
        .find(|(_, kind, _)| *kind == StepKind::Agent);
    ensure(
        matches!(agent, Some((_, _, StepResult::Exited { code: 3 }))),
        || format!("{:?}", ended.record),
    )?;
    let lines = ended.lines();
    for wanted in ["out", "oops"] {
        ensure(lines.iter().any(|line| line == wanted), || {
            format!("{lines:?}")
        })?;
    }
    let first = ended.events.first().map(|event| event.seq);
    ensure(first == Some(EventSeq(1)), || {
        format!("event {first:?} was the first")
    })
}

pub(super) async fn a_run_that_is_launched_again_is_the_same_run(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut live = Live::begin(candidate, "echo once; sleep 600").await?;
    live.says("once").await?;
    // As by an engine that was cut off before it heard the answer.
    let again = candidate.context().launch(&live.launch).await?;
    ensure(again == live.identity, || {
        format!("{again:?} and {:?}", live.identity)
    })?;
    live.client.stop(0).await?;
    let lines = live.end().await?.lines();
    let times = lines.iter().filter(|line| *line == "once").count();
    ensure(times == 1, || format!("the agent ran {times} times"))
}

pub(super) async fn commits_come_back_byte_for_byte(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    // Every byte value, a link, a program, an odd name, something left uncommitted.
    let script = r#"set -e
        i=0; while [ $i -lt 256 ]; do printf "\\$(printf %03o $i)"; i=$((i+1)); done > every-byte
        head -c 3000000 /dev/urandom > random
        printf 'x' > 'odd  name'; ln -s every-byte link; printf '#!/bin/sh\n' > run; chmod +x run
        git add -A; git commit -qm 'from the cage'
        printf 'left over\n' > left
        for f in every-byte random; do echo "sum $f $(git hash-object $f)"; done"#;
    let ended = Live::begin(candidate, script).await?.end().await?;
    let lines = ended.lines();
    let file = std::fs::read(&ended.place.files.bundle)?;
    let text = |from: &[u8]| String::from_utf8_lossy(from).into_owned();
    let Some(at) = file.windows(8).position(|window| window == b"\nbundle\n") else {
        return Err(Broken::new(format!(
            "no bundle in {:?}, after {lines:?}",
            text(&file)
        )));
    };
    let (head, bundle) = (text(file.get(..at).unwrap_or_default()), at + 8);
    let head = head
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("head ")
        .to_owned();
    ensure(ended.record.head.as_ref() == Some(&head), || {
        format!("{head} was collected and {:?} seen", ended.record.head)
    })?;
    let scratch = ended.place.files.bundle.with_extension("scratch");
    std::fs::create_dir(&scratch)?;
    let packed = scratch.join("commits.bundle");
    std::fs::write(&packed, file.get(bundle..).unwrap_or_default())?;
    let clone = scratch.join("clone");
    let source = candidate.repository();
    let path = |path: &Path| path.display().to_string();
    git(
        &scratch,
        &["clone", "-q", "--bare", &path(&source), &path(&clone)],
    )?;
    git(
        &clone,
        &[
            "fetch",
            "-q",
            &path(&packed),
            "refs/foreman/harvest:refs/heads/back",
        ],
    )?;
    git(&clone, &["fsck", "--full", "--strict", "--no-dangling"])?;
    ensure(git(&clone, &["rev-parse", "back"])? == head, || {
        format!("not {head}")
    })?;
    for name in ["every-byte", "random"] {
        let sum = git(&clone, &["rev-parse", &format!("back:{name}")])?;
        ensure(lines.contains(&format!("sum {name} {sum}")), || {
            format!("{name} came as {sum}: {lines:?}")
        })?;
    }
    let tree = git(&clone, &["ls-tree", "back"])?;
    for wanted in ["100755", "120000", "odd  name", "left"] {
        ensure(tree.contains(wanted), || format!("no {wanted} in {tree}"))?;
    }
    std::fs::remove_dir_all(&scratch)?;
    Ok(())
}

pub(super) async fn a_killed_shim_is_gone_without_a_result_and_takes_its_cage_along(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut live = Live::begin(candidate, "echo up; while :; do sleep 0.05; done").await?;
    live.says("up").await?;
    live.context.kill(live.place()).await?;
    gone(live.context.as_ref(), live.place()).await?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match live.pull(512).await {
            Err(_) => break,
            Ok(ended) => ensure(!ended && Instant::now() < deadline, || {
                "its line goes on after the shim was killed".into()
            })?,
        }
    }
    let again = live
        .context
        .connect(live.place(), hello(live.place(), 1))
        .await;
    let refused = matches!(
        &again,
        Err(RunnerError::Client(ClientError::Connect { .. })
            | RunnerError::Refused {
                reason: Reason::Gone,
                ..
            })
    );
    ensure(refused, || {
        format!("somebody answers: {:?}", again.map(|(_, found)| found))
    })?;
    live.context.collect(live.place()).await?;
    ensure(exit_record(live.place())?.is_none(), || {
        "it left a result".into()
    })?;
    // What it told before is not lost with it.
    let files = &live.launch.place.files;
    let kept = foreman_shim::journal::read_after(&files.journal, EventSeq(0), usize::MAX)?;
    ensure(kept.len() >= live.events.len(), || {
        format!(
            "{} events were told and {} kept",
            live.events.len(),
            kept.len()
        )
    })?;
    live.context.kill(live.place()).await?;
    live.context.remove(live.place()).await?;
    Ok(())
}

pub(super) async fn a_run_of_a_killed_engine_is_taken_over_from_its_first_event(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let launch = candidate.prepare("echo begun; sleep 0.5; echo done", false)?;
    candidate.launch_by_a_killed_engine(&launch)?;
    let context = candidate.context();
    let seen = context.look(&launch.place).await?;
    ensure(seen.presence == Presence::Alive, || format!("{seen:?}"))?;
    let introduction = hello(&launch.place, 2);
    let (client, welcome) = context.connect(&launch.place, introduction).await?;
    ensure(Some(&welcome.identity) == seen.identity.as_ref(), || {
        format!("{:?} and {seen:?}", welcome.identity)
    })?;
    let live = Live {
        context,
        identity: welcome.identity,
        client,
        launch,
        events: Vec::new(),
    };
    let ended = live.end().await?;
    let lines = ended.lines();
    ensure(lines == ["begun", "done"], || format!("{lines:?}"))?;
    ensure(ended.record.fence.engine.0 == 2, || {
        format!("{:?}", ended.record.fence)
    })
}

pub(super) async fn what_is_removed_is_gone_and_a_live_run_is_not_removed(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut live = Live::begin(candidate, "echo up; sleep 600").await?;
    live.says("up").await?;
    if candidate.context().needs_bundle() {
        let early = live.context.remove(live.place()).await;
        let refused = matches!(
            &early,
            Err(RunnerError::Refused {
                reason: Reason::Alive,
                ..
            })
        );
        ensure(refused, || format!("a live run was removed: {early:?}"))?;
    }
    let context = std::sync::Arc::clone(&live.context);
    live.client.stop(0).await?;
    let ended = live.end().await?;
    // Removed by that; and removing what is gone is no error.
    context.remove(&ended.place).await?;
    let seen = context.look(&ended.place).await?;
    ensure(seen.presence == Presence::Gone, || format!("{seen:?}"))?;
    tokio::time::timeout(Duration::from_secs(60), context.collect(&ended.place))
        .await
        .map_err(|_| Broken::new("collecting what is gone never ends"))??;
    ensure(exit_record(&ended.place)?.is_some(), || {
        "its result is lost".into()
    })
}

/// Runs git in a folder; its output.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, Broken> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(output.status.success(), || {
        format!("git {arguments:?}: {said}")
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
