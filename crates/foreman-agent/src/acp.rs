//! The `acp` driver: Agent Client Protocol, version 1, JSON-RPC 2.0 with a message a line.
//!
//! Neither `fs` nor `terminal` is offered: the agent reads, writes and runs within the cage, where everything is
//! watched, and nothing is done for it outside. The mode of a session is always set, never assumed. Messages
//! are read as JSON values and not as types, so that an agent with a newer or a sloppy idea of the protocol goes
//! on working: what is not known is told, answered with an error where it waits, and never fatal.

mod updates;

use crate::command::read;
use crate::outcome::{Standing, is_a_limit, of_refusal};
use crate::port::{Conversation, Driver, Effect, Hearing, Input, Line};
use crate::text::{PIECE, Text, cut};
use crate::value::{at, limit, name_at};
use foreman_domain::{
    AgentEvent, AgentOutcome, PermissionAnswer, QUESTION_OPTIONS, QuestionOption,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// JSON-RPC's "no such method".
const NO_SUCH_METHOD: i64 = -32601;
/// The answer to a request that was taken back.
const TAKEN_BACK: i64 = -32800;
/// The protocol's "log in first".
const LOG_IN_FIRST: i64 = -32000;
/// Questions that wait at one time; an agent that asks more is told that it is cancelled.
const QUESTIONS: usize = 64;

/// Options of one question that can be chosen.
const OPTIONS: usize = 64;
/// Longest name of an option that is shown.
const LONGEST_OPTION: usize = 120;
/// Messages of the operator's that wait at one time.
const MESSAGES: usize = 32;

/// What one of our requests was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Initialize,
    NewSession,
    LoadSession,
    SetMode,
    Prompt,
}

/// A question of the agent that waits for an answer.
#[derive(Debug)]
struct Question {
    /// The id of its request, to be given back as it is.
    id: Value,
    /// Its options: id and kind.
    options: Vec<(String, String)>,
}

pub(crate) struct Acp {
    conversation: Conversation,
    standing: Standing,
    text: Text,
    next: u64,
    /// Our requests that have no answer yet.
    asked: BTreeMap<u64, Asked>,
    questions: BTreeMap<String, Question>,
    session: Option<String>,
    /// The session's past is told again; it is no news. How much of it there was so far.
    replays: Option<u32>,
    /// What the operator said, the oldest first: the prompts of the turns that follow.
    said: VecDeque<String>,
    calls: updates::Calls,
}

impl Acp {
    pub(crate) fn new(conversation: Conversation) -> Self {
        Self {
            conversation,
            standing: Standing::default(),
            text: Text::new(),
            next: 1,
            asked: BTreeMap::new(),
            questions: BTreeMap::new(),
            session: None,
            replays: None,
            said: VecDeque::new(),
            calls: updates::Calls::default(),
        }
    }

