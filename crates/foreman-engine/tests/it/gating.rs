//! The gate: checks on a clean copy, sync, the merge queue, pushing.

use crate::scene::{DEADLINE, Scene, at_rest, named};
use foreman_domain::{Code, EventKind, RunId, RunState};
use foreman_engine::Host;
use foreman_engine::api::*;
use std::time::Instant;

async fn checked(scene: &Scene, host: &Host, script: &[&str], checks: &[&str]) -> RunView {
    let mut request = scene.request(script);
    request.checks = checks.iter().map(|one| (*one).to_owned()).collect();
    let run = host.run_create(request).await.unwrap();
    at_rest(host, &run.id).await
}

async fn diff(host: &Host, run: &RunId) -> DiffView {
    host.run_diff(named(run).into()).await.unwrap()
}

fn merge(run: &RunId, diff: &DiffView) -> MergeRequest {
    MergeRequest {
        run: run.to_string(),
        expect: diff.expect.clone(),
        despite_checks: None,
        with_secrets: false,
    }
}

fn sync(run: &RunId) -> SyncRequest {
    SyncRequest {
        run: run.to_string(),
    }
}

/// A commit of the operator's on the base branch.
fn meanwhile(scene: &Scene, file: &str, text: &str) -> String {
    std::fs::write(scene.repo().join(file), text).unwrap();
    scene.git(&["add", file]);
    scene.git(&["commit", "-q", "-m", "meanwhile"]);
    scene.git(&["rev-parse", "main"])
}

async fn entry_over(host: &Host, run: &RunId) -> MergeEntry {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let request = MergeList {
            run: Some(run.to_string()),
            all: true,
            wait_ms: 1000,
        };
        let entry = host.merge_list(request).await.unwrap().merges.remove(0);
        match entry.standing {
            QueueStanding::Waiting | QueueStanding::Working => {}
            QueueStanding::Merged { .. } | QueueStanding::Returned { .. } => return entry,
        }
        assert!(Instant::now() < deadline, "{entry:?}");
    }
}

async fn warnings(host: &Host, run: &RunId) -> Vec<String> {
    let request = EventsRequest {
        run: run.to_string(),
        after: Default::default(),
        limit: 512,
        wait_ms: 0,
        kinds: vec!["warning".into()],
        ..EventsRequest::default()
    };
    let events = host.run_events(request).await.unwrap().events;
    let message = |event: foreman_domain::Event| match event.kind {
        EventKind::Warning { message } => Some(message),
        _ => None,
    };
    events.into_iter().filter_map(message).collect()
}

#[tokio::test]
async fn checks_see_the_commit_and_nothing_else_and_their_last_words_are_kept() {
    let scene = Scene::new();
    let host = scene.host().await;
    let checks = ["sh:ls -A", "sh:seq 1 40; exit 3"];
    let run = checked(&scene, &host, &["commit:a"], &checks).await;
    let RunState::Review { head, .. } = &run.state else {
        panic!("{run:?}")
    };
    let gate = host.run_gate(named(&run.id)).await.unwrap();
    assert_eq!(gate.checks[0].tail, [".git", "README", "a"]);
    assert!(gate.checks[0].has_passed());
    assert!(gate.checks[1].words.contains("exit code 3"), "{gate:?}");
    assert_eq!(gate.checks[1].tail.len(), 20);
    assert_eq!(gate.checks[1].tail[19], "40");
    assert_eq!((run.checks.len(), run.failed_checks), (2, 1));
    // Nothing of the round is left.
    assert!(!scene.data().join(format!("checks/{}", run.id)).exists());
    let shown = diff(&host, &run.id).await;
    assert_eq!(&shown.head, head);
    assert!(shown.refusal.unwrap().contains("exit code 3"));
    assert_eq!(shown.refused_for, Some(RefusedFor::Checks));
}

