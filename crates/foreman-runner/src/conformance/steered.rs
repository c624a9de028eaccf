//! Decisions, stops, keys, and who may give them.

use super::broken::ensure;
use super::{Broken, Candidate, Live, PATIENCE, hello};
use crate::port::RunnerError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreman_domain::{
    Amendment, AmendmentId, AmendmentState, At, BlockState, CancelCause, Decision, EventKind,
    Outcome, Scope, ShellId, StepKind, StepResult,
};
use foreman_policy::Policy;
use foreman_shim::client::{ClientError, Hello, ShellRequest};
use foreman_shim::wire::Refusal;
use std::time::{Duration, Instant};

pub(super) async fn a_held_connect_goes_on_when_a_revision_lets_it(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let (host, port, answer) = candidate.destination();
    let script = format!("curl -sS -m 100 http://{host}:{port}/ && echo the connect went on");
    let mut live = Live::begin(candidate, &script).await?;
    let block = live
        .until("an open block", |kind| match kind {
            EventKind::Block { block } if block.state == BlockState::Open => Some(block.clone()),
            _ => None,
        })
        .await?;
    ensure(
        block.subject.to_string() == format!("tcp {host}:{port}"),
        || format!("{} is held", block.subject),
    )?;
    let rule = foreman_policy::parse_allow(&format!("{host}:{port}"))
        .map_err(|error| Broken::new(error.to_string()))?;
    let revision = live.launch.spec.policy.revision.next();
    let policy = Policy {
        revision,
        egress: vec![rule],
        ..live.launch.spec.policy.clone()
    };
    let amendment = Amendment {
        id: AmendmentId::new(live.place().run.clone(), 1),
        block: block.id.clone(),
        decision: Decision::Allow,
        scope: Scope::Run,
        words: "let it connect".into(),
        state: AmendmentState::Active,
        decided_at: At::now(),
        revision,
        expires: None,
        surface: None,
    };
    // Decided over a line of its own, as after a take-over.
    let welcome = live.reconnect(2).await?;
    ensure(welcome.revision == live.launch.spec.policy.revision, || {
        format!("{welcome:?}")
    })?;
    let applied = live
        .client
        .apply(policy.clone(), amendment.clone(), Some(block.id.clone()))
        .await?;
    ensure(applied.released == 1 && applied.refused == 0, || {
        format!("{applied:?}")
    })?;
    // Once more, as by an engine that did not hear the answer: nothing happens twice.
    live.client.apply(policy, amendment, Some(block.id)).await?;
    live.says(&answer).await?;
    let lines = live.end().await?.lines();
    ensure(
        lines.iter().any(|line| line == "the connect went on"),
        || format!("{lines:?}"),
    )
}

pub(super) async fn a_stop_asks_twice_and_then_kills(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let script = "trap 'echo heard INT' INT; trap 'echo heard TERM' TERM; echo kept > kept; echo up
        while :; do sleep 0.02; done";
    let mut live = Live::begin(candidate, script).await?;
    live.says("up").await?;
    live.client.stop(400).await?;
    live.says("heard INT").await?;
    live.says("heard TERM").await?;
    let ended = live.end().await?;
    let verdict = &ended.record.verdict;
    let is_cancelled = matches!(
        verdict,
        Some(Outcome::Cancelled {
            by: CancelCause::Operator
        })
    );
    ensure(is_cancelled, || format!("{verdict:?}"))?;
    ensure(ended.record.killed >= 1, || {
        "nothing had to be killed".into()
    })?;
    let stopped = ended.record.steps.iter().any(|(_, kind, result)| {
        *kind == StepKind::Agent && matches!(result, StepResult::Stopped { .. })
    });
    ensure(stopped, || format!("{:?}", ended.record.steps))?;
    // What it did so far is collected all the same.
    let bundle = std::fs::read(&ended.place.files.bundle)?;
    ensure(
        bundle.windows(7).any(|window| window == b"bundle\n"),
        || "a stop lost work".into(),
    )
}

