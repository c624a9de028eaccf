//! Orders: recorded, claimed, moved on, and what they reserve.

use crate::scratch::{Scratch, event};
use foreman_domain::{
    At, CancelCause, EventKind, OrderDone, OrderEvent, OrderFailure, OrderId, OrderState, RunId,
    RunState,
};
use foreman_policy::Policy;
use foreman_store::{
    NewOrder, NewRun, OrderEdit, OrderFile, OrderFilter, OrderMove, RequestKey, StoreError,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};

fn id(text: &str) -> OrderId {
    text.parse().unwrap()
}

fn new(text: &str) -> NewOrder {
    NewOrder {
        id: id(text),
        repo_key: "repo".into(),
        title: format!("order {text}"),
        spec: "{}".into(),
        parent: None,
        group: None,
        source: None,
        slot: None,
        at: At::from_millis(1000),
    }
}

fn attempt(order: &str, bits: u64) -> NewRun {
    NewRun {
        order: id(order),
        id: RunId::from_random(bits),
        repo_key: "repo".into(),
        title: "t".into(),
        details: "{}".into(),
        base_policy: Policy::default(),
        at: At::from_millis(2000),
        key: Some(RequestKey(format!("order-{order}-{bits}"))),
        follows: None,
    }
}

impl Scratch {
    async fn add(&self, orders: &[NewOrder]) -> Result<(), StoreError> {
        self.store.add_orders(self.epoch, orders, None).await
    }

    async fn go(&self, order: &str, event: OrderEvent) -> Result<OrderState, StoreError> {
        let brings = OrderMove::default();
        let at = At::from_millis(3000);
        self.store
            .advance_order(self.epoch, &id(order), event, &brings, at)
            .await
    }

    async fn state(&self, order: &str) -> OrderState {
        self.store.order(&id(order)).await.unwrap().state
    }

    async fn end(&self, run: &RunId, to: RunState) {
        self.ingest(run, &[event(run, 1, EventKind::State { to })])
            .await;
    }
}

#[tokio::test]
async fn orders_are_recorded_together_or_not_at_all() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a")]).await.unwrap();
    let refused = scratch.add(&[new("b"), new("a")]).await;
    assert!(matches!(refused, Err(StoreError::OrderExists(order)) if order == id("a")));
    assert!(matches!(
        scratch.store.order(&id("b")).await,
        Err(StoreError::NoOrder(_))
    ));
    let run = scratch.run(7).await;
    let single = OrderId::of_single_run(&run);
    let refused = scratch.add(&[new(single.as_str())]).await;
    assert!(
        matches!(refused, Err(StoreError::OrderExists(_))),
        "the order of a single run was taken over"
    );
}

#[tokio::test]
async fn an_order_has_one_live_run_and_a_claim_moves_it() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a")]).await.unwrap();
    let first = attempt("a", 1);
    scratch
        .store
        .insert_run(scratch.epoch, &first)
        .await
        .unwrap();
    let order = scratch.store.order(&id("a")).await.unwrap();
    assert_eq!(
        order.state,
        OrderState::Dispatched {
            run: first.id.clone()
        }
    );
    assert_eq!(order.attempts, 1);

    let second = attempt("a", 2);
    let refused = scratch.store.insert_run(scratch.epoch, &second).await;
    assert!(matches!(refused, Err(StoreError::OrderHasRun { .. })));
    assert!(
        scratch.store.run(&second.id).await.is_err(),
        "a refused run was recorded"
    );
    // Also once the first one is over: the order is not in the queue.
    scratch.end(&first.id, RunState::NoChanges).await;
    let refused = scratch.store.insert_run(scratch.epoch, &second).await;
    assert!(matches!(
        refused,
        Err(StoreError::OrderMoved {
            state: "dispatched",
            ..
        })
    ));

    scratch.go("a", OrderEvent::Retried).await.unwrap();
    scratch
        .store
        .insert_run(scratch.epoch, &second)
        .await
        .unwrap();
    assert_eq!(scratch.store.order(&id("a")).await.unwrap().attempts, 2);
    let runs = scratch.store.runs_of_order(&id("a")).await.unwrap();
    assert_eq!(runs, [first.id, second.id]);
}

