//! Orders in the queue: what starts, what waits and for what, and what becomes of them.

use crate::scene::{DEADLINE, Scene, at_rest, named, open_block};
use foreman_domain::{
    AmendmentState, Code, EventKind, OrderDone, OrderFailure, OrderId, OrderState, RunState, Scope,
};
use foreman_engine::Host;
use foreman_engine::api::{
    AmendRequest, Commands, LimitsChange, OrderAdd, OrderChanges, OrderDraft, OrderList, OrderRef,
    OrderSource, OrderSpec, OrderView, Orders, PolicyQuery, QueuePause, RunList, WatchChange,
    WatchList,
};
use foreman_schedule::{Autonomy, Cadence, Missed, Recurrence, ScopeClaim, WaitReason};
use std::time::{Duration, Instant};

impl Scene {
    fn order(&self, id: &str, script: &[&str]) -> OrderDraft {
        OrderDraft {
            id: Some(id.into()),
            spec: OrderSpec {
                run: self.request(script),
                env_from: vec![],
                prompt: None,
                hints: Default::default(),
                scope: None,
                depends_on: vec![],
                parent: None,
                gate: Default::default(),
                estimate_wall_seconds: None,
            },
            attempts: None,
            agents: vec![],
        }
    }

    /// A host that stays: it dispatches.
    async fn dispatcher(&self) -> Host {
        let host = self.host().await;
        host.dispatch_orders();
        host
    }

    fn file(&self, text: &str) -> OrderAdd {
        OrderAdd {
            draft: None,
            source: Some(OrderSource {
                name: "orders.toml".into(),
                text: text.into(),
                folder: self.dir.path().canonicalize().unwrap(),
                repo: Some(self.repo()),
            }),
        }
    }

    /// Another repository beside the first one, with the same content.
    fn copy_repo_as(&self, name: &str) {
        let done = std::process::Command::new("cp")
            .arg("-a")
            .arg(self.repo())
            .arg(self.dir.path().join(name))
            .status()
            .unwrap();
        assert!(done.success());
    }
}

fn named_order(order: &str) -> OrderRef {
    OrderRef {
        order: order.into(),
    }
}

fn id(text: &str) -> OrderId {
    text.parse().unwrap()
}

async fn add(host: &Host, draft: OrderDraft) -> Orders {
    let request = OrderAdd {
        draft: Some(draft),
        source: None,
    };
    host.order_add(request).await.unwrap()
}

async fn limit(host: &Host, change: LimitsChange) {
    host.orders_limits(change).await.unwrap();
}

async fn show(host: &Host, order: &str) -> OrderView {
    host.order_show(named_order(order)).await.unwrap()
}