pub(super) async fn keys_and_sizes_reach_the_agents_terminal(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let script = "stty size; echo ready; read line; echo \"got $line\"; stty size";
    let launch = candidate.prepare(script, true)?;
    let mut live = Live::launch(candidate, launch).await?;
    live.says("ready").await?;
    live.client.resize(120, 40).await?;
    live.client.input("häll\u{f6}\n".as_bytes()).await?;
    let text = live.end().await?.lines().join("\n");
    for wanted in ["30 90", "got häll\u{f6}", "40 120"] {
        ensure(text.contains(wanted), || format!("no {wanted} in {text:?}"))?;
    }
    Ok(())
}

pub(super) async fn an_engine_that_is_not_in_charge_any_more_is_refused(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut live = Live::begin(candidate, "echo up; while :; do sleep 0.05; done").await?;
    live.says("up").await?;
    let (newer, _) = live
        .context
        .connect(live.place(), hello(live.place(), 5))
        .await?;
    // The old line has no effect any more: it is cut, or refused.
    match live.client.stop(0).await {
        Err(
            ClientError::Closed
            | ClientError::Refused {
                reason: Refusal::Fenced,
                ..
            },
        ) => {}
        Err(error) => return Err(error.into()),
        Ok(()) => return Err(Broken::new("a fenced engine stopped the run")),
    }
    for epoch in [1, 4] {
        let late = live
            .context
            .connect(live.place(), hello(live.place(), epoch))
            .await;
        let fenced = matches!(
            &late,
            Err(RunnerError::Client(ClientError::Refused {
                reason: Refusal::Fenced,
                ..
            }))
        );
        ensure(fenced, || {
            format!("engine {epoch}: {:?}", late.map(|(_, found)| found))
        })?;
    }
    live.client = newer;
    let page = live.client.events(live.last(), 1, 100).await?;
    ensure(!page.ended, || "the run is over".into())?;
    live.client.stop(0).await?;
    live.end().await.map(drop)
}

pub(super) async fn only_who_knows_the_secret_is_welcome(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut live = Live::begin(candidate, "echo up; sleep 600").await?;
    live.says("up").await?;
    for nonce in ["", "00", &"0".repeat(32)] {
        let stranger = Hello {
            nonce: nonce.to_owned(),
            ..hello(live.place(), 9)
        };
        let answer = live.context.connect(live.place(), stranger).await;
        let refused = matches!(
            &answer,
            Err(RunnerError::Client(ClientError::Refused {
                reason: Refusal::NotIntroduced,
                ..
            }))
        );
        ensure(refused, || {
            format!("{nonce:?}: {:?}", answer.map(|(_, found)| found))
        })?;
    }
    // A stranger's epoch counts for nothing.
    live.client.stop(0).await?;
    live.end().await.map(drop)
}

pub(super) async fn a_shell_is_opened_beside_the_agent(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut live = Live::begin(candidate, "echo mine > own; echo up; sleep 600").await?;
    live.says("up").await?;
    let shell = ShellRequest {
        shell: ShellId::from_random(7),
        by: "suite".into(),
        argv: ["sh", "-c", "cat own; exit 4"].map(str::to_owned).to_vec(),
        env: Vec::new(),
        terminal: None,
    };
    live.client.open_shell(shell.clone()).await?;
    let (mut said, mut have) = (Vec::new(), 0);
    let deadline = Instant::now() + PATIENCE;
    let result = loop {
        ensure(Instant::now() < deadline, || {
            "the shell does not end".into()
        })?;
        let page = live.client.read_shell(&shell.shell, have, 2_000).await?;
        have += page.chunks.len() as u64;
        for chunk in page.chunks {
            let bytes = STANDARD.decode(chunk.bytes);
            said.extend(bytes.map_err(|error| Broken::new(error.to_string()))?);
        }
        if let Some(result) = page.ended {
            break result;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    ensure(result == StepResult::Exited { code: 4 }, || {
        format!("{result:?}")
    })?;
    ensure(said == b"mine\n", || {
        format!("{:?}", String::from_utf8_lossy(&said))
    })?;
    live.client.stop(0).await?;
    live.end().await.map(drop)
}
