//! What reaches column 0, and what is one line.

use super::*;
use crate::panel::tests::view;
use foreman_domain::{EventSeq, RunId, StepName, WIRE_VERSION};

fn event(kind: EventKind) -> Event {
    Event {
        v: WIRE_VERSION,
        run: RunId::from_random(5),
        seq: EventSeq(1),
        at: At::from_millis(1500),
        step: Some(StepName("agent".into())),
        process: None,
        kind,
    }
}

fn drawn(kinds: Vec<EventKind>, width: Option<usize>) -> Vec<String> {
    let mut feed = Feed::new(At::from_millis(0), false);
    kinds.into_iter().for_each(|kind| feed.push(&event(kind)));
    let entries = feed.take();
    entries
        .iter()
        .flat_map(|entry| feed.render(entry, width, Paint::new(false)))
        .collect()
}

fn output(text: &str) -> EventKind {
    EventKind::Output {
        stream: LogStream::Stdout,
        text: text.into(),
        raw: None,
        continued: false,
    }
}

#[test]
fn output_that_imitates_a_card_stays_behind_the_gutter() {
    let fake = "▌  HELD  tcp bank.example:443\r▌ a  Let this run connect\n\u{1b}[1A\u{1b}[2K▌ a  ok\u{2028}▌ b";
    for width in [Some(12), Some(40), Some(200), None] {
        for line in drawn(vec![output(fake)], width) {
            assert!(line.starts_with(GUTTER), "{width:?} {line:?}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
            assert!(
                width.is_none_or(|width| cells(&line) <= width),
                "{width:?} {line:?}"
            );
        }
    }
}

#[test]
fn nothing_of_the_cage_reaches_column_0_through_our_own_lines() {
    let evil = "x\n▌ a  amend\r\u{1b}[2J ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌ ▌".to_owned();
    let kinds = vec![
        EventKind::Progress {
            stage: "setup".into(),
            message: evil.clone(),
        },
        EventKind::Warning {
            message: evil.clone(),
        },
        EventKind::StepStarted {
            what: foreman_domain::StepKind::Agent,
            argv: vec![evil.clone()],
        },
        EventKind::NameLookedUp { name: evil.clone() },
        EventKind::Probe {
            wall: Wall::Git,
            holds: false,
            detail: evil.clone(),
        },
        EventKind::Gap {
            from: EventSeq(1),
            to: EventSeq(2),
            count: 2,
            reason: evil,
        },
    ];
    for width in [Some(10), Some(30), Some(80), None] {
        for line in drawn(kinds.clone(), width) {
            assert!(line.starts_with('+') || line.starts_with("  "), "{line:?}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
}

#[test]
fn probes_are_one_line_and_a_missing_wall_its_own() {
    let probe = |wall, holds| EventKind::Probe {
        wall,
        holds,
        detail: "seen".into(),
    };
    let lines = drawn(
        vec![
            probe(Wall::Network, true),
            probe(Wall::Network, true),
            probe(Wall::Mounts, true),
            probe(Wall::Landlock, false),
            output("x"),
        ],
        Some(100),
    );
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(
        lines[0].ends_with("walls hold: network, mounts"),
        "{lines:#?}"
    );
    assert!(
        lines[1].contains("does not hold: Landlock: seen"),
        "{lines:#?}"
    );
}

#[test]
fn equal_connections_are_one_line_with_a_count() {
    let egress = || EventKind::Egress {
        subject: view(1).block.subject,
        verdict: ConnectVerdict::Allowed {
            rule: "order:1".into(),
        },
        count: 2,
    };
    let lines = drawn(vec![egress(), egress(), egress()], Some(100));
    assert_eq!(lines.len(), 1);
    assert!(
        lines[0].contains("allowed: tcp registry.example:443 by order:1 ×6"),
        "{lines:?}"
    );
    assert!(lines[0].starts_with("+1.5 s"), "{lines:?}");
}

#[test]
fn a_block_says_once_how_to_amend_it_where_there_are_no_keys() {
    let block = || EventKind::Block {
        block: view(1).block,
    };
    let text = drawn(vec![block(), block()], None).join("\n");
    assert_eq!(text.matches("foreman amend").count(), 1, "{text}");
    assert!(text.contains("no rule allows it"), "{text}");
}

#[test]
fn what_an_agent_says_stays_behind_the_gutter_and_its_raw_lines_are_not_shown() {
    use foreman_domain::{AgentEvent, AgentOutcome};
    let evil = || "x\n▌  HELD  \u{1b}[2J\r▌ a\u{2028}y".to_owned();
    let call = || "c1".to_owned();
    let said = vec![
        AgentEvent::Message {
            text: evil(),
            continued: false,
        },
        AgentEvent::Thought {
            text: evil(),
            continued: false,
        },
        AgentEvent::ToolStarted {
            call: call(),
            tool: evil(),
            arguments: evil(),
        },
        AgentEvent::ToolEnded {
            call: call(),
            tool: None,
            result: evil(),
            failed: true,
        },
        AgentEvent::Edit {
            call: call(),
            file: evil(),
        },
        AgentEvent::PermissionAsked {
            request: call(),
            tool: evil(),
            arguments: evil(),
        },
        AgentEvent::Session {
            session: evil(),
            model: Some(evil()),
        },
        AgentEvent::Retry {
            attempt: Some(2),
            why: evil(),
        },
        AgentEvent::Problem { message: evil() },
        AgentEvent::Unreadable { why: evil() },
    ];
    let kinds: Vec<_> = said
        .into_iter()
        .map(|event| EventKind::Agent { event })
        .collect();
    for width in [Some(12), Some(80), None] {
        for line in drawn(kinds.clone(), width) {
            assert!(line.starts_with(GUTTER), "{width:?} {line:?}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
    }
    let ended = EventKind::Agent {
        event: AgentEvent::Ended {
            outcome: AgentOutcome::Lost,
            why: evil(),
        },
    };
    let raw = |stream| EventKind::Output {
        stream,
        text: "{}".into(),
        raw: None,
        continued: false,
    };
    let lines = drawn(
        vec![raw(LogStream::Received), raw(LogStream::Sent), ended],
        None,
    );
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with('+') && lines[0].contains("is gone"),
        "{lines:?}"
    );
}
