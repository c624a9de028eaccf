//! One data directory and one repository, to which round after round happens: agents start, something is
//! killed or paused, whoever comes next takes over, what is held is amended, and everything is looked at.

use crate::dice::Dice;
use crate::faults::{Fault, Hits, Targets, plan, strike};
use crate::look;
use crate::processes::Table;
use crate::service::{Service, call, decide};
use anyhow::{Context, Result, bail, ensure};
use foreman_testkit::{LiveRun, Product, Stage, repos};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// In which misfortune comes; about as long as a run takes.
const EVENTFUL: Duration = Duration::from_millis(2_500);
/// Longest wait until everything is at rest again.
const RECOVERY: Duration = Duration::from_secs(120);
/// More runs than this are not kept: the oldest are merged or discarded.
const KEPT: usize = 12;

/// What was counted.
#[derive(Debug, Default, Clone)]
pub struct Figures {
    pub rounds: u64,
    pub runs: u64,
    pub hits: BTreeMap<Fault, u32>,
    /// How runs ended.
    pub states: BTreeMap<String, u64>,
    /// Events that a client had seen and that were looked up again.
    pub events: u64,
    /// Runs that were merged or discarded, with the engine killed meanwhile or not.
    pub endings: u64,
}

impl Figures {
    pub fn add(&mut self, other: &Self) {
        self.rounds += other.rounds;
        self.runs += other.runs;
        self.events += other.events;
        self.endings += other.endings;
        for (fault, count) in &other.hits {
            *self.hits.entry(*fault).or_default() += count;
        }
        for (state, count) in &other.states {
            *self.states.entry(state.clone()).or_default() += count;
        }
    }
}

/// A run that is at rest.
#[derive(Debug, Clone)]
pub struct Known {
    pub id: String,
    pub state: String,
    pub worktree: PathBuf,
    pub branch: String,
}

pub struct Lane<'a> {
    pub stage: &'a Stage,
    pub product: Product<'a>,
    pub repo: PathBuf,
    pub table: Table,
    /// Where the base branch must be.
    pub base: String,
    pub kept: Vec<Known>,
    pub figures: Figures,
    name: String,
    dice: Dice,
    service: Service,
    tags: u64,
}

/// What an agent does: work, a commit, a connection that is held, and a second commit.
fn script(tag: &str) -> String {
    format!(
        "echo one > one-{tag}.txt; echo begun {tag}; git add -A; git commit -qm 'one {tag}'; \
         curl -sS -m 300 http://{tag}.held.example/ > two-{tag}.txt && git add -A && \
         git commit -qm 'two {tag}' && echo ended {tag}"
    )
}

impl<'a> Lane<'a> {
    pub fn new(stage: &'a Stage, name: &str, seed: u64) -> Result<Self> {
        let repo = repos::plain(&stage.bench, name)?;
        Ok(Self {
            stage,
            product: stage.product()?,
            base: repos::tip(&stage.bench, &repo, "main")?,
            repo,
            table: Table::of(stage)?,
            kept: Vec::new(),
            figures: Figures::default(),
            name: name.to_owned(),
            dice: Dice::new(seed),
            service: Service::default(),
            tags: 0,
        })
    }

    /// One round.
    pub fn round(&mut self) -> Result<()> {
        if !self.dice.once_in(5) {
            self.serve()?;
        }
        let count = 1 + self.dice.below(3);
        let mut clients = Vec::new();
        for _ in 0..count {
            self.tags += 1;
            let tag = format!("{}t{}", self.name, self.tags);
            let agent = script(&tag);
            let run = self
                .product
                .run(&self.repo, &["--title", &tag], &["sh", "-c", &agent])?;
            clients.push((tag, run));
        }
        let hits = self.through_misfortune(&clients)?;
        self.serve()?;
        let ended = self.bring_to_rest(&clients, &hits)?;
        self.figures.rounds += 1;
        self.figures.runs += ended.len() as u64;
        for (fault, count) in &hits.counts {
            *self.figures.hits.entry(*fault).or_default() += count;
        }
        let known = look::at_round(self, &clients, &ended, &hits)?;
        for run in &known {
            *self.figures.states.entry(run.state.clone()).or_default() += 1;
        }
        self.kept.extend(known);
        while self.kept.len() > KEPT {
            self.put_away()?;
        }
        look::at_everything(self)
    }

