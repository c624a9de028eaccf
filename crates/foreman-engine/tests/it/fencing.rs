//! Two engines on one database, although a lock normally keeps them apart: the first is stopped past its
//! lease, its lock file is taken away, and it goes on later. Nothing it then writes counts.

use crate::scene::{DEADLINE, Scene, at_rest, events_until, named, open_block};
use foreman_domain::{Code, RunState};
use foreman_engine::Host;
use foreman_engine::api::{AmendRequest, Commands, RunList};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

fn lock_file(scene: &Scene) -> PathBuf {
    scene.data().join("state/engine.lock")
}

fn holder(scene: &Scene) -> (i32, PathBuf) {
    let text = std::fs::read(lock_file(scene)).unwrap();
    let holder: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let pid = holder["pid"].as_i64().unwrap();
    (
        pid.try_into().unwrap(),
        holder["socket"].as_str().unwrap().into(),
    )
}

fn signal(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_was_overtaken_while_it_slept_writes_nothing_and_steps_down() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let host = scene.host().await;
    let run = scene
        .start(&host, &["line:one", "hold:registry.example", "commit:a"])
        .await;
    let block = open_block(&host, &run.id).await;
    let (first, socket) = holder(&scene);

    // A connection to the first engine that is there before it sleeps, with requests that it will find
    // when it wakes up: each of them would write.
    let mut line = UnixStream::connect(&socket).unwrap();
    line.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut answers = BufReader::new(line.try_clone().unwrap());
    let mut greeting = String::new();
    answers.read_line(&mut greeting).unwrap();
    signal(first, Signal::SIGSTOP);
    let create = serde_json::to_value(scene.request(&["commit:b"])).unwrap();
    for (id, method, params) in [
        ("c", "run.create", create),
        ("s", "run.stop", serde_json::json!({ "run": run.id })),
        (
            "d",
            "block.deny",
            serde_json::json!({ "block": block.block.id, "expect": block.expect, "reason": "" }),
        ),
    ] {
        let request =
            serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        // In one piece each: many small ones fill the buffer of a process that does not read.
        line.write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    std::fs::remove_file(lock_file(&scene)).unwrap();
    let waiting = Instant::now();
    let second = Host::open(scene.options()).await.unwrap();
    assert!(second.is_hosting(), "joined an engine that sleeps");
    assert!(
        waiting.elapsed() > Duration::from_secs(5),
        "the lease of a living engine was not waited for"
    );
    let decided = second
        .block_amend(AmendRequest {
            limit: None,
            block: block.block.id.to_string(),
            expect: block.expect,
            scope: None,
            rule: None,
            confirmed: false,
            expires: None,
            surface: None,
        })
        .await
        .unwrap();
    assert!(decided.in_force);

    signal(first, Signal::SIGCONT);
    let ended = at_rest(&second, &run.id).await;
    assert!(
        matches!(
            ended.state,
            RunState::Review {
                agent_succeeded: true,
                ..
            }
        ),
        "{ended:?}"
    );
    // What the first one answers, if it comes to that, is no success.
    tokio::task::spawn_blocking(move || {
        for answer in answers.lines().map_while(Result::ok) {
            assert!(answer.contains("\"error\""), "{answer}");
        }
    })
    .await
    .unwrap();
    let runs = second.run_list(RunList::default()).await.unwrap().runs;
    assert_eq!(runs.len(), 1, "a run of the overtaken engine: {runs:?}");
    let events = events_until(&second, &run.id, |events| !events.is_empty()).await;
    let said = |tag: &str| {
        events
            .iter()
            .filter(|event| event.kind.tag() == tag)
            .count()
    };
    let seqs: Vec<_> = events.iter().map(|event| event.seq.0).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!((said("output"), said("commits")), (1, 1), "{events:#?}");
    let branches = scene.git(&["branch", "--list", "foreman/*"]);
    assert_eq!(branches.lines().count(), 1, "{branches}");

    // The socket is that of the engine in charge, although the other one has ended meanwhile.
    other.kill();
    let third = scene.host().await;
    assert!(!third.is_hosting());
    third.run_show(named(&run.id)).await.unwrap();
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_up_is_joined_although_its_lock_file_was_taken_away() {
    let scene = Scene::new();
    let _other = scene.other_process();
    std::fs::remove_file(lock_file(&scene)).unwrap();
    let clock = Instant::now();
    let second = scene.host().await;
    assert!(!second.is_hosting());
    assert!(clock.elapsed() < Duration::from_secs(5));
    second.run_list(RunList::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_engines_lease_is_not_waited_for_and_neither_is_one_that_was_given_back() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    other.kill();
    let clock = Instant::now();
    let next = scene.host().await;
    assert!(next.is_hosting());
    next.close().await;
    // Another process, which is not known to be the one before.
    let other = scene.other_process();
    assert_eq!(other.role, "hosting");
    assert!(clock.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_in_the_same_process_is_fenced_by_the_next_and_asks_that_one() {
    let scene = Scene::new();
    let first = scene.host().await;
    std::fs::remove_file(lock_file(&scene)).unwrap();
    // The same process: its own description is known to be replaced.
    let second = scene.host().await;
    assert!(first.is_hosting() && second.is_hosting());
    let refused = first.run_create(scene.request(&["commit:a"])).await;
    match refused {
        // It has not found out yet: the store refuses.
        Err(failure) => assert_eq!(failure.code, Code::Busy, "{failure}"),
        // It has, and asked the engine in charge.
        Ok(run) => {
            second.run_show(named(&run.id)).await.unwrap();
        }
    }
    let deadline = Instant::now() + DEADLINE;
    while first.is_hosting() {
        assert!(Instant::now() < deadline, "it never stepped down");
        let _ = first.run_list(RunList::default()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    second.close().await;
}
