//! Amend, deny, undo, revoke.

use crate::scene::{Scene, at_rest, events_until, named, open_block};
use foreman_domain::{
    AmendmentState, Code, ConnectVerdict, EventKind, Failure, RunId, RunState, Scope, Surface,
};
use foreman_engine::Host;
use foreman_engine::api::{
    AmendRequest, BlockList, BlockRef, BlockView, Commands, Decided, DenyRequest, PolicyQuery,
    RevokeRequest, UndoRequest,
};

fn amend(block: &BlockView, scope: Option<Scope>) -> AmendRequest {
    AmendRequest {
        limit: None,
        block: block.block.id.to_string(),
        expect: block.expect.clone(),
        scope,
        rule: None,
        confirmed: false,
        expires: None,
        surface: None,
    }
}

fn deny(block: &BlockView, reason: &str) -> DenyRequest {
    DenyRequest {
        block: block.block.id.to_string(),
        expect: block.expect.clone(),
        reason: reason.into(),
        surface: None,
    }
}

async fn held(scene: &Scene, host: &Host) -> (RunId, BlockView) {
    let run = scene.start(host, &["hold:registry.example", "wait"]).await;
    let block = open_block(host, &run.id).await;
    (run.id, block)
}

async fn verdict(host: &Host, run: &RunId) -> ConnectVerdict {
    let seen = |events: &[foreman_domain::Event]| {
        events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Egress { .. }))
    };
    let events = events_until(host, run, seen).await;
    events
        .into_iter()
        .find_map(|event| match event.kind {
            EventKind::Egress { verdict, .. } => Some(verdict),
            _ => None,
        })
        .unwrap()
}

#[tokio::test]
async fn who_comes_late_is_told_where_it_was_decided() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (_, block) = held(&scene, &host).await;
    let request = AmendRequest {
        limit: None,
        surface: Some(Surface::CommandLine),
        ..amend(&block, None)
    };
    host.block_amend(request).await.unwrap();
    let late = host.block_amend(amend(&block, None)).await.unwrap_err();
    assert_eq!(late.code, Code::AlreadyDecided);
    assert!(
        late.message
            .contains("amended by you on the command line at "),
        "{late}"
    );
    let card = BlockRef {
        block: block.block.id.to_string(),
    };
    let shown = host.block_show(card).await.unwrap().decided.unwrap();
    assert!(
        shown.starts_with("amended by you on the command line at "),
        "{shown}"
    );
}

