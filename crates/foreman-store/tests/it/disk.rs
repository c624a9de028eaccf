//! Removals survive until they are done; the log says each thing once.

use crate::scratch::Scratch;
use foreman_domain::{At, Epoch};
use foreman_store::{DiskAction, DiskEntry, StoreError};

#[tokio::test]
async fn a_removal_stays_asked_for_until_it_is_done() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let store = &scratch.store;
    let at = At::from_millis;
    store.ask_removal(scratch.epoch, &run, at(5)).await.unwrap();
    store
        .removal_failed(scratch.epoch, &run, at(6), "a file cannot be deleted")
        .await
        .unwrap();
    // Asked again, it is the same removal.
    store.ask_removal(scratch.epoch, &run, at(9)).await.unwrap();
    let pending = store.pending_removals().await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!((pending[0].asked_at, pending[0].tries), (at(5), 1));
    assert_eq!(
        pending[0].error.as_deref(),
        Some("a file cannot be deleted")
    );
    for _ in 0..2 {
        store.forget_removal(scratch.epoch, &run).await.unwrap();
    }
    assert_eq!(store.pending_removals().await.unwrap(), []);
}

#[tokio::test]
async fn the_same_finding_about_a_run_is_noted_once() {
    let scratch = Scratch::new().await;
    let (one, other) = (scratch.run(1).await, scratch.run(2).await);
    let note = async |run, action, detail: &str| {
        let entry = DiskEntry {
            at: At::from_millis(1),
            run,
            action,
            detail: detail.into(),
            bytes: 7,
        };
        let noted = scratch.store.note_disk(scratch.epoch, &entry).await;
        noted.unwrap();
    };
    for _ in 0..3 {
        note(one.clone(), DiskAction::Kept, "dirty").await;
        note(other.clone(), DiskAction::Kept, "dirty").await;
    }
    note(one.clone(), DiskAction::Kept, "live").await;
    note(one.clone(), DiskAction::Kept, "dirty").await;
    note(one.clone(), DiskAction::Removed, "refs/x").await;
    note(one.clone(), DiskAction::Removed, "refs/x").await;
    let log = scratch.store.disk_log(100).await.unwrap();
    let told: Vec<_> = log
        .iter()
        .rev()
        .filter(|entry| entry.run == one)
        .map(|entry| (entry.action.tag(), entry.detail.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("kept", "dirty"),
            ("kept", "live"),
            ("kept", "dirty"),
            ("removed", "refs/x"),
            ("removed", "refs/x")
        ]
    );
    assert_eq!(log.iter().filter(|entry| entry.run == other).count(), 1);
}

#[tokio::test]
async fn an_engine_that_was_replaced_removes_nothing() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let stale = Epoch(scratch.epoch.0 - 1);
    let asked = scratch
        .store
        .ask_removal(stale, &run, At::from_millis(1))
        .await;
    assert!(matches!(asked, Err(StoreError::StaleEpoch { .. })));
    let noted = DiskEntry {
        at: At::from_millis(1),
        run,
        action: DiskAction::Failed,
        detail: String::new(),
        bytes: 0,
    };
    let noted = scratch.store.note_disk(stale, &noted).await;
    assert!(matches!(noted, Err(StoreError::StaleEpoch { .. })));
}