    /// Lets the planned faults come while somebody decides what is held.
    fn through_misfortune(&mut self, clients: &[(String, LiveRun)]) -> Result<Hits> {
        let planned = plan(&mut self.dice, EVENTFUL);
        let decides_from = Duration::from_millis(self.dice.below(3_000));
        let hits = Mutex::new(Hits::default());
        let begin = Instant::now();
        let data = self.product.data();
        let targets = Targets {
            table: self.table,
            data: &data,
            clients,
            server: self.service.pid(),
        };
        let mut dice = Dice::new(self.dice.below(u64::MAX));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let misfortune = scope.spawn(|| strike(&targets, &planned, &mut dice, begin, &hits));
            // Whoever decides may be the engine that was stopped, and is waited for below.
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    hits.lock().unwrap().wake();
                    std::thread::sleep(Duration::from_millis(50));
                }
            });
            let mut trouble = Ok(());
            while !misfortune.is_finished() {
                if begin.elapsed() >= decides_from && trouble.is_ok() {
                    trouble = self.decide();
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            over.store(true, Ordering::Release);
            trouble
        })
        .with_context(|| format!("while {planned:?} happened"))?;
        Ok(hits.into_inner().unwrap())
    }

    /// Starts `foreman serve` where none is up.
    fn serve(&mut self) -> Result<()> {
        self.service.keep_up(&self.product)
    }

    /// The last lines that services wrote, for messages.
    pub fn log(&self) -> String {
        Service::log(&self.product)
    }

    fn call(&self, arguments: &[&str]) -> Result<Option<Value>> {
        call(&self.product, arguments)
    }

    fn decide(&self) -> Result<()> {
        decide(&self.product)
    }

    /// Decides until every run of this round is over and every client that lives has ended. Gives the
    /// runs by tag; one whose client was killed early may not exist.
    fn bring_to_rest(
        &self,
        clients: &[(String, LiveRun)],
        hits: &Hits,
    ) -> Result<Vec<(String, Value)>> {
        const LIVE: [&str; 3] = ["provisioning", "running", "stopping"];
        let end = Instant::now() + RECOVERY;
        loop {
            hits.wake();
            self.decide()?;
            let runs = self.call(&["runs"])?.unwrap_or_default();
            let ours: Vec<(String, Value)> = runs["runs"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|run| {
                    let title = run["title"].as_str()?;
                    let ours = clients.iter().any(|(tag, _)| tag == title);
                    ours.then(|| (title.to_owned(), run.clone()))
                })
                .collect();
            let live = |run: &Value| {
                run["state"]
                    .as_str()
                    .is_some_and(|state| LIVE.contains(&state))
            };
            let clients_over = clients.iter().all(|(_, client)| client.is_over());
            if runs.is_object() && clients_over && !ours.iter().any(|(_, run)| live(run)) {
                return Ok(ours);
            }
            if Instant::now() > end {
                return Err(self.unrest(clients, &ours));
            }
            std::thread::sleep(Duration::from_millis(60));
        }
    }

    /// Who is not at rest, for the message.
    fn unrest(&self, clients: &[(String, LiveRun)], runs: &[(String, Value)]) -> anyhow::Error {
        let mut text = format!("not at rest after {} s", RECOVERY.as_secs());
        for (tag, run) in runs {
            let _ = write!(text, "\n{tag}: run {} is {}", run["id"], run["state"]);
        }
        for (tag, client) in clients.iter().filter(|(_, client)| !client.is_over()) {
            let pid = client.pid().unwrap_or_default();
            let place = std::fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
            let _ = write!(
                text,
                "\n{tag}: process {pid} has not ended ({place}): {}",
                client.story()
            );
        }
        for process in self
            .table
            .all()
            .iter()
            .filter(|process| process.program().starts_with("foreman"))
        {
            let _ = write!(text, "\n{}: {}", process.pid, process.words.join(" "));
        }
        anyhow::anyhow!("{text}\nserve: {}", self.log())
    }

    /// Merges or discards the oldest run, sometimes with the engine killed in the middle.
    fn put_away(&mut self) -> Result<()> {
        let run = self.kept.remove(0);
        let merges = run.state == "review" && self.dice.once_in(2);
        let kills = self
            .dice
            .once_in(2)
            .then(|| Duration::from_millis(self.dice.below(250)));
        let data = self.product.data();
        let killed = std::thread::scope(|scope| {
            let (table, data) = (self.table, &data);
            let fault = scope.spawn(move || {
                std::thread::sleep(kills?);
                table
                    .engine(data)
                    .filter(|engine| engine.signal(nix::sys::signal::SIGKILL))
            });
            let put = if merges {
                self.merge(&run)
            } else {
                self.discard(&run)
            };
            (fault.join().ok().flatten().is_some(), put)
        });
        if killed.0 {
            *self.figures.hits.entry(Fault::Engine).or_default() += 1;
        }
        killed.1?;
        self.serve()?;
        self.figures.endings += 1;
        let state = |lane: &Self| -> Result<String> {
            let view = lane.product.show(&run.id)?;
            Ok(view["state"].as_str().unwrap_or_default().to_owned())
        };
        let end = Instant::now() + RECOVERY;
        let rest = loop {
            let state = state(self)?;
            if state != "merging" {
                break state;
            }
            ensure!(
                Instant::now() < end,
                "run {} stays merging: {}",
                run.id,
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        };
        let base = repos::tip(&self.stage.bench, &self.repo, "main")?;
        match rest.as_str() {
            "merged" => {
                ensure!(merges, "run {} was merged and nobody asked", run.id);
                let head = repos::tip(&self.stage.bench, &self.repo, &run.branch)
                    .unwrap_or_else(|_| base.clone());
                ensure!(
                    base != self.base && base == head,
                    "main is at {base}, not at the merged {head}"
                );
                self.base = base;
            }
            "discarded" => ensure!(!merges && base == self.base, "run {} was discarded", run.id),
            // Refused, because another merge came first, or cut short: taken up again.
            state if state == run.state => {
                ensure!(
                    base == self.base,
                    "main moved to {base} and the run is {state}"
                );
                ensure!(
                    merges || killed.0,
                    "a discard did nothing and nobody was killed"
                );
                self.discard(&run)?;
                let state = state_of(&self.product, &run.id)?;
                ensure!(
                    state == "discarded",
                    "run {} is {state} after a second discard",
                    run.id
                );
            }
            other => bail!("run {} is {other} after it was put away", run.id),
        }
        Ok(())
    }

    fn merge(&self, run: &Known) -> Result<()> {
        let Some(diff) = self.call(&["diff", &run.id])? else {
            return Ok(());
        };
        let expect = diff["expect"].as_str().context("a diff without a token")?;
        self.call(&["merge", &run.id, "--expect", expect]).map(drop)
    }

    fn discard(&self, run: &Known) -> Result<()> {
        self.call(&["discard", &run.id]).map(drop)
    }

    /// Ends the lane: nothing of it may be left.
    pub fn close(mut self) -> Result<()> {
        self.service = Service::default();
        let mark = self.product.data().display().to_string();
        foreman_testkit::eventually("nothing of the lane lives", Duration::from_secs(20), || {
            !self
                .table
                .all()
                .iter()
                .any(|process| process.mentions(&mark))
        })
    }
}

fn state_of(product: &Product<'_>, id: &str) -> Result<String> {
    Ok(product.show(id)?["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}