#[tokio::test]
async fn an_amendment_lets_the_held_connect_go_on() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    assert_eq!(block.candidates[0].scope, Scope::Once);
    let decided = host.block_amend(amend(&block, None)).await.unwrap();
    assert_eq!(decided.amendment.scope, Scope::Run);
    assert!(decided.in_force && decided.released == 1, "{decided:?}");
    assert!(matches!(
        verdict(&host, &run).await,
        ConnectVerdict::Allowed { .. }
    ));
    let shown = host
        .block_show(BlockRef {
            block: block.block.id.to_string(),
        })
        .await
        .unwrap();
    assert!(shown.decided.unwrap().starts_with("amended by you at "));
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_question_of_an_agent_is_answered_once_unless_more_is_asked_for() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["ask:execute", "wait"]).await.id;
    let block = open_block(&host, &run).await;
    let scopes: Vec<_> = block.candidates.iter().map(|one| one.scope).collect();
    assert_eq!(scopes, [Scope::Once, Scope::Run]);
    // Nothing beyond the run: it is part of one conversation.
    let wide = amend(&block, Some(Scope::Project));
    assert_eq!(
        host.block_amend(wide).await.unwrap_err().code,
        Code::BadInput
    );
    let unsure = amend(&block, Some(Scope::Run));
    assert_eq!(
        host.block_amend(unsure).await.unwrap_err().code,
        Code::Usage
    );
    let decided = host.block_amend(amend(&block, None)).await.unwrap();
    assert_eq!(decided.amendment.scope, Scope::Once);
    assert!(decided.in_force && decided.released == 1, "{decided:?}");
    assert!(matches!(
        verdict(&host, &run).await,
        ConnectVerdict::Allowed { .. }
    ));
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_question_that_is_denied_is_refused_with_the_reason() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["ask:execute", "wait"]).await.id;
    let block = open_block(&host, &run).await;
    host.block_deny(deny(&block, "use make")).await.unwrap();
    let ConnectVerdict::Refused { why, .. } = verdict(&host, &run).await else {
        panic!("it was not refused")
    };
    assert!(why.contains("use make"), "{why}");
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn once_covers_the_holds_that_were_on_the_card() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    host.block_amend(amend(&block, Some(Scope::Once)))
        .await
        .unwrap();
    assert!(matches!(
        verdict(&host, &run).await,
        ConnectVerdict::Allowed { .. }
    ));
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_denial_refuses_with_its_reason_and_is_listed() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    host.block_deny(deny(&block, "use the mirror"))
        .await
        .unwrap();
    assert!(matches!(
        verdict(&host, &run).await,
        ConnectVerdict::Refused { .. }
    ));
    let query = PolicyQuery {
        run: Some(run.to_string()),
        repo: None,
    };
    let policy = host.policy_show(query).await.unwrap();
    assert_eq!(policy.policy.denials[0].reason, "use the mirror");
    assert_eq!(policy.amendments[0].scope, Scope::Run);
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_second_decision_is_told_who_decided_and_when() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    host.block_amend(amend(&block, None)).await.unwrap();
    for late in [
        host.block_amend(amend(&block, None)).await.unwrap_err(),
        host.block_deny(deny(&block, "")).await.unwrap_err(),
    ] {
        assert_eq!(late.code, Code::AlreadyDecided);
        assert!(
            late.message.contains("already amended by you at "),
            "{late}"
        );
    }
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_card_that_has_moved_is_refused_as_stale() {
    let scene = Scene::new();
    let host = scene.host().await;
    let first = scene
        .start(&host, &["hold:a.example", "hold:b.example", "wait"])
        .await
        .id;
    let block = open_block(&host, &first).await;
    let mut wrong = amend(&block, None);
    wrong.expect = "h1-0000000000000000".into();
    assert_eq!(host.block_amend(wrong).await.unwrap_err().code, Code::Stale);
    let mut none = amend(&block, None);
    none.expect.clear();
    assert_eq!(host.block_amend(none).await.unwrap_err().code, Code::Stale);

    // A decision elsewhere in the run makes a revision, so a card drawn before it is old.
    host.block_amend(amend(&block, None)).await.unwrap();
    let second = open_block_numbered(&host, &first, 2).await;
    host.undo(UndoRequest::default()).await.unwrap();
    assert_eq!(
        host.block_amend(amend(&second, None))
            .await
            .unwrap_err()
            .code,
        Code::Stale
    );
    let fresh = open_block_numbered(&host, &first, 2).await;
    host.block_amend(amend(&fresh, None)).await.unwrap();
    host.run_stop(named(&first)).await.unwrap();
}

