use crate::scratch::{Scratch, block, event, rule};
use foreman_domain::{
    AmendmentState, At, BlockId, BlockState, Decider, EventKind, Outcome, Revision, RunId, Scope,
};
use foreman_policy::{HostPattern, Layer};
use foreman_store::{NewDecision, Recorded, RequestKey, Ruled, StoreError};

async fn held(scratch: &Scratch, run: &RunId) {
    let kind = EventKind::Block {
        block: block(run, 1, BlockState::Open),
    };
    scratch.ingest(run, &[event(run, 1, kind)]).await;
}

fn decision(run: &RunId, shown: u64, ruled: Ruled) -> NewDecision {
    NewDecision {
        block: BlockId::new(run.clone(), 1),
        shown: Revision(shown),
        ruled,
        words: "words".into(),
        at: At::from_millis(2000),
        key: None,
        surface: None,
    }
}

fn allow(scope: Scope) -> Ruled {
    Ruled::Allow {
        scope,
        rule: Box::new(rule("a.example")),
    }
}

async fn amend(scratch: &Scratch, run: &RunId, scope: Scope) -> Recorded {
    scratch
        .store
        .decide(scratch.fence(), &decision(run, 1, allow(scope)))
        .await
        .unwrap()
}

#[tokio::test]
async fn an_amendment_is_record_and_revision_and_block_at_once() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    held(&scratch, &run).await;
    let recorded = amend(&scratch, &run, Scope::Run).await;
    assert_eq!(recorded.amendment.id.to_string(), format!("{run}-a1"));
    assert_eq!(recorded.amendment.revision, Revision(2));
    let policy = &recorded.policies[0].policy;
    assert_eq!(policy.revision, Revision(2));
    assert_eq!(policy.egress[0].host, HostPattern::Name("a.example".into()));
    assert_eq!(
        policy.egress[0].origin.amendment,
        Some(recorded.amendment.id.clone())
    );
    assert_eq!(policy.egress[0].origin.layer, Layer::Amendment);

    let stored = scratch.store.run(&run).await.unwrap();
    assert_eq!((stored.revision, &stored.policy), (Revision(2), policy));
    let block = scratch
        .store
        .block(&recorded.amendment.block)
        .await
        .unwrap()
        .block;
    assert_eq!(
        block.state,
        BlockState::Amended {
            amendment: recorded.amendment.id
        }
    );
}

#[tokio::test]
async fn the_second_decision_on_a_block_learns_of_the_first() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    held(&scratch, &run).await;
    amend(&scratch, &run, Scope::Run).await;
    let late = decision(
        &run,
        1,
        Ruled::Deny {
            reason: String::new(),
        },
    );
    let refused = scratch.store.decide(scratch.fence(), &late).await;
    assert!(
        matches!(refused, Err(StoreError::AlreadyDecided(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_decision_under_a_revision_that_moved_is_refused() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let kind = |number| EventKind::Block {
        block: block(&run, number, BlockState::Open),
    };
    scratch
        .ingest(&run, &[event(&run, 1, kind(1)), event(&run, 2, kind(2))])
        .await;
    amend(&scratch, &run, Scope::Run).await;
    let mut second = decision(&run, 1, allow(Scope::Run));
    second.block = BlockId::new(run.clone(), 2);
    let refused = scratch.store.decide(scratch.fence(), &second).await;
    assert!(
        matches!(
            refused,
            Err(StoreError::RevisionMoved {
                now: Revision(2),
                ..
            })
        ),
        "{refused:?}"
    );
    second.shown = Revision(2);
    assert_eq!(
        scratch
            .store
            .decide(scratch.fence(), &second)
            .await
            .unwrap()
            .amendment
            .revision,
        Revision(3)
    );
}

#[tokio::test]
async fn a_stale_engine_cannot_decide() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    held(&scratch, &run).await;
    scratch.store.take_epoch().await.unwrap();
    let refused = scratch
        .store
        .decide(scratch.fence(), &decision(&run, 1, allow(Scope::Run)))
        .await;
    assert!(
        matches!(refused, Err(StoreError::StaleEpoch { .. })),
        "{refused:?}"
    );
    assert_eq!(scratch.store.run(&run).await.unwrap().revision, Revision(1));
}

#[tokio::test]
async fn taking_back_removes_the_rule_and_lets_the_block_be_decided_again() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    held(&scratch, &run).await;
    let id = amend(&scratch, &run, Scope::Run).await.amendment.id;
    let at = At::from_millis(3000);
    let back = scratch
        .store
        .revoke(scratch.fence(), &id, at, None)
        .await
        .unwrap();
    assert_eq!(back.amendment.state, AmendmentState::Revoked);
    assert_eq!(back.policies[0].policy.revision, Revision(3));
    assert!(back.policies[0].policy.egress.is_empty());
    assert_eq!(back.block.unwrap().state, BlockState::Gone);
    let twice = scratch.store.revoke(scratch.fence(), &id, at, None).await;
    assert!(matches!(twice, Err(StoreError::NotActive(_))), "{twice:?}");

    let deny = decision(
        &run,
        3,
        Ruled::Deny {
            reason: "no".into(),
        },
    );
    let denied = scratch.store.decide(scratch.fence(), &deny).await.unwrap();
    assert_eq!(denied.policies[0].policy.denials.len(), 1);
    assert_eq!(denied.amendment.scope, Scope::Run);
}

#[tokio::test]
async fn older_news_of_a_shim_does_not_reopen_a_decided_block() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    held(&scratch, &run).await;
    let recorded = amend(&scratch, &run, Scope::Run).await;
    let mut late = block(&run, 1, BlockState::Open);
    late.waiting = 7;
    scratch
        .ingest(&run, &[event(&run, 2, EventKind::Block { block: late })])
        .await;
    let block_now = scratch
        .store
        .block(&recorded.amendment.block)
        .await
        .unwrap()
        .block;
    assert_eq!(block_now.state.tag(), "amended");
    assert_eq!(block_now.waiting, 7);

    // Once the shim has confirmed the revision, its word counts again.
    let applied = EventKind::PolicyApplied {
        revision: Revision(2),
        released: 1,
        refused: 0,
        cut: 0,
    };
    let reopened = block(&run, 1, BlockState::Open);
    scratch
        .ingest(
            &run,
            &[
                event(&run, 3, applied),
                event(&run, 4, EventKind::Block { block: reopened }),
            ],
        )
        .await;
    let block_now = scratch
        .store
        .block(&recorded.amendment.block)
        .await
        .unwrap()
        .block;
    assert_eq!(block_now.state, BlockState::Open);
    assert_eq!(
        scratch.store.run(&run).await.unwrap().applied_revision,
        Revision(2)
    );
}

