//! Each rule of dispatch by itself.

use crate::making::{id, ids, live, needing, now, order, seconds_from_now, snapshot, with};
use foreman_domain::OrderId;
use foreman_schedule::{
    Amounts, Autonomy, BudgetKind, BudgetUse, CapKind, Complexity, Decision, Estimate, Impact,
    OrderFault, RetryAt, Snapshot, Standing, Unmet, UnmetState, WaitReason, dispatch,
};

fn reason(decision: &Decision, name: &str) -> WaitReason {
    let found = decision
        .waiting
        .iter()
        .find(|(order, _)| *order == id(name));
    found.expect("the order waits").1.clone()
}

fn started(snapshot: &Snapshot) -> Vec<OrderId> {
    dispatch(snapshot).start
}

#[test]
fn the_queue_is_sorted_by_priority_impact_complexity_age_and_id() {
    let orders = vec![
        with(order("z-old"), |o| o.created = Some(seconds_from_now(-9))),
        with(order("a-undated"), |o| o.created = None),
        order("b"),
        order("a"),
        with(order("large"), |o| {
            o.hints.complexity = Some(Complexity::Large)
        }),
        with(order("small"), |o| {
            o.hints.complexity = Some(Complexity::Small)
        }),
        with(order("medium"), |o| {
            o.hints.complexity = Some(Complexity::Medium)
        }),
        with(order("worth-low"), |o| o.hints.impact = Some(Impact::Low)),
        with(order("worth-high"), |o| o.hints.impact = Some(Impact::High)),
        with(order("worth-medium"), |o| {
            o.hints.impact = Some(Impact::Medium)
        }),
        with(order("first"), |o| o.hints.priority = true),
    ];
    let expected = [
        "first",
        "worth-high",
        "worth-medium",
        "worth-low",
        "small",
        "medium",
        "large",
        "z-old",
        "a",
        "b",
        "a-undated",
    ];
    assert_eq!(started(&snapshot(orders, 0)), ids(&expected));
}

#[test]
fn only_ready_orders_are_spoken_of() {
    let orders = vec![
        with(order("done"), |o| o.standing = Standing::Done),
        with(order("closed"), |o| o.standing = Standing::Closed),
        with(order("flying"), |o| o.standing = Standing::InFlight),
    ];
    assert_eq!(dispatch(&snapshot(orders, 0)), Decision::default());
}

#[test]
fn work_for_people_waits_for_them() {
    let people = with(order("p"), |o| o.hints.autonomy = Autonomy::HumanOnly);
    let decision = dispatch(&snapshot(vec![people], 0));
    assert_eq!(reason(&decision, "p"), WaitReason::HumanOnly);
}

#[test]
fn an_order_does_not_start_before_its_time_and_starts_at_it() {
    let at = seconds_from_now(1);
    let later = with(order("later"), |o| o.hints.not_before = Some(at));
    let due = with(order("due"), |o| o.hints.not_before = Some(now()));
    let decision = dispatch(&snapshot(vec![later, due], 0));
    assert_eq!(decision.start, ids(&["due"]));
    assert_eq!(reason(&decision, "later"), WaitReason::NotBefore { at });
}

#[test]
fn a_failed_order_waits_for_its_next_attempt() {
    let retry = |seconds| RetryAt {
        at: seconds_from_now(seconds),
        why: "the remote did not answer".into(),
    };
    let later = with(order("later"), |o| o.retry = Some(retry(5)));
    let due = with(order("due"), |o| o.retry = Some(retry(0)));
    let decision = dispatch(&snapshot(vec![later, due], 0));
    assert_eq!(decision.start, ids(&["due"]));
    let RetryAt { at, why } = retry(5);
    assert_eq!(reason(&decision, "later"), WaitReason::Retry { at, why });
}

#[test]
fn a_blocker_takes_the_place_of_what_depends_on_it_however_far_away() {
    let urgent = with(needing("urgent", &["middle"]), |o| o.hints.priority = true);
    let orders = vec![
        order("aaa"),
        urgent,
        needing("middle", &["root"]),
        order("root"),
    ];
    let decision = dispatch(&snapshot(orders, 1));
    assert_eq!(decision.start, ids(&["root"]));
    let unmet = |name: &str| WaitReason::Dependency {
        on: vec![Unmet {
            order: id(name),
            state: UnmetState::Unfinished,
        }],
    };
    assert_eq!(reason(&decision, "urgent"), unmet("middle"));
    assert_eq!(reason(&decision, "middle"), unmet("root"));
}

