//! Orders and snapshots for tests, and how to make them up.

use foreman_domain::{At, OrderId};
use foreman_schedule::{
    Amounts, Autonomy, BudgetUse, Complexity, Enforcement, Estimate, Hints, Impact, InFlight,
    Limits, OrderFacts, RetryAt, ScopeClaim, Snapshot, Standing,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// The time at which tests happen, in milliseconds.
pub const NOW: i64 = 1_800_000_000_000;

/// A repository.
pub const HOME: &str = "/srv/home.git";

pub fn now() -> At {
    At::from_millis(NOW)
}

pub fn seconds_from_now(seconds: i64) -> At {
    At::from_millis(NOW + seconds * 1000)
}

pub fn id(text: &str) -> OrderId {
    OrderId::from(text.to_owned())
}

pub fn ids(texts: &[&str]) -> Vec<OrderId> {
    texts.iter().map(|text| id(text)).collect()
}

/// A ready order that nothing keeps from starting.
pub fn order(name: &str) -> OrderFacts {
    OrderFacts {
        id: id(name),
        standing: Standing::Ready,
        repository: HOME.into(),
        created: Some(now()),
        hints: Hints::default(),
        claim: None,
        depends_on: Vec::new(),
        children: 0,
        group: None,
        estimate: Estimate::default(),
        retry: None,
        fault: None,
    }
}

/// The order with something changed.
pub fn with(mut order: OrderFacts, change: impl FnOnce(&mut OrderFacts)) -> OrderFacts {
    change(&mut order);
    order
}

pub fn needing(name: &str, needs: &[&str]) -> OrderFacts {
    with(order(name), |order| order.depends_on = ids(needs))
}

pub fn claim(patterns: &[&str], enforcement: Enforcement, strict: bool) -> ScopeClaim {
    ScopeClaim {
        patterns: patterns.iter().map(|text| (*text).to_owned()).collect(),
        enforcement,
        strict,
    }
}

/// A snapshot with nothing in flight and no limits but the total of `total` (0: none).
pub fn snapshot(orders: Vec<OrderFacts>, total: u32) -> Snapshot {
    Snapshot {
        now: now(),
        paused: false,
        manual: BTreeSet::new(),
        limits: Limits {
            total: Some(total),
            ..Limits::default()
        },
        orders,
        in_flight: Vec::new(),
        book: Vec::new(),
    }
}

/// A live run of an order.
pub fn live(order: &OrderFacts) -> InFlight {
    InFlight {
        order: Some(order.id.clone()),
        repository: order.repository.clone(),
        claim: order.claim.clone(),
        group: order.group.clone(),
        kind: order.hints.kind.clone(),
        concurrency_class: order.hints.concurrency_class.clone(),
        live: true,
    }
}

/// Patterns some of which meet and some of which do not.
fn some_pattern() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "src/**",
        "src/",
        "src/a.rs",
        "src/b/",
        "docs/",
        "docs/*.md",
        "*.toml",
        "**",
        "tests/it/",
        "lib/?.c",
        "lib/[ab].c",
    ])
    .prop_map(str::to_owned)
}

pub fn some_claim() -> impl Strategy<Value = ScopeClaim> {
    let enforcement = prop_oneof![Just(Enforcement::Advisory), Just(Enforcement::Mandatory)];
    let patterns = prop::collection::vec(some_pattern(), 0..3);
    (patterns, enforcement, any::<bool>()).prop_map(|(patterns, enforcement, strict)| ScopeClaim {
        patterns,
        enforcement,
        strict,
    })
}

fn some_hints() -> impl Strategy<Value = Hints> {
    let impact = prop::option::of(prop::sample::select(vec![
        Impact::High,
        Impact::Medium,
        Impact::Low,
    ]));
    let complexity = prop::option::of(prop::sample::select(vec![
        Complexity::Small,
        Complexity::Medium,
        Complexity::Large,
    ]));
    let autonomy = prop_oneof![
        8 => Just(Autonomy::Supervised),
        1 => Just(Autonomy::HumanOnly),
        1 => Just(Autonomy::Autonomous),
    ];
    let kind = prop::option::of(prop::sample::select(vec!["fix", "plan"]));
    let class = prop::option::weighted(0.3, prop::sample::select(vec!["db", "device"]));
    let not_before = prop::option::weighted(0.1, -5i64..5);
    (
        any::<bool>(),
        impact,
        complexity,
        autonomy,
        kind,
        class,
        not_before,
    )
        .prop_map(
            |(priority, impact, complexity, autonomy, kind, class, not_before)| Hints {
                priority,
                impact,
                complexity,
                autonomy,
                kind: kind.map(str::to_owned),
                concurrency_class: class.map(str::to_owned),
                not_before: not_before.map(seconds_from_now),
                recurrence: None,
                retries: 0,
            },
        )
}