#[tokio::test]
async fn a_merge_waits_for_a_pass_or_for_a_reason_that_is_recorded() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = checked(&scene, &host, &["commit:a"], &["sh:false"])
        .await
        .id;
    let shown = diff(&host, &run).await;
    let refused = host.run_merge(merge(&run, &shown)).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict);
    assert!(refused.message.contains("`sh:false` failed"), "{refused}");
    assert!(matches!(
        host.run_show(named(&run)).await.unwrap().state,
        RunState::Review { .. }
    ));
    let despite = |reason: &str| MergeRequest {
        despite_checks: Some(reason.into()),
        ..merge(&run, &shown)
    };
    let refused = host.run_merge(despite(" ")).await.unwrap_err();
    assert_eq!(refused.code, Code::Usage);
    host.run_merge(despite("the test is wrong")).await.unwrap();
    let said = warnings(&host, &run).await;
    assert!(
        said.iter().any(|one| one.contains("the test is wrong")),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_run_is_synced_checked_again_and_merged() {
    let scene = Scene::new();
    let host = scene.host().await;
    // Passes only on the base as it is later.
    let run = checked(&scene, &host, &["commit:a"], &["sh:test -f others"]).await;
    assert_eq!(run.failed_checks, 1);
    let base = meanwhile(&scene, "others", "others\n");
    let before = diff(&host, &run.id).await;
    assert_eq!(before.gate.unwrap().base_moved, 1);
    let synced = host.run_sync(sync(&run.id)).await.unwrap();
    let SyncOutcome::Synced {
        base: on,
        head,
        replayed: true,
        same_changes: true,
        ..
    } = &synced.sync
    else {
        panic!("{synced:?}")
    };
    assert_eq!(*on, base);
    assert_eq!(synced.run.base, base);
    assert_eq!(synced.run.failed_checks, 0);
    assert_eq!(synced.checks_now[0].step, "check.2");
    let shown = diff(&host, &run.id).await;
    assert_eq!((&shown.head, shown.files.len()), (head, 1));
    assert_eq!(shown.refusal, None);
    let stale = host
        .run_merge(MergeRequest {
            run: run.id.to_string(),
            expect: before.expect,
            despite_checks: None,
            with_secrets: false,
        })
        .await
        .unwrap_err();
    assert_eq!(stale.code, Code::Stale);
    let merged = host.run_merge(merge(&run.id, &shown)).await.unwrap();
    assert!(matches!(merged.state, RunState::Merged { .. }));
    assert_eq!(scene.git(&["rev-parse", "main"]), *head);
    let again = host.run_sync(sync(&run.id)).await.unwrap_err();
    assert_eq!(again.code, Code::Conflict);
}

#[tokio::test]
async fn a_conflict_is_an_answer_and_moves_nothing() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = checked(&scene, &host, &["commit:a"], &["true"]).await;
    let base = meanwhile(&scene, "a", "mine\n");
    let before = scene.git(&["for-each-ref"]);
    let synced = host.run_sync(sync(&run.id)).await.unwrap();
    let SyncOutcome::Conflict {
        base: on, paths, ..
    } = synced.sync
    else {
        panic!("{synced:?}")
    };
    assert_eq!((on, paths), (base, vec!["a".to_owned()]));
    assert_eq!(scene.git(&["for-each-ref"]), before);
    assert_eq!(synced.run.state, run.state);
    assert_eq!(diff(&host, &run.id).await.files.len(), 1);
}

#[tokio::test]
async fn commits_added_by_hand_are_reviewed_and_checked_like_the_others() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = checked(&scene, &host, &["commit:a"], &["sh:test ! -f b"]).await;
    let shown = diff(&host, &run.id).await;
    let inside = |args: &[&str]| {
        let place = run.worktree.to_string_lossy().into_owned();
        let mut all = vec!["-c", "safe.directory=*", "-C", &place];
        all.extend(args);
        scene.git(&all)
    };
    std::fs::write(run.worktree.join("b"), "b\n").unwrap();
    inside(&["add", "b"]);
    inside(&["commit", "-qm", "by hand"]);
    let tip = inside(&["rev-parse", "HEAD"]);
    let refused = host.run_merge(merge(&run.id, &shown)).await.unwrap_err();
    assert_eq!(refused.code, Code::Stale);
    assert!(refused.message.contains("by hand"), "{refused}");
    let now = diff(&host, &run.id).await;
    assert_eq!((&now.head, now.files.len()), (&tip, 2));
    let added = host
        .run_diff(DiffRequest::new(run.id.as_str()).since(Some(shown.head)))
        .await
        .unwrap();
    assert_eq!(added.files.len(), 1);
    assert_eq!(added.files[0].path, "b");
    // The pass was another commit's.
    let refused = host.run_merge(merge(&run.id, &now)).await.unwrap_err();
    assert!(refused.message.contains("has not run"), "{refused}");
    let synced = host.run_sync(sync(&run.id)).await.unwrap();
    assert_eq!(synced.sync, SyncOutcome::UpToDate);
    assert!(!synced.checks_now[0].has_passed());
}

