//! Shells beside the agent, in its cage.

use crate::stage::{PATIENCE, Running, Stage, says, step};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{Event, EventKind, LogStream, ShellId, StepKind, StepResult};
use foreman_shim::client::{ClientError, ShellRequest, ShimClient};
use foreman_shim::wire::Refusal;
use std::time::Instant;

const AGENT: &str = "echo up; while [ ! -e stop ]; do sleep 0.05; done";

fn asked(script: &str) -> ShellRequest {
    ShellRequest {
        shell: ShellId::from_random(rand::random()),
        by: "operator".into(),
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![],
        terminal: None,
    }
}

fn reason(error: &ClientError) -> Option<Refusal> {
    match error {
        ClientError::Refused { reason, .. } => Some(*reason),
        _ => None,
    }
}

async fn agent_at_work() -> Running {
    let mut running = Stage::agent(AGENT).start().await;
    running.until("the agent's word", says("up")).await;
    running
}

/// Lets the agent end.
async fn let_go(running: &Running) {
    std::fs::write(running.stage.worktree().join("stop"), "").unwrap();
}

/// Reads a shell to its end: standard output, standard error, how it ended.
async fn read_out(client: &ShimClient, shell: &ShellId) -> (String, String, StepResult) {
    let (mut out, mut errors, mut have) = (Vec::new(), Vec::new(), 0);
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the shell did not end");
        let page = client.read_shell(shell, have, 2_000).await.unwrap();
        for chunk in &page.chunks {
            let bytes = STANDARD.decode(&chunk.bytes).unwrap();
            match chunk.stream {
                LogStream::Stderr => errors.extend(bytes),
                LogStream::Stdout | LogStream::Terminal | LogStream::Received | LogStream::Sent => {
                    out.extend(bytes)
                }
            }
        }
        have += page.chunks.len() as u64;
        if let Some(result) = page.ended {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            return (text(out), text(errors), result);
        }
    }
}

fn shell_events(events: &[Event]) -> Vec<&EventKind> {
    let is_shells = |kind: &&EventKind| {
        matches!(
            kind,
            EventKind::ShellOpened { .. } | EventKind::ShellEnded { .. }
        )
    };
    events
        .iter()
        .map(|event| &event.kind)
        .filter(is_shells)
        .collect()
}

#[tokio::test]
async fn a_shell_runs_beside_the_agent_and_its_end_ends_only_itself() {
    let running = agent_at_work().await;
    let shell = asked("pwd; id -u >&2; ls /proc | grep -c '^[0-9]'; exit 7");
    running.client.open_shell(shell.clone()).await.unwrap();
    // Asking again with the same id opens no second one.
    running.client.open_shell(shell.clone()).await.unwrap();
    let (out, errors, result) = read_out(&running.client, &shell.shell).await;
    assert!(out.starts_with("/home/agent/worktree\n"), "{out}");
    assert!(errors.trim().parse::<u32>().is_ok(), "{errors}");
    assert_eq!(result, StepResult::Exited { code: 7 });
    let_go(&running).await;
    let ended = running.end().await;
    assert_eq!(ended.record.steps[0].2, StepResult::Succeeded);
    assert_eq!(ended.output(), "up\n", "a shell's output is not the run's");
    let told = shell_events(&ended.events);
    let [
        EventKind::ShellOpened {
            by, argv, terminal, ..
        },
        EventKind::ShellEnded { result, .. },
    ] = told.as_slice()
    else {
        panic!("{told:?}");
    };
    assert_eq!((by.as_str(), *terminal), ("operator", false));
    assert_eq!(*argv, shell.argv);
    assert_eq!(*result, StepResult::Exited { code: 7 });
}

#[tokio::test]
async fn a_shell_on_a_terminal_takes_keys_once_and_sizes() {
    let running = agent_at_work().await;
    let mut shell = asked("stty size; read line; echo \"got $line\"; stty size");
    shell.terminal = Some((90, 30));
    running.client.open_shell(shell.clone()).await.unwrap();
    let id = &shell.shell;
    let typed = running.client.type_in_shell(id, 1, b"x").await.unwrap_err();
    assert_eq!(reason(&typed), Some(Refusal::Stale), "a hole is refused");
    running.client.resize_shell(id, 120, 40).await.unwrap();
    running.client.type_in_shell(id, 0, b"abc").await.unwrap();
    // As after a connection that broke: what arrived is not typed again.
    running
        .client
        .type_in_shell(id, 0, b"abcdef")
        .await
        .unwrap();
    running.client.type_in_shell(id, 6, b"\r").await.unwrap();
    let (out, _, result) = read_out(&running.client, id).await;
    assert!(out.contains("got abcdef\r\n"), "{out:?}");
    assert!(out.contains("40 120\r\n"), "{out:?}");
    assert_eq!(result, StepResult::Succeeded);
    let_go(&running).await;
    running.end().await;
}

