use super::*;
use foreman_domain::{Host, Protocol, Scope};

fn run() -> RunId {
    RunId::from_random(9)
}

fn subject(name: &str) -> Subject {
    Subject::Egress {
        protocol: Protocol::Tcp,
        host: Host::Name(name.into()),
        port: 443,
        resolved: None,
    }
}

fn stopped(subject: &Subject) -> Stopped<'_> {
    Stopped {
        subject,
        file: None,
        why: "no rule",
        address_vetted: true,
        revision: Revision(1),
        at: At::from_millis(1_000),
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
        decided_at: At::from_millis(2_000),
        revision: Revision(2),
        expires: None,
        surface: None,
    }
}

fn now() -> (At, Revision) {
    (At::from_millis(2_000), Revision(2))
}

fn fallback() -> AmendmentId {
    AmendmentId::new(run(), 1)
}

fn release() -> Fate {
    Fate::Release {
        amendment: Some(fallback()),
    }
}

#[test]
fn equal_subjects_are_one_block_and_others_are_not() {
    let mut table = BlockTable::new(run());
    let a = table.hold(&stopped(&subject("a.example"))).unwrap();
    let again = table.hold(&stopped(&subject("a.example"))).unwrap();
    let b = table.hold(&stopped(&subject("b.example"))).unwrap();
    assert_eq!(a.block, again.block);
    assert_ne!(a.block, b.block);
    assert_eq!(
        (a.hold, again.hold, b.hold),
        (HoldId(1), HoldId(2), HoldId(3))
    );
    let told = table.take_due(0);
    assert_eq!(told.len(), 2);
    assert_eq!(
        (told[0].waiting, told[0].seen, told[0].last_hold),
        (2, 2, HoldId(2))
    );
}

#[test]
fn ten_thousand_holds_of_one_subject_are_one_block_and_few_events() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    let mut told = 0;
    for number in 0..10_000_u64 {
        table.hold(&stopped(&subject)).unwrap();
        told += table.take_due(number / 10).len();
    }
    // One at once, then at most four a second over one second.
    assert!(told <= 5, "{told}");
    let last = table.take_due(2_000);
    assert_eq!(last.len(), 1);
    assert_eq!((last[0].waiting, last[0].seen), (10_000, 10_000));
    assert!(!table.has_changes());
    let settled = table.settle(None, &fallback(), now(), |_, _| release());
    assert_eq!(settled.released.len(), 10_000);
}

#[test]
fn holds_beyond_the_bound_are_refused() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    for _ in 0..HOLDS {
        table.hold(&stopped(&subject)).unwrap();
    }
    assert_eq!(table.hold(&stopped(&subject)), Err(Full::Holds));
}

#[test]
fn blocks_beyond_the_bound_are_refused_and_known_ones_still_hold() {
    let mut table = BlockTable::new(run());
    for number in 0..BLOCKS {
        table
            .hold(&stopped(&subject(&format!("h{number}.example"))))
            .unwrap();
    }
    assert_eq!(
        table.hold(&stopped(&subject("more.example"))),
        Err(Full::Blocks)
    );
    assert!(table.hold(&stopped(&subject("h1.example"))).is_ok());
}

#[test]
fn an_amendment_lets_every_hold_of_its_subject_go() {
    let mut table = BlockTable::new(run());
    let a = table.hold(&stopped(&subject("a.example"))).unwrap();
    let b = table.hold(&stopped(&subject("b.example"))).unwrap();
    table.take_due(0);
    let allowed = subject("a.example");
    let record = amendment(Decision::Allow);
    let settled = table.settle(
        Some((&a.block, &record)),
        &record.id,
        now(),
        |subject, _| {
            if *subject == allowed {
                release()
            } else {
                Fate::Wait
            }
        },
    );
    assert_eq!(
        settled,
        Settled {
            released: vec![a.hold],
            refused: vec![]
        }
    );
    let told = table.take_due(0);
    assert_eq!(told.len(), 1, "only what changed is told");
    assert_eq!(
        told[0].state,
        BlockState::Amended {
            amendment: record.id
        }
    );
    assert_eq!(told[0].waiting, 0);
    assert!(
        table.give_up(b.hold, At::from_millis(3_000)),
        "the other one still waits"
    );
    assert!(!table.give_up(a.hold, At::from_millis(3_000)));
}

