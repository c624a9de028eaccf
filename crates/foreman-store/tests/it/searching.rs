use crate::scratch::{Scratch, block, event, output};
use foreman_domain::{At, BlockState, Event, EventKind, EventSeq, RunId};
use foreman_store::{EventBudget, SearchText};

fn warning(run: &RunId, seq: u64, message: &str) -> Event {
    let message = message.to_owned();
    event(run, seq, EventKind::Warning { message })
}

async fn index(scratch: &Scratch) {
    while scratch.store.index_some(scratch.epoch).await.unwrap() {}
}

async fn in_all(scratch: &Scratch, typed: &str, limit: u32) -> Vec<(String, u64)> {
    let text = SearchText::new(typed).unwrap();
    let (mut before, mut hits) = (None, Vec::new());
    loop {
        let found = scratch
            .store
            .search_all(&text, &[], before, limit)
            .await
            .unwrap();
        hits.extend(
            found
                .events
                .iter()
                .map(|event| (event.run.to_string(), event.seq.0)),
        );
        match found.next {
            Some(next) => before = Some(next),
            None => return hits,
        }
    }
}

async fn in_run(scratch: &Scratch, run: &RunId, typed: &str, limit: u32) -> Vec<u64> {
    let text = SearchText::new(typed).unwrap();
    let (mut before, mut hits) = (None, Vec::new());
    loop {
        let found = scratch
            .store
            .search_run(run, &text, &[], before, limit)
            .await
            .unwrap();
        hits.extend(found.events.iter().map(|event| event.seq.0));
        match found.next {
            Some(next) => before = Some(next),
            None => return hits,
        }
    }
}

#[tokio::test]
async fn words_are_found_in_all_runs_newest_first_also_those_told_later() {
    let scratch = Scratch::new().await;
    let (one, two) = (scratch.run(1).await, scratch.run(2).await);
    scratch
        .ingest(
            &one,
            &[warning(&one, 1, "The Disk is nearly full"), output(&one, 2)],
        )
        .await;
    let kind = EventKind::Block {
        block: block(&two, 1, BlockState::Open),
    };
    scratch
        .ingest(&two, &[event(&two, 1, kind), warning(&two, 2, "disk full")])
        .await;
    index(&scratch).await;
    let hit = |run: &RunId, seq| (run.to_string(), seq);
    assert_eq!(
        in_all(&scratch, "DISK full", 10).await,
        [hit(&two, 2), hit(&one, 1)]
    );
    assert_eq!(in_all(&scratch, "a.exam", 10).await, [hit(&two, 1)]);
    assert_eq!(in_all(&scratch, "nothing-like-it", 10).await, []);
    // Output is not searched in all runs.
    assert_eq!(in_all(&scratch, "line", 10).await, []);

    scratch
        .ingest(&one, &[warning(&one, 3, "full again, the disk")])
        .await;
    index(&scratch).await;
    for limit in [1, 2, 10] {
        let hits = in_all(&scratch, "disk full", limit).await;
        assert_eq!(hits, [hit(&two, 2), hit(&one, 3), hit(&one, 1)], "{limit}");
    }
}

#[tokio::test]
async fn in_one_run_output_is_searched_too_line_by_line() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let mut events: Vec<_> = (1..=3_000)
        .map(|seq| {
            let mut event = output(&run, seq);
            event.at = At::from_millis((seq / 700) as i64);
            event
        })
        .collect();
    events[1_499] = warning(&run, 1_500, "Line 77, they say");
    scratch.ingest(&run, &events).await;
    let wanted: Vec<u64> = (1..=3_000_u64)
        .rev()
        .filter(|seq| *seq == 1_500 || seq.to_string().contains("77"))
        .collect();
    for limit in [1, 3, 50, 500] {
        assert_eq!(
            in_run(&scratch, &run, "LINE 77", limit).await,
            wanted,
            "{limit}"
        );
    }
}

#[tokio::test]
async fn no_text_is_syntax_of_the_index() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    scratch
        .ingest(
            &run,
            &[warning(
                &run,
                1,
                "text: a OR (b) NEAR c* ^d -e \"quoted\" x.y:z",
            )],
        )
        .await;
    index(&scratch).await;
    for typed in [
        "a OR b",
        "text:",
        "\"",
        "\"quoted",
        "(b",
        ")",
        "NEAR(",
        "c*",
        "^d",
        "-e",
        "x.y:z",
        "{a b}:c",
        "event_text",
        "rowid:1",
        "' OR 1=1 --",
        "\u{0}a",
        "*",
        "AND",
        "NOT a",
        "\u{202e}a",
        "a\\",
        "日本",
    ] {
        let Some(text) = SearchText::new(typed) else {
            continue;
        };
        scratch.store.search_all(&text, &[], None, 5).await.unwrap();
        scratch
            .store
            .search_run(&run, &text, &[], None, 5)
            .await
            .unwrap();
    }
    assert_eq!(in_all(&scratch, "\"quoted\" (b)", 5).await.len(), 1);
    assert_eq!(in_all(&scratch, "a AND zebra", 5).await.len(), 0);
}

#[tokio::test]
async fn what_was_dropped_is_not_found_any_more() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let events: Vec<_> = (1..=3_000)
        .map(|seq| {
            event(
                &run,
                seq,
                EventKind::Progress {
                    stage: "fetch".into(),
                    message: format!("needle{seq} {}", "y".repeat(1_000)),
                },
            )
        })
        .collect();
    scratch.ingest(&run, &events).await;
    index(&scratch).await;
    assert_eq!(in_all(&scratch, "needle7", 500).await.len(), 111);
    let budget = EventBudget {
        per_run: 1 << 20,
        total: 1 << 20,
    };
    while scratch
        .store
        .retain(scratch.epoch, &budget, 500)
        .await
        .unwrap()
        .run
        .is_some()
    {}
    let first = scratch
        .store
        .events(&run, EventSeq(0), 1, &[])
        .await
        .unwrap();
    let EventKind::Gap { to, .. } = first.events[0].kind else {
        panic!("{first:?}")
    };
    let hits = in_all(&scratch, "needle", 500).await;
    assert_eq!(hits.len() as u64, 3_000 - to.0);
    assert!(hits.iter().all(|(_, seq)| *seq > to.0));
}

#[tokio::test]
async fn an_engine_that_was_replaced_indexes_nothing() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    scratch.ingest(&run, &[warning(&run, 1, "x")]).await;
    scratch.store.take_epoch().await.unwrap();
    assert!(scratch.store.index_some(scratch.epoch).await.is_err());
}
