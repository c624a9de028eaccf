//! Files: what is held, shown, hidden and told, with a cage that only writes down what it is asked.

use super::places::{Doing, Places};
use super::tests::all_events;
use super::*;
use crate::shim::feed::FeedThread;
use foreman_cage::files::{Executed, Exited, FileAttempt, FileJudge, Target};
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, BlockState, ConnectVerdict, Decision, Event,
    FileAccess, ProcessRef, Scope,
};
use foreman_policy::{Denial, Layer, Origin, PathRule, Use};
use std::path::{Path, PathBuf};
use tokio::task::JoinHandle;

/// Writes down what it is asked to do; refuses to show a place that is called so.
#[derive(Default)]
struct Recorder {
    asked: Mutex<Vec<String>>,
}

impl Recorder {
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Places for Recorder {
    fn show<'a>(&'a self, root: &'a Path, access: FileAccess, _: bool) -> Doing<'a, ()> {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        let asked = format!("show {access} {name}");
        Box::pin(async move {
            self.asked.lock().unwrap().push(asked);
            match root.ends_with("refused") {
                true => Err("the cage has no place for it".to_owned()),
                false => Ok(()),
            }
        })
    }

    fn hide<'a>(&'a self, root: &'a Path) -> Doing<'a, bool> {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        let asked = format!("hide {name}");
        Box::pin(async move {
            self.asked.lock().unwrap().push(asked);
            Ok(true)
        })
    }
}

pub(super) struct Bench {
    pub(super) arbiter: Arbiter,
    pub(super) thread: FeedThread,
    pub(super) feed: Feed,
    places: Arc<Recorder>,
    dir: tempfile::TempDir,
}

pub(super) fn run() -> RunId {
    RunId::from_random(6)
}

pub(super) async fn bench(hold: HoldMode) -> Bench {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    for name in ["data/inner", "refused", "other"] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    let (feed, thread) = Feed::open(&dir.path().join("journal"), &run()).unwrap();
    let policy = Policy {
        revision: Revision(1),
        ..Policy::default()
    };
    let arbiter = Arbiter::new(run(), policy, hold, feed.clone());
    let places = Arc::new(Recorder::default());
    let floor = FileFloor {
        home: "/nowhere/op".into(),
        own: vec![dir.path().join("own")],
    };
    arbiter.hold_files(floor, places.clone(), &[]).await;
    arbiter.open();
    Bench {
        arbiter,
        thread,
        feed,
        places,
        dir,
    }
}

impl Bench {
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn rule(&self, number: u32, name: &str, access: FileAccess, applies: Use) -> PathRule {
        let amendment = AmendmentId::new(run(), number);
        PathRule {
            origin: Origin {
                id: RuleId(format!("amendment:{amendment}")),
                layer: Layer::Amendment,
                source: "amended by you".into(),
                amendment: Some(amendment),
                reason: None,
            },
            path: self.path(name),
            access,
            applies,
            expires: None,
            sockets: false,
        }
    }

    fn attempt(&self, name: &str, can_once: bool) -> FileAttempt {
        FileAttempt {
            access: FileAccess::Write,
            call: "openat",
            path: self.path(name),
            target: Target::Absent,
            can_once,
            needs_folder: true,
            process: ProcessRef {
                pid: 7,
                argv: vec!["tee".into()],
            },
            gone: CancellationToken::new(),
        }
    }

    fn start(&self, attempt: FileAttempt) -> JoinHandle<FileVerdict> {
        let arbiter = self.arbiter.clone();
        tokio::spawn(async move { FileJudge::judge(&arbiter, attempt).await })
    }

    /// Starts an attempt and waits until so many holds wait.
    async fn hold(&self, name: &str, can_once: bool, holds: usize) -> JoinHandle<FileVerdict> {
        let held = self.start(self.attempt(name, can_once));
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.arbiter.0.lock().waiters.len() != holds {
            assert!(Instant::now() < deadline, "not {holds} holds");
            tokio::task::yield_now().await;
        }
        held
    }

