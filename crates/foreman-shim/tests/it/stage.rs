//! A run's folder, spec and shim, for tests. Everything is removed when it is dropped.

use foreman_cage::{Bind, CageSpec};
use foreman_domain::{Epoch, Event, EventKind, EventSeq, Revision, RunId, StepKind, StepName};
use foreman_policy::{Bounds, Policy};
use foreman_shim::client::{Hello, ShimClient};
use foreman_shim::launch::start_shim;
use foreman_shim::protocol::{
    ExitRecord, HoldMode, OnFailure, ProxySettings, RunFiles, RunSpec, ShimIdentity, Stdio,
    StepSpec,
};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The shim under test. `FOREMAN_SHIM` names another copy, where the user who runs these tests cannot
/// read the build's own folder.
pub fn shim() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_foreman-shim").into();
    std::env::var_os("FOREMAN_SHIM")
        .unwrap_or_else(built)
        .into()
}

/// Nothing in these tests takes longer, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Host user of the payload when the tests run as root.
const NOBODY: u32 = 65_534;

pub struct Stage {
    pub spec: RunSpec,
    /// Whether the shim must have nothing to log.
    pub is_quiet: bool,
    /// Dropped before the run's folder is removed.
    pub guard: Option<Box<dyn Send>>,
    dir: tempfile::TempDir,
}

pub struct Running {
    pub identity: ShimIdentity,
    pub client: ShimClient,
    pub stage: Stage,
    pub events: Vec<Event>,
}

pub fn step(kind: StepKind, script: &str) -> StepSpec {
    StepSpec {
        name: StepName(
            serde_json::to_value(kind)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned(),
        ),
        kind,
        argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: vec![],
        stdio: Stdio::Journal,
        on_failure: OnFailure::SkipToFinish,
        conversation: None,
    }
}

pub fn policy() -> Policy {
    Policy {
        revision: Revision(1),
        ..Policy::default()
    }
}