async fn order_until(
    host: &Host,
    order: &str,
    what: &str,
    wanted: impl Fn(&OrderView) -> bool,
) -> OrderView {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let view = show(host, order).await;
        if wanted(&view) {
            return view;
        }
        assert!(Instant::now() < deadline, "{order} never {what}: {view:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn in_review(host: &Host, order: &str) -> OrderView {
    order_until(host, order, "came to its review", |view| {
        view.last_run
            .as_ref()
            .is_some_and(|run| matches!(run.state, RunState::Review { .. }))
    })
    .await
}

fn wait(view: &OrderView) -> Option<&WaitReason> {
    view.wait.as_ref().map(|wait| &wait.reason)
}

#[tokio::test]
async fn an_order_waits_until_somebody_stays_and_then_comes_to_its_review() {
    let scene = Scene::new();
    let host = scene.host().await;
    let added = add(&host, scene.order("fix", &["commit:a"])).await;
    assert!(!added.queue.dispatching);
    assert_eq!((added.orders.len(), added.queue.waiting), (1, 1));
    assert!(
        host.run_list(RunList::default())
            .await
            .unwrap()
            .runs
            .is_empty()
    );
    host.dispatch_orders();
    let view = in_review(&host, "fix").await;
    let run = view.last_run.unwrap();
    assert_eq!(run.order, id("fix"));
    assert_eq!(
        view.state,
        OrderState::Dispatched {
            run: run.id.clone()
        }
    );
    assert_eq!((view.attempts, view.runs), (1, vec![run.id]));
    host.close().await;
}

#[tokio::test]
async fn a_cap_holds_the_second_back_and_a_stopped_run_makes_room() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    limit(
        &host,
        LimitsChange {
            total: Some(1),
            ..LimitsChange::default()
        },
    )
    .await;
    add(&host, scene.order("a", &["wait"])).await;
    add(&host, scene.order("b", &["commit:b"])).await;
    let first = order_until(&host, "a", "runs", |view| view.last_run.is_some()).await;
    let second = show(&host, "b").await;
    assert!(
        matches!(wait(&second), Some(WaitReason::Cap { limit: 1, .. })),
        "{second:#?}"
    );
    assert!(second.wait.unwrap().words.contains("cap"));
    host.run_stop(named(&first.last_run.unwrap().id))
        .await
        .unwrap();
    in_review(&host, "b").await;
    let stopped = show(&host, "a").await.state;
    assert!(
        matches!(
            &stopped,
            OrderState::Failed {
                why: OrderFailure::Stopped { .. }
            }
        ),
        "{stopped:?}"
    );
    host.close().await;
}

#[tokio::test]
async fn a_dependency_is_met_by_done_and_by_nothing_else() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    let mut second = scene.order("second", &["commit:b"]);
    second.spec.depends_on = vec![id("first")];
    add(&host, second).await;
    let missing = show(&host, "second").await;
    assert!(missing.wait.unwrap().words.contains("which does not exist"));
    add(&host, scene.order("first", &["exit:3"])).await;
    let failed = order_until(&host, "first", "failed", |view| !view.state.is_open()).await;
    assert!(matches!(
        &failed.state,
        OrderState::Failed {
            why: OrderFailure::Run { .. }
        }
    ));
    let waits = show(&host, "second").await;
    assert!(
        waits
            .wait
            .unwrap()
            .words
            .contains("failed or was cancelled")
    );

    let edit = OrderChanges {
        order: "first".into(),
        argv: Some(vec!["scripted".into(), "exit:0".into()]),
        ..OrderChanges::default()
    };
    let refused = host.order_edit(edit.clone()).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    let mut third = scene.order("third", &["exit:0"]);
    third.spec.run.title = Some("in its place".into());
    add(&host, third).await;
    host.order_edit(OrderChanges {
        order: "second".into(),
        depends_on: Some(vec![id("third")]),
        ..OrderChanges::default()
    })
    .await
    .unwrap();
    in_review(&host, "second").await;
    let done = show(&host, "third").await.state;
    assert!(
        matches!(
            done,
            OrderState::Done {
                how: OrderDone::NoChanges { .. }
            }
        ),
        "{done:?}"
    );
    host.close().await;
}

#[tokio::test]
async fn one_order_with_a_bad_repository_stops_no_other_and_goes_on_when_it_is_mended() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (gone, away) = (scene.dir.path().join("gone"), scene.dir.path().join("away"));
    scene.copy_repo_as("gone");
    let mut bad = scene.order("bad", &["commit:x"]);
    bad.spec.run.repo = gone.canonicalize().unwrap();
    add(&host, scene.order("one", &["commit:a"])).await;
    add(&host, bad).await;
    for name in ["two", "three", "four"] {
        add(&host, scene.order(name, &["commit:a"])).await;
    }
    std::fs::rename(&gone, &away).unwrap();
    host.dispatch_orders();
    for name in ["one", "two", "three", "four"] {
        in_review(&host, name).await;
    }
    let bad = order_until(&host, "bad", "was found out", |view| {
        matches!(wait(view), Some(WaitReason::Fault { .. }))
    })
    .await;
    assert_eq!(bad.attempts, 0, "an attempt was counted");
    let list = host.order_list(OrderList::default()).await.unwrap();
    assert_eq!(list.faults.len(), 1, "{:#?}", list.faults);
    assert_eq!(list.faults[0].order, id("bad"));
    std::fs::rename(&away, &gone).unwrap();
    host.order_dispatch(named_order("bad")).await.unwrap();
    in_review(&host, "bad").await;
    host.close().await;
}

