use super::*;
use crate::shim::feed::FeedThread;
use crate::why::Status;
use crate::wire::Refusal;
use foreman_cage::gateway::{Attempt, HolderProbe, Judge};
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, BlockState, ConnectVerdict, Decision, Event, EventSeq,
    Holder, Host, Protocol, Scope,
};
use foreman_policy::{Denial, EgressRule, HostPattern, Layer, Origin, Use};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinHandle;

struct Bench {
    arbiter: Arbiter,
    thread: FeedThread,
    feed: Feed,
    lookups: Arc<AtomicUsize>,
    _dir: tempfile::TempDir,
}

fn run() -> RunId {
    RunId::from_random(5)
}

fn bench(policy: Policy, hold: HoldMode) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = Feed::open(&dir.path().join("journal"), &run()).unwrap();
    let arbiter = Arbiter::new(run(), policy, hold, feed.clone());
    arbiter.open();
    Bench {
        arbiter,
        thread,
        feed,
        lookups: Arc::default(),
        _dir: dir,
    }
}

fn origin() -> Origin {
    Origin {
        id: RuleId("r".into()),
        layer: Layer::Amendment,
        source: "test".into(),
        amendment: Some(AmendmentId::new(run(), 1)),
        reason: None,
    }
}

fn rule(name: &str, applies: Use) -> EgressRule {
    EgressRule {
        origin: origin(),
        protocol: Protocol::Tcp,
        host: HostPattern::Name(name.into()),
        port: 443,
        resolves_to: None,
        applies,
        expires: None,
    }
}

fn policy(revision: u64, allowed: &[&str]) -> Policy {
    Policy {
        revision: Revision(revision),
        egress: allowed.iter().map(|name| rule(name, Use::Always)).collect(),
        ..Policy::default()
    }
}

fn amendment(decision: Decision) -> Amendment {
    Amendment {
        id: AmendmentId::new(run(), 1),
        block: BlockId::new(run(), 1),
        decision,
        scope: Scope::Run,
        words: String::new(),
        state: AmendmentState::Active,
        decided_at: At::from_millis(0),
        revision: Revision(2),
        expires: None,
        surface: None,
    }
}

fn subject(name: &str) -> Subject {
    let host = Host::Name(name.into());
    Subject::Egress {
        protocol: Protocol::Tcp,
        host,
        port: 443,
        resolved: None,
    }
}

impl Bench {
    fn attempt(&self, name: &str) -> (Attempt, CancellationToken) {
        let gone = CancellationToken::new();
        let lookups = Arc::clone(&self.lookups);
        let holder = HolderProbe(Arc::new(move || {
            lookups.fetch_add(1, Ordering::Relaxed);
            Some(Holder {
                pid: 7,
                argv: vec!["curl".into()],
            })
        }));
        let attempt = Attempt {
            protocol: Protocol::Tcp,
            host: Host::Name(name.into()),
            port: 443,
            by_proxy: false,
            resolved: None,
            holder,
            gone: gone.clone(),
        };
        (attempt, gone)
    }

    fn connect(&self, name: &str) -> (JoinHandle<Verdict>, CancellationToken) {
        let (attempt, gone) = self.attempt(name);
        let arbiter = self.arbiter.clone();
        (
            tokio::spawn(async move { arbiter.judge(attempt).await }),
            gone,
        )
    }

    /// Waits until this many holds wait.
    async fn wait_for_holds(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.arbiter.0.lock().waiters.len() != count {
            assert!(Instant::now() < deadline, "not {count} holds");
            tokio::task::yield_now().await;
        }
    }

    /// All events, once the run is over.
    async fn events(self) -> Vec<Event> {
        self.arbiter.close();
        all_events(&self.feed, self.thread).await
    }
}

/// All events of a feed, once nobody tells it anything more.
pub(super) async fn all_events(feed: &Feed, thread: FeedThread) -> Vec<Event> {
    tokio::task::spawn_blocking(move || thread.close())
        .await
        .unwrap();
    let mut events = Vec::new();
    let mut after = EventSeq(0);
    loop {
        let page = feed.lines_after(after, 512).unwrap();
        let Some((last, _)) = page.last() else {
            return events;
        };
        after = *last;
        events.extend(
            page.iter()
                .map(|(_, line)| serde_json::from_slice::<Event>(line).unwrap()),
        );
    }
}