#[tokio::test]
async fn the_database_itself_refuses_a_second_live_run_of_a_single_runs_order() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let second = NewRun {
        order: OrderId::of_single_run(&run),
        ..attempt("x", 2)
    };
    let refused = scratch.store.insert_run(scratch.epoch, &second).await;
    assert!(
        matches!(refused, Err(StoreError::OrderHasRun { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn moves_follow_the_table_and_a_stale_engine_makes_none() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a")]).await.unwrap();
    let run = attempt("a", 1);
    let done = OrderEvent::Done(OrderDone::NoChanges {
        run: run.id.clone(),
    });
    let refused = scratch.go("a", done.clone()).await;
    assert!(matches!(
        refused,
        Err(StoreError::OrderMoved {
            state: "queued",
            ..
        })
    ));
    scratch.store.insert_run(scratch.epoch, &run).await.unwrap();
    scratch.go("a", done).await.unwrap();
    assert!(scratch.go("a", OrderEvent::Cancelled).await.is_err());

    let stale = scratch.epoch;
    scratch.store.take_epoch().await.unwrap();
    let refused = scratch.store.add_orders(stale, &[new("b")], None).await;
    assert!(matches!(refused, Err(StoreError::StaleEpoch { .. })));
    let refused = scratch
        .store
        .advance_order(
            stale,
            &id("a"),
            OrderEvent::Reopened,
            &OrderMove::default(),
            At::from_millis(0),
        )
        .await;
    assert!(matches!(refused, Err(StoreError::StaleEpoch { .. })));
}

#[tokio::test]
async fn a_run_of_which_nothing_was_started_does_not_count() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a")]).await.unwrap();
    let run = attempt("a", 1);
    scratch.store.insert_run(scratch.epoch, &run).await.unwrap();
    scratch.end(&run.id, RunState::NoChanges).await;
    let brings = OrderMove {
        retry: Some((At::from_millis(9000), "the disk was full".into())),
        uncounted: true,
        of_run: Some(run.id.clone()),
    };
    let of_another = OrderMove {
        of_run: Some(RunId::from_random(99)),
        ..brings.clone()
    };
    let refused = scratch
        .store
        .advance_order(
            scratch.epoch,
            &id("a"),
            OrderEvent::Retried,
            &of_another,
            At::from_millis(1),
        )
        .await;
    assert!(matches!(refused, Err(StoreError::OrderMoved { .. })));
    scratch
        .store
        .advance_order(
            scratch.epoch,
            &id("a"),
            OrderEvent::Retried,
            &brings,
            At::from_millis(1),
        )
        .await
        .unwrap();
    let order = scratch.store.order(&id("a")).await.unwrap();
    assert_eq!(order.attempts, 0);
    assert_eq!(order.retry, brings.retry);
    assert_eq!(order.run, Some(run.id), "which run it was is still known");
}

#[tokio::test]
async fn only_queued_orders_are_edited_and_an_edit_takes_a_fault_away() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a")]).await.unwrap();
    let at = At::from_millis(5);
    for times in 1..=2 {
        scratch
            .store
            .fault_order(scratch.epoch, &id("a"), "the repository is gone", at)
            .await
            .unwrap();
        let fault = scratch.store.order(&id("a")).await.unwrap().fault.unwrap();
        assert_eq!(
            (fault.times, fault.message.as_str()),
            (times, "the repository is gone")
        );
    }
    let edit = OrderEdit {
        repo_key: "other".into(),
        title: "new".into(),
        spec: "{\"v\":1}".into(),
        parent: Some(id("p")),
    };
    scratch
        .store
        .edit_order(scratch.epoch, &id("a"), &edit, at)
        .await
        .unwrap();
    let order = scratch.store.order(&id("a")).await.unwrap();
    assert_eq!(order.fault, None);
    assert_eq!(
        (order.repo_key.as_str(), order.title.as_str()),
        ("other", "new")
    );
    assert_eq!(order.parent, Some(id("p")));
    scratch.go("a", OrderEvent::Cancelled).await.unwrap();
    let refused = scratch
        .store
        .edit_order(scratch.epoch, &id("a"), &edit, at)
        .await;
    assert!(matches!(
        refused,
        Err(StoreError::OrderMoved {
            state: "cancelled",
            ..
        })
    ));
}

#[tokio::test]
async fn a_slot_gets_one_order_however_often_it_is_made() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("nightly")]).await.unwrap();
    let slot = |name: &str, at: i64| NewOrder {
        slot: Some((id("nightly"), At::from_millis(at))),
        ..new(name)
    };
    let (first, later) = (At::from_millis(60_000), At::from_millis(120_000));
    let made = [slot("nightly.1", 60_000)];
    for _ in 0..2 {
        scratch
            .store
            .add_slots(scratch.epoch, &id("nightly"), first, &made)
            .await
            .unwrap();
    }
    let both = [slot("nightly.1", 60_000), slot("nightly.2", 120_000)];
    scratch
        .store
        .add_slots(scratch.epoch, &id("nightly"), later, &both)
        .await
        .unwrap();
    scratch
        .store
        .add_slots(scratch.epoch, &id("nightly"), first, &[])
        .await
        .unwrap();
    let open = scratch.store.orders(OrderFilter::Open).await.unwrap();
    let ids: Vec<String> = open
        .into_iter()
        .map(|order| order.unwrap().id.to_string())
        .collect();
    assert_eq!(ids, ["nightly", "nightly.1", "nightly.2"]);
    let schedule = scratch.store.order(&id("nightly")).await.unwrap();
    assert_eq!(schedule.slots_until, Some(later), "it went back");
}

