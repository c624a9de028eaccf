//! Following a live run: pulling its events from its shim, and seeing its end.
//!
//! One task per live run, in whichever process hosts. It holds nothing that is not on disk: killed at
//! any moment, the next engine's task goes on from the store's cursor. A shim that lives but cannot be
//! reached (its socket's directory was taken away) is still followed by its journal.

use crate::engine::Engine;
use crate::failures::OrFail;
use crate::live::LiveRun;
use foreman_domain::{Code, EventSeq, Failure};
use foreman_runner::RunnerError;
use foreman_shim::client::{ClientError, Hello, ShimClient};
use foreman_store::StoredRun;
use std::sync::Arc;
use std::time::Duration;

/// Events of one pull, stored in one transaction.
const PAGE: u32 = 512;
/// Longest wait of one pull for news.
const PULL: u32 = 20_000;
/// Pauses between tries to reach a shim.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a shim that said its last event may take to end.
const LAST_BREATH: Duration = Duration::from_secs(30);

/// What is seen of a shim from outside.
enum Presence {
    /// It runs.
    Alive,
    /// It may still be starting.
    Unborn,
    /// It is gone, whether or not it left a result.
    Gone,
}

impl Engine {
    /// Takes over a live run that another engine prepared or followed. True when there is a shim to
    /// follow; false when none ever started, so that there is nothing but to settle the run. The
    /// caller has the run's turn.
    pub fn adopt(self: &Arc<Self>, run: &StoredRun) -> Result<bool, Failure> {
        let details = crate::details::RunDetails::of(run)?;
        if details.shim().is_none() {
            details.void_spec()?;
            if !details.is_on_its_way() {
                return Ok(false);
            }
        }
        self.attach(run).map(|()| true)
    }

    /// Follows a live run, unless it is followed already.
    pub fn attach(self: &Arc<Self>, run: &StoredRun) -> Result<(), Failure> {
        let details = crate::details::RunDetails::of(run)?;
        if let Some(live) = self.live.insert(&run.id, details) {
            let engine = Arc::clone(self);
            self.tasks.spawn(async move {
                let following = async {
                    follow(&engine, &live).await;
                    live.set_line(None);
                    engine.first_checks(&live).await;
                };
                let gone = tokio::select! {
                    () = following => true,
                    () = engine.cancel.cancelled() => false,
                };
                live.set_line(None);
                // Once begun, the end is written down before hosting ends.
                if gone {
                    bring_to_rest(&engine, &live).await;
                }
                live.set_caught_up();
                engine.live.remove(&live.run);
                if gone {
                    engine.let_go(&live.run).await;
                }
                engine.news.nudge();
            });
        }
        Ok(())
    }
}

