//! A scratch data directory, a scratch repository, and a host over them.

use foreman_domain::{BlockState, Event, EventKind, EventSeq, RunId, RunState};
use foreman_engine::api::{
    BlockList, BlockView, Commands, EventsRequest, RunCreate, RunRef, RunView,
};
use foreman_engine::{Host, HostOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything; far more than it takes.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub struct Scene {
    pub dir: TempDir,
}

impl Scene {
    pub fn new() -> Self {
        let scene = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir(scene.repo()).unwrap();
        scene.git(&["init", "-q", "-b", "main"]);
        std::fs::write(scene.repo().join("README"), "hello\n").unwrap();
        scene.git(&["add", "README"]);
        scene.git(&["commit", "-q", "-m", "start"]);
        scene
    }

    pub fn repo(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("repo")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("data")
    }

    /// Runs git in the repository as an operator would.
    pub fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Op", "-c", "user.email=op@example.com"])
            .args(args)
            .current_dir(self.repo())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        assert!(output.status.success(), "git {args:?}: {output:?}");
        text
    }

    pub fn options(&self) -> HostOptions {
        HostOptions {
            data_dir: self.data(),
            runtime_dir: Some(self.dir.path().join("xdg")),
            shim_program: Some(example("scripted_shim")),
        }
    }

    pub async fn host(&self) -> Host {
        Host::open(self.options()).await.unwrap()
    }

    /// A request whose agent follows this script.
    pub fn request(&self, script: &[&str]) -> RunCreate {
        let argv = ["scripted"]
            .iter()
            .chain(script)
            .map(|word| (*word).to_owned())
            .collect();
        RunCreate::new(self.repo(), argv)
    }

    /// Starts a run and waits until it is prepared, or is at rest because that failed.
    pub async fn start(&self, host: &Host, script: &[&str]) -> RunView {
        let run = host.run_create(self.request(script)).await.unwrap();
        prepared(host, &run.id).await
    }

    /// A process of its own that hosts the engine; killed when it is dropped.
    pub fn other_process(&self) -> OtherHost {
        self.process_that(&[])
    }

    /// The same, of a process that stays: it dispatches orders.
    pub fn other_dispatcher(&self) -> OtherHost {
        self.process_that(&["dispatch"])
    }

    fn process_that(&self, words: &[&str]) -> OtherHost {
        let options = self.options();
        let mut child = Command::new(example("host"))
            .arg(&options.data_dir)
            .arg(options.runtime_dir.unwrap())
            .arg(options.shim_program.unwrap())
            .args(words)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        OtherHost {
            child,
            role: line.trim().to_owned(),
        }
    }
}

pub struct OtherHost {
    child: std::process::Child,
    pub role: String,
}

impl OtherHost {
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for OtherHost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that is built beside the tests.
pub fn example(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples")
        .join(name);
    assert!(
        path.is_file(),
        "{} is not built: run `cargo test` for the whole crate",
        path.display()
    );
    path
}

pub fn named(run: &RunId) -> RunRef {
    RunRef {
        run: run.to_string(),
    }
}

/// Waits until the run's events fulfil a condition, and gives all events so far.
pub async fn events_until(
    host: &Host,
    run: &RunId,
    wanted: impl Fn(&[Event]) -> bool,
) -> Vec<Event> {
    let deadline = Instant::now() + DEADLINE;
    let mut events: Vec<Event> = Vec::new();
    loop {
        let after = events.last().map_or(EventSeq(0), |event| event.seq);
        let request = EventsRequest {
            run: run.to_string(),
            after,
            limit: 512,
            wait_ms: 1000,
            kinds: vec![],
            ..EventsRequest::default()
        };
        events.extend(host.run_events(request).await.unwrap().events);
        if wanted(&events) {
            return events;
        }
        assert!(
            Instant::now() < deadline,
            "it did not come to that: {events:#?}"
        );
    }
}

/// Waits until nothing is prepared for the run any more.
pub async fn prepared(host: &Host, run: &RunId) -> RunView {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let view = host.run_show(named(run)).await.unwrap();
        if view.state != RunState::Provisioning {
            return view;
        }
        assert!(Instant::now() < deadline, "it is never prepared: {view:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until the run is at rest.
pub async fn at_rest(host: &Host, run: &RunId) -> RunView {
    events_until(host, run, |events| {
        events.iter().rev().any(|event| {
            matches!(&event.kind, EventKind::State { to } if !to.is_live() && *to != RunState::Merging)
        })
    })
    .await;
    host.run_show(named(run)).await.unwrap()
}

/// Waits until the run has an open block.
pub async fn open_block(host: &Host, run: &RunId) -> BlockView {
    events_until(host, run, |events| {
        events.iter().any(|event| {
            matches!(&event.kind, EventKind::Block { block } if block.state == BlockState::Open)
        })
    })
    .await;
    let list = BlockList {
        run: Some(run.to_string()),
        all: false,
    };
    host.block_list(list)
        .await
        .unwrap()
        .blocks
        .pop()
        .expect("an open block")
}
