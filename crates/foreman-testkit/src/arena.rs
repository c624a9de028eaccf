//! A live cage that runs commands for a test: the agent is `fm-attack agent`, which takes requests
//! as files in its worktree (the one place that both sides can write) and runs each as a process.
//! One cage thus serves many attacks, each in a process of its own, several at a time.
//!
//! What a command that is run to its end does to files outside of the cage is held like anything else; the
//! arena's operator denies it. A test that wants to decide itself starts its command and waits for it.

use crate::{LiveRun, Product, repos, until};
use anyhow::{Context, Result, ensure};
use foreman_domain::{BlockId, BlockState, EventKind, Subject};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The folder of requests in the worktree.
pub const FOLDER: &str = ".arena";

/// What became of a command in the cage.
#[derive(Debug, Clone, Deserialize)]
pub struct Reply {
    /// Exit code; 128 + signal when it was killed; 127 when it did not start.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it ran, in milliseconds.
    pub millis: u64,
}

impl Reply {
    /// The JSON line that an attack prints.
    ///
    /// # Errors
    /// It printed none.
    pub fn json(&self) -> Result<Value> {
        self.stdout
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str(line).ok())
            .with_context(|| format!("no JSON in {self:?}"))
    }
}

/// A cage with its world and its run.
#[derive(Debug)]
pub struct Arena<'a> {
    product: Product<'a>,
    run: LiveRun,
    id: String,
    worktree: PathBuf,
    next: AtomicU32,
    seen: Mutex<Seen>,
}

/// The blocks of files and sockets that are open, and how many events were looked at.
#[derive(Debug, Default)]
struct Seen {
    events: usize,
    open: BTreeSet<BlockId>,
}

impl<'a> Arena<'a> {
    /// Starts a run whose agent waits for commands. `options` are more options of `foreman run`.
    ///
    /// # Errors
    /// The run did not start.
    pub fn new(product: Product<'a>, options: &[&str]) -> Result<Self> {
        let bench = product.bench();
        let repo = repos::plain(bench, "arena")?;
        Self::in_repository(product, &repo, options)
    }

    /// As [`Arena::new`], in a repository of the caller's.
    ///
    /// # Errors
    /// The run did not start.
    pub fn in_repository(product: Product<'a>, repo: &Path, options: &[&str]) -> Result<Self> {
        let bench = product.bench();
        let policy = bench.scratch("policy")?.join("tools.toml");
        let tools = format!("[[read]]\npath = {}\n", json!(bench.bin()));
        bench.write(&policy, tools)?;
        let policy = policy.display().to_string();
        let mut all = vec!["--policy", &policy, "--title", "arena"];
        all.extend(options);
        let agent = bench.program("fm-attack").display().to_string();
        let run = product.run(repo, &all, &[&agent, "agent", FOLDER])?;
        let id = run.id()?;
        run.said("arena ready")?;
        let view = product.show(&id)?;
        let worktree = PathBuf::from(
            view["worktree"]
                .as_str()
                .context("a run without a worktree")?,
        );
        Ok(Self {
            product,
            run,
            id,
            worktree,
            next: AtomicU32::new(1),
            seen: Mutex::default(),
        })
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The product that the run belongs to.
    #[must_use]
    pub fn product(&self) -> &Product<'a> {
        &self.product
    }

    /// The worktree, on the host.
    #[must_use]
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// The run, for waiting on its events.
    #[must_use]
    pub fn run(&self) -> &LiveRun {
        &self.run
    }

