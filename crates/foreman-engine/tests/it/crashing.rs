//! The engine's process is killed at many moments: nothing is lost, nothing is done twice.

use crate::scene::{DEADLINE, Scene, at_rest, events_until, named};
use foreman_domain::RunState;
use foreman_engine::api::{Commands, RunList};
use std::time::Duration;

/// Moments at which the engine is killed while it prepares a run, in milliseconds. A run takes about
/// a hundred; what is beyond kills an engine that is following one.
const MOMENTS: [u64; 12] = [0, 5, 10, 15, 20, 30, 40, 55, 70, 90, 120, 200];

#[tokio::test(flavor = "multi_thread")]
async fn a_run_asked_for_is_made_exactly_once_whenever_the_engine_is_killed() {
    let scene = Scene::new();
    for moment in MOMENTS {
        let mut other = scene.other_process();
        assert_eq!(other.role, "hosting", "after {moment} ms");
        let host = scene.host().await;
        let before = host.run_list(RunList::default()).await.unwrap().runs.len();
        let asking = host.run_create(scene.request(&["line:hello", "commit:a"]));
        let killing = async {
            tokio::time::sleep(Duration::from_millis(moment)).await;
            other.kill();
        };
        let (made, ()) = tokio::join!(asking, killing);
        let made = made.unwrap();
        let ended = at_rest(&host, &made.id).await;
        assert!(
            matches!(ended.state, RunState::Review { .. }),
            "after {moment} ms: {ended:?}"
        );

        // Another run of the same request may be there only as one that was never started, undone.
        let runs = host.run_list(RunList::default()).await.unwrap().runs;
        for run in runs
            .iter()
            .take(runs.len() - before)
            .filter(|run| run.id != made.id)
        {
            let undone = at_rest(&host, &run.id).await;
            assert!(
                matches!(undone.state, RunState::Failed { .. }),
                "after {moment} ms: {undone:?}"
            );
            assert!(!undone.worktree.exists(), "after {moment} ms");
        }
        host.close().await;
    }
    let host = scene.host().await;
    let runs = host.run_list(RunList::default()).await.unwrap().runs;
    let kept = runs
        .iter()
        .filter(|run| matches!(run.state, RunState::Review { .. }))
        .count();
    assert_eq!(kept, MOMENTS.len());
    let branches = scene.git(&["branch", "--list", "foreman/*"]);
    assert_eq!(branches.lines().count(), kept, "{branches}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_there_once_after_several_engines_were_killed() {
    let scene = Scene::new();
    let mut script: Vec<String> = (0..400).map(|number| format!("line:{number}")).collect();
    script.push("wait".into());
    let script: Vec<&str> = script.iter().map(String::as_str).collect();
    let first = scene.host().await;
    let run = scene.start(&first, &script).await;
    first.close().await;
    for _ in 0..5 {
        let mut other = scene.other_process();
        tokio::time::sleep(Duration::from_millis(60)).await;
        other.kill();
    }
    let host = scene.host().await;
    let said = |events: &[foreman_domain::Event]| {
        events
            .iter()
            .filter(|event| event.kind.tag() == "output")
            .count()
    };
    let events = tokio::time::timeout(
        DEADLINE,
        events_until(&host, &run.id, |events| said(events) >= 400),
    )
    .await
    .unwrap();
    assert_eq!(said(&events), 400);
    let seqs: Vec<_> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    host.run_stop(named(&run.id)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_engine_wrote_and_had_not_stored_when_it_was_killed_is_known_to_the_next() {
    let scene = Scene::new();
    let host = scene.host().await;
    let marked = scene.start(&host, &["commit:a"]).await.id;
    let unmarked = scene.start(&host, &["commit:b"]).await.id;
    at_rest(&host, &marked).await;
    at_rest(&host, &unmarked).await;
    host.close().await;
    let (database, before) = (
        scene.data().join("state/foreman.db"),
        scene.data().join("before"),
    );
    std::fs::copy(&database, &before).unwrap();

    let host = scene.host().await;
    for run in [&marked, &unmarked] {
        host.run_discard(named(run)).await.unwrap();
    }
    host.close().await;
    // Killed between its two writes: the journals have what the store has not, and the mark of the one
    // that was being written is there. That of the other was lost, as after a power cut.
    std::fs::copy(&before, &database).unwrap();
    let marks = scene.data().join("state/writing");
    assert_eq!(std::fs::read_dir(&marks).unwrap().count(), 0);
    std::fs::write(marks.join(marked.as_str()), "").unwrap();
    std::fs::write(marks.join("not-a-run"), "").unwrap();

    let host = scene.host().await;
    let discarded = |state: &RunState| matches!(state, RunState::Discarded { .. });
    let shown = host.run_show(named(&marked)).await.unwrap();
    assert!(discarded(&shown.state), "{shown:?}");
    assert_eq!(std::fs::read_dir(&marks).unwrap().count(), 0);
    for run in [&marked, &unmarked] {
        let again = host.run_discard(named(run)).await.unwrap();
        assert!(discarded(&again.state), "{again:?}");
    }
    host.close().await;
}
