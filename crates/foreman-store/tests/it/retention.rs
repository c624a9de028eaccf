use crate::scratch::{Scratch, block, event, output};
use foreman_domain::{At, BlockState, Event, EventKind, EventSeq, LogStream, RunId, RunState};
use foreman_store::{EventBudget, RETENTION_SLICE};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn budget(per_run: u64, total: u64) -> EventBudget {
    EventBudget { per_run, total }
}

fn line(run: &RunId, seq: u64, bytes: usize) -> Event {
    event(
        run,
        seq,
        EventKind::Output {
            stream: LogStream::Stdout,
            text: "x".repeat(bytes),
            raw: None,
            continued: false,
        },
    )
}

async fn retain(scratch: &Scratch, budget: EventBudget, slice: u32) -> u64 {
    let (mut dropped, mut slices) = (0, 0);
    loop {
        let done = scratch
            .store
            .retain(scratch.epoch, &budget, slice)
            .await
            .unwrap();
        dropped += done.dropped;
        slices += 1;
        if done.run.is_none() {
            return dropped;
        }
        assert!(slices < 100_000, "retention does not come to an end");
    }
}

async fn all(scratch: &Scratch, run: &RunId) -> Vec<Event> {
    let (mut cursor, mut got) = (EventSeq(0), Vec::new());
    loop {
        let page = scratch.store.events(run, cursor, 512, &[]).await.unwrap();
        got.extend(page.events);
        if page.cursor == cursor {
            return got;
        }
        cursor = page.cursor;
    }
}

/// Every number is there once, as an event or in a gap.
fn assert_without_holes(events: &[Event], last: u64) -> Vec<(u64, u64)> {
    let (mut next, mut gaps) = (1, Vec::new());
    for event in events {
        assert_eq!(event.seq.0, next);
        next += 1;
        if let EventKind::Gap {
            from, to, count, ..
        } = &event.kind
        {
            assert_eq!((from.0, to.0 - from.0 + 1), (event.seq.0, *count));
            gaps.push((from.0, to.0));
            next = to.0 + 1;
        }
    }
    assert_eq!(next, last + 1);
    gaps
}

#[tokio::test]
async fn the_oldest_output_goes_first_and_leaves_one_gap() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    for first in (1..=4_000).step_by(500) {
        let events: Vec<_> = (first..first + 500)
            .map(|seq| line(&run, seq, 1_000))
            .collect();
        scratch.ingest(&run, &events).await;
    }
    let before = scratch.store.event_bytes(&run).await.unwrap();
    assert!(before > 4_000_000);
    let dropped = retain(&scratch, budget(2 * MIB, 1 << 40), 100).await;
    let events = all(&scratch, &run).await;
    assert_eq!(assert_without_holes(&events, 4_000), [(1, dropped)]);
    let after = scratch.store.event_bytes(&run).await.unwrap();
    assert!(after <= 2 * MIB && after > MIB, "{after}");
    assert_eq!(events.last().unwrap().seq, EventSeq(4_000));
    // Nothing more is dropped while everything fits.
    assert_eq!(retain(&scratch, budget(2 * MIB, 1 << 40), 100).await, 0);
}

#[tokio::test]
async fn states_blocks_and_decisions_are_never_dropped_and_gaps_do_not_swallow_them() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let mut events = Vec::new();
    for seq in 1..=3_000_u64 {
        events.push(match seq % 100 {
            10 => event(
                &run,
                seq,
                EventKind::Block {
                    block: block(&run, (seq / 100) as u32 + 1, BlockState::Open),
                },
            ),
            20 => event(
                &run,
                seq,
                EventKind::Warning {
                    message: "kept".into(),
                },
            ),
            30 => event(
                &run,
                seq,
                EventKind::Commits {
                    head: "aa".into(),
                    count: 1,
                    finished_by_us: false,
                },
            ),
            40 => event(
                &run,
                seq,
                EventKind::NameLookedUp {
                    name: "a.example".into(),
                },
            ),
            _ => line(&run, seq, 2_000),
        });
    }
    scratch.ingest(&run, &events).await;
    retain(&scratch, budget(MIB, MIB), RETENTION_SLICE).await;
    let left = all(&scratch, &run).await;
    assert_without_holes(&left, 3_000);
    let count = |tag: &str| left.iter().filter(|event| event.kind.tag() == tag).count();
    assert_eq!(
        (count("block"), count("warning"), count("commits")),
        (30, 30, 30)
    );
    assert_eq!(count("name_looked_up"), 30);
    // What was looked up goes only when no output is left and it still does not fit.
    assert!(count("output") > 0);
}

#[tokio::test]
async fn over_the_total_the_oldest_run_that_is_over_gives_first() {
    let scratch = Scratch::new().await;
    let (old, live, newer) = (
        scratch.run(1).await,
        scratch.run(2).await,
        scratch.run(3).await,
    );
    for run in [&old, &live, &newer] {
        let events: Vec<_> = (1..=1_000).map(|seq| line(run, seq, 1_000)).collect();
        scratch.ingest(run, &events).await;
    }
    // Clocks are no measure: the newer run ended long before the older one, by its own time.
    for (run, at) in [(&old, 1 << 40), (&newer, 5)] {
        let mut end = event(
            run,
            1_001,
            EventKind::State {
                to: RunState::NoChanges,
            },
        );
        end.at = At::from_millis(at);
        scratch.ingest(run, &[end]).await;
    }
    let of = async |run: &RunId| scratch.store.event_bytes(run).await.unwrap();
    retain(&scratch, budget(1 << 40, 12 * MIB / 5), RETENTION_SLICE).await;
    assert!(of(&old).await < MIB / 5 && of(&newer).await > MIB * 9 / 10);
    retain(&scratch, budget(1 << 40, MIB), RETENTION_SLICE).await;
    assert!(of(&newer).await < MIB / 10 && of(&live).await > MIB * 8 / 10);
    let usage = scratch.store.event_usage().await.unwrap();
    assert!(usage.total <= MIB, "{usage:?}");
}