#[tokio::test]
async fn what_cannot_be_an_order_is_refused_and_nothing_of_it_is_kept() {
    let scene = Scene::new();
    let host = scene.host().await;
    add(&host, scene.order("a", &["commit:a"])).await;
    let refused = |text: &str| {
        let request = scene.file(text);
        let host = &host;
        async move { host.order_add(request).await.unwrap_err() }
    };
    let command = "command = [\"scripted\", \"commit:a\"]";
    let circle = format!(
        "{command}\n[[order]]\nid = \"x\"\ndepends_on = [\"y\"]\n[[order]]\nid = \"y\"\ndepends_on = [\"x\"]\n"
    );
    let failure = refused(&circle).await;
    assert_eq!(failure.code, Code::BadInput);
    assert!(
        failure.message.contains("x, y") || failure.message.contains("y, x"),
        "{failure}"
    );
    let double = format!("{command}\n[[order]]\nid = \"n\"\n[[order]]\nid = \"a\"\n");
    assert_eq!(refused(&double).await.code, Code::Conflict);
    let missing =
        format!("{command}\n[[order]]\nid = \"n\"\n[[order]]\nid = \"m\"\nrepo = \"nowhere\"\n");
    let failure = refused(&missing).await;
    assert!(failure.message.starts_with("order m:"), "{failure}");
    let unknown = refused(&format!("{command}\nretrys = 1\n")).await;
    assert_eq!(
        (unknown.message.as_str(), unknown.hint.as_deref()),
        (
            "orders.toml, line 2, column 1: \"retrys\" is not a key of an order",
            Some("Did you mean \"retries\"?")
        )
    );
    let all = OrderList {
        all: true,
        limit: None,
    };
    let listed = host.order_list(all).await.unwrap();
    assert_eq!(
        listed.orders.len(),
        1,
        "something was half-made: {listed:#?}"
    );
    let mut itself = scene.order("b", &["commit:a"]);
    itself.spec.depends_on = vec![id("b")];
    let request = OrderAdd {
        draft: Some(itself),
        source: None,
    };
    assert!(
        host.order_add(request)
            .await
            .unwrap_err()
            .message
            .contains("for ever")
    );
    host.close().await;
}

#[tokio::test]
async fn dispatch_by_hand_passes_a_pause_and_no_cap() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    host.orders_pause(QueuePause {
        repo: None,
        paused: true,
    })
    .await
    .unwrap();
    let mut people = scene.order("people", &["wait"]);
    people.spec.hints.autonomy = Autonomy::HumanOnly;
    add(&host, people).await;
    add(&host, scene.order("other", &["commit:a"])).await;
    assert_eq!(
        wait(&show(&host, "people").await),
        Some(&WaitReason::HumanOnly)
    );
    assert_eq!(wait(&show(&host, "other").await), Some(&WaitReason::Paused));
    let started = host.order_dispatch(named_order("people")).await.unwrap();
    let run = started.last_run.unwrap().id;
    limit(
        &host,
        LimitsChange {
            total: Some(1),
            ..LimitsChange::default()
        },
    )
    .await;
    let refused = host.order_dispatch(named_order("other")).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    assert!(refused.message.contains("cap"), "{refused}");
    let again = host
        .order_dispatch(named_order("people"))
        .await
        .unwrap_err();
    assert!(again.message.contains(run.as_str()), "{again}");
    let cancelled = host.order_cancel(named_order("people")).await.unwrap();
    assert_eq!(cancelled.state, OrderState::Cancelled);
    let stopped = host.run_show(named(&run)).await.unwrap();
    assert!(
        matches!(stopped.state, RunState::Cancelled { .. }),
        "{stopped:?}"
    );
    host.orders_pause(QueuePause {
        repo: None,
        paused: false,
    })
    .await
    .unwrap();
    in_review(&host, "other").await;
    host.close().await;
}