fn is_allow(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Allow(_))
}

#[tokio::test]
async fn a_listed_destination_goes_through_and_an_unlisted_one_waits() {
    let bench = bench(policy(1, &["a.example"]), HoldMode::Hold);
    let (attempt, _gone) = bench.attempt("a.example");
    assert!(is_allow(&bench.arbiter.judge(attempt).await));
    let (held, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    assert!(!held.is_finished());
    held.abort();
}

#[tokio::test]
async fn an_amendment_lets_the_very_same_attempt_go_on() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let (held, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    let block = BlockId::new(run(), 1);
    let amended = policy(2, &["b.example"]);
    let applied = bench
        .arbiter
        .apply(amended, amendment(Decision::Allow), Some(block))
        .await
        .unwrap();
    assert_eq!(
        applied,
        apply::Applied {
            released: 1,
            refused: 0,
            cut: 0
        }
    );
    assert!(is_allow(&held.await.unwrap()));
    let events = bench.events().await;
    let place =
        |wanted: fn(&EventKind) -> bool| events.iter().position(|e| wanted(&e.kind)).unwrap();
    let recorded = place(|kind| matches!(kind, EventKind::Amendment { .. }));
    let amended = place(
        |kind| matches!(kind, EventKind::Block { block } if matches!(block.state, BlockState::Amended { .. })),
    );
    let applied = place(|kind| matches!(kind, EventKind::PolicyApplied { released: 1, .. }));
    assert!(
        recorded < amended && amended < applied,
        "the decision is on disk before its effect"
    );
}

#[tokio::test]
async fn a_denial_refuses_the_holds_and_repeats_raise_no_card() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let (held, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    let reason = "use the mirror".to_owned();
    let mut denied = policy(2, &[]);
    denied.denials.push(Denial {
        origin: origin(),
        subject: subject("b.example"),
        reason: reason.clone(),
    });
    let record = amendment(Decision::Deny { reason });
    let applied = bench
        .arbiter
        .apply(denied, record, Some(BlockId::new(run(), 1)))
        .await
        .unwrap();
    assert_eq!(applied.refused, 1);
    assert!(!is_allow(&held.await.unwrap()));
    for _ in 0..50 {
        let (attempt, _gone) = bench.attempt("b.example");
        assert!(!is_allow(&bench.arbiter.judge(attempt).await));
    }
    let why = bench.arbiter.why();
    assert_eq!(why.items.len(), 1);
    assert_eq!(why.items[0].state, Status::Denied);
    assert!(why.items[0].why.ends_with(": use the mirror"), "{why:?}");
    let events = bench.events().await;
    let blocks: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Block { block } => Some(block),
            _ => None,
        })
        .collect();
    assert!(blocks.iter().all(|block| block.id.number() == 1));
    assert_eq!(blocks.last().unwrap().seen, 51);
}

#[tokio::test]
async fn only_the_next_revision_is_taken_and_the_same_one_twice_does_nothing() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    for revision in [0, 1, 3] {
        let given = policy(revision, &["x.example"]);
        let refused = bench
            .arbiter
            .apply(given, amendment(Decision::Allow), None)
            .await;
        assert_eq!(refused.unwrap_err().data, Refusal::Stale);
    }
    for _ in 0..2 {
        let given = policy(2, &["x.example"]);
        bench
            .arbiter
            .apply(given, amendment(Decision::Allow), None)
            .await
            .unwrap();
    }
    assert_eq!(bench.arbiter.revision(), Revision(2));
    let events = bench.events().await;
    let recorded = events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::Amendment { .. }))
        .count();
    assert_eq!(recorded, 1);
}

#[tokio::test]
async fn revoking_cuts_only_the_connections_that_nothing_else_allows() {
    let bench = bench(policy(1, &["a.example", "b.example"]), HoldMode::Hold);
    let mut cuts = Vec::new();
    for name in ["a.example", "b.example"] {
        let (attempt, _gone) = bench.attempt(name);
        let Verdict::Allow(allowance) = bench.arbiter.judge(attempt).await else {
            panic!("{name}")
        };
        cuts.push(allowance.cut);
    }
    let mut record = amendment(Decision::Allow);
    record.state = AmendmentState::Revoked;
    let applied = bench
        .arbiter
        .apply(policy(2, &["a.example"]), record, None)
        .await
        .unwrap();
    assert_eq!(applied.cut, 1);
    assert_eq!(
        cuts.iter()
            .map(CancellationToken::is_cancelled)
            .collect::<Vec<_>>(),
        [false, true]
    );
}

