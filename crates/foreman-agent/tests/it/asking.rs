//! The Agent Client Protocol driver with an agent that asks, one that is resumed, and ones that misbehave.

use crate::conversation;
use foreman_agent::{Conversation, Driver, Effect, Hearing, Input, Line, Wire, driver};
use foreman_domain::{AgentEvent, AgentOutcome, PermissionAnswer, StepResult};
use serde_json::{Value, json};

struct Talk {
    driver: Box<dyn Driver>,
    out: Vec<Effect>,
}

impl Talk {
    fn begin(conversation: &Conversation) -> Self {
        let mut talk = Self {
            driver: driver(conversation),
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

    fn hears(&mut self, message: Value) -> Vec<Effect> {
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

fn initialized(talk: &mut Talk) -> Vec<Value> {
    sent(&talk.hears(json!({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}})))
}

fn in_a_prompt() -> Talk {
    let mut talk = Talk::begin(&conversation("x", Wire::Acp));
    initialized(&mut talk);
    talk.hears(json!({"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}));
    talk
}

fn question(id: Value, kinds: &[&str]) -> Value {
    let options: Vec<_> = kinds
        .iter()
        .map(|kind| json!({"optionId": format!("o-{kind}"), "kind": kind, "name": kind}))
        .collect();
    json!({"jsonrpc":"2.0","id":id,"method":"session/request_permission","params":{"sessionId":"s1",
        "toolCall":{"toolCallId":"c1","kind":"execute","rawInput":{"command":"rm x"}},"options":options}})
}

#[test]
fn a_real_agent_that_asks_is_answered_and_gets_no_file_system() {
    let recording = include_str!("../../recordings/opencode-asks.jsonl");
    let mut talk = Talk::begin(&conversation("opencode", Wire::Acp));
    let (mut asked, mut refused) = (0, 0);
    for line in recording.lines() {
        let effects = talk.take(Input::Line(Line::Whole(line.as_bytes())));
        refused += sent(&effects)
            .iter()
            .filter(|message| message["error"]["code"] == -32601)
            .count();
        for effect in effects {
            if let Effect::Ask { request, .. } = effect {
                asked += 1;
                let answer = PermissionAnswer::AllowOnce;
                let answers = sent(&talk.take(Input::Answer {
                    request: &request,
                    answer,
                    reason: "",
                }));
                assert_eq!(answers[0]["result"]["outcome"]["optionId"], "once");
            }
        }
    }
    assert_eq!(
        (asked, refused),
        (3, 1),
        "three questions, and a call of fs/write_text_file"
    );
    assert_eq!(talk.outcome().0, AgentOutcome::Completed);
}

#[test]
fn neither_files_nor_terminals_are_offered_and_the_mode_is_set_before_the_prompt() {
    let with_mode = Conversation {
        mode: Some("build".into()),
        ..conversation("x", Wire::Acp)
    };
    let mut talk = Talk::begin(&with_mode);
    let first = sent(&talk.out)[0].clone();
    assert_eq!(first["params"]["protocolVersion"], 1);
    let offers = json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
    assert_eq!(first["params"]["clientCapabilities"], offers);
    assert_eq!(initialized(&mut talk)[0]["method"], "session/new");
    let modes = json!({"currentModeId":"plan","availableModes":[{"id":"plan","name":"p"},{"id":"build","name":"b"}]});
    let next = sent(
        &talk.hears(json!({"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","modes":modes}})),
    );
    assert_eq!(
        (&next[0]["method"], &next[0]["params"]["modeId"]),
        (&json!("session/set_mode"), &json!("build"))
    );
    let next = sent(&talk.hears(json!({"jsonrpc":"2.0","id":3,"result":{}})));
    assert_eq!(next[0]["method"], "session/prompt");

    // A mode that it does not have is not gone on without.
    let mut talk = Talk::begin(&with_mode);
    initialized(&mut talk);
    let effects = talk.hears(json!({"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1"}}));
    assert_eq!(effects.last(), Some(&Effect::HangUp));
    assert!(sent(&effects).is_empty());
    assert_eq!(talk.outcome().0, AgentOutcome::AgentError);
}

#[test]
fn answers_go_back_as_the_option_of_their_kind_and_never_as_a_wider_permission() {
    use PermissionAnswer::{AllowAlways, AllowOnce, RejectAlways, RejectOnce};
    let all = ["allow_once", "allow_always", "reject_once", "reject_always"];
    for (offered, answer, option) in [
        (&all[..], AllowOnce, json!("o-allow_once")),
        (&all[..], AllowAlways, json!("o-allow_always")),
        (&all[..], RejectOnce, json!("o-reject_once")),
        (&all[..], RejectAlways, json!("o-reject_always")),
        (&["allow_always"][..], AllowOnce, Value::Null),
        (&["allow_once"][..], AllowAlways, json!("o-allow_once")),
        (&["allow_once"][..], RejectOnce, Value::Null),
        (&["reject_once"][..], RejectAlways, json!("o-reject_once")),
    ] {
        let mut talk = in_a_prompt();
        talk.hears(question(json!("q"), offered));
        let request = "\"q\"";
        let answers = sent(&talk.take(Input::Answer {
            request,
            answer,
            reason: "",
        }));
        assert_eq!(answers[0]["id"], "q");
        assert_eq!(
            answers[0]["result"]["outcome"]["optionId"], option,
            "{offered:?} {answer:?}"
        );
        assert!(
            talk.take(Input::Answer {
                request,
                answer,
                reason: "",
            })
            .is_empty(),
            "answered once"
        );
    }
}

#[test]
fn a_rejected_action_makes_the_end_no_plain_success() {
    let mut talk = in_a_prompt();
    talk.hears(question(json!(0), &["allow_once", "reject_once"]));
    talk.take(Input::Answer {
        request: "0",
        answer: PermissionAnswer::RejectOnce,
        reason: "",
    });
    talk.hears(json!({"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}));
    assert_eq!(talk.outcome().0, AgentOutcome::CompletedWithDenials);
}

#[test]
fn what_is_offered_is_asked_and_the_answer_is_told_as_it_was_given() {
    let mut talk = in_a_prompt();
    let effects = talk.hears(question(
        json!("q"),
        &["allow_once", "reject_once", "new_kind"],
    ));
    let Some(Effect::Ask { options, .. }) = effects.last() else {
        panic!("{effects:?}")
    };
    let answers: Vec<_> = options.iter().map(|option| option.answer).collect();
    let known = [PermissionAnswer::AllowOnce, PermissionAnswer::RejectOnce];
    assert_eq!(answers, known);
    let effects = talk.take(Input::Answer {
        request: "\"q\"",
        answer: PermissionAnswer::AllowAlways,
        reason: "",
    });
    assert!(
        effects.contains(&Effect::Tell(AgentEvent::PermissionAnswered {
            request: "\"q\"".into(),
            answer: PermissionAnswer::AllowOnce,
        }))
    );
}

#[test]
fn a_question_that_is_taken_back_or_left_behind_needs_no_answer() {
    let withdrawn = |effects: &[Effect]| -> Vec<String> {
        effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Withdraw { request } => Some(request.clone()),
                _ => None,
            })
            .collect()
    };
    let mut talk = in_a_prompt();
    talk.hears(question(json!(7), &["allow_once"]));
    talk.hears(question(json!("b"), &["allow_once"]));
    let effects =
        talk.hears(json!({"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}));
    assert_eq!(withdrawn(&effects), ["7"]);
    assert_eq!(sent(&effects)[0]["error"]["code"], -32800);
    let late = Input::Answer {
        request: "7",
        answer: PermissionAnswer::AllowOnce,
        reason: "",
    };
    assert!(talk.take(late).is_empty(), "it was taken back");
    let effects = talk.hears(json!({"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}));
    assert_eq!(withdrawn(&effects), ["\"b\""]);
    assert_eq!(talk.outcome().0, AgentOutcome::Completed);
}

#[test]
fn a_model_without_progress_is_the_outcome_of_the_session_that_is_cancelled_for_it() {
    let mut talk = in_a_prompt();
    talk.take(Input::Stalled("its model made no progress for 10 min"));
    assert_eq!(
        sent(&talk.take(Input::Interrupt))[0]["method"],
        "session/cancel"
    );
    talk.hears(json!({"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}));
    let (outcome, why) = talk.outcome();
    assert_eq!(outcome, AgentOutcome::ModelUnreachable);
    assert!(why.contains("no progress"), "{why}");
}

#[test]
fn an_interrupt_cancels_the_session_and_every_question_that_waits() {
    let mut talk = in_a_prompt();
    talk.hears(question(json!(7), &["allow_once"]));
    let effects = sent(&talk.take(Input::Interrupt));
    assert_eq!(
        effects[0],
        json!({"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}})
    );
    assert_eq!(effects[1]["method"], "session/cancel");
    let effects = talk.hears(json!({"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}));
    assert_eq!(effects.last(), Some(&Effect::HangUp));
    assert_eq!(talk.outcome().0, AgentOutcome::Cancelled);
}

#[test]
fn a_session_is_gone_on_with_and_its_past_is_no_news() {
    let resumed = Conversation {
        resume: Some("s9".into()),
        ..conversation("x", Wire::Acp)
    };
    let mut talk = Talk::begin(&resumed);
    let load = initialized(&mut talk);
    assert_eq!(
        (&load[0]["method"], &load[0]["params"]["sessionId"]),
        (&json!("session/load"), &json!("s9"))
    );
    let past = json!({"jsonrpc":"2.0","method":"session/update","params":{"update":
        {"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"old"}}}});
    assert!(talk.hears(past).is_empty());
    let next = talk.hears(json!({"jsonrpc":"2.0","id":2,"result":{}}));
    assert_eq!(sent(&next)[0]["method"], "session/prompt");
    assert_eq!(
        next[0],
        Effect::Tell(AgentEvent::Replayed { updates: 1 }),
        "it is told that there was a past"
    );
    assert!(
        matches!(&next[1], Effect::Tell(AgentEvent::Session { session, .. }) if session == "s9")
    );
}

#[test]
fn a_session_that_is_not_to_be_had_is_replaced_by_a_new_one_and_that_is_told() {
    let resumed = Conversation {
        resume: Some("s9".into()),
        ..conversation("x", Wire::Acp)
    };
    let without =
        json!({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}});
    let refused =
        json!({"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such session"}});
    for (first, is_refused) in [(without, false), (Value::Null, true)] {
        let mut talk = Talk::begin(&resumed);
        let effects = match is_refused {
            false => talk.hears(first),
            true => {
                initialized(&mut talk);
                talk.hears(refused.clone())
            }
        };
        assert!(
            matches!(&effects[0], Effect::Tell(AgentEvent::Problem { message }) if message.contains("afresh")),
            "{effects:?}"
        );
        assert_eq!(sent(&effects)[0]["method"], "session/new");
        let id = sent(&effects)[0]["id"].clone();
        let next = talk.hears(json!({"jsonrpc":"2.0","id":id,"result":{"sessionId":"s10"}}));
        assert_eq!(sent(&next)[0]["method"], "session/prompt");
    }
}

#[test]
fn what_is_said_is_the_prompt_of_the_next_turn_and_the_run_does_not_end_before() {
    let mut talk = in_a_prompt();
    assert_eq!(talk.driver.hears(), Hearing::Hears);
    let by = "op";
    let told = talk.take(Input::Say { by, text: "second" });
    let wanted = AgentEvent::Told {
        by: by.into(),
        text: "second".into(),
    };
    assert_eq!(told, [Effect::Tell(wanted)]);
    talk.take(Input::Say { by, text: "third" });
    let end = |id: u64| json!({"jsonrpc":"2.0","id":id,"result":{"stopReason":"end_turn"}});
    for (id, text, waiting) in [(3, "second", 1), (4, "third", 0)] {
        let next = talk.hears(end(id));
        assert_eq!(next[0], Effect::Tell(AgentEvent::Given { waiting }));
        assert_eq!(sent(&next)[0]["params"]["prompt"][0]["text"], text);
        assert!(!next.contains(&Effect::HangUp));
    }
    // Also after a turn that did not end well: the operator may say what else to do.
    talk.take(Input::Say { by, text: "fourth" });
    let refusal = json!({"jsonrpc":"2.0","id":5,"result":{"stopReason":"max_tokens"}});
    let next = talk.hears(refusal);
    assert!(
        matches!(&next[0], Effect::Tell(AgentEvent::Problem { message }) if message.contains("max_tokens"))
    );
    assert_eq!(sent(&next)[0]["params"]["prompt"][0]["text"], "fourth");
    assert!(talk.hears(end(6)).contains(&Effect::HangUp));
    assert_eq!(talk.driver.hears(), Hearing::Over);
    assert_eq!(talk.take(Input::Say { by, text: "late" }), []);
    assert_eq!(talk.outcome().0, AgentOutcome::Completed);
}

#[test]
fn what_was_not_given_is_told_as_lost_and_waiting_is_bounded() {
    let mut talk = in_a_prompt();
    for number in 0..40 {
        let text = number.to_string();
        talk.take(Input::Say {
            by: "op",
            text: &text,
        });
    }
    assert_eq!(talk.driver.hears(), Hearing::Full);
    let end = StepResult::Signalled { signal: 9 };
    let told = talk.take(Input::End(&end));
    assert!(
        matches!(&told[0], Effect::Tell(AgentEvent::Problem { message }) if message.contains("32 messages")),
        "{told:?}"
    );
}

#[test]
fn a_providers_limit_is_told_from_typed_fields_only() {
    let limit = |data: Value, message: &str| {
        let mut talk = in_a_prompt();
        let error = json!({"code":-32603,"message":message,"data":data});
        let told = talk.hears(json!({"jsonrpc":"2.0","id":3,"error":error}));
        told.into_iter().find_map(|effect| match effect {
            Effect::Tell(AgentEvent::Limited {
                resets_at,
                after_seconds,
            }) => Some((resets_at.map(|at| at.as_millis()), after_seconds)),
            _ => None,
        })
    };
    let none = Some((None, None));
    assert_eq!(limit(json!({"status":429}), "x"), none);
    let at = Some((Some(1_800_000_000_000), None));
    assert_eq!(
        limit(json!({"status":429,"resetsAt":1_800_000_000}), "x"),
        at
    );
    assert_eq!(
        limit(
            json!({"status":429,"resets_at":"2027-01-15T08:00:00Z"}),
            "x"
        ),
        at
    );
    let after = Some((None, Some(30)));
    assert_eq!(limit(json!({"status":429,"retryAfter":30}), "x"), after);
    assert_eq!(limit(json!({"status":429,"retry_after":"30"}), "x"), after);
    assert_eq!(
        limit(
            json!({"status":429,"retryAfter":"in a while","resetsAt":-1}),
            "x"
        ),
        none
    );
    // What a text says is nothing.
    let said = "429 Too Many Requests: your limit resets at 2027-01-15T08:00:00Z";
    assert_eq!(limit(json!({"status":500}), said), None);
    assert_eq!(limit(json!({"note":said}), said), None);
}

#[test]
fn refusals_and_strange_stop_reasons_are_no_success() {
    for (answer, outcome) in [
        (
            json!({"error":{"code":-32000,"message":"Authentication required"}}),
            AgentOutcome::AuthenticationFailed,
        ),
        (
            json!({"error":{"code":-32603,"message":"x","data":{"status":503}}}),
            AgentOutcome::ModelUnreachable,
        ),
        (
            json!({"error":{"code":-32603,"message":"x"}}),
            AgentOutcome::AgentError,
        ),
        (
            json!({"result":{"stopReason":"refusal"}}),
            AgentOutcome::AgentError,
        ),
        (
            json!({"result":{"stopReason":"never heard of"}}),
            AgentOutcome::AgentError,
        ),
        (json!({"result":{}}), AgentOutcome::AgentError),
    ] {
        let mut talk = in_a_prompt();
        let mut message = answer.clone();
        message["jsonrpc"] = json!("2.0");
        message["id"] = json!(3);
        let effects = talk.hears(message);
        assert_eq!(effects.last(), Some(&Effect::HangUp), "{answer}");
        assert_eq!(talk.outcome().0, outcome, "{answer}");
    }
}