    fn request(&mut self, asked: Asked, method: &str, params: Value, out: &mut Vec<Effect>) {
        let id = self.next;
        self.next += 1;
        self.asked.insert(id, asked);
        send(
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}),
            out,
        );
    }

    fn line(&mut self, line: Line<'_>, out: &mut Vec<Effect>) {
        let message = match read(line) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(why) => return self.tell(AgentEvent::Unreadable { why }, out),
        };
        let method = at(&message, "method")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let id = message.get("id").cloned().filter(|id| !id.is_null());
        match (method.as_deref(), id) {
            (Some("session/update"), _) => self.update(&message, out),
            (Some("session/request_permission"), Some(id)) => self.question(id, &message, out),
            (Some("$/cancel_request"), None) => self.taken_back(&message, out),
            (Some(name), id) => {
                let unknown = AgentEvent::Unknown {
                    name: cut(name, 200),
                };
                self.tell(unknown, out);
                if let Some(id) = id {
                    let error =
                        json!({"code": NO_SUCH_METHOD, "message": "not offered by this client"});
                    send(json!({"jsonrpc": "2.0", "id": id, "error": error}), out);
                }
            }
            (None, Some(id)) => self.answered(&id, &message, out),
            (None, None) => self.tell(
                AgentEvent::Unknown {
                    name: String::new(),
                },
                out,
            ),
        }
    }

    /// An answer to a request of ours.
    fn answered(&mut self, id: &Value, message: &Value, out: &mut Vec<Effect>) {
        let asked = id.as_u64().and_then(|id| self.asked.remove(&id));
        let Some(asked) = asked else {
            return self.tell(
                AgentEvent::Unknown {
                    name: "an answer to nothing".to_owned(),
                },
                out,
            );
        };
        if let Some(error) = at(message, "error") {
            return self.refused(asked, error, out);
        }
        let result = message.get("result").cloned().unwrap_or(Value::Null);
        match asked {
            Asked::Initialize => self.open_session(&result, out),
            Asked::NewSession => {
                let session = name_at(&result, "sessionId").unwrap_or_default();
                self.opened(session, &result, out);
            }
            Asked::LoadSession => {
                let updates = self.replays.take().unwrap_or_default();
                self.tell(AgentEvent::Replayed { updates }, out);
                let session = self.conversation.resume.clone().unwrap_or_default();
                self.opened(session, &result, out);
            }
            Asked::SetMode => self.begin_work(out),
            Asked::Prompt => self.finished(&result, out),
        }
    }

    fn open_session(&mut self, result: &Value, out: &mut Vec<Effect>) {
        let can_load = at(result, "agentCapabilities.loadSession").and_then(Value::as_bool);
        let cwd = self.conversation.cwd.clone();
        match self.conversation.resume.clone() {
            Some(session) if can_load == Some(true) => {
                self.replays = Some(0);
                let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
                self.request(Asked::LoadSession, "session/load", params, out);
            }
            Some(_) => self.start_afresh("it cannot go on with a session", out),
            None => self.new_session(out),
        }
    }

    fn new_session(&mut self, out: &mut Vec<Effect>) {
        let params = json!({"cwd": self.conversation.cwd, "mcpServers": []});
        self.request(Asked::NewSession, "session/new", params, out);
    }

    /// The session that it was to go on with is not to be had: what it is asked to do is asked in a new one.
    fn start_afresh(&mut self, why: &str, out: &mut Vec<Effect>) {
        self.replays = None;
        let message = format!("{why}: it starts afresh, and knows nothing of what was said before");
        self.tell(AgentEvent::Problem { message }, out);
        self.new_session(out);
    }

    fn opened(&mut self, session: String, result: &Value, out: &mut Vec<Effect>) {
        if session.is_empty() {
            return self.give_up("it opened a session without a name".to_owned(), out);
        }
        self.session = Some(session.clone());
        let model = option(result, "model").and_then(|option| name_at(option, "currentValue"));
        let event = AgentEvent::Session {
            session: session.clone(),
            model,
        };
        self.tell(event, out);
        let Some(mode) = self.conversation.mode.clone() else {
            return self.begin_work(out);
        };
        let modes = at(result, "modes.availableModes").and_then(Value::as_array);
        let has_mode = modes.is_some_and(|modes| {
            modes
                .iter()
                .any(|one| name_at(one, "id").as_ref() == Some(&mode))
        });
        let choice = option(result, "mode").and_then(|option| name_at(option, "id"));
        match choice {
            _ if has_mode => {
                let params = json!({"sessionId": session, "modeId": mode});
                self.request(Asked::SetMode, "session/set_mode", params, out);
            }
            Some(choice) => {
                let params = json!({"sessionId": session, "configId": choice, "value": mode});
                self.request(Asked::SetMode, "session/set_config_option", params, out);
            }
            None => self.give_up(format!("it has no mode called {mode}"), out),
        }
    }

    fn begin_work(&mut self, out: &mut Vec<Effect>) {
        let prompt = self.conversation.prompt.clone();
        self.prompt(&prompt, out);
    }

    fn prompt(&mut self, text: &str, out: &mut Vec<Effect>) {
        let prompt = json!([{"type": "text", "text": text}]);
        let params = json!({"sessionId": self.session, "prompt": prompt});
        self.request(Asked::Prompt, "session/prompt", params, out);
    }

    fn finished(&mut self, result: &Value, out: &mut Vec<Effect>) {
        if let Some(usage) = at(result, "usage") {
            self.tell(updates::usage_of(usage), out);
        }
        // Whatever it asked before the end of its turn is of no matter any more.
        self.drop_questions(out);
        let reason = name_at(result, "stopReason").unwrap_or_default();
        match (reason.as_str(), self.said.pop_front()) {
            // However its turn ended, the operator has something else for it to do.
            (reason, Some(text)) if reason != "cancelled" => {
                if reason != "end_turn" {
                    let message = format!("its turn ended with \"{}\"", cut(reason, 200));
                    self.tell(AgentEvent::Problem { message }, out);
                }
                let waiting = u32::try_from(self.said.len()).unwrap_or(u32::MAX);
                self.tell(AgentEvent::Given { waiting }, out);
                self.prompt(&text, out);
            }
            ("end_turn", _) => {
                self.standing.ended = true;
                self.text.flush(out);
                out.push(Effect::HangUp);
            }
            ("cancelled", text) => {
                self.said.extend(text);
                self.standing.ended = true;
                self.fail(
                    AgentOutcome::Cancelled,
                    "its turn was cancelled".to_owned(),
                    out,
                );
            }
            (reason, _) => self.give_up(format!("its turn ended with \"{reason}\""), out),
        }
    }

    /// One of our requests was refused.
    fn refused(&mut self, asked: Asked, error: &Value, out: &mut Vec<Effect>) {
        let said = name_at(error, "message").unwrap_or_default();
        if asked == Asked::LoadSession {
            let why = format!("its session is not to be had ({})", cut(&said, 500));
            return self.start_afresh(&why, out);
        }
        let code = at(error, "code").and_then(Value::as_i64);
        let details = at(error, "data")
            .map(|data| format!(" ({data})"))
            .unwrap_or_default();
        let why = cut(&format!("{said}{details}"), 2_000);
        let status = at(error, "data.status").and_then(Value::as_u64);
        if is_a_limit(status) {
            let of = |names: [&str; 2]| names.into_iter().find_map(|name| at(error, name));
            let resets_at = of(["data.resetsAt", "data.resets_at"]);
            let after = of(["data.retryAfter", "data.retry_after"]);
            self.tell(limit(resets_at, after), out);
        }
        let outcome = match (code, asked) {
            (Some(LOG_IN_FIRST), _) => AgentOutcome::AuthenticationFailed,
            _ => of_refusal(status),
        };
        self.standing.ended = true;
        self.fail(outcome, why, out);
    }

    fn give_up(&mut self, why: String, out: &mut Vec<Effect>) {
        self.standing.ended = true;
        self.fail(AgentOutcome::AgentError, why, out);
    }

    /// Nothing more is to come of it: it is let go.
    fn fail(&mut self, outcome: AgentOutcome, why: String, out: &mut Vec<Effect>) {
        self.tell(
            AgentEvent::Problem {
                message: why.clone(),
            },
            out,
        );
        self.standing.failing = Some((outcome, why));
        out.push(Effect::HangUp);
    }

    /// The agent asks for permission.
    fn question(&mut self, id: Value, message: &Value, out: &mut Vec<Effect>) {
        let request = id.to_string();
        let options = at(message, "params.options").and_then(Value::as_array);
        let offered: Vec<_> = options.into_iter().flatten().collect();
        let shown = offered.iter().filter_map(|option| {
            let kind = name_at(option, "kind")?;
            let words = name_at(option, "name").unwrap_or_else(|| kind.clone());
            Some(QuestionOption {
                answer: answer_of(&kind)?,
                words: cut(&words, LONGEST_OPTION),
            })
        });
        let shown = shown.take(QUESTION_OPTIONS).collect();
        let options = offered
            .iter()
            .filter_map(|option| Some((name_at(option, "optionId")?, name_at(option, "kind")?)))
            .take(OPTIONS)
            .collect();
        let call = message
            .get("params")
            .and_then(|params| params.get("toolCall"));
        let call = call.cloned().unwrap_or(Value::Null);
        let tool = name_at(&call, "kind").or_else(|| name_at(&call, "title"));
        let tool = tool.unwrap_or_default();
        let wants = at(&call, "rawInput").or_else(|| at(&call, "title"));
        let arguments = cut(&wants.map(Value::to_string).unwrap_or_default(), PIECE);
        let asked = AgentEvent::PermissionAsked {
            request: request.clone(),
            tool: tool.clone(),
            arguments: arguments.clone(),
        };
        self.tell(asked, out);
        if self.questions.len() >= QUESTIONS
            || self.questions.contains_key(&request)
            || self.standing.interrupted
        {
            cancel(&id, out);
            return;
        }
        self.questions
            .insert(request.clone(), Question { id, options });
        out.push(Effect::Ask {
            request,
            tool,
            arguments,
            options: shown,
        });
    }

    /// The agent takes a question of its own back.
    fn taken_back(&mut self, message: &Value, out: &mut Vec<Effect>) {
        let id = at(message, "params.requestId").map(Value::to_string);
        let question = id.and_then(|id| Some((self.questions.remove(&id)?, id)));
        let Some((question, request)) = question else {
            return;
        };
        let error = json!({"code": TAKEN_BACK, "message": "taken back"});
        send(
            json!({"jsonrpc": "2.0", "id": question.id, "error": error}),
            out,
        );
        out.push(Effect::Withdraw { request });
    }

    /// Cancels every question that waits.
    fn drop_questions(&mut self, out: &mut Vec<Effect>) {
        for (request, question) in std::mem::take(&mut self.questions) {
            cancel(&question.id, out);
            out.push(Effect::Withdraw { request });
        }
    }

    /// The protocol has no place for a reason.
    fn answer(&mut self, request: &str, answer: PermissionAnswer, out: &mut Vec<Effect>) {
        let Some(question) = self.questions.remove(request) else {
            return;
        };
        // The same answer for longer, or for once, where the agent does not offer the one.
        let kinds: &[&str] = match answer {
            PermissionAnswer::AllowOnce => &["allow_once"],
            PermissionAnswer::AllowAlways => &["allow_always", "allow_once"],
            PermissionAnswer::RejectOnce => &["reject_once", "reject_always"],
            PermissionAnswer::RejectAlways => &["reject_always", "reject_once"],
        };
        let offered = |kind: &&str| question.options.iter().find(|(_, known)| known == *kind);
        let option = kinds.iter().find_map(offered);
        match option {
            Some((option, _)) => {
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
                send(
                    json!({"jsonrpc": "2.0", "id": question.id, "result": outcome}),
                    out,
                );
            }
            // It offers no such answer: nothing is allowed by that.
            None => cancel(&question.id, out),
        }
        if matches!(
            answer,
            PermissionAnswer::RejectOnce | PermissionAnswer::RejectAlways
        ) || option.is_none()
        {
            self.standing.denials = self.standing.denials.saturating_add(1);
        }
        // As it was given: an agent that does not offer "always" was told "once".
        let given = option.and_then(|(_, kind)| answer_of(kind));
        let event = AgentEvent::PermissionAnswered {
            request: request.to_owned(),
            answer: given.unwrap_or(PermissionAnswer::RejectOnce),
        };
        self.tell(event, out);
    }

    fn interrupt(&mut self, out: &mut Vec<Effect>) {
        self.standing.interrupted = true;
        self.drop_questions(out);
        if let Some(session) = &self.session {
            let params = json!({"sessionId": session});
            send(
                json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params}),
                out,
            );
        }
    }

    fn say(&mut self, by: &str, text: &str, out: &mut Vec<Effect>) {
        if self.hears() != Hearing::Hears {
            return;
        }
        let told = AgentEvent::Told {
            by: cut(by, 200),
            text: cut(text, PIECE),
        };
        self.tell(told, out);
        self.said.push_back(text.to_owned());
    }

    fn end(&mut self, process: &foreman_domain::StepResult, out: &mut Vec<Effect>) {
        if !self.said.is_empty() {
            let message = format!(
                "it ended before it was given what was said to it ({} messages)",
                self.said.len()
            );
            self.tell(AgentEvent::Problem { message }, out);
        }
        let (outcome, why) = self.standing.outcome(process);
        self.tell(AgentEvent::Ended { outcome, why }, out);
    }

    fn tell(&mut self, event: AgentEvent, out: &mut Vec<Effect>) {
        self.text.flush(out);
        out.push(Effect::Tell(event));
    }
}

