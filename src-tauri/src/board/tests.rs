use super::*;
use foreman_domain::{At, Block, BlockState, EventSeq, HoldId, Host, Protocol, Revision, Subject};

fn block(number: u32, at: &str, state: BlockState) -> BlockView {
    let at: At = serde_json::from_value(at.into()).unwrap();
    BlockView {
        asks: state == BlockState::Open,
        block: Block {
            id: BlockId::new(RunId::from_random(0), number),
            subject: Subject::Egress {
                protocol: Protocol::Tcp,
                host: Host::Name(format!("host{number}.example")),
                port: 443,
                resolved: None,
            },
            state,
            why: String::new(),
            address_vetted: true,
            file: None,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(1),
            revision: Revision(1),
            first_at: at,
            last_at: at,
            holders: vec![],
            socket: None,
            breach: None,
            question: None,
        },
        title: "a title that is longer than a menu has room for".into(),
        expect: String::new(),
        candidates: vec![],
        decided: None,
        secrets_notice: None,
        gives_up: None,
        by_itself: None,
    }
}

fn hint(random: u64, state: &str) -> RunHint {
    RunHint {
        run: RunId::from_random(random),
        last_seq: EventSeq(1),
        state: state.into(),
    }
}

#[test]
fn the_oldest_blocks_are_listed_first() {
    let blocks = vec![
        block(1, "2026-01-01T00:00:03Z", BlockState::Open),
        block(2, "2026-01-01T00:00:01Z", BlockState::Open),
        block(3, "2026-01-01T00:00:02Z", BlockState::Open),
        block(4, "2026-01-01T00:00:04Z", BlockState::Open),
    ];
    let picture = Board::of(blocks, &[], false).picture(false);
    assert_eq!(picture.needs_you, 4);
    let listed: Vec<u32> = picture.blocks.iter().map(|(id, _)| id.number()).collect();
    assert_eq!(listed, [2, 3, 1]);
    assert!(
        picture.blocks[0].1.ends_with("…: host2.example:443"),
        "{}",
        picture.blocks[0].1
    );
}

#[test]
fn a_decided_block_is_off_the_board() {
    let open = block(1, "2026-01-01T00:00:03Z", BlockState::Open);
    let mut board = Board::of(vec![open.clone()], &[], false);
    assert!(board.is_open(&open.block.id.to_string()));
    assert!(!board.is_open("nonsense"));
    assert!(matches!(board.see_block(open), Seen::Asks(_)));
    let gone = block(1, "2026-01-01T00:00:03Z", BlockState::Gone);
    assert_eq!(board.see_block(gone.clone()), Seen::Over(gone.block.id));
    assert_eq!(board.picture(false).needs_you, 0);
}

#[test]
fn a_bound_that_a_run_goes_on_at_asks_until_its_run_is_settled() {
    let mut reached = block(1, "2026-01-01T00:00:03Z", BlockState::Gone);
    reached.asks = true;
    let mut board = Board::of(vec![reached.clone()], &[], false);
    assert_eq!(board.picture(false).needs_you, 1);
    assert!(matches!(board.see_block(reached), Seen::Asks(_)));
    board.see_run(&hint(0, "review"));
    board.see_run(&hint(1, "merged"));
    assert_eq!(board.picture(false).needs_you, 1, "it was another run");
    board.see_run(&hint(0, "discarded"));
    assert_eq!(board.picture(false).needs_you, 0);
}

#[test]
fn a_run_is_told_once_when_it_ends() {
    let mut board = Board::default();
    assert!(!board.see_run(&hint(1, "running")));
    assert_eq!(board.picture(false).running, 1);
    assert!(board.see_run(&hint(1, "review")));
    assert!(!board.see_run(&hint(1, "review")));
    assert!(!board.see_run(&hint(1, "merging")));
    assert!(
        !board.see_run(&hint(1, "review")),
        "a merge that was refused is no end"
    );
    assert!(
        board.see_run(&hint(2, "failed")),
        "it began and ended between two looks"
    );
    assert!(!board.see_run(&hint(3, "cancelled")));
    assert_eq!(board.picture(false).running, 0);
}