    async fn apply(&self, revision: u64, paths: Vec<PathRule>, block: u32) -> apply::Applied {
        self.put(
            Policy {
                revision: Revision(revision),
                paths,
                ..Policy::default()
            },
            Decision::Allow,
            block,
        )
        .await
    }

    async fn put(&self, policy: Policy, decision: Decision, block: u32) -> apply::Applied {
        let block = BlockId::new(run(), block);
        let amendment = Amendment {
            id: AmendmentId::new(run(), 1),
            block: block.clone(),
            decision,
            scope: Scope::Run,
            words: String::new(),
            state: AmendmentState::Active,
            decided_at: At::from_millis(0),
            revision: policy.revision,
            expires: None,
            surface: None,
        };
        let applied = self.arbiter.apply(policy, amendment, Some(block)).await;
        applied.unwrap()
    }

    pub(super) fn block(&self, number: usize) -> foreman_domain::Block {
        let state = self.arbiter.0.lock();
        let mut blocks: Vec<_> = state.blocks.recent(100).into_iter().cloned().collect();
        blocks.sort_by_key(|block| block.id.number());
        blocks[number - 1].clone()
    }

    /// All events, once the run is over.
    async fn events(self) -> Vec<Event> {
        self.arbiter.close();
        all_events(&self.feed, self.thread).await
    }
}

#[tokio::test]
async fn files_of_one_folder_wait_as_one_block_and_go_on_in_what_is_shown() {
    let bench = bench(HoldMode::Hold).await;
    let first = bench.hold("data/a", true, 1).await;
    let second = bench.hold("data/b", false, 2).await;
    let other = bench.hold("other/c", true, 3).await;
    let block = bench.block(1);
    assert_eq!((block.waiting, block.seen), (2, 2));
    let facts = block.file.clone().unwrap();
    assert_eq!((facts.different, facts.once), (2, 1));
    assert_eq!(facts.folder, PathText::of(&bench.path("data")));
    assert_eq!(block.holders[0].argv, ["tee"]);

    let rule = bench.rule(1, "data", FileAccess::Write, Use::Always);
    let applied = bench.apply(2, vec![rule], 1).await;
    assert_eq!(applied.released, 2);
    let shown = FileVerdict::Show {
        root: bench.path("data"),
        access: FileAccess::Write,
    };
    assert_eq!(first.await.unwrap(), shown);
    assert_eq!(second.await.unwrap(), shown);
    assert_eq!(bench.places.asked(), ["show write data"]);
    assert!(!other.is_finished());
    // What comes now goes on without a card.
    let next = bench.start(bench.attempt("data/inner/d", true));
    assert_eq!(next.await.unwrap(), shown);
    assert_eq!(bench.block(1).state.tag(), "amended");
    bench.arbiter.close();
    assert_eq!(other.await.unwrap(), FileVerdict::Refuse);
}

#[tokio::test]
async fn once_lets_openings_go_and_the_others_wait_on() {
    let bench = bench(HoldMode::Hold).await;
    let opening = bench.hold("data/a", true, 1).await;
    let making = bench.hold("data/b", false, 2).await;
    let subject = bench.block(1).subject;
    let once = bench.rule(
        1,
        "data",
        FileAccess::Write,
        Use::Holds {
            subject,
            through: HoldId(2),
        },
    );
    let applied = bench.apply(2, vec![once], 1).await;
    assert_eq!(applied.released, 1);
    assert_eq!(opening.await.unwrap(), FileVerdict::Once);
    assert!(!making.is_finished());
    let left = bench.block(2);
    assert_eq!((left.waiting, left.state), (1, BlockState::Open));
    assert_eq!(
        left.subject.to_string(),
        format!("write {}", bench.path("data/b").display())
    );
    assert!(bench.places.asked().is_empty(), "something was shown");
    bench.arbiter.close();
    assert_eq!(making.await.unwrap(), FileVerdict::Refuse);
}

#[tokio::test]
async fn what_cannot_be_shown_lets_nobody_go() {
    let bench = bench(HoldMode::Hold).await;
    let held = bench.hold("refused/a", true, 1).await;
    let rule = bench.rule(1, "refused", FileAccess::Write, Use::Always);
    let applied = bench.apply(2, vec![rule], 1).await;
    assert_eq!(applied.released, 0);
    assert!(!held.is_finished());
    assert_eq!(bench.block(1).state, BlockState::Open);
    // What comes now is refused with the reason.
    let next = bench.start(bench.attempt("refused/b", true));
    assert_eq!(next.await.unwrap(), FileVerdict::Refuse);
    let events = bench.events().await;
    assert!(events.iter().any(|event| matches!(
        &event.kind,
        EventKind::Warning { message } if message.contains("could not be shown")
    )));
    assert!(events.iter().any(|event| matches!(
        &event.kind,
        EventKind::File { verdict: ConnectVerdict::Unreachable { why }, .. }
            if why.contains("no place for it")
    )));
}

#[tokio::test]
async fn what_nothing_opens_any_more_is_hidden_and_what_lay_on_it_shown_again() {
    let bench = bench(HoldMode::Hold).await;
    let outer = bench.rule(1, "data", FileAccess::Read, Use::Always);
    let inner = bench.rule(2, "data/inner", FileAccess::Write, Use::Always);
    bench.apply(2, vec![outer, inner.clone()], 1).await;
    bench.apply(3, vec![inner], 1).await;
    assert_eq!(
        bench.places.asked(),
        [
            "show read data",
            "show write inner",
            "hide data",
            "hide inner",
            "show write inner"
        ]
    );
    bench.apply(4, vec![], 1).await;
    assert_eq!(bench.places.asked().last().unwrap(), "hide inner");
}

#[tokio::test]
async fn a_rule_over_a_git_directory_is_never_shown() {
    let bench = bench(HoldMode::Hold).await;
    std::fs::create_dir_all(bench.path("data/inner/.git/hooks")).unwrap();
    let rule = bench.rule(1, "data", FileAccess::Write, Use::Always);
    bench.apply(2, vec![rule], 1).await;
    assert!(bench.places.asked().is_empty());
    let own = bench.rule(1, "own", FileAccess::Read, Use::Always);
    bench.apply(3, vec![own], 1).await;
    assert!(bench.places.asked().is_empty());
}

#[tokio::test]
async fn a_denial_of_several_refuses_their_folder_from_then_on() {
    let bench = bench(HoldMode::Hold).await;
    let first = bench.hold("data/a", true, 1).await;
    let second = bench.hold("data/b", true, 2).await;
    let denial = Denial {
        origin: bench.rule(1, "data", FileAccess::Write, Use::Always).origin,
        subject: bench.block(1).denied(),
        reason: "not there".into(),
    };
    let policy = Policy {
        revision: Revision(2),
        denials: vec![denial],
        ..Policy::default()
    };
    let reason = "not there".to_owned();
    let applied = bench.put(policy, Decision::Deny { reason }, 1).await;
    assert_eq!(applied.refused, 2);
    assert_eq!(first.await.unwrap(), FileVerdict::Refuse);
    assert_eq!(second.await.unwrap(), FileVerdict::Refuse);
    let third = bench.start(bench.attempt("data/c", true));
    assert_eq!(third.await.unwrap(), FileVerdict::Refuse);
    let block = bench.block(1);
    assert_eq!((block.state.tag(), block.seen), ("denied", 3));
    let why = bench.arbiter.why();
    assert!(why.items[0].why.contains("not there"), "{why:?}");
    assert!(why.items[0].subject.contains("2 paths in"), "{why:?}");
}

#[tokio::test]
async fn the_floor_is_refused_and_told_without_a_block() {
    let bench = bench(HoldMode::Hold).await;
    let verdict = bench.start(bench.attempt("own/state", true)).await.unwrap();
    assert_eq!(verdict, FileVerdict::Refuse);
    assert!(bench.arbiter.0.lock().blocks.recent(1).is_empty());
    let events = bench.events().await;
    assert!(events.iter().any(|event| matches!(
        &event.kind,
        EventKind::File {
            verdict: ConnectVerdict::Refused {
                by: Decider::Floor,
                ..
            },
            ..
        }
    )));
}

#[tokio::test]
async fn nobody_waits_in_an_unattended_run_and_a_flood_is_few_events() {
    let bench = bench(HoldMode::Refuse).await;
    for number in 0..500 {
        let attempt = bench.attempt(&format!("data/{number}"), true);
        assert_eq!(bench.start(attempt).await.unwrap(), FileVerdict::Refuse);
    }
    let block = bench.block(1);
    assert_eq!((block.seen, block.waiting), (500, 0));
    let facts = block.file.unwrap();
    assert_eq!((facts.different, facts.paths.len()), (500, 8));
    let events = bench.events().await;
    let told: Vec<u64> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::File { count, .. } => Some(*count),
            _ => None,
        })
        .collect();
    assert_eq!(told.iter().sum::<u64>(), 500);
    assert!(told.len() < 50, "{} events", told.len());
}

