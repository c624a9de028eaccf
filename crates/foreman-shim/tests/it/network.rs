//! Holds and decisions, against a server of a private world.
//!
//! The tests that talk run in a world of their own: this program starts itself again inside one, with
//! one far address, where the ignored tests of [`inside`] are what runs.

use crate::stage::{PATIENCE, shim};
use std::process::Command;

const FAR: &str = "203.0.113.7";

/// Runs the test `inside::name` in a world with a server on the far side.
fn in_a_world(name: &str) {
    let me = std::env::current_exe().unwrap();
    let me = me.to_str().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ready = dir.path().join("ready");
    // The far side must say `ready` first, which a test program cannot.
    let serve = serde_json::json!([
        "sh",
        "-c",
        "\"$0\" --ignored --exact network::far_side::serves --nocapture >/dev/null 2>&1 &
         until [ -e \"$FAR_SIDE_READY\" ]; do sleep 0.01; done; echo ready; wait",
        me
    ]);
    let output = Command::new("timeout")
        .arg(PATIENCE.as_secs().to_string())
        .args([
            shim().to_str().unwrap(),
            "world",
            "--address",
            &format!("{FAR}/32"),
            "--serve",
            &serve.to_string(),
            "--",
        ])
        .args([
            me,
            "--ignored",
            "--exact",
            &format!("network::inside::{name}"),
            "--nocapture",
        ])
        .env("FAR_SIDE_READY", &ready)
        .output()
        .unwrap();
    let text = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

#[test]
fn a_held_connect_goes_on_after_an_amendment_and_is_cut_by_its_revocation() {
    in_a_world("hold_amend_revoke");
}

#[test]
fn a_denied_connect_is_refused_and_why_tells_the_reason() {
    in_a_world("deny_and_why");
}

#[test]
fn an_unattended_run_refuses_at_once() {
    in_a_world("unattended");
}

#[test]
fn many_connects_are_one_card() {
    in_a_world("many_connects");
}

#[test]
fn a_killed_caller_leaves_a_gone_block_that_a_retry_opens_again() {
    in_a_world("gone_and_retry");
}

#[test]
fn a_held_datagram_is_answered_after_an_amendment_and_its_flow_is_cut_by_the_revocation() {
    in_a_world("udp_hold_amend_revoke");
}

#[test]
fn a_denied_datagram_is_refused() {
    in_a_world("udp_deny");
}

mod far_side {
    use std::io::{Read, Write};
    use std::net::{TcpListener, UdpSocket};

    /// Greets, echoes, and answers for as long as the world lasts.
    #[test]
    #[ignore = "runs on the far side of a world"]
    fn serves() {
        let listener = TcpListener::bind("0.0.0.0:8080").unwrap();
        // Answers must come from the address that was asked.
        let socket = UdpSocket::bind((super::FAR, 8080)).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                let answer = [b"afar: ", &buffer[..count]].concat();
                let _ = socket.send_to(&answer, from);
            }
        });
        std::fs::write(std::env::var_os("FAR_SIDE_READY").unwrap(), "").unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 512];
                let _ = stream.write_all(b"hello from afar\n");
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let _ = stream.write_all(&buffer[..count]);
                }
            });
        }
    }
}

mod inside {
    use super::FAR;
    use crate::stage::{Running, Stage, policy, says, step};
    use foreman_domain::{
        Amendment, AmendmentId, AmendmentState, At, Block, BlockState, ConnectVerdict, Decider,
        Decision, Event, EventKind, HoldId, Protocol, Revision, Scope, StepKind, Subject,
    };
    use foreman_policy::{Denial, EgressRule, HostPattern, Layer, Origin, Policy, RuleId, Use};
    use foreman_shim::protocol::HoldMode;

    /// Connects, prints what comes, and says how it ended. Without a client program: bash can.
    fn connect(port: u16) -> String {
        format!(
            "if exec 3<>/dev/tcp/{FAR}/{port}; then read -r line <&3; echo \"$line\"; else echo no way; fi"
        )
    }

