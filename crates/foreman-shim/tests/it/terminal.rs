//! A step with a terminal.

use crate::stage::{Stage, says, step};
use foreman_domain::{EventKind, LogStream, StepKind, StepResult};
use foreman_shim::client::ClientError;
use foreman_shim::protocol::Stdio;
use foreman_shim::wire::Refusal;

#[tokio::test]
async fn keys_and_sizes_reach_a_program_on_a_terminal() {
    let mut stage = Stage::new(vec![step(
        StepKind::Agent,
        "stty size; echo ready; read line; echo \"got $line\"; stty size; test -t 0 && test -t 1",
    )]);
    stage.spec.steps[0].stdio = Stdio::Terminal {
        columns: 90,
        rows: 30,
    };
    let mut running = stage.start().await;
    running.until("readiness", says("ready")).await;
    running.client.resize(120, 40).await.unwrap();
    running
        .client
        .input("häll\u{f6}\n".as_bytes())
        .await
        .unwrap();
    let ended = running.end().await;
    assert_eq!(
        ended.record.steps[0].2,
        StepResult::Succeeded,
        "{}",
        ended.output()
    );
    let mut seen = String::new();
    for event in &ended.events {
        if let EventKind::Output { stream, text, .. } = &event.kind {
            assert_eq!(*stream, LogStream::Terminal);
            seen.push_str(text);
        }
    }
    assert!(seen.contains("30 90\r\n"), "{seen:?}");
    assert!(seen.contains("got häll\u{f6}\r\n"), "{seen:?}");
    assert!(seen.contains("40 120\r\n"), "{seen:?}");
}

#[tokio::test]
async fn keys_for_a_step_without_a_terminal_are_refused() {
    let mut running = Stage::agent("echo up; sleep 600").start().await;
    running.until("the agent's word", says("up")).await;
    let error = running.client.input(b"x").await.unwrap_err();
    assert!(
        matches!(
            error,
            ClientError::Refused {
                reason: Refusal::NoTerminal,
                ..
            }
        ),
        "{error}"
    );
    running.client.stop(0).await.unwrap();
    running.end().await;
}