#[tokio::test]
async fn a_check_that_failed_runs_again_when_a_sync_is_asked_for() {
    let scene = Scene::new();
    let host = scene.host().await;
    let there = scene.dir.path().join("there");
    let check = format!("sh:test -e {}", there.display());
    let run = checked(&scene, &host, &["commit:a"], &[&check]).await;
    assert_eq!(run.failed_checks, 1);
    std::fs::write(&there, "").unwrap();
    let synced = host.run_sync(sync(&run.id)).await.unwrap();
    assert_eq!(synced.sync, SyncOutcome::UpToDate);
    assert!(synced.checks_now[0].has_passed(), "{:?}", synced.checks_now);
    let shown = diff(&host, &run.id).await;
    let merged = host.run_merge(merge(&run.id, &shown)).await.unwrap();
    assert!(matches!(merged.state, RunState::Merged { .. }));
}

#[tokio::test]
async fn the_queue_takes_one_after_the_other_and_a_bad_one_never_stops_it() {
    let scene = Scene::new();
    let host = scene.host().await;
    let mut runs = Vec::new();
    // Two that clash with each other, one that fails on what the others bring, one without checks.
    for (file, checks) in [
        ("a", vec!["true"]),
        ("a", vec!["true"]),
        ("c", vec!["sh:test ! -f a"]),
        ("d", vec![]),
    ] {
        let script = format!("commit:{file}");
        runs.push(checked(&scene, &host, &[&script], &checks).await.id);
    }
    for run in &runs {
        // The queue is at work already: a base that it moves after the look makes the approval stale.
        loop {
            let shown = diff(&host, run).await;
            match host.merge_queue(merge(run, &shown)).await {
                Ok(_) => break,
                Err(failure) => assert_eq!(failure.code, Code::Stale, "{failure:?}"),
            }
        }
    }
    let mut reasons = Vec::new();
    for run in &runs {
        let entry = entry_over(&host, run).await;
        reasons.push(match entry.standing {
            QueueStanding::Returned { reason } => reason,
            _ => String::new(),
        });
    }
    assert_eq!(reasons[0], "");
    // The same file with the same content is no clash: the second has nothing left to change.
    assert!(reasons[1].contains("something else"), "{reasons:?}");
    assert!(reasons[2].contains("exit code 1"), "{reasons:?}");
    assert_eq!(reasons[3], "");
    let files = scene.git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(files, "README\na\nd");
    for (run, merged) in runs.iter().zip([true, false, false, true]) {
        let state = host.run_show(named(run)).await.unwrap().state;
        assert_eq!(
            matches!(state, RunState::Merged { .. }),
            merged,
            "{state:?}"
        );
    }
    let said = warnings(&host, &runs[2]).await;
    assert!(
        said.iter().any(|one| one.starts_with("not merged: ")),
        "{said:?}"
    );
    assert!(
        host.merge_list(MergeList::default())
            .await
            .unwrap()
            .merges
            .is_empty()
    );
    // What was returned can be merged once it is in order.
    let again = host.run_sync(sync(&runs[2])).await.unwrap();
    assert_eq!(again.run.failed_checks, 1);
}

