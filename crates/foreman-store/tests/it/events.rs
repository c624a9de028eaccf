use crate::scratch::{Scratch, block, event, output, subject};
use foreman_domain::{
    BlockState, BoundKind, ConnectVerdict, Decider, EventKind, EventSeq, FailReason, Outcome,
    RunId, RunState, StepKind, StepName, StepResult, Subject,
};
use foreman_store::{BlockFilter, StoreError};

fn seqs(events: &[foreman_domain::Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq.0).collect()
}

#[tokio::test]
async fn events_given_twice_are_stored_once() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let all: Vec<_> = (1..=5).map(|seq| output(&run, seq)).collect();
    scratch.ingest(&run, &all[..3]).await;
    let again = scratch
        .store
        .ingest(scratch.fence(), &run, &all)
        .await
        .unwrap();
    assert_eq!((again.new, again.last_seq), (2, EventSeq(5)));
    let nothing = scratch
        .store
        .ingest(scratch.fence(), &run, &all)
        .await
        .unwrap();
    assert_eq!(nothing.new, 0);
    let page = scratch
        .store
        .events(&run, EventSeq(0), 100, &[])
        .await
        .unwrap();
    assert_eq!(page.events, all);
}

#[tokio::test]
async fn a_hole_is_refused_whole_and_a_gap_event_fills_one() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let holed = [output(&run, 1), output(&run, 3)];
    let refused = scratch.store.ingest(scratch.fence(), &run, &holed).await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Hole {
                expected: EventSeq(2),
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(scratch.store.run(&run).await.unwrap().last_seq, EventSeq(0));

    let gap = EventKind::Gap {
        from: EventSeq(2),
        to: EventSeq(9),
        count: 8,
        reason: "the output bound".into(),
    };
    scratch
        .ingest(
            &run,
            &[output(&run, 1), event(&run, 2, gap), output(&run, 10)],
        )
        .await;
    assert_eq!(
        scratch.store.run(&run).await.unwrap().last_seq,
        EventSeq(10)
    );
}

#[tokio::test]
async fn an_event_of_another_run_is_refused() {
    let scratch = Scratch::new().await;
    let (run, other) = (scratch.run(1).await, scratch.run(2).await);
    let refused = scratch
        .store
        .ingest(scratch.fence(), &run, &[output(&other, 1)])
        .await;
    assert!(
        matches!(refused, Err(StoreError::ForeignEvent { .. })),
        "{refused:?}"
    );
    let nobody = RunId::from_random(99);
    let refused = scratch.store.ingest(scratch.fence(), &nobody, &[]).await;
    assert!(matches!(refused, Err(StoreError::NoRun(_))), "{refused:?}");
}

#[tokio::test]
async fn pages_follow_each_other_without_loss_also_under_a_filter() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let mut all = Vec::new();
    for seq in 1..=2500 {
        let kind = EventKind::Warning {
            message: seq.to_string(),
        };
        all.push(if seq % 10 == 0 {
            event(&run, seq, kind)
        } else {
            output(&run, seq)
        });
    }
    scratch.ingest(&run, &all).await;
    for kinds in [vec![], vec!["warning".to_owned()], vec!["bound".to_owned()]] {
        let mut cursor = EventSeq(0);
        let mut got = Vec::new();
        loop {
            let page = scratch
                .store
                .events(&run, cursor, 512, &kinds)
                .await
                .unwrap();
            got.extend(page.events);
            if page.cursor == cursor {
                break;
            }
            cursor = page.cursor;
        }
        assert_eq!(cursor, EventSeq(2500));
        let wanted: Vec<_> = all
            .iter()
            .filter(|event| kinds.is_empty() || kinds.iter().any(|kind| kind == event.kind.tag()))
            .cloned()
            .collect();
        assert_eq!(seqs(&got), seqs(&wanted), "{kinds:?}");
    }
}

#[tokio::test]
async fn states_and_steps_are_folded_and_a_run_at_rest_stays_there() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let agent = StepName("agent".into());
    let mut started = event(
        &run,
        2,
        EventKind::StepStarted {
            what: StepKind::Agent,
            argv: vec!["true".into()],
        },
    );
    started.step = Some(agent.clone());
    let mut ended = event(
        &run,
        3,
        EventKind::StepEnded {
            result: StepResult::Exited { code: 3 },
            millis: 1,
        },
    );
    ended.step = Some(agent.clone());
    let running = RunState::Running {
        step: agent.clone(),
    };
    let failed = Outcome::Failed {
        reason: FailReason::Agent {
            message: "exit code 3".into(),
        },
    };
    scratch
        .ingest(
            &run,
            &[
                event(
                    &run,
                    1,
                    EventKind::State {
                        to: running.clone(),
                    },
                ),
                started,
                ended,
                event(
                    &run,
                    4,
                    EventKind::State {
                        to: failed.clone().into(),
                    },
                ),
                event(&run, 5, EventKind::State { to: running }),
            ],
        )
        .await;
    let stored = scratch.store.run(&run).await.unwrap();
    assert_eq!(stored.state, RunState::from(failed.clone()));
    assert_eq!(stored.outcome, Some(failed));
    assert_eq!(stored.ended_at.unwrap().as_millis(), 4);
    let steps = scratch.store.steps(&run).await.unwrap();
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].result, Some(StepResult::Exited { code: 3 }));
    assert!(scratch.store.unsettled_runs().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_merge_keeps_the_outcome_and_the_end_that_came_before_it() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let review = Outcome::Changes {
        head: "aa".into(),
        base: "bb".into(),
        agent_succeeded: true,
    };
    scratch
        .ingest(
            &run,
            &[
                event(
                    &run,
                    1,
                    EventKind::State {
                        to: review.clone().into(),
                    },
                ),
                event(
                    &run,
                    2,
                    EventKind::State {
                        to: RunState::Merging,
                    },
                ),
                event(
                    &run,
                    3,
                    EventKind::State {
                        to: RunState::Merged {
                            commit: "aa".into(),
                        },
                    },
                ),
            ],
        )
        .await;
    let stored = scratch.store.run(&run).await.unwrap();
    assert_eq!(
        stored.state,
        RunState::Merged {
            commit: "aa".into()
        }
    );
    assert_eq!(stored.outcome, Some(review));
    assert_eq!(stored.ended_at.unwrap().as_millis(), 1);
}