#[tokio::test]
async fn a_shell_dies_with_what_the_agent_started_before_anything_is_collected() {
    let mut stage = Stage::new(vec![
        step(StepKind::Agent, AGENT),
        // The step's shell counts by itself: what it would start for that could be there or not.
        step(
            StepKind::Finish,
            "n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; echo $n; sleep 1",
        ),
    ]);
    stage.is_quiet = true;
    let mut running = stage.start().await;
    running.until("the agent's word", says("up")).await;
    let shell = asked("trap '' HUP TERM INT; echo in; sleep 600; echo never");
    running.client.open_shell(shell.clone()).await.unwrap();
    let page = running.client.read_shell(&shell.shell, 0, 20_000).await;
    assert_eq!(page.unwrap().chunks.len(), 1);
    let_go(&running).await;
    let (out, _, result) = read_out(&running.client, &shell.shell).await;
    assert_eq!(out, "in\n");
    assert_eq!(result, StepResult::Signalled { signal: 9 });
    let refused = running.client.open_shell(asked("true")).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Refusal::NoStep), "{refused}");
    let ended = running.end().await;
    // Process 1 and the step's shell.
    assert!(ended.output().contains("up\n2\n"), "{}", ended.output());
    assert_eq!(shell_events(&ended.events).len(), 2);
}

#[tokio::test]
async fn a_stop_ends_the_shell_too_and_no_other_can_be_opened() {
    let running = agent_at_work().await;
    let shell = asked("sleep 600");
    running.client.open_shell(shell.clone()).await.unwrap();
    running.client.stop(0).await.unwrap();
    let (_, _, result) = read_out(&running.client, &shell.shell).await;
    assert_eq!(result, StepResult::Signalled { signal: 9 });
    let ended = running.end().await;
    assert!(ended.record.killed >= 1);
}

#[tokio::test]
async fn a_shell_that_is_asked_to_end_ends_and_the_agent_goes_on() {
    let running = agent_at_work().await;
    let shell = asked("trap '' HUP; echo in; while :; do sleep 1; done");
    running.client.open_shell(shell.clone()).await.unwrap();
    running.client.end_shell(&shell.shell).await.unwrap();
    let (_, _, result) = read_out(&running.client, &shell.shell).await;
    assert!(matches!(result, StepResult::Signalled { .. }), "{result:?}");
    let_go(&running).await;
    let ended = running.end().await;
    assert_eq!(ended.record.steps[0].2, StepResult::Succeeded);
}

#[tokio::test]
async fn much_output_arrives_whole_whatever_breaks_in_between() {
    let running = agent_at_work().await;
    let shell = asked("i=0; while [ $i -lt 60000 ]; do echo line-$i; i=$((i+1)); done");
    running.client.open_shell(shell.clone()).await.unwrap();
    let mut out = Vec::new();
    let (mut have, mut turns) = (0, 0);
    let result = loop {
        // Every page over a connection of its own, and asked for twice.
        let (client, _) =
            ShimClient::connect(&running.stage.spec.files.socket, running.stage.hello(1))
                .await
                .unwrap();
        let lost = client.read_shell(&shell.shell, have, 5_000).await.unwrap();
        let page = client.read_shell(&shell.shell, have, 5_000).await.unwrap();
        assert!(page.chunks.starts_with(&lost.chunks));
        for chunk in &page.chunks {
            out.extend(STANDARD.decode(&chunk.bytes).unwrap());
        }
        have += page.chunks.len() as u64;
        turns += 1;
        if let Some(result) = page.ended {
            break result;
        }
        assert!(turns < 10_000);
    };
    assert_eq!(result, StepResult::Succeeded);
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.lines()
            .enumerate()
            .all(|(index, line)| line == format!("line-{index}"))
    );
    assert_eq!(text.lines().count(), 60_000);
    let_go(&running).await;
    running.end().await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_refused_and_recorded() {
    let running = agent_at_work().await;
    let mut shell = asked("");
    shell.argv = vec!["no-such-program".into()];
    let refused = running.client.open_shell(shell).await.unwrap_err();
    assert_eq!(reason(&refused), Some(Refusal::NotStarted), "{refused}");
    let error = running
        .client
        .read_shell(&ShellId::from_random(1), 0, 0)
        .await
        .unwrap_err();
    assert_eq!(reason(&error), Some(Refusal::NoShell));
    let_go(&running).await;
    let ended = running.end().await;
    let told = shell_events(&ended.events);
    assert!(
        matches!(
            told.as_slice(),
            [
                EventKind::ShellOpened { .. },
                EventKind::ShellEnded {
                    result: StepResult::NotStarted { .. },
                    ..
                }
            ]
        ),
        "{told:?}"
    );
}
