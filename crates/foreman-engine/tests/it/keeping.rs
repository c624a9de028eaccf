//! What is kept, what goes, and finding it again.

use crate::scene::{DEADLINE, Scene, at_rest, events_until, named};
use foreman_domain::{Code, EventKind, EventSeq, RunState};
use foreman_engine::api::{
    Commands, EventsRequest, RetentionChange, RetentionRequest, RunView, SearchRequest,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// Lines that make a journal long.
fn many() -> Vec<String> {
    let line = |number| format!("line:{number} {}", "x".repeat(500));
    (0..100).map(line).collect()
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

async fn cut(path: &Path) {
    let deadline = Instant::now() + DEADLINE;
    while length(path) > 4_000 {
        assert!(Instant::now() < deadline, "{} is not cut", path.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn the_journal_of_a_run_at_rest_is_cut_and_the_run_goes_on_without_it() {
    let scene = Scene::new();
    let host = scene.host().await;
    let lines = many();
    let mut script: Vec<_> = lines.iter().map(String::as_str).collect();
    script.push("commit:new.txt");
    let run = scene.start(&host, &script).await;
    let ended = at_rest(&host, &run.id).await;
    assert!(matches!(ended.state, RunState::Review { .. }), "{ended:?}");
    let folder = scene.data().join("state/runs").join(run.id.as_str());
    cut(&folder.join("journal.ndjson")).await;
    host.run_discard(named(&run.id)).await.unwrap();
    let events = events_until(&host, &run.id, |events| {
        let is_end = |event: &foreman_domain::Event| {
            matches!(
                &event.kind,
                EventKind::State {
                    to: RunState::Discarded { .. }
                }
            )
        };
        events.iter().any(is_end)
    })
    .await;
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.seq, EventSeq(index as u64 + 1));
    }
    let restored = host.run_restore(named(&run.id)).await.unwrap();
    assert!(
        matches!(restored.state, RunState::Review { .. }),
        "{restored:?}"
    );
}

#[tokio::test]
async fn the_journal_of_a_live_run_stays_whole() {
    let scene = Scene::new();
    let host = scene.host().await;
    let lines = many();
    let ends: Vec<_> = lines.iter().map(String::as_str).collect();
    let lives: Vec<_> = ends.iter().copied().chain(["wait"]).collect();
    let (ends, lives) = (
        scene.start(&host, &ends).await,
        scene.start(&host, &lives).await,
    );
    at_rest(&host, &ends.id).await;
    let journal = |run: &RunView| {
        let folder = scene.data().join("state/runs").join(run.id.as_str());
        folder.join("journal.ndjson")
    };
    cut(&journal(&ends)).await;
    assert!(length(&journal(&lives)) > 50_000);
    host.run_stop(named(&lives.id)).await.unwrap();
}

#[tokio::test]
async fn events_are_found_in_all_runs_and_output_in_the_one_that_is_named() {
    let scene = Scene::new();
    let host = scene.host().await;
    let one = scene
        .start(&host, &["line:The needle", "line:hay", "exit:3"])
        .await;
    let two = scene.start(&host, &["line:another NEEDLE"]).await;
    at_rest(&host, &one.id).await;
    at_rest(&host, &two.id).await;
    let search = async |text: &str, run: Option<String>, kinds: &[&str]| {
        let request = SearchRequest {
            text: text.into(),
            run,
            kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(),
            ..SearchRequest::default()
        };
        host.event_search(request).await
    };
    let found = search("exit code 3", None, &[]).await.unwrap();
    assert!(
        found.events.iter().any(|event| event.run == one.id),
        "{found:?}"
    );
    assert!(found.events.iter().all(|event| event.run != two.id));
    assert!(!found.incomplete && found.next.is_none());
    assert!(
        search("needle", None, &["state"])
            .await
            .unwrap()
            .events
            .is_empty()
    );
    for run in [&one, &two] {
        let found = search("needle", Some(run.id.to_string()), &["output"])
            .await
            .unwrap();
        let events = events_until(&host, &run.id, |_| true).await;
        assert_eq!(found.events.len(), 1, "{found:?} of {events:#?}");
    }
    let refused = search("needle", None, &["output"]).await.unwrap_err();
    assert!(refused.hint.unwrap().contains("--run"));
    for (text, kinds) in [("\"*\"", vec![]), ("x", vec!["nonsense"])] {
        let refused = search(text, None, &kinds).await.unwrap_err();
        assert_eq!(refused.code, Code::Usage);
    }
    let nobody = search("x", Some("zzzz".into()), &[]).await.unwrap_err();
    assert_eq!(nobody.code, Code::NotFound);
    let odd = SearchRequest {
        text: "x".into(),
        before: Some("1; DROP".into()),
        ..SearchRequest::default()
    };
    assert_eq!(host.event_search(odd).await.unwrap_err().code, Code::Usage);
}

#[tokio::test]
async fn a_run_over_the_budget_loses_its_oldest_output_and_says_so() {
    let scene = Scene::new();
    let host = scene.host().await;
    let view = host.retention_show(RetentionRequest {}).await.unwrap();
    assert!(view.total >= view.per_run && view.per_run >= MOST);
    let too_small = RetentionChange {
        per_run: Some(1000),
        total: None,
    };
    let refused = host.retention_set(too_small).await.unwrap_err();
    assert_eq!(refused.code, Code::BadInput);
    // The script is kept twice: as what the agent printed, and as its command line, which stays.
    const MOST: u64 = 5 << 19;
    let change = RetentionChange {
        per_run: Some(MOST),
        total: None,
    };
    let set = host.retention_set(change).await.unwrap();
    assert_eq!((set.per_run, set.total), (MOST, view.total));

    // Twice as long where they are kept as on a command line.
    let lines: Vec<_> = (0..500)
        .map(|number| format!("line:{number} {}", "\"".repeat(1_500)))
        .collect();
    let script: Vec<_> = lines.iter().map(String::as_str).collect();
    let run = scene.start(&host, &script).await;
    at_rest(&host, &run.id).await;
    let deadline = Instant::now() + DEADLINE;
    while host
        .retention_show(RetentionRequest {})
        .await
        .unwrap()
        .largest_run
        > MOST
    {
        assert!(Instant::now() < deadline, "nothing was dropped");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let request = EventsRequest {
        run: run.id.to_string(),
        after: EventSeq(0),
        limit: 512,
        wait_ms: 0,
        kinds: vec!["gap".into()],
        ..EventsRequest::default()
    };
    let gaps = host.run_events(request).await.unwrap().events;
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let EventKind::Gap { count, reason, .. } = &gaps[0].kind else {
        panic!("{gaps:?}")
    };
    assert!(*count > 50 && reason.contains("budget"), "{count} {reason}");
    let last = events_until(&host, &run.id, |events| {
        events.iter().any(|event| matches!(&event.kind, EventKind::Output { text, .. } if text.starts_with("499 ")))
    });
    last.await;
}
