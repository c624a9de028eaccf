//! Going on from what was reviewed, and what is shown of a run beside its row.

use crate::scene::{Scene, at_rest, named, prepared};
use foreman_domain::{AgentEvent, Code, EventKind, EventSeq, RunId, RunState};
use foreman_engine::Host;
use foreman_engine::api::{
    Commands, DiffFileRequest, DiffRequest, EventFilter, EventsRequest, FollowUp, RepoList,
    RepoRequest, SaidHow, SamplesRequest, Say, Severity,
};
use std::time::Duration;

async fn reviewed(scene: &Scene, host: &Host) -> RunId {
    let run = scene.start(host, &["commit:a"]).await.id;
    at_rest(host, &run).await;
    run
}

fn follow_up(run: &RunId, message: &str) -> FollowUp {
    FollowUp {
        run: run.to_string(),
        message: message.into(),
    }
}

/// What the log of a run says about going on.
async fn said(host: &Host, run: &RunId) -> Vec<String> {
    let request = EventsRequest {
        run: run.to_string(),
        limit: 512,
        kinds: vec!["progress".into()],
        ..EventsRequest::default()
    };
    let page = host.run_events(request).await.unwrap();
    let of_stage = page
        .events
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::Progress { stage, message } if stage == "follow_up" => Some(message),
            _ => None,
        });
    of_stage.collect()
}

