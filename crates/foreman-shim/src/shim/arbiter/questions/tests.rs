use super::*;
use crate::shim::feed::{Feed, FeedThread};
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, BlockId, BlockState, Decider, Decision, Revision,
    RunId, Scope,
};
use foreman_policy::{Denial, Layer, Origin, QuestionRule};

struct Bench {
    arbiter: Arbiter,
    thread: FeedThread,
    _dir: tempfile::TempDir,
}

fn run() -> RunId {
    RunId::from_random(5)
}

fn bench(hold: HoldMode) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let (feed, thread) = Feed::open(&dir.path().join("journal"), &run()).unwrap();
    let policy = Policy {
        revision: Revision(1),
        ..Policy::default()
    };
    let arbiter = Arbiter::new(run(), policy, hold, feed);
    arbiter.open();
    Bench {
        arbiter,
        thread,
        _dir: dir,
    }
}

fn always() -> Vec<QuestionOption> {
    vec![QuestionOption {
        answer: PermissionAnswer::AllowAlways,
        words: "Always\u{202e}".into(),
    }]
}

impl Bench {
    fn ask(&self, arguments: &str) -> Asking {
        self.arbiter.question(Asked {
            agent: "opencode",
            tool: "execute",
            arguments,
            options: &always(),
        })
    }

    fn held(&self, arguments: &str) -> Waiting {
        match self.ask(arguments) {
            Asking::Wait(waiting) => waiting,
            Asking::Now(reply) => panic!("it was answered: {reply:?}"),
        }
    }

    fn now(&self, arguments: &str) -> Reply {
        match self.ask(arguments) {
            Asking::Now(reply) => reply,
            Asking::Wait(_) => panic!("it waits"),
        }
    }

    fn state(&self, number: u32) -> BlockState {
        let state = self.arbiter.0.lock();
        let blocks = state.blocks.recent(100);
        let block = blocks
            .into_iter()
            .find(|block| block.id == BlockId::new(run(), number));
        block.unwrap().state.clone()
    }

    async fn decide(&self, policy: Policy, decision: Decision) {
        let amendment = Amendment {
            id: AmendmentId::new(run(), 1),
            block: BlockId::new(run(), 1),
            decision,
            scope: Scope::Run,
            words: String::new(),
            state: AmendmentState::Active,
            decided_at: At::from_millis(0),
            revision: policy.revision,
            expires: None,
            surface: None,
        };
        let block = Some(BlockId::new(run(), 1));
        self.arbiter.apply(policy, amendment, block).await.unwrap();
    }
}

fn origin() -> Origin {
    Origin {
        id: RuleId("r".into()),
        layer: Layer::Amendment,
        source: "test".into(),
        amendment: Some(AmendmentId::new(run(), 1)),
        reason: None,
    }
}

fn answered(arguments: &str, applies: Use) -> Policy {
    Policy {
        revision: Revision(2),
        questions: vec![QuestionRule {
            origin: origin(),
            agent: "opencode".into(),
            tool: "execute".into(),
            arguments: Some(arguments.into()),
            applies,
        }],
        ..Policy::default()
    }
}

fn subject(arguments: &str) -> Subject {
    Subject::Question {
        agent: "opencode".into(),
        tool: "execute".into(),
        arguments: arguments.into(),
    }
}

#[tokio::test]
async fn a_yes_for_once_is_for_what_waits_and_the_next_one_is_held_anew() {
    let bench = bench(HoldMode::Hold);
    let mut waiting = bench.held("{}");
    assert!(bench.arbiter.is_holding());
    let once = Use::Holds {
        subject: subject("{}"),
        through: HoldId(1),
    };
    bench.decide(answered("{}", once), Decision::Allow).await;
    assert_eq!(waiting.answer().await.answer, PermissionAnswer::AllowOnce);
    drop(waiting);
    assert!(matches!(bench.state(1), BlockState::Amended { .. }));
    let again = bench.held("{}");
    assert_eq!(bench.state(2), BlockState::Open);
    drop(again);
    bench.thread.close();
}

