//! Runs from their start to their end.

use crate::scene::{Scene, at_rest, events_until, example, named, open_block};
use foreman_domain::{
    BlockState, CancelCause, Code, EventKind, FailReason, InterruptReason, RunState,
};
use foreman_engine::HostOptions;
use foreman_engine::api::{BlockList, Commands, EventsRequest, RunRef};

#[tokio::test]
async fn commits_end_in_review_on_the_runs_own_branch() {
    let scene = Scene::new();
    let host = scene.host().await;
    let base = scene.git(&["rev-parse", "main"]);
    let run = scene
        .start(&host, &["line:hello", "commit:a", "commit:b"])
        .await;
    assert_eq!(
        (run.base.as_str(), run.base_branch.as_str()),
        (base.as_str(), "main")
    );
    let ended = at_rest(&host, &run.id).await;
    let RunState::Review {
        head,
        agent_succeeded: true,
        ..
    } = &ended.state
    else {
        panic!("{ended:?}")
    };
    assert_eq!(scene.git(&["rev-parse", &run.branch]), *head);
    assert_eq!(
        scene.git(&["rev-list", "--count", &format!("main..{head}")]),
        "2"
    );
    let events = events_until(&host, &run.id, |_| true).await;
    let kinds: Vec<_> = events.iter().map(|event| event.kind.tag()).collect();
    assert!(
        kinds.contains(&"output") && kinds.contains(&"commits"),
        "{kinds:?}"
    );
    let seqs: Vec<_> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert!(
        !scene
            .data()
            .join(format!("state/runs/{}/spec.json", run.id))
            .exists()
    );
}

#[tokio::test]
async fn an_agents_exit_code_is_no_success_and_no_failure_by_itself() {
    let scene = Scene::new();
    let host = scene.host().await;
    let nothing = scene.start(&host, &["exit:0"]).await;
    let failed = scene.start(&host, &["exit:3"]).await;
    let failed_with_work = scene.start(&host, &["commit:a", "exit:3"]).await;
    assert_eq!(at_rest(&host, &nothing.id).await.state, RunState::NoChanges);
    let failed = at_rest(&host, &failed.id).await;
    let RunState::Failed {
        reason: FailReason::Agent { message },
    } = &failed.state
    else {
        panic!("{failed:?}")
    };
    assert!(message.contains("exit code 3"), "{message}");
    let with_work = at_rest(&host, &failed_with_work.id).await;
    assert!(matches!(
        with_work.state,
        RunState::Review {
            agent_succeeded: false,
            ..
        }
    ));
}

#[tokio::test]
async fn a_run_whose_supervisor_dies_is_lost_and_its_worktree_is_kept() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["line:alive", "crash"]).await;
    let ended = at_rest(&host, &run.id).await;
    let RunState::Interrupted {
        reason: InterruptReason::Lost { message },
    } = &ended.state
    else {
        panic!("{ended:?}")
    };
    assert!(message.contains("left no result"), "{message}");
    assert!(run.worktree.join("README").is_file());
    let events = events_until(&host, &run.id, |_| true).await;
    assert!(
        events
            .iter()
            .any(|event| matches!(&event.kind, EventKind::Output { text, .. } if text == "alive")),
        "what it had said was lost"
    );
}

#[tokio::test]
async fn what_a_lost_run_had_held_waits_for_nobody_any_more() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["hold:registry.example", "wait"]).await;
    let is_held = |events: &[foreman_domain::Event]| {
        events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Block { .. }))
    };
    events_until(&host, &run.id, is_held).await;
    let folder = scene.data().join("state/runs").join(run.id.as_str());
    let identity = std::fs::read_to_string(folder.join("identity.json")).unwrap();
    let identity: serde_json::Value = serde_json::from_str(&identity).unwrap();
    let pid = nix::unistd::Pid::from_raw(identity["pid"].as_i64().unwrap() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let ended = at_rest(&host, &run.id).await;
    assert_eq!(ended.open_blocks, 0, "{ended:?}");
    let all = BlockList {
        run: Some(run.id.to_string()),
        all: true,
    };
    let blocks = host.block_list(all).await.unwrap().blocks;
    assert_eq!(blocks[0].block.state, BlockState::Gone);
    assert_eq!(blocks[0].block.waiting, 0);
}

#[tokio::test]
async fn a_damaged_journal_does_not_keep_a_run_from_its_end() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["line:one", "wait"]).await;
    let folder = scene.data().join("state/runs").join(run.id.as_str());
    let identity = std::fs::read_to_string(folder.join("identity.json")).unwrap();
    let identity: serde_json::Value = serde_json::from_str(&identity).unwrap();
    let seen = |events: &[foreman_domain::Event]| {
        events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Output { .. }))
    };
    events_until(&host, &run.id, seen).await;
    let pid = nix::unistd::Pid::from_raw(identity["pid"].as_i64().unwrap() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let journal = std::fs::read_to_string(folder.join("journal.ndjson")).unwrap();
    std::fs::write(folder.join("journal.ndjson"), format!("rubbish\n{journal}")).unwrap();
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let ended = at_rest(&host, &run.id).await;
    assert!(
        matches!(ended.state, RunState::Interrupted { .. }),
        "{ended:?}"
    );
    assert!(folder.join("journal.damaged").is_file());
}

