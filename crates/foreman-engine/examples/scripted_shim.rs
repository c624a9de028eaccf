//! A stand-in for the supervisor, for the engine's own tests on machines where no cage can be built.
//!
//! It speaks the real runner protocol over a real socket, as a real process of its own, keeps a real
//! journal and leaves a real exit record; but it builds no cage and runs no program. Its agent's
//! command line is a script of words:
//!
//! `line:TEXT` says a line · `hold:HOST` tries HOST:443 and waits while it is held · `commit:FILE`
//! makes a commit that adds a file · `exit:N` ends the agent with a code · `wait` waits to be stopped ·
//! `crash` dies without a result.

use foreman_domain::{
    AgentEvent, At, Block, BlockId, BlockState, CancelCause, ConnectVerdict, Decider, EventKind,
    EventSeq, HoldId, Host, LogStream, Outcome, Protocol, RunState, StepKind, StepName, StepResult,
    Subject, Wall,
};
use foreman_policy::{Policy, Question, Ruling};
use foreman_shim::doctor::{DoctorFindings, WallFinding};
use foreman_shim::journal::{Writer, read_after};
use foreman_shim::protocol::{ExitRecord, HoldMode, Request, Response, RunSpec, ShimIdentity};
use foreman_shim::wire::{Refusal, RequestLine, ResponseLine, RpcError, Version};
use futures::{SinkExt, StreamExt};
use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::codec::{Framed, LinesCodec};

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Done<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["doctor", "--json"] => doctor(),
        ["run", spec] => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(run(Path::new(spec)))
        }
        _ => Err("doctor --json | run SPEC".into()),
    }
}

/// All walls "hold", unless a file beside this program names one that does not.
fn doctor() -> Done<()> {
    let broken = std::env::current_exe()?.with_file_name("broken-wall");
    let broken = std::fs::read_to_string(broken).unwrap_or_default();
    let walls = [
        Wall::UserNamespace,
        Wall::Mounts,
        Wall::Network,
        Wall::Dns,
        Wall::Seccomp,
        Wall::Git,
    ];
    let finding = |wall: Wall| WallFinding {
        wall,
        holds: broken.trim() != wall.name(),
        required: wall.is_required(),
        detail: "scripted".into(),
        remedy: Some("mend it".into()),
    };
    let walls = walls.map(finding).to_vec();
    let findings = DoctorFindings {
        v: 1,
        walls,
        gate: (broken.trim() != Wall::Network.name()).then(|| "a script".into()),
        landlock_abi: None,
        files: None,
        without_namespaces: Vec::new(),
    };
    Ok(serde_json::to_writer(std::io::stdout(), &findings)?)
}

fn host(name: &str) -> Subject {
    Subject::Egress {
        protocol: Protocol::Tcp,
        host: Host::Name(name.to_owned()),
        port: 443,
        resolved: None,
    }
}

fn question(tool: &str) -> Subject {
    Subject::Question {
        agent: "scripted".to_owned(),
        tool: tool.to_owned(),
        arguments: "{}".to_owned(),
    }
}

struct Shim {
    spec: RunSpec,
    identity: ShimIdentity,
    began: std::time::Instant,
    writer: Mutex<Writer>,
    policy: Mutex<Policy>,
    blocks: Mutex<Vec<Block>>,
    news: watch::Sender<u64>,
    stop: watch::Sender<bool>,
    ended: watch::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(spec: &Path) -> Done<()> {
    let spec: RunSpec = serde_json::from_slice(&std::fs::read(spec)?)?;
    let writer = Writer::open(&spec.files.journal, spec.run.clone(), EventSeq(1))?;
    let identity = ShimIdentity::of_this_process(spec.run.clone())?;
    let part = spec.files.identity.with_extension("part");
    std::fs::write(&part, serde_json::to_vec(&identity)?)?;
    std::fs::rename(&part, &spec.files.identity)?;
    let _ = std::fs::remove_file(&spec.files.socket);
    let listener = UnixListener::bind(&spec.files.socket)?;
    let shim = Arc::new(Shim {
        policy: Mutex::new(spec.policy.clone()),
        spec,
        identity,
        began: std::time::Instant::now(),
        writer: Mutex::new(writer),
        blocks: Mutex::default(),
        news: watch::channel(0).0,
        stop: watch::channel(false).0,
        ended: watch::channel(false).0,
    });
    let serving = tokio::spawn(serve(listener, Arc::clone(&shim)));
    let record = shim.carry_out().await?;
    let part = shim.spec.files.exit.with_extension("part");
    std::fs::write(&part, serde_json::to_vec(&record)?)?;
    std::fs::rename(&part, &shim.spec.files.exit)?;
    shim.ended.send_replace(true);
    shim.news.send_modify(|news| *news += 1);
    // Whoever is connected may still read the end.
    let _ = tokio::time::timeout(Duration::from_millis(300), serving).await;
    let _ = std::fs::remove_file(&shim.spec.files.socket);
    Ok(())
}

impl Shim {
    fn say(&self, kind: EventKind, step: Option<&str>) -> Done<()> {
        let step = step.map(|name| StepName(name.to_owned()));
        let mut writer = lock(&self.writer);
        writer.append(kind, step, None)?;
        writer.sync()?;
        drop(writer);
        self.news.send_modify(|news| *news += 1);
        Ok(())
    }