    /// Starts a command in the cage.
    ///
    /// # Errors
    /// The request could not be written.
    pub fn start(&self, argv: &[&str]) -> Result<Job<'_>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.worktree.join(FOLDER);
        let request = folder.join(format!("{number}.request"));
        let draft = folder.join(format!("{number}.draft"));
        fs::write(&draft, json!({ "argv": argv }).to_string())?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o666))?;
        fs::rename(&draft, &request)?;
        Ok(Job {
            arena: self,
            number,
            argv: argv.join(" "),
        })
    }

    /// Runs a command in the cage to its end.
    ///
    /// # Errors
    /// It did not end within the limit.
    pub fn exec(&self, argv: &[&str]) -> Result<Reply> {
        self.start(argv)?.wait_denying(Duration::from_secs(90))
    }

    /// Runs a shell script in the cage to its end.
    ///
    /// # Errors
    /// It did not end within the limit.
    pub fn shell(&self, script: &str) -> Result<Reply> {
        self.exec(&["/bin/sh", "-c", script])
    }

    /// Starts a shell script in the cage.
    ///
    /// # Errors
    /// The request could not be written.
    pub fn shell_job(&self, script: &str) -> Result<Job<'_>> {
        self.start(&["/bin/sh", "-c", script])
    }

    /// Runs an attack in the cage and gives what it printed.
    ///
    /// # Errors
    /// It did not end, or printed nothing.
    pub fn attack(&self, arguments: &[&str]) -> Result<Value> {
        self.start_attack(arguments)?
            .wait_denying(Duration::from_secs(90))?
            .json()
    }

    /// Starts an attack in the cage.
    ///
    /// # Errors
    /// The request could not be written.
    pub fn start_attack(&self, arguments: &[&str]) -> Result<Job<'_>> {
        let program = self
            .product
            .bench()
            .program("fm-attack")
            .display()
            .to_string();
        let mut argv = vec![program.as_str()];
        argv.extend(arguments);
        self.start(&argv)
    }

    /// Runs the same attack uncaged, as the same user in the same world: the control.
    ///
    /// # Errors
    /// It did not start, or printed nothing.
    pub fn control(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self
            .product
            .program(self.product.bench().program("fm-attack"));
        let out = command.args(arguments).output()?;
        let reply = Reply {
            code: out.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
            millis: 0,
        };
        reply.json()
    }

    /// Denies every block of files or sockets that is open.
    fn deny_files(&self) -> Result<()> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let events = self.run.events();
        for event in events.iter().skip(seen.events) {
            if let EventKind::Block { block } = &event.kind
                && matches!(block.subject, Subject::File { .. } | Subject::Socket { .. })
            {
                match block.state {
                    BlockState::Open => seen.open.insert(block.id.clone()),
                    _ => seen.open.remove(&block.id),
                };
            }
        }
        seen.events = events.len();
        for block in std::mem::take(&mut seen.open) {
            let block = block.to_string();
            if let Err(error) = self.product.deny(&block, "nothing outside of the worktree") {
                // Its caller may have given up, or a case beside this one have decided.
                let open = self.product.blocks(&self.id)?;
                let waits = |card: &&Value| card["id"] == block && card["waiting"] != 0;
                ensure!(!open.iter().any(|card| waits(&card)), "{error:#}");
            }
        }
        Ok(())
    }

    /// Waits until a block for this subject is open.
    ///
    /// # Errors
    /// None opened.
    pub fn block(&self, subject: &str) -> Result<String> {
        self.run().block(subject)
    }

    /// Lets the agent end and gives the exit code of `foreman run`.
    ///
    /// # Errors
    /// It did not end.
    pub fn finish(&self) -> Result<i32> {
        fs::write(self.worktree.join(FOLDER).join("end"), "")?;
        self.run().ended()
    }
}

/// A command that runs in the cage.
#[derive(Debug)]
pub struct Job<'a> {
    arena: &'a Arena<'a>,
    number: u32,
    argv: String,
}

impl Job<'_> {
    fn file(&self, ending: &str) -> PathBuf {
        self.arena
            .worktree
            .join(FOLDER)
            .join(format!("{}.{ending}", self.number))
    }

    /// The reply, when there is one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn reply(&self) -> Result<Option<Reply>> {
        match fs::read(self.file("reply")) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// It did not end within the limit; the message has the run's last events.
    pub fn wait(&self, limit: Duration) -> Result<Reply> {
        until(
            &format!("\"{}\" ended in the cage", self.argv),
            limit,
            || self.reply(),
        )
        .with_context(|| self.arena.run().story())
    }

    /// As [`Job::wait`]; denies meanwhile what it does to files outside of the cage.
    ///
    /// # Errors
    /// As [`Job::wait`], and when a denial was refused.
    pub fn wait_denying(&self, limit: Duration) -> Result<Reply> {
        until(
            &format!("\"{}\" ended in the cage", self.argv),
            limit,
            || {
                self.arena.deny_files()?;
                self.reply()
            },
        )
        .with_context(|| self.arena.run().story())
    }

    /// Kills it in the cage.
    ///
    /// # Errors
    /// The request could not be written.
    pub fn kill(&self) -> Result<()> {
        Ok(fs::write(self.file("kill"), "")?)
    }
}
