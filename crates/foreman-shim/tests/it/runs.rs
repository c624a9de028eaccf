//! Real runs in real cages, without a network.

use crate::stage::{Stage, output_of, processes_with, says, step, wait_until};
use foreman_domain::{
    BoundKind, CancelCause, EventKind, FailReason, LogStream, Outcome, RunState, StepKind,
    StepName, StepResult, Subject, Wall,
};
use foreman_shim::client::{ClientError, ShimClient};
use foreman_shim::protocol::{HoldMode, OnFailure, Stdio};
use foreman_shim::wire::Refusal;
use std::time::{Duration, Instant};

fn results(record: &foreman_shim::protocol::ExitRecord) -> Vec<(&str, &StepResult)> {
    record
        .steps
        .iter()
        .map(|(name, _, result)| (name.0.as_str(), result))
        .collect()
}

/// A command line that only this test has.
fn mark() -> String {
    format!("7{:07}", rand::random::<u32>() % 10_000_000)
}

#[tokio::test]
async fn a_run_goes_from_its_spec_to_its_exit_record() {
    let mut stage = Stage::new(vec![
        step(StepKind::Setup, "echo prepared > made-by-setup"),
        step(
            StepKind::Agent,
            "cat made-by-setup; echo oops >&2; pwd; exit 3",
        ),
        step(StepKind::Finish, "true"),
        step(
            StepKind::Harvest,
            "printf 'head %s\\nnone\\n' $(printf %040d 7)",
        ),
        step(StepKind::Check, "echo checked"),
    ]);
    let bundle = stage.spec.files.bundle.clone();
    stage.spec.steps[3].stdio = Stdio::File {
        path: bundle.clone(),
        limit: 1 << 20,
    };
    let ended = stage.start().await.end().await;
    assert_eq!(
        results(&ended.record),
        [
            ("setup", &StepResult::Succeeded),
            ("agent", &StepResult::Exited { code: 3 }),
            ("finish", &StepResult::Succeeded),
            ("harvest", &StepResult::Succeeded),
            ("check", &StepResult::Succeeded),
        ]
    );
    assert_eq!(ended.record.verdict, None, "bundle and agent decide");
    assert_eq!(ended.record.head, Some(format!("{:040}", 7)));
    assert_eq!(ended.record.killed, 0);
    assert!(std::fs::read_to_string(bundle).unwrap().ends_with("none\n"));
    // The two streams of a step are not in one order.
    let mut lines: Vec<_> = ended.output().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["/home/agent/worktree", "checked", "oops", "prepared"]
    );
    let states: Vec<_> = ended
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::State {
                to: RunState::Running { step },
            } => Some(step.0.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(states, ["setup", "agent", "finish", "harvest", "check"]);
    let oops = ended
        .events
        .iter()
        .find(|event| says("oops")(event).is_some())
        .unwrap();
    assert_eq!(oops.step, Some(StepName("agent".into())));
    assert!(matches!(
        oops.kind,
        EventKind::Output {
            stream: LogStream::Stderr,
            ..
        }
    ));
    for wall in [
        Wall::UserNamespace,
        Wall::Mounts,
        Wall::Network,
        Wall::Dns,
        Wall::Seccomp,
    ] {
        let held = ended.events.iter().any(|event| {
            matches!(&event.kind, EventKind::Probe { wall: probed, holds: true, .. } if *probed == wall)
        });
        assert!(held, "{wall:?} was proven before the first step");
    }
    let strays = ended.events.iter().filter(|event| {
        matches!(
            event.kind,
            EventKind::Egress { .. } | EventKind::NameLookedUp { .. } | EventKind::Block { .. }
        )
    });
    assert_eq!(strays.count(), 0, "the probes are not in the feed");
}

