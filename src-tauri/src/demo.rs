//! The demo behind **Try it**: the program `foreman` makes a private world with an engine of its own in
//! it, and that engine answers every command until the demo is left.
//!
//! It lives as long as a pipe does that only this process holds open, so it never outlives the app,
//! however that ends. Nothing of the product knows of the demo: it is one more engine that is joined by
//! its control socket, and never taken over.

use crate::app::{DemoView, Navigation};
use crate::shell::{Shell, lock};
use foreman_domain::{Code, Failure};
use foreman_engine::{Guest, HostOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// The program that makes it.
const FOREMAN: &str = "foreman";
/// Longest wait for it to be ready.
const STARTING: Duration = Duration::from_secs(60);
/// Longest wait for it to end by itself, and then for each stronger word.
const ENDING: Duration = Duration::from_secs(20);
const FIRMLY: Duration = Duration::from_secs(5);
/// Longest line that it says.
const LONGEST: u64 = 64 * 1024;

/// A demo that is on.
#[derive(Debug)]
pub(crate) struct Demo {
    view: DemoView,
    /// Which one: another may have begun meanwhile.
    number: u32,
    /// Closing it ends the demo.
    leave: ChildStdin,
}

/// What it says when it is ready, or why it is not.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Said {
    Ready {
        data_dir: PathBuf,
        runtime_dir: Option<PathBuf>,
        repo: String,
        argv: Vec<String>,
        title: String,
    },
    Refused {
        error: Failure,
    },
}

/// The program `foreman`: beside this executable, or on `PATH`.
///
/// # Errors
/// [`Code::Environment`] when there is none.
pub fn foreman_program() -> Result<PathBuf, Failure> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.join(FOREMAN)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path).map(|folder| folder.join(FOREMAN)))
        .find(|path| path.is_absolute() && path.is_file())
        .ok_or_else(|| {
            Failure::new(Code::Environment, "the program foreman was not found")
                .hint("Install it beside this app.")
        })
}

impl Shell {
    /// The demo, while it is on.
    pub fn demo_view(&self) -> Option<DemoView> {
        lock(&self.demo).as_ref().map(|demo| demo.view.clone())
    }

    /// Starts it, or gives the one that is on.
    ///
    /// # Errors
    /// What its program answers, and when that is not there.
    pub async fn start_demo(self: &Arc<Self>) -> Result<DemoView, Failure> {
        let _one_at_a_time = self.starting_demo.lock().await;
        if let Some(view) = self.demo_view() {
            return Ok(view);
        }
        let mut child = spawn(self)?;
        let number = child.id().unwrap_or_default();
        let leave = child.stdin.take();
        let said = match timeout(STARTING, first_line(&mut child)).await {
            Ok(said) => said,
            Err(_) => Err(Failure::new(Code::Environment, "the demo does not come up")),
        };
        let joined = match said {
            Ok(Said::Ready {
                data_dir,
                runtime_dir,
                repo,
                argv,
                title,
            }) => {
                let options = HostOptions {
                    data_dir,
                    runtime_dir,
                    shim_program: None,
                };
                Guest::join(&options)
                    .await
                    .map(|guest| (guest, DemoView { repo, argv, title }))
            }
            Ok(Said::Refused { error }) => Err(error),
            Err(failure) => Err(failure),
        };
        let (guest, view, leave) = match (joined, leave) {
            (Ok((guest, view)), Some(leave)) => (guest, view, leave),
            (Ok(_), None) => return Err(no_pipe()),
            (Err(failure), leave) => {
                drop(leave);
                self.tasks.spawn(end(child));
                return Err(failure);
            }
        };
        *lock(&self.demo) = Some(Demo {
            view: view.clone(),
            number,
            leave,
        });
        self.engines.switch(Some(Arc::new(guest)));
        self.tasks
            .spawn(look_after(Arc::clone(self), number, child));
        Ok(view)
    }

    /// Leaves it: the operator's own engine answers again. What is left of the demo ends behind this.
    pub fn end_demo(&self) {
        let demo = lock(&self.demo).take();
        if let Some(demo) = demo {
            self.engines.switch(None);
            drop(demo.leave);
        }
    }

    /// The demo of this number is over.
    fn demo_is_over(&self, number: u32) -> bool {
        let is_this = lock(&self.demo)
            .as_ref()
            .is_some_and(|demo| demo.number == number);
        if is_this {
            self.end_demo();
        }
        is_this
    }
}

fn spawn(shell: &Shell) -> Result<Child, Failure> {
    let data_dir = shell.engines.options()?.data_dir.clone();
    Command::new(foreman_program()?)
        .args(["--json", "demo", "--hosted"])
        .env("FOREMAN_DATA_DIR", data_dir)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            Failure::new(
                Code::Environment,
                format!("the demo cannot be started: {error}"),
            )
        })
}

async fn first_line(child: &mut Child) -> Result<Said, Failure> {
    let output = child.stdout.take().ok_or_else(no_pipe)?;
    let mut output = BufReader::new(output.take(LONGEST));
    let mut line = String::new();
    let read = output.read_line(&mut line).await;
    // What it says later is read and dropped, so that it never waits for a reader.
    let mut rest = output.into_inner().into_inner();
    tokio::spawn(async move { tokio::io::copy(&mut rest, &mut tokio::io::sink()).await });
    read.map_err(|error| {
        Failure::new(Code::Environment, format!("the demo is not heard: {error}"))
    })?;
    serde_json::from_str(&line).map_err(|_| {
        Failure::new(Code::Environment, "the demo ended before it was ready")
            .hint("`foreman demo` in a terminal says more.")
    })
}

fn no_pipe() -> Failure {
    Failure::new(Code::Internal, "the demo has no pipes")
}

/// Waits for the end of the demo, wished for or not.
async fn look_after(shell: Arc<Shell>, number: u32, mut child: Child) {
    tokio::select! {
        _ = child.wait() => {
            if shell.demo_is_over(number) {
                shell.navigate(Navigation::Inbox {
                    sentence: Some("The demo has ended, and was left.".to_owned()),
                });
            }
            return;
        }
        () = left(&shell, number) => {}
    }
    end(child).await;
}

/// Ends when the demo of this number is not the one that is on.
async fn left(shell: &Shell, number: u32) {
    let mut switched = shell.engines.switches();
    loop {
        let is_on = lock(&shell.demo)
            .as_ref()
            .is_some_and(|demo| demo.number == number);
        if !is_on || switched.changed().await.is_err() {
            return;
        }
    }
}

/// Ends a demo whose pipe is closed: by itself, then when it is told to, then at once.
async fn end(mut child: Child) {
    if timeout(ENDING, child.wait()).await.is_ok() {
        return;
    }
    tracing::warn!("the demo does not end by itself");
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        // It has not been waited for, so the number is still its own.
        if let Err(error) = kill(Pid::from_raw(pid), Signal::SIGTERM) {
            tracing::warn!(%error, "the demo could not be told to end");
        }
    }
    if timeout(FIRMLY, child.wait()).await.is_err()
        && let Err(error) = child.kill().await
    {
        tracing::warn!(%error, "the demo could not be ended");
    }
}