#[tokio::test]
async fn a_cursor_into_a_dropped_range_is_answered_with_its_gap() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let events: Vec<_> = (1..=3_000).map(|seq| line(&run, seq, 1_000)).collect();
    scratch.ingest(&run, &events).await;
    retain(&scratch, budget(MIB, MIB), RETENTION_SLICE).await;
    let page = scratch
        .store
        .events(&run, EventSeq(700), 2, &[])
        .await
        .unwrap();
    let EventKind::Gap { from, to, .. } = &page.events[0].kind else {
        panic!("{:?}", page.events[0])
    };
    assert!(from.0 == 1 && to.0 > 700);
    assert_eq!(page.events[1].seq, to.next());
    assert_eq!(page.cursor, to.next());
    // At its end the gap is told no more.
    let page = scratch.store.events(&run, *to, 1, &[]).await.unwrap();
    assert_eq!(page.events[0].seq, to.next());
}

#[tokio::test]
async fn events_come_in_as_before_while_their_run_is_cut() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let mut seq = 0;
    for _ in 0..40 {
        let events: Vec<_> = (0..100)
            .map(|_| {
                seq += 1;
                line(&run, seq, 1_000)
            })
            .collect();
        scratch.ingest(&run, &events).await;
        let budget = budget(MIB, 1 << 40);
        scratch
            .store
            .retain(scratch.epoch, &budget, 64)
            .await
            .unwrap();
    }
    retain(&scratch, budget(MIB, 1 << 40), 64).await;
    let gaps = assert_without_holes(&all(&scratch, &run).await, seq);
    assert_eq!(gaps.len(), 1);
}

#[tokio::test]
async fn an_engine_that_was_replaced_drops_nothing() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let events: Vec<_> = (1..=3_000).map(|seq| line(&run, seq, 1_000)).collect();
    scratch.ingest(&run, &events).await;
    scratch.store.take_epoch().await.unwrap();
    let refused = scratch
        .store
        .retain(scratch.epoch, &budget(MIB, MIB), 100)
        .await;
    assert!(refused.is_err());
    assert_eq!(all(&scratch, &run).await, events);
}

#[tokio::test]
async fn dropped_pages_are_given_back_to_the_file_system() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    for first in (1..=8_000).step_by(500) {
        let events: Vec<_> = (first..first + 500)
            .map(|seq| line(&run, seq, 1_000))
            .collect();
        scratch.ingest(&run, &events).await;
    }
    scratch.store.empty_log().await.unwrap();
    let before = scratch.store.file_sizes().await.unwrap();
    assert_eq!(before.log, 0);
    retain(&scratch, budget(MIB, MIB), RETENTION_SLICE).await;
    while scratch.store.give_back().await.unwrap() {}
    scratch.store.empty_log().await.unwrap();
    let after = scratch.store.file_sizes().await.unwrap();
    assert!(after.database < before.database / 3, "{before:?} {after:?}");
    assert_eq!(after.free, 0);
}

#[tokio::test]
async fn a_budget_is_kept_and_has_a_default() {
    let scratch = Scratch::new().await;
    assert_eq!(
        scratch.store.event_budget().await.unwrap(),
        EventBudget::default()
    );
    let chosen = budget(3 * MIB, 30 * MIB);
    let (store, epoch) = (&scratch.store, scratch.epoch);
    store
        .set_setting(epoch, EventBudget::KEY, &chosen)
        .await
        .unwrap();
    assert_eq!(store.event_budget().await.unwrap(), chosen);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_mix_and_the_slice_no_number_is_lost_and_what_is_kept_is_unchanged(
        kinds in proptest::collection::vec(0..8_u8, 1_500..2_500), slice in 2..700_u32,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scratch = Scratch::new().await;
            let run = scratch.run(1).await;
            let events: Vec<_> = kinds
                .iter()
                .enumerate()
                .map(|(index, kind)| {
                    let seq = index as u64 + 1;
                    match kind {
                        0 => event(&run, seq, EventKind::Warning { message: seq.to_string() }),
                        1 => output(&run, seq),
                        2 => event(&run, seq, EventKind::Progress { stage: "x".into(), message: "y".repeat(900) }),
                        _ => line(&run, seq, 1_500),
                    }
                })
                .collect();
            scratch.ingest(&run, &events).await;
            retain(&scratch, budget(MIB, MIB), slice).await;
            let left = all(&scratch, &run).await;
            assert_without_holes(&left, events.len() as u64);
            for event in &left {
                if event.kind.tag() != "gap" {
                    assert_eq!(event, &events[event.seq.0 as usize - 1]);
                }
            }
            let warnings = |events: &[Event]| events.iter().filter(|event| event.kind.tag() == "warning").count();
            assert_eq!(warnings(&left), warnings(&events));
            assert!(scratch.store.event_bytes(&run).await.unwrap() <= MIB);
        });
    }
}
