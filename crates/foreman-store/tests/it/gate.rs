//! Rounds of checks, syncs under way, the merge queue, pushes.

use crate::scratch::Scratch;
use foreman_domain::{At, Epoch, HoldId, Revision, RunId};
use foreman_store::{AskedBy, MergeFilter, MergeStanding, NewMerge, StoreError};

fn now() -> At {
    At::from_millis(5_000)
}

fn merge(run: &RunId, head: &str) -> NewMerge {
    NewMerge {
        run: run.clone(),
        by: AskedBy::Operator,
        head: head.into(),
        revision: Revision(1),
        despite: None,
        at: now(),
        key: None,
    }
}

#[tokio::test]
async fn a_round_is_gone_on_with_and_another_commit_takes_its_place() {
    let scratch = Scratch::new().await;
    let (store, epoch) = (&scratch.store, scratch.epoch);
    let run = scratch.run(1).await;
    assert_eq!(store.newest_round(&run).await.unwrap(), None);
    for _ in 0..2 {
        assert_eq!(
            store.begin_round(epoch, &run, "aa", now()).await.unwrap(),
            1
        );
    }
    assert_eq!(
        store.begin_round(epoch, &run, "bb", now()).await.unwrap(),
        2
    );
    let open = store.open_rounds().await.unwrap();
    assert_eq!(open, [(run.clone(), "bb".to_owned())]);
    store
        .end_round(epoch, &run, 2, "[]", Some("it was stopped"), now())
        .await
        .unwrap();
    // What is over stays as it was.
    store
        .end_round(epoch, &run, 2, "[1]", None, now())
        .await
        .unwrap();
    let newest = store.newest_round(&run).await.unwrap().unwrap();
    assert_eq!(newest.results.as_deref(), Some("[]"));
    assert_eq!(newest.trouble.as_deref(), Some("it was stopped"));
    assert!(store.open_rounds().await.unwrap().is_empty());
    assert_eq!(
        store.begin_round(epoch, &run, "bb", now()).await.unwrap(),
        3
    );
    assert_eq!(store.highest_block(&run).await.unwrap(), (0, HoldId(0)));
}

#[tokio::test]
async fn a_run_is_in_the_queue_once_and_entries_keep_their_order() {
    let scratch = Scratch::new().await;
    let (store, epoch) = (&scratch.store, scratch.epoch);
    let (one, two) = (scratch.run(1).await, scratch.run(2).await);
    let first = store.queue_merge(epoch, &merge(&one, "aa")).await.unwrap();
    assert_eq!(
        store.queue_merge(epoch, &merge(&one, "bb")).await.unwrap(),
        first
    );
    let second = store.queue_merge(epoch, &merge(&two, "cc")).await.unwrap();
    let filter = MergeFilter {
        limit: 10,
        ..MergeFilter::default()
    };
    let numbers = |entries: Vec<foreman_store::StoredMerge>| {
        entries.iter().map(|entry| entry.number).collect::<Vec<_>>()
    };
    assert_eq!(
        numbers(store.merges(filter).await.unwrap()),
        [first, second]
    );
    let returned = MergeStanding::Returned {
        reason: "a conflict".into(),
    };
    store
        .move_merge(epoch, first, &returned, now())
        .await
        .unwrap();
    store
        .move_merge(epoch, first, &MergeStanding::Working, now())
        .await
        .unwrap();
    assert_eq!(numbers(store.merges(filter).await.unwrap()), [second]);
    let newest = store.newest_merge(&one).await.unwrap().unwrap();
    assert_eq!((newest.head.as_str(), &newest.standing), ("aa", &returned));
    let third = store.queue_merge(epoch, &merge(&one, "bb")).await.unwrap();
    assert!(third > second);
    let all = MergeFilter {
        all: true,
        limit: 10,
        run: Some(&one),
    };
    assert_eq!(numbers(store.merges(all).await.unwrap()), [third, first]);
    store
        .refuse_merge(epoch, &merge(&two, "dd"), "a lock file")
        .await
        .unwrap();
    let refused = store.newest_merge(&two).await.unwrap().unwrap();
    assert!(refused.standing.is_over() && refused.ended_at == Some(now()));
}

#[tokio::test]
async fn a_stale_engine_writes_nothing_at_the_gate() {
    let scratch = Scratch::new().await;
    let store = &scratch.store;
    let run = scratch.run(1).await;
    let old = Epoch(0);
    let is_stale = |result: Result<(), StoreError>| {
        assert!(
            matches!(result, Err(StoreError::StaleEpoch { .. })),
            "{result:?}"
        );
    };
    is_stale(store.begin_round(old, &run, "aa", now()).await.map(drop));
    is_stale(store.queue_merge(old, &merge(&run, "aa")).await.map(drop));
    is_stale(store.begin_sync(old, &run, "{}").await);
    let place = ("origin", "topic");
    is_stale(store.note_push(old, &run, place, "aa", now()).await);
    assert!(store.open_rounds().await.unwrap().is_empty());
    assert!(store.open_syncs().await.unwrap().is_empty());
    assert_eq!(store.pushed(&run, place).await.unwrap(), None);
}

#[tokio::test]
async fn a_sync_is_remembered_until_it_is_done_and_a_push_by_its_branch() {
    let scratch = Scratch::new().await;
    let (store, epoch) = (&scratch.store, scratch.epoch);
    let run = scratch.run(1).await;
    store.begin_sync(epoch, &run, "1").await.unwrap();
    store.begin_sync(epoch, &run, "2").await.unwrap();
    let open = store.open_syncs().await.unwrap();
    assert_eq!(open, [(run.clone(), "2".to_owned())]);
    for _ in 0..2 {
        store.end_sync(epoch, &run).await.unwrap();
    }
    assert!(store.open_syncs().await.unwrap().is_empty());
    for head in ["aa", "bb"] {
        store
            .note_push(epoch, &run, ("origin", "topic"), head, now())
            .await
            .unwrap();
    }
    let left = store.pushed(&run, ("origin", "topic")).await.unwrap();
    assert_eq!(left.as_deref(), Some("bb"));
    assert_eq!(store.pushed(&run, ("other", "topic")).await.unwrap(), None);
}
