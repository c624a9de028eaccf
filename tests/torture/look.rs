//! What must hold after each round, from the engine's answers, git, the disk, the process table and
//! the far side of the world.

use crate::faults::Hits;
use crate::lane::{Known, Lane};
use anyhow::{Context, Result, ensure};
use foreman_testkit::{LiveRun, SeenKind};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks at the runs of one round.
pub fn at_round(
    lane: &mut Lane<'_>,
    clients: &[(String, LiveRun)],
    ended: &[(String, Value)],
    hits: &Hits,
) -> Result<Vec<Known>> {
    let mut known = Vec::new();
    for (tag, client) in clients {
        // One that was recorded and never started, because the engine died meanwhile, is undone and does
        // not count: the command may have asked again.
        let of_tag = ended
            .iter()
            .filter(|(title, _)| title == tag)
            .map(|(_, run)| run);
        let (undone, own): (Vec<&Value>, Vec<&Value>) = of_tag.partition(|run| is_undone(run));
        let killed = hits.clients.contains(tag);
        ensure!(own.len() <= 1, "the command {tag} made {} runs", own.len());
        ensure!(
            own.len() + undone.len() > 0 || killed,
            "the command {tag} made no run: {}",
            client.story()
        );
        lane.figures.events += client.events().len() as u64;
        for run in undone.into_iter().chain(own) {
            let look = Look {
                lane,
                tag,
                client,
                hits,
                run,
            };
            let found = look.all().with_context(|| {
                format!(
                    "{tag}, run {}, {hits:?}\nclient: {}\nserve: {}",
                    run["id"],
                    client.story(),
                    lane.log()
                )
            })?;
            known.extend(found);
        }
    }
    Ok(known)
}

/// Failed before anything was started.
fn is_undone(run: &Value) -> bool {
    run["state"] == "failed" && run["reason"]["reason"] == "provision"
}

struct Look<'l, 'a> {
    lane: &'l Lane<'a>,
    tag: &'l str,
    client: &'l LiveRun,
    hits: &'l Hits,
    run: &'l Value,
}

impl Look<'_, '_> {
    fn all(&self) -> Result<Option<Known>> {
        let id = self.text("id")?;
        let events = self.events(&id)?;
        self.nothing_acknowledged_is_lost(&events)?;
        let begun = self.started_at_most_once(&events)?;
        self.nothing_lives(&id)?;
        self.state_fits(&id, begun)?;
        let known = Known {
            id,
            state: self.text("state")?,
            worktree: PathBuf::from(self.text("worktree")?),
            branch: self.text("branch")?,
        };
        if is_undone(self.run) {
            // Undone: nothing of it may be left.
            ensure!(
                !known.worktree.exists(),
                "{} is left of a run that never started",
                known.worktree.display()
            );
            return Ok(None);
        }
        if begun {
            let work = known.worktree.join(format!("one-{}.txt", self.tag));
            ensure!(work.is_file(), "{} is lost", work.display());
        }
        Ok(Some(known))
    }

    fn text(&self, key: &str) -> Result<String> {
        let text = self.run[key].as_str().map(str::to_owned);
        text.with_context(|| format!("a run without {key}: {}", self.run))
    }

    /// The run's whole log, without holes.
    fn events(&self, id: &str) -> Result<BTreeMap<u64, Value>> {
        let ran = self.lane.product.call(["events", id, "--json"])?;
        ensure!(ran.code == 0, "events of {id}: {ran:?}");
        let mut events = BTreeMap::new();
        for (place, line) in ran.stdout.lines().enumerate() {
            let event: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let seq = event["seq"].as_u64().context("an event without number")?;
            ensure!(seq == place as u64 + 1, "event {seq} at place {place}");
            events.insert(seq, event);
        }
        Ok(events)
    }

    fn nothing_acknowledged_is_lost(&self, events: &BTreeMap<u64, Value>) -> Result<()> {
        for seen in self.client.events() {
            if Some(seen.run.as_str()) != self.run["id"].as_str() {
                continue;
            }
            let seen = serde_json::to_value(&seen)?;
            let seq = seen["seq"].as_u64().context("an event without number")?;
            let stored = events.get(&seq);
            // `v` is the wire's, and both were read by the same reader.
            let stored =
                stored.map(|event| serde_json::from_value::<foreman_domain::Event>(event.clone()));
            let stored = stored
                .transpose()?
                .map(|event| serde_json::to_value(&event))
                .transpose()?;
            ensure!(
                stored.as_ref() == Some(&seen),
                "a client saw {seen} and now there is {stored:?}"
            );
        }
        Ok(())
    }

