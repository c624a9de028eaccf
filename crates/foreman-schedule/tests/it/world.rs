//! The scheduler in a made-up world on virtual time: runs take a while, fail, are lost; the engine dies
//! between any two writes and comes back; the clock jumps both ways; the operator pauses, pushes,
//! cancels and reviews. Whatever happens, what must hold is looked at after each step, and when the
//! world has calmed down nothing is left waiting for something that would come.

use crate::making::{NOW, id, some_snapshot};
use crate::properties::kept_apart;
use foreman_domain::{At, OrderId};
use foreman_schedule::{
    Amounts, BudgetUse, Cadence, InFlight, Limits, Missed, OrderFacts, PassingFailure, Recurrence,
    Snapshot, Standing, WaitReason, dispatch, retry,
};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// What outlives the engine.
struct World {
    dice: u64,
    /// The wall clock in milliseconds, which jumps, and seconds that passed, which do not.
    wall: i64,
    passed: u64,
    engine_is_up: bool,
    orders: BTreeMap<OrderId, OrderFacts>,
    attempts: BTreeMap<OrderId, u32>,
    runs: Vec<Run>,
    processes: BTreeMap<usize, Process>,
    exits: BTreeMap<usize, Exit>,
    launches: BTreeMap<usize, u32>,
    limits: Limits,
    paused: bool,
    manual: BTreeSet<OrderId>,
    schedule: Recurrence,
    taken: At,
    slots: BTreeSet<At>,
    calm: bool,
    deaths: usize,
}

struct Run {
    order: OrderId,
    live: bool,
    use_: BudgetUse,
}

struct Process {
    ends: u64,
    exit: Exit,
}

#[derive(Clone, Copy)]
enum Exit {
    Good,
    Bad,
    Provision,
}

/// The engine died here.
struct Died;

impl World {
    fn new(snapshot: Snapshot, seed: u64) -> Self {
        let mut limits = snapshot.limits;
        limits.budgets.window_seconds = 3_600;
        let orders = snapshot.orders.into_iter().map(|mut order| {
            order.hints.retries = 2;
            (order.id.clone(), order)
        });
        Self {
            dice: seed,
            wall: NOW,
            passed: 0,
            engine_is_up: true,
            orders: orders.collect(),
            attempts: BTreeMap::new(),
            runs: Vec::new(),
            processes: BTreeMap::new(),
            exits: BTreeMap::new(),
            launches: BTreeMap::new(),
            limits,
            paused: false,
            manual: BTreeSet::new(),
            schedule: Recurrence {
                cadence: Cadence::Every {
                    every_seconds: 600,
                    from: At::from_millis(NOW),
                },
                zone: None,
                missed: [Missed::Skip, Missed::Once, Missed::All { at_most: 2 }]
                    [(seed % 3) as usize],
            },
            taken: At::from_millis(NOW - 1),
            slots: BTreeSet::new(),
            calm: false,
            deaths: 0,
        }
    }