#[tokio::test]
async fn a_failed_setup_skips_the_agent_and_says_why() {
    let stage = Stage::new(vec![
        step(StepKind::Setup, "exit 9"),
        step(StepKind::Agent, "echo never"),
        step(StepKind::Finish, "true"),
    ]);
    let ended = stage.start().await.end().await;
    assert!(
        matches!(&ended.record.steps[1].2, StepResult::Skipped { why } if why.contains("setup"))
    );
    assert_eq!(ended.record.steps[2].2, StepResult::Succeeded);
    assert!(matches!(
        &ended.record.verdict,
        Some(Outcome::Failed { reason: FailReason::Setup { message } }) if message.contains("code 9")
    ));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_not_started_and_aborts_the_rest() {
    let mut stage = Stage::agent("");
    stage.spec.steps[0].argv = vec!["no-such-program".into()];
    stage.spec.steps[0].on_failure = OnFailure::Abort;
    stage.spec.steps.push(step(StepKind::Check, "true"));
    let ended = stage.start().await.end().await;
    assert!(matches!(
        &ended.record.steps[0].2,
        StepResult::NotStarted { .. }
    ));
    assert!(matches!(
        &ended.record.steps[1].2,
        StepResult::Skipped { .. }
    ));
}

#[tokio::test]
async fn a_stop_ends_sessions_of_their_own_and_the_work_is_still_collected() {
    let mark = mark();
    let script = format!(
        "echo work > work; setsid sleep {mark} & (setsid sh -c 'trap \"\" INT TERM; sleep {mark}' &) ; \
         trap '' INT TERM; echo up; while :; do sleep {mark}; done"
    );
    let mut steps = vec![
        step(StepKind::Agent, &script),
        step(StepKind::Finish, "cat work"),
    ];
    steps.push(step(StepKind::Check, "echo never"));
    let mut running = Stage::new(steps).start().await;
    running.until("the agent's word", says("up")).await;
    assert!(!processes_with(&mark).is_empty());
    running.client.stop(100).await.unwrap();
    running.client.stop(100).await.unwrap();
    let ended = running.end().await;
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(
        ended.record.verdict,
        Some(Outcome::Cancelled {
            by: CancelCause::Operator
        })
    );
    assert!(matches!(
        &ended.record.steps[0].2,
        StepResult::Stopped { .. }
    ));
    assert_eq!(ended.record.steps[1].2, StepResult::Succeeded);
    assert!(matches!(
        &ended.record.steps[2].2,
        StepResult::Skipped { .. }
    ));
    assert!(ended.record.killed >= 3, "{} killed", ended.record.killed);
    let output = ended.output();
    assert!(
        output.contains("work") && !output.contains("never"),
        "{output}"
    );
    let stopping = ended.events.iter().filter(|event| {
        matches!(
            event.kind,
            EventKind::State {
                to: RunState::Stopping { .. }
            }
        )
    });
    assert_eq!(stopping.count(), 1);
}

#[tokio::test]
async fn a_program_that_heeds_the_first_signal_ends_by_itself() {
    let script = "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.05; done";
    let mut running = Stage::agent(script).start().await;
    running.until("the agent's word", says("up")).await;
    let clock = Instant::now();
    running.client.stop(30_000).await.unwrap();
    let ended = running.end().await;
    assert!(clock.elapsed() < Duration::from_secs(30));
    assert!(ended.output().contains("bye"));
}

#[tokio::test]
async fn a_terminate_signal_to_the_shim_stops_the_run() {
    let mut running = Stage::agent("echo up; sleep 600").start().await;
    running.until("the agent's word", says("up")).await;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(running.identity.pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).unwrap();
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = running.end().await;
    assert_eq!(
        ended.record.verdict,
        Some(Outcome::Cancelled {
            by: CancelCause::Operator
        })
    );
}

#[tokio::test]
async fn a_killed_shim_leaves_no_process_and_no_result() {
    let mark = mark();
    let script = format!("setsid sleep {mark} & echo up; sleep {mark}");
    let mut running = Stage::agent(&script).start().await;
    running.until("the agent's word", says("up")).await;
    wait_until("both sleepers", || processes_with(&mark).len() >= 2).await;
    let pid = nix::unistd::Pid::from_raw(i32::try_from(running.identity.pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    wait_until("no process is left", || processes_with(&mark).is_empty()).await;
    wait_until("the shim is seen as dead", || !running.identity.is_alive()).await;
    assert!(!running.stage.spec.files.exit.exists());
    let error = running
        .client
        .events(foreman_domain::EventSeq(0), 1, 0)
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Closed), "{error}");
    // What happened up to the kill can be read, and a writer goes on behind it.
    let files = &running.stage.spec.files;
    let read = foreman_shim::journal::read_after(&files.journal, foreman_domain::EventSeq(0), 512);
    assert_eq!(output_of(&read.unwrap()), "up\n");
    foreman_shim::journal::Writer::open(
        &files.journal,
        running.stage.spec.run.clone(),
        foreman_domain::EventSeq(1),
    )
    .unwrap();
}

#[tokio::test]
async fn a_second_engine_takes_over_and_misses_nothing() {
    let mut running =
        Stage::agent("for i in 1 2 3; do echo $i; done; read x < /dev/null; sleep 1; echo end")
            .start()
            .await;
    running.until("the first words", says("3")).await;
    let socket = running.stage.spec.files.socket.clone();
    let hello = running.stage.hello(2);
    let (client, welcome) = ShimClient::connect(&socket, hello).await.unwrap();
    assert!(welcome.last_seq >= running.events.last().unwrap().seq);
    let fenced = running.client.stop(0).await.unwrap_err();
    assert!(matches!(
        fenced,
        ClientError::Refused {
            reason: Refusal::Fenced,
            ..
        } | ClientError::Closed
    ));
    running.client = client;
    let ended = running.end().await;
    assert_eq!(ended.record.steps[0].2, StepResult::Succeeded);
}

#[tokio::test]
async fn the_end_waits_on_disk_for_an_engine_that_was_away() {
    let running = Stage::agent("echo done").start().await;
    let (identity, stage) = (running.identity, running.stage);
    drop(running.client);
    wait_until("the shim is gone", || !identity.is_alive()).await;
    let record = stage.exit_record();
    let all = foreman_shim::journal::read_after(
        &stage.spec.files.journal,
        foreman_domain::EventSeq(0),
        512,
    );
    assert_eq!(all.unwrap().last().unwrap().seq, record.last_seq);
}

#[tokio::test]
async fn wall_time_warns_and_then_stops_the_run() {
    let mut stage = Stage::new(vec![
        step(StepKind::Agent, "sleep 600"),
        step(StepKind::Finish, "echo collected"),
    ]);
    stage.spec.hold = HoldMode::Refuse;
    stage.spec.bounds.wall_seconds = Some(1);
    let ended = stage.start().await.end().await;
    let bounds: Vec<_> = ended
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Bound { bound, reached, .. } => Some((bound.as_str(), *reached)),
            _ => None,
        })
        .collect();
    assert_eq!(bounds, [("wall", false), ("wall", true)]);
    assert!(matches!(&ended.record.steps[0].2, StepResult::Stopped { why } if why.contains("1s")));
    let breach = ended.record.breach.unwrap();
    assert_eq!((breach.bound, breach.limit), (BoundKind::Wall, 1_000));
    assert!(breach.seen >= breach.limit, "{breach:?}");
    assert!(ended.output().contains("collected"));
    assert_eq!(
        ended.record.verdict, None,
        "what the agent left may be reviewed"
    );
}

