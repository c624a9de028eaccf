//! Where attacks happen: one live cage for most of them, and what they all assert.

use anyhow::{Context, Result, ensure};
use foreman_domain::{ConnectVerdict, EventKind};
use foreman_testkit::{Arena, Job, LiveRun, PATIENCE, Seen, SeenKind, Stage, Who, repos, until};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// What the shared cage may reach from the start. Everything else is held.
const ALLOWED: [&str; 5] = [
    "allowed.example:80",
    "allowed.example:443",
    "*.e27.example:80",
    "*.e28.example:80",
    "udp:203.0.113.10:7007",
];

/// The shared cage and its surroundings.
pub struct Ground<'a> {
    pub stage: &'a Stage,
    pub who: Who,
    pub arena: Arena<'a>,
    pub repo: PathBuf,
}

impl<'a> Ground<'a> {
    pub fn new(stage: &'a Stage, who: Who) -> Result<Self> {
        let repo = repos::plain(&stage.bench, "shared")?;
        let mut options = vec!["--bounds", "processes=2000,memory=6GiB"];
        for allowed in ALLOWED {
            options.extend(["--allow", allowed]);
        }
        let arena = Arena::in_repository(stage.product()?, &repo, &options)?;
        Ok(Self {
            stage,
            who,
            arena,
            repo,
        })
    }

    /// A cage of its own for one case, with a data directory of its own.
    pub fn fresh(&self, options: &[&str]) -> Result<Arena<'a>> {
        Arena::new(self.stage.product()?, options)
    }

    /// What reached the far side and is told by this text: a name, an address, something said.
    pub fn seen_with(&self, mark: &str) -> Result<Vec<Seen>> {
        let seen = self.stage.world.seen()?;
        let told = |seen: &Seen| {
            seen.head.contains(mark) || seen.name.as_deref().is_some_and(|name| name.contains(mark))
        };
        Ok(seen.into_iter().filter(told).collect())
    }

    /// Nothing with this text ever reached the far side.
    pub fn nothing_with(&self, mark: &str) -> Result<()> {
        let seen = self.seen_with(mark)?;
        ensure!(seen.is_empty(), "{mark} reached the far side: {seen:?}");
        Ok(())
    }

    /// No connection and no datagram ever reached this address and port.
    pub fn nothing_at(&self, address: &str, port: u16) -> Result<()> {
        let seen = self.stage.world.seen_on(port)?;
        let seen: Vec<&Seen> = seen.iter().filter(|seen| seen.local == address).collect();
        ensure!(seen.is_empty(), "{address}:{port} was reached: {seen:?}");
        Ok(())
    }

    /// The attack waits under a block for this subject; gives the block.
    pub fn held(&self, job: &Job<'_>, subject: &str) -> Result<String> {
        let opened = self.arena.block(subject);
        let block = opened.with_context(|| format!("the attack said {:?}", job.reply()))?;
        ensure!(
            job.reply()?.is_none(),
            "the attack did not wait: {:?}",
            job.reply()
        );
        let feed = self
            .arena
            .run()
            .wait_for("the held action in the feed", |event| match &event.kind {
                EventKind::Egress {
                    subject: found,
                    verdict: ConnectVerdict::Held { .. },
                    ..
                } if found.to_string() == subject => Some(()),
                _ => None,
            });
        feed?;
        Ok(block)
    }

    /// Denies a block.
    pub fn deny(&self, block: &str) -> Result<()> {
        self.arena
            .product()
            .deny(block, "it is an attack")
            .map(drop)
    }

    /// The attack is held, then denied, then sees a refused connection. Gives what it printed.
    pub fn held_then_refused(&self, attack: &[&str], subject: &str) -> Result<Value> {
        let job = self.arena.start_attack(attack)?;
        let block = self.held(&job, subject)?;
        self.deny(&block)?;
        let saw = job.wait(PATIENCE)?.json()?;
        ensure!(
            saw["ok"] == false && saw["errno"] == "ECONNREFUSED",
            "the attack saw {saw}"
        );
        Ok(saw)
    }

    /// The attack is refused at once, without a card, and the feed says so with this subject.
    pub fn refused_at_once(&self, attack: &[&str], subject: &str) -> Result<()> {
        let reply = self.arena.start_attack(attack)?.wait(PATIENCE)?;
        let saw = reply.json()?;
        ensure!(
            saw["ok"] == false && saw["errno"] == "ECONNREFUSED",
            "the attack saw {saw}"
        );
        ensure!(reply.millis < 4000, "it was not refused at once: {reply:?}");
        self.refusal_told(subject)?;
        let carded = self
            .arena
            .run()
            .events()
            .iter()
            .any(|event| match &event.kind {
                EventKind::Block { block } => block.subject.to_string() == subject,
                _ => false,
            });
        ensure!(!carded, "a card was raised for {subject}");
        Ok(())
    }

    /// The feed has a refusal of this subject.
    pub fn refusal_told(&self, subject: &str) -> Result<String> {
        let what = format!("a refusal of {subject} in the feed");
        self.arena.run().wait_for(&what, |event| match &event.kind {
            EventKind::Egress {
                subject: found,
                verdict: ConnectVerdict::Refused { why, .. },
                ..
            } if found.to_string() == subject => Some(why.clone()),
            _ => None,
        })
    }

    /// The control: the same attack, uncaged, succeeds.
    pub fn control_succeeds(&self, attack: &[&str]) -> Result<()> {
        let saw = self.arena.control(attack)?;
        ensure!(saw["ok"] == true, "uncaged, the attack must succeed: {saw}");
        Ok(())
    }

    /// A program is on this machine.
    pub fn has(&self, program: &str) -> bool {
        self.stage
            .bench
            .shell(&self.stage.bench.home(), &format!("command -v {program}"))
            .is_ok()
    }

    /// At the end: whatever reached the far side from the shared cage was allowed or amended. Controls
    /// say `control` or come from attacks that name what they do.
    pub fn saw_only_what_was_meant(&self) -> Result<()> {
        let names: Vec<String> = self
            .stage
            .world
            .seen()?
            .into_iter()
            .filter(|seen| seen.kind == SeenKind::Query)
            .filter_map(|seen| seen.name)
            .filter(|name| !meant(name))
            .collect();
        ensure!(names.is_empty(), "these names left the cage: {names:?}");
        Ok(())
    }
}