async fn open_block_numbered(host: &Host, run: &RunId, number: u32) -> BlockView {
    let seen = |events: &[foreman_domain::Event]| {
        events.iter().any(|event| {
            matches!(&event.kind, EventKind::Block { block } if block.id.number() == number)
        })
    };
    events_until(host, run, seen).await;
    host.block_show(BlockRef {
        block: format!("{run}-b{number}"),
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_wide_rule_needs_a_second_yes() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    let refused = host
        .block_amend(amend(&block, Some(Scope::Project)))
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::Usage);
    let mut confirmed = amend(&block, Some(Scope::Project));
    confirmed.confirmed = true;
    assert_eq!(
        host.block_amend(confirmed).await.unwrap().amendment.scope,
        Scope::Project
    );
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_number_and_a_scope_that_disagree_choose_nothing() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    let project = block
        .candidates
        .iter()
        .find(|one| one.scope == Scope::Project)
        .unwrap();
    let mut request = amend(&block, Some(Scope::Run));
    request.rule = Some(project.number);
    request.confirmed = true;
    assert_eq!(
        host.block_amend(request).await.unwrap_err().code,
        Code::BadInput
    );
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn undo_takes_the_newest_decision_back_and_revoke_any() {
    let scene = Scene::new();
    let host = scene.host().await;
    assert_eq!(
        host.undo(UndoRequest::default()).await.unwrap_err().code,
        Code::NotFound
    );
    let (run, block) = held(&scene, &host).await;
    let decided = host.block_amend(amend(&block, None)).await.unwrap();
    let undone = host.undo(UndoRequest::default()).await.unwrap();
    assert_eq!(undone.amendment.id, decided.amendment.id);
    assert_eq!(undone.amendment.state, AmendmentState::Revoked);
    assert!(undone.in_force);
    let twice = RevokeRequest {
        amendment: decided.amendment.id,
    };
    assert_eq!(
        host.policy_revoke(twice).await.unwrap_err().code,
        Code::AlreadyDecided
    );

    let again = host
        .block_show(BlockRef {
            block: block.block.id.to_string(),
        })
        .await
        .unwrap();
    let denied = host.block_deny(deny(&again, "")).await.unwrap();
    let revoke = RevokeRequest {
        amendment: denied.amendment.id,
    };
    assert_eq!(
        host.policy_revoke(revoke).await.unwrap().amendment.state,
        AmendmentState::Revoked
    );
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_decision_on_an_ended_run_counts_for_later_runs_only() {
    let scene = Scene::new();
    let host = scene.host().await;
    let mut request = scene.request(&["hold:registry.example"]);
    request.unattended = true;
    let run = host.run_create(request).await.unwrap().id;
    at_rest(&host, &run).await;
    let list = BlockList {
        run: Some(run.to_string()),
        all: true,
    };
    let block = host.block_list(list).await.unwrap().blocks.pop().unwrap();
    let refused = host
        .block_amend(amend(&block, Some(Scope::Run)))
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    let mut project = amend(&block, Some(Scope::Project));
    project.confirmed = true;
    let decided = host.block_amend(project).await.unwrap();
    assert!(!decided.in_force);

    let mut request = scene.request(&["hold:registry.example"]);
    request.unattended = true;
    let later = host.run_create(request).await.unwrap().id;
    assert!(!at_rest(&host, &later).await.denied_unattended);

    // The decision is in the ended run's feed, and can be taken back like any other.
    let events = events_until(&host, &run, |_| true).await;
    assert!(
        events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Amendment { .. }))
    );
    let revoke = RevokeRequest {
        amendment: decided.amendment.id,
    };
    assert_eq!(
        host.policy_revoke(revoke).await.unwrap().amendment.state,
        AmendmentState::Revoked
    );
}

#[tokio::test]
async fn project_scope_reaches_another_live_run_at_once() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (first, block) = held(&scene, &host).await;
    let (second, _) = held(&scene, &host).await;
    let mut project = amend(&block, Some(Scope::Project));
    project.confirmed = true;
    host.block_amend(project).await.unwrap();
    for run in [&first, &second] {
        assert!(matches!(
            verdict(&host, run).await,
            ConnectVerdict::Allowed { .. }
        ));
    }
    for run in [&first, &second] {
        host.run_stop(named(run)).await.unwrap();
    }
}

#[tokio::test]
async fn a_short_name_is_a_block_only_when_one_run_has_it_open() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (first, block) = held(&scene, &host).await;
    let short = host
        .block_show(BlockRef { block: "b1".into() })
        .await
        .unwrap();
    assert_eq!(short.block.id, block.block.id);
    let (second, _) = held(&scene, &host).await;
    let refusal = |refused: Failure| refused.code;
    let several = host
        .block_show(BlockRef { block: "b1".into() })
        .await
        .map_err(refusal);
    assert_eq!(several.unwrap_err(), Code::BadInput);
    for wrong in ["", "b", "b9", "x", "b1; rm"] {
        let refused = host
            .block_show(BlockRef {
                block: wrong.into(),
            })
            .await
            .map_err(refusal);
        assert_eq!(refused.unwrap_err(), Code::NotFound, "{wrong}");
    }
    for run in [&first, &second] {
        assert!(matches!(
            host.run_stop(named(run)).await.unwrap().state,
            RunState::Cancelled { .. }
        ));
    }
}

#[tokio::test]
async fn a_decision_that_two_make_at_once_is_made_once() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    let (one, two) = tokio::join!(
        host.block_amend(amend(&block, None)),
        host.block_deny(deny(&block, ""))
    );
    let codes = |answer: Result<Decided, Failure>| answer.map_err(|failure| failure.code);
    match (codes(one), codes(two)) {
        (Ok(_), Err(code)) | (Err(code), Ok(_)) => {
            assert!(
                matches!(code, Code::AlreadyDecided | Code::Stale),
                "{code:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_choice_that_is_not_on_the_card_is_refused_by_what_is_wrong_with_it() {
    let scene = Scene::new();
    let host = scene.host().await;
    let (run, block) = held(&scene, &host).await;
    for (scope, rule, says) in [
        (Some(Scope::Once), Some(2), "rule 2 of"),
        (None, Some(99), "has no rule 99"),
    ] {
        let request = AmendRequest {
            limit: None,
            rule,
            ..amend(&block, scope)
        };
        let refused = host.block_amend(request).await.unwrap_err();
        assert_eq!(refused.code, Code::BadInput);
        assert!(refused.message.contains(says), "{refused}");
    }
    host.run_stop(named(&run)).await.unwrap();
}
