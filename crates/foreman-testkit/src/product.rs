//! Drives the real command line: what an operator types, with `--json`.

use crate::{Bench, LiveRun, PATIENCE, World, until};
use anyhow::{Context, Result, bail, ensure};
use foreman_domain::ExitCode;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command line of one user, in a world or on the bare machine.
#[derive(Debug, Clone)]
pub struct Product<'a> {
    bench: &'a Bench,
    world: Option<&'a World>,
    data: Option<PathBuf>,
    variables: Vec<(String, String)>,
    behind: Vec<String>,
}

/// A finished command.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Its exit code; 128 + signal when it was killed.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    fn of(out: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let code = out
            .status
            .code()
            .or_else(|| out.status.signal().map(|signal| 128 + signal));
        Self {
            code: code.unwrap_or(-1),
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
        }
    }

    /// The last line of standard output (or of standard error) that is a JSON object.
    ///
    /// # Errors
    /// There is none.
    pub fn json(&self) -> Result<Value> {
        self.stdout
            .lines()
            .rev()
            .chain(self.stderr.lines().rev())
            .find_map(|line| {
                serde_json::from_str::<Value>(line)
                    .ok()
                    .filter(Value::is_object)
            })
            .or_else(|| serde_json::from_str(&self.stdout).ok())
            .with_context(|| format!("no JSON in the answer: {self:?}"))
    }

    /// The error of the answer, as `(code, message)`.
    ///
    /// # Errors
    /// It has none.
    pub fn error(&self) -> Result<(String, String)> {
        let json = self.json()?;
        let text = |key: &str| json["error"][key].as_str().map(str::to_owned);
        let code = text("code").with_context(|| format!("no error in {self:?}"))?;
        Ok((code, text("message").unwrap_or_default()))
    }
}

/// Checks the exit code of a finished command.
///
/// # Errors
/// It is another; the message has the command's output.
pub fn expect_exit(ran: &Ran, code: ExitCode) -> Result<()> {
    ensure!(
        ran.code == code as i32,
        "exit code {} instead of {}: {ran:?}",
        ran.code,
        code as i32
    );
    Ok(())
}

