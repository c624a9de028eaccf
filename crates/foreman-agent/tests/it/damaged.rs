//! Recordings of real agents with values replaced, lines dropped, repeated and broken: whatever an agent prints, its
//! driver tells what it understood, stays within its bounds, and comes to one end.

use crate::of;
use foreman_agent::conformance::Candidate as _;
use foreman_agent::{Effect, Input, Lines};
use foreman_domain::{AgentEvent, StepResult};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

const RECORDINGS: [(&str, &[u8]); 6] = [
    (
        "pi",
        include_bytes!("../../recordings/pi-hello-then-curl.jsonl"),
    ),
    (
        "codex",
        include_bytes!("../../recordings/codex-hello-then-curl.jsonl"),
    ),
    (
        "gemini",
        include_bytes!("../../recordings/gemini-hello-then-curl.jsonl"),
    ),
    (
        "qwen",
        include_bytes!("../../recordings/qwen-hello-then-curl.jsonl"),
    ),
    (
        "opencode",
        include_bytes!("../../recordings/opencode-hello-then-curl.jsonl"),
    ),
    (
        "claude",
        include_bytes!("../../recordings/claude-by-hand.jsonl"),
    ),
];
/// Longest text of one event, in bytes; what a cut adds to it is short.
const LONGEST_TEXT: usize = (16 << 10) + 100;
/// Most events of one line.
const MOST_EVENTS: usize = 300;

/// What is put in the place of a value.
fn other_value() -> impl Strategy<Value = Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let wide = Value::Array(vec![json!({"type": "text", "text": "x"}); 2_000]);
    prop_oneof![
        select(vec![
            Value::Null,
            json!(true),
            json!(-1),
            json!(u64::MAX),
            json!(1e308),
            json!(""),
            json!("\u{1b}[2J\u{202e}"),
            json!("x".repeat(100_000)),
            json!({}),
            deep,
            wide,
        ]),
        any::<String>().prop_map(Value::String),
        any::<f64>().prop_map(|number| json!(number)),
    ]
}

/// Values in a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// Replaces the value that comes `at`-th, depth first; gives how many are still to be passed.
fn replace(value: &mut Value, at: usize, by: &Value) -> Option<usize> {
    let Some(mut left) = at.checked_sub(1) else {
        *value = by.clone();
        return None;
    };
    let inner: Box<dyn Iterator<Item = &mut Value>> = match value {
        Value::Array(items) => Box::new(items.iter_mut()),
        Value::Object(fields) => Box::new(fields.values_mut()),
        _ => return Some(left),
    };
    for item in inner {
        left = replace(item, left, by)?;
    }
    Some(left)
}

#[derive(Debug, Clone)]
enum Damage {
    Replace(Index, Index, Value),
    Drop(Index),
    Repeat(Index, Index),
    Byte(Index, Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), at(), other_value()).prop_map(|(line, value, by)| Damage::Replace(line, value, by)),
        1 => at().prop_map(Damage::Drop),
        1 => (at(), at()).prop_map(|(from, to)| Damage::Repeat(from, to)),
        1 => (at(), at(), any::<u8>()).prop_map(|(line, byte, by)| Damage::Byte(line, byte, by)),
    ]
}

fn apply(lines: &mut Vec<Vec<u8>>, damage: &Damage) {
    if lines.is_empty() {
        return;
    }
    let all = lines.len();
    match damage {
        Damage::Replace(line, at, by) => {
            let line = &mut lines[line.index(all)];
            if let Ok(mut value) = serde_json::from_slice::<Value>(line) {
                let at = at.index(count(&value));
                replace(&mut value, at, by);
                *line = serde_json::to_vec(&value).unwrap();
            }
        }
        Damage::Drop(line) => {
            lines.remove(line.index(all));
        }
        Damage::Repeat(from, to) => {
            let line = lines[from.index(all)].clone();
            lines.insert(to.index(all), line);
        }
        Damage::Byte(line, at, by) => {
            let line = &mut lines[line.index(all)];
            if !line.is_empty() {
                let at = at.index(line.len());
                line[at] = *by;
            }
        }
    }
}

fn longest_text(event: &AgentEvent) -> usize {
    let Ok(value) = serde_json::to_value(event) else {
        return usize::MAX;
    };
    fn longest(value: &Value) -> usize {
        match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(longest).max().unwrap_or(0),
            Value::Object(fields) => fields.values().map(longest).max().unwrap_or(0),
            _ => 0,
        }
    }
    longest(&value)
}

proptest! {
    #[test]
    fn any_damage_to_a_recording_is_survived_within_bounds(
        (agent, recording) in select(RECORDINGS.to_vec()),
        damages in prop::collection::vec(damage(), 0..6),
        is_over in any::<bool>(),
    ) {
        let mut lines: Vec<Vec<u8>> = recording.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for damage in &damages {
            apply(&mut lines, damage);
        }
        let mut driver = of(agent, recording).driver();
        let mut told = Vec::new();
        let mut reader = Lines::default();
        driver.take(Input::Begin, &mut told);
        for line in lines {
            let mut effects = Vec::new();
            let mut bytes = line;
            bytes.push(b'\n');
            reader.push(&bytes, |line| driver.take(Input::Line(line), &mut effects));
            prop_assert!(effects.len() <= MOST_EVENTS, "{} effects of one line", effects.len());
            told.append(&mut effects);
        }
        let result = match is_over {
            true => StepResult::Succeeded,
            false => StepResult::Exited { code: 1 },
        };
        driver.take(Input::End(&result), &mut told);
        let mut ends = 0;
        for effect in &told {
            if let Effect::Tell(event) = effect {
                ends += usize::from(matches!(event, AgentEvent::Ended { .. }));
                let longest = longest_text(event);
                prop_assert!(longest <= LONGEST_TEXT, "{longest} bytes in one text");
            }
        }
        prop_assert_eq!(ends, 1, "a run has one end");
    }
}