    fn roll(&mut self, below: u64) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) % below
    }

    fn now(&self) -> At {
        At::from_millis(self.wall)
    }

    fn snapshot(&self) -> Snapshot {
        let in_flight = self
            .orders
            .values()
            .filter(|order| order.standing == Standing::InFlight);
        Snapshot {
            now: self.now(),
            paused: self.paused,
            manual: self.manual.clone(),
            limits: self.limits.clone(),
            orders: self.orders.values().cloned().collect(),
            in_flight: in_flight
                .map(|order| InFlight {
                    live: self.live_runs().any(|run| run.order == order.id),
                    ..crate::making::live(order)
                })
                .collect(),
            book: self.runs.iter().map(|run| run.use_).collect(),
        }
    }

    fn live_runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.live)
    }

    /// Perhaps the end of the engine.
    fn survive(&mut self) -> Result<(), Died> {
        if !self.calm && self.roll(12) == 0 {
            Err(Died)
        } else {
            Ok(())
        }
    }

    /// What the engine does every few seconds; each step is one transaction, or one launch.
    fn tick(&mut self) -> Result<(), Died> {
        let ended: Vec<(usize, Exit)> =
            self.exits.iter().map(|(run, exit)| (*run, *exit)).collect();
        for (run, exit) in ended {
            self.survive()?;
            self.settle(run, exit);
        }
        self.take_slots()?;
        let snapshot = self.snapshot();
        let decision = dispatch(&snapshot);
        let ready = self
            .orders
            .values()
            .filter(|order| order.standing == Standing::Ready)
            .count();
        assert_eq!(
            decision.start.len() + decision.waiting.len(),
            ready,
            "each has a place or a reason"
        );
        for order in &decision.start {
            self.survive()?;
            let run = self.record(order, decision.reserve[order]);
            self.survive()?;
            self.launch(run);
        }
        Ok(())
    }

    fn record(&mut self, order: &OrderId, amounts: Amounts) -> usize {
        assert!(
            !self.live_runs().any(|run| run.order == *order),
            "{order} has a live run already"
        );
        let facts = &self.orders[order];
        for holder in self.snapshot().in_flight {
            assert!(
                !kept_apart(&holder, facts),
                "{order} beside {:?}",
                holder.order
            );
        }
        self.runs.push(Run {
            order: order.clone(),
            live: true,
            use_: BudgetUse {
                amounts,
                settled: None,
            },
        });
        self.manual.remove(order);
        *self.attempts.entry(order.clone()).or_default() += 1;
        if let Some(facts) = self.orders.get_mut(order) {
            facts.standing = Standing::InFlight;
            facts.retry = None;
        }
        self.look_at_budget();
        self.runs.len() - 1
    }

    fn launch(&mut self, run: usize) {
        let exit = match self.roll(6) {
            0 => Exit::Bad,
            1 => Exit::Provision,
            _ => Exit::Good,
        };
        let ends = self.passed + self.roll(900);
        *self.launches.entry(run).or_default() += 1;
        self.processes.insert(run, Process { ends, exit });
    }

    fn settle(&mut self, run: usize, exit: Exit) {
        self.exits.remove(&run);
        let now = self.now();
        let share = self.roll(3);
        let record = &mut self.runs[run];
        assert!(record.live, "a run ends once");
        record.live = false;
        record.use_.settled = Some(now);
        record.use_.amounts.tokens = record.use_.amounts.tokens * share / 2;
        let order = record.order.clone();
        let (attempt, fraction) = (self.attempts[&order], self.roll(100) as f64 / 99.0);
        let Some(facts) = self
            .orders
            .get_mut(&order)
            .filter(|facts| facts.standing == Standing::InFlight)
        else {
            return;
        };
        let failure = PassingFailure::Provision {
            message: "the remote did not answer".into(),
        };
        match exit {
            Exit::Good => {}
            Exit::Bad => facts.standing = Standing::Closed,
            Exit::Provision => match retry(&failure, attempt, facts.hints.retries, now, fraction) {
                Some(again) => {
                    facts.standing = Standing::Ready;
                    facts.retry = Some(again);
                }
                None => facts.standing = Standing::Closed,
            },
        }
    }

    fn take_slots(&mut self) -> Result<(), Died> {
        let due = self
            .schedule
            .due(&TimeZone::UTC, self.taken, self.now())
            .unwrap();
        for slot in due.run {
            self.survive()?;
            // The pair is the key: a slot that was taken before the engine died is taken.
            if self.slots.insert(slot) {
                let name = id(&format!("nightly-{}", slot.as_millis()));
                let made = crate::making::order(name.as_str());
                assert!(
                    self.orders.insert(name, made).is_none(),
                    "a slot makes one order"
                );
            }
        }
        self.survive()?;
        self.taken = due.through.unwrap_or(self.taken);
        Ok(())
    }

    /// What a new engine finds: runs that live are followed on, runs that were recorded and never
    /// launched have failed before their agent started.
    fn come_up(&mut self) {
        self.engine_is_up = true;
        let lost = (0..self.runs.len()).filter(|run| {
            self.runs[*run].live
                && !self.processes.contains_key(run)
                && !self.exits.contains_key(run)
        });
        for run in lost.collect::<Vec<_>>() {
            self.settle(run, Exit::Provision);
        }
    }

    /// Processes end by themselves, engine or not.
    fn pass(&mut self, seconds: u64) {
        self.passed += seconds;
        self.wall += i64::try_from(seconds).unwrap() * 1000;
        let over = self
            .processes
            .iter()
            .filter(|(_, process)| process.ends <= self.passed);
        for run in over.map(|(run, _)| *run).collect::<Vec<_>>() {
            let process = self.processes.remove(&run).unwrap();
            self.exits.insert(run, process.exit);
        }
    }

    fn review(&mut self) {
        let live: BTreeSet<OrderId> = self.live_runs().map(|run| run.order.clone()).collect();
        for order in self.orders.values_mut() {
            if order.standing == Standing::InFlight && !live.contains(&order.id) {
                order.standing = Standing::Done;
            }
        }
    }

    fn something_happens(&mut self) {
        let seconds = self.roll(120);
        self.pass(seconds);
        match self.roll(14) {
            0 => self.wall -= i64::try_from(self.roll(3_600_000)).unwrap(),
            1 => self.wall += i64::try_from(self.roll(90_000_000)).unwrap(),
            2 => self.paused = !self.paused,
            3 => {
                let nth = usize::try_from(self.roll(self.orders.len() as u64)).unwrap();
                self.manual.extend(self.orders.keys().nth(nth).cloned());
            }
            4 => self.review(),
            5 => {
                let nth = usize::try_from(self.roll(self.orders.len() as u64)).unwrap();
                let order = self.orders.values_mut().nth(nth).unwrap();
                if order.standing == Standing::Ready {
                    order.standing = Standing::Closed;
                }
            }
            _ => {}
        }
        if !self.engine_is_up {
            if self.roll(3) == 0 {
                self.come_up();
            }
        } else if self.tick().is_err() {
            self.engine_is_up = false;
            self.deaths += 1;
        }
        self.look();
    }

    /// What must hold at every moment.
    fn look(&self) {
        let mut of_order = BTreeSet::new();
        for run in self.live_runs() {
            assert!(
                of_order.insert(&run.order),
                "{} has two live runs",
                run.order
            );
        }
        for (run, process) in &self.processes {
            assert!(
                self.runs[*run].live,
                "a process of an ended run, until {}",
                process.ends
            );
        }
        assert!(
            self.launches.values().all(|launched| *launched == 1),
            "a run is launched once"
        );
        let count = |matches: &dyn Fn(&OrderFacts) -> bool| {
            u32::try_from(
                self.live_runs()
                    .filter(|run| matches(&self.orders[&run.order]))
                    .count(),
            )
            .unwrap()
        };
        let within = |cap: Option<u32>, matches: &dyn Fn(&OrderFacts) -> bool| {
            cap.filter(|cap| *cap > 0)
                .is_none_or(|cap| count(matches) <= cap)
        };
        assert!(within(self.limits.total, &|_| true));
        for repository in ["/srv/home.git", "/srv/away.git"] {
            assert!(within(self.limits.per_repository, &|order| order
                .repository
                == repository));
        }
        for kind in ["fix", "plan"] {
            let cap = self.limits.per_kind.get(kind).copied();
            assert!(within(cap, &|order| order.hints.kind.as_deref() == Some(kind)));
        }
        for class in ["db", "device"] {
            let cap = self.limits.per_class.get(class).copied().unwrap_or(1);
            assert!(within(Some(cap), &|order| order
                .hints
                .concurrency_class
                .as_deref()
                == Some(class)));
        }
    }

    /// What was just reserved is within the budget, as far as the clock says at that moment.
    fn look_at_budget(&self) {
        let Some(budget) = self.limits.budgets.tokens.filter(|budget| *budget > 0) else {
            return;
        };
        let window = i64::try_from(self.limits.budgets.window_seconds).unwrap() * 1000;
        let counts = |use_: &BudgetUse| {
            use_.settled
                .is_none_or(|at| at.as_millis() + window > self.wall)
        };
        let used: u64 = self
            .runs
            .iter()
            .filter(|run| counts(&run.use_))
            .map(|run| run.use_.amounts.tokens)
            .sum();
        let last = self.runs.last().map_or(0, |run| run.use_.amounts.tokens);
        assert!(last == 0 || used <= budget, "{used} of {budget} tokens");
    }

    /// The rest of the story without misfortune: what waits now waits for something that never comes.
    fn calm_down(&mut self) {
        self.calm = true;
        self.paused = false;
        self.come_up();
        for _ in 0..self.orders.len() * 8 + 20 {
            // No slot comes any more.
            self.taken = At::from_millis(self.wall + 10_000_000);
            self.pass(3_700);
            assert!(self.tick().is_ok());
            self.look();
            self.review();
        }
        let whole = self.limits.budgets.tokens.unwrap_or(0);
        for (order, reason) in dispatch(&self.snapshot()).waiting {
            let for_ever = match &reason {
                WaitReason::Fault { .. }
                | WaitReason::Cycle { .. }
                | WaitReason::HumanOnly
                | WaitReason::HasChildren { .. }
                | WaitReason::KindNotAccepted { .. }
                | WaitReason::Dependency { .. } => true,
                WaitReason::Budget { needs, .. } => needs.is_some_and(|needs| needs > whole),
                WaitReason::NotBefore { .. }
                | WaitReason::Retry { .. }
                | WaitReason::Paused
                | WaitReason::LiveRun
                | WaitReason::Cap { .. }
                | WaitReason::Scope { .. } => false,
            };
            assert!(for_ever, "{order} still waits: {reason:?}");
        }
        assert!(self.processes.is_empty() && self.live_runs().count() == 0);
    }
}

#[test]
fn nothing_is_started_twice_or_forgotten_whatever_happens() {
    let (launched, died, slots) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let config = ProptestConfig::with_cases(400);
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let worlds = (some_snapshot(14, false), any::<u64>());
    let run = runner.run(&worlds, |(snapshot, seed)| {
        let mut world = World::new(snapshot, seed);
        for _ in 0..150 {
            world.something_happens();
        }
        world.calm_down();
        launched.set(launched.get() + world.launches.len());
        died.set(died.get() + world.deaths);
        slots.set(slots.get() + world.slots.len());
        Ok(())
    });
    run.unwrap();
    let (launched, died, slots) = (launched.get(), died.get(), slots.get());
    assert!(
        launched > 4_000 && died > 4_000 && slots > 4_000,
        "{launched} runs, {died} deaths, {slots} slots"
    );
    println!("{launched} runs of 400 worlds, {died} deaths of the engine, {slots} slots");
}