#[tokio::test]
async fn a_queue_whose_engine_is_killed_goes_on_with_the_next_one() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let host = scene.host().await;
    let gate = scene.dir.path().join("go");
    let slow = format!("sh:while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let mut request = scene.request(&["commit:a"]);
    request.checks = vec![slow];
    let run = host.run_create(request).await.unwrap().id;
    std::fs::write(&gate, "").unwrap();
    at_rest(&host, &run).await;
    let next = checked(&scene, &host, &["commit:b"], &["true"]).await.id;
    std::fs::remove_file(&gate).unwrap();
    meanwhile(&scene, "others", "others\n");
    for run in [&run, &next] {
        let shown = diff(&host, run).await;
        host.merge_queue(merge(run, &shown)).await.unwrap();
    }
    // In the middle of the second round of checks.
    crate::scene::events_until(&host, &run, |events| {
        events
            .iter()
            .any(|event| event.step.as_ref().is_some_and(|step| step.0 == "check.2"))
    })
    .await;
    other.kill();
    std::fs::write(&gate, "").unwrap();
    for run in [&run, &next] {
        let entry = entry_over(&host, run).await;
        assert!(
            matches!(entry.standing, QueueStanding::Merged { .. }),
            "{entry:?}"
        );
    }
    let files = scene.git(&["ls-tree", "--name-only", "main"]);
    assert_eq!(files, "README\na\nb\nothers");
    let count = scene.git(&["rev-list", "--count", "main"]);
    assert_eq!(count, "4", "something was merged twice");
}

#[tokio::test]
async fn what_is_at_work_at_the_gate_is_not_pulled_from_under_it() {
    let scene = Scene::new();
    let host = scene.host().await;
    let gate = scene.dir.path().join("go");
    std::fs::write(&gate, "").unwrap();
    let slow = format!("sh:while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    let run = checked(&scene, &host, &["commit:a"], &[&slow]).await.id;
    std::fs::remove_file(&gate).unwrap();
    meanwhile(&scene, "others", "others\n");
    let shown = diff(&host, &run).await;
    host.merge_queue(merge(&run, &shown)).await.unwrap();
    for refused in [
        host.run_discard(named(&run)).await.unwrap_err(),
        host.run_merge(merge(&run, &shown)).await.unwrap_err(),
        host.run_sync(sync(&run)).await.unwrap_err(),
        host.merge_queue(merge(&run, &shown)).await.unwrap_err(),
    ] {
        assert_eq!(refused.code, Code::Conflict, "{refused}");
        assert!(refused.message.contains("merge queue"), "{refused}");
    }
    // The operator may end the checks; the entry is then returned.
    crate::scene::events_until(&host, &run, |events| {
        events
            .iter()
            .any(|event| event.step.as_ref().is_some_and(|step| step.0 == "check.2"))
    })
    .await;
    host.run_stop(named(&run)).await.unwrap();
    let entry = entry_over(&host, &run).await;
    let QueueStanding::Returned { reason } = entry.standing else {
        panic!("{entry:?}")
    };
    assert!(reason.contains("stopped"), "{reason}");
    host.run_discard(named(&run)).await.unwrap();
}

#[tokio::test]
async fn checks_of_an_engine_that_is_killed_are_gone_on_with() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let host = scene.host().await;
    let gate = scene.dir.path().join("go");
    let slow = format!(
        "sh:echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo done",
        gate.display()
    );
    let mut request = scene.request(&["commit:a"]);
    request.checks = vec![slow, "true".into()];
    let run = host.run_create(request).await.unwrap().id;
    crate::scene::events_until(&host, &run, |events| {
        let of_check = |event: &foreman_domain::Event| {
            event.step.as_ref().is_some_and(|step| step.0 == "check-1")
        };
        events.iter().any(of_check)
    })
    .await;
    other.kill();
    std::fs::write(&gate, "").unwrap();
    let ended = at_rest(&host, &run).await;
    assert_eq!(ended.failed_checks, 0, "{ended:?}");
    let events = crate::scene::events_until(&host, &run, |_| true).await;
    let begun = events.iter().filter(|event| {
        matches!(&event.kind, EventKind::StepStarted { what, .. }
            if *what == foreman_domain::StepKind::Check)
    });
    assert_eq!(begun.count(), 2, "checks ran twice");
}

