//! Hints about everything that changes.

use crate::scene::{DEADLINE, Scene, at_rest, named, open_block};
use foreman_domain::EventSeq;
use foreman_engine::Host;
use foreman_engine::api::{Commands, EventsRequest, Hints, RunList, WatchRequest};
use std::collections::HashMap;
use std::time::Instant;

async fn after(host: &Host, cursor: &str, wait_ms: u32) -> Hints {
    let request = WatchRequest {
        cursor: Some(cursor.to_owned()),
        wait_ms,
    };
    host.watch(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_a_list_and_watches_on_from_its_cursor_misses_no_event_and_sees_none_twice() {
    let scene = Scene::new();
    let host = scene.host().await;
    let many: Vec<String> = (0..300).map(|line| format!("line:{line}")).collect();
    let script: Vec<&str> = many.iter().map(String::as_str).collect();
    let first = scene.start(&host, &script).await;
    let client = scene.host().await;
    let second = scene.start(&client, &script).await;

    let list = host.run_list(RunList::default()).await.unwrap();
    let mut cursor = list.cursor;
    let mut known: HashMap<_, Vec<u64>> = HashMap::new();
    let pull = async |run: &foreman_domain::RunId, seen: &mut Vec<u64>| {
        let request = EventsRequest {
            run: run.to_string(),
            after: EventSeq(seen.last().copied().unwrap_or(0)),
            limit: 512,
            wait_ms: 0,
            kinds: vec![],
            ..EventsRequest::default()
        };
        let page = host.run_events(request).await.unwrap();
        seen.extend(page.events.iter().map(|event| event.seq.0));
        page.ended
    };
    let mut over = Vec::new();
    for run in &list.runs {
        if pull(&run.id, known.entry(run.id.clone()).or_default()).await {
            over.push(run.id.clone());
        }
    }
    let deadline = Instant::now() + DEADLINE;
    while over.len() < 2 {
        let hints = after(&host, &cursor, 30_000).await;
        assert!(!hints.resync && hints.from.as_deref() == Some(&cursor));
        for hint in hints.runs {
            let seen = known.entry(hint.run.clone()).or_default();
            let ended = pull(&hint.run, seen).await;
            assert!(*seen.last().unwrap() >= hint.last_seq.0);
            if ended && !over.contains(&hint.run) {
                over.push(hint.run);
            }
        }
        cursor = hints.to;
        assert!(Instant::now() < deadline, "the end of a run was not told");
    }
    for run in [&first, &second] {
        let seen = &known[&run.id];
        assert_eq!(*seen, (1..=seen.len() as u64).collect::<Vec<_>>());
        let view = host.run_show(named(&run.id)).await.unwrap();
        assert_eq!(view.last_seq.0, seen.len() as u64);
    }
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_and_states_are_hinted_and_a_cursor_of_the_engine_before_begins_anew() {
    let scene = Scene::new();
    let host = scene.host().await;
    let begun = host.watch(WatchRequest::default()).await.unwrap();
    assert!(begun.resync && begun.runs.is_empty() && begun.from.is_none());
    let run = scene.start(&host, &["hold:registry.example"]).await;
    let block = open_block(&host, &run.id).await;
    let hints = after(&host, &begun.to, 30_000).await;
    assert_eq!(hints.runs.len(), 1, "each is named once: {hints:?}");
    assert_eq!(hints.blocks, std::slice::from_ref(&block.block.id));
    host.run_stop(named(&run.id)).await.unwrap();
    at_rest(&host, &run.id).await;
    let hints = after(&host, &hints.to, 30_000).await;
    assert_eq!(hints.runs[0].state, "cancelled", "{hints:?}");
    // Letting the run go may be news once more; after that there is none.
    let deadline = Instant::now() + DEADLINE;
    let mut nothing = after(&host, &hints.to, 0).await;
    while !nothing.runs.is_empty() {
        assert!(
            Instant::now() < deadline,
            "there is always news: {nothing:?}"
        );
        nothing = after(&host, &nothing.to, 1_000).await;
    }
    assert!(!nothing.resync);
    host.close().await;
    let next = scene.host().await;
    let anew = after(&next, &nothing.to, 30_000).await;
    assert!(anew.resync && anew.from.is_none(), "{anew:?}");
    next.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_watches_is_sent_to_the_next_engine_and_told_to_begin_anew() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let client = scene.host().await;
    let begun = client.watch(WatchRequest::default()).await.unwrap();
    let watching = after(&client, &begun.to, 30_000);
    let killing = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        other.kill();
    };
    let (hints, ()) = tokio::join!(watching, killing);
    assert!(hints.resync && client.is_hosting());
    client.close().await;
}