#[tokio::test]
async fn a_caller_that_ends_gives_up_and_its_block_is_gone() {
    let bench = bench(HoldMode::Hold).await;
    let attempt = bench.attempt("data/a", true);
    let gone = attempt.gone.clone();
    let held = bench.start(attempt);
    let deadline = Instant::now() + Duration::from_secs(20);
    while bench.arbiter.0.lock().waiters.is_empty() {
        assert!(Instant::now() < deadline, "not held");
        tokio::task::yield_now().await;
    }
    gone.cancel();
    assert_eq!(held.await.unwrap(), FileVerdict::Refuse);
    let block = bench.block(1);
    assert_eq!((block.state.tag(), block.waiting), ("gone", 0));
    assert_eq!(block.file.unwrap().once, 0);
}

#[tokio::test]
async fn programs_are_told_with_what_they_say_and_how_they_end() {
    let bench = bench(HoldMode::Hold).await;
    for pid in 10..1_010 {
        bench.arbiter.executed(Executed {
            pid,
            parent: 1,
            path: "/usr/bin/cc".into(),
            argv: vec!["cc".into(), "-c".into(), "x".repeat(10_000)],
            cwd: "/home/op/w".into(),
        });
        bench.arbiter.exited(Exited {
            pid,
            exit: Some(foreman_cage::Exit::Code(u8::from(pid == 500))),
            millis: 3,
        });
    }
    let events = bench.events().await;
    let (mut execs, mut ends, mut failed) = (0, 0, 0);
    for event in &events {
        match &event.kind {
            EventKind::Exec { program, count, .. } => {
                assert_eq!(program.as_str(), "/usr/bin/cc");
                let argv = &event.process.as_ref().unwrap().argv;
                assert!(argv[2].len() < 600);
                execs += count;
            }
            EventKind::Exit { code, count, .. } => {
                ends += count;
                failed += u64::from(*code == Some(1));
            }
            _ => {}
        }
    }
    assert_eq!((execs, ends, failed), (1_000, 1_000, 1));
    assert!(events.len() < 60, "{} events", events.len());
}

#[tokio::test]
async fn programs_of_our_own_steps_are_no_news() {
    let bench = bench(HoldMode::Hold).await;
    let collects = tokio::sync::watch::Sender::new(false);
    bench.arbiter.tells_no_programs_while(collects.subscribe());
    let executed = |pid| {
        bench.arbiter.executed(Executed {
            pid,
            parent: 1,
            path: "/usr/bin/git".into(),
            argv: vec!["git".into(), pid.to_string()],
            cwd: "/home/op/w".into(),
        });
    };
    let exited = |pid| {
        bench.arbiter.exited(Exited {
            pid,
            exit: Some(foreman_cage::Exit::Code(0)),
            millis: 3,
        });
    };
    executed(10);
    collects.send_replace(true);
    executed(11);
    exited(11);
    // What the agent left is ended only now.
    exited(10);
    let events = bench.events().await;
    let told = |kind: &str| events.iter().filter(|one| one.kind.tag() == kind).count();
    assert_eq!((told("exec"), told("exit")), (1, 1));
}