    fn agent(script: &str) -> Stage {
        let mut stage = Stage::new(vec![step(StepKind::Agent, "")]);
        stage.spec.steps[0].argv = ["bash", "-c", script].map(str::to_owned).to_vec();
        stage
    }

    fn open_block(event: &Event) -> Option<Block> {
        match &event.kind {
            EventKind::Block { block } if block.state == BlockState::Open => Some(block.clone()),
            _ => None,
        }
    }

    fn amendment(block: &Block, decision: Decision, revision: u64) -> Amendment {
        Amendment {
            id: AmendmentId::new(block.id.run().clone(), u32::try_from(revision).unwrap()),
            block: block.id.clone(),
            decision,
            scope: Scope::Run,
            words: "test".into(),
            state: AmendmentState::Active,
            decided_at: At::now(),
            revision: Revision(revision),
            expires: None,
            surface: None,
        }
    }

    fn origin() -> Origin {
        Origin {
            id: RuleId("amendment:test".into()),
            layer: Layer::Amendment,
            source: "test".into(),
            amendment: None,
            reason: None,
        }
    }

    fn allowing(port: u16, applies: Use, revision: u64) -> Policy {
        allowing_by(Protocol::Tcp, port, applies, revision)
    }

    fn allowing_by(protocol: Protocol, port: u16, applies: Use, revision: u64) -> Policy {
        let rule = EgressRule {
            origin: origin(),
            protocol,
            host: HostPattern::Address(format!("{FAR}/32").parse().unwrap()),
            port,
            resolves_to: None,
            applies,
            expires: None,
        };
        Policy {
            revision: Revision(revision),
            egress: vec![rule],
            ..policy()
        }
    }

    async fn allow(running: &Running, block: &Block) -> foreman_shim::client::Applied {
        let record = amendment(block, Decision::Allow, 2);
        let policy = allowing(8080, Use::Always, 2);
        running
            .client
            .apply(policy, record, Some(block.id.clone()))
            .await
            .unwrap()
    }

    #[tokio::test]
    #[ignore = "runs in a world"]
    async fn hold_amend_revoke() {
        let script = format!("{}; cat <&3; echo the end", connect(8080));
        let mut running = agent(&script).start().await;
        let block = running.until("an open block", open_block).await;
        assert_eq!(block.subject.to_string(), format!("tcp {FAR}:8080"));
        assert_eq!((block.waiting, block.last_hold), (1, HoldId(1)));
        let holder = block.holders.first().expect("the process behind it");
        assert_eq!(holder.argv.first().map(String::as_str), Some("bash"));
        let applied = allow(&running, &block).await;
        assert_eq!((applied.released, applied.refused, applied.cut), (1, 0, 0));
        running
            .until("the server's greeting", says("hello from afar"))
            .await;

        let mut record = amendment(&block, Decision::Allow, 2);
        record.state = AmendmentState::Revoked;
        let none = Policy {
            revision: Revision(3),
            ..policy()
        };
        let applied = running
            .client
            .apply(none, record, Some(block.id.clone()))
            .await
            .unwrap();
        assert_eq!(applied.cut, 1);
        let ended = running.end().await;
        assert!(ended.output().contains("the end"), "{}", ended.output());
        let closed = ended.events.iter().any(|event| {
            matches!(
                event.kind,
                EventKind::ConnectionClosed {
                    cut: true,
                    received: 16,
                    ..
                }
            )
        });
        assert!(closed, "{:#?}", ended.events);
        let last = ended
            .events
            .iter()
            .rev()
            .find_map(|event| match &event.kind {
                EventKind::Block { block } => Some(block.state.tag()),
                _ => None,
            });
        assert_eq!(last, Some("amended"));
    }

