//! The engine as a service: the process that hosts it for its own sake, how it is told to end, and how
//! one is started that outlives its caller.
//!
//! A service ends in good order: at once, leaving runs with their shims, or after a drain, during which
//! it begins nothing new and goes on to follow what runs, heartbeats included.

use crate::api::{LeftRun, ShutdownReport, ShutdownRequest};
use crate::engine::Engine;
use crate::failures::{OrFail, io};
use crate::hosting::try_lock;
use crate::layout::Layout;
use crate::{Host, HostOptions};
use foreman_domain::{Code, Failure, RunId};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Longest drain that can be asked for.
const LONGEST_DRAIN: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often an idle service looks whether it still is.
const IDLE_LOOK: Duration = Duration::from_secs(5);
/// How often a drain looks, beside being told.
const DRAIN_LOOK: Duration = Duration::from_millis(250);
/// Longest wait for a service that is being started.
const STARTING: Duration = Duration::from_secs(30);

/// What of an engine belongs to being a service.
#[derive(Debug)]
pub(crate) struct Service {
    serves: AtomicBool,
    draining: AtomicBool,
    end: watch::Sender<Option<ShutdownReport>>,
}

impl Default for Service {
    fn default() -> Self {
        Self {
            serves: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            end: watch::channel(None).0,
        }
    }
}

impl Engine {
    /// True while nothing new may begin.
    pub fn is_draining(&self) -> bool {
        self.service.draining.load(Ordering::Acquire)
    }

    /// Refuses what would begin something new.
    pub fn refuse_while_draining(&self) -> Result<(), Failure> {
        if !self.is_draining() {
            return Ok(());
        }
        Err(Failure::new(
            Code::Busy,
            "the engine is about to end and begins nothing new",
        )
        .hint("Ask again when it has ended: the next command hosts the engine itself."))
    }

    /// Ends a service: drains where that is asked for, stops runs where that is asked for, and says
    /// what is left. The process ends after the answer.
    pub async fn shut_down(
        self: &std::sync::Arc<Self>,
        request: ShutdownRequest,
    ) -> Result<ShutdownReport, Failure> {
        if !self.service.serves.load(Ordering::Acquire) {
            return Err(Failure::new(
                Code::Conflict,
                format!(
                    "the engine is hosted by process {}, which is no service: it ends with what it does",
                    std::process::id()
                ),
            )
            .hint("End that command; its runs go on without it. `foreman stop` stops a run."));
        }
        let drain = request.drain_ms.map(Duration::from_millis);
        let report = self.wind_down(drain, request.stop_runs).await;
        if report.is_err() {
            // It goes on to serve: what is asked next may be begun.
            self.service.draining.store(false, Ordering::Release);
        }
        let report = report?;
        self.service.end.send_replace(Some(report.clone()));
        Ok(report)
    }

    async fn wind_down(
        self: &std::sync::Arc<Self>,
        drain: Option<Duration>,
        stop_runs: bool,
    ) -> Result<ShutdownReport, Failure> {
        self.service.draining.store(true, Ordering::Release);
        let before = self.going_on().await?;
        let deadline = Instant::now() + drain.unwrap_or_default().min(LONGEST_DRAIN);
        let mut left = before.clone();
        while !left.is_empty() && Instant::now() < deadline && !self.cancel.is_cancelled() {
            let rest = deadline.saturating_duration_since(Instant::now());
            tokio::time::sleep(DRAIN_LOOK.min(rest)).await;
            left = self.going_on().await?;
        }
        let mut stopped = Vec::new();
        if stop_runs {
            let stopping = left
                .iter()
                .map(|run| async move { (run.run.clone(), self.stop_run(run.run.as_str()).await) });
            for (run, result) in futures::future::join_all(stopping).await {
                match result {
                    Ok(_) => stopped.push(run),
                    Err(error) => tracing::warn!(%run, %error, "a run was not stopped"),
                }
            }
            left = self.going_on().await?;
        }
        let is_left = |run: &RunId| left.iter().any(|left| left.run == *run);
        let ended = before
            .into_iter()
            .map(|run| run.run)
            .filter(|run| !is_left(run) && !stopped.contains(run))
            .collect();
        Ok(ShutdownReport {
            pid: std::process::id(),
            ended,
            stopped,
            left,
        })
    }

    /// Runs that are not at rest.
    async fn going_on(&self) -> Result<Vec<LeftRun>, Failure> {
        let runs = self.store.unsettled_runs().await.or_fail()?;
        let left = |run: foreman_store::StoredRun| LeftRun {
            run: run.id,
            title: run.title,
            state: run.state.tag().to_owned(),
        };
        Ok(runs.into_iter().map(left).collect())
    }

    /// True when nothing runs and nothing waits for its turn.
    pub async fn is_idle(&self) -> Result<bool, Failure> {
        Ok(self.going_on().await?.is_empty() && !self.store.has_queued_work().await.or_fail()?)
    }
}

