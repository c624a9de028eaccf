//! Connections to Unix sockets of the host: judged, held and cut like those to a network.

use super::port::Waiting;
use super::retell::Retold;
use super::{Answer, Arbiter, Inner, Phase};
use crate::shim::blocks::Held;
use foreman_cage::files::{SocketAttempt, who_listens};
use foreman_cage::gateway::Verdict;
use foreman_domain::{At, BlockId, Decider, Holder, PathText, Subject};
use foreman_policy::socket_floor;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for who is behind a socket before its block is told without it.
const PATIENCE: Duration = Duration::from_millis(500);

impl Arbiter {
    pub(super) async fn connect(&self, attempt: SocketAttempt) -> Verdict {
        let subject = Subject::Socket {
            path: PathText::of(&attempt.path),
        };
        let Some(ground) = self.0.files.get() else {
            return Verdict::Refuse;
        };
        let floor = socket_floor(&attempt.path, &ground.floor.own);
        let floor = floor.map(|why| {
            format!(
                "{} is {why}, which no rule can open",
                PathText::of(&attempt.path)
            )
        });
        let holder = Holder {
            pid: attempt.process.pid,
            argv: attempt.process.argv,
        };
        match self.0.ask(&subject, floor, true) {
            Answer::Now(verdict) => verdict,
            Answer::Name(block) => {
                self.0.name_both(&block, holder, attempt.path).await;
                Verdict::Refuse
            }
            Answer::Wait(held, answer) => {
                let Held {
                    hold,
                    block,
                    wants_holder,
                } = held;
                let mut waiting = Waiting {
                    inner: &self.0,
                    hold,
                    answer,
                };
                if wants_holder {
                    self.0.name_both(&block, holder, attempt.path).await;
                }
                {
                    let mut state = self.0.lock();
                    self.0.tell_due(&mut state);
                    let told = Retold::Held {
                        subject,
                        folder: None,
                        block,
                        hold,
                    };
                    self.0.retell(&mut state, told);
                }
                tokio::select! {
                    biased;
                    verdict = &mut waiting.answer => verdict.unwrap_or(Verdict::Refuse),
                    () = attempt.gone.cancelled() => Verdict::Refuse,
                }
            }
        }
    }

    /// A connection that is refused whatever any rule says.
    pub(super) fn refuse_socket(&self, path: &Path, why: &str) {
        let mut state = self.0.lock();
        if state.phase != Phase::Open {
            return;
        }
        let subject = Subject::Socket {
            path: PathText::of(path),
        };
        let refused = (Decider::Floor, why.to_owned(), String::new());
        self.0
            .refuse(&mut state, &subject, None, refused, At::now());
        self.0.tell_due(&mut state);
    }
}

impl Inner {
    /// Puts both ends of a connection on its card: who waits, and who is behind the socket. One look at
    /// each time, so that a flood of holds does not keep the machine busy.
    async fn name_both(&self, block: &BlockId, holder: Holder, path: PathBuf) {
        let look = async {
            let _permit = self.lookups.acquire().await.ok()?;
            tokio::task::spawn_blocking(move || who_listens(&path))
                .await
                .ok()?
        };
        let facts = timeout(PATIENCE, look).await.ok().flatten();
        let mut state = self.lock();
        state.blocks.add_holder(block, holder);
        if let Some(facts) = facts {
            state.blocks.note_socket(block, facts);
        }
        self.tell_due(&mut state);
    }
}