#[tokio::test]
async fn exactly_what_was_reviewed_is_pushed() {
    let scene = Scene::new();
    let host = scene.host().await;
    let bare = scene.dir.path().join("remote.git");
    scene.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    scene.git(&["remote", "add", "origin", bare.to_str().unwrap()]);
    let run = checked(&scene, &host, &["commit:a"], &[]).await;
    let shown = diff(&host, &run.id).await;
    let push = |expect: &str, branch: Option<&str>, replace: bool| PushRequest {
        run: run.id.to_string(),
        expect: expect.into(),
        remote: "origin".into(),
        branch: branch.map(str::to_owned),
        replace,
        with_secrets: false,
    };
    let stale = host.run_push(push("feed", None, false)).await.unwrap_err();
    assert_eq!(stale.code, Code::Stale);
    let base = host
        .run_push(push(&shown.expect, Some("main"), false))
        .await
        .unwrap_err();
    assert_eq!(base.code, Code::Conflict);
    let early = host
        .run_push(push(&shown.expect, None, true))
        .await
        .unwrap_err();
    assert!(early.message.contains("pushed nothing"), "{early}");
    let pushed = host
        .run_push(push(&shown.expect, None, false))
        .await
        .unwrap();
    assert_eq!((&pushed.head, &pushed.branch), (&shown.head, &run.branch));
    let there =
        |branch: &str| scene.git(&["--git-dir", bare.to_str().unwrap(), "rev-parse", branch]);
    assert_eq!(there(&run.branch), shown.head);
    // Brought onto another base, the branch is replaced on request only.
    meanwhile(&scene, "others", "others\n");
    host.run_sync(sync(&run.id)).await.unwrap();
    let now = diff(&host, &run.id).await;
    let refused = host
        .run_push(push(&now.expect, None, false))
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::Conflict, "{refused}");
    host.run_push(push(&now.expect, None, true)).await.unwrap();
    assert_eq!(there(&run.branch), now.head);
}

