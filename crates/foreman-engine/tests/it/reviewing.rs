//! Diff, merge, discard, restore.

use crate::scene::{Scene, at_rest, named};
use foreman_domain::{Code, EventKind, RunId, RunState};
use foreman_engine::Host;
use foreman_engine::api::{
    Commands, CommitsRequest, DiffFileRequest, DiffRequest, EventsRequest, MergeRequest,
    RefusedFor, RunRef,
};

async fn reviewed(scene: &Scene, host: &Host) -> RunId {
    let run = scene.start(host, &["commit:a"]).await.id;
    at_rest(host, &run).await;
    run
}

fn merge(run: &RunId, expect: &str) -> MergeRequest {
    MergeRequest {
        run: run.to_string(),
        expect: expect.into(),
        despite_checks: None,
        with_secrets: false,
    }
}

#[tokio::test]
async fn a_merge_fast_forwards_the_base_to_what_was_reviewed() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = reviewed(&scene, &host).await;
    let diff = host.run_diff(named(&run).into()).await.unwrap();
    assert_eq!(diff.refusal, None);
    assert_eq!(diff.files.len(), 1);
    let merged = host.run_merge(merge(&run, &diff.expect)).await.unwrap();
    assert_eq!(
        merged.state,
        RunState::Merged {
            commit: diff.head.clone()
        }
    );
    assert_eq!(scene.git(&["rev-parse", "main"]), diff.head);
    assert!(scene.repo().join("a").is_file());
    let again = host.run_merge(merge(&run, &diff.expect)).await.unwrap_err();
    assert_eq!(again.code, Code::AlreadyDecided);
}

#[tokio::test]
async fn a_merge_of_something_else_than_was_shown_is_stale() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = reviewed(&scene, &host).await;
    let diff = host.run_diff(named(&run).into()).await.unwrap();
    scene.git(&["commit", "-q", "--allow-empty", "-m", "meanwhile"]);
    let before = scene.git(&["rev-parse", "main"]);
    let stale = host.run_merge(merge(&run, &diff.expect)).await.unwrap_err();
    assert_eq!(stale.code, Code::Stale);
    assert_eq!(
        host.run_merge(merge(&run, "")).await.unwrap_err().code,
        Code::Stale
    );
    assert_eq!(scene.git(&["rev-parse", "main"]), before);
    assert!(matches!(
        host.run_show(named(&run)).await.unwrap().state,
        RunState::Review { .. }
    ));
}

#[tokio::test]
async fn a_refused_merge_says_why_and_goes_back_to_review() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = reviewed(&scene, &host).await;
    scene.git(&["commit", "-q", "--allow-empty", "-m", "meanwhile"]);
    let diff = host.run_diff(named(&run).into()).await.unwrap();
    assert!(diff.refusal.is_some());
    assert_eq!(diff.refused_for, Some(RefusedFor::Repository));
    let refused = host.run_merge(merge(&run, &diff.expect)).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    let view = host.run_show(named(&run)).await.unwrap();
    assert!(matches!(view.state, RunState::Review { .. }), "{view:?}");
    let request = EventsRequest {
        run: run.to_string(),
        after: Default::default(),
        limit: 512,
        wait_ms: 0,
        kinds: vec!["warning".into(), "state".into()],
        ..EventsRequest::default()
    };
    let events = host.run_events(request).await.unwrap().events;
    let merging = events.iter().any(|event| {
        event.kind
            == EventKind::State {
                to: RunState::Merging,
            }
    });
    let why = events.iter().any(|event| {
        matches!(&event.kind, EventKind::Warning { message } if message.starts_with("not merged: "))
    });
    assert!(merging && why, "{events:?}");
}

#[tokio::test]
async fn a_discarded_run_comes_back_as_it_was() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = reviewed(&scene, &host).await;
    let before = host.run_show(named(&run)).await.unwrap();
    std::fs::write(before.worktree.join("left"), "not committed").unwrap();
    let gone = host.run_discard(named(&run)).await.unwrap();
    assert!(matches!(gone.state, RunState::Discarded { .. }));
    assert!(!before.worktree.exists());
    assert_eq!(scene.git(&["branch", "--list", "foreman/*"]), "");
    let twice = host.run_discard(named(&run)).await.unwrap();
    assert_eq!(twice.state, gone.state);

    let back = host.run_restore(named(&run)).await.unwrap();
    assert_eq!(back.state, before.state);
    let left = std::fs::read_to_string(before.worktree.join("left")).unwrap();
    assert_eq!(left, "not committed");
    let again = host.run_restore(named(&run)).await.unwrap_err();
    assert_eq!(again.code, Code::Conflict);
}

#[tokio::test]
async fn a_live_run_is_neither_shown_as_a_diff_nor_discarded() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["wait"]).await.id;
    for refused in [
        host.run_diff(named(&run).into()).await.unwrap_err(),
        host.run_discard(named(&run)).await.unwrap_err(),
        host.run_merge(merge(&run, "")).await.unwrap_err(),
        host.run_restore(RunRef {
            run: run.to_string(),
        })
        .await
        .unwrap_err(),
    ] {
        assert_eq!(refused.code, Code::Conflict, "{refused}");
    }
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn a_merged_run_can_be_cleaned_up_and_stays_merged() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = reviewed(&scene, &host).await;
    let diff = host.run_diff(named(&run).into()).await.unwrap();
    let merged = host.run_merge(merge(&run, &diff.expect)).await.unwrap();
    std::fs::write(merged.worktree.join("left"), "not committed").unwrap();
    let early = host.run_restore(named(&run)).await.unwrap_err();
    assert_eq!(early.code, Code::Conflict);

    for _ in 0..2 {
        let gone = host.run_discard(named(&run)).await.unwrap();
        assert_eq!(gone.state, merged.state);
        assert!(!merged.worktree.exists());
        assert_eq!(scene.git(&["branch", "--list", "foreman/*"]), "");
    }
    assert_eq!(scene.git(&["rev-parse", "main"]), diff.head);
    let back = host.run_restore(named(&run)).await.unwrap();
    assert_eq!(back.state, merged.state);
    assert!(merged.worktree.join("left").is_file());
}

