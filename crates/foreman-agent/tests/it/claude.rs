//! The driver of Claude Code: what it asks, how it is answered, and how it ended whatever it calls a success.

use crate::of;
use foreman_agent::conformance::Candidate;
use foreman_agent::{Driver, Effect, Input, Line};
use foreman_domain::{AgentEvent, AgentOutcome, PermissionAnswer, StepResult};
use serde_json::{Value, json};

struct Talk {
    driver: Box<dyn Driver>,
    out: Vec<Effect>,
}

impl Talk {
    fn begin() -> Self {
        let mut talk = Self {
            driver: of("claude", b"").driver(),
            out: Vec::new(),
        };
        talk.take(Input::Begin);
        talk
    }

    fn take(&mut self, input: Input<'_>) -> Vec<Effect> {
        let before = self.out.len();
        self.driver.take(input, &mut self.out);
        self.out[before..].to_vec()
    }

    fn hears(&mut self, message: &Value) -> Vec<Effect> {
        let line = message.to_string();
        self.take(Input::Line(Line::Whole(line.as_bytes())))
    }

    fn outcome(mut self) -> (AgentOutcome, String) {
        match self.take(Input::End(&StepResult::Succeeded)).pop() {
            Some(Effect::Tell(AgentEvent::Ended { outcome, why })) => (outcome, why),
            other => panic!("{other:?}"),
        }
    }
}

fn sent(effects: &[Effect]) -> Vec<Value> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(line) => Some(serde_json::from_str(line).unwrap()),
            _ => None,
        })
        .collect()
}

fn question(request: &str, command: &str) -> Value {
    json!({"type": "control_request", "request_id": request, "request": {
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command, "timeout": 5},
        "decision_reason": "x", "permission_suggestions": []}})
}

fn answer<'a>(request: &'a str, answer: PermissionAnswer, reason: &'a str) -> Input<'a> {
    Input::Answer {
        request,
        answer,
        reason,
    }
}

fn result(changes: Value) -> Value {
    let mut result = json!({"type": "result", "subtype": "success", "is_error": false, "result": "done",
        "usage": {"input_tokens": 1, "output_tokens": 1}, "permission_denials": []});
    let Value::Object(changes) = changes else {
        panic!("no object")
    };
    for (key, value) in changes {
        result[key] = value;
    }
    result
}

#[test]
fn it_is_prompted_by_a_message_and_let_go_after_its_result() {
    let mut talk = Talk::begin();
    let first = sent(&talk.out)[0].clone();
    assert_eq!(first["type"], "user");
    assert_eq!(first["message"]["content"][0]["text"], "do the job");
    let effects = talk.hears(&result(json!({})));
    assert_eq!(effects.last(), Some(&Effect::HangUp));
    assert_eq!(talk.outcome().0, AgentOutcome::Completed);
}

#[test]
fn a_yes_gives_the_arguments_back_as_they_came() {
    let mut talk = Talk::begin();
    let effects = talk.hears(&question("r1", "rm x"));
    assert!(matches!(
        effects.as_slice(),
        [
            Effect::Tell(AgentEvent::PermissionAsked { .. }),
            Effect::Ask { tool, .. }
        ] if tool == "Bash"
    ));
    let effects = talk.take(answer("r1", PermissionAnswer::AllowAlways, ""));
    let response = &sent(&effects)[0]["response"];
    assert_eq!(response["request_id"], "r1");
    let allow = json!({"behavior": "allow", "updatedInput": {"command": "rm x", "timeout": 5}});
    assert_eq!(response["response"], allow);
    let again = talk.take(answer("r1", PermissionAnswer::RejectOnce, ""));
    assert!(again.is_empty(), "answered once");
    talk.hears(&result(json!({})));
    assert_eq!(talk.outcome().0, AgentOutcome::Completed);
}