#[tokio::test]
async fn project_scope_reaches_live_and_later_runs_of_the_repository_and_no_other() {
    let scratch = Scratch::new().await;
    let run = scratch.run_in(1, "repo").await;
    let sibling = scratch.run_in(2, "repo").await;
    let stranger = scratch.run_in(3, "other").await;
    held(&scratch, &run).await;
    let recorded = amend(&scratch, &run, Scope::Project).await;
    let reached: Vec<_> = recorded
        .policies
        .iter()
        .map(|next| next.run.clone())
        .collect();
    assert_eq!(reached, [run.clone(), sibling.clone()]);

    let later = scratch.run_in(4, "repo").await;
    for (run, rules) in [(&sibling, 1), (&later, 1), (&stranger, 0)] {
        assert_eq!(
            scratch.store.run(run).await.unwrap().policy.egress.len(),
            rules,
            "{run}"
        );
    }
    let back = scratch
        .store
        .revoke(
            scratch.fence(),
            &recorded.amendment.id,
            At::from_millis(9),
            None,
        )
        .await
        .unwrap();
    assert_eq!(back.policies.len(), 3);
    let told = scratch
        .store
        .revisions_after(&sibling, Revision(1))
        .await
        .unwrap();
    assert_eq!(
        told.iter()
            .map(|(revision, _)| revision.0)
            .collect::<Vec<_>>(),
        [2, 3]
    );
    assert!(
        told.iter()
            .all(|(_, amendment)| amendment.state == AmendmentState::Revoked)
    );
    assert!(
        back.policies
            .iter()
            .all(|next| next.policy.egress.is_empty())
    );
}

#[tokio::test]
async fn a_runs_own_decisions_lapse_when_it_ends_and_wider_ones_stay() {
    let scratch = Scratch::new().await;
    let (first, second) = (scratch.run(1).await, scratch.run(2).await);
    for (run, scope) in [(&first, Scope::Run), (&second, Scope::Order)] {
        held(&scratch, run).await;
        amend(&scratch, run, scope).await;
        let ended = EventKind::State {
            to: Outcome::NoChanges.into(),
        };
        scratch.ingest(run, &[event(run, 2, ended)]).await;
    }
    let state = |run: &RunId| {
        let id = foreman_domain::AmendmentId::new(run.clone(), 1);
        let store = scratch.store.clone();
        async move { store.amendment(&id).await.unwrap().amendment.state }
    };
    assert_eq!(state(&first).await, AmendmentState::Lapsed);
    assert_eq!(state(&second).await, AmendmentState::Active);
}

#[tokio::test]
async fn what_was_refused_while_nobody_attended_can_still_be_decided() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let denied = BlockState::Denied {
        by: Decider::Unattended,
        reason: String::new(),
    };
    let kind = EventKind::Block {
        block: block(&run, 1, denied),
    };
    scratch.ingest(&run, &[event(&run, 1, kind)]).await;
    amend(&scratch, &run, Scope::Project).await;
}

#[tokio::test]
async fn a_request_is_remembered_with_what_it_did() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    held(&scratch, &run).await;
    let key = RequestKey("k".into());
    let mut keyed = decision(&run, 1, allow(Scope::Run));
    keyed.key = Some(key.clone());
    assert_eq!(scratch.store.subject_of_request(&key).await.unwrap(), None);
    let id = scratch
        .store
        .decide(scratch.fence(), &keyed)
        .await
        .unwrap()
        .amendment
        .id;
    assert_eq!(
        scratch.store.subject_of_request(&key).await.unwrap(),
        Some(id.to_string())
    );
}
