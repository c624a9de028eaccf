//! The `claude` driver: Claude Code's stream-json, both ways.
//!
//! What it prints is understood by a [`LineMap`], as of any agent that prints JSON lines; in here is what it asks
//! (`control_request`), what it is told, and how it ended: `subtype` says "success" after denials and after a
//! model that was never reached, so the outcome is taken from all of its last message. A yes gives the arguments
//! back as they came, since what is in the answer is what it runs.

use crate::command::{Command, read};
use crate::map::LineMap;
use crate::outcome::of_status;
use crate::port::{Conversation, Driver, Effect, Input, Line, SECRET_MARK};
use crate::text::{PIECE, cut};
use crate::value::{at, count_at, name_at, readable};
use foreman_domain::{AgentEvent, AgentOutcome, PermissionAnswer, QuestionOption};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Questions that wait at one time; more are denied.
const QUESTIONS: usize = 64;
/// Longest arguments that an answer repeats, in bytes.
const LONGEST_INPUT: usize = 1 << 20;
/// What it is told where the operator said nothing.
const DENIED: &str =
    "The operator said no. Do without it, and say in your result that it was needed.";

pub(crate) struct Claude {
    lines: Command,
    prompt: String,
    next: u64,
    /// Questions that wait, with the arguments that a yes repeats.
    questions: BTreeMap<String, Value>,
}

impl Claude {
    pub(crate) fn new(map: LineMap, conversation: &Conversation) -> Self {
        Self {
            lines: Command::new(map),
            prompt: conversation.prompt.clone(),
            next: 1,
            questions: BTreeMap::new(),
        }
    }

