//! Closing the window and ending the app, with or without its runs.
//!
//! Runs have supervisors of their own, so ending the app leaves them at work. What waits in the queue
//! needs an engine, so a service is left behind for it.

use super::Shell;
use crate::app::{Navigation, RunsOnQuit};
use crate::board;
use foreman_domain::{Code, Failure, RunId};
use foreman_engine::api::{Commands, LimitsChange, Remote, RunRef, ShutdownRequest};
use foreman_engine::{Guest, serve_detached};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Longest wait for runs to stop.
const STOPPING: Duration = Duration::from_secs(60);
/// Longest wait for an answer of the engine when the window is closed.
const ASKING: Duration = Duration::from_secs(5);
/// Longest wait for what goes on by itself.
const ENDING: Duration = Duration::from_secs(15);

/// How far leaving has come.
#[derive(Debug, Default)]
pub struct Leaving {
    /// The page was asked what is to become of the runs.
    asked: AtomicBool,
    /// No service could be left behind, and the operator was told.
    told: AtomicBool,
    /// It ends.
    begun: AtomicBool,
}

/// What closing the window does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnClose {
    /// The window goes; the icon in the panel stays.
    Hide,
    /// The operator is asked what is to become of the runs.
    Ask,
    /// The app ends and leaves runs at work.
    Quit,
}

/// What closing the window does. Without an icon in the panel it never leaves an app behind that
/// nobody can reach; and a page that does not answer its question keeps nobody from leaving.
#[must_use]
pub fn on_close(has_tray: bool, keep_in_tray: bool, running: u32, was_asked: bool) -> OnClose {
    if has_tray && keep_in_tray {
        OnClose::Hide
    } else if running > 0 && !was_asked {
        OnClose::Ask
    } else {
        OnClose::Quit
    }
}

impl Shell {
    /// The window's close button was pressed.
    pub async fn window_closed(self: Arc<Self>) {
        let keep = self.settings.read_or_default().keep_in_tray;
        let has_tray = self.has_tray().await;
        let running = match has_tray && keep {
            true => 0,
            false => self.running().await,
        };
        let was_asked = self.leaving.asked.swap(false, Ordering::AcqRel);
        match on_close(has_tray, keep, running, was_asked) {
            OnClose::Hide => {
                if let Some(surface) = self.surface() {
                    surface.hide();
                }
            }
            OnClose::Ask => {
                self.leaving.asked.store(true, Ordering::Release);
                self.navigate(Navigation::QuitAsked { running });
            }
            OnClose::Quit => self.quit_or_say(RunsOnQuit::Keep).await,
        }
    }

    /// How many of the operator's own runs are at work; none where no engine answers in time.
    async fn running(&self) -> u32 {
        let Some(host) = self.engines.open() else {
            return 0;
        };
        match timeout(ASKING, board::live_runs(host.as_ref())).await {
            Ok(Ok(runs)) => u32::try_from(runs.len()).unwrap_or(u32::MAX),
            Ok(Err(failure)) => {
                tracing::warn!(%failure, "it is not known how many runs are at work");
                0
            }
            Err(_) => {
                tracing::warn!("the engine does not say how many runs are at work");
                0
            }
        }
    }

    /// Ends the app, or says in the window why not.
    pub async fn quit_or_say(self: &Arc<Self>, runs: RunsOnQuit) {
        if let Err(failure) = self.quit(runs).await {
            let hint = failure
                .hint
                .map(|hint| format!(" {hint}"))
                .unwrap_or_default();
            self.say(format!("The app did not end: {}.{hint}", failure.message));
        }
    }

    /// Ends the app.
    ///
    /// # Errors
    /// When a run could not be stopped, or what waits would not go on; the app stays then.
    pub async fn quit(self: &Arc<Self>, runs: RunsOnQuit) -> Result<(), Failure> {
        if self.leaving.begun.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let ready = match runs {
            RunsOnQuit::Keep => self.leave_service().await,
            RunsOnQuit::Stop => self.stop_runs().await,
        };
        if let Err(failure) = ready {
            self.leaving.begun.store(false, Ordering::Release);
            return Err(failure);
        }
        self.end().await;
        Ok(())
    }

