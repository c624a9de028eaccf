//! Lines that were read in one go are one row, and nobody can tell.

use crate::scratch::{Scratch, event, output};
use foreman_domain::{At, Event, EventKind, EventSeq, RunId, RunState};
use foreman_store::StoreError;
use std::sync::Arc;

/// Lines as a flood of them is read: some hundred of one moment.
fn flood(run: &RunId, range: std::ops::RangeInclusive<u64>) -> Vec<Event> {
    range
        .map(|seq| {
            let mut event = output(run, seq);
            event.at = At::from_millis((seq / 400) as i64);
            event
        })
        .collect()
}

async fn all(scratch: &Scratch, run: &RunId, limit: u32, kinds: &[String]) -> Vec<Event> {
    let (mut cursor, mut got) = (EventSeq(0), Vec::new());
    loop {
        let page = scratch
            .store
            .events(run, cursor, limit, kinds)
            .await
            .unwrap();
        assert!(page.events.len() <= limit as usize);
        got.extend(page.events);
        if page.cursor == cursor {
            return got;
        }
        cursor = page.cursor;
    }
}

#[tokio::test]
async fn lines_of_one_read_come_back_one_by_one_whatever_the_page() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let mut events = flood(&run, 1..=3_000);
    let message = "between".to_owned();
    events[1_234] = event(&run, 1_235, EventKind::Warning { message });
    scratch.ingest(&run, &events[..1_777]).await;
    scratch.ingest(&run, &events[1_777..]).await;
    for limit in [1_u32, 7, 399, 400, 512, 5_000] {
        let wanted = if limit == 1 {
            &events[2_900..]
        } else {
            &events
        };
        let got = if limit == 1 {
            let mut got = Vec::new();
            for seq in 2_900..3_000 {
                let page = scratch.store.events(&run, EventSeq(seq), 1, &[]).await;
                got.extend(page.unwrap().events);
            }
            got
        } else {
            all(&scratch, &run, limit, &[]).await
        };
        assert_eq!(got, wanted, "{limit}");
    }
    let lines = all(&scratch, &run, 512, &["output".into()]).await;
    assert_eq!(lines.len(), 2_999);
}

#[tokio::test]
async fn a_batch_that_begins_inside_a_stored_record_is_stored_from_there() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let events = flood(&run, 1..=300);
    scratch.ingest(&run, &events[..120]).await;
    let again = scratch
        .store
        .ingest(scratch.fence(), &run, &events[60..])
        .await
        .unwrap();
    assert_eq!((again.new, again.last_seq), (180, EventSeq(300)));
    assert_eq!(all(&scratch, &run, 512, &[]).await, events);
}

#[tokio::test]
async fn short_lines_take_little_more_than_their_text() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let (mut seq, mut text) = (0, 0);
    for _ in 0..60 {
        let lines: Vec<_> = (0..400)
            .map(|_| {
                seq += 1;
                let mut event = output(&run, seq);
                event.at = At::from_millis((seq / 400) as i64);
                text += format!("line {seq}\n").len() as u64;
                event
            })
            .collect();
        scratch.ingest(&run, &lines).await;
    }
    let taken = scratch.store.event_bytes(&run).await.unwrap();
    assert!(taken < text * 3 / 2, "{taken} bytes for {text}");
}

#[tokio::test]
async fn a_run_that_is_refused_does_not_keep_those_of_its_group_from_being_stored() {
    let scratch = Arc::new(Scratch::new().await);
    let mut runs = Vec::new();
    for bits in 0..8 {
        runs.push(scratch.run(bits).await);
    }
    let mut tasks = tokio::task::JoinSet::new();
    for (index, run) in runs.iter().cloned().enumerate() {
        let scratch = Arc::clone(&scratch);
        tasks.spawn(async move {
            for round in 0..50_u64 {
                let first = round * 10 + 1;
                let mut events = flood(&run, first..=first + 9);
                if index % 2 == 1 && round == 20 {
                    events.remove(5);
                }
                let fence = scratch.fence();
                let stored = scratch.store.ingest_in_group(fence, &run, &events).await;
                match stored {
                    Ok(stored) => assert_eq!(stored.last_seq, EventSeq(first + 9)),
                    Err(StoreError::Hole { .. }) => return (run, round),
                    Err(other) => panic!("{other}"),
                }
            }
            (run, 50)
        });
    }
    for (run, rounds) in tasks.join_all().await {
        let events = all(&scratch, &run, 512, &[]).await;
        assert_eq!(events, flood(&run, 1..=rounds * 10));
        assert!(rounds == 50 || rounds == 20);
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_in_the_middle_takes_nothing_of_others_with_it() {
    let scratch = Arc::new(Scratch::new().await);
    let (run, other) = (scratch.run(1).await, scratch.run(2).await);
    for round in 0..100_u64 {
        let first = round * 5 + 1;
        let (mine, theirs) = (
            flood(&run, first..=first + 4),
            flood(&other, first..=first + 4),
        );
        let fence = scratch.fence();
        let given_up = scratch.store.ingest(fence, &run, &mine);
        let kept = scratch.store.ingest(fence, &other, &theirs);
        let impatient = async {
            let _ =
                tokio::time::timeout(std::time::Duration::from_micros(round * 20), given_up).await;
        };
        let ((), kept) = tokio::join!(impatient, kept);
        assert_eq!(kept.unwrap().last_seq, EventSeq(first + 4));
        // Asked again, as a follower does.
        scratch.ingest(&run, &mine).await;
    }
    for run in [run, other] {
        assert_eq!(all(&scratch, &run, 512, &[]).await, flood(&run, 1..=500));
    }
}

#[tokio::test]
async fn output_waits_for_its_group_and_a_state_does_not() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let age = std::time::Duration::from_millis(25);
    let mut quickest = age;
    for seq in 1..=20_u64 {
        let kind = EventKind::State {
            to: RunState::Provisioning,
        };
        let events = if seq == 1 {
            [output(&run, seq)]
        } else {
            [event(&run, seq, kind)]
        };
        let begin = std::time::Instant::now();
        let stored = scratch
            .store
            .ingest_in_group(scratch.fence(), &run, &events);
        stored.await.unwrap();
        if seq == 1 {
            assert!(begin.elapsed() >= age);
        } else {
            quickest = quickest.min(begin.elapsed());
        }
    }
    assert!(quickest < age);
}
