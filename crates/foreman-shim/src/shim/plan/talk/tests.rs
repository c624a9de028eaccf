use super::*;
use crate::protocol::HoldMode;
use crate::shim::arbiter::{Asked, Asking};
use crate::shim::bounds::Limits;
use crate::shim::feed::{Feed, FeedThread};
use crate::shim::plan::Meter;
use crate::shim::shells::Shells;
use crate::shim::stop::StopSwitch;
use foreman_agent::Wire;
use foreman_domain::RunId;
use foreman_policy::{Bounds, Policy};
use std::sync::Arc;

const PATIENCE: u64 = 600;

struct Bench {
    talk: Talk,
    arbiter: Arbiter,
    /// What the agent would print to; it prints nothing.
    _stdout: pipe::Sender,
    thread: FeedThread,
    _dir: tempfile::TempDir,
}

fn bench() -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let run = RunId::from_random(1);
    let (feed, thread) = Feed::open(&dir.path().join("journal"), &run).unwrap();
    let arbiter = Arbiter::new(run, Policy::default(), HoldMode::Hold, feed.clone());
    arbiter.open();
    let collects = watch::Sender::new(false);
    let meter = Meter::new(
        Limits::new(Bounds::default()),
        StopSwitch::new(),
        None,
        collects.subscribe(),
    );
    let held = Held {
        arbiter: arbiter.clone(),
        brake: Brake::new(Shells::new(feed.clone())),
    };
    let conversation = Conversation {
        agent: "opencode".into(),
        wire: Wire::Acp,
        prompt: "do the job".into(),
        cwd: "/w".into(),
        resume: None,
        mode: None,
        patience: u32::try_from(PATIENCE).ok(),
    };
    let (stdout, heard) = pipe::pipe().unwrap();
    let sink = Sink::for_tests(feed, Arc::new(meter));
    let (talk, _task) = Talk::begin(
        &conversation,
        heard,
        None,
        sink,
        held,
        &MessagePort::default(),
    )
    .unwrap();
    Bench {
        talk,
        arbiter,
        _stdout: stdout,
        thread,
        _dir: dir,
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_a_word_of_its_model_is_stopped_as_unreachable() {
    let bench = bench();
    let begun = Instant::now();
    bench.talk.stalled().await;
    let waited = begun.elapsed();
    assert!(
        waited >= Duration::from_secs(PATIENCE) && waited < Duration::from_secs(2 * PATIENCE),
        "{waited:?}"
    );
    bench.talk.interrupt().await;
    let result = bench
        .talk
        .conclude(StepResult::Signalled { signal: 9 })
        .await;
    let StepResult::Reported { outcome, why } = result else {
        panic!("{result:?}")
    };
    assert_eq!(outcome, AgentOutcome::ModelUnreachable);
    assert!(why.contains("no progress for 10 min"), "{why}");
    bench.thread.close();
}

#[tokio::test(start_paused = true)]
async fn what_is_held_is_not_held_against_the_model() {
    let bench = bench();
    let asked = Asked {
        agent: "opencode",
        tool: "execute",
        arguments: "{}",
        options: &[],
    };
    let Asking::Wait(waiting) = bench.arbiter.question(asked) else {
        panic!("it was answered")
    };
    let long = Duration::from_secs(10 * PATIENCE);
    let stalled = timeout(long, bench.talk.stalled()).await;
    assert!(
        stalled.is_err(),
        "it was given up although something is held"
    );
    drop(waiting);
    let begun = Instant::now();
    bench.talk.stalled().await;
    let waited = begun.elapsed();
    assert!(
        waited >= Duration::from_secs(PATIENCE) - WATCH,
        "{waited:?}"
    );
    bench.thread.close();
}