    /// Whether the agent began; never twice.
    fn started_at_most_once(&self, events: &BTreeMap<u64, Value>) -> Result<bool> {
        let says = |what: &str| {
            let line = format!("{what} {}", self.tag);
            let said = events.values().filter(|event| {
                event["text"]
                    .as_str()
                    .is_some_and(|text| text.contains(&line))
            });
            said.count()
        };
        let (begun, over) = (says("begun"), says("ended"));
        ensure!(
            begun <= 1 && over <= 1,
            "the agent began {begun} times and ended {over} times"
        );
        let mark = format!("{}.held.example", self.tag);
        let fetched = self.lane.stage.world.seen()?;
        let fetched = fetched
            .iter()
            .filter(|seen| seen.kind == SeenKind::Closed && seen.head.contains(&mark))
            .count();
        ensure!(fetched <= 1, "the agent's request arrived {fetched} times");
        Ok(begun == 1)
    }

    fn nothing_lives(&self, id: &str) -> Result<()> {
        let passes_on = |program: &str| ["foreman", "nsenter"].contains(&program);
        let left = || {
            let all = self.lane.table.all().into_iter();
            let left = all.filter(|process| {
                !passes_on(process.program())
                    && (process.mentions(self.tag) || process.mentions(id))
            });
            left.collect::<Vec<_>>()
        };
        let gone =
            foreman_testkit::eventually("nothing of the run lives", Duration::from_secs(5), || {
                left().is_empty()
            });
        gone.with_context(|| format!("{:?}", left()))
    }

    /// What was not hit must have come to a good end; what was hit, to a typed one.
    fn state_fits(&self, id: &str, begun: bool) -> Result<()> {
        let state = self.text("state")?;
        let shim = self.hits.shims.iter().any(|run| run == id);
        let agent = self.hits.agents.iter().any(|tag| tag == self.tag);
        let good = state == "review" && self.run["agent_succeeded"] == true;
        let unprepared = is_undone(self.run) && !begun;
        let fits = match state.as_str() {
            "review" => good || agent,
            "interrupted" => shim,
            // Nothing was started, because the engine died while it prepared the run.
            "failed" if unprepared => self.hits.engine || shim,
            "failed" => agent,
            "no_changes" => false,
            _ => false,
        };
        ensure!(fits, "the run is {}", self.run);
        Ok(())
    }
}

/// Looks at all runs that were ever kept, at the repository and at the disk.
pub fn at_everything(lane: &Lane<'_>) -> Result<()> {
    let bench = &lane.stage.bench;
    bench
        .shell(&lane.repo, "git fsck --no-dangling --no-progress 2>&1")
        .context("git fsck")?;
    let tip = foreman_testkit::repos::tip(bench, &lane.repo, "main")?;
    ensure!(
        tip == lane.base,
        "main is at {tip} and was at {}",
        lane.base
    );
    let branches = bench.shell(
        &lane.repo,
        "git for-each-ref --format='%(refname:short)' refs/heads/foreman",
    )?;
    let branches: BTreeSet<&str> = branches.lines().collect();
    let trees: BTreeSet<PathBuf> = worktrees(&lane.product.data().join("worktrees"))?
        .into_iter()
        .collect();
    let mut of_runs = BTreeSet::new();
    for run in &lane.kept {
        ensure!(
            run.worktree.is_dir(),
            "the worktree of run {} ({}) is lost",
            run.id,
            run.state
        );
        ensure!(
            branches.contains(run.branch.as_str()),
            "the branch of run {} ({}) is lost",
            run.id,
            run.state
        );
        of_runs.insert(run.worktree.clone());
    }
    let is_merged = |id: &str| {
        let view = lane.product.show(id);
        view.is_ok_and(|run| run["state"] == "merged")
    };
    for tree in trees.difference(&of_runs) {
        let id = tree.file_name().unwrap_or_default().to_string_lossy();
        ensure!(
            is_merged(&id),
            "{} belongs to no run that is kept",
            tree.display()
        );
    }
    for branch in branches {
        let id = branch.trim_start_matches("foreman/");
        let kept = lane.kept.iter().any(|run| run.branch == branch);
        ensure!(
            kept || is_merged(id),
            "the branch {branch} belongs to no run that is kept"
        );
    }
    let registered = bench.shell(&lane.repo, "git worktree list --porcelain")?;
    ensure!(
        !registered.contains("prunable"),
        "git knows worktrees that are gone: {registered}"
    );
    Ok(())
}

fn worktrees(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for repo in std::fs::read_dir(root).into_iter().flatten() {
        for run in std::fs::read_dir(repo?.path())? {
            found.push(run?.path());
        }
    }
    Ok(found)
}