    #[tokio::test]
    #[ignore = "runs in a world"]
    async fn deny_and_why() {
        let metadata = "exec 3<>/dev/tcp/169.254.169.254/80";
        let script = format!("{metadata}; {0}; {0}; foreman why", connect(8080));
        let mut running = agent(&script).start().await;
        let block = running.until("an open block", open_block).await;
        let mut denied = Policy {
            revision: Revision(2),
            ..policy()
        };
        let reason = "use the mirror on port 9000".to_owned();
        let subject = block.subject.clone();
        denied.denials.push(Denial {
            origin: origin(),
            subject,
            reason: reason.clone(),
        });
        let record = amendment(&block, Decision::Deny { reason }, 2);
        let applied = running
            .client
            .apply(denied, record, Some(block.id.clone()))
            .await
            .unwrap();
        assert_eq!(applied.refused, 1);
        let ended = running.end().await;
        let output = ended.output();
        assert_eq!(output.matches("no way\n").count(), 2, "{output}");
        assert!(output.contains("denied by the operator"), "{output}");
        assert!(output.contains("use the mirror on port 9000"), "{output}");
        assert!(output.contains("do as the operator says"), "{output}");
        assert!(
            output.contains("tcp 169.254.169.254:80: refused: never reachable"),
            "{output}"
        );
        assert!(output.contains("do without it"), "{output}");
        assert_eq!(
            blocks(&ended.events),
            1,
            "the second attempt raised no card"
        );
    }

