//! Sockets of the host: held, let go, cut and refused like connections to a network.

use super::file_tests::{Bench, bench, run};
use super::tests::all_events;
use super::*;
use foreman_cage::files::{FileJudge, SocketAttempt};
use foreman_cage::gateway::Closed;
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, BlockState, ConnectVerdict, Decision, ProcessRef, Scope,
};
use foreman_policy::{Layer, Origin, SocketRule, Use};
use std::path::PathBuf;
use tokio::task::JoinHandle;

fn attempt(path: PathBuf) -> SocketAttempt {
    SocketAttempt {
        path,
        process: ProcessRef {
            pid: 7,
            argv: vec!["psql".into()],
        },
        gone: CancellationToken::new(),
    }
}

fn subject(path: &std::path::Path) -> Subject {
    Subject::Socket {
        path: PathText::of(path),
    }
}

fn policy(revision: u64, sockets: &[&PathBuf], applies: &Use) -> Policy {
    let rule = |socket: &PathBuf| SocketRule {
        origin: Origin {
            id: RuleId("r".into()),
            layer: Layer::Amendment,
            source: "test".into(),
            amendment: Some(AmendmentId::new(run(), 1)),
            reason: None,
        },
        socket: socket.clone(),
        applies: applies.clone(),
        expires: None,
    };
    Policy {
        revision: Revision(revision),
        sockets: sockets.iter().map(|socket| rule(socket)).collect(),
        ..Policy::default()
    }
}

async fn put(bench: &Bench, policy: Policy) -> apply::Applied {
    let amendment = Amendment {
        id: AmendmentId::new(run(), 1),
        block: BlockId::new(run(), 1),
        decision: Decision::Allow,
        scope: Scope::Run,
        words: String::new(),
        state: AmendmentState::Active,
        decided_at: At::from_millis(0),
        revision: policy.revision,
        expires: None,
        surface: None,
    };
    let block = Some(BlockId::new(run(), 1));
    bench.arbiter.apply(policy, amendment, block).await.unwrap()
}

/// Starts a connection and waits until so many wait.
async fn hold(bench: &Bench, path: &std::path::Path, holds: usize) -> JoinHandle<Verdict> {
    let (arbiter, attempt) = (bench.arbiter.clone(), attempt(path.to_owned()));
    let held = tokio::spawn(async move { arbiter.judge_socket(attempt).await });
    let deadline = Instant::now() + Duration::from_secs(20);
    while bench.arbiter.0.lock().waiters.len() != holds {
        assert!(Instant::now() < deadline, "not {holds} holds");
        tokio::task::yield_now().await;
    }
    held
}

#[tokio::test]
async fn a_held_connection_goes_on_and_is_cut_when_its_rule_is_gone() {
    let bench = bench(HoldMode::Hold).await;
    let path = bench.path("s.sock");
    let held = hold(&bench, &path, 1).await;
    assert_eq!(bench.block(1).subject, subject(&path));
    assert_eq!(
        put(&bench, policy(2, &[&path], &Use::Always))
            .await
            .released,
        1
    );
    let Verdict::Allow(allowance) = held.await.unwrap() else {
        panic!("not allowed");
    };
    // A sibling is another question.
    let other = hold(&bench, &bench.path("t.sock"), 1).await;
    assert_eq!(put(&bench, policy(3, &[], &Use::Always)).await.cut, 1);
    assert!(allowance.cut.is_cancelled());
    let how = Closed::Ended {
        sent: 3,
        received: 4,
        millis: 5,
        cut: true,
    };
    FileJudge::closed(&bench.arbiter, allowance.connection, how);
    other.abort();
    bench.arbiter.close();
    let events = all_events(&bench.feed, bench.thread).await;
    assert!(events.iter().any(|event| matches!(
        &event.kind,
        EventKind::ConnectionClosed { subject: found, sent: 3, received: 4, cut: true, .. }
            if *found == subject(&path)
    )));
}

#[tokio::test]
async fn once_is_for_what_waited_and_not_for_what_comes_after() {
    let bench = bench(HoldMode::Hold).await;
    let path = bench.path("s.sock");
    let held = hold(&bench, &path, 1).await;
    let once = Use::Holds {
        subject: subject(&path),
        through: HoldId(1),
    };
    put(&bench, policy(2, &[&path], &once)).await;
    assert!(matches!(held.await.unwrap(), Verdict::Allow(_)));
    hold(&bench, &path, 1).await.abort();
}

#[tokio::test]
async fn the_engines_own_places_are_refused_whatever_a_rule_says() {
    let bench = bench(HoldMode::Hold).await;
    let own = bench.path("own/control.sock");
    put(&bench, policy(2, &[&own], &Use::Always)).await;
    let verdict = bench.arbiter.judge_socket(attempt(own.clone())).await;
    assert!(matches!(verdict, Verdict::Refuse));
    bench
        .arbiter
        .socket_refused(&bench.path("d.sock"), "no datagrams");
    let why = bench.arbiter.why();
    assert!(
        why.items
            .iter()
            .any(|item| item.why.contains("the engine's own")),
        "{why:?}"
    );
    assert!(
        why.items.iter().any(|item| item.why == "no datagrams"),
        "{why:?}"
    );
    bench.arbiter.close();
    let events = all_events(&bench.feed, bench.thread).await;
    let refused = events.iter().filter(|event| {
        matches!(
            &event.kind,
            EventKind::Egress {
                verdict: ConnectVerdict::Refused {
                    by: Decider::Floor,
                    ..
                },
                ..
            }
        )
    });
    assert_eq!(refused.count(), 2);
    assert!(
        !events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Block { .. }))
    );
}

#[tokio::test]
async fn nobody_waits_unattended() {
    let bench = bench(HoldMode::Refuse).await;
    let verdict = bench
        .arbiter
        .judge_socket(attempt(bench.path("s.sock")))
        .await;
    assert!(matches!(verdict, Verdict::Refuse));
    let block = bench.block(1);
    assert_eq!(block.holders[0].pid, 7);
    assert!(matches!(
        block.state,
        BlockState::Denied {
            by: Decider::Unattended,
            ..
        }
    ));
}