#[test]
fn a_circle_stops_its_members_and_nobody_else() {
    let urgent = with(needing("x", &["y"]), |o| o.hints.priority = true);
    let orders = vec![
        urgent,
        needing("y", &["x"]),
        needing("self", &["self"]),
        needing("z", &["x"]),
        order("free"),
    ];
    let decision = dispatch(&snapshot(orders, 0));
    assert_eq!(decision.start, ids(&["free"]));
    let circle = |names: &[&str]| OrderFault::Cycle {
        members: ids(names),
    };
    let expected = vec![
        (id("self"), circle(&["self"])),
        (id("x"), circle(&["x", "y"])),
        (id("y"), circle(&["x", "y"])),
    ];
    assert_eq!(decision.errors, expected);
    assert_eq!(
        reason(&decision, "y"),
        WaitReason::Cycle {
            members: ids(&["x", "y"])
        }
    );
    assert!(matches!(
        reason(&decision, "z"),
        WaitReason::Dependency { .. }
    ));
}

#[test]
fn a_chain_of_a_hundred_thousand_dependencies_is_judged() {
    let count = 100_000;
    let chain = (0..count).map(|n| needing(&format!("o{n:06}"), &[&format!("o{:06}", n + 1)]));
    let mut orders: Vec<_> = chain.collect();
    orders.push(order(&format!("o{count:06}")));
    assert_eq!(started(&snapshot(orders, 0)), ids(&["o100000"]));
}

#[test]
fn a_roll_up_never_runs() {
    let decision = dispatch(&snapshot(vec![with(order("up"), |o| o.children = 3)], 0));
    assert_eq!(
        reason(&decision, "up"),
        WaitReason::HasChildren { children: 3 }
    );
}

#[test]
fn a_kind_that_is_not_accepted_waits_and_no_kind_is_accepted() {
    let plan = with(order("plan"), |o| o.hints.kind = Some("plan".into()));
    let fix = with(order("fix"), |o| o.hints.kind = Some("fix".into()));
    let mut snapshot = snapshot(vec![plan, fix, order("none")], 0);
    snapshot.limits.kinds_accepted = Some(vec!["fix".into()]);
    let decision = dispatch(&snapshot);
    assert_eq!(decision.start, ids(&["fix", "none"]));
    assert_eq!(
        reason(&decision, "plan"),
        WaitReason::KindNotAccepted {
            kind: "plan".into()
        }
    );
}

#[test]
fn a_dependency_is_met_by_done_and_by_nothing_else() {
    let orders = vec![
        with(order("done"), |o| o.standing = Standing::Done),
        with(order("failed"), |o| o.standing = Standing::Closed),
        with(order("flying"), |o| o.standing = Standing::InFlight),
        needing("met", &["done", "done"]),
        needing("unmet", &["gone", "failed", "done", "flying", "gone"]),
    ];
    let decision = dispatch(&snapshot(orders, 0));
    assert_eq!(decision.start, ids(&["met"]));
    let unmet = |name: &str, state| Unmet {
        order: id(name),
        state,
    };
    let on = vec![
        unmet("gone", UnmetState::Missing),
        unmet("failed", UnmetState::NotDone),
        unmet("flying", UnmetState::Unfinished),
    ];
    assert_eq!(reason(&decision, "unmet"), WaitReason::Dependency { on });
}

#[test]
fn a_capped_order_keeps_its_place_and_lets_others_pass() {
    let db = |name: &str| {
        with(order(name), |o| {
            o.hints.concurrency_class = Some("db".into())
        })
    };
    let mut snapshot = snapshot(vec![db("a"), db("b"), order("c"), db("d"), order("e")], 3);
    let decision = dispatch(&snapshot);
    assert_eq!(
        decision.start,
        ids(&["a", "c", "e"]),
        "a class without a cap runs one at a time"
    );
    assert_eq!(
        decision
            .waiting
            .iter()
            .map(|(id, _)| id.clone())
            .collect::<Vec<_>>(),
        ids(&["b", "d"])
    );
    let class = CapKind::Class { class: "db".into() };
    assert_eq!(
        reason(&decision, "b"),
        WaitReason::Cap {
            which: class,
            limit: 1
        }
    );
    snapshot.limits.per_class.insert("db".into(), 0);
    assert_eq!(
        started(&snapshot),
        ids(&["a", "b", "c"]),
        "0 disables a cap"
    );
    snapshot.limits.total = Some(0);
    assert_eq!(started(&snapshot).len(), 5, "0 disables the total");
    snapshot.limits.total = None;
    assert_eq!(started(&snapshot).len(), 5);
}