    fn blocks(events: &[Event]) -> usize {
        let mut ids: Vec<_> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Block { block } => Some(block.id.number()),
                _ => None,
            })
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    }

    #[tokio::test]
    #[ignore = "runs in a world"]
    async fn unattended() {
        let mut stage = agent(&format!("{}; foreman why --json", connect(8080)));
        stage.spec.hold = HoldMode::Refuse;
        let ended = stage.start().await.end().await;
        let output = ended.output();
        assert!(
            output.contains("no way\n") && output.contains("refused_unattended"),
            "{output}"
        );
        let denied = ended.events.iter().any(|event| {
            matches!(&event.kind, EventKind::Block { block }
                if matches!(block.state, BlockState::Denied { by: Decider::Unattended, .. }))
        });
        assert!(denied);
    }

    #[tokio::test]
    #[ignore = "runs in a world"]
    async fn many_connects() {
        let script = format!("for i in $(seq 100); do ({}) & done; wait", connect(8080));
        let mut running = agent(&script).start().await;
        let block = running
            .until("all holds and eight of their processes", |event| {
                open_block(event).filter(|block| block.waiting == 100 && block.holders.len() == 8)
            })
            .await;
        let greeted = running
            .events
            .iter()
            .any(|event| says("hello")(event).is_some());
        assert!(!greeted, "nothing is let through");
        // Once: the hundred that are on the card, and no other.
        let subject: Subject = block.subject.clone();
        let once = allowing(
            8080,
            Use::Holds {
                subject,
                through: block.last_hold,
            },
            2,
        );
        let record = amendment(&block, Decision::Allow, 2);
        let applied = running
            .client
            .apply(once, record, Some(block.id.clone()))
            .await
            .unwrap();
        assert_eq!(applied.released, 100);
        let ended = running.end().await;
        assert_eq!(ended.output().matches("hello from afar").count(), 100);
        assert_eq!(blocks(&ended.events), 1);
        let allowed: u64 = ended
            .events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Egress {
                    verdict: ConnectVerdict::Allowed { .. },
                    count,
                    ..
                } => Some(*count),
                _ => None,
            })
            .sum();
        assert_eq!(allowed, 100);
    }

    /// A socket for datagrams on descriptor 3, and a first one. Bash itself would read its answer byte
    /// by byte, and lose all but the first.
    fn datagram(text: &str) -> String {
        format!("exec 3<>/dev/udp/{FAR}/8080; echo {text} >&3; echo \"got $(head -n 1 <&3)\"")
    }

    #[tokio::test]
    #[ignore = "runs in a world"]
    async fn udp_hold_amend_revoke() {
        let script = format!(
            "{}; while [ ! -e go ]; do sleep 0.05; done; echo two >&3; echo \"then $(head -n 1 <&3)\"",
            datagram("one")
        );
        let mut running = agent(&script).start().await;
        let block = running.until("an open block", open_block).await;
        assert_eq!(block.subject.to_string(), format!("udp {FAR}:8080"));
        let answered = running
            .events
            .iter()
            .any(|event| says("got")(event).is_some());
        assert!(!answered, "nothing is let through");
        let policy = allowing_by(Protocol::Udp, 8080, Use::Always, 2);
        let record = amendment(&block, Decision::Allow, 2);
        let applied = running
            .client
            .apply(policy, record, Some(block.id.clone()))
            .await
            .unwrap();
        assert_eq!((applied.released, applied.refused, applied.cut), (1, 0, 0));
        running
            .until("the answer to the held datagram", says("got afar: one"))
            .await;

        let mut record = amendment(&block, Decision::Allow, 2);
        record.state = AmendmentState::Revoked;
        let none = Policy {
            revision: Revision(3),
            ..crate::stage::policy()
        };
        let applied = running
            .client
            .apply(none, record, Some(block.id.clone()))
            .await
            .unwrap();
        assert_eq!(applied.cut, 1);
        running
            .until("the end of the flow", |event| match event.kind {
                EventKind::ConnectionClosed {
                    cut: true,
                    sent: 4,
                    received: 10,
                    ..
                } => Some(()),
                _ => None,
            })
            .await;
        std::fs::write(running.stage.worktree().join("go"), "").unwrap();
        let next = running
            .until("a card for the next datagram", |event| {
                open_block(event).filter(|next| next.id != block.id)
            })
            .await;
        assert_eq!(next.subject, block.subject);
        running.client.stop(0).await.unwrap();
        let ended = running.end().await;
        assert!(!ended.output().contains("then afar"), "{}", ended.output());
    }

    #[tokio::test]
    #[ignore = "runs in a world"]
    async fn udp_deny() {
        let script = format!(
            "{}; echo again >&3; head -n 1 <&3; foreman why --json",
            datagram("one")
        );
        let mut running = agent(&script).start().await;
        let block = running.until("an open block", open_block).await;
        let mut denied = Policy {
            revision: Revision(2),
            ..policy()
        };
        denied.denials.push(Denial {
            origin: origin(),
            subject: block.subject.clone(),
            reason: String::new(),
        });
        let reason = String::new();
        let record = amendment(&block, Decision::Deny { reason }, 2);
        let applied = running
            .client
            .apply(denied, record, Some(block.id.clone()))
            .await
            .unwrap();
        assert_eq!(applied.refused, 1);
        let ended = running.end().await;
        let output = ended.output();
        assert_eq!(output.matches("Connection refused").count(), 2, "{output}");
        assert!(output.contains("got \n"), "no answer came: {output}");
        assert!(output.contains("\"state\":\"denied\""), "{output}");
        assert_eq!(blocks(&ended.events), 1);
    }

    #[tokio::test]
    #[ignore = "runs in a world"]
    async fn gone_and_retry() {
        let script = format!(
            "timeout 1 bash -c '{0}'; while [ ! -e go ]; do sleep 0.05; done; {0}",
            connect(8080)
        );
        let mut running = agent(&script).start().await;
        let block = running.until("an open block", open_block).await;
        running
            .until("giving up", |event| match &event.kind {
                EventKind::Block { block } if block.state == BlockState::Gone => Some(()),
                _ => None,
            })
            .await;
        std::fs::write(running.stage.worktree().join("go"), "").unwrap();
        running
            .until("the retry", |event| {
                open_block(event).filter(|retry| retry.seen == 2)
            })
            .await;
        assert_eq!(blocks(&running.events), 1);
        assert_eq!(allow(&running, &block).await.released, 1);
        let ended = running.end().await;
        assert!(ended.output().contains("hello from afar"));
    }
}