#[test]
fn once_covers_the_holds_on_the_card_and_later_ones_get_a_new_block() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    let first = table.hold(&stopped(&subject)).unwrap();
    let through = first.hold;
    let later = table.hold(&stopped(&subject)).unwrap();
    table.take_due(0);
    let record = amendment(Decision::Allow);
    let settled = table.settle(
        Some((&first.block, &record)),
        &record.id,
        now(),
        |_, hold| {
            if hold.is_some_and(|hold| hold <= through) {
                release()
            } else {
                Fate::Wait
            }
        },
    );
    assert_eq!(settled.released, vec![first.hold]);
    let told = table.take_due(0);
    assert_eq!(told.len(), 2);
    assert_eq!(
        told[0].state,
        BlockState::Amended {
            amendment: record.id
        }
    );
    assert_eq!(told[1].state, BlockState::Open);
    assert_eq!((told[1].waiting, told[1].last_hold), (1, later.hold));
    assert_eq!(told[1].revision, Revision(2));
    // The next attempt joins the new block.
    assert_eq!(table.hold(&stopped(&subject)).unwrap().block, told[1].id);
}

#[test]
fn once_does_not_help_an_attempt_after_all_holds_went() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    let first = table.hold(&stopped(&subject)).unwrap();
    table.settle(None, &fallback(), now(), |_, _| release());
    let next = table.hold(&stopped(&subject)).unwrap();
    assert_ne!(
        first.block, next.block,
        "a decided block is not opened again"
    );
}

#[test]
fn a_denial_refuses_all_holds_and_repeats_are_only_counted() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    let held = table.hold(&stopped(&subject)).unwrap();
    table.take_due(0);
    let record = amendment(Decision::Deny {
        reason: "use the mirror".into(),
    });
    let settled = table.settle(Some((&held.block, &record)), &record.id, now(), |_, _| {
        Fate::Refuse {
            by: Decider::Operator,
            reason: "use the mirror".into(),
        }
    });
    assert_eq!(settled.refused, vec![held.hold]);
    table.take_due(0);
    for _ in 0..36 {
        table.count_denied(&subject, At::from_millis(5_000));
    }
    let told = table.take_due(1_000);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].seen, 37);
    assert!(
        matches!(&told[0].state, BlockState::Denied { reason, .. } if reason == "use the mirror")
    );
}

#[test]
fn a_block_whose_last_waiter_gave_up_is_gone_and_a_retry_opens_the_same_one() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    let one = table.hold(&stopped(&subject)).unwrap();
    let two = table.hold(&stopped(&subject)).unwrap();
    table.take_due(0);
    table.give_up(one.hold, At::from_millis(2_000));
    assert_eq!(table.take_due(1_000)[0].state, BlockState::Open);
    table.give_up(two.hold, At::from_millis(2_000));
    let gone = table.take_due(2_000);
    assert_eq!((&gone[0].state, gone[0].waiting), (&BlockState::Gone, 0));
    let retry = table.hold(&stopped(&subject)).unwrap();
    assert_eq!(retry.block, one.block);
    let open = table.take_due(3_000);
    assert_eq!(
        (&open[0].state, open[0].waiting, open[0].seen),
        (&BlockState::Open, 1, 3)
    );
}

#[test]
fn a_gone_block_can_be_decided() {
    for (decision, fate) in [
        (Decision::Allow, release()),
        (Decision::Allow, Fate::Wait), // once: its holds are gone, but it is answered
        (
            Decision::Deny {
                reason: "no".into(),
            },
            Fate::Refuse {
                by: Decider::Operator,
                reason: "no".into(),
            },
        ),
    ] {
        let mut table = BlockTable::new(run());
        let held = table.hold(&stopped(&subject("a.example"))).unwrap();
        table.give_up(held.hold, At::from_millis(2_000));
        let record = amendment(decision.clone());
        let settled = table.settle(Some((&held.block, &record)), &record.id, now(), |_, _| {
            fate.clone()
        });
        assert_eq!(settled, Settled::default());
        let told = table.take_due(1_000);
        assert_eq!(told[0].state, spoken(&record));
    }
}

