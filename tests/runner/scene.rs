//! One engine: prepares runs for its context, and is what the conformance suite tries.

use anyhow::{Context, Result, anyhow, ensure};
use foreman_cage::{Bind, CageSpec};
use foreman_domain::{Revision, RunId, StepKind, StepName};
use foreman_git::{Repository, Worktree};
use foreman_policy::{Bounds, Policy};
use foreman_runner::conformance::{Broken, CASES, Candidate};
use foreman_runner::{Launch, Local, Pipe, Place, RunnerContext, Source};
use foreman_shim::protocol::{
    HoldMode, OnFailure, ProxySettings, RunFiles, RunSpec, Stdio, StepSpec,
};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio as Standard};
use std::sync::Arc;

/// The user that payloads become where the engine is root.
const MAPPED: u32 = 2_000_000_123;

/// What an engine is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Setting {
    pub context: String,
    pub shim: PathBuf,
    pub station: Vec<String>,
    pub scratch: PathBuf,
    pub repository: PathBuf,
}

pub struct Scene(Setting);

/// Runs one case of the suite.
pub fn case(name: &str) -> Result<()> {
    let scene = crate::setting()?;
    let (_, run) = CASES
        .iter()
        .find(|(known, _)| *known == name)
        .with_context(|| format!("there is no case {name}"))?;
    let done = runtime()?.block_on(run(&scene));
    done.map_err(|error| anyhow!("{error}{}", scene.logs()))
}

