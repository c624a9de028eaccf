//! The engine as a service, and how it ends.

use crate::scene::{DEADLINE, Scene, at_rest, events_until, named};
use foreman_domain::{Code, RunState};
use foreman_engine::api::{Commands, ShutdownReport, ShutdownRequest};
use foreman_engine::{Host, ServiceLock};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A service in this process, and how it ends.
struct Serving {
    host: Arc<Host>,
    task: tokio::task::JoinHandle<ShutdownReport>,
}

impl Serving {
    async fn start(scene: &Scene, idle: Option<Duration>) -> Self {
        let host = Arc::new(scene.host().await);
        let serving = Arc::clone(&host);
        let (up, is_up) = tokio::sync::oneshot::channel();
        let mut up = Some(up);
        let task = tokio::spawn(async move {
            let took_over = || {
                if let Some(up) = up.take() {
                    up.send(()).unwrap();
                }
            };
            serving.serve(idle, took_over).await.unwrap()
        });
        tokio::time::timeout(DEADLINE, is_up)
            .await
            .unwrap()
            .unwrap();
        Self { host, task }
    }

    /// Its report, once it has ended; the data directory is free then.
    async fn ended(self) -> ShutdownReport {
        let report = tokio::time::timeout(DEADLINE, self.task).await.unwrap();
        Arc::into_inner(self.host).unwrap().close().await;
        report.unwrap()
    }
}

fn drain(time: Duration) -> ShutdownRequest {
    ShutdownRequest {
        drain_ms: Some(time.as_millis().try_into().unwrap()),
        stop_runs: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_leaves_its_runs_and_the_next_engine_adopts_them() {
    let scene = Scene::new();
    let service = Serving::start(&scene, None).await;
    let client = scene.host().await;
    let run = scene.start(&client, &["line:one", "wait"]).await;
    let report = client.shutdown(ShutdownRequest::default()).await.unwrap();
    let left: Vec<_> = report.left.iter().map(|left| &left.run).collect();
    assert_eq!(left, [&run.id]);
    assert_eq!(service.ended().await, report);
    let before = client.run_show(named(&run.id)).await.unwrap();
    assert!(client.is_hosting() && before.state.is_live(), "{before:?}");
    client.run_stop(named(&run.id)).await.unwrap();
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_begins_nothing_new_and_waits_for_what_runs() {
    let scene = Scene::new();
    let service = Serving::start(&scene, None).await;
    let client = scene.host().await;
    let run = scene.start(&client, &["hold:registry.example"]).await;
    let block = crate::scene::open_block(&client, &run.id).await;
    let ending = client.shutdown(drain(DEADLINE));
    let meanwhile = async {
        let other = scene.host().await;
        let deadline = Instant::now() + DEADLINE;
        let refused = loop {
            match other.run_create(scene.request(&["commit:b"])).await {
                Err(refused) => break refused,
                // The shutdown has not arrived yet.
                Ok(early) => drop(at_rest(&other, &early.id).await),
            }
            assert!(Instant::now() < deadline);
        };
        assert_eq!(refused.code, Code::Busy);
        assert!(refused.message.contains("about to end"), "{refused}");
        // What runs is still followed, and what it waits for can be decided.
        let request = foreman_engine::api::AmendRequest {
            limit: None,
            block: block.block.id.to_string(),
            expect: block.expect,
            scope: None,
            rule: None,
            confirmed: false,
            expires: None,
            surface: None,
        };
        assert!(other.block_amend(request).await.unwrap().in_force);
    };
    let (report, ()) = tokio::join!(ending, meanwhile);
    let report = report.unwrap();
    assert!(report.left.is_empty() && report.ended.contains(&run.id));
    assert_eq!(service.ended().await, report);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_has_a_deadline_and_what_is_left_can_be_stopped() {
    let scene = Scene::new();
    let service = Serving::start(&scene, None).await;
    let client = scene.host().await;
    let run = scene.start(&client, &["wait"]).await;
    let request = ShutdownRequest {
        stop_runs: true,
        ..drain(Duration::from_millis(300))
    };
    let report = client.shutdown(request).await.unwrap();
    assert_eq!(report.stopped, std::slice::from_ref(&run.id));
    assert!(report.left.is_empty());
    service.ended().await;
    let view = client.run_show(named(&run.id)).await.unwrap();
    assert!(matches!(view.state, RunState::Cancelled { .. }), "{view:?}");
    assert_eq!(view.killed, Some(0));
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_takes_over_from_a_host_that_ends_and_what_is_no_service_is_not_shut_down() {
    let scene = Scene::new();
    let mut other = scene.other_process();
    let client = scene.host().await;
    let refused = client.shutdown(ShutdownRequest::default()).await;
    assert_eq!(refused.unwrap_err().code, Code::Conflict);
    let host = Arc::new(scene.host().await);
    assert!(!host.is_hosting());
    let serving = {
        let host = Arc::clone(&host);
        tokio::spawn(async move { host.serve(None, || {}).await })
    };
    other.kill();
    let deadline = Instant::now() + DEADLINE;
    while !host.is_hosting() {
        assert!(Instant::now() < deadline, "nobody took over");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let run = scene.start(&client, &["commit:a"]).await;
    at_rest(&client, &run.id).await;
    client.shutdown(ShutdownRequest::default()).await.unwrap();
    tokio::time::timeout(DEADLINE, serving)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_service_ends_by_itself_but_not_while_something_runs() {
    let scene = Scene::new();
    let service = Serving::start(&scene, Some(Duration::from_millis(300))).await;
    let client = scene.host().await;
    let run = scene.start(&client, &["wait"]).await;
    events_until(&client, &run.id, |events| !events.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(
        !service.task.is_finished(),
        "it ended although a run goes on"
    );
    client.run_stop(named(&run.id)).await.unwrap();
    assert!(service.ended().await.left.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_one_service_of_a_data_directory() {
    let scene = Scene::new();
    let options = scene.options();
    let first = ServiceLock::take(&options).unwrap();
    assert!(first.is_some());
    assert!(ServiceLock::take(&options).unwrap().is_none());
    drop(first);
    assert!(ServiceLock::take(&options).unwrap().is_some());
}
