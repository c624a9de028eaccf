//! The gateway's side of the judge: attempts wait here.

use super::retell::Retold;
use super::why::Refusal;
use super::{Answer, Arbiter, Connection, Inner, Phase};
use crate::shim::blocks::Held;
use crate::why::Status;
use foreman_cage::gateway::{Attempt, Closed, ConnectionId, HolderProbe, Judge, Verdict};
use foreman_cage::{PROBE_ADDRESS, PROBE_NAME};
use foreman_domain::{At, BlockId, Decider, HoldId, Host, Protocol, Subject};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Longest wait for the process behind a hold before its block is told without it.
const HOLDER_PATIENCE: Duration = Duration::from_millis(100);

/// Whether only our own probes have a reason to connect there.
fn is_of_probes(host: &Host, port: u16) -> bool {
    *host == Host::Address((*PROBE_ADDRESS.ip()).into()) && port == PROBE_ADDRESS.port()
}

/// A hold that waits. Dropped without an answer, it gives up.
pub(super) struct Waiting<'a> {
    pub(super) inner: &'a Inner,
    pub(super) hold: HoldId,
    pub(super) answer: oneshot::Receiver<Verdict>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.waiters.remove(&self.hold);
        if state.blocks.give_up(self.hold, At::now()) {
            self.inner.tell_due(&mut state);
        } else if let Ok(Verdict::Allow(allowance)) = self.answer.try_recv() {
            // It was let go in the very moment in which it gave up.
            state.connections.remove(&allowance.connection);
        }
    }
}

impl Judge for Arbiter {
    async fn judge(&self, attempt: Attempt) -> Verdict {
        let subject = Subject::Egress {
            protocol: attempt.protocol,
            host: attempt.host.clone(),
            port: attempt.port,
            resolved: attempt.resolved,
        };
        match self.0.ask(&subject, None, !attempt.by_proxy) {
            Answer::Now(verdict) => verdict,
            Answer::Name(block) => {
                self.0.name_holder(attempt.holder, block);
                Verdict::Refuse
            }
            Answer::Wait(held, answer) => {
                let mut waiting = Waiting {
                    inner: &self.0,
                    hold: held.hold,
                    answer,
                };
                if held.wants_holder {
                    self.0.name_holder(attempt.holder, held.block.clone());
                }
                {
                    let mut state = self.0.lock();
                    if !held.wants_holder {
                        self.0.tell_due(&mut state);
                    }
                    let Held { hold, block, .. } = held;
                    self.0.retell(
                        &mut state,
                        Retold::Held {
                            subject,
                            folder: None,
                            block,
                            hold,
                        },
                    );
                }
                tokio::select! {
                    biased;
                    verdict = &mut waiting.answer => verdict.unwrap_or(Verdict::Refuse),
                    () = attempt.gone.cancelled() => Verdict::Refuse,
                }
            }
        }
    }

    fn looked_up(&self, name: &str) {
        let mut state = self.0.lock();
        // Our own probes ask for it, too, while a run goes on.
        if state.phase == Phase::Open && name != PROBE_NAME {
            self.0.retell(
                &mut state,
                Retold::LookedUp {
                    name: name.to_owned(),
                },
            );
            self.0.tell_due(&mut state);
        }
    }

    fn closed(&self, connection: ConnectionId, how: Closed) {
        let mut state = self.0.lock();
        let Some(Connection { subject, .. }) = state.connections.remove(&connection) else {
            return;
        };
        match how {
            Closed::Ended {
                sent,
                received,
                millis,
                cut,
            } => {
                self.0.retell(
                    &mut state,
                    Retold::Closed {
                        subject,
                        cut,
                        sent,
                        received,
                        millis,
                    },
                );
            }
            Closed::Unreachable { why } => {
                self.0.retell(
                    &mut state,
                    Retold::Unreachable {
                        subject,
                        folder: None,
                        why,
                    },
                );
            }
            Closed::Abandoned => {}
        }
        self.0.tell_due(&mut state);
    }

    fn refused(&self, protocol: Protocol, host: Host, port: u16, why: &str) {
        self.refused_again(protocol, host, port, why, 1);
    }

    fn refused_again(&self, protocol: Protocol, host: Host, port: u16, why: &str, count: u64) {
        let mut state = self.0.lock();
        if state.phase != Phase::Open || is_of_probes(&host, port) {
            return;
        }
        let subject = Subject::Egress {
            protocol,
            host,
            port,
            resolved: None,
        };
        let at = At::now();
        let refusal = Refusal {
            subject: subject.clone(),
            status: Status::RefusedAlways,
            why: why.to_owned(),
            reason: String::new(),
            count,
            at,
        };
        state.refusals.note(refusal);
        let by = Decider::Floor;
        self.0.retell(
            &mut state,
            Retold::Refused {
                subject,
                folder: None,
                by,
                why: why.to_owned(),
                count,
            },
        );
        self.0.tell_due(&mut state);
    }
}

impl Inner {
    /// Looks the process behind a block up, without keeping anybody waiting for it, and tells the
    /// block with it, or without it when it is not found soon.
    fn name_holder(self: &Arc<Self>, probe: HolderProbe, block: BlockId) {
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let lookup = async {
                // A look-up is a scan of processes: few at a time, so that a flood of holds keeps
                // neither the machine nor the journal's readers busy.
                let _permit = inner.lookups.acquire().await.ok()?;
                tokio::task::spawn_blocking(move || (probe.0)())
                    .await
                    .ok()?
            };
            tokio::pin!(lookup);
            let found = match timeout(HOLDER_PATIENCE, &mut lookup).await {
                Ok(found) => found,
                Err(_) => {
                    inner.tell_due(&mut inner.lock());
                    lookup.await
                }
            };
            let mut state = inner.lock();
            if let Some(holder) = found {
                state.blocks.add_holder(&block, holder);
            }
            inner.tell_due(&mut state);
        });
    }
}