    async fn carry_out(&self) -> Done<ExitRecord> {
        let mut steps = Vec::new();
        let mut verdict = None;
        for step in &self.spec.steps {
            let name = Some(step.name.0.as_str());
            let is_at_rest = self.spec.continues.as_ref().is_some_and(|run| run.at_rest);
            if !is_at_rest {
                self.say(
                    EventKind::State {
                        to: RunState::Running {
                            step: step.name.clone(),
                        },
                    },
                    name,
                )?;
            }
            self.say(
                EventKind::StepStarted {
                    what: step.kind,
                    argv: step.argv.clone(),
                },
                name,
            )?;
            let result = match step.kind {
                StepKind::Agent => self.agent(&step.argv).await?,
                StepKind::Check => self.check(&step.argv, name).await?,
                _ => StepResult::Succeeded,
            };
            if matches!(result, StepResult::Stopped { .. }) {
                verdict = Some(Outcome::Cancelled {
                    by: CancelCause::Operator,
                });
            }
            self.say(
                EventKind::StepEnded {
                    result: result.clone(),
                    millis: 1,
                },
                name,
            )?;
            steps.push((step.name.clone(), step.kind, result));
        }
        let last_seq = lock(&self.writer).last_seq();
        Ok(ExitRecord {
            run: self.spec.run.clone(),
            last_seq,
            steps,
            verdict,
            head: None,
            killed: 0,
            breach: None,
            fence: foreman_domain::Fence::default(),
        })
    }

    /// A check that begins with `sh:` is run by a shell in the folder that a cage would show; any other
    /// one succeeds.
    async fn check(&self, argv: &[String], step: Option<&str>) -> Done<StepResult> {
        let command = argv.last().map(String::as_str).unwrap_or_default();
        let Some(command) = command.strip_prefix("sh:") else {
            return Ok(StepResult::Succeeded);
        };
        let cage = &self.spec.cage;
        let mut binds = cage.binds.iter().filter(|bind| bind.target == cage.workdir);
        let folder = binds.next_back().ok_or("no folder to check in")?;
        let mut child = tokio::process::Command::new("sh")
            .args(["-c", command])
            .current_dir(&folder.source)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut out = child.stdout.take().ok_or("no pipe")?;
        let mut text = String::new();
        let mut stop = self.stop.subscribe();
        let read = tokio::io::AsyncReadExt::read_to_string(&mut out, &mut text);
        tokio::select! {
            read = read => drop(read?),
            _ = stop.wait_for(|stop| *stop) => {
                return Ok(StepResult::Stopped { why: "asked to stop".into() });
            }
        }
        for line in text.lines() {
            let kind = EventKind::Output {
                stream: LogStream::Stdout,
                text: line.to_owned(),
                raw: None,
                continued: false,
            };
            self.say(kind, step)?;
        }
        Ok(match child.wait().await?.code() {
            Some(0) => StepResult::Succeeded,
            Some(code) => StepResult::Exited {
                code: u8::try_from(code).unwrap_or(255),
            },
            None => StepResult::Signalled { signal: 9 },
        })
    }

    async fn agent(&self, script: &[String]) -> Done<StepResult> {
        if !self.spec.files.bundle.exists() {
            std::fs::write(
                &self.spec.files.bundle,
                format!("head {}\nnone\n", self.spec.base),
            )?;
        }
        for word in script.iter().skip(1) {
            let (verb, rest) = word.split_once(':').unwrap_or((word, ""));
            match verb {
                "line" => self.say(
                    EventKind::Output {
                        stream: LogStream::Stdout,
                        text: rest.into(),
                        raw: None,
                        continued: false,
                    },
                    Some("agent"),
                )?,
                "hold" | "ask" => {
                    let subject = match verb {
                        "hold" => host(rest),
                        _ => question(rest),
                    };
                    if !self.attempt(&subject).await? {
                        return Ok(StepResult::Stopped {
                            why: "asked to stop".into(),
                        });
                    }
                }
                "commit" => commit(&self.spec, rest)?,
                "exit" => match rest.parse()? {
                    0 => return Ok(StepResult::Succeeded),
                    code => return Ok(StepResult::Exited { code }),
                },
                "wait" => {
                    self.stop.subscribe().wait_for(|stop| *stop).await?;
                    return Ok(StepResult::Stopped {
                        why: "asked to stop".into(),
                    });
                }
                "crash" => std::process::abort(),
                _ => return Err(format!("what is {word}?").into()),
            }
        }
        Ok(StepResult::Succeeded)
    }