#[tokio::test]
async fn a_yes_for_the_run_answers_the_same_at_once_and_nothing_else() {
    let bench = bench(HoldMode::Hold);
    let mut waiting = bench.held("{}");
    let policy = answered("{}", Use::Always);
    bench.decide(policy, Decision::Allow).await;
    assert_eq!(waiting.answer().await.answer, PermissionAnswer::AllowAlways);
    drop(waiting);
    assert_eq!(bench.now("{}").answer, PermissionAnswer::AllowAlways);
    drop(bench.held("{1}"));
    bench.thread.close();
}

#[tokio::test]
async fn a_no_reaches_the_agent_with_its_reason_and_so_does_the_next_like_it() {
    let bench = bench(HoldMode::Hold);
    let mut waiting = bench.held("{}");
    let denied = Policy {
        revision: Revision(2),
        denials: vec![Denial {
            origin: origin(),
            subject: subject("{}"),
            reason: "use make".into(),
        }],
        ..Policy::default()
    };
    let decision = Decision::Deny {
        reason: "use make".into(),
    };
    bench.decide(denied, decision).await;
    assert_eq!(waiting.answer().await, Reply::no("use make"));
    drop(waiting);
    assert_eq!(bench.now("{}"), Reply::no("use make"));
    let why = bench.arbiter.why().words();
    assert!(why.contains("use make"), "{why}");
    bench.thread.close();
}

#[tokio::test]
async fn one_that_is_taken_back_waits_no_more() {
    let bench = bench(HoldMode::Hold);
    let waiting = bench.held("{}");
    drop(waiting);
    assert_eq!(bench.state(1), BlockState::Gone);
    assert!(!bench.arbiter.is_holding());
    // The end of the run answers what still waits.
    let mut waiting = bench.held("{}");
    bench.arbiter.close();
    assert_eq!(waiting.answer().await.answer, PermissionAnswer::RejectOnce);
    assert_eq!(bench.now("{}").answer, PermissionAnswer::RejectOnce);
    bench.thread.close();
}

#[tokio::test]
async fn unattended_it_is_answered_no_at_once() {
    let bench = bench(HoldMode::Refuse);
    let reply = bench.now("{}");
    assert_eq!(reply.answer, PermissionAnswer::RejectOnce);
    assert!(reply.reason.contains("nobody attends"), "{}", reply.reason);
    let denied = BlockState::Denied {
        by: Decider::Unattended,
        reason: String::new(),
    };
    assert_eq!(bench.state(1), denied);
    bench.thread.close();
}

#[tokio::test(start_paused = true)]
async fn nobody_within_the_limit_is_a_no_too() {
    let bench = bench(HoldMode::Hold);
    bench.arbiter.limit_holds(Some(5));
    let mut waiting = bench.held("{}");
    // The block's time begins when it is first looked at.
    let now = bench.arbiter.0.now_ms();
    bench.arbiter.0.expire_due(now);
    bench.arbiter.0.expire_due(now + 5_000);
    let reply = waiting.answer().await;
    assert_eq!(reply.answer, PermissionAnswer::RejectOnce);
    assert!(reply.reason.contains("nobody answered"), "{}", reply.reason);
    assert_eq!(bench.state(1), BlockState::Expired);
    bench.thread.close();
}

#[test]
fn what_a_card_shows_is_bounded_safe_and_still_tells_questions_apart() {
    let long = "x".repeat(100_000);
    let asked = |arguments: &str| {
        subject_of(Asked {
            agent: "opencode",
            tool: "ex\u{1b}ecute",
            arguments,
            options: &[],
        })
    };
    let (one, other) = (asked(&format!("{long}1")), asked(&format!("{long}2")));
    assert_ne!(one, other);
    assert_eq!(one, asked(&format!("{long}1")));
    let Subject::Question {
        tool, arguments, ..
    } = one
    else {
        panic!("no question")
    };
    assert!(!tool.contains('\u{1b}') && arguments.len() <= QUESTION_ARGUMENTS);
    let facts = facts_of(&always());
    assert!(!facts.options[0].words.contains('\u{202e}'));
}