impl Host {
    /// Serves until told to end ([`Commands::shutdown`](crate::api::Commands::shutdown)) and says what
    /// it left. While another process hosts, it stands by and takes over when that one ends, which
    /// `took_over` is told. Ends by itself after `idle` without anything that runs or waits.
    ///
    /// # Errors
    /// What taking over answers.
    pub async fn serve(
        &self,
        idle: Option<Duration>,
        mut took_over: impl FnMut(),
    ) -> Result<ShutdownReport, Failure> {
        self.dispatch_orders();
        loop {
            let Some(hosting) = self.hosting() else {
                self.stand_by().await?;
                continue;
            };
            let engine = hosting.engine();
            engine.service.serves.store(true, Ordering::Release);
            took_over();
            let mut end = engine.service.end.subscribe();
            let told = async {
                match end.wait_for(Option::is_some).await.map(|end| end.clone()) {
                    Ok(Some(report)) => report,
                    // The sender lives in the engine, so this cannot be.
                    Ok(None) | Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                report = told => return Ok(report),
                report = idle_for(engine, idle) => return report,
                // Another engine is in charge.
                () = engine.cancel.cancelled() => self.step_down(&hosting).await?,
            }
        }
    }

    /// Drains a service of this process, as [`Commands::shutdown`](crate::api::Commands::shutdown) does
    /// from outside, and says what is left. `None` when this process hosts nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn end_service(
        &self,
        drain: Option<Duration>,
    ) -> Result<Option<ShutdownReport>, Failure> {
        match self.hosting() {
            Some(hosting) => hosting.engine().wind_down(drain, false).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Ends when nothing ran or waited for this long.
async fn idle_for(engine: &Engine, idle: Option<Duration>) -> Result<ShutdownReport, Failure> {
    let Some(idle) = idle else {
        return std::future::pending().await;
    };
    let mut since = Instant::now();
    loop {
        tokio::time::sleep(IDLE_LOOK.min(idle)).await;
        match engine.is_idle().await {
            Ok(true) if since.elapsed() >= idle => {
                return Ok(ShutdownReport {
                    pid: std::process::id(),
                    ended: vec![],
                    stopped: vec![],
                    left: vec![],
                });
            }
            Ok(true) => {}
            Ok(false) => since = Instant::now(),
            Err(error) => {
                tracing::warn!(%error, "it could not be found out whether anything is to do");
                since = Instant::now();
            }
        }
    }
}

/// One service of a data directory, as long as it lives. A second one would only stand by for ever.
#[derive(Debug)]
pub struct ServiceLock {
    _file: File,
}

impl ServiceLock {
    /// Takes it; `None` while another process is the service.
    ///
    /// # Errors
    /// When the data directory cannot be used.
    pub fn take(options: &HostOptions) -> Result<Option<Self>, Failure> {
        let path = Layout::prepare(options)?.state().join("service.lock");
        Ok(try_lock(&path)?.map(|file| Self { _file: file }))
    }
}

/// What a service says first, as one line of JSON on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// What it is.
    pub role: ServiceRole,
    /// Its process.
    pub pid: u32,
}

/// What a service is once it is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceRole {
    /// It hosts the engine.
    Hosting,
    /// Another process hosts; it takes over when that one ends.
    StandingBy,
    /// There is a service already; this process ends.
    Unneeded,
}

/// Starts `program serve` in a session of its own, so that queued work goes on when the caller ends.
/// Returns what it said once it hosts, stands by, or has found that there is a service already. It ends
/// by itself when nothing runs or waits any more. Its log is in the state directory. Blocking.
///
/// # Errors
/// [`Code::Environment`] when it cannot be started or does not come up.
pub fn serve_detached(program: &Path, options: &HostOptions) -> Result<Greeting, Failure> {
    let layout = Layout::prepare(options)?;
    let path = layout.state().join("serve.log");
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| io(format!("{} cannot be opened", path.display()), &error))?;
    let not_started =
        |error: std::io::Error| io(format!("{} cannot be started", program.display()), &error);
    let mut child = Command::new(program)
        .args(["serve", "--detached", "--json"])
        .current_dir("/")
        .env("FOREMAN_DATA_DIR", &layout.data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(not_started)?;
    let Some(output) = child.stdout.take() else {
        return Err(not_started(std::io::ErrorKind::BrokenPipe.into()));
    };
    // Its first line says that it is up; it closes its standard output then.
    let (sender, line) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut first = String::new();
        let read = BufReader::new(output).read_line(&mut first);
        // The receiver may have given up waiting.
        let _ = sender.send(read.map(|_| first));
        // Keeps an ended service from staying a zombie for as long as the caller lives.
        let _ = child.wait();
    });
    let greeting = line.recv_timeout(STARTING).map(Result::unwrap_or_default);
    match serde_json::from_str(&greeting.unwrap_or_default()) {
        Ok(greeting) => Ok(greeting),
        Err(_) => Err(Failure::new(
            Code::Environment,
            format!("{} serve did not come up", program.display()),
        )
        .hint(format!("Its log is {}.", path.display()))),
    }
}