#[tokio::test]
async fn a_pause_of_one_repository_holds_back_only_its_orders() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    scene.copy_repo_as("second");
    let second = scene.dir.path().canonicalize().unwrap().join("second");
    host.orders_pause(QueuePause {
        repo: Some(scene.repo()),
        paused: true,
    })
    .await
    .unwrap();
    add(&host, scene.order("here", &["commit:a"])).await;
    let mut there = scene.order("there", &["commit:a"]);
    there.spec.run.repo = second;
    add(&host, there).await;
    in_review(&host, "there").await;
    let here = show(&host, "here").await;
    assert_eq!(wait(&here), Some(&WaitReason::Paused));
    assert_eq!(here.attempts, 0);
    host.close().await;
}

#[tokio::test]
async fn a_decision_for_an_order_counts_in_its_next_run() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    add(
        &host,
        scene.order("again", &["hold:registry.example", "wait"]),
    )
    .await;
    let first = order_until(&host, "again", "runs", |view| view.last_run.is_some()).await;
    let first = first.last_run.unwrap().id;
    let block = open_block(&host, &first).await;
    host.block_amend(AmendRequest {
        limit: None,
        block: block.block.id.to_string(),
        expect: block.expect,
        scope: Some(Scope::Order),
        rule: None,
        confirmed: true,
        expires: None,
        surface: None,
    })
    .await
    .unwrap();
    host.run_stop(named(&first)).await.unwrap();
    order_until(&host, "again", "ended", |view| !view.state.is_open()).await;
    let over = host.order_dispatch(named_order("again")).await.unwrap();
    let second = over.last_run.unwrap().id;
    assert_ne!(first, second);
    assert_eq!(over.runs, [first.clone(), second.clone()]);
    let policy = host
        .policy_show(PolicyQuery {
            run: Some(second.to_string()),
            repo: None,
        })
        .await
        .unwrap();
    let rules: Vec<_> = policy
        .policy
        .egress
        .iter()
        .map(|rule| rule.host.to_string())
        .collect();
    assert_eq!(
        rules,
        ["registry.example"],
        "the second run starts without the decision"
    );
    let decided = &policy.amendments[0];
    assert_eq!(
        (decided.scope, decided.state),
        (Scope::Order, AmendmentState::Active)
    );
    assert_eq!(decided.id.run(), &first);
    host.order_cancel(named_order("again")).await.unwrap();
    host.close().await;
}

#[tokio::test]
async fn a_failure_to_prepare_is_tried_again_within_the_orders_retries_and_no_other_failure_is() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    // A branch of this name leaves no room for those of runs.
    scene.git(&["branch", "foreman"]);
    let mut order = scene.order("again", &["commit:a"]);
    order.spec.hints.retries = 1;
    add(&host, order).await;
    let waits = order_until(&host, "again", "was put back", |view| {
        matches!(
            wait(view),
            Some(WaitReason::Retry { .. } | WaitReason::Fault { .. })
        )
    })
    .await;
    assert!(
        matches!(wait(&waits), Some(WaitReason::Retry { .. })),
        "{waits:#?}"
    );
    assert_eq!((waits.state, waits.attempts), (OrderState::Queued, 1));
    scene.git(&["branch", "-D", "foreman"]);
    let view = in_review(&host, "again").await;
    assert_eq!((view.attempts, view.runs.len()), (2, 2));

    let mut agent = scene.order("agent", &["exit:3"]);
    agent.spec.hints.retries = 5;
    add(&host, agent).await;
    let failed = order_until(&host, "agent", "failed", |view| !view.state.is_open()).await;
    assert_eq!(failed.attempts, 1, "an agent's failure was tried again");
    host.close().await;
}