#[test]
fn a_revocation_decides_no_block() {
    let mut table = BlockTable::new(run());
    let held = table.hold(&stopped(&subject("a.example"))).unwrap();
    table.give_up(held.hold, At::from_millis(2_000));
    table.take_due(0);
    let mut record = amendment(Decision::Allow);
    record.state = AmendmentState::Revoked;
    table.settle(Some((&held.block, &record)), &record.id, now(), |_, _| {
        Fate::Wait
    });
    assert!(!table.has_changes());
}

#[test]
fn a_decision_that_does_not_cover_its_block_leaves_it_open() {
    let mut table = BlockTable::new(run());
    let held = table.hold(&stopped(&subject("a.example"))).unwrap();
    table.take_due(0);
    let record = amendment(Decision::Allow);
    table.settle(Some((&held.block, &record)), &record.id, now(), |_, _| {
        Fate::Wait
    });
    assert!(!table.has_changes());
    assert!(table.give_up(held.hold, At::from_millis(2_000)));
}

#[test]
fn unattended_refusals_are_one_block_and_later_attempts_are_counted() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    let (block, _) = table.refuse_unattended(&stopped(&subject)).unwrap();
    let told = table.take_due(0);
    let denied = BlockState::Denied {
        by: Decider::Unattended,
        reason: String::new(),
    };
    assert_eq!((&told[0].state, told[0].seen), (&denied, 1));
    let (again, _) = table.refuse_unattended(&stopped(&subject)).unwrap();
    assert_eq!(block, again);
    assert_eq!(table.take_due(1_000)[0].seen, 2);
}

#[test]
fn at_most_eight_processes_are_named_and_each_once() {
    let mut table = BlockTable::new(run());
    let subject = subject("a.example");
    let mut lookups = 0;
    for number in 0..100_u32 {
        let held = table.hold(&stopped(&subject)).unwrap();
        if held.wants_holder {
            lookups += 1;
            table.add_holder(
                &held.block,
                Holder {
                    pid: number / 2,
                    argv: vec!["x".into()],
                },
            );
        }
    }
    let block = &table.take_due(0)[0];
    assert_eq!(block.holders.len(), 8);
    assert!(lookups <= 16);
}

#[test]
fn an_argument_vector_is_cut_to_a_bounded_length() {
    let argv = vec!["a".repeat(10_000); 100];
    let kept = bounded_argv(argv, ARGV_BYTES);
    assert!(kept.iter().map(String::len).sum::<usize>() < 3_000);
    assert_eq!(
        bounded_argv(vec!["ls".into(), String::new(), "é".into()], ARGV_BYTES),
        ["ls", "", "é"]
    );
}

#[test]
fn a_flapping_connect_cannot_flood_the_feed() {
    let mut table = BlockTable::new(run());
    let mut told = 0;
    // 100 subjects flap a hundred times a second for ten seconds.
    let subjects: Vec<_> = (0..100)
        .map(|n| subject(&format!("h{n}.example")))
        .collect();
    for tick in 0..1_000_u64 {
        for subject in &subjects {
            let held = table.hold(&stopped(subject)).unwrap();
            table.give_up(held.hold, At::from_millis(0));
        }
        told += table.take_due(tick * 10).len();
    }
    assert!(told <= 100 + 40 * 11, "{told}");
}

#[test]
fn a_later_supervisor_numbers_its_blocks_and_holds_behind_the_earlier_ones() {
    let mut table = BlockTable::new(run());
    table.go_on_after(7, HoldId(40));
    let subject = subject("a.example");
    let held = table.hold(&stopped(&subject)).unwrap();
    assert_eq!((held.block.number(), held.hold), (8, HoldId(41)));
    // What it is asked about an earlier one's block is about none of its own.
    let earlier = BlockId::new(run(), 3);
    assert!(table.index_of(&earlier).is_none());
    assert_eq!(table.index_of(&held.block), Some(0));
}
