use super::*;
use crate::shim::feed::{Feed, FeedThread};
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, BlockId, BlockState, Decision, EventKind, Revision,
    RunId, Scope,
};
use foreman_policy::{BoundRule, Denial, Layer, Origin, RuleId};

const MEMORY: BoundKind = BoundKind::Memory;
const BREACH: Breach = Breach {
    bound: MEMORY,
    limit: 100,
    seen: 120,
};

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

fn origin() -> Origin {
    Origin {
        id: RuleId("r".into()),
        layer: Layer::Amendment,
        source: "test".into(),
        amendment: Some(AmendmentId::new(run(), 1)),
        reason: None,
    }
}

fn amendment(decision: Decision) -> Amendment {
    Amendment {
        id: AmendmentId::new(run(), 1),
        block: BlockId::new(run(), 1),
        decision,
        scope: Scope::Run,
        words: String::new(),
        state: AmendmentState::Active,
        decided_at: At::from_millis(0),
        revision: Revision(2),
        expires: None,
        surface: None,
    }
}

fn raised(revision: u64, limit: u64) -> Policy {
    let rule = BoundRule {
        origin: origin(),
        bound: MEMORY,
        limit,
    };
    Policy {
        revision: Revision(revision),
        bounds: vec![rule],
        ..Policy::default()
    }
}

impl Bench {
    async fn apply(&self, policy: Policy, decision: Decision) -> (u32, u32) {
        let block = Some(BlockId::new(run(), 1));
        let applied = self.arbiter.apply(policy, amendment(decision), block);
        let applied = applied.await.unwrap();
        (applied.released, applied.refused)
    }

    /// The states that blocks were told to be in.
    async fn states(self) -> Vec<BlockState> {
        self.arbiter.close();
        let (thread, dir) = (self.thread, self._dir);
        let path = dir.path().join("journal");
        let text = tokio::task::spawn_blocking(move || {
            thread.close();
            std::fs::read_to_string(path).unwrap()
        });
        let text = text.await.unwrap();
        let events = text.lines().filter_map(|line| {
            let event = serde_json::from_str::<foreman_domain::Event>(line).ok()?;
            match event.kind {
                EventKind::Block { block } => {
                    assert_eq!(block.breach, Some(BREACH));
                    Some(block.state)
                }
                _ => None,
            }
        });
        events.collect()
    }
}

#[tokio::test]
async fn a_run_at_its_bound_goes_on_when_it_is_raised_above_that() {
    let bench = bench(HoldMode::Hold);
    let mut waiting = bench.arbiter.hold_at_bound(BREACH, "reached").unwrap();
    // One that is not above the bound lets nothing go on.
    assert_eq!(bench.apply(raised(2, 100), Decision::Allow).await.0, 0);
    assert_eq!(bench.apply(raised(3, 200), Decision::Allow).await, (1, 0));
    assert_eq!(waiting.answer().await, AtBound::Raised(200));
    let raised = bench.arbiter.raised_bounds();
    assert_eq!(raised.raised(MEMORY).map(|rule| rule.limit), Some(200));
    bench.arbiter.bounds_changed().await;
    drop(waiting);
    let states = bench.states().await;
    assert_eq!(states.first(), Some(&BlockState::Open));
    assert!(
        matches!(states.last(), Some(BlockState::Amended { .. })),
        "{states:?}"
    );
}

#[tokio::test]
async fn a_denied_bound_is_answered_and_told_as_denied() {
    let bench = bench(HoldMode::Hold);
    let mut waiting = bench.arbiter.hold_at_bound(BREACH, "reached").unwrap();
    let denial = Denial {
        origin: origin(),
        subject: Subject::Bound { bound: MEMORY },
        reason: "use less".into(),
    };
    let policy = Policy {
        revision: Revision(2),
        denials: vec![denial],
        ..Policy::default()
    };
    let reason = "use less".to_owned();
    assert_eq!(bench.apply(policy, Decision::Deny { reason }).await, (0, 1));
    assert_eq!(waiting.answer().await, AtBound::Denied);
    let states = bench.states().await;
    assert!(
        matches!(states.last(), Some(BlockState::Denied { .. })),
        "{states:?}"
    );
}

#[tokio::test]
async fn nobody_who_answers_in_time_is_no_denial() {
    let bench = bench(HoldMode::Hold);
    bench.arbiter.limit_holds(Some(0));
    let mut waiting = bench.arbiter.hold_at_bound(BREACH, "reached").unwrap();
    let expiring = bench.arbiter.expire_holds();
    tokio::select! {
        answer = waiting.answer() => assert_eq!(answer, AtBound::NotAnswered),
        () = expiring => panic!("it does not end"),
    }
    let states = bench.states().await;
    assert_eq!(states.last(), Some(&BlockState::Expired));
}

#[tokio::test]
async fn who_gives_up_leaves_a_block_that_can_still_be_decided() {
    let bench = bench(HoldMode::Hold);
    drop(bench.arbiter.hold_at_bound(BREACH, "reached").unwrap());
    bench.arbiter.note_bound(BREACH, "refused by the kernel");
    let states = bench.states().await;
    assert_eq!(states.last(), Some(&BlockState::Gone));
}

#[tokio::test]
async fn a_run_that_is_over_or_unattended_waits_for_nobody() {
    let bench = bench(HoldMode::Refuse);
    assert!(bench.arbiter.is_unattended());
    bench.arbiter.close();
    assert!(bench.arbiter.hold_at_bound(BREACH, "reached").is_err());
}