#[tokio::test]
async fn attempts_side_by_side_share_a_group_and_one_that_is_done_is_enough() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    let mut order = scene.order("task", &["exit:0"]);
    order.attempts = Some(3);
    order.spec.scope = Some(ScopeClaim {
        patterns: vec!["**".into()],
        enforcement: Default::default(),
        strict: false,
    });
    let added = add(&host, order).await;
    let ids: Vec<_> = added
        .orders
        .iter()
        .map(|order| order.id.to_string())
        .collect();
    assert_eq!(ids, ["task-1", "task-2", "task-3"]);
    assert!(
        added
            .orders
            .iter()
            .all(|order| order.group.as_deref() == Some("task"))
    );
    let mut after = scene.order("after", &["commit:z"]);
    after.spec.depends_on = vec![id("task")];
    add(&host, after).await;
    in_review(&host, "after").await;
    for name in ids {
        order_until(&host, &name, "ended", |view| !view.state.is_open()).await;
    }
    host.close().await;
}

#[tokio::test]
async fn what_a_run_changed_outside_of_its_orders_scope_is_told() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    for (name, pattern) in [("inside", "*.txt"), ("outside", "docs/**")] {
        let mut order = scene.order(name, &["commit:a.txt"]);
        order.spec.scope = Some(ScopeClaim {
            patterns: vec![pattern.into()],
            enforcement: Default::default(),
            strict: false,
        });
        add(&host, order).await;
        let run = in_review(&host, name).await.last_run.unwrap();
        let events = crate::scene::events_until(&host, &run.id, |_| true).await;
        let warned = events.iter().any(|event| {
            matches!(&event.kind, EventKind::Warning { message }
                if message.contains("outside of the order's declared scope: a.txt"))
        });
        assert_eq!(warned, name == "outside", "{events:#?}");
        assert_eq!(run.outside_scope.is_empty(), name == "inside", "{run:?}");
    }
    host.close().await;
}