#[tokio::test]
async fn refusals_of_an_unattended_run_mark_it() {
    let scratch = Scratch::new().await;
    let (by_event, by_block) = (scratch.run(1).await, scratch.run(2).await);
    let verdict = ConnectVerdict::Refused {
        by: Decider::Unattended,
        why: "no rule".into(),
    };
    let egress = EventKind::Egress {
        subject: subject("a.example"),
        verdict,
        count: 1,
    };
    scratch
        .ingest(&by_event, &[event(&by_event, 1, egress)])
        .await;
    let denied = BlockState::Denied {
        by: Decider::Unattended,
        reason: String::new(),
    };
    let kind = EventKind::Block {
        block: block(&by_block, 1, denied),
    };
    scratch
        .ingest(&by_block, &[event(&by_block, 1, kind)])
        .await;
    for run in [by_event, by_block] {
        assert!(scratch.store.run(&run).await.unwrap().denied_unattended);
    }
}

#[tokio::test]
async fn blocks_are_listed_oldest_first_and_counted_while_open() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    let mut newer = block(&run, 2, BlockState::Open);
    newer.first_at = foreman_domain::At::from_millis(50);
    scratch
        .ingest(
            &run,
            &[
                event(
                    &run,
                    1,
                    EventKind::Block {
                        block: newer.clone(),
                    },
                ),
                event(
                    &run,
                    2,
                    EventKind::Block {
                        block: block(&run, 1, BlockState::Open),
                    },
                ),
            ],
        )
        .await;
    let open = BlockFilter {
        open_only: true,
        ..BlockFilter::default()
    };
    let numbers = |blocks: Vec<foreman_store::StoredBlock>| {
        blocks
            .iter()
            .map(|stored| stored.block.id.number())
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(scratch.store.blocks(&open).await.unwrap()), [1, 2]);
    assert_eq!(scratch.store.run(&run).await.unwrap().open_blocks, 2);

    newer.state = BlockState::Gone;
    scratch
        .ingest(&run, &[event(&run, 3, EventKind::Block { block: newer })])
        .await;
    assert_eq!(numbers(scratch.store.blocks(&open).await.unwrap()), [1]);
    let all = BlockFilter::default();
    assert_eq!(numbers(scratch.store.blocks(&all).await.unwrap()), [1, 2]);

    // What a run goes on at asks, too, until it is answered.
    let bound = |number, bound, state| {
        let mut block = block(&run, number, state);
        block.subject = Subject::Bound { bound };
        EventKind::Block { block }
    };
    let denied = BlockState::Denied {
        by: Decider::Operator,
        reason: String::new(),
    };
    let events = [
        bound(3, BoundKind::Processes, BlockState::Gone),
        bound(4, BoundKind::Memory, BlockState::Gone),
        bound(5, BoundKind::OpenFiles, BlockState::Gone),
        bound(6, BoundKind::OpenFiles, denied),
    ];
    let events: Vec<_> = (4..)
        .zip(events)
        .map(|(seq, kind)| event(&run, seq, kind))
        .collect();
    scratch.ingest(&run, &events).await;
    let asking = BlockFilter {
        asking: true,
        ..BlockFilter::default()
    };
    assert_eq!(
        numbers(scratch.store.blocks(&asking).await.unwrap()),
        [1, 3, 5]
    );
    assert_eq!(numbers(scratch.store.blocks(&open).await.unwrap()), [1]);
}

#[tokio::test]
async fn fifty_thousand_events_are_taken_in_while_others_read() {
    let scratch = Scratch::new().await;
    let run = scratch.run(1).await;
    for batch in 0..98_u64 {
        let first = batch * 512 + 1;
        let events: Vec<_> = (first..first + 512).map(|seq| output(&run, seq)).collect();
        scratch.ingest(&run, &events).await;
        let page = scratch
            .store
            .events(&run, EventSeq(first - 1), 512, &[])
            .await
            .unwrap();
        assert_eq!(page.events.len(), 512);
    }
    assert_eq!(
        scratch.store.run(&run).await.unwrap().last_seq,
        EventSeq(98 * 512)
    );
}