/// What became of an order that may be merged by itself: nothing when it was merged, else why not.
async fn by_itself(
    scene: &Scene,
    host: &Host,
    id: &str,
    script: &[&str],
    change: impl FnOnce(&mut OrderSpec),
) -> Option<String> {
    let mut run = scene.request(script);
    run.checks = vec!["sh:test -e README".into()];
    let mut spec = OrderSpec {
        run,
        env_from: vec![],
        prompt: None,
        hints: Default::default(),
        scope: None,
        depends_on: vec![],
        parent: None,
        gate: OrderGate::Checks,
        estimate_wall_seconds: None,
    };
    change(&mut spec);
    let draft = OrderDraft {
        id: Some(id.into()),
        spec,
        attempts: None,
        agents: vec![],
    };
    let add = OrderAdd {
        draft: Some(draft),
        source: None,
    };
    host.order_add(add).await.unwrap();
    let deadline = Instant::now() + DEADLINE;
    loop {
        let listed = host
            .merge_list(MergeList {
                all: true,
                ..MergeList::default()
            })
            .await
            .unwrap();
        for entry in listed.merges {
            let run = host.run_show(named(&entry.run)).await.unwrap();
            if run.order.as_str() != id {
                continue;
            }
            assert!(entry.by_itself);
            match entry.standing {
                QueueStanding::Merged { .. } => return None,
                QueueStanding::Returned { reason } => {
                    assert!(matches!(run.state, RunState::Review { .. }), "{run:?}");
                    let said = warnings(host, &run.id).await;
                    assert!(said.iter().any(|one| one.contains(&reason)), "{said:?}");
                    return Some(reason);
                }
                QueueStanding::Waiting | QueueStanding::Working => {}
            }
        }
        let is_late = Instant::now() >= deadline;
        if is_late {
            let order = host.order_show(OrderRef { order: id.into() }).await;
            let runs = host.run_list(Default::default()).await.unwrap().runs;
            assert!(
                !is_late,
                "{id} was not decided about: {order:#?} {:?}",
                runs.first()
            );
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_run_is_merged_by_itself_only_when_there_is_nothing_to_weigh() {
    let scene = Scene::new();
    let host = scene.host().await;
    host.dispatch_orders();
    let nothing = |_: &mut OrderSpec| {};
    let plain = by_itself(&scene, &host, "plain", &["commit:plain.rs"], nothing).await;
    assert_eq!(plain, None);
    assert!(scene.repo().join("plain.rs").exists());
    // On a base that has moved since it started, and with a scope that covers it.
    let scoped = |spec: &mut OrderSpec| {
        spec.scope = Some(foreman_schedule::ScopeClaim {
            patterns: vec!["*.rs".into()],
            enforcement: Default::default(),
            strict: false,
        });
    };
    assert_eq!(
        by_itself(&scene, &host, "in", &["commit:in.rs"], scoped).await,
        None
    );
    let before = scene.git(&["rev-parse", "main"]);
    for (id, file) in [
        ("makefile", "Makefile"),
        ("makefile-case", "mAkEfIlE"),
        ("package", "package.json"),
        ("lock", "Cargo.lock"),
        ("conftest", "conftest.py"),
        ("build-rs", "build.rs"),
        ("attributes", ".gitattributes"),
        ("ci", ".gitlab-ci.yml"),
        ("named", "README"),
    ] {
        let script = format!("commit:{file}");
        let why = by_itself(&scene, &host, id, &[&script], nothing).await;
        let why = why.unwrap_or_else(|| panic!("{file} was merged by itself"));
        assert!(why.contains(file), "{file}: {why}");
    }
    let outside = by_itself(&scene, &host, "out", &["commit:out.txt"], scoped)
        .await
        .unwrap();
    assert!(
        outside.contains("outside of its scope: out.txt"),
        "{outside}"
    );
    let failed = by_itself(&scene, &host, "failed", &["commit:f.rs", "exit:3"], nothing).await;
    assert!(failed.unwrap().contains("did not succeed"));
    let refused = by_itself(
        &scene,
        &host,
        "held",
        &["hold:x.example", "commit:h.rs"],
        |spec| {
            spec.run.unattended = true;
        },
    );
    let refused = refused.await.unwrap();
    assert!(
        refused.contains("x.example") && refused.contains("nobody attended"),
        "{refused}"
    );
    let rewritten = by_itself(&scene, &host, "rewritten", &["commit:r.rs"], |spec| {
        spec.run.checks.push("sh:echo other > plain.rs".into());
    });
    let rewritten = rewritten.await.unwrap();
    assert!(rewritten.contains("changed plain.rs"), "{rewritten}");
    let bad = by_itself(&scene, &host, "bad", &["commit:b.rs"], |spec| {
        spec.run.checks.push("sh:false".into());
    });
    assert!(bad.await.unwrap().contains("`sh:false` failed"));
    assert_eq!(
        scene.git(&["rev-parse", "main"]),
        before,
        "something was merged"
    );
}

#[tokio::test]
async fn a_run_that_writes_an_order_file_of_a_watched_folder_is_never_merged_by_itself() {
    let scene = Scene::new();
    let host = scene.host().await;
    host.dispatch_orders();
    let folder = scene.repo().join("orders");
    std::fs::create_dir(&folder).unwrap();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&folder, mode(0o775)).unwrap();
    let watch = || WatchChange {
        folder: folder.clone(),
        watched: true,
    };
    let refused = host.orders_watch(watch()).await.unwrap_err();
    assert_eq!(refused.code, Code::BadInput);
    assert!(refused.message.contains("by others"), "{refused}");
    std::fs::set_permissions(&folder, mode(0o755)).unwrap();
    host.orders_watch(watch()).await.unwrap();

    let nothing = |_: &mut OrderSpec| {};
    let why = by_itself(
        &scene,
        &host,
        "planted",
        &["commit:build.rs", "commit:orders/x.md"],
        nothing,
    )
    .await
    .expect("an order file was merged by itself");
    let words = "orders/x.md, an order file of a folder that is watched";
    assert!(why.contains(words), "{why}");
    let runs = host.run_list(Default::default()).await.unwrap().runs;
    let gate = host.run_gate(named(&runs[0].id)).await.unwrap();
    assert_eq!(gate.steering.first().map(String::as_str), Some(words));
    assert_eq!(gate.steering.len(), 2, "{:?}", gate.steering);
    assert!(!folder.join("x.md").exists());

    let other = by_itself(&scene, &host, "plain", &["commit:plain.rs"], nothing).await;
    assert_eq!(other, None);
}