/// An order whose name is one of `o0`…`o{count-1}` and that may depend on the others, itself and one
/// that does not exist.
pub fn some_order(number: usize, count: usize) -> impl Strategy<Value = OrderFacts> {
    let standing = prop_oneof![
        8 => Just(Standing::Ready),
        1 => Just(Standing::Done),
        1 => Just(Standing::Closed),
    ];
    let needs = prop::collection::vec(0..=count, 0..3);
    let children = prop_oneof![9 => Just(0u32), 1 => Just(2u32)];
    let faulty = prop::bool::weighted(0.05);
    let estimate = prop::option::of(0u64..50);
    let retry = prop::option::weighted(0.1, -5i64..5);
    (
        (
            standing,
            some_hints(),
            prop::option::of(some_claim()),
            needs,
        ),
        (children, faulty, estimate, retry),
        (
            prop::option::of(0i64..4),
            0usize..2,
            prop::option::weighted(0.2, 0u8..2),
        ),
    )
        .prop_map(move |(what, rest, place)| {
            let (standing, hints, claim, needs) = what;
            let (children, faulty, estimate, retry) = rest;
            let (created, repository, group) = place;
            OrderFacts {
                id: id(&format!("o{number}")),
                standing,
                repository: ["/srv/home.git", "/srv/away.git"][repository].into(),
                created: created.map(seconds_from_now),
                hints,
                claim,
                depends_on: needs.iter().map(|need| id(&format!("o{need}"))).collect(),
                children,
                group: group.map(|group| format!("g{group}")),
                estimate: Estimate {
                    tokens: estimate,
                    ..Estimate::default()
                },
                retry: retry.map(|at| RetryAt {
                    at: seconds_from_now(at),
                    why: "the remote did not answer".into(),
                }),
                fault: faulty.then(|| "its repository is gone".into()),
            }
        })
}

fn some_limits() -> impl Strategy<Value = Limits> {
    let cap = || prop::option::of(0u32..4);
    (
        cap(),
        cap(),
        cap(),
        cap(),
        prop::option::of(Just(vec!["fix".to_owned()])),
        prop::option::of(0u64..100),
    )
        .prop_map(
            |(total, per_repository, kind, class, kinds_accepted, tokens)| {
                let mut limits = Limits {
                    total,
                    per_repository,
                    kinds_accepted,
                    ..Limits::default()
                };
                limits
                    .per_kind
                    .extend(kind.map(|cap| ("plan".to_owned(), cap)));
                limits
                    .per_class
                    .extend(class.map(|cap| ("db".to_owned(), cap)));
                limits.budgets.tokens = tokens;
                limits
            },
        )
}

fn some_use() -> impl Strategy<Value = BudgetUse> {
    (0u64..30, prop::option::of(-100_000i64..0)).prop_map(|(tokens, settled)| BudgetUse {
        amounts: Amounts {
            tokens,
            ..Amounts::default()
        },
        settled: settled.map(seconds_from_now),
    })
}

/// Any snapshot, with up to `most` orders and, when `busy`, with some of them in flight.
pub fn some_snapshot(most: usize, busy: bool) -> impl Strategy<Value = Snapshot> {
    (1..=most)
        .prop_flat_map(move |count| {
            let orders: Vec<_> = (0..count).map(|number| some_order(number, count)).collect();
            let flights = prop::collection::vec((0..count, any::<bool>(), any::<bool>()), 0..4);
            let manual = prop::collection::btree_set(0..count, 0..2);
            let book = prop::collection::vec(some_use(), 0..3);
            (
                orders,
                flights,
                some_limits(),
                prop::bool::weighted(0.1),
                manual,
                book,
            )
        })
        .prop_map(move |(mut orders, flights, limits, paused, manual, book)| {
            let mut in_flight = Vec::new();
            for (number, alive, with_order) in flights.into_iter().filter(|_| busy) {
                let mut held = live(&orders[number]);
                if with_order {
                    if orders[number].standing != Standing::Ready {
                        continue;
                    }
                    orders[number].standing = Standing::InFlight;
                } else {
                    held.order = None;
                }
                held.live = alive;
                in_flight.push(held);
            }
            Snapshot {
                now: now(),
                paused,
                manual: manual
                    .iter()
                    .map(|number| orders[*number].id.clone())
                    .collect(),
                limits,
                orders,
                in_flight,
                book: if busy { book } else { Vec::new() },
            }
        })
}