#[tokio::test]
async fn a_stop_is_said_only_when_the_run_is_at_rest() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["wait"]).await;
    let stopped = host.run_stop(named(&run.id)).await.unwrap();
    assert_eq!(
        stopped.state,
        RunState::Cancelled {
            by: CancelCause::Operator
        }
    );
    let again = host.run_stop(named(&run.id)).await.unwrap();
    assert_eq!(again.state, stopped.state);
}

#[tokio::test]
async fn a_stop_asked_of_an_engine_that_is_killed_is_carried_out_by_the_next() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let host = scene.host().await;
    let run = scene.start(&host, &["wait"]).await;
    let asking = host.run_stop(named(&run.id));
    let killing = async { other.kill() };
    let (stopped, ()) = tokio::join!(asking, killing);
    assert!(matches!(stopped.unwrap().state, RunState::Cancelled { .. }));
}

#[tokio::test]
async fn a_run_is_named_by_a_beginning_of_its_id_or_as_the_last() {
    let scene = Scene::new();
    let host = scene.host().await;
    let none = host
        .run_show(RunRef { run: "last".into() })
        .await
        .unwrap_err();
    assert_eq!(none.code, Code::NotFound);
    let first = scene.start(&host, &["exit:0"]).await;
    let second = scene.start(&host, &["exit:0"]).await;
    let last = host.run_show(RunRef { run: "last".into() }).await.unwrap();
    assert_eq!(last.id, second.id);
    let whole = first.id.to_string();
    assert_eq!(
        host.run_show(RunRef {
            run: whole[..7].into()
        })
        .await
        .unwrap()
        .id,
        first.id
    );
    let several = host.run_show(RunRef { run: "r".into() }).await.unwrap_err();
    assert_eq!(several.code, Code::BadInput);
    for wrong in ["", "x", "../etc/passwd", "r%", "rzzzzzzzzz"] {
        let refused = host
            .run_show(RunRef { run: wrong.into() })
            .await
            .unwrap_err();
        assert_eq!(refused.code, Code::NotFound, "{wrong}");
    }
}

#[tokio::test]
async fn a_missing_wall_refuses_before_anything_is_made_unless_it_is_accepted() {
    let scene = Scene::new();
    let programs = scene.dir.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let program = programs.join("foreman-shim");
    std::fs::copy(example("scripted_shim"), &program).unwrap();
    std::fs::write(programs.join("broken-wall"), "network").unwrap();
    let options = HostOptions {
        shim_program: Some(program),
        ..scene.options()
    };
    let host = foreman_engine::Host::open(options).await.unwrap();

    let refused = host
        .run_create(scene.request(&["exit:0"]))
        .await
        .unwrap_err();
    assert_eq!(refused.code, Code::WallMissing);
    assert!(refused.message.contains("network"), "{refused}");
    let hint = refused.hint.as_deref().unwrap_or_default();
    assert!(
        hint.starts_with("mend it; or run without any network"),
        "{hint}"
    );
    assert!(
        host.run_list(Default::default())
            .await
            .unwrap()
            .runs
            .is_empty()
    );
    assert_eq!(scene.git(&["branch", "--list", "foreman/*"]), "");

    let mut request = scene.request(&["exit:0"]);
    request.accept_weaker = vec![foreman_domain::Wall::Network];
    let weaker = host.run_create(request).await.unwrap();
    assert_eq!(
        weaker.tier,
        "Network refused, files confined (weaker than it should be, as accepted)"
    );
    for wall in [foreman_domain::Wall::Mounts, foreman_domain::Wall::Git] {
        let mut request = scene.request(&["exit:0"]);
        request.accept_weaker = vec![foreman_domain::Wall::Network, wall];
        let refused = host.run_create(request).await.unwrap_err();
        assert_eq!(refused.code, Code::Usage);
        assert!(refused.message.contains("is not possible"), "{refused}");
    }
    let report = host.doctor(Default::default()).await.unwrap();
    assert_eq!(report.tier, "reduced");
    at_rest(&host, &weaker.id).await;

    // Once it is mended, the next run is looked at anew.
    std::fs::remove_file(programs.join("broken-wall")).unwrap();
    let full = scene.start(&host, &["exit:0"]).await;
    assert_eq!(full.tier, "Network held, files confined");
    at_rest(&host, &full.id).await;
}