impl Driver for Acp {
    fn take(&mut self, input: Input<'_>, out: &mut Vec<Effect>) {
        match input {
            Input::Begin => {
                let offers = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
                let params = json!({
                    "protocolVersion": 1,
                    "clientCapabilities": offers,
                    "clientInfo": {"name": "foreman", "version": env!("CARGO_PKG_VERSION")},
                });
                self.request(Asked::Initialize, "initialize", params, out);
            }
            Input::Line(line) => self.line(line, out),
            Input::Pause => self.text.flush(out),
            Input::Answer {
                request, answer, ..
            } => self.answer(request, answer, out),
            Input::Stalled(why) => self.standing.stalled = Some(why.to_owned()),
            Input::Interrupt => self.interrupt(out),
            Input::Say { by, text } => self.say(by, text, out),
            Input::End(process) => self.end(process, out),
        }
    }

    fn hears(&self) -> Hearing {
        match self.standing.ended || self.standing.interrupted {
            true => Hearing::Over,
            false if self.said.len() >= MESSAGES => Hearing::Full,
            false => Hearing::Hears,
        }
    }
}

/// What an option of this kind means.
fn answer_of(kind: &str) -> Option<PermissionAnswer> {
    match kind {
        "allow_once" => Some(PermissionAnswer::AllowOnce),
        "allow_always" => Some(PermissionAnswer::AllowAlways),
        "reject_once" => Some(PermissionAnswer::RejectOnce),
        "reject_always" => Some(PermissionAnswer::RejectAlways),
        _ => None,
    }
}

fn send(message: Value, out: &mut Vec<Effect>) {
    out.push(Effect::Send(message.to_string()));
}

fn cancel(id: &Value, out: &mut Vec<Effect>) {
    let outcome = json!({"outcome": {"outcome": "cancelled"}});
    send(json!({"jsonrpc": "2.0", "id": id, "result": outcome}), out);
}

/// The option of a session whose category is this.
fn option<'a>(result: &'a Value, category: &str) -> Option<&'a Value> {
    let options = at(result, "configOptions")?.as_array()?;
    options
        .iter()
        .find(|option| name_at(option, "category").as_deref() == Some(category))
}