#[tokio::test]
async fn a_follow_up_starts_from_what_was_reviewed_and_shows_all_of_it() {
    let scene = Scene::new();
    let host = scene.host().await;
    let base = scene.git(&["rev-parse", "main"]);
    let request = scene.request(&["commit:{prompt}"]);
    let first = host.run_create(request).await.unwrap().id;
    prepared(&host, &first).await;
    let shown = at_rest(&host, &first).await;
    assert_eq!(shown.changes.map(|changes| changes.files), Some(1));
    let next = host.run_follow_up(follow_up(&first, "b")).await.unwrap();
    assert_eq!(next.order, shown.order);
    assert_eq!(next.base, base);
    let next = at_rest(&host, &next.id).await;
    let RunState::Review { base: on, .. } = &next.state else {
        panic!("{next:?}");
    };
    assert_eq!(on, &base);
    let diff = host.run_diff(named(&next.id).into()).await.unwrap();
    let paths: Vec<_> = diff.files.iter().map(|file| file.path.as_str()).collect();
    assert!(
        paths.contains(&"{prompt}") && paths.contains(&"b"),
        "{paths:?}"
    );
    assert_eq!(diff.refusal, None);
    let still = host.run_show(named(&first)).await.unwrap();
    assert!(matches!(still.state, RunState::Review { .. }));
    let details = host.run_details(named(&next.id)).await.unwrap();
    assert_eq!(details.follows.as_ref(), Some(&first));
    assert_eq!(details.prompt.as_deref(), Some("b"));
    assert_eq!(details.attempts.len(), 2);
    let of_first = host.run_details(named(&first)).await.unwrap();
    assert_eq!(of_first.followed_by.as_ref(), Some(&next.id));
    let newer = said(&host, &next.id).await;
    assert!(
        newer.iter().any(|line| line.contains("instead of run")),
        "{newer:?}"
    );
    // Noted once nobody else has the first run's log.
    for _ in 0..200 {
        if said(&host, &first)
            .await
            .iter()
            .any(|line| line.contains("is newer"))
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the first run's log does not say that another one is newer");
}

#[tokio::test]
async fn what_is_said_is_passed_on_to_who_works_and_goes_on_from_what_was_reviewed() {
    let scene = Scene::new();
    let host = scene.host().await;
    let say = |run: &RunId, message: &str| Say {
        run: run.to_string(),
        message: message.into(),
        afresh: false,
    };
    let live = scene.start(&host, &["wait"]).await.id;
    let said = host.run_say(say(&live, "the old name")).await.unwrap();
    assert_eq!((said.run.id, said.how), (live.clone(), SaidHow::Waits));
    let request = EventsRequest {
        run: live.to_string(),
        limit: 512,
        kinds: vec!["agent".into()],
        wait_ms: 10_000,
        ..EventsRequest::default()
    };
    let page = host.run_events(request).await.unwrap();
    assert!(
        page.events.iter().any(|event| matches!(&event.kind,
            EventKind::Agent { event: AgentEvent::Told { text, .. } } if text == "the old name")),
        "{page:#?}"
    );
    let long = host.run_say(say(&live, &"x".repeat(20_000))).await;
    assert_eq!(long.unwrap_err().code, Code::BadInput);
    host.run_stop(named(&live)).await.unwrap();
    at_rest(&host, &live).await;
    let over = host.run_say(say(&live, "x")).await.unwrap_err();
    assert_eq!(over.code, Code::Conflict);
    let run = reviewed(&scene, &host).await;
    let next = host.run_say(say(&run, "and this")).await.unwrap();
    assert_eq!(next.how, SaidHow::Afresh);
    let details = host.run_details(named(&next.run.id)).await.unwrap();
    assert_eq!(details.follows, Some(run));
}

#[tokio::test]
async fn what_was_never_reviewed_is_not_followed_up() {
    let scene = Scene::new();
    let host = scene.host().await;
    let live = scene.start(&host, &["wait"]).await.id;
    let refused = host.run_follow_up(follow_up(&live, "x")).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    host.run_stop(named(&live)).await.unwrap();
    let run = reviewed(&scene, &host).await;
    let empty = host.run_follow_up(follow_up(&run, " ")).await.unwrap_err();
    assert_eq!(empty.code, Code::Usage);
    host.run_discard(named(&run)).await.unwrap();
    let gone = host.run_follow_up(follow_up(&run, "x")).await.unwrap_err();
    assert!(gone.hint.unwrap().contains("restore"), "{}", gone.message);
}

#[tokio::test]
async fn pages_go_back_from_the_newest_and_a_filter_leaves_out() {
    let scene = Scene::new();
    let host = scene.host().await;
    let script: Vec<String> = (0..40).map(|line| format!("line:{line}")).collect();
    let words: Vec<&str> = script.iter().map(String::as_str).collect();
    let run = scene.start(&host, &words).await.id;
    let last = at_rest(&host, &run).await.last_seq;
    let (mut before, mut seen) = (last.next(), Vec::new());
    loop {
        let request = EventsRequest {
            run: run.to_string(),
            before: Some(before),
            limit: 7,
            ..EventsRequest::default()
        };
        let page = host.run_events(request).await.unwrap();
        assert!(page.events.is_sorted_by_key(|event| event.seq));
        assert_eq!(page.first, page.events.first().map(|event| event.seq));
        let mut seqs: Vec<u64> = page.events.iter().map(|event| event.seq.0).collect();
        seqs.append(&mut seen);
        seen = seqs;
        before = page.cursor;
        if !page.has_older {
            break;
        }
    }
    assert_eq!(seen, (1..=last.0).collect::<Vec<_>>());
    let request = EventsRequest {
        run: run.to_string(),
        before: Some(last.next()),
        limit: 5,
        filter: EventFilter {
            severities: vec![Severity::Output],
            steps: vec!["agent".into()],
            ..EventFilter::default()
        },
        ..EventsRequest::default()
    };
    let page = host.run_events(request.clone()).await.unwrap();
    let lines = page.events.iter().map(|event| match &event.kind {
        EventKind::Output { text, .. } => text.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(lines.collect::<Vec<_>>(), ["35", "36", "37", "38", "39"]);
    let forward = EventsRequest {
        before: None,
        after: EventSeq(0),
        ..request
    };
    let page = host.run_events(forward).await.unwrap();
    assert_eq!(page.events.len(), 5);
}

#[tokio::test]
async fn a_live_run_is_measured_while_somebody_asks_and_one_at_rest_is_not() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["wait"]).await.id;
    let ask = |after| SamplesRequest {
        run: run.to_string(),
        after,
        wait_ms: 5_000,
    };
    let first = host.run_samples(ask(None)).await.unwrap();
    assert_eq!(first.samples.len(), 1);
    let at = first.samples[0].at;
    let second = host.run_samples(ask(Some(at))).await.unwrap();
    let newest = second.samples.last().unwrap();
    assert!(newest.at > at);
    assert!(
        newest
            .cpu_millicores
            .is_some_and(|cpu| (400..600).contains(&cpu)),
        "{newest:?}"
    );
    assert_eq!(newest.disk_bytes, None);
    host.run_stop(named(&run)).await.unwrap();
    let rest = host.run_samples(ask(None)).await.unwrap();
    assert!(rest.samples.is_empty() && rest.wall_left_ms.is_none());
}

#[tokio::test]
async fn files_of_a_diff_are_read_one_by_one_and_only_as_shown() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene
        .start(&host, &["commit:a", "commit:Cargo.lock"])
        .await
        .id;
    at_rest(&host, &run).await;
    let request = DiffRequest::new(run.as_str()).without_patch();
    let diff = host.run_diff(request).await.unwrap();
    assert!(diff.patch.is_empty() && !diff.truncated);
    let generated: Vec<_> = diff
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.generated))
        .collect();
    assert_eq!(generated, [("Cargo.lock", true), ("a", false)]);
    let ask = |path: &str, expect: &str| DiffFileRequest {
        run: run.to_string(),
        expect: expect.into(),
        path: path.into(),
        commit: None,
    };
    let file = host.run_diff_file(ask("a", &diff.expect)).await.unwrap();
    assert!(
        file.patch.contains("+++ b/a") && !file.patch.contains("Cargo.lock"),
        "{file:?}"
    );
    assert_eq!(
        (file.truncated, file.binary, file.old_size),
        (false, false, None)
    );
    let stale = host.run_diff_file(ask("a", "other")).await.unwrap_err();
    assert_eq!(stale.code, Code::Stale);
    let missing = host
        .run_diff_file(ask("none", &diff.expect))
        .await
        .unwrap_err();
    assert_eq!(missing.code, Code::NotFound);
}