    /// Tries something; waits while it is held. False when the run is to stop.
    async fn attempt(&self, subject: &Subject) -> Done<bool> {
        let mut news = self.news.subscribe();
        let mut held: Option<Block> = None;
        loop {
            let (revision, ruling) = {
                let policy = lock(&self.policy);
                let hold = held.as_ref().map(|block| block.last_hold);
                let question = Question {
                    subject,
                    hold,
                    under: None,
                };
                (policy.revision, policy.judge(question, At::now()))
            };
            let verdict = match ruling {
                Ruling::Allow { rule, .. } => ConnectVerdict::Allowed { rule: rule.0 },
                Ruling::Refuse { by, why, .. } => ConnectVerdict::Refused { by, why },
                Ruling::Ask { why } if self.spec.hold == HoldMode::Refuse => {
                    let by = Decider::Unattended;
                    let denied = BlockState::Denied {
                        by,
                        reason: String::new(),
                    };
                    let block = self.block(subject, revision, &why, denied);
                    self.say(EventKind::Block { block }, Some("agent"))?;
                    ConnectVerdict::Refused { by, why }
                }
                Ruling::Ask { why } => {
                    if held.is_none() {
                        let block = self.block(subject, revision, &why, BlockState::Open);
                        self.say(
                            EventKind::Block {
                                block: block.clone(),
                            },
                            Some("agent"),
                        )?;
                        held = Some(block);
                    }
                    let mut stop = self.stop.subscribe();
                    tokio::select! {
                        changed = news.changed() => changed?,
                        _ = stop.wait_for(|stop| *stop) => return Ok(false),
                    }
                    continue;
                }
            };
            self.say(
                EventKind::Egress {
                    subject: subject.clone(),
                    verdict,
                    count: 1,
                },
                Some("agent"),
            )?;
            return Ok(true);
        }
    }

    fn block(
        &self,
        subject: &Subject,
        revision: foreman_domain::Revision,
        why: &str,
        state: BlockState,
    ) -> Block {
        let mut blocks = lock(&self.blocks);
        let number = blocks.len() as u32 + 1;
        let block = Block {
            id: BlockId::new(self.spec.run.clone(), number),
            subject: subject.clone(),
            waiting: u32::from(state == BlockState::Open),
            state,
            why: why.to_owned(),
            address_vetted: true,
            file: None,
            seen: 1,
            last_hold: HoldId(u64::from(number)),
            revision,
            first_at: At::now(),
            last_at: At::now(),
            holders: vec![],
            socket: None,
            breach: None,
            question: None,
        };
        blocks.push(block.clone());
        block
    }

    async fn answer(&self, request: Request) -> Done<Result<Response, RpcError>> {
        Ok(Ok(match request {
            Request::Hello { run, nonce, .. } => {
                if run != self.spec.run || nonce != self.spec.nonce {
                    return Ok(Err(Refusal::NotIntroduced.says("who are you?")));
                }
                Response::Welcome {
                    identity: self.identity.clone(),
                    last_seq: lock(&self.writer).last_seq(),
                    revision: lock(&self.policy).revision,
                    measures: true,
                    publishes: false,
                    hears: true,
                }
            }
            Request::Events {
                after,
                limit,
                wait_ms,
            } => {
                let deadline = tokio::time::Instant::now() + Duration::from_millis(wait_ms.into());
                let mut news = self.news.subscribe();
                loop {
                    let ended = *self.ended.borrow();
                    let events = read_after(&self.spec.files.journal, after, limit as usize)?;
                    let waited = tokio::time::Instant::now() >= deadline;
                    if !events.is_empty() || ended || waited {
                        let ended = ended && events.is_empty();
                        let events = events.into_iter().map(Into::into).collect();
                        break Response::Events { events, ended };
                    }
                    let _ = tokio::time::timeout_at(deadline, news.changed()).await;
                }
            }
            Request::Apply {
                policy,
                amendment,
                block,
            } => {
                let now = lock(&self.policy).revision;
                if policy.revision != now.next() {
                    return Ok(Err(Refusal::Stale.says("not the next revision")));
                }
                let revision = policy.revision;
                *lock(&self.policy) = *policy;
                self.say(
                    EventKind::Amendment {
                        amendment: *amendment,
                    },
                    None,
                )?;
                let released = u32::from(block.is_some());
                self.say(
                    EventKind::PolicyApplied {
                        revision,
                        released,
                        refused: 0,
                        cut: 0,
                    },
                    None,
                )?;
                Response::Applied {
                    released,
                    refused: 0,
                    cut: 0,
                }
            }
            Request::Measure => {
                let elapsed_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(0);
                Response::Measured {
                    usage: foreman_shim::protocol::Usage {
                        elapsed_ms,
                        cpu_ms: Some(elapsed_ms / 2),
                        memory_bytes: Some(42 << 20),
                        processes: Some(3),
                        disk_bytes: None,
                        wall_left_ms: None,
                    },
                }
            }
            Request::Say { by, text, .. } => {
                let event = AgentEvent::Told { by, text };
                self.say(EventKind::Agent { event }, None)?;
                Response::Done
            }
            Request::Stop { .. } => {
                self.stop.send_replace(true);
                Response::Done
            }
            Request::Input { .. } | Request::Resize { .. } => Response::Done,
            Request::Shell { .. }
            | Request::ShellRead { .. }
            | Request::ShellInput { .. }
            | Request::ShellResize { .. }
            | Request::ShellEnd { .. }
            | Request::PublishPort { .. }
            | Request::PublishedPorts
            | Request::ClosePort { .. } => {
                return Ok(Err(Refusal::NoStep.says("there is no cage here")));
            }
        }))
    }
}

async fn serve(listener: UnixListener, shim: Arc<Shim>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, Arc::clone(&shim)));
    }
}