#[tokio::test]
async fn a_connection_that_once_allowed_stays_while_its_rule_stands() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let (held, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    let once = |revision, allowed: &[&str]| {
        let mut policy = policy(revision, allowed);
        let applies = Use::Holds {
            subject: subject("b.example"),
            through: HoldId(1),
        };
        policy.egress.push(rule("b.example", applies));
        policy
    };
    let block = Some(BlockId::new(run(), 1));
    bench
        .arbiter
        .apply(once(2, &[]), amendment(Decision::Allow), block)
        .await
        .unwrap();
    let Verdict::Allow(allowance) = held.await.unwrap() else {
        panic!("not let go")
    };
    // The next attempt is held anew; another decision does not touch the connection.
    let (next, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    let applied = bench
        .arbiter
        .apply(
            once(3, &["other.example"]),
            amendment(Decision::Allow),
            None,
        )
        .await
        .unwrap();
    assert_eq!(applied.cut, 0);
    assert!(!allowance.cut.is_cancelled());
    next.abort();
}

#[tokio::test]
async fn who_gives_up_leaves_the_block_behind_and_a_retry_joins_it() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let (held, gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    gone.cancel();
    assert!(!is_allow(&held.await.unwrap()));
    assert_eq!(bench.arbiter.why().items[0].state, Status::GaveUp);
    let (again, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    assert_eq!(bench.arbiter.why().items[0].state, Status::Waiting);
    assert_eq!(bench.arbiter.why().items.len(), 1);
    again.abort();
}

#[tokio::test]
async fn a_dropped_wait_gives_up_by_itself() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let (held, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    held.abort();
    bench.wait_for_holds(0).await;
    assert_eq!(bench.arbiter.why().items[0].state, Status::GaveUp);
}

#[tokio::test]
async fn an_unattended_run_refuses_at_once_and_says_so() {
    let bench = bench(policy(1, &[]), HoldMode::Refuse);
    for _ in 0..3 {
        let (attempt, _gone) = bench.attempt("b.example");
        assert!(!is_allow(&bench.arbiter.judge(attempt).await));
    }
    let why = bench.arbiter.why();
    assert_eq!(
        (why.items[0].state, why.items[0].count),
        (Status::RefusedUnattended, 3)
    );
    let events = bench.events().await;
    let denied = events.iter().any(|event| {
        matches!(&event.kind, EventKind::Block { block }
            if matches!(block.state, BlockState::Denied { by: Decider::Unattended, .. }))
    });
    assert!(denied);
}

#[tokio::test]
async fn a_thousand_parallel_connects_are_one_card_and_nothing_is_let_through() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let connects: Vec<_> = (0..1_000).map(|_| bench.connect("b.example")).collect();
    bench.wait_for_holds(1_000).await;
    assert!(connects.iter().all(|(connect, _)| !connect.is_finished()));
    assert!(bench.lookups.load(Ordering::Relaxed) <= 16);
    let applied = bench
        .arbiter
        .apply(policy(2, &["b.example"]), amendment(Decision::Allow), None)
        .await
        .unwrap();
    assert_eq!(applied.released, 1_000);
    for (connect, _) in connects {
        assert!(is_allow(&connect.await.unwrap()));
    }
    let events = bench.events().await;
    let held: u64 = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Egress {
                verdict: ConnectVerdict::Held { .. },
                count,
                ..
            } => Some(*count),
            _ => None,
        })
        .sum();
    assert_eq!(held, 1_000, "every attempt is counted");
    assert!(events.len() < 60, "{} events", events.len());
}

#[tokio::test]
async fn probes_are_refused_and_leave_no_trace() {
    let bench = bench(policy(1, &["a.example"]), HoldMode::Hold);
    bench.arbiter.0.lock().phase = Phase::Probing;
    let (attempt, _gone) = bench.attempt("a.example");
    assert!(!is_allow(&bench.arbiter.judge(attempt).await));
    bench.arbiter.looked_up("probe.example");
    bench
        .arbiter
        .refused(Protocol::Tcp, Host::Name("x.example".into()), 80, "floor");
    assert!(bench.arbiter.why().items.is_empty());
    assert!(bench.events().await.is_empty());
}