#[tokio::test]
async fn a_repository_is_looked_at_and_nothing_of_it_is_run() {
    let scene = Scene::new();
    let host = scene.host().await;
    let repo = scene.repo();
    let mark = scene.dir.path().join("ran");
    let program = repo.join(".git/hooks/post-checkout");
    std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    scene.git(&["config", "core.fsmonitor", &program.to_string_lossy()]);
    scene.git(&["config", "filter.x.clean", &program.to_string_lossy()]);
    scene.git(&[
        "remote",
        "add",
        "origin",
        "https://me:secret@host.example/r.git",
    ]);
    std::fs::write(
        repo.join(".gitattributes"),
        "*.x filter=x\n*.bin filter=lfs\n",
    )
    .unwrap();
    scene.git(&["-c", "core.fsmonitor=", "add", ".gitattributes"]);
    scene.git(&["-c", "core.fsmonitor=", "commit", "-qm", "attributes"]);
    let _ = std::fs::remove_file(&mark);
    std::fs::write(repo.join("new.x"), "new").unwrap();
    std::fs::write(
        repo.join("conductor.json"),
        r#"{"scripts": {"setup": "npm ci"}}"#,
    )
    .unwrap();
    let view = host
        .repo_inspect(RepoRequest { path: repo.clone() })
        .await
        .unwrap();
    assert!(!mark.exists(), "something of the repository was run");
    assert_eq!(
        (view.name.as_str(), view.branch.as_deref()),
        ("repo", Some("main"))
    );
    assert_eq!(
        (view.commits, view.dirty_files, view.lfs),
        (Some(2), Some(2), true)
    );
    assert_eq!(view.hooks, ["post-checkout"]);
    assert_eq!(view.imports[0].would_run, ["npm ci"]);
    assert_eq!(view.project.standing, "untrusted");
    assert!(!view.remote.unwrap_or_default().contains("secret"));
    assert!(host.repo_list(RepoList {}).await.unwrap().repos.is_empty());
    reviewed(&scene, &host).await;
    let known = host.repo_list(RepoList {}).await.unwrap().repos;
    assert_eq!((known[0].runs, known[0].reachable), (1, true));
    assert_eq!(known[0].path, repo);
}
