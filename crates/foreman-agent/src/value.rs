//! Reading JSON values that nobody promised anything about.

use crate::text::cut;
use foreman_domain::{AgentEvent, At};
use serde_json::Value;

/// The value at a path of keys and indices, `a.0.b`; none where there is nothing or `null`.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut here = value;
    for key in path.split('.') {
        here = match here {
            Value::Object(map) => map.get(key)?,
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    (!here.is_null()).then_some(here)
}

/// A short name in it: text, or a number as text. Cut: a name is no place for more.
pub(crate) fn name_at(value: &Value, path: &str) -> Option<String> {
    match at(value, path)? {
        Value::String(text) => Some(cut(text, 512)),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A count.
pub(crate) fn count_at(value: &Value, path: &str) -> Option<u64> {
    at(value, path)?.as_u64()
}

/// An amount in dollars as millionths.
pub(crate) fn microusd(value: &Value) -> Option<u64> {
    let dollars = value
        .as_f64()
        .filter(|dollars| dollars.is_finite() && *dollars >= 0.0)?;
    // Saturates, so an absurd amount stays one.
    Some((dollars * 1e6).round() as u64)
}

/// What the provider of a model says about a limit, from typed fields: a moment, and a wait in seconds. A text counts
/// only where all of it is a time.
pub(crate) fn limit(resets_at: Option<&Value>, after: Option<&Value>) -> AgentEvent {
    AgentEvent::Limited {
        resets_at: resets_at.and_then(moment),
        after_seconds: after.and_then(|after| match after {
            Value::Number(number) => number.as_u64(),
            // As the HTTP header has it.
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        }),
    }
}

/// A time of the calendar (RFC 3339), or seconds or milliseconds since 1970.
fn moment(value: &Value) -> Option<At> {
    /// So many seconds are past the year 5000, so many milliseconds are in 1973.
    const MILLIS: i64 = 100_000_000_000;
    match value {
        Value::Number(number) => match number.as_i64()? {
            millis if millis >= MILLIS => Some(At::from_millis(millis)),
            seconds if seconds > 0 => Some(At::from_millis(seconds.saturating_mul(1_000))),
            _ => None,
        },
        Value::String(_) => serde_json::from_value(value.clone()).ok(),
        _ => None,
    }
}

/// What a person would read: text as it is; blocks of content put together; else the JSON.
pub(crate) fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Array(items)
            if !items.is_empty() && items.iter().all(|item| block(item).is_some()) =>
        {
            items.iter().filter_map(block).collect()
        }
        Value::Object(map) if map.get("content").is_some_and(Value::is_array) => {
            readable(map.get("content").unwrap_or(&Value::Null))
        }
        other => block(other).map_or_else(|| other.to_string(), str::to_owned),
    }
}

/// The text of a block of content: `{"type":"text","text":"…"}`, also one level deep.
fn block(value: &Value) -> Option<&str> {
    let own = value.get("text").and_then(Value::as_str);
    own.or_else(|| value.get("content")?.get("text")?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_through_objects_and_lists_and_nowhere_else() {
        let value = json!({"a": [{"b": "x"}], "n": null, "c": 7});
        assert_eq!(name_at(&value, "a.0.b").as_deref(), Some("x"));
        assert_eq!(name_at(&value, "c").as_deref(), Some("7"));
        for nowhere in ["a.1.b", "a.b", "n", "n.x", "c.d", ""] {
            assert_eq!(at(&value, nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn content_is_read_as_a_person_would() {
        let blocks = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
        assert_eq!(readable(&blocks), "ab");
        assert_eq!(readable(&json!({"content": blocks})), "ab");
        assert_eq!(
            readable(&json!([{"type":"content","content":{"type":"text","text":"c"}}])),
            "c"
        );
        assert_eq!(readable(&json!({"x": 1})), "{\"x\":1}");
        assert_eq!(readable(&json!([])), "[]");
    }

    #[test]
    fn dollars_are_never_less_than_nothing() {
        assert_eq!(microusd(&json!(0.0125)), Some(12_500));
        assert_eq!(microusd(&json!(-1)), None);
        assert_eq!(microusd(&json!(1e300)), Some(u64::MAX));
    }
}
