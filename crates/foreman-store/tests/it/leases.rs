//! Who is in charge: of the file, and of a run.

use crate::scratch::{Scratch, output};
use foreman_domain::{At, Epoch, Fence, RunEpoch, RunId};
use foreman_store::{StoreError, Taken};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(600);
const OVER: Duration = Duration::ZERO;

fn ours(taken: Taken) -> Epoch {
    let epoch = match taken {
        Taken::Ours(epoch) => Some(epoch),
        Taken::Held { .. } => None,
    };
    epoch.unwrap()
}

#[tokio::test]
async fn a_lease_is_waited_for_unless_it_expired_was_given_back_or_its_holder_is_dead() {
    let store = Scratch::new().await.store;
    let first = ours(store.take_over("first", LONG, None).await.unwrap());
    match store.take_over("second", LONG, None).await.unwrap() {
        Taken::Held { holder, expires_in } => {
            assert_eq!(holder, "first");
            assert!(
                expires_in <= LONG && expires_in > LONG / 2,
                "{expires_in:?}"
            );
        }
        Taken::Ours(_) => panic!("a lease that holds was taken over"),
    }
    // A death of somebody else is no reason.
    let other = store
        .take_over("second", LONG, Some("third"))
        .await
        .unwrap();
    assert!(matches!(other, Taken::Held { .. }));
    let second = ours(
        store
            .take_over("second", LONG, Some("first"))
            .await
            .unwrap(),
    );
    assert_eq!(second, first.next());
    store.release(second).await.unwrap();
    let third = ours(store.take_over("third", OVER, None).await.unwrap());
    let fourth = ours(store.take_over("fourth", LONG, None).await.unwrap());
    assert_eq!(fourth, third.next());
    assert_eq!(store.holder().await.unwrap().as_deref(), Some("fourth"));
}

#[tokio::test]
async fn an_expired_lease_is_renewed_as_long_as_nobody_took_over() {
    let store = Scratch::new().await.store;
    let first = ours(store.take_over("first", OVER, None).await.unwrap());
    store.renew(first, &[], LONG).await.unwrap();
    let held = store.take_over("second", LONG, None).await.unwrap();
    assert!(matches!(held, Taken::Held { .. }));
    store.renew(first, &[], OVER).await.unwrap();
    let second = ours(store.take_over("second", LONG, None).await.unwrap());
    for refused in [
        store.renew(first, &[], LONG).await.map(drop),
        store.release(first).await,
    ] {
        assert!(
            matches!(refused, Err(StoreError::StaleEpoch { mine, now }) if mine == first && now == second)
        );
    }
}

#[tokio::test]
async fn a_claim_fences_every_write_of_the_claim_before_it() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let old = scratch.fence();
    let claim = scratch.store.claim_run(old.engine, &run, LONG).await;
    let new = Fence {
        run: claim.unwrap(),
        ..old
    };
    assert_eq!(new.run, RunEpoch(old.run.0 + 1));
    let store = &scratch.store;
    let event = [output(&run, 1)];
    for refused in [
        store.ingest(old, &run, &event).await.map(drop),
        store.set_details(old, &run, "{\"stale\":1}").await,
        store.ask_stop(old, &run, At::from_millis(1)).await,
        store.note_killed(old, &run, 9).await,
        store.let_go(old, &run).await,
    ] {
        assert!(
            matches!(&refused, Err(StoreError::StaleClaim { mine, now, .. }) if *mine == old.run && *now == new.run),
            "{refused:?}"
        );
    }
    let untouched = store.run(&run).await.unwrap();
    assert_eq!(untouched.details, "{}");
    assert_eq!((untouched.stop_asked_at, untouched.killed), (None, None));
    assert_eq!(untouched.last_seq.0, 0);
    store.ingest(new, &run, &event).await.unwrap();
    store.note_killed(new, &run, 3).await.unwrap();
    assert_eq!(store.run(&run).await.unwrap().killed, Some(3));
}

#[tokio::test]
async fn a_heartbeat_renews_what_is_followed_and_names_what_is_not_ours_any_more() {
    let scratch = Scratch::new().await;
    let (ours, lost, idle) = (
        scratch.run(1).await,
        scratch.run(2).await,
        scratch.run(3).await,
    );
    let epoch = scratch.epoch;
    let claims: Vec<(RunId, RunEpoch)> = [&ours, &lost]
        .map(|run| (run.clone(), scratch.fence().run))
        .to_vec();
    scratch.store.claim_run(epoch, &lost, OVER).await.unwrap();
    let named = scratch.store.renew(epoch, &claims, LONG).await.unwrap();
    assert_eq!(named, std::slice::from_ref(&lost));
    let lease = scratch.store.run_lease(&ours).await.unwrap();
    let (beat, end) = (lease.heartbeat_at.unwrap(), lease.expires_at.unwrap());
    assert_eq!(end.as_millis() - beat.as_millis(), 600_000);
    assert_eq!(
        scratch.store.run_lease(&idle).await.unwrap().heartbeat_at,
        None
    );
    let fence = scratch.fence();
    scratch.store.let_go(fence, &ours).await.unwrap();
    let lease = scratch.store.run_lease(&ours).await.unwrap();
    assert_eq!((lease.epoch, lease.expires_at), (fence.run, None));
}