/// Follows a shim to its end, whatever becomes of the line to it.
pub(crate) async fn follow(engine: &Arc<Engine>, live: &Arc<LiveRun>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match connect(engine, live).await {
            Ok((client, newest)) => {
                pause = FIRST_PAUSE;
                let client = Arc::new(client);
                live.set_line(Some(Arc::clone(&client)));
                let ended = attend(engine, live, &client, newest).await;
                live.set_line(None);
                if ended {
                    wait_for_last_breath(live).await;
                }
            }
            Err(error) => tracing::debug!(run = %live.run, %error, "the shim is not reached"),
        }
        match presence(live) {
            Presence::Gone => break,
            Presence::Alive | Presence::Unborn => {
                if let Err(error) = engine.drain_journal(&live.run, &live.details).await {
                    report(engine, live, &error, "the journal could not be taken in");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Says what went wrong: in the log, and to whoever waits for the run's events, because a full disk
/// is for the operator to mend.
fn report(engine: &Engine, live: &LiveRun, error: &Failure, what: &str) {
    tracing::warn!(run = %live.run, %error, "{what}");
    if error.code == Code::DiskFull {
        live.set_trouble(Some(error.clone()));
        engine.news.tell(&live.run);
    }
}

async fn bring_to_rest(engine: &Arc<Engine>, live: &Arc<LiveRun>) {
    while let Err(error) = engine.settle(&live.run).await {
        report(
            engine,
            live,
            &error,
            "the end of a run could not be recorded",
        );
        tokio::select! {
            () = tokio::time::sleep(LONGEST_PAUSE) => {}
            () = engine.cancel.cancelled() => return,
        }
    }
}

/// The line to the shim, and the newest event that it has to tell.
async fn connect(
    engine: &Arc<Engine>,
    live: &Arc<LiveRun>,
) -> Result<(ShimClient, EventSeq), ClientError> {
    let fence = engine
        .fence(&live.run)
        .await
        .map_err(|failure| ClientError::Unexpected {
            what: failure.message,
        })?;
    let hello = Hello {
        run: live.run.clone(),
        nonce: live.details.nonce.clone(),
        epoch: fence.engine,
        run_epoch: fence.run,
    };
    let place = crate::carrying::place(&live.run, &live.details);
    let (client, welcome) = match engine.runner.connect(&place, hello).await {
        Ok(connected) => connected,
        Err(RunnerError::Client(error)) => return Err(error),
        Err(error) => {
            return Err(ClientError::Unexpected {
                what: error.to_string(),
            });
        }
    };
    // Never by process id alone: what answers must be what wrote the identity down.
    if live
        .details
        .shim()
        .is_some_and(|known| known != welcome.identity)
    {
        return Err(ClientError::Unexpected {
            what: "the answer of another process".into(),
        });
    }
    live.applying.lock().await.revision = welcome.revision;
    Ok((client, welcome.last_seq))
}

/// Pulls events until the line breaks or the run says its last; true for the latter.
async fn attend(
    engine: &Arc<Engine>,
    live: &Arc<LiveRun>,
    client: &Arc<ShimClient>,
    newest: EventSeq,
) -> bool {
    if let Err(error) = engine.bring_up_to_date(live).await {
        tracing::warn!(run = %live.run, %error, "a decision could not be applied");
    }
    let stored = match engine.store.run(&live.run).await.or_fail() {
        Ok(stored) => stored,
        Err(error) => {
            tracing::warn!(run = %live.run, %error, "the run could not be read");
            return false;
        }
    };
    // A wish from before the run came to rest is no wish about what is checked later.
    if stored.stop_asked_at.is_some() && stored.state.is_live() {
        engine.pass_on_stop(live, client).await;
    }
    let mut after = stored.last_seq;
    loop {
        if after >= newest {
            live.set_caught_up();
        }
        let page = match client.events(after, PAGE, PULL).await {
            Ok(page) => page,
            Err(error) => {
                tracing::debug!(run = %live.run, %error, "the line to the shim broke");
                return false;
            }
        };
        if !page.events.is_empty() {
            match engine.ingest_in_group(&live.run, &page.events).await {
                Ok(ingested) => {
                    after = ingested.last_seq;
                    live.set_trouble(None);
                }
                Err(error) => {
                    report(engine, live, &error, "events could not be stored");
                    let pause = if error.code == Code::DiskFull {
                        LONGEST_PAUSE
                    } else {
                        FIRST_PAUSE
                    };
                    tokio::time::sleep(pause).await;
                    return false;
                }
            }
        }
        if page.ended {
            return true;
        }
    }
}

/// A shim says its last event a moment before it has written its result and ended. One that has
/// written its result and does not end is killed: its cage is gone, and it holds the journal.
async fn wait_for_last_breath(live: &LiveRun) {
    let ending = async {
        let mut pause = FIRST_PAUSE;
        while matches!(presence(live), Presence::Alive) {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    };
    if tokio::time::timeout(LAST_BREATH, ending).await.is_err() {
        tracing::warn!(run = %live.run, "the shim has ended its run but not itself");
        if live.details.files.exit.exists()
            && let Err(error) = live.details.kill_shim()
        {
            tracing::warn!(run = %live.run, %error, "it cannot be killed");
        }
    }
}

fn presence(live: &LiveRun) -> Presence {
    match live.details.shim() {
        Some(_) if live.details.living_shim().is_some() => Presence::Alive,
        None if live.details.is_on_its_way() => Presence::Unborn,
        Some(_) | None => Presence::Gone,
    }
}