#[test]
fn a_no_says_why_and_makes_the_end_no_plain_success() {
    let mut talk = Talk::begin();
    for (request, reason) in [("r1", "use make"), ("r2", "")] {
        talk.hears(&question(request, "rm x"));
        let effects = talk.take(answer(request, PermissionAnswer::RejectOnce, reason));
        let deny = &sent(&effects)[0]["response"]["response"];
        assert_eq!(deny["behavior"], "deny");
        assert_eq!(deny["interrupt"], false);
        let message = deny["message"].as_str().unwrap();
        assert!(!message.is_empty() && message.contains(reason), "{message}");
    }
    // They are in its own list, too, and are counted once.
    talk.hears(&result(
        json!({"permission_denials": [{"tool_name": "Bash"}, {"tool_name": "Bash"}]}),
    ));
    let (outcome, why) = talk.outcome();
    assert_eq!(outcome, AgentOutcome::CompletedWithDenials);
    assert!(why.starts_with("2 of"), "{why}");
}

#[test]
fn denials_by_its_own_rules_are_no_plain_success() {
    let mut talk = Talk::begin();
    talk.hears(&result(
        json!({"permission_denials": [{"tool_name": "Bash"}]}),
    ));
    assert_eq!(talk.outcome().0, AgentOutcome::CompletedWithDenials);
}

#[test]
fn a_secret_in_its_arguments_is_never_repeated_and_nobody_is_asked() {
    let mut talk = Talk::begin();
    let effects = talk.hears(&question("r1", "curl -H 'key: ‹secret KEY›' x"));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Ask { .. }))
    );
    let deny = &sent(&effects)[0]["response"]["response"];
    assert_eq!(deny["behavior"], "deny");
}

#[test]
fn one_that_takes_its_question_back_or_asks_something_else_is_answered() {
    let mut talk = Talk::begin();
    talk.hears(&question("r1", "ls"));
    let effects = talk.hears(&json!({"type": "control_cancel_request", "request_id": "r1"}));
    assert_eq!(
        effects,
        [Effect::Withdraw {
            request: "r1".into()
        }]
    );
    let other = json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "hook_callback"}});
    let effects = talk.hears(&other);
    assert_eq!(sent(&effects)[0]["response"]["subtype"], "error");
    assert!(
        matches!(&effects[0], Effect::Tell(AgentEvent::Unknown { name }) if name.ends_with("hook_callback"))
    );
}

#[test]
fn an_interrupt_denies_what_waits_and_asks_it_to_stop() {
    let mut talk = Talk::begin();
    talk.hears(&question("r1", "sleep 9"));
    let effects = talk.take(Input::Interrupt);
    let messages = sent(&effects);
    assert_eq!(messages[0]["response"]["response"]["interrupt"], true);
    assert_eq!(messages[1]["request"]["subtype"], "interrupt");
    let interrupted = json!({"subtype": "error_during_execution", "is_error": true});
    let effects = talk.hears(&result(interrupted));
    assert_eq!(effects.last(), Some(&Effect::HangUp));
    assert_eq!(talk.outcome().0, AgentOutcome::Cancelled);
}

#[test]
fn what_it_calls_a_success_is_judged_by_all_of_its_last_message() {
    for (changes, wanted) in [
        (
            json!({"is_error": true, "result": "API Error: Connection error."}),
            AgentOutcome::ModelUnreachable,
        ),
        (
            json!({"is_error": true, "api_error_status": 401}),
            AgentOutcome::AuthenticationFailed,
        ),
        (
            json!({"is_error": true, "api_error_status": 529}),
            AgentOutcome::ModelUnreachable,
        ),
        (
            json!({"subtype": "error_max_turns"}),
            AgentOutcome::AgentError,
        ),
        (
            json!({"subtype": "error_during_execution", "is_error": true}),
            AgentOutcome::AgentError,
        ),
    ] {
        let mut talk = Talk::begin();
        talk.hears(&result(changes.clone()));
        assert_eq!(talk.outcome().0, wanted, "{changes}");
    }
    // Its tries are told, and are no failure of their own.
    let mut talk = Talk::begin();
    let retry =
        json!({"type": "system", "subtype": "api_retry", "attempt": 2, "error_status": 503});
    let effects = talk.hears(&retry);
    let told = AgentEvent::Retry {
        attempt: Some(2),
        why: "503".into(),
    };
    assert_eq!(effects, [Effect::Tell(told)]);
    talk.hears(&result(json!({})));
    assert_eq!(talk.outcome().0, AgentOutcome::Completed);
}