/// An agent that ends just when its time does: whichever was seen first is the truth, and the record says
/// one thing only.
#[tokio::test]
async fn a_result_that_was_seen_before_the_time_was_up_decides() {
    for millis in [900, 960, 980, 990, 995, 1_000, 1_005, 1_010, 1_020, 1_060] {
        let script = format!("sleep {}.{:03}", millis / 1_000, millis % 1_000);
        let mut stage = Stage::agent(&script);
        stage.spec.hold = HoldMode::Refuse;
        stage.spec.bounds.wall_seconds = Some(1);
        let ended = stage.start().await.end().await;
        let result = &ended.record.steps[0].2;
        match (result, ended.record.breach) {
            (StepResult::Succeeded, None) => {}
            (StepResult::Stopped { why }, Some(breach)) => {
                assert!(why.contains("wall"), "{why}");
                assert_eq!(breach.bound, BoundKind::Wall);
            }
            other => panic!("{millis} ms: {other:?}"),
        }
        assert_eq!(ended.record.verdict, None, "{millis} ms");
    }
}

#[tokio::test]
async fn memory_beyond_its_bound_kills_the_agent() {
    let mut stage = Stage::agent("x=$(head -c 100000000 /dev/zero | tr '\\0' x); sleep 600");
    stage.spec.hold = HoldMode::Refuse;
    stage.spec.bounds.memory_bytes = Some(32 << 20);
    let ended = stage.start().await.end().await;
    assert!(
        matches!(&ended.record.steps[0].2, StepResult::Stopped { why } if why.contains("memory")),
        "{:?}",
        ended.record
    );
    let breach = ended.record.breach.unwrap();
    assert_eq!((breach.bound, breach.limit), (BoundKind::Memory, 32 << 20));
    assert!(breach.seen >= breach.limit, "{breach:?}");
    assert!(ended.record.killed > 0, "{:?}", ended.record);
}