#[tokio::test]
async fn what_is_reserved_is_settled_once_and_leaves_the_window() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a"), new("b")]).await.unwrap();
    let (store, epoch) = (&scratch.store, scratch.epoch);
    store.reserve(epoch, &id("a"), 1, "10").await.unwrap();
    store.reserve(epoch, &id("a"), 1, "20").await.unwrap();
    store.reserve(epoch, &id("b"), 1, "30").await.unwrap();
    let amounts = |lines: Vec<foreman_store::StoredReservation>| {
        lines
            .into_iter()
            .map(|line| line.amounts)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        amounts(store.open_reservations().await.unwrap()),
        ["20", "30"]
    );
    let used = Some(("7", At::from_millis(5000)));
    store
        .settle_reservation(epoch, &id("a"), 1, used)
        .await
        .unwrap();
    let again = Some(("99", At::from_millis(6000)));
    store
        .settle_reservation(epoch, &id("a"), 1, again)
        .await
        .unwrap();
    store
        .settle_reservation(epoch, &id("b"), 1, None)
        .await
        .unwrap();
    assert!(store.open_reservations().await.unwrap().is_empty());
    let since = |at| store.reservations_since(At::from_millis(at));
    assert_eq!(amounts(since(5000).await.unwrap()), ["7"]);
    assert!(since(5001).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_request_asked_again_tells_which_orders_it_made() {
    let scratch = Scratch::new().await;
    let key = RequestKey("k".into());
    scratch
        .store
        .add_orders(scratch.epoch, &[new("a"), new("b")], Some(&key))
        .await
        .unwrap();
    let subject = scratch.store.subject_of_request(&key).await.unwrap();
    assert_eq!(subject.as_deref(), Some("[\"a\",\"b\"]"));
}

#[tokio::test]
async fn a_file_is_taken_in_whole_or_not_at_all_and_goes_along_when_it_is_renamed() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("taken")]).await.unwrap();
    let file = |path: &str, orders: &[&str]| OrderFile {
        path: path.into(),
        folder: "/f".into(),
        hash: "h".into(),
        orders: orders.iter().map(|order| id(order)).collect(),
        fault: None,
        seen_at: At::from_millis(1),
    };
    let (store, epoch) = (&scratch.store, scratch.epoch);
    let refused = store
        .take_order_file(
            epoch,
            &file("/f/x.toml", &["n", "taken"]),
            &[new("n"), new("taken")],
            &[],
        )
        .await;
    assert!(matches!(refused, Err(StoreError::OrderExists(_))));
    assert!(
        store.order_files().await.unwrap().is_empty(),
        "a refused file is on record"
    );
    assert!(store.order(&id("n")).await.is_err());

    store
        .take_order_file(epoch, &file("/f/x.toml", &["n"]), &[new("n")], &[])
        .await
        .unwrap();
    store
        .move_order_file(epoch, "/f/x.toml", "/f/y.toml", "/f")
        .await
        .unwrap();
    assert_eq!(
        store.order_files().await.unwrap(),
        [file("/f/y.toml", &["n"])]
    );
    assert!(
        store
            .watch_folder(epoch, "/f", At::from_millis(1))
            .await
            .unwrap()
    );
    assert!(
        !store
            .watch_folder(epoch, "/f", At::from_millis(1))
            .await
            .unwrap()
    );
    assert_eq!(store.watched_folders().await.unwrap(), ["/f"]);
    assert!(store.unwatch_folder(epoch, "/f").await.unwrap());
    assert!(!store.unwatch_folder(epoch, "/f").await.unwrap());
}

