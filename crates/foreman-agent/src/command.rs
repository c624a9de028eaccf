//! The `command` driver: any program that prints a JSON object a line, understood by a [`LineMap`].

use crate::map::{Emit, LineMap, Rule};
use crate::outcome::{Standing, is_a_limit, of_status};
use crate::port::{Driver, Effect, Input, Line};
use crate::text::{Kind, PIECE, Text, cut};
use crate::value::{at, count_at, limit, microusd, name_at, readable};
use foreman_domain::{AgentEvent, AgentOutcome};
use serde_json::Value;

/// Longest reason that is kept.
const WHY: usize = 2_000;
/// Items of a list that a rule goes through.
const ITEMS: usize = 256;

pub(crate) struct Command {
    map: LineMap,
    pub(crate) standing: Standing,
    text: Text,
}

impl Command {
    pub(crate) fn new(map: LineMap) -> Self {
        Self {
            map,
            standing: Standing::default(),
            text: Text::new(),
        }
    }

    fn line(&mut self, line: Line<'_>, out: &mut Vec<Effect>) {
        let message = match read(line) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(why) => {
                self.tell(AgentEvent::Unreadable { why }, out);
                return;
            }
        };
        self.message(&message, out);
    }

    /// What one message means.
    pub(crate) fn message(&mut self, message: &Value, out: &mut Vec<Effect>) {
        let map = std::mem::take(&mut self.map.rules);
        let mut is_known = false;
        for rule in &map {
            match &rule.each {
                None if matches(rule, message, None) => {
                    is_known = true;
                    self.emit(&rule.emit, message, None, out);
                }
                None => {}
                Some(path) => {
                    let items = at(message, path).and_then(Value::as_array);
                    // A line of many megabytes must not become as many events.
                    let items = items.into_iter().flatten().take(ITEMS);
                    for item in items {
                        if matches(rule, message, Some(item)) {
                            is_known = true;
                            self.emit(&rule.emit, message, Some(item), out);
                        }
                    }
                }
            }
        }
        self.map.rules = map;
        if !is_known {
            let name = name_at(message, &self.map.name).unwrap_or_default();
            self.tell(AgentEvent::Unknown { name }, out);
        }
    }

    fn emit(&mut self, emit: &Emit, message: &Value, item: Option<&Value>, out: &mut Vec<Effect>) {
        let value = |path: &str| find(message, item, path);
        let name = |path: &str| {
            let (value, path) = root(message, item, path)?;
            name_at(value, path)
        };
        let text = |path: &str| value(path).map(readable).unwrap_or_default();
        let count = |path: &str| {
            let (value, path) = root(message, item, path)?;
            count_at(value, path)
        };
        match emit {
            Emit::Nothing => {}
            Emit::Session { session, model } => {
                let session = name(session).unwrap_or_default();
                let model = model.as_deref().and_then(name);
                self.tell(AgentEvent::Session { session, model }, out);
            }
            Emit::Message { text: path, delta } => {
                self.say(Kind::Message, &text(path), *delta, out)
            }
            Emit::Thought { text: path, delta } => {
                self.say(Kind::Thought, &text(path), *delta, out)
            }
            Emit::ToolStarted {
                call,
                tool,
                arguments,
            } => {
                let event = AgentEvent::ToolStarted {
                    call: name(call).unwrap_or_default(),
                    tool: name(tool).unwrap_or_default(),
                    arguments: cut(
                        &value(arguments).map(Value::to_string).unwrap_or_default(),
                        PIECE,
                    ),
                };
                self.tell(event, out);
            }
            Emit::ToolEnded {
                call,
                tool,
                result,
                failed,
                failed_at,
            } => {
                let says_failed = failed_at
                    .as_deref()
                    .and_then(value)
                    .and_then(Value::as_bool);
                let event = AgentEvent::ToolEnded {
                    call: name(call).unwrap_or_default(),
                    tool: tool.as_deref().and_then(name),
                    result: cut(&text(result), PIECE),
                    failed: *failed || says_failed == Some(true),
                };
                self.tell(event, out);
            }
            Emit::Edit { call, file } => {
                let event = AgentEvent::Edit {
                    call: name(call).unwrap_or_default(),
                    file: cut(&text(file), 4_096),
                };
                self.tell(event, out);
            }
            Emit::Usage {
                total,
                input,
                output,
                cached,
                cost,
                input_has_cached,
            } => {
                let cached = cached.as_deref().and_then(count).unwrap_or(0);
                let input = count(input).unwrap_or(0);
                let event = AgentEvent::Usage {
                    total: *total,
                    input: input.saturating_sub(if *input_has_cached { cached } else { 0 }),
                    output: count(output).unwrap_or(0),
                    cached,
                    cost_microusd: cost.as_deref().and_then(value).and_then(microusd),
                };
                self.tell(event, out);
            }
            Emit::Retry {
                attempt,
                text: path,
            } => {
                let attempt = attempt.as_deref().and_then(count);
                let event = AgentEvent::Retry {
                    attempt: attempt.and_then(|number| u32::try_from(number).ok()),
                    why: cut(&text(path), WHY),
                };
                self.tell(event, out);
            }
            Emit::Problem { text: path } => {
                let message = cut(&text(path), WHY);
                self.tell(AgentEvent::Problem { message }, out);
            }
            Emit::ModelFailed {
                text: path,
                status,
                resets_at,
                retry_after,
            } => {
                let status = status.as_deref().and_then(value).and_then(status_of);
                let resets_at = resets_at.as_deref().and_then(value);
                let after = retry_after.as_deref().and_then(value);
                if is_a_limit(status) || resets_at.is_some() || after.is_some() {
                    self.tell(limit(resets_at, after), out);
                }
                self.fail(of_status(status), &text(path), out);
            }
            Emit::GaveUp { text: path } => self.fail(AgentOutcome::AgentError, &text(path), out),
            Emit::Works => self.standing.failing = None,
            Emit::Denied => self.standing.denials = self.standing.denials.saturating_add(1),
            Emit::Ended => self.standing.ended = true,
        }
    }

    pub(crate) fn fail(&mut self, outcome: AgentOutcome, why: &str, out: &mut Vec<Effect>) {
        let why = cut(why, WHY);
        let message = why.clone();
        self.tell(AgentEvent::Problem { message }, out);
        self.standing.failing = Some((outcome, why));
    }

    fn say(&mut self, kind: Kind, text: &str, delta: bool, out: &mut Vec<Effect>) {
        if !delta {
            self.text.flush(out);
        }
        self.text.push(kind, text, out);
        if !delta {
            self.text.flush(out);
        }
    }

    pub(crate) fn tell(&mut self, event: AgentEvent, out: &mut Vec<Effect>) {
        self.text.flush(out);
        out.push(Effect::Tell(event));
    }
}