    /// Ends the app in good order, whatever becomes of the queue. Runs go on.
    pub async fn end(&self) {
        if let Some(surface) = self.surface() {
            surface.hide();
        }
        self.cancel.cancel();
        self.end_demo();
        self.engines.close().await;
        self.tasks.close();
        if timeout(ENDING, self.tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
        if let Some(surface) = self.surface() {
            surface.end();
        }
    }

    /// Leaves a service behind where orders wait for their turn.
    async fn leave_service(&self) -> Result<(), Failure> {
        let Some(host) = self.engines.open() else {
            return Ok(());
        };
        let queue = host.orders_limits(LimitsChange::default()).await?;
        if queue.waiting == 0 || self.leaving.told.load(Ordering::Acquire) {
            return Ok(());
        }
        let options = self.engines.options()?.clone();
        let left = tokio::task::spawn_blocking(move || {
            let program = crate::demo::foreman_program()?;
            serve_detached(&program, &options)
        })
        .await
        .map_err(|error| Failure::new(Code::Internal, format!("leaving a service failed: {error}")))
        .and_then(|left| left);
        match left {
            Ok(greeting) => {
                tracing::info!(pid = greeting.pid, "a service goes on with the queue");
                Ok(())
            }
            Err(failure) => {
                self.leaving.told.store(true, Ordering::Release);
                let text = format!(
                    "what waits in the queue would not go on: {}",
                    failure.message
                );
                Err(Failure::new(failure.code, text).hint("Quit again to leave it waiting."))
            }
        }
    }

    /// Stops what is at work, and keeps the next in the queue from being started meanwhile.
    async fn stop_runs(&self) -> Result<(), Failure> {
        let Some(host) = self.engines.open() else {
            return Ok(());
        };
        // As the engine this begins nothing new from here on; of another process's service it is
        // asked in one word.
        if host.end_service(None).await?.is_none() {
            let request = ShutdownRequest {
                drain_ms: None,
                stop_runs: true,
            };
            // It may be another process that is no service: then its runs are stopped one by one.
            if let Ok(guest) = Guest::join(self.engines.options()?).await
                && let Err(failure) = Remote(guest).shutdown(request).await
                && failure.code != Code::Conflict
            {
                return Err(failure);
            }
        }
        let runs = board::live_runs(host.as_ref()).await?;
        let host = &host;
        let stopped = runs.iter().map(|run| async move {
            let name = RunRef {
                run: run.to_string(),
            };
            match timeout(STOPPING, host.run_stop(name)).await {
                Ok(Ok(_)) => None,
                // It ended by itself.
                Ok(Err(failure)) if failure.code == Code::Conflict => None,
                Ok(Err(failure)) => Some((run, failure.message)),
                Err(_) => Some((run, "it does not end".to_owned())),
            }
        });
        let failed = futures::future::join_all(stopped).await;
        match failed.into_iter().flatten().next() {
            None => Ok(()),
            Some((run, why)) => Err(not_stopped(run, &why)),
        }
    }
}

fn not_stopped(run: &RunId, why: &str) -> Failure {
    Failure::new(
        Code::Environment,
        format!("run {run} was not stopped: {why}"),
    )
    .hint("Stop it by itself, or quit and keep runs going.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_the_window_hides_it_only_where_the_icon_is_seen() {
        assert_eq!(on_close(true, true, 3, false), OnClose::Hide);
        assert_eq!(on_close(true, false, 3, false), OnClose::Ask);
        assert_eq!(on_close(true, false, 0, false), OnClose::Quit);
        assert_eq!(on_close(false, true, 3, false), OnClose::Ask);
        assert_eq!(on_close(false, true, 0, false), OnClose::Quit);
    }

    #[test]
    fn a_page_that_does_not_answer_keeps_nobody() {
        assert_eq!(on_close(false, true, 3, true), OnClose::Quit);
    }
}