#[test]
fn caps_count_what_lives_and_not_what_waits_for_review() {
    let flying = with(order("f"), |o| o.standing = Standing::InFlight);
    let mut snapshot = snapshot(vec![flying.clone(), order("next")], 1);
    snapshot.in_flight = vec![live(&flying)];
    let capped = WaitReason::Cap {
        which: CapKind::Total,
        limit: 1,
    };
    assert_eq!(reason(&dispatch(&snapshot), "next"), capped);
    snapshot.in_flight[0].live = false;
    assert_eq!(started(&snapshot), ids(&["next"]));
}

#[test]
fn repositories_and_kinds_have_caps_of_their_own() {
    let there = |name: &str| with(order(name), |o| o.repository = "/srv/away.git".into());
    let plan = |name: &str| with(order(name), |o| o.hints.kind = Some("plan".into()));
    let mut snapshot = snapshot(
        vec![order("a"), order("b"), there("c"), plan("d"), plan("e")],
        0,
    );
    snapshot.limits.per_kind.insert("plan".into(), 1);
    assert_eq!(started(&snapshot), ids(&["a", "b", "c", "d"]));
    snapshot.limits.per_repository = Some(1);
    let decision = dispatch(&snapshot);
    assert_eq!(decision.start, ids(&["a", "c"]));
    assert_eq!(
        reason(&decision, "d"),
        WaitReason::Cap {
            which: CapKind::Repository,
            limit: 1
        }
    );
}

#[test]
fn a_pause_gates_dispatch_and_a_hand_passes_pause_and_autonomy_only() {
    let people = with(order("people"), |o| o.hints.autonomy = Autonomy::HumanOnly);
    let later = with(order("later"), |o| {
        o.hints.not_before = Some(seconds_from_now(9))
    });
    let orders = vec![
        people,
        later,
        needing("unmet", &["gone"]),
        order("other"),
        order("queued"),
    ];
    let mut snapshot = snapshot(orders, 1);
    snapshot.paused = true;
    assert_eq!(started(&snapshot), ids(&[]));
    snapshot
        .manual
        .extend(ids(&["people", "later", "unmet", "other"]));
    let decision = dispatch(&snapshot);
    assert_eq!(
        decision.start,
        ids(&["other"]),
        "the caps hold for a hand too"
    );
    assert!(matches!(
        reason(&decision, "people"),
        WaitReason::Cap { .. }
    ));
    assert!(matches!(
        reason(&decision, "later"),
        WaitReason::NotBefore { .. }
    ));
    assert!(matches!(
        reason(&decision, "unmet"),
        WaitReason::Dependency { .. }
    ));
    assert_eq!(reason(&decision, "queued"), WaitReason::Paused);
}

#[test]
fn one_bad_order_is_isolated_and_shown() {
    let broken = with(order("broken"), |o| {
        o.fault = Some("its repository is gone".into())
    });
    let decision = dispatch(&snapshot(
        vec![order("twice"), order("twice"), broken, order("good")],
        0,
    ));
    assert_eq!(decision.start, ids(&["good"]));
    let fault = OrderFault::Unusable {
        message: "its repository is gone".into(),
    };
    let double = OrderFault::DuplicateId { id: id("twice") };
    assert_eq!(
        decision.errors,
        vec![(id("broken"), fault), (id("twice"), double)]
    );
    assert_eq!(decision.waiting.len(), 2);
}

#[test]
fn an_order_with_a_living_run_is_not_started_again() {
    let back = order("back");
    let mut snapshot = snapshot(vec![back.clone()], 0);
    snapshot.in_flight = vec![live(&back)];
    assert_eq!(reason(&dispatch(&snapshot), "back"), WaitReason::LiveRun);
}

fn tokens(name: &str, tokens: Option<u64>) -> foreman_schedule::OrderFacts {
    let estimate = Estimate {
        tokens,
        ..Estimate::default()
    };
    with(order(name), |o| o.estimate = estimate)
}