/// Is the engine that launches a run and is killed.
pub fn engine(launch: &Path) -> Result<()> {
    let scene = crate::setting()?;
    let launch: Launch = serde_json::from_slice(&std::fs::read(launch)?)?;
    let context = scene.context();
    let runtime = runtime()?;
    runtime.block_on(context.launch(&launch))?;
    println!("launched");
    // Nothing else happens here: the parent kills this process.
    loop {
        std::thread::park();
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}

impl Scene {
    pub fn new(setting: Setting) -> Self {
        Self(setting)
    }

    fn is_local(&self) -> bool {
        self.0.context == "local"
    }

    /// What the shims of failed cases complained about.
    fn logs(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(&self.0.scratch)
            .into_iter()
            .flatten()
            .flatten()
        {
            if let Ok(log) = std::fs::read_to_string(entry.path().join("shim.log")) {
                text.push_str(&format!("\n{}: {log}", entry.path().display()));
            }
        }
        text
    }

    fn prepared(&self, script: &str, terminal: bool) -> Result<Launch> {
        let run = RunId::from_random(rand::random());
        let folder = self.0.scratch.join(run.as_str());
        std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let file = |name: &str| folder.join(name);
        let files = RunFiles {
            journal: file("journal.ndjson"),
            exit: file("exit.json"),
            socket: file("s"),
            identity: file("identity.json"),
            bundle: file("harvest.bundle"),
            log: file("shim.log"),
        };
        let repository = Repository::open(&self.0.repository)?;
        let pre = repository.preflight(None)?;
        let at = self.0.scratch.join(format!("worktree-{run}"));
        let (worktree, binds, source) = match self.is_local() {
            true => {
                let worktree = repository.create_worktree(&run, &pre, &at)?;
                let shadow_at = self.0.scratch.join(format!("shadow-{run}"));
                let shadow = repository.shadow(&worktree, &shadow_at)?;
                if nix::unistd::geteuid().is_root() {
                    give(&worktree.path)?;
                    give(&shadow_at)?;
                }
                let binds = shadow.binds.into_iter().map(|bind| Bind {
                    source: bind.source,
                    target: bind.target,
                    writable: bind.writable,
                });
                (worktree, binds.collect(), Source::Here)
            }
            false => {
                let worktree = Worktree::planned(&run, &pre, &at);
                let branch = &worktree.branch;
                self.git(&["branch", "-q", branch, &worktree.base_commit])?;
                let bundle = file("repository.bundle");
                let path = bundle.display().to_string();
                let full = format!("refs/heads/{branch}");
                self.git(&["bundle", "create", "-q", &path, &full])?;
                let source = Source::Bundle {
                    file: bundle,
                    branch: branch.clone(),
                    base_branch: worktree.base_branch.clone(),
                };
                (worktree, Vec::new(), source)
            }
        };
        let nonce = format!("{:032x}", rand::random::<u128>());
        let spec = RunSpec {
            v: 1,
            run: run.clone(),
            nonce: nonce.clone(),
            files: files.clone(),
            cage: self.cage(&run, &worktree, binds),
            policy: Policy {
                revision: Revision(1),
                ..Policy::default()
            },
            hold: HoldMode::Hold,
            hold_reads: false,
            bounds: Bounds::default(),
            steps: steps(script, terminal, &worktree, &files),
            base: worktree.base_commit,
            proxy: ProxySettings::default(),
            secrets: Vec::new(),
            key: None,
            continues: None,
        };
        let place = Place {
            run,
            nonce,
            files,
            spec: file("spec.json"),
        };
        Ok(Launch {
            place,
            spec,
            source,
            secrets: Vec::new(),
        })
    }

    fn cage(&self, run: &RunId, worktree: &Worktree, binds: Vec<Bind>) -> CageSpec {
        let home = std::env::var("HOME").unwrap_or_default();
        let env = [
            ("PATH", "/run/foreman/bin:/usr/local/bin:/usr/bin:/bin"),
            ("HOME", &home),
            ("LANG", "C.UTF-8"),
            ("GIT_AUTHOR_NAME", "Runner"),
            ("GIT_AUTHOR_EMAIL", "runner@example.org"),
            ("GIT_COMMITTER_NAME", "Runner"),
            ("GIT_COMMITTER_EMAIL", "runner@example.org"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", "*"),
        ];
        CageSpec {
            hostname: run.to_string(),
            workdir: worktree.path.clone(),
            home: home.clone().into(),
            binds,
            hidden: Vec::new(),
            env: env
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            why_program: self.0.shim.clone(),
            processes: 256,
            root_maps_to: MAPPED,
            accept_weaker: Vec::new(),
            confinement: foreman_cage::Confinement::Namespaces,
            private: None,
        }
    }

    fn git(&self, arguments: &[&str]) -> Result<()> {
        let out = Command::new("git")
            .args(arguments)
            .current_dir(&self.0.repository)
            .output()?;
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        ensure!(out.status.success(), "git {arguments:?}: {said}");
        Ok(())
    }

    fn launched_and_killed(&self, launch: &Launch) -> Result<()> {
        let file = launch.place.spec.with_extension("launch");
        std::fs::write(&file, serde_json::to_vec(launch)?)?;
        let mut engine = Command::new(std::env::current_exe()?)
            .arg("engine")
            .arg(&file)
            .stdin(Standard::null())
            .stdout(Standard::piped())
            .spawn()?;
        let mut said = String::new();
        let out = engine.stdout.take().context("a pipe")?;
        BufReader::new(out).read_line(&mut said)?;
        engine.kill()?;
        engine.wait()?;
        ensure!(said == "launched\n", "the engine said {said:?}");
        Ok(())
    }
}

impl Candidate for Scene {
    fn context(&self) -> Arc<dyn RunnerContext> {
        match self.is_local() {
            true => Arc::new(Local::new(self.0.shim.clone())),
            false => {
                let argv = self.0.station.iter().map(Into::into).collect();
                Arc::new(Pipe::to_program("the other machine", argv))
            }
        }
    }

    fn prepare(&self, script: &str, terminal: bool) -> Result<Launch, Broken> {
        self.prepared(script, terminal)
            .map_err(|error| Broken::new(format!("it cannot be prepared: {error:#}")))
    }

    fn launch_by_a_killed_engine(&self, launch: &Launch) -> Result<(), Broken> {
        self.launched_and_killed(launch)
            .map_err(|error| Broken::new(format!("{error:#}")))
    }

    fn destination(&self) -> (String, u16, String) {
        let answer = "hello from the far side".to_owned();
        ("runner.example".to_owned(), 80, answer)
    }

    fn repository(&self) -> PathBuf {
        self.0.repository.clone()
    }
}

fn steps(script: &str, terminal: bool, worktree: &Worktree, files: &RunFiles) -> Vec<StepSpec> {
    let step = |name: &str, kind, argv: Vec<String>, stdio| StepSpec {
        name: StepName(name.to_owned()),
        kind,
        argv,
        env: Vec::new(),
        stdio,
        on_failure: OnFailure::Continue,
        conversation: None,
    };
    let stdio = match terminal {
        true => Stdio::Terminal {
            columns: 90,
            rows: 30,
        },
        false => Stdio::Journal,
    };
    let agent = ["sh", "-c", script].map(str::to_owned).to_vec();
    let file = Stdio::File {
        path: files.bundle.clone(),
        limit: 1 << 30,
    };
    vec![
        step("agent", StepKind::Agent, agent, stdio),
        step(
            "finish",
            StepKind::Finish,
            worktree.finish_argv(),
            Stdio::Journal,
        ),
        step("harvest", StepKind::Harvest, worktree.harvest_argv(), file),
    ]
}

/// Gives a tree to the user that payloads become.
fn give(path: &Path) -> std::io::Result<()> {
    lchown(path, Some(MAPPED), Some(MAPPED))?;
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path())?;
        }
    }
    Ok(())
}