impl Driver for Command {
    fn take(&mut self, input: Input<'_>, out: &mut Vec<Effect>) {
        match input {
            Input::Begin => {}
            Input::Line(line) => self.line(line, out),
            Input::Pause => self.text.flush(out),
            // It asks nothing, and hears nothing but signals.
            Input::Answer { .. } | Input::Say { .. } => {}
            Input::Stalled(why) => self.standing.stalled = Some(why.to_owned()),
            Input::Interrupt => self.standing.interrupted = true,
            Input::End(process) => {
                let (outcome, why) = self.standing.outcome(process);
                self.tell(AgentEvent::Ended { outcome, why }, out);
            }
        }
    }
}

/// The message of a line: none in an empty one; a sentence where it is no JSON object.
pub(crate) fn read(line: Line<'_>) -> Result<Option<Value>, String> {
    let bytes = match line {
        Line::Whole(bytes) => bytes.trim_ascii(),
        Line::TooLong(bytes) => {
            return Err(format!("a line of {bytes} bytes is too long to be read"));
        }
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    match serde_json::from_slice::<Value>(bytes) {
        Ok(message @ Value::Object(_)) => Ok(Some(message)),
        Ok(_) => Err("a line is JSON, but no object".to_owned()),
        Err(_) => Err("a line is no JSON".to_owned()),
    }
}

/// Where a path begins, and the rest of it.
fn root<'a, 'p>(
    message: &'a Value,
    item: Option<&'a Value>,
    path: &'p str,
) -> Option<(&'a Value, &'p str)> {
    match path.strip_prefix("each.") {
        Some(rest) => Some((item?, rest)),
        None => Some((message, path)),
    }
}

fn find<'a>(message: &'a Value, item: Option<&'a Value>, path: &str) -> Option<&'a Value> {
    let (value, path) = root(message, item, path)?;
    at(value, path)
}

fn matches(rule: &Rule, message: &Value, item: Option<&Value>) -> bool {
    let mut wanted = rule.when.iter();
    wanted.all(|(path, wanted)| find(message, item, path) == Some(wanted))
}

/// An HTTP status: a number, or the number that a text begins with.
fn status_of(value: &Value) -> Option<u64> {
    let status = match value {
        Value::Number(number) => number.as_u64()?,
        Value::String(text) => text.get(..3)?.parse().ok()?,
        _ => return None,
    };
    (100..600).contains(&status).then_some(status)
}
