//! Who is the engine, and what happens when it goes away.

use crate::scene::{DEADLINE, Scene, at_rest, named, open_block};
use foreman_domain::{Code, RunState};
use foreman_engine::Host;
use foreman_engine::api::{AmendRequest, BlockList, Commands, RunList};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

#[tokio::test]
async fn one_hosts_and_the_others_join_it() {
    let scene = Scene::new();
    let first = scene.host().await;
    let second = scene.host().await;
    assert!(first.is_hosting() && !second.is_hosting());
    let run = scene.start(&second, &["commit:a"]).await;
    let seen = first.run_show(named(&run.id)).await.unwrap();
    assert_eq!(seen.id, run.id);
    at_rest(&second, &run.id).await;
    first.close().await;
}

#[tokio::test]
async fn a_joined_host_takes_over_when_the_engine_closes() {
    let scene = Scene::new();
    let first = scene.host().await;
    let second = scene.host().await;
    first.close().await;
    assert!(
        second
            .run_list(RunList::default())
            .await
            .unwrap()
            .runs
            .is_empty()
    );
    assert!(second.is_hosting());
}

#[tokio::test]
async fn a_block_can_be_amended_after_the_engine_was_killed() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    assert_eq!(other.role, "hosting");
    let host = scene.host().await;
    assert!(!host.is_hosting());
    let run = scene
        .start(&host, &["hold:registry.example", "commit:a"])
        .await;
    let block = open_block(&host, &run.id).await;

    other.kill();
    let decided = host
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
    assert!(host.is_hosting());
    assert!(decided.in_force);
    let ended = at_rest(&host, &run.id).await;
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
}

#[tokio::test]
async fn a_new_engine_decides_at_once_about_a_run_that_outlived_the_last() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let host = scene.host().await;
    let run = scene.start(&host, &["hold:registry.example"]).await;
    let block = open_block(&host, &run.id).await;
    other.kill();
    drop(host);
    let next = scene.host().await;
    let decided = next
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
    assert!(decided.in_force && decided.released == 1, "{decided:?}");
    at_rest(&next, &run.id).await;
}

#[tokio::test]
async fn a_new_engine_knows_at_its_first_answer_what_happened_while_nobody_hosted() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let host = scene.host().await;
    let many: Vec<_> = (0..2_000).map(|line| format!("line:{line}")).collect();
    let mut script: Vec<_> = many.iter().map(String::as_str).collect();
    script.push("hold:registry.example");
    let run = scene.start(&host, &script).await;
    other.kill();
    drop(host);
    let journal = scene
        .data()
        .join(format!("state/runs/{}/journal.ndjson", run.id));
    let held = async {
        while !std::fs::read_to_string(&journal)
            .unwrap()
            .contains("\"kind\":\"block\"")
        {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, held).await.unwrap();
    let next = scene.host().await;
    let blocks = next.block_list(BlockList::default()).await.unwrap().blocks;
    assert_eq!(blocks.len(), 1);
    next.run_stop(named(&run.id)).await.unwrap();
}

#[tokio::test]
async fn a_run_that_ended_while_nobody_hosted_is_brought_to_rest_by_the_next() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let host = scene.host().await;
    let run = scene.start(&host, &["commit:a"]).await;
    other.kill();
    drop(host);
    let next = scene.host().await;
    let ended = at_rest(&next, &run.id).await;
    assert!(matches!(ended.state, RunState::Review { .. }), "{ended:?}");
}

#[tokio::test]
async fn a_lock_that_nobody_answers_for_is_reported_with_its_holder() {
    let scene = Scene::new();
    let host = scene.host().await;
    host.close().await;
    let lock = std::fs::File::open(scene.data().join("state/engine.lock")).unwrap();
    lock.lock().unwrap();
    let refused = Host::open(scene.options()).await.unwrap_err();
    assert_eq!(refused.code, Code::Busy);
    assert!(refused.message.contains("does not answer"), "{refused}");
    lock.unlock().unwrap();
}

fn socket_of(scene: &Scene) -> UnixStream {
    let text = std::fs::read_to_string(scene.data().join("state/engine.lock")).unwrap();
    let holder: serde_json::Value = serde_json::from_str(&text).unwrap();
    let path = holder["socket"].as_str().unwrap();
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    UnixStream::connect(path).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_socket_speaks_json_rpc_and_refuses_what_is_none() {
    let scene = Scene::new();
    let _host = scene.host().await;
    let lines = tokio::task::spawn_blocking({
        let mut stream = socket_of(&scene);
        move || {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut next = || {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                serde_json::from_str::<serde_json::Value>(&line).unwrap()
            };
            let mut answers = vec![next()];
            for request in [
                r#"{"jsonrpc":"2.0","id":"1","method":"run.list","params":{}}"#,
                r#"{"jsonrpc":"2.0","id":"2","method":"no.such","params":{}}"#,
                r#"{"jsonrpc":"1.0","id":"3","method":"run.list","params":{}}"#,
                "not json",
            ] {
                writeln!(stream, "{request}").unwrap();
                answers.push(next());
            }
            answers
        }
    })
    .await
    .unwrap();
    assert_eq!(lines[0]["method"], "welcome");
    assert_eq!(lines[1]["result"]["runs"], serde_json::json!([]));
    assert_eq!(lines[1]["id"], "1");
    for refused in &lines[2..] {
        assert_eq!(refused["error"]["data"]["code"], "usage", "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_without_an_end_does_not_fill_the_engines_memory() {
    let scene = Scene::new();
    let host = scene.host().await;
    let mut stream = socket_of(&scene);
    let ended = tokio::task::spawn_blocking(move || {
        let chunk = vec![b'x'; 1 << 20];
        // The engine says no and closes long before this; writing then fails.
        (0..64).find(|_| stream.write_all(&chunk).is_err())
    })
    .await
    .unwrap();
    assert!(ended.is_some(), "64 MiB went into one line");
    assert!(host.run_list(RunList::default()).await.is_ok());
}
