use super::*;
use crate::{LogStream, WIRE_VERSION};
use proptest::prelude::*;

fn event(seq: u64, at: i64, kind: EventKind) -> Event {
    Event {
        v: WIRE_VERSION,
        run: RunId::from_random(1),
        seq: EventSeq(seq),
        at: At::from_millis(at),
        step: Some(StepName("agent".into())),
        process: None,
        kind,
    }
}

fn line(text: &str) -> EventKind {
    EventKind::Output {
        stream: LogStream::Stdout,
        text: text.into(),
        raw: None,
        continued: false,
    }
}

fn there_and_back(events: &[Event]) -> (usize, Vec<Event>) {
    let mut count = 0;
    let mut back = Vec::new();
    for packed in pack(events) {
        count += 1;
        let text = serde_json::to_string(&packed).unwrap();
        let span: Span = serde_json::from_str(&text).unwrap();
        assert_eq!(Some(span.first), packed.first().map(|event| event.seq));
        assert_eq!(span.last, packed.events().last().unwrap().seq);
        let record: Record = serde_json::from_str(&text).unwrap();
        back.extend(record.into_events());
    }
    (count, back)
}

#[test]
fn lines_read_in_one_go_are_one_record_and_come_apart_as_they_were() {
    let events: Vec<_> = (1..=100)
        .map(|seq| event(seq, 7, line(&format!("line {seq}"))))
        .collect();
    assert_eq!(there_and_back(&events), (1, events.clone()));
    let text = serde_json::to_string(&pack(&events).next().unwrap()).unwrap();
    assert!(text.len() < 1_300, "{}", text.len());
}

#[test]
fn a_record_of_one_event_is_the_event_itself() {
    let one = [event(1, 7, line("x"))];
    let packed = pack(&one).next().unwrap();
    assert_eq!(
        serde_json::to_string(&packed).unwrap(),
        serde_json::to_string(&one[0]).unwrap()
    );
}

#[test]
fn what_differs_is_not_put_together() {
    let stderr = EventKind::Output {
        stream: LogStream::Stderr,
        text: "e".into(),
        raw: None,
        continued: false,
    };
    let continued = EventKind::Output {
        stream: LogStream::Stdout,
        text: "half".into(),
        raw: None,
        continued: true,
    };
    let mut other_step = event(6, 8, line("other step"));
    other_step.step = None;
    let events = [
        event(1, 7, line("a")),
        event(2, 7, stderr),
        event(3, 7, continued),
        event(4, 7, line("b")),
        event(5, 8, line("later")),
        other_step,
        event(9, 8, line("not the next number")),
    ];
    assert_eq!(there_and_back(&events), (7, events.to_vec()));
}

#[test]
fn a_record_is_bounded() {
    let short: Vec<_> = (1..=5_000).map(|seq| event(seq, 7, line(""))).collect();
    assert_eq!(there_and_back(&short), (5, short.clone()));
    let text = "x".repeat(10_000);
    let long: Vec<_> = (1..=7).map(|seq| event(seq, 7, line(&text))).collect();
    assert_eq!(there_and_back(&long), (3, long.clone()));
}

#[test]
fn a_gap_stands_for_its_range() {
    let gap = event(
        2,
        7,
        EventKind::Gap {
            from: EventSeq(2),
            to: EventSeq(9),
            count: 8,
            reason: "budget".into(),
        },
    );
    assert_eq!(last_seq_of(&gap), EventSeq(9));
}

proptest! {
    #[test]
    fn packing_loses_nothing(items in proptest::collection::vec((0..3_u8, 0..2_i64, "\\PC{0,20}"), 0..200)) {
        let events: Vec<_> = items
            .into_iter()
            .enumerate()
            .map(|(index, (what, at, text))| {
                let kind = match what {
                    0 => EventKind::Warning { message: text },
                    _ => line(&text),
                };
                event(index as u64 + 1, at, kind)
            })
            .collect();
        let (count, back) = there_and_back(&events);
        prop_assert!(count <= events.len());
        prop_assert_eq!(back, events);
    }
}