impl Stage {
    /// A run with these steps, an empty policy and an empty worktree.
    pub fn new(steps: Vec<StepSpec>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = dir.path().canonicalize().unwrap();
        let worktree = root.join("worktree");
        std::fs::create_dir(&worktree).unwrap();
        if nix::unistd::geteuid().is_root() {
            chown(&worktree, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let run = RunId::from_random(rand::random());
        let private = root.join("run");
        std::fs::create_dir(&private).unwrap();
        std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
        let file = |name: &str| private.join(name);
        let spec = RunSpec {
            v: 1,
            run,
            nonce: "00112233445566778899aabbccddeeff".into(),
            files: RunFiles {
                journal: file("journal.ndjson"),
                exit: file("exit.json"),
                socket: file("s"),
                identity: file("identity.json"),
                bundle: file("harvest.bundle"),
                log: file("shim.log"),
            },
            cage: CageSpec {
                hostname: "cage".into(),
                workdir: "/home/agent/worktree".into(),
                home: "/home/agent".into(),
                binds: vec![Bind {
                    source: worktree,
                    target: "/home/agent/worktree".into(),
                    writable: true,
                }],
                env: vec![
                    (
                        "PATH".into(),
                        "/run/foreman/bin:/usr/local/bin:/usr/bin:/bin".into(),
                    ),
                    ("HOME".into(), "/home/agent".into()),
                ],
                why_program: shim(),
                processes: 256,
                root_maps_to: NOBODY,
                hidden: vec![],
                accept_weaker: vec![],
                confinement: foreman_cage::Confinement::Namespaces,
                private: None,
            },
            policy: policy(),
            hold_reads: false,
            hold: HoldMode::Hold,
            bounds: Bounds::default(),
            steps,
            base: "0".repeat(40),
            proxy: ProxySettings::default(),
            secrets: Vec::new(),
            key: None,
            continues: None,
        };
        Self {
            spec,
            is_quiet: true,
            guard: None,
            dir,
        }
    }

    pub fn agent(script: &str) -> Self {
        Self::new(vec![step(StepKind::Agent, script)])
    }

    pub fn worktree(&self) -> PathBuf {
        self.dir.path().join("worktree")
    }

    pub async fn start(self) -> Running {
        let spec_file = self.dir.path().join("run/spec.json");
        std::fs::write(&spec_file, serde_json::to_vec(&self.spec).unwrap()).unwrap();
        let started = tokio::task::spawn_blocking(move || start_shim(&shim(), &spec_file, &[]));
        let identity = started
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{error}"));
        let (client, welcome) = ShimClient::connect(&self.spec.files.socket, self.hello(1))
            .await
            .unwrap();
        assert_eq!(welcome.identity, identity);
        Running {
            identity,
            client,
            stage: self,
            events: vec![],
        }
    }

    pub fn hello(&self, epoch: u64) -> Hello {
        let (run, nonce) = (self.spec.run.clone(), self.spec.nonce.clone());
        Hello {
            run,
            nonce,
            epoch: Epoch(epoch),
            run_epoch: foreman_domain::RunEpoch(1),
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.spec.files.log).unwrap_or_default()
    }

    pub fn exit_record(&self) -> ExitRecord {
        serde_json::from_slice(&std::fs::read(&self.spec.files.exit).unwrap()).unwrap()
    }
}

impl Running {
    /// Pulls events until one is found by `find`.
    pub async fn until<T>(&mut self, what: &str, mut find: impl FnMut(&Event) -> Option<T>) -> T {
        if let Some(found) = self.events.iter().find_map(&mut find) {
            return found;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no {what} in {:#?}", self.events);
            let fresh = self.pull().await;
            let found = fresh.0.iter().find_map(&mut find);
            self.events.extend(fresh.0);
            match found {
                Some(found) => return found,
                None => assert!(!fresh.1, "the run ended without {what}: {:#?}", self.events),
            }
        }
    }

    async fn pull(&mut self) -> (Vec<Event>, bool) {
        let last = self.events.last().map_or(EventSeq(0), |event| event.seq);
        let page = self.client.events(last, 512, 2_000).await.unwrap();
        let mut wanted = last;
        for event in &page.events {
            wanted = wanted.next();
            assert_eq!(event.seq, wanted, "no event is lost or doubled");
        }
        (page.events, page.ended)
    }

    /// Waits for the end of the run and of its shim.
    pub async fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(
                Instant::now() < deadline,
                "it did not end: {:#?}",
                self.events
            );
            let (fresh, ended) = self.pull().await;
            self.events.extend(fresh);
            if ended {
                break;
            }
        }
        wait_until("the shim is gone", || !self.identity.is_alive()).await;
        assert!(
            !self.stage.spec.files.socket.exists(),
            "its socket is gone, too"
        );
        let record = self.stage.exit_record();
        let last = self.events.last().map_or(EventSeq(0), |event| event.seq);
        assert_eq!(record.last_seq, last);
        if self.stage.is_quiet {
            assert_eq!(
                self.stage.log(),
                "",
                "the shim had nothing to complain about"
            );
        }
        Ended {
            record,
            events: self.events,
            stage: self.stage,
        }
    }
}

pub struct Ended {
    pub record: ExitRecord,
    pub events: Vec<Event>,
    pub stage: Stage,
}

impl Ended {
    /// Output of all steps, lines joined.
    pub fn output(&self) -> String {
        output_of(&self.events)
    }
}

pub fn output_of(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events {
        if let EventKind::Output {
            text: line,
            continued,
            ..
        } = &event.kind
        {
            text.push_str(line);
            if !continued {
                text.push('\n');
            }
        }
    }
    text
}

/// Finds a line of output.
pub fn says<'a>(wanted: &'a str) -> impl FnMut(&Event) -> Option<()> + 'a {
    move |event| match &event.kind {
        EventKind::Output { text, .. } if text.contains(wanted) => Some(()),
        _ => None,
    }
}

pub async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Processes on the host whose command line holds `mark`.
pub fn processes_with(mark: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if pid != std::process::id() && String::from_utf8_lossy(&line).contains(mark) {
            found.push(pid);
        }
    }
    found
}