#[tokio::test]
async fn a_budget_is_reserved_before_a_run_and_settled_after_it() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    limit(
        &host,
        LimitsChange {
            budget_wall_seconds: Some(3600),
            ..LimitsChange::default()
        },
    )
    .await;
    let mut large = scene.order("large", &["commit:a"]);
    large.spec.estimate_wall_seconds = Some(7200);
    add(&host, large).await;
    let mut first = scene.order("first", &["wait"]);
    first.spec.estimate_wall_seconds = Some(3000);
    add(&host, first).await;
    let first = order_until(&host, "first", "runs", |view| view.last_run.is_some()).await;
    let mut second = scene.order("second", &["commit:b"]);
    second.spec.estimate_wall_seconds = Some(3000);
    let queue = add(&host, second).await.queue;
    assert_eq!(queue.wall_used_seconds, 3000);
    let waits = show(&host, "second").await;
    assert!(
        matches!(wait(&waits), Some(WaitReason::Budget { left: 600, .. })),
        "{waits:#?}"
    );
    host.run_stop(named(&first.last_run.unwrap().id))
        .await
        .unwrap();
    in_review(&host, "second").await;
    assert!(matches!(
        wait(&show(&host, "large").await),
        Some(WaitReason::Budget { .. })
    ));
    let deadline = Instant::now() + DEADLINE;
    loop {
        let queue = host.orders_limits(LimitsChange::default()).await.unwrap();
        if queue.wall_used_seconds < 600 {
            break;
        }
        assert!(Instant::now() < deadline, "never settled: {queue:#?}");
        host.order_list(OrderList::default()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let change = LimitsChange {
        budget_tokens: Some(1000),
        budget_cost_micros: Some(5),
        ..LimitsChange::default()
    };
    let budgets = host.orders_limits(change).await.unwrap().limits.budgets;
    assert_eq!((budgets.tokens, budgets.cost_micros), (Some(1000), Some(5)));
    host.close().await;
}

#[tokio::test]
async fn a_recurring_order_makes_one_order_a_slot_whoever_hosts() {
    let scene = Scene::new();
    let host = scene.host().await;
    let soon = foreman_domain::At::from_millis(foreman_domain::At::now().as_millis() + 2500);
    let mut order = scene.order("often", &["exit:0"]);
    order.spec.hints.recurrence = Some(Recurrence {
        cadence: Cadence::Every {
            every_seconds: 3600,
            from: soon,
        },
        zone: None,
        missed: Missed::Once,
    });
    let added = add(&host, order).await;
    assert_eq!(
        added.orders[0].next_slot.map(|at| at.as_millis() / 1000),
        Some(soon.as_millis() / 1000)
    );
    assert_eq!(added.queue.waiting, 0);
    host.dispatch_orders();
    let all = || OrderList {
        all: true,
        limit: None,
    };
    let made = |orders: &Orders| {
        let made = orders
            .orders
            .iter()
            .filter(|order| order.schedule == Some(id("often")));
        made.map(|order| (order.id.clone(), order.state.clone()))
            .collect::<Vec<_>>()
    };
    let deadline = Instant::now() + DEADLINE;
    let slot = loop {
        let orders = host.order_list(all()).await.unwrap();
        if let [(slot, OrderState::Done { .. })] = made(&orders).as_slice() {
            break slot.clone();
        }
        assert!(Instant::now() < deadline, "no slot was made: {orders:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    host.close().await;
    let host = scene.dispatcher().await;
    let extra = host.order_dispatch(named_order("often")).await.unwrap();
    assert_ne!(extra.id, slot);
    let schedule = show(&host, "often").await;
    assert_eq!(
        schedule.state,
        OrderState::Queued,
        "the recurring one ran itself"
    );
    let orders = host.order_list(all()).await.unwrap();
    assert_eq!(made(&orders).len(), 2, "{orders:#?}");
    host.order_cancel(named_order("often")).await.unwrap();
    host.close().await;
}

#[tokio::test]
async fn files_of_a_watched_folder_are_taken_in_once_and_a_bad_one_stops_no_other() {
    let scene = Scene::new();
    let host = scene.dispatcher().await;
    let folder = scene.dir.path().canonicalize().unwrap().join("orders");
    std::fs::create_dir(&folder).unwrap();
    let text = |file: &str| {
        format!(
            "+++\nrepo = \"../repo\"\ncommand = [\"scripted\", \"commit:{file}\"]\nautonomy = \"human_only\"\n+++\n"
        )
    };
    std::fs::write(folder.join("early.md"), text("early")).unwrap();
    std::fs::write(folder.join("bad.toml"), "repoo = 1\n").unwrap();
    let change = WatchChange {
        folder: folder.clone(),
        watched: true,
    };
    let watched = host.orders_watch(change.clone()).await.unwrap();
    assert_eq!(watched.folders, std::slice::from_ref(&folder));
    show(&host, "early").await;
    let list = host.order_list(OrderList::default()).await.unwrap();
    assert_eq!(list.file_faults.len(), 1, "{:#?}", list.file_faults);
    assert!(
        list.file_faults[0]
            .message
            .contains("line 1, column 1: \"repoo\"")
    );

    // Written beside and put in place, as careful writers do.
    std::fs::write(folder.join(".late.md.tmp"), text("late")).unwrap();
    std::fs::rename(folder.join(".late.md.tmp"), folder.join("late.md")).unwrap();
    let appears = |name: &'static str| {
        let host = &host;
        async move {
            let deadline = Instant::now() + DEADLINE;
            while host.order_show(named_order(name)).await.is_err() {
                assert!(Instant::now() < deadline, "{name} was never taken in");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    appears("late").await;
    // Mended, renamed, copied, changed: one order each, and the change is one of the order.
    std::fs::write(
        folder.join("bad.toml"),
        "repo = \"../repo\"\ncommand = [\"scripted\"]\nautonomy = \"human_only\"\n",
    )
    .unwrap();
    appears("bad").await;
    std::fs::rename(folder.join("early.md"), folder.join("renamed.md")).unwrap();
    std::fs::write(folder.join("copy.md"), text("late")).unwrap();
    let title = "+++\ntitle = \"changed\"\n";
    std::fs::write(
        folder.join("late.md"),
        text("late").replacen("+++\n", title, 1),
    )
    .unwrap();
    order_until(&host, "late", "changed", |view| view.title == "changed").await;
    host.close().await;

    // The next engine looks at everything again.
    let host = scene.dispatcher().await;
    let deadline = Instant::now() + DEADLINE;
    let watched = loop {
        let watched = host.orders_watched(WatchList::default()).await.unwrap();
        let fault = |name: &str| {
            let file = watched.files.iter().find(|file| file.file.ends_with(name));
            file.is_some_and(|file| file.fault.is_some())
        };
        let is_renamed = watched
            .files
            .iter()
            .any(|file| file.file.ends_with("renamed.md"));
        if fault("copy.md") && is_renamed {
            break watched;
        }
        assert!(Instant::now() < deadline, "{watched:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let orders = host.order_list(OrderList::default()).await.unwrap();
    let mut ids: Vec<_> = orders
        .orders
        .iter()
        .map(|order| order.id.to_string())
        .collect();
    ids.sort();
    assert_eq!(ids, ["bad", "early", "late"], "{watched:#?}");
    assert_eq!(
        std::fs::read_to_string(folder.join("renamed.md")).unwrap(),
        text("early"),
        "a file was written to"
    );

    // What has started is not changed by its file; that is told.
    host.order_dispatch(named_order("early")).await.unwrap();
    in_review(&host, "early").await;
    std::fs::write(folder.join("renamed.md"), text("other")).unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        // The id of a file without one is its name's, so this one is no longer that of the order.
        let list = host.order_list(OrderList::default()).await.unwrap();
        if list.orders.iter().any(|order| order.id == id("renamed")) {
            break;
        }
        assert!(Instant::now() < deadline, "{list:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = host
        .orders_watch(WatchChange {
            folder: scene.data().join("worktrees"),
            watched: true,
        })
        .await
        .unwrap_err();
    assert!(refused.message.contains("what agents write"), "{refused}");
    let none = WatchChange {
        watched: false,
        ..change
    };
    assert!(host.orders_watch(none).await.unwrap().folders.is_empty());
    host.close().await;
}

/// Moments at which the engine is killed after orders were handed in, in milliseconds.
const MOMENTS: [u64; 10] = [0, 10, 20, 35, 50, 70, 90, 120, 180, 260];

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_neither_lost_nor_started_twice_whenever_the_engine_is_killed() {
    let scene = Scene::new();
    for (round, moment) in MOMENTS.into_iter().enumerate() {
        let mut other = scene.other_dispatcher();
        assert_eq!(other.role, "hosting", "after {moment} ms");
        let host = scene.host().await;
        let name = format!("o{round}");
        add(&host, scene.order(&name, &["line:hello", "commit:a"])).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        other.kill();
        host.dispatch_orders();
        let view = in_review(&host, &name).await;
        let kept = view.last_run.clone().unwrap();
        assert_eq!(view.attempts, 1, "after {moment} ms: {view:#?}");
        for run in view.runs.iter().filter(|run| **run != kept.id) {
            let undone = at_rest(&host, run).await;
            assert!(
                matches!(undone.state, RunState::Failed { .. }),
                "after {moment} ms: {undone:?}"
            );
        }
        host.close().await;
    }
    let branches = scene.git(&["branch", "--list", "foreman/*"]);
    assert_eq!(branches.lines().count(), MOMENTS.len(), "{branches}");
}