impl<'a> Product<'a> {
    /// In a world.
    #[must_use]
    pub fn in_world(bench: &'a Bench, world: &'a World) -> Self {
        Self {
            bench,
            world: Some(world),
            data: None,
            variables: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// On the bare machine.
    #[must_use]
    pub fn on_host(bench: &'a Bench) -> Self {
        Self {
            bench,
            world: None,
            data: None,
            variables: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// With another data directory than the user's usual one, so that engines do not meet.
    #[must_use]
    pub fn with_data(self, data: &Path) -> Self {
        Self {
            data: Some(data.to_path_buf()),
            ..self
        }
    }

    /// With one more variable in the operator's environment.
    #[must_use]
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// On a machine whose kernel has no nf_tables, as far as `foreman` and all that it starts can tell.
    #[must_use]
    pub fn without_nf_tables(mut self) -> Self {
        let attack = self.bench.program("fm-attack").display().to_string();
        self.behind = vec![attack, "without-nf-tables".to_owned()];
        self
    }

    /// On a machine that lets ordinary users make no namespaces: really so, below a namespace of its own.
    #[must_use]
    pub fn without_namespaces(mut self) -> Self {
        let attack = self.bench.program("fm-attack").display().to_string();
        self.behind = vec![attack, "without-namespaces".to_owned()];
        self
    }

    /// The identity.
    #[must_use]
    pub fn bench(&self) -> &'a Bench {
        self.bench
    }

    /// The world.
    ///
    /// # Errors
    /// There is none.
    pub fn world(&self) -> Result<&'a World> {
        self.world.context("this product runs on the bare machine")
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(|| self.bench.data())
    }

    /// Any program, where and as whom the product runs.
    #[must_use]
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.world {
            Some(world) => world.command(self.bench, program),
            None => self.bench.command(program),
        };
        if let Some(data) = &self.data {
            command.env("FOREMAN_DATA_DIR", data);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// `foreman` with these arguments.
    #[must_use]
    pub fn foreman<I, S>(&self, arguments: I) -> Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let foreman = self.bench.program("foreman");
        let mut command = match self.behind.split_first() {
            None => self.program(foreman),
            Some((program, words)) => {
                let mut command = self.program(program);
                command.args(words).arg(foreman);
                command
            }
        };
        command.args(arguments);
        command
    }

    /// Runs `foreman` to its end.
    ///
    /// # Errors
    /// It did not start.
    pub fn call<I, S>(&self, arguments: I) -> Result<Ran>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        Ok(Ran::of(
            self.foreman(arguments).output().context("start foreman")?,
        ))
    }

    /// Runs `foreman … --json`, which must succeed, and gives its answer.
    ///
    /// # Errors
    /// It failed; the message has its output.
    pub fn ask(&self, arguments: &[&str]) -> Result<Value> {
        let mut all = arguments.to_vec();
        all.push("--json");
        let ran = self.call(&all)?;
        if ran.code != 0 {
            bail!(
                "foreman {arguments:?} ended with {}: {}{}",
                ran.code,
                ran.stdout,
                ran.stderr
            );
        }
        ran.json()
    }

    /// Starts `foreman run --json` on a repository and follows its events.
    ///
    /// # Errors
    /// It did not start.
    pub fn run(&self, repo: &Path, options: &[&str], agent: &[&str]) -> Result<LiveRun> {
        let mut arguments: Vec<&OsStr> = vec![
            "run".as_ref(),
            "--json".as_ref(),
            "--repo".as_ref(),
            repo.as_os_str(),
        ];
        arguments.extend(options.iter().map(OsStr::new));
        arguments.push("--".as_ref());
        arguments.extend(agent.iter().map(OsStr::new));
        LiveRun::start(self.foreman(arguments))
    }

    /// Runs an agent to its end.
    ///
    /// # Errors
    /// It did not start, or did not end in a minute.
    pub fn run_to_end(&self, repo: &Path, options: &[&str], agent: &[&str]) -> Result<LiveRun> {
        let run = self.run(repo, options, agent)?;
        run.ended()?;
        Ok(run)
    }

    /// The one run's view.
    ///
    /// # Errors
    /// No such run.
    pub fn show(&self, run: &str) -> Result<Value> {
        self.ask(&["show", run])
    }

    /// Open blocks of a run, as cards.
    ///
    /// # Errors
    /// The engine did not answer.
    pub fn blocks(&self, run: &str) -> Result<Vec<Value>> {
        let all = self.ask(&["blocks"])?;
        let blocks = all["blocks"].as_array().cloned().unwrap_or_default();
        Ok(blocks
            .into_iter()
            .filter(|block| block["id"].as_str().is_some_and(|id| id.starts_with(run)))
            .collect())
    }

    /// The card of one open block.
    ///
    /// # Errors
    /// It is not open.
    pub fn card(&self, block: &str) -> Result<Value> {
        let run = block.split('-').next().unwrap_or_default();
        self.blocks(run)?
            .into_iter()
            .find(|card| card["id"] == block)
            .with_context(|| format!("{block} is not open"))
    }

    /// The card of one open block, once it names a process: that is found a moment after the hold.
    ///
    /// # Errors
    /// It is not open, or never names one.
    pub fn card_with_holder(&self, block: &str) -> Result<Value> {
        until("the card names a process", PATIENCE, || {
            let card = self.card(block)?;
            Ok(card["holders"][0].is_object().then_some(card))
        })
    }

    /// Amends a block as shown now.
    ///
    /// # Errors
    /// Refused.
    pub fn amend(&self, block: &str, options: &[&str]) -> Result<Value> {
        self.decide("amend", block, options)
    }

    /// Denies a block as shown now.
    ///
    /// # Errors
    /// Refused.
    pub fn deny(&self, block: &str, reason: &str) -> Result<Value> {
        self.decide("deny", block, &["--reason", reason])
    }

    /// Looks at a card and decides; looks again when the card has moved meanwhile, as a person would.
    fn decide(&self, verb: &str, block: &str, options: &[&str]) -> Result<Value> {
        let mut tries = 0;
        loop {
            let card = self.card(block)?;
            let expect = card["expect"].as_str().context("a card without a token")?;
            let mut arguments = vec![verb, block, "--expect", expect, "--json"];
            arguments.extend(options);
            let ran = self.call(&arguments)?;
            tries += 1;
            if ran.code == 0 {
                return ran.json();
            }
            let is_stale = ran.error().is_ok_and(|(code, _)| code == "stale");
            if !is_stale || tries == 20 {
                bail!(
                    "{verb} {block} ended with {}: {}{}",
                    ran.code,
                    ran.stdout,
                    ran.stderr
                );
            }
        }
    }
}
