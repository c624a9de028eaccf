//! The demo's world for another program: an engine in it that the program joins by its control socket.
//!
//! Says where it is as one line of JSON when it is ready, and lives until standard input ends: the
//! pipe's other end is held by whoever started it, so it never outlives that one.

use super::inside::{AGENT_ARGV, TITLE, make_repository, places};
use crate::answer::Answer;
use crate::command::Done;
use foreman_domain::{ExitCode, Failure, RunState};
use foreman_engine::Host;
use foreman_engine::api::{Commands, Remote, RunList, RunRef};
use serde_json::json;
use std::io::Read;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Longest wait for runs to stop. The world ends after it, and they end with that.
const STOPPING: Duration = Duration::from_secs(10);

/// Hosts the demo in `dir`.
pub async fn run(dir: &Path, answer: &Answer) -> Done {
    let left = left();
    let repo = make_repository(dir)?;
    let options = places(dir)?;
    let engine = Remote(Host::open(options.clone()).await?);
    engine.0.dispatch_orders();
    answer.object(&json!({
        "data_dir": options.data_dir,
        "runtime_dir": options.runtime_dir,
        "repo": repo,
        "argv": AGENT_ARGV,
        "title": TITLE,
    }))?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = left => {}
        _ = terminate.recv() => {}
    }
    // What has not stopped by then ends with the world, which ends with this process.
    let stopped = tokio::time::timeout(STOPPING, stop(&engine)).await;
    engine.0.close().await;
    stopped.unwrap_or(Ok(()))?;
    Ok(ExitCode::Ok)
}

/// Ends when standard input does. Read by a thread that nothing waits for.
fn left() -> oneshot::Receiver<()> {
    let (sender, left) = oneshot::channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut buffer = [0; 64];
        while input.read(&mut buffer).is_ok_and(|read| read > 0) {}
        // The receiver is gone when it ends for another reason.
        let _ = sender.send(());
    });
    left
}

/// Stops every run that is at work; says how the first failed that could not be.
async fn stop(engine: &impl Commands) -> Result<(), Failure> {
    let mut stopped = Ok(());
    for run in engine.run_list(RunList::default()).await?.runs {
        let is_live = matches!(
            run.state,
            RunState::Provisioning | RunState::Running { .. } | RunState::Stopping { .. }
        );
        let name = RunRef {
            run: run.id.to_string(),
        };
        if is_live {
            stopped = stopped.and(engine.run_stop(name).await.map(drop));
        }
    }
    stopped
}