/// The run waits at its bound, and the very same process goes on when that is raised.
#[tokio::test]
async fn memory_at_its_bound_pauses_the_agent_until_it_is_raised() {
    let script = "echo before $$; x=$(head -c 100000000 /dev/zero | tr '\\0' x); echo after $$; \
                  while ! test -e enough; do sleep 0.05; done";
    let mut stage = Stage::agent(script);
    stage.spec.bounds.memory_bytes = Some(32 << 20);
    let mut running = stage.start().await;
    let block = running
        .until("a card of the bound", |event| match &event.kind {
            EventKind::Block { block } if block.breach.is_some() => Some(block.clone()),
            _ => None,
        })
        .await;
    assert_eq!(
        block.subject,
        Subject::Bound {
            bound: BoundKind::Memory
        }
    );
    let breach = block.breach.unwrap();
    assert!(
        breach.limit == 32 << 20 && breach.seen >= breach.limit,
        "{breach:?}"
    );
    let (policy, amendment) = raised(&running.stage, &block, 1 << 30);
    let applied = running
        .client
        .apply(policy, amendment, Some(block.id))
        .await;
    assert_eq!(applied.unwrap().released, 1);
    let said = |wanted: &'static str| {
        move |event: &foreman_domain::Event| match &event.kind {
            EventKind::Output { text, .. } => text.strip_prefix(wanted).map(str::to_owned),
            _ => None,
        }
    };
    let after = running.until("what follows", said("after ")).await;
    assert_eq!(
        running.until("what was before", said("before ")).await,
        after
    );
    std::fs::write(running.stage.worktree().join("enough"), "").unwrap();
    let ended = running.end().await;
    assert_eq!(ended.record.steps[0].2, StepResult::Succeeded);
    assert_eq!(ended.record.breach, None);
}

/// The next revision of a run's policy, in which a bound is raised.
fn raised(
    stage: &Stage,
    block: &foreman_domain::Block,
    limit: u64,
) -> (foreman_policy::Policy, foreman_domain::Amendment) {
    use foreman_domain::{Amendment, AmendmentId, AmendmentState, At, Decision, Scope};
    use foreman_policy::{BoundRule, Layer, Origin, RuleId};
    let mut policy = stage.spec.policy.clone();
    policy.revision = policy.revision.next();
    let id = AmendmentId::new(stage.spec.run.clone(), 1);
    policy.bounds.push(BoundRule {
        origin: Origin {
            id: RuleId("raised".into()),
            layer: Layer::Amendment,
            source: "test".into(),
            amendment: Some(id.clone()),
            reason: None,
        },
        bound: BoundKind::Memory,
        limit,
    });
    let amendment = Amendment {
        id,
        block: block.id.clone(),
        decision: Decision::Allow,
        scope: Scope::Run,
        words: String::new(),
        state: AmendmentState::Active,
        decided_at: At::now(),
        revision: policy.revision,
        expires: None,
        surface: None,
    };
    (policy, amendment)
}

#[tokio::test]
async fn output_beyond_its_bound_stops_the_run_and_is_not_kept() {
    let mut stage = Stage::new(vec![
        step(
            StepKind::Agent,
            "trap '' PIPE; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
        ),
        step(StepKind::Finish, "echo still heard"),
    ]);
    stage.spec.hold = HoldMode::Refuse;
    stage.spec.bounds.output_bytes = Some(100_000);
    let ended = stage.start().await.end().await;
    assert!(
        matches!(&ended.record.steps[0].2, StepResult::Stopped { why } if why.contains("output")),
        "{:?}",
        ended.record
    );
    let breach = ended.record.breach.unwrap();
    assert_eq!((breach.bound, breach.limit), (BoundKind::Output, 100_000));
    assert!(breach.seen > breach.limit, "{breach:?}");
    let output = ended.output();
    assert!(output.len() < 110_000 && output.ends_with("still heard\n"));
}

#[tokio::test]
async fn a_hundred_thousand_lines_arrive_whole_and_in_order() {
    let ended = Stage::agent("seq 1 100000").start().await.end().await;
    let wanted: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert_eq!(ended.output(), wanted);
}

#[tokio::test]
async fn bytes_of_any_kind_survive() {
    let ended = Stage::agent("printf 'a\\377b\\000c\\n'; head -c 40000 /dev/zero | tr '\\0' x")
        .start()
        .await
        .end()
        .await;
    let first = ended.events.iter().find_map(|event| match &event.kind {
        EventKind::Output { raw: Some(raw), .. } => Some(raw.clone()),
        _ => None,
    });
    assert_eq!(first.as_deref(), Some("Yf9iAGM="));
    assert!(ended.output().contains(&"x".repeat(40_000)));
}

