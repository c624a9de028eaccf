//! What the panel lets a key do, and when.

use super::*;
use foreman_domain::{
    Amendment, AmendmentState, At, Block, BlockState, HoldId, Holder, Host, Protocol, Revision,
    RunId, Subject,
};
use foreman_policy::{EgressRule, HostPattern, Layer, Origin, Rule, RuleId, Use};

pub(crate) fn view(number: u32) -> BlockView {
    let block = BlockId::new(RunId::from_random(5), number);
    let candidate = |number, scope, words: &str, needs_confirmation| Candidate {
        number,
        words: words.into(),
        scope,
        rule: Rule::Egress(EgressRule {
            origin: Origin {
                id: RuleId("amendment:x".into()),
                layer: Layer::Amendment,
                source: "amended by you".into(),
                amendment: None,
                reason: None,
            },
            protocol: Protocol::Tcp,
            host: HostPattern::Name("registry.example".into()),
            port: 443,
            resolves_to: None,
            applies: Use::Always,
            expires: None,
        }),
        also_opens: 0,
        needs_confirmation,
        opens: vec![],
    };
    BlockView {
        asks: true,
        block: Block {
            id: block,
            subject: Subject::Egress {
                protocol: Protocol::Tcp,
                host: Host::Name("registry.example".into()),
                port: 443,
                resolved: None,
            },
            state: BlockState::Open,
            why: "network: no rule allows it".into(),
            address_vetted: true,
            file: None,
            waiting: 1,
            seen: 1,
            last_hold: HoldId(1),
            revision: Revision(1),
            first_at: At::from_millis(0),
            last_at: At::from_millis(0),
            holders: vec![Holder {
                pid: 12,
                argv: vec![
                    "curl".into(),
                    "-s".into(),
                    "https://registry.example/".into(),
                ],
            }],
            socket: None,
            breach: None,
            question: None,
        },
        title: "demo".into(),
        expect: format!("token-{number}"),
        candidates: vec![
            candidate(1, Scope::Once, "Let what waits now connect, once", false),
            candidate(
                2,
                Scope::Run,
                "Let this run connect to registry.example:443 until it ends",
                false,
            ),
            candidate(
                3,
                Scope::Project,
                "Let every run here connect to *.example:443",
                true,
            ),
        ],
        decided: None,
        secrets_notice: None,
        gives_up: None,
        by_itself: None,
    }
}

fn decided(number: u32) -> Decided {
    let block = view(number).block.id;
    Decided {
        amendment: Amendment {
            id: AmendmentId::new(block.run().clone(), 1),
            block: block.clone(),
            decision: Decision::Allow,
            scope: Scope::Run,
            words: "Let this run connect".into(),
            state: AmendmentState::Active,
            decided_at: At::from_millis(0),
            revision: Revision(2),
            expires: None,
            surface: None,
        },
        block: Some(block),
        in_force: true,
        released: 1,
        refused: 0,
        cut: 0,
        late: None,
    }
}

const STEP: Duration = Duration::from_millis(500);

fn armed(blocks: Vec<BlockView>) -> (Panel, Instant) {
    let start = Instant::now();
    let mut panel = Panel::new(false);
    assert!(panel.set_open(blocks, start));
    assert_eq!(
        panel.tick(start + STEP),
        Tick {
            drain: true,
            redraw: false
        }
    );
    (panel, start + STEP)
}

#[test]
fn a_key_before_half_a_second_decides_nothing() {
    let start = Instant::now();
    let mut panel = Panel::new(false);
    panel.set_open(vec![view(1)], start);
    assert_eq!(panel.due(), Some(start + STEP));
    assert!(matches!(panel.key(Key::Char('a'), start), Act::Nothing));
    panel.tick(start + STEP);
    let Act::Amend(request) = panel.key(Key::Char('a'), start + STEP) else {
        panic!("no amend")
    };
    assert_eq!((request.rule, request.scope), (Some(2), Some(Scope::Run)));
    assert_eq!(request.expect, "token-1");
    assert!(!request.confirmed);
}

#[test]
fn a_card_that_changes_asks_for_half_a_second_again() {
    let (mut panel, now) = armed(vec![view(1)]);
    let mut changed = view(1);
    changed.block.why = "another rule".into();
    assert!(panel.set_open(vec![changed], now));
    assert!(matches!(panel.key(Key::Char('a'), now), Act::Nothing));
    let text = panel.lines(80, 40, Paint::new(false)).join("\n");
    assert!(text.contains("has changed"), "{text}");
}