#[tokio::test]
async fn what_was_done_to_a_run_by_hand_is_said_beside_its_diff() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = reviewed(&scene, &host).await;
    let view = host.run_show(named(&run)).await.unwrap();
    let branch = format!("refs/heads/{}", view.branch);
    scene.git(&["update-ref", &branch, &view.base]);
    std::fs::remove_dir_all(&view.worktree).unwrap();
    let diff = host.run_diff(named(&run).into()).await.unwrap();
    for what in ["was moved by hand", "was removed by hand"] {
        let said = diff.flags.iter().any(|flag| flag.contains(what));
        assert!(said, "{what}: {:?}", diff.flags);
    }
}

#[tokio::test]
async fn a_run_whose_repository_is_gone_says_so_and_keeps_its_work() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = reviewed(&scene, &host).await;
    let elsewhere = scene.repo().with_extension("moved");
    std::fs::rename(scene.repo(), &elsewhere).unwrap();
    let refused = host.run_discard(named(&run)).await.unwrap_err();
    assert!(refused.hint.unwrap().contains("put it back"));
    std::fs::rename(&elsewhere, scene.repo()).unwrap();
    host.run_discard(named(&run)).await.unwrap();
}

#[tokio::test]
async fn what_a_stopped_run_had_committed_can_be_looked_at() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene
        .start(&host, &["commit:a", "line:waiting", "wait"])
        .await
        .id;
    crate::scene::events_until(&host, &run, |events| {
        events
            .iter()
            .any(|event| matches!(&event.kind, EventKind::Output { text, .. } if text == "waiting"))
    })
    .await;
    host.run_stop(named(&run)).await.unwrap();
    let diff = host.run_diff(named(&run).into()).await.unwrap();
    assert_eq!(diff.files.len(), 1);
    assert!(diff.refusal.unwrap().contains("by hand"));
    assert_eq!(diff.refused_for, Some(RefusedFor::State));
    let refused = host.run_merge(merge(&run, &diff.expect)).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
}

#[tokio::test]
async fn commits_come_in_pages_that_fit_together_and_one_of_them_merges_nothing() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene
        .start(&host, &["commit:a", "commit:b", "commit:c"])
        .await
        .id;
    at_rest(&host, &run).await;
    let ask = |skip: u32, expect: Option<&str>| CommitsRequest {
        expect: expect.map(str::to_owned),
        skip,
        limit: Some(2),
        ..CommitsRequest::new(run.as_str())
    };
    let diff = host.run_diff(named(&run).into()).await.unwrap();
    let first = host.run_commits(ask(0, None)).await.unwrap();
    assert_eq!((first.total, first.next), (3, Some(2)));
    assert_eq!((&first.expect, &first.head), (&diff.expect, &diff.head));
    assert_eq!(first.commits[0].sha, diff.head);
    assert_eq!((first.commits[0].files, first.commits[0].parents), (1, 1));
    let rest = host.run_commits(ask(2, Some(&first.expect))).await.unwrap();
    assert_eq!((rest.commits.len(), rest.next), (1, None));
    let past = host.run_commits(ask(u32::MAX, None)).await.unwrap();
    assert!(past.commits.is_empty() && past.next.is_none());
    let other = host.run_commits(ask(0, Some("other"))).await.unwrap_err();
    assert_eq!(other.code, Code::Stale);

    let middle = first.commits[1].sha.clone();
    let request = DiffRequest::new(run.as_str()).of_commit(Some(middle.clone()));
    let one = host.run_diff(request.clone()).await.unwrap();
    let paths: Vec<_> = one.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["b"]);
    assert!(one.patch.contains("+++ b/b") && one.gate.is_none());
    // What one commit shows reads its files, and is no approval of all of them.
    let file = |expect: &str, commit: Option<&str>| DiffFileRequest {
        run: run.to_string(),
        expect: expect.into(),
        path: "b".into(),
        commit: commit.map(str::to_owned),
    };
    let shown = host.run_diff_file(file(&one.expect, Some(&middle))).await;
    assert!(shown.unwrap().patch.contains("+++ b/b"));
    for wrong in [
        file(&one.expect, None),
        file(&one.expect, Some(&diff.head)),
        file(&diff.expect, Some(&middle)),
    ] {
        let refused = host.run_diff_file(wrong).await.unwrap_err();
        assert_eq!(refused.code, Code::Stale);
    }
    let refused = host.run_merge(merge(&run, &one.expect)).await.unwrap_err();
    assert_eq!(refused.code, Code::Stale);
    let both = request.clone().since(Some(middle.clone()));
    assert_eq!(host.run_diff(both).await.unwrap_err().code, Code::Usage);
    for none in [diff.base.as_str(), "HEAD", "--all", &middle[..12]] {
        let request = request.clone().of_commit(Some(none.to_owned()));
        let refused = host.run_diff(request).await.unwrap_err();
        assert_eq!(refused.code, Code::NotFound, "{none}");
    }
}