    fn line(&mut self, line: Line<'_>, out: &mut Vec<Effect>) {
        let message = match read(line) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(why) => return self.lines.tell(AgentEvent::Unreadable { why }, out),
        };
        match message.get("type").and_then(Value::as_str) {
            Some("control_request") => self.asked(&message, out),
            Some("control_cancel_request") => self.taken_back(&message, out),
            // The answer to what we asked: what comes of it is seen by what follows.
            Some("control_response") => {}
            Some("result") => {
                self.lines.message(&message, out);
                self.result(&message, out);
            }
            _ => self.lines.message(&message, out),
        }
    }

    fn asked(&mut self, message: &Value, out: &mut Vec<Effect>) {
        let request = name_at(message, "request_id").unwrap_or_default();
        let subtype = name_at(message, "request.subtype").unwrap_or_default();
        if subtype != "can_use_tool" {
            let name = cut(&format!("control_request/{subtype}"), 200);
            self.lines.tell(AgentEvent::Unknown { name }, out);
            let response = json!({"subtype": "error", "request_id": request, "error": "not offered by this client"});
            return send(
                &json!({"type": "control_response", "response": response}),
                out,
            );
        }
        let input = at(message, "request.input").cloned().unwrap_or(json!({}));
        let text = input.to_string();
        let tool = name_at(message, "request.tool_name").unwrap_or_default();
        let arguments = cut(&text, PIECE);
        let event = AgentEvent::PermissionAsked {
            request: request.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
        };
        self.lines.tell(event, out);
        let why_not = if self.lines.standing.interrupted {
            Some("It is being stopped.")
        } else if text.contains(SECRET_MARK) {
            Some(
                "Its arguments hold a secret, which an answer cannot repeat; use its variable instead.",
            )
        } else if text.len() > LONGEST_INPUT {
            Some("Its arguments are too long to be answered.")
        } else if self.questions.len() >= QUESTIONS || self.questions.contains_key(&request) {
            Some("Too much was asked at one time.")
        } else {
            None
        };
        if let Some(why) = why_not {
            return self.deny(&request, why, out);
        }
        self.questions.insert(request.clone(), input);
        let option = |answer, words: &str| QuestionOption {
            answer,
            words: words.to_owned(),
        };
        out.push(Effect::Ask {
            request,
            tool,
            arguments,
            options: vec![
                option(PermissionAnswer::AllowOnce, "allow"),
                option(PermissionAnswer::RejectOnce, "deny"),
            ],
        });
    }

    fn taken_back(&mut self, message: &Value, out: &mut Vec<Effect>) {
        let request = name_at(message, "request_id").unwrap_or_default();
        if self.questions.remove(&request).is_some() {
            out.push(Effect::Withdraw { request });
        }
    }

    fn answer(
        &mut self,
        request: &str,
        answer: PermissionAnswer,
        reason: &str,
        out: &mut Vec<Effect>,
    ) {
        let Some(input) = self.questions.remove(request) else {
            return;
        };
        match answer {
            PermissionAnswer::AllowOnce | PermissionAnswer::AllowAlways => {
                let allow = json!({"behavior": "allow", "updatedInput": input});
                respond(request, allow, out);
                // It has no "always" of its own here.
                let event = AgentEvent::PermissionAnswered {
                    request: request.to_owned(),
                    answer: PermissionAnswer::AllowOnce,
                };
                self.lines.tell(event, out);
            }
            PermissionAnswer::RejectOnce | PermissionAnswer::RejectAlways => {
                let why = if reason.is_empty() { DENIED } else { reason };
                self.deny(request, why, out);
            }
        }
    }

    fn deny(&mut self, request: &str, why: &str, out: &mut Vec<Effect>) {
        let interrupt = self.lines.standing.interrupted;
        let deny = json!({"behavior": "deny", "message": why, "interrupt": interrupt});
        respond(request, deny, out);
        let denials = &mut self.lines.standing.denials;
        *denials = denials.saturating_add(1);
        let event = AgentEvent::PermissionAnswered {
            request: request.to_owned(),
            answer: PermissionAnswer::RejectOnce,
        };
        self.lines.tell(event, out);
    }

    /// Its last message.
    fn result(&mut self, message: &Value, out: &mut Vec<Effect>) {
        let denials = at(message, "permission_denials").and_then(Value::as_array);
        let denials = u32::try_from(denials.map_or(0, Vec::len)).unwrap_or(u32::MAX);
        let standing = &mut self.lines.standing;
        // What we denied is among them.
        standing.denials = standing.denials.max(denials);
        let subtype = name_at(message, "subtype").unwrap_or_default();
        let failed = at(message, "is_error").and_then(Value::as_bool) == Some(true);
        let said = at(message, "result").map(readable).unwrap_or_default();
        let status = count_at(message, "api_error_status");
        if !failed && subtype == "success" {
            standing.failing = None;
        } else {
            let outcome = match (status, subtype.as_str()) {
                (Some(status), _) => of_status(Some(status)),
                // It calls it a success although the model was never reached.
                (None, "success") => AgentOutcome::ModelUnreachable,
                (None, _) => AgentOutcome::AgentError,
            };
            let why = match said.is_empty() {
                true => subtype,
                false => said,
            };
            self.lines.fail(outcome, &why, out);
        }
        self.lines.standing.ended = true;
        self.drop_questions(out);
        out.push(Effect::HangUp);
    }

    fn drop_questions(&mut self, out: &mut Vec<Effect>) {
        for (request, _) in std::mem::take(&mut self.questions) {
            out.push(Effect::Withdraw { request });
        }
    }

    fn interrupt(&mut self, out: &mut Vec<Effect>) {
        self.lines.standing.interrupted = true;
        for (request, _) in std::mem::take(&mut self.questions) {
            self.deny(&request, "It is being stopped.", out);
            out.push(Effect::Withdraw { request });
        }
        let id = format!("foreman-{}", self.next);
        self.next += 1;
        let request = json!({"subtype": "interrupt"});
        send(
            &json!({"type": "control_request", "request_id": id, "request": request}),
            out,
        );
    }
}

impl Driver for Claude {
    fn take(&mut self, input: Input<'_>, out: &mut Vec<Effect>) {
        match input {
            Input::Begin => {
                let content = json!([{"type": "text", "text": self.prompt}]);
                let message = json!({"role": "user", "content": content});
                send(&json!({"type": "user", "message": message}), out);
            }
            Input::Line(line) => self.line(line, out),
            Input::Answer {
                request,
                answer,
                reason,
            } => self.answer(request, answer, reason, out),
            Input::Interrupt => self.interrupt(out),
            input @ (Input::Pause | Input::Stalled(_) | Input::Say { .. } | Input::End(_)) => {
                self.lines.take(input, out);
            }
        }
    }
}

fn send(message: &Value, out: &mut Vec<Effect>) {
    out.push(Effect::Send(message.to_string()));
}

fn respond(request: &str, answer: Value, out: &mut Vec<Effect>) {
    let response = json!({"subtype": "success", "request_id": request, "response": answer});
    send(
        &json!({"type": "control_response", "response": response}),
        out,
    );
}