#[tokio::test]
async fn the_end_refuses_what_waits() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let (held, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    bench.arbiter.close();
    assert!(!is_allow(&held.await.unwrap()));
    let applied = bench
        .arbiter
        .apply(policy(2, &[]), amendment(Decision::Allow), None)
        .await;
    assert_eq!(applied.unwrap_err().data, Refusal::Ended);
}

#[tokio::test]
async fn an_expired_rule_ends_what_only_it_allowed_and_nothing_else() {
    let mut given = policy(1, &["a.example", "b.example"]);
    given.egress[0].expires = Some(At::from_millis(At::now().as_millis() + 1_000));
    // Also expires, but another rule stands.
    let mut twice = given.egress[1].clone();
    twice.expires = given.egress[0].expires;
    given.egress.push(twice);
    let bench = bench(given, HoldMode::Hold);
    let mut cuts = Vec::new();
    for name in ["a.example", "b.example"] {
        let (attempt, _gone) = bench.attempt(name);
        let Verdict::Allow(allowance) = bench.arbiter.judge(attempt).await else {
            panic!("{name}")
        };
        cuts.push(allowance.cut);
    }
    let expiring = bench.arbiter.clone();
    let expiring = tokio::spawn(async move { expiring.expire().await });
    tokio::time::timeout(Duration::from_secs(20), cuts[0].cancelled())
        .await
        .unwrap();
    assert!(!cuts[1].is_cancelled());
    let (again, _gone) = bench.connect("a.example");
    bench.wait_for_holds(1).await;
    again.abort();
    expiring.abort();
}

#[tokio::test]
async fn an_end_that_a_later_revision_brings_counts_too() {
    let bench = bench(policy(1, &["a.example"]), HoldMode::Hold);
    let expiring = bench.arbiter.clone();
    let expiring = tokio::spawn(async move { expiring.expire().await });
    let (attempt, _gone) = bench.attempt("a.example");
    let Verdict::Allow(allowance) = bench.arbiter.judge(attempt).await else {
        panic!("not allowed")
    };
    let mut given = policy(2, &["a.example"]);
    given.egress[0].expires = Some(At::from_millis(At::now().as_millis() + 1_000));
    let applied = bench
        .arbiter
        .apply(given, amendment(Decision::Allow), None)
        .await
        .unwrap();
    assert_eq!(applied.cut, 0);
    tokio::time::timeout(Duration::from_secs(20), allowance.cut.cancelled())
        .await
        .unwrap();
    expiring.abort();
}

#[tokio::test]
async fn what_the_gateway_counted_is_told_and_remembered_with_its_count() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    let refuse = |count| {
        let host = Host::Address("169.254.169.254".parse().unwrap());
        bench
            .arbiter
            .refused_again(Protocol::Tcp, host, 80, "cloud metadata", count);
    };
    bench.arbiter.refused(
        Protocol::Tcp,
        Host::Address("169.254.169.254".parse().unwrap()),
        80,
        "cloud metadata",
    );
    refuse(999);
    refuse(9_000);
    assert_eq!(bench.arbiter.why().items[0].count, 10_000);
    let told: u64 = bench
        .events()
        .await
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Egress { count, .. } => Some(*count),
            _ => None,
        })
        .sum();
    assert_eq!(told, 10_000);
}

#[tokio::test]
async fn why_tells_each_way_of_being_stopped_apart() {
    let mut given = policy(1, &[]);
    given.denials.push(Denial {
        origin: origin(),
        subject: subject("denied.example"),
        reason: "use the mirror".into(),
    });
    let attended = bench(given, HoldMode::Hold);
    let metadata = Host::Address("169.254.169.254".parse().unwrap());
    attended.arbiter.refused(
        Protocol::Tcp,
        metadata,
        80,
        "169.254.169.254 is cloud metadata",
    );
    let (attempt, _gone) = attended.attempt("denied.example");
    assert!(!is_allow(&attended.arbiter.judge(attempt).await));
    let (held, _gone) = attended.connect("held.example");
    attended.wait_for_holds(1).await;
    let mut items = attended.arbiter.why().items;
    held.abort();
    let unattended = bench(policy(1, &[]), HoldMode::Refuse);
    let (attempt, _gone) = unattended.attempt("nobody.example");
    assert!(!is_allow(&unattended.arbiter.judge(attempt).await));
    items.extend(unattended.arbiter.why().items);
    let of = |state| items.iter().find(|item| item.state == state).unwrap();
    let states = [
        Status::RefusedAlways,
        Status::Denied,
        Status::Waiting,
        Status::RefusedUnattended,
    ];
    let mut hints: Vec<_> = states.map(|state| of(state).hint.clone()).to_vec();
    hints.sort_unstable();
    hints.dedup();
    assert_eq!(hints.len(), states.len());
    assert!(of(Status::Denied).why.ends_with(": use the mirror"));
    assert!(of(Status::Denied).hint.contains("as the operator says"));
    assert!(of(Status::RefusedUnattended).why.contains("nobody attends"));
    assert!(
        of(Status::Waiting)
            .hint
            .contains("The operator can allow it")
    );
}