fn used(tokens: u64, settled: Option<i64>) -> BudgetUse {
    BudgetUse {
        amounts: Amounts {
            tokens,
            ..Amounts::default()
        },
        settled: settled.map(seconds_from_now),
    }
}

#[test]
fn a_budget_is_reserved_within_one_decision() {
    let mut snapshot = snapshot(
        vec![
            tokens("a", Some(60)),
            tokens("b", Some(50)),
            tokens("c", Some(40)),
        ],
        0,
    );
    snapshot.limits.budgets.tokens = Some(100);
    let decision = dispatch(&snapshot);
    assert_eq!(decision.start, ids(&["a", "c"]));
    assert_eq!(decision.reserve[&id("a")].tokens, 60);
    let short = WaitReason::Budget {
        what: BudgetKind::Tokens,
        needs: Some(50),
        left: 40,
        until: None,
    };
    assert_eq!(reason(&decision, "b"), short);
}

#[test]
fn what_was_spent_leaves_the_window_and_what_is_reserved_stays() {
    let mut snapshot = snapshot(vec![tokens("a", Some(50))], 0);
    snapshot.limits.budgets.tokens = Some(100);
    snapshot.limits.budgets.window_seconds = 100;
    snapshot.book = vec![
        used(20, Some(-99)),
        used(20, Some(-40)),
        used(15, None),
        used(90, Some(-100)),
    ];
    let until = |decision: &Decision| match reason(decision, "a") {
        WaitReason::Budget { until, left, .. } => (left, until),
        other => panic!("{other:?}"),
    };
    assert_eq!(until(&dispatch(&snapshot)), (45, Some(seconds_from_now(1))));
    snapshot.book.push(used(60, None));
    assert_eq!(
        until(&dispatch(&snapshot)),
        (0, None),
        "reservations do not leave by themselves"
    );
    snapshot.book.pop();
    snapshot.now = seconds_from_now(1);
    assert_eq!(started(&snapshot), ids(&["a"]));
}

#[test]
fn an_order_that_does_not_say_what_it_needs_takes_what_is_left() {
    let mut snapshot = snapshot(
        vec![tokens("a", Some(30)), tokens("b", None), tokens("c", None)],
        0,
    );
    snapshot.limits.budgets.tokens = Some(100);
    let decision = dispatch(&snapshot);
    assert_eq!(decision.start, ids(&["a", "b"]));
    assert_eq!(decision.reserve[&id("b")].tokens, 70);
    assert!(matches!(
        reason(&decision, "c"),
        WaitReason::Budget {
            needs: None,
            left: 0,
            ..
        }
    ));
    snapshot.limits.budgets.tokens = Some(0);
    assert_eq!(started(&snapshot).len(), 3, "0 disables a budget");
}

#[test]
fn every_reason_has_words_and_a_tag_of_its_own() {
    let unmet = Unmet {
        order: id("b"),
        state: UnmetState::Missing,
    };
    let all = [
        WaitReason::Fault {
            message: "its repository is gone".into(),
        },
        WaitReason::Cycle {
            members: ids(&["a", "b"]),
        },
        WaitReason::HumanOnly,
        WaitReason::NotBefore { at: now() },
        WaitReason::Retry {
            at: now(),
            why: "the remote did not answer".into(),
        },
        WaitReason::Paused,
        WaitReason::LiveRun,
        WaitReason::HasChildren { children: 2 },
        WaitReason::KindNotAccepted {
            kind: "plan".into(),
        },
        WaitReason::Dependency { on: vec![unmet] },
        WaitReason::Cap {
            which: CapKind::Total,
            limit: 4,
        },
        WaitReason::Scope {
            held_by: Some(id("b")),
            why: foreman_schedule::Why::HolderStrict,
        },
        WaitReason::Budget {
            what: BudgetKind::Tokens,
            needs: Some(5),
            left: 4,
            until: None,
        },
    ];
    let mut tags = std::collections::BTreeSet::new();
    for reason in all {
        assert!(
            !reason.words().is_empty() && !reason.words().ends_with('.'),
            "{reason:?}"
        );
        let json = serde_json::to_value(&reason).unwrap();
        assert_eq!(json["wait"], reason.tag());
        assert!(tags.insert(reason.tag()));
        assert_eq!(serde_json::from_value::<WaitReason>(json).unwrap(), reason);
    }
}