#[tokio::test]
async fn a_supervisor_that_does_not_start_leaves_a_failed_run_and_nothing_else() {
    let scene = Scene::new();
    let program = scene.dir.path().join("foreman-shim");
    std::fs::write(
        &program,
        "#!/bin/sh\nif [ \"$1\" = doctor ]; then\n  cat \"$0.json\"\nelse\n  echo no luck >&2; exit 1\nfi\n",
    )
    .unwrap();
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let found = std::process::Command::new(example("scripted_shim"))
        .args(["doctor", "--json"])
        .output()
        .unwrap();
    std::fs::write(scene.dir.path().join("foreman-shim.json"), found.stdout).unwrap();
    let options = HostOptions {
        shim_program: Some(program),
        ..scene.options()
    };
    let host = foreman_engine::Host::open(options).await.unwrap();

    let run = scene.start(&host, &["exit:0"]).await;
    let run = at_rest(&host, &run.id).await;
    let RunState::Failed {
        reason: FailReason::Provision { message, code, .. },
    } = &run.state
    else {
        panic!("{:?}", run.state)
    };
    assert_eq!(*code, Some(Code::Environment));
    assert!(message.contains("no luck"), "{message}");
    assert!(!run.worktree.exists());
    assert_eq!(scene.git(&["branch", "--list", "foreman/*"]), "");
}

#[tokio::test]
async fn bad_requests_are_refused_before_anything_is_made() {
    let scene = Scene::new();
    let host = scene.host().await;
    let request = || scene.request(&["exit:0"]);
    let mut cases = Vec::new();
    let mut no_command = request();
    no_command.argv.clear();
    cases.push((no_command, Code::Usage));
    let mut nul = request();
    nul.argv.push("a\0b".into());
    cases.push((nul, Code::BadInput));
    let mut relative = request();
    relative.repo = "repo".into();
    cases.push((relative, Code::Usage));
    let mut elsewhere = request();
    elsewhere.repo = scene.dir.path().to_owned();
    cases.push((elsewhere, Code::BadInput));
    let mut no_base = request();
    no_base.base = Some("no-such-branch".into());
    cases.push((no_base, Code::BadInput));
    let mut bad_allow = request();
    bad_allow.allow = vec!["host-without-port".into()];
    cases.push((bad_allow, Code::BadInput));
    let mut bad_policy = request();
    bad_policy.policy = Some(foreman_engine::api::PolicySource {
        name: "p.toml".into(),
        text: "[[egres]]\n".into(),
    });
    cases.push((bad_policy, Code::BadPolicy));
    let mut no_time = request();
    no_time.bounds.wall_seconds = Some(0);
    cases.push((no_time, Code::BadInput));
    let mut proxied = request();
    proxied.env = vec![("HTTPS_PROXY".into(), "http://proxy.example".into())];
    cases.push((proxied, Code::BadInput));
    for (request, code) in cases {
        let refused = host.run_create(request.clone()).await.unwrap_err();
        assert_eq!(refused.code, code, "{refused} {request:?}");
    }
    assert!(
        host.run_list(Default::default())
            .await
            .unwrap()
            .runs
            .is_empty()
    );
    assert_eq!(scene.git(&["branch", "--list", "foreman/*"]), "");
}

#[tokio::test]
async fn a_filtered_page_moves_its_cursor_and_says_when_nothing_follows() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["line:a", "line:b"]).await;
    at_rest(&host, &run.id).await;
    let request = |after| EventsRequest {
        run: run.id.to_string(),
        after,
        limit: 1,
        wait_ms: 0,
        kinds: vec!["output".into()],
        ..EventsRequest::default()
    };
    let first = host.run_events(request(Default::default())).await.unwrap();
    assert_eq!(first.events.len(), 1);
    assert!(!first.ended);
    let second = host.run_events(request(first.cursor)).await.unwrap();
    assert_eq!(second.events.len(), 1);
    let third = host.run_events(request(second.cursor)).await.unwrap();
    assert!(third.events.is_empty() && third.ended);
}

#[tokio::test]
async fn checks_are_shown_with_their_results() {
    let scene = Scene::new();
    let host = scene.host().await;
    let mut request = scene.request(&["exit:0"]);
    request.checks = vec!["true".into(), "make test".into()];
    let run = host.run_create(request).await.unwrap();
    let ended = at_rest(&host, &run.id).await;
    assert_eq!(ended.checks, ["`true` passed", "`make test` passed"]);
}

#[tokio::test]
async fn an_unattended_run_is_marked_when_something_was_refused() {
    let scene = Scene::new();
    let host = scene.host().await;
    let mut request = scene.request(&["hold:registry.example"]);
    request.unattended = true;
    let run = host.run_create(request).await.unwrap();
    let ended = at_rest(&host, &run.id).await;
    assert!(ended.denied_unattended);
    assert_eq!(ended.open_blocks, 0);
}

#[tokio::test]
async fn an_open_block_is_counted_on_the_run() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene.start(&host, &["hold:registry.example"]).await;
    open_block(&host, &run.id).await;
    assert_eq!(host.run_show(named(&run.id)).await.unwrap().open_blocks, 1);
    host.run_stop(named(&run.id)).await.unwrap();
}
