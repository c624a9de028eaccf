//! Lines for what an agent said, as its driver understood it. All of it is the cage's text, and stays behind the
//! gutter; only the driver's own conclusion is a line of ours.

use super::{Body, Entry, Feed};
use crate::layout::fit;
use crate::paint::Tone;
use crate::words;
use foreman_domain::{AgentEvent, At, PermissionAnswer, sanitize_line};

/// Cells of arguments and results that are shown; `--json` has the rest.
const SHOWN: usize = 400;
/// Lines of a tool's result that are shown.
const LINES: usize = 8;

impl Feed {
    pub(super) fn agent(&mut self, at: At, event: &AgentEvent) {
        match event {
            AgentEvent::Message { text, .. } => self.said("", text, false),
            AgentEvent::Thought { text, .. } => self.said("(thinks) ", text, false),
            AgentEvent::ToolStarted {
                tool, arguments, ..
            } => self.said("→ ", &fit(&format!("{tool} {arguments}"), SHOWN), false),
            AgentEvent::ToolEnded { result, failed, .. } => {
                let mut lines = result.trim_end().lines();
                let shown: Vec<&str> = lines.by_ref().take(LINES).collect();
                let more = lines.count();
                self.said("← ", &fit(&shown.join("\n"), SHOWN * LINES), *failed);
                if more > 0 {
                    self.said(
                        "  ",
                        &format!("and {}", words::count(more as u64, "line")),
                        false,
                    );
                }
            }
            AgentEvent::Edit { file, .. } => self.said("± ", file, false),
            AgentEvent::PermissionAsked {
                tool, arguments, ..
            } => self.said("? ", &fit(&format!("{tool} {arguments}"), SHOWN), false),
            AgentEvent::PermissionAnswered { answer, .. } => {
                let answer = match answer {
                    PermissionAnswer::AllowOnce => "allowed, once",
                    PermissionAnswer::AllowAlways => "allowed, with all like it",
                    PermissionAnswer::RejectOnce => "rejected, once",
                    PermissionAnswer::RejectAlways => "rejected, with all like it",
                };
                self.ours(at, Tone::Plain, format!("the agent's question: {answer}"));
            }
            AgentEvent::Retry { attempt, why } => {
                let attempt = attempt.map(|number| format!(", try {number}"));
                let text = format!("model not reached{}: {why}", attempt.unwrap_or_default());
                self.said("! ", &text, true);
            }
            AgentEvent::Problem { message } => self.said("! ", message, true),
            AgentEvent::Unreadable { why } => self.said("! ", why, true),
            AgentEvent::Session { session, model } => {
                let model = model.as_ref().map(|model| format!(", model {model}"));
                let text = format!("session {session}{}", model.unwrap_or_default());
                self.said("", &text, false);
            }
            AgentEvent::Told { by, text } => {
                self.ours(
                    at,
                    Tone::Plain,
                    format!("{} says to the agent:", sanitize_line(by)),
                );
                self.said("» ", text, false);
            }
            AgentEvent::Given { waiting } => {
                let more = match waiting {
                    0 => String::new(),
                    more => format!("; {} more wait", words::count(u64::from(*more), "message")),
                };
                let text = format!("the agent has it as its next prompt{more}");
                self.ours(at, Tone::Plain, text);
            }
            AgentEvent::Limited {
                resets_at,
                after_seconds,
            } => {
                let until = match (resets_at, after_seconds) {
                    (Some(at), _) => format!(" until {at}"),
                    (None, Some(seconds)) => {
                        format!(" for {}", words::duration(seconds.saturating_mul(1_000)))
                    }
                    (None, None) => String::new(),
                };
                let text = format!("the provider of its model lets it do no more{until}");
                self.ours(at, Tone::Bad, text);
            }
            AgentEvent::Replayed { updates } => {
                let much = words::count(u64::from(*updates), "update");
                let text = format!("the agent told its past again ({much}), which is not shown");
                self.ours(at, Tone::Plain, text);
            }
            // `foreman events` has them.
            AgentEvent::Usage { .. } | AgentEvent::Unknown { .. } => {}
            AgentEvent::Ended { outcome, why } => {
                let tone = if outcome.is_complete() {
                    Tone::Good
                } else {
                    Tone::Bad
                };
                let why = match why.is_empty() {
                    true => String::new(),
                    false => format!(": {}", sanitize_line(why)),
                };
                self.ours(at, tone, format!("the agent {outcome}{why}"));
            }
        }
    }

    fn said(&mut self, mark: &str, text: &str, is_error: bool) {
        for line in text.trim_end_matches('\n').split('\n') {
            let text = sanitize_line(line.strip_suffix('\r').unwrap_or(line));
            self.ready.push(Entry {
                body: Body::Cage {
                    is_error,
                    text: format!("{mark}{text}"),
                },
                count: 1,
            });
        }
    }
}
