//! Looks at what a run uses, and does what its bounds ask for.
//!
//! A look costs a wake-up and a walk through the cage's processes. Most runs wait for their agent most of
//! the time, so a calm cage is looked at every two seconds: one that uses less than a quarter of its bound,
//! with as many processes as before. From there to half of the bound is a second or more for a program that
//! takes memory as fast as kernels give it. Otherwise it is looked at every second, and four times a second
//! from half of the bound on, where the next step may be the last. Without a bound that needs looks it is
//! looked at for its samples only: every five seconds, and twice as seldom each time that nothing was done, down
//! to as often as a sample is due.

use super::group;
use super::keeper::{Keeper, RAISED_LIVE};
use super::limits::{Reading, Warnings, name, words};
use super::ration::Ration;
use super::samples::{LATEST, Samples, Seen};
use crate::shim::plan::Plan;
use crate::shim::ticks::Ticks;
use foreman_domain::{BoundKind, Breach, CancelCause, EventKind};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Grace of the stop when time or output is used up; what would go on taking memory gets none.
const GRACE: Duration = Duration::from_secs(5);
const LOOK_IDLY: Duration = Duration::from_secs(5);
/// Processor time between two looks, in milliseconds, up to which nothing was done.
const NOTHING_DONE_MS: u64 = 50;
const LOOK_CALMLY: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_secs(1);
pub(super) const LOOK_CLOSELY: Duration = Duration::from_millis(250);
/// Without a bound on the disk: between two walks, and what must have been spent on processors since.
const WALK_IDLY: Duration = Duration::from_secs(60);
const SPENT_SINCE_MS: u64 = 500;

/// Keeps the bounds until it is dropped.
pub(in crate::shim) async fn keep(plan: &Plan) {
    let mut watch = match Watch::new(plan) {
        Ok(watch) => watch,
        Err(error) => return cannot_watch(plan, &error).await,
    };
    if let Err(error) = watch.go_on_looking().await {
        cannot_watch(plan, &error).await;
    }
}

/// A bound that nobody watches is none.
async fn cannot_watch(plan: &Plan, error: &io::Error) {
    let what = format!("bounds could not be watched: {error}");
    plan.stop
        .ask(CancelCause::Bound { what, breach: None }, GRACE);
    std::future::pending::<()>().await;
}

/// Looks at one run.
pub(super) struct Watch<'a> {
    pub(super) plan: &'a Plan,
    pub(super) keeper: &'a Keeper,
    looks: Ticks,
    pause: Duration,
    pub(super) warnings: Warnings,
    samples: Samples,
    ration: Ration,
    pub(super) rationed_at: Instant,
    counts: group::Counts,
    processes: u64,
    /// What had been spent on processors at the last look, and the pause after it without a bound.
    spent: u64,
    idle: Duration,
    /// The walk through the worktree that was read last.
    pub(super) walk: u64,
    /// Walks one after the other that could not look into everything.
    hidden: u32,
    /// When a walk was begun without a bound, and what had been spent on processors by then.
    walked: (Option<Instant>, u64),
    /// The memory bound has ended the run, and kept is what cleans up only.
    pub(super) is_over: bool,
    /// Bounds that nothing is paused for and that were told to be reached.
    told: Vec<BoundKind>,
}

impl<'a> Watch<'a> {
    fn new(plan: &'a Plan) -> io::Result<Self> {
        Ok(Self {
            plan,
            keeper: &plan.keeper,
            looks: Ticks::every(LOOK_EVERY)?,
            pause: LOOK_EVERY,
            warnings: Warnings::default(),
            samples: Samples::default(),
            ration: Ration::default(),
            rationed_at: Instant::now(),
            counts: group::Counts::default(),
            processes: 0,
            spent: 0,
            idle: LOOK_IDLY,
            walk: 0,
            hidden: 0,
            walked: (None, 0),
            is_over: false,
            told: Vec::new(),
        })
    }