#[test]
fn figures_that_count_up_cannot_keep_the_keys_from_counting() {
    let (mut panel, now) = armed(vec![view(1)]);
    for more in 2..100 {
        let mut busy = view(1);
        busy.block.waiting = more;
        busy.block.seen = more.into();
        assert!(!panel.set_open(vec![busy], now + Duration::from_millis(more.into())));
    }
    assert!(matches!(panel.key(Key::Char('a'), now), Act::Amend(_)));
    assert!(
        panel.tick(now + COUNT_EVERY).redraw,
        "but the figures are drawn in the end"
    );
    assert!(
        panel
            .lines(80, 40, Paint::new(false))
            .join("\n")
            .contains("99 connections")
    );
}

#[test]
fn a_wider_rule_is_asked_about_twice() {
    let (mut panel, now) = armed(vec![view(1)]);
    assert!(
        matches!(panel.key(Key::Char('3'), now), Act::Nothing),
        "numbers only in the list"
    );
    assert!(matches!(panel.key(Key::Char('?'), now), Act::Redraw));
    panel.tick(now + STEP);
    assert!(matches!(panel.key(Key::Char('3'), now + STEP), Act::Redraw));
    assert!(
        matches!(panel.key(Key::Char('y'), now + STEP), Act::Nothing),
        "settles first"
    );
    panel.tick(now + STEP * 2);
    let Act::Amend(request) = panel.key(Key::Char('y'), now + STEP * 2) else {
        panic!()
    };
    assert!(request.confirmed);
    assert_eq!(request.rule, Some(3));
}

#[test]
fn anything_but_yes_takes_no_wider_rule() {
    for key in [Key::Escape, Key::Char('n'), Key::Char('a'), Key::Char('1')] {
        let (mut panel, now) = armed(vec![view(1)]);
        panel.key(Key::Char('?'), now);
        panel.tick(now + STEP);
        panel.key(Key::Char('3'), now + STEP);
        panel.tick(now + STEP * 2);
        assert!(
            matches!(panel.key(key, now + STEP * 2), Act::Redraw),
            "{key:?}"
        );
    }
}

#[test]
fn undo_is_offered_for_ten_seconds() {
    let (mut panel, now) = armed(vec![view(1)]);
    panel.decided(&decided(1), now);
    assert_eq!(panel.open_count(), 0);
    assert!(
        matches!(panel.key(Key::Char('u'), now), Act::Nothing),
        "settles first"
    );
    panel.tick(now + STEP);
    assert!(matches!(
        panel.key(Key::Char('u'), now + STEP),
        Act::Undo(_)
    ));
    assert!(panel.tick(now + UNDO).redraw);
    assert!(panel.is_empty());
    assert!(matches!(
        panel.key(Key::Char('u'), now + UNDO),
        Act::Nothing
    ));
}

#[test]
fn the_next_card_never_takes_the_key_meant_for_the_last() {
    let (mut panel, now) = armed(vec![view(1), view(2)]);
    let Act::Amend(request) = panel.key(Key::Char('a'), now) else {
        panic!()
    };
    assert_eq!(request.expect, "token-1");
    panel.working("amending…", now);
    assert!(matches!(
        panel.key(Key::Char('a'), now + STEP),
        Act::Nothing
    ));
    panel.decided(&decided(1), now + STEP);
    assert!(matches!(
        panel.key(Key::Char('a'), now + STEP),
        Act::Nothing
    ));
    assert!(
        panel
            .lines(80, 40, Paint::new(false))
            .join("\n")
            .contains("undo")
    );
}

#[test]
fn a_low_screen_keeps_the_question_and_the_keys() {
    let (panel, _) = armed(vec![view(1)]);
    let lines = panel.lines(60, 6, Paint::new(false));
    assert!(lines.len() <= 6, "{lines:#?}");
    assert!(lines[0].contains("registry.example:443"));
    assert!(lines.last().unwrap().contains("deny"));
}

#[test]
fn keys_of_the_terminal_mode_exist_only_there() {
    let (mut panel, now) = armed(vec![view(1)]);
    for key in [Key::Char('q'), Key::Char('s'), Key::Escape, Key::Prefix] {
        assert!(matches!(panel.key(key, now), Act::Nothing), "{key:?}");
    }
    let mut over = Panel::new(true);
    over.changed(now);
    over.tick(now + STEP);
    assert!(matches!(over.key(Key::Char('q'), now + STEP), Act::Leave));
    assert!(matches!(over.key(Key::Prefix, now + STEP), Act::SendPrefix));
}