#[tokio::test]
async fn a_harvest_that_writes_too_much_is_stopped() {
    let mut stage = Stage::new(vec![
        step(StepKind::Agent, "true"),
        step(StepKind::Harvest, "head -c 5000000 /dev/zero"),
    ]);
    let path = stage.spec.files.bundle.clone();
    stage.spec.steps[1].stdio = Stdio::File {
        path,
        limit: 1_000_000,
    };
    let ended = stage.start().await.end().await;
    assert!(
        matches!(&ended.record.steps[1].2, StepResult::Stopped { why } if why.contains("more than")),
        "{:?}",
        ended.record
    );
    assert!(matches!(
        ended.record.verdict,
        Some(Outcome::Failed {
            reason: FailReason::Harvest { .. }
        })
    ));
    assert_eq!(ended.record.head, None);
}

#[tokio::test]
async fn what_the_agent_leaves_running_cannot_change_what_is_collected() {
    let mark = mark();
    let script = format!(
        "setsid sh -c 'while :; do echo changed >> work; sleep 0.01; done; : {mark}' >/dev/null 2>&1 & \
         while [ ! -s work ]; do :; done"
    );
    let finish = "cat work | wc -l; sleep 0.3; cat work | wc -l";
    let ended = Stage::new(vec![
        step(StepKind::Agent, &script),
        step(StepKind::Finish, finish),
    ])
    .start()
    .await
    .end()
    .await;
    let output = ended.output();
    let counts: Vec<_> = output.lines().collect();
    assert_eq!(counts.len(), 2);
    assert_eq!(counts[0], counts[1]);
    assert!(ended.record.killed >= 1);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[tokio::test]
async fn a_cage_that_cannot_be_built_is_a_typed_result() {
    let mut stage = Stage::agent("echo never");
    stage.spec.cage.binds[0].source = "/no/such/folder".into();
    let running = stage.start().await;
    let ended = running.end().await;
    assert!(
        matches!(&ended.record.verdict, Some(Outcome::Failed { reason: FailReason::Provision { message, .. } })
            if message.contains("/no/such/folder")),
        "{:?}",
        ended.record.verdict
    );
    assert!(matches!(
        &ended.record.steps[0].2,
        StepResult::Skipped { .. }
    ));
    assert_eq!(ended.output(), "");
}

#[tokio::test]
async fn signals_and_umask_are_ordinary_in_the_cage() {
    let script = "grep -E '^Sig(Ign|Blk)' /proc/self/status; touch f; stat -c %a f";
    let ended = Stage::agent(script).start().await.end().await;
    let output = ended.output();
    for line in output.lines().filter(|line| line.starts_with("Sig")) {
        let mask = line.split_whitespace().last().unwrap();
        // Signals 32 and 33 are the C library's own; it leaves them ignored in what it spawns.
        let signals = u64::from_str_radix(mask, 16).unwrap() & !0x1_8000_0000;
        assert_eq!(signals, 0, "{line}");
    }
    assert!(ended.stage.worktree().join("f").exists());
    assert!(output.ends_with("644\n"), "{output}");
}

#[tokio::test]
async fn inside_only_why_exists() {
    let script = "foreman why; foreman why --json; foreman runs; echo code $?";
    let ended = Stage::agent(script).start().await.end().await;
    let output = ended.output();
    assert!(output.contains("Nothing of run r"), "{output}");
    assert!(output.contains("\"items\":[]"), "{output}");
    assert!(output.contains("only `foreman why"), "{output}");
    assert!(output.contains("code 2"), "{output}");
}

/// A small file system over a run's folder, as only root can mount one here.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn over(folder: &std::path::Path) -> Option<Self> {
        use nix::mount::{MsFlags, mount};
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        let (kind, options) = (Some("tmpfs"), Some("size=512k,mode=0700"));
        mount(Some("small"), folder, kind, MsFlags::empty(), options).unwrap();
        Some(Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
    }
}

#[tokio::test]
async fn a_full_disk_ends_the_run_with_a_typed_result() {
    let mut stage = Stage::new(vec![
        step(
            StepKind::Agent,
            "echo work > work; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done",
        ),
        step(StepKind::Finish, "test -s work"),
    ]);
    stage.is_quiet = false;
    let Some(disk) = SmallDisk::over(stage.spec.files.journal.parent().unwrap()) else {
        println!("skipped: only root can mount a small file system here");
        return;
    };
    stage.guard = Some(Box::new(disk));
    let ended = stage.start().await.end().await;
    assert!(
        matches!(&ended.record.steps[0].2, StepResult::Stopped { why } if why.contains("disk is full")),
        "{:?}",
        ended.record
    );
    assert_eq!(
        ended.record.steps[1].2,
        StepResult::Succeeded,
        "the work is still collected"
    );
}