    async fn go_on_looking(&mut self) -> io::Result<()> {
        loop {
            let wall = self.wall_due();
            let wall = async {
                match wall {
                    Some(due) => sleep(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.keeper.arbiter.bounds_changed() => self.take_over_limits()?,
                () = self.keeper.said_too_much.notified() => self.output().await?,
                () = self.plan.tally.news() => self.spent().await?,
                () = wall => self.wall().await?,
                tick = self.looks.tick() => {
                    tick?;
                    self.look().await?;
                }
            }
        }
    }

    /// Policy revisions raise bounds, and taking one back lowers them again.
    fn take_over_limits(&mut self) -> io::Result<()> {
        let now = self.keeper.given.clone();
        let now = now.raised_by(&self.keeper.arbiter.raised_bounds());
        for bound in RAISED_LIVE {
            if let Some(limit) = now.of(bound)
                && self.keeper.limits.of(bound) != Some(limit)
            {
                self.keeper.set(bound, limit)?;
                self.warnings.forget(bound);
            }
        }
        Ok(())
    }

    /// How long it is to what is next told of the time: that it is near, or up.
    fn wall_due(&self) -> Option<Duration> {
        let limit = Duration::from_millis(self.keeper.limits.of(BoundKind::Wall)?);
        let elapsed = self.keeper.clock.elapsed();
        if self.plan.stop.wish().is_some() {
            return None;
        }
        let near = limit.mul_f64(0.8);
        Some(if elapsed < near { near } else { limit }.saturating_sub(elapsed))
    }

    async fn wall(&mut self) -> io::Result<()> {
        let Some(limit) = self.keeper.limits.of(BoundKind::Wall) else {
            return Ok(());
        };
        let elapsed = self.keeper.clock.elapsed().as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.read(BoundKind::Wall, elapsed, limit).await
    }

    async fn output(&mut self) -> io::Result<()> {
        match self.keeper.limits.of(BoundKind::Output) {
            Some(limit) => {
                let said = self.plan.meter.used();
                self.read(BoundKind::Output, said, limit).await
            }
            None => Ok(()),
        }
    }

    /// What the agent has used, by its own word.
    async fn spent(&mut self) -> io::Result<()> {
        for bound in [BoundKind::Tokens, BoundKind::Cost, BoundKind::Turns] {
            if let (Some(limit), Some(seen)) =
                (self.keeper.limits.of(bound), self.plan.tally.of(bound))
                // A run that comes to its end is not held up for what it has used already.
                && !self.plan.is_collecting()
            {
                self.read(bound, seen, limit).await?;
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> io::Result<()> {
        let limits = &self.keeper.limits;
        let (memory, disk) = (limits.of(BoundKind::Memory), limits.of(BoundKind::Disk));
        let seen = self.see(disk)?;
        let before = std::mem::replace(&mut self.processes, seen.processes.unwrap_or(0));
        let is_unchanged = before == self.processes;
        self.keeper.note_memory(seen.memory.unwrap_or(0));
        if let Some(told) = self.samples.take_in(seen, Instant::now()) {
            if told.in_passing {
                self.plan.feed.tell_in_passing(told.sample);
            } else {
                self.plan.feed.tell(told.sample);
            }
        }
        self.tell_counts();
        let spent = seen.cpu_ms.unwrap_or(0);
        let done = spent.abs_diff(std::mem::replace(&mut self.spent, spent));
        self.idle = idle_pause(self.idle, is_unchanged && done <= NOTHING_DONE_MS);
        let is_counted = [BoundKind::Processes, BoundKind::OpenFiles]
            .iter()
            .any(|bound| self.keeper.limits.of(*bound).is_some());
        let mut next = if is_counted { LOOK_IDLY } else { self.idle };
        if let (Some(limit), Some(used)) = (memory, seen.memory) {
            next = next.min(pause_at(used, limit, is_unchanged));
            self.read(BoundKind::Memory, used, limit).await?;
        }
        if let Some(limit) = disk {
            next = next.min(pause_at(seen.disk.unwrap_or(limit), limit, is_unchanged));
            self.disk(limit, seen.disk).await?;
        }
        self.counted(seen.processes);
        if let Some(limit) = self.keeper.limits.of(BoundKind::Cpu)
            && self.keeper.tier.group().is_none()
        {
            next = next.min(self.ration(seen.cpu_ms, limit).await?);
        }
        if next != self.pause {
            self.pause = next;
            self.looks.set_period(next)?;
        }
        Ok(())
    }

    /// What is used now.
    pub(super) fn see(&mut self, disk_bound: Option<u64>) -> io::Result<Seen> {
        let cage = &self.plan.cage;
        let mut seen = Seen::default();
        if let Some(group) = self.keeper.tier.group() {
            seen.memory = Some(group.memory()?);
            seen.processes = Some(group.processes()?);
            seen.cpu_ms = Some(group.cpu_ms()?);
        } else {
            seen.memory = Some(self.memory_of_processes());
            if let Some(spent) = cage.spent() {
                seen.processes = Some(spent.threads.into());
                seen.cpu_ms = Some(spent.cpu_ms);
            }
        }
        let is_to_walk = disk_bound.is_some() || self.is_worth_a_walk(seen.cpu_ms);
        if let Some((walk, taken)) = self.keeper.disk.taken(disk_bound, is_to_walk) {
            seen.disk = match disk_bound {
                // With a bound, what is at least there counts, and so does what has no name in it.
                Some(_) => {
                    if walk != self.walk {
                        self.walk = walk;
                        self.hidden = if taken.hidden { self.hidden + 1 } else { 0 };
                    }
                    let unseen = cage.scratch().saturating_add(cage.open().removed_bytes);
                    Some(taken.bytes.saturating_add(unseen))
                }
                None => taken.whole(),
            };
        }
        Ok(seen)
    }

    /// Without a bound on the disk the worktree is walked through once in a minute, and not while nothing
    /// is done in it.
    fn is_worth_a_walk(&mut self, cpu_ms: Option<u64>) -> bool {
        let spent = cpu_ms.unwrap_or(0);
        let (at, before) = self.walked;
        let is_worth_it = at.is_none_or(|at| at.elapsed() >= WALK_IDLY)
            && spent.abs_diff(before) >= SPENT_SINCE_MS;
        if is_worth_it {
            self.walked = (Some(Instant::now()), spent);
        }
        is_worth_it
    }

    pub(super) fn memory_of_processes(&self) -> u64 {
        let cage = &self.plan.cage;
        let processes = cage.processes();
        let held: u64 = processes.iter().map(|process| process.rss_bytes).sum();
        // What the run left in files must not end the steps that collect its work, nor end it twice.
        let in_files = match self.is_over || self.plan.is_collecting() {
            true => 0,
            false => cage.files_in_memory(),
        };
        held.saturating_add(in_files)
    }

    /// Compares a figure with its bound, and does what follows.
    async fn read(&mut self, bound: BoundKind, seen: u64, limit: u64) -> io::Result<()> {
        let breach = Breach { bound, limit, seen };
        match self.warnings.read(bound, seen, limit) {
            Reading::Fine => Ok(()),
            Reading::Near => {
                self.tell(&breach, false);
                Ok(())
            }
            Reading::Reached => self.reached(breach, at_bound(&breach)).await,
        }
    }

    async fn disk(&mut self, limit: u64, seen: Option<u64>) -> io::Result<()> {
        if self.plan.is_collecting() {
            return Ok(());
        }
        if self.hidden > 1 {
            let seen = seen.unwrap_or(0);
            let breach = Breach {
                bound: BoundKind::Disk,
                limit,
                seen,
            };
            self.hidden = 0;
            let what = format!(
                "disk cannot be measured: folders of the worktree cannot be looked into; {} were \
                 seen of {}",
                words(BoundKind::Disk, seen),
                words(BoundKind::Disk, limit)
            );
            return self.reached(breach, what).await;
        }
        match seen {
            Some(seen) => self.read(BoundKind::Disk, seen, limit).await,
            None => Ok(()),
        }
    }

    /// What the kernel refuses by itself: told, and a card for later runs.
    fn counted(&mut self, processes: Option<u64>) {
        let limits = &self.keeper.limits;
        let mut found = Vec::new();
        if let (Some(limit), Some(seen)) = (limits.of(BoundKind::Processes), processes) {
            found.push((BoundKind::Processes, seen, limit));
        }
        if let Some(limit) = limits.of(BoundKind::OpenFiles) {
            found.push((
                BoundKind::OpenFiles,
                self.plan.cage.open().most.into(),
                limit,
            ));
        }
        for (bound, seen, limit) in found {
            let breach = Breach { bound, limit, seen };
            match self.warnings.read(bound, seen, limit) {
                Reading::Fine => {}
                Reading::Near => self.tell(&breach, false),
                Reading::Reached => self.refused_by_the_kernel(&breach),
            }
        }
    }

    fn refused_by_the_kernel(&mut self, breach: &Breach) {
        if self.told.contains(&breach.bound) || self.plan.stop.wish().is_some() {
            return;
        }
        self.told.push(breach.bound);
        self.tell(breach, true);
        let what = format!(
            "{}; more are refused to the run, which goes on",
            at_bound(breach)
        );
        self.keeper.arbiter.note_bound(*breach, &what);
    }

    /// What happened in the group since the last look.
    fn tell_counts(&mut self) {
        let Some(group) = self.keeper.tier.group() else {
            return;
        };
        let now = group.counts();
        let before = std::mem::replace(&mut self.counts, now);
        if now.oom_kills > before.oom_kills
            && let Some(message) = self.keeper.ran_out_of_memory()
        {
            self.plan.feed.tell(EventKind::Warning { message });
        }
        if now.forks_refused > before.forks_refused
            && let Some(limit) = self.keeper.limits.of(BoundKind::Processes)
        {
            let (bound, seen) = (BoundKind::Processes, limit);
            self.refused_by_the_kernel(&Breach { bound, limit, seen });
        }
    }

    /// Pauses a cage that has used more than its share; gives when to look again.
    async fn ration(&mut self, used_ms: Option<u64>, limit: u64) -> io::Result<Duration> {
        let Some(used_ms) = used_ms else {
            return Ok(LOOK_EVERY);
        };
        let elapsed = std::mem::replace(&mut self.rationed_at, Instant::now()).elapsed();
        let rest = self.ration.look(used_ms, elapsed, limit);
        if rest.pause.is_zero() || self.plan.is_collecting() || self.plan.stop.wish().is_some() {
            return Ok(rest.next);
        }
        if !self.told.contains(&BoundKind::Cpu) {
            self.told.push(BoundKind::Cpu);
            let breach = Breach {
                bound: BoundKind::Cpu,
                limit,
                seen: limit,
            };
            self.tell(&breach, false);
        }
        let (cage, brake) = (&self.plan.cage, &self.keeper.brake);
        let held = brake.pull(cage, None, None).await?;
        tokio::select! {
            () = sleep(rest.pause) => {}
            _ = self.plan.stop.asked() => {}
            () = self.plan.collecting() => {}
        }
        brake.release(cage, None, held).await?;
        Ok(rest.next)
    }

    async fn reached(&mut self, breach: Breach, what: String) -> io::Result<()> {
        let is_ending = self.plan.is_collecting() || self.plan.stop.wish().is_some();
        if is_ending || self.keeper.arbiter.is_unattended() {
            if !self.told.contains(&breach.bound) {
                self.told.push(breach.bound);
                self.tell(&breach, true);
            }
            self.end(breach, what).await;
            return Ok(());
        }
        self.tell(&breach, true);
        self.hold(breach, what).await
    }

    /// Ends the run at its bound, or what cleans up after it.
    async fn end(&mut self, breach: Breach, what: String) {
        // The wish comes first, so that the step's end is known to be ours.
        let cause = CancelCause::Bound {
            what,
            breach: Some(breach),
        };
        let grace = grace_of(breach.bound);
        self.plan.stop.ask(cause, grace);
        if breach.bound == BoundKind::Memory {
            self.is_over = true;
            self.kill().await;
        }
    }

    pub(super) async fn kill(&self) {
        let killed = self.plan.cage.kill_all().await;
        self.plan
            .killed_by_bound
            .fetch_add(killed, Ordering::Relaxed);
    }

    fn tell(&self, breach: &Breach, reached: bool) {
        self.plan.feed.tell(EventKind::Bound {
            bound: name(breach.bound).to_owned(),
            figure: words(breach.bound, breach.seen),
            limit: words(breach.bound, breach.limit),
            reached,
        });
    }
}

fn at_bound(breach: &Breach) -> String {
    let limit = words(breach.bound, breach.limit);
    match breach.bound {
        BoundKind::Wall => format!("wall time reached its bound of {limit}"),
        bound => format!(
            "{} reached its bound: {} of {limit}",
            name(bound).replace('_', " "),
            words(bound, breach.seen)
        ),
    }
}

/// How long a run that reached a bound may take to end by itself.
pub(super) fn grace_of(bound: BoundKind) -> Duration {
    match bound {
        BoundKind::Wall | BoundKind::Output => GRACE,
        BoundKind::Tokens | BoundKind::Cost | BoundKind::Turns => GRACE,
        BoundKind::Memory
        | BoundKind::Disk
        | BoundKind::Cpu
        | BoundKind::Processes
        | BoundKind::OpenFiles => Duration::ZERO,
    }
}

/// The pause before the next look that only samples need.
fn idle_pause(before: Duration, nothing_was_done: bool) -> Duration {
    if nothing_was_done {
        before.saturating_mul(2).min(LATEST)
    } else {
        LOOK_IDLY
    }
}

fn pause_at(used: u64, limit: u64, is_unchanged: bool) -> Duration {
    if used >= limit / 2 {
        LOOK_CLOSELY
    } else if used >= limit / 4 || !is_unchanged {
        LOOK_EVERY
    } else {
        LOOK_CALMLY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calm_cage_is_looked_at_seldom_and_a_full_one_often() {
        assert_eq!(pause_at(24, 100, true), LOOK_CALMLY);
        assert_eq!(pause_at(24, 100, false), LOOK_EVERY);
        assert_eq!(pause_at(25, 100, true), LOOK_EVERY);
        assert_eq!(pause_at(49, 100, true), LOOK_EVERY);
        for used in [50, 100, 1_000] {
            assert_eq!(pause_at(used, 100, true), LOOK_CLOSELY);
        }
        assert_eq!(pause_at(0, 0, true), LOOK_CLOSELY);
    }

    #[test]
    fn a_run_that_does_nothing_is_looked_at_as_seldom_as_a_sample_is_due() {
        let mut pause = LOOK_IDLY;
        for seconds in [10, 20, 30, 30] {
            pause = idle_pause(pause, true);
            assert_eq!(pause, Duration::from_secs(seconds));
        }
        assert_eq!(idle_pause(pause, false), LOOK_IDLY);
    }

    #[test]
    fn a_breach_reads_as_a_sentence_with_its_figures() {
        let breach = |bound, limit, seen| at_bound(&Breach { bound, limit, seen });
        assert_eq!(
            breach(BoundKind::Memory, 1 << 30, 3 << 29),
            "memory reached its bound: 1.5 GiB of 1 GiB"
        );
        assert_eq!(
            breach(BoundKind::Wall, 90_000, 90_001),
            "wall time reached its bound of 1m 30s"
        );
        assert_eq!(
            breach(BoundKind::OpenFiles, 64, 64),
            "open files reached its bound: 64 of 64"
        );
    }
}