/// Requests are answered at the same time: a long poll does not keep a decision waiting.
async fn connection(stream: UnixStream, shim: Arc<Shim>) {
    let (answers, mut lines) = Framed::new(stream, LinesCodec::new()).split();
    let answers = Arc::new(tokio::sync::Mutex::new(answers));
    while let Some(Ok(line)) = lines.next().await {
        let (shim, answers) = (Arc::clone(&shim), Arc::clone(&answers));
        tokio::spawn(async move {
            let line: RequestLine = serde_json::from_str(&line).ok()?;
            let (result, error) = match shim.answer(line.request).await.ok()? {
                Ok(result) => (Some(result), None),
                Err(error) => (None, Some(error)),
            };
            let answer = ResponseLine {
                jsonrpc: Version::V2,
                id: Some(line.id),
                result,
                error,
            };
            answers
                .lock()
                .await
                .send(serde_json::to_string(&answer).ok()?)
                .await
                .ok()
        });
    }
}

/// A commit on top of what was committed before, as the harvest step would have printed it.
fn commit(spec: &RunSpec, file: &str) -> Done<()> {
    let folder = spec.files.journal.parent().ok_or("no folder")?;
    let scratch: PathBuf = folder.join("scratch.git");
    let objects = spec
        .cage
        .binds
        .iter()
        .find(|bind| bind.target.starts_with("/run/foreman"));
    let objects = &objects.ok_or("no objects")?.source;
    let git = |args: &[&str], input: &[u8]| -> Done<Vec<u8>> {
        let mut child = Command::new("git")
            .args(args)
            .env("GIT_DIR", &scratch)
            .env("GIT_INDEX_FILE", scratch.join("scripted-index"))
            .envs(
                spec.cage
                    .env
                    .iter()
                    .filter(|(name, _)| name.starts_with("GIT_"))
                    .cloned(),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        child.stdin.take().ok_or("no stdin")?.write_all(input)?;
        let output = child.wait_with_output()?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(format!("git {args:?} failed").into()),
        }
    };
    let word = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    if !scratch.exists() {
        git(&["init", "-q", "--bare"], b"")?;
        std::fs::write(
            scratch.join("objects/info/alternates"),
            format!("{}\n", objects.display()),
        )?;
        git(&["update-ref", "refs/foreman/harvest", &spec.base], b"")?;
        git(&["read-tree", &spec.base], b"")?;
    }
    let parent = word(git(&["rev-parse", "refs/foreman/harvest"], b"")?);
    let blob = word(git(
        &["hash-object", "-w", "--stdin"],
        format!("{file}\n").as_bytes(),
    )?);
    git(
        &[
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("100644,{blob},{file}"),
        ],
        b"",
    )?;
    let tree = word(git(&["write-tree"], b"")?);
    // Two runs that do the same in the same second make two commits all the same.
    let message = format!("add {file}\n\nRun: {}", spec.run);
    let head = word(git(
        &["commit-tree", &tree, "-p", &parent, "-m", &message],
        b"",
    )?);
    git(&["update-ref", "refs/foreman/harvest", &head], b"")?;
    let range = format!("^{}", spec.base);
    let bundle = git(
        &[
            "bundle",
            "create",
            "-q",
            "--version=2",
            "-",
            "refs/foreman/harvest",
            &range,
        ],
        b"",
    )?;
    let mut text = format!("head {head}\nbundle\n").into_bytes();
    text.extend(bundle);
    Ok(std::fs::write(&spec.files.bundle, text)?)
}
