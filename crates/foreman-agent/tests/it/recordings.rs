//! What real agents printed, told as it should be.

use crate::of;
use foreman_agent::conformance::Candidate;
use foreman_agent::{Effect, Input, Line};
use foreman_domain::{AgentEvent, AgentOutcome, StepResult};

fn told(candidate: &dyn Candidate) -> Vec<AgentEvent> {
    let mut driver = candidate.driver();
    let mut out = Vec::new();
    driver.take(Input::Begin, &mut out);
    for line in candidate.recording().split(|byte| *byte == b'\n') {
        driver.take(Input::Line(Line::Whole(line)), &mut out);
    }
    driver.take(Input::End(&StepResult::Succeeded), &mut out);
    out.into_iter()
        .filter_map(|effect| match effect {
            Effect::Tell(event) => Some(event),
            _ => None,
        })
        .collect()
}

fn messages(events: &[AgentEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Message { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn the_job_is_told_alike_by_all_agents() {
    for candidate in [
        of(
            "gemini",
            include_bytes!("../../recordings/gemini-hello-then-curl.jsonl"),
        ),
        of(
            "qwen",
            include_bytes!("../../recordings/qwen-hello-then-curl.jsonl"),
        ),
        of(
            "pi",
            include_bytes!("../../recordings/pi-hello-then-curl.jsonl"),
        ),
        of(
            "codex",
            include_bytes!("../../recordings/codex-hello-then-curl.jsonl"),
        ),
        of(
            "opencode",
            include_bytes!("../../recordings/opencode-hello-then-curl.jsonl"),
        ),
    ] {
        let agent = &candidate.conversation.agent;
        let events = told(&candidate);
        let said = [
            "I will create the file.",
            "Now I fetch a page.",
            "Done: hello.txt is written and the page was tried.",
        ];
        assert_eq!(messages(&events), said, "{agent}");
        let curl = events.iter().find_map(|event| match event {
            AgentEvent::ToolStarted {
                call, arguments, ..
            } if arguments.contains("curl") => Some(call),
            _ => None,
        });
        let curl = curl.expect("the call of curl");
        let result = events.iter().find_map(|event| match event {
            AgentEvent::ToolEnded {
                call,
                result,
                failed,
                ..
            } if call == curl => Some((result, *failed)),
            _ => None,
        });
        let (result, failed) = result.expect("its result");
        assert!(
            result.contains("curl-exit=6") && !failed,
            "{agent}: {result}"
        );
        let has_edit = events.iter().any(
            |event| matches!(event, AgentEvent::Edit { file, .. } if file.ends_with("hello.txt")),
        );
        // codex writes its files by the shell.
        assert_eq!(has_edit, agent != "codex", "{agent}");
    }
}

#[test]
fn tokens_are_not_counted_twice() {
    let total = |agent: &str, recording: &'static [u8]| {
        let events = told(&of(agent, recording));
        events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::Usage {
                    input,
                    output,
                    cached,
                    ..
                } => Some((*input, *output, *cached)),
                _ => None,
            })
            .fold((0, 0, 0), |sum, one| {
                (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2)
            })
    };
    let codex = total(
        "codex",
        include_bytes!("../../recordings/codex-hello-then-curl.jsonl"),
    );
    assert_eq!(codex, (32_883 - 1_000, 99, 1_000));
    let (_, output, cached) = total(
        "pi",
        include_bytes!("../../recordings/pi-hello-then-curl.jsonl"),
    );
    assert_eq!((output > 0, cached), (true, 1_000));
}

#[test]
fn a_model_that_refuses_is_no_success_although_pi_ends_with_code_0() {
    let events = told(&of(
        "pi",
        include_bytes!("../../recordings/pi-bad-request.jsonl"),
    ));
    let Some(AgentEvent::Ended { outcome, why }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(*outcome, AgentOutcome::AgentError);
    assert!(why.contains("no scenario named"), "{why}");
}

#[test]
fn gemini_and_qwen_that_were_refused_say_why() {
    for (agent, recording) in [
        (
            "gemini",
            &include_bytes!("../../recordings/gemini-bad-request.jsonl")[..],
        ),
        (
            "qwen",
            &include_bytes!("../../recordings/qwen-bad-request.jsonl")[..],
        ),
    ] {
        let events = told(&of(agent, recording));
        let Some(AgentEvent::Ended { outcome, why }) = events.last() else {
            panic!("{events:?}")
        };
        assert_eq!(*outcome, AgentOutcome::AgentError, "{agent}");
        assert!(why.contains("no scenario named"), "{agent}: {why}");
    }
}