#[tokio::test]
async fn floor_refusals_are_remembered_for_why_and_counted() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    for _ in 0..5 {
        let host = Host::Address("169.254.169.254".parse().unwrap());
        bench
            .arbiter
            .refused(Protocol::Tcp, host, 80, "cloud metadata");
    }
    let why = bench.arbiter.why();
    assert_eq!(
        (why.items[0].state, why.items[0].count),
        (Status::RefusedAlways, 5)
    );
    assert_eq!(why.items[0].subject, "tcp 169.254.169.254:80");
}

#[tokio::test]
async fn what_nobody_answers_in_time_is_given_up_once_and_never_called_denied() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    bench.arbiter.limit_holds(Some(600));
    let limit = Duration::from_secs(600);
    let (held, _gone) = bench.connect("b.example");
    let (other, _gone) = bench.connect("b.example");
    bench.wait_for_holds(2).await;
    let now = bench.arbiter.0.now_ms();
    let left = bench.arbiter.0.expire_due(now).unwrap();
    assert!(
        left <= limit && left > limit - Duration::from_secs(60),
        "{left:?}"
    );
    assert!(!held.is_finished());

    assert_eq!(bench.arbiter.0.expire_due(now + 600_000), None);
    for held in [held, other] {
        assert!(!is_allow(&held.await.unwrap()));
    }
    // It is not asked again.
    let (attempt, _gone) = bench.attempt("b.example");
    assert!(!is_allow(&bench.arbiter.judge(attempt).await));
    let why = bench.arbiter.why();
    assert_eq!(why.items.len(), 1);
    assert_eq!(
        (why.items[0].state, why.items[0].count),
        (Status::Expired, 3)
    );
    // Another subject has a time of its own.
    let (later, _gone) = bench.connect("c.example");
    bench.wait_for_holds(1).await;
    let left = bench.arbiter.0.expire_due(now + 600_000).unwrap();
    assert!(left > limit / 2, "{left:?}");
    later.abort();

    // The operator can still allow it.
    let block = BlockId::new(run(), 1);
    let amended = policy(2, &["b.example"]);
    let allowed = bench
        .arbiter
        .apply(amended, amendment(Decision::Allow), Some(block))
        .await;
    allowed.unwrap();
    let (attempt, _gone) = bench.attempt("b.example");
    assert!(is_allow(&bench.arbiter.judge(attempt).await));

    let events = bench.events().await;
    let states: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Block { block } if block.id.number() == 1 => Some(block.state.tag()),
            _ => None,
        })
        .collect();
    assert!(
        states.contains(&"expired") && !states.contains(&"denied"),
        "{states:?}"
    );
    assert!(events.iter().any(|event| matches!(
        &event.kind,
        EventKind::Egress { verdict: ConnectVerdict::Refused { by: Decider::Limit, why }, .. }
            if why.contains("10 minutes")
    )));
}

#[tokio::test]
async fn a_block_that_was_gone_for_a_while_begins_its_time_anew() {
    let bench = bench(policy(1, &[]), HoldMode::Hold);
    bench.arbiter.limit_holds(Some(600));
    let (held, gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    let now = bench.arbiter.0.now_ms();
    bench.arbiter.0.expire_due(now).unwrap();
    gone.cancel();
    held.await.unwrap();
    assert_eq!(bench.arbiter.0.expire_due(now + 599_000), None);
    let (_held, _gone) = bench.connect("b.example");
    bench.wait_for_holds(1).await;
    let left = bench.arbiter.0.expire_due(now + 599_000).unwrap();
    assert!(left > Duration::from_secs(590), "{left:?}");
}