#[tokio::test]
async fn an_unreadable_order_never_hides_the_others() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a"), new("b")]).await.unwrap();
    let mut by_hand = SqliteConnectOptions::new()
        .filename(scratch.store.path())
        .connect()
        .await
        .unwrap();
    sqlx::query("UPDATE work_orders SET state_json = '{\"state\":\"melted\"}' WHERE id = 'a'")
        .execute(&mut by_hand)
        .await
        .unwrap();
    by_hand.close().await.unwrap();
    let open = scratch.store.orders(OrderFilter::Open).await.unwrap();
    assert!(matches!(&open[0], Err((order, _)) if *order == id("a")));
    assert_eq!(open[1].as_ref().unwrap().id, id("b"));
    assert_eq!(scratch.store.order_standings().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_discarded_result_that_is_brought_back_is_found() {
    let scratch = Scratch::new().await;
    scratch.add(&[new("a"), new("b")]).await.unwrap();
    let (a, b) = (attempt("a", 1), attempt("b", 2));
    for run in [&a, &b] {
        scratch.store.insert_run(scratch.epoch, run).await.unwrap();
        let review = RunState::Review {
            head: "h".into(),
            base: "b".into(),
            agent_succeeded: true,
        };
        scratch.end(&run.id, review).await;
    }
    assert!(scratch.store.restored_orders().await.unwrap().is_empty());
    let discarded = OrderFailure::Discarded { run: a.id.clone() };
    scratch
        .go("a", OrderEvent::Failed(discarded))
        .await
        .unwrap();
    let stopped = OrderFailure::Stopped {
        run: b.id.clone(),
        by: CancelCause::Operator,
    };
    scratch.go("b", OrderEvent::Failed(stopped)).await.unwrap();
    let found = scratch.store.restored_orders().await.unwrap();
    assert_eq!(found, [(id("a"), a.id.clone())]);
    scratch
        .go("a", OrderEvent::Restored { run: a.id.clone() })
        .await
        .unwrap();
    assert_eq!(
        scratch.state("a").await,
        OrderState::Dispatched { run: a.id }
    );
}

#[tokio::test]
async fn settings_are_kept_by_key() {
    let scratch = Scratch::new().await;
    assert_eq!(scratch.store.setting::<u32>("x").await.unwrap(), None);
    scratch
        .store
        .set_setting(scratch.epoch, "x", &1_u32)
        .await
        .unwrap();
    scratch
        .store
        .set_setting(scratch.epoch, "x", &2_u32)
        .await
        .unwrap();
    assert_eq!(scratch.store.setting("x").await.unwrap(), Some(2_u32));
    let unreadable = scratch.store.setting::<Vec<String>>("x").await;
    assert!(matches!(unreadable, Err(StoreError::Unreadable { .. })));
}
