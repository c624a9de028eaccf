//! A clock that is set back or forward changes no order and loses nothing.

use crate::scratch::{Scratch, block, event, output, rule};
use foreman_domain::{At, BlockId, BlockState, EventKind, EventSeq, Revision, Scope};
use foreman_store::{NewDecision, Ruled, SearchText};

#[tokio::test]
async fn pages_and_hits_come_in_the_order_of_events_whatever_their_times() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let times = [5_000_i64, 9_000, -3, 1 << 40, 0, 7];
    let mut events: Vec<_> = (1..=600).map(|seq| output(&run, seq)).collect();
    for event in &mut events {
        event.at = At::from_millis(times[(event.seq.0 / 7) as usize % times.len()]);
    }
    let message = "found".to_owned();
    events[10].kind = EventKind::Warning {
        message: message.clone(),
    };
    events[400].kind = EventKind::Warning { message };
    scratch.ingest(&run, &events).await;
    let page = scratch.store.events(&run, EventSeq(0), 1_000, &[]).await;
    assert_eq!(page.unwrap().events, events);
    while scratch.store.index_some(scratch.epoch).await.unwrap() {}
    let text = SearchText::new("found").unwrap();
    let all = scratch
        .store
        .search_all(&text, &[], None, 10)
        .await
        .unwrap();
    let one = scratch
        .store
        .search_run(&run, &text, &[], None, 10)
        .await
        .unwrap();
    for found in [all, one] {
        let seqs: Vec<_> = found.events.iter().map(|event| event.seq.0).collect();
        assert_eq!(seqs, [401, 11]);
    }
}

#[tokio::test]
async fn the_newest_decision_is_the_one_that_was_made_last_by_order_and_not_by_the_clock() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let kind = |number| EventKind::Block {
        block: block(&run, number, BlockState::Open),
    };
    scratch
        .ingest(&run, &[event(&run, 1, kind(1)), event(&run, 2, kind(2))])
        .await;
    // An hour is taken from the clock between the two.
    for (number, at) in [(1, 10_000_000), (2, 6_400_000)] {
        let new = NewDecision {
            block: BlockId::new(run.clone(), number),
            shown: Revision(u64::from(number)),
            ruled: Ruled::Allow {
                scope: Scope::Run,
                rule: Box::new(rule("a.example")),
            },
            words: "words".into(),
            at: At::from_millis(at),
            key: None,
            surface: None,
        };
        scratch.store.decide(scratch.fence(), &new).await.unwrap();
    }
    let newest = scratch.store.newest_decision().await.unwrap().unwrap();
    assert_eq!(newest.amendment.block.number(), 2);
    let listed = scratch.store.amendments_of_run(&run).await.unwrap();
    let blocks: Vec<_> = listed
        .iter()
        .map(|stored| stored.amendment.block.number())
        .collect();
    assert_eq!(blocks, [2, 1]);
}