/// Names that were allowed from the start, amended by a case, or asked by a control.
fn meant(name: &str) -> bool {
    name == "allowed.example"
        || [
            ".e27.example",
            ".e28.example",
            ".amended.example",
            ".control.example",
        ]
        .iter()
        .any(|ending| name.ends_with(ending))
}

/// An answer of a system call that means "not allowed here": anything that lets the call look at its
/// arguments does not count.
pub fn is_blocked(answer: &Value) -> bool {
    let walls = ["EPERM", "ENOSYS", "EACCES", "SIGSYS"];
    answer["ok"] == false
        && answer["errno"]
            .as_str()
            .is_some_and(|errno| walls.contains(&errno))
}

/// None of these answers is a success.
pub fn none_succeeded(saw: &Value, but: &[&str]) -> Result<()> {
    for (name, answer) in saw.as_object().into_iter().flatten() {
        if name == "ok" || but.contains(&name.as_str()) || !answer.is_object() {
            continue;
        }
        ensure!(answer["ok"] == false, "{name} succeeded: {answer}");
    }
    Ok(())
}

/// Waits until a run's block is in this state.
pub fn block_is(run: &LiveRun, block: &str, state: &str) -> Result<()> {
    run.wait_for(&format!("{block} is {state}"), |event| match &event.kind {
        EventKind::Block { block: found }
            if found.id.to_string() == block && found.state.tag() == state =>
        {
            Some(())
        }
        _ => None,
    })
}

/// The block's newest form in the feed.
pub fn newest(run: &LiveRun, block: &str) -> Option<foreman_domain::Block> {
    run.events()
        .into_iter()
        .rev()
        .find_map(|event| match event.kind {
            EventKind::Block { block: found } if found.id.to_string() == block => Some(found),
            _ => None,
        })
}

/// Waits for a file's content to satisfy a test.
pub fn file_says(path: &std::path::Path, test: impl Fn(&str) -> bool) -> Result<String> {
    until(
        &format!("{} says what is waited for", path.display()),
        Duration::from_secs(30),
        || Ok(std::fs::read_to_string(path).ok().filter(|text| test(text))),
    )
}
