//! What is done to the product at random moments.

use crate::dice::Dice;
use crate::processes::{Process, Table};
use foreman_testkit::LiveRun;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Kinds of misfortune.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// SIGKILL of whoever hosts the engine.
    Engine,
    /// SIGKILL of a run's supervisor.
    Shim,
    /// SIGKILL of an agent.
    Agent,
    /// SIGKILL of a command line that waits for its run.
    Client,
    /// SIGKILL of all of it: engine, command lines, supervisors.
    Everything,
    /// SIGSTOP of the engine, and SIGCONT after a while.
    EnginePause,
    /// SIGSTOP of a supervisor, and SIGCONT after a while.
    ShimPause,
}

impl Fault {
    /// The engine is what falls most often.
    const WEIGHTED: [Fault; 12] = [
        Fault::Engine,
        Fault::Engine,
        Fault::Engine,
        Fault::Engine,
        Fault::Shim,
        Fault::Shim,
        Fault::Agent,
        Fault::Client,
        Fault::Everything,
        Fault::Everything,
        Fault::EnginePause,
        Fault::ShimPause,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Shim => "shim",
            Self::Agent => "agent",
            Self::Client => "client",
            Self::Everything => "all",
            Self::EnginePause => "engine paused",
            Self::ShimPause => "shim paused",
        }
    }
}

/// A fault, and when it comes.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    pub fault: Fault,
    pub after: Duration,
    pub lasts: Duration,
}

/// One or two faults within the time that a run takes.
pub fn plan(dice: &mut Dice, within: Duration) -> Vec<Planned> {
    let count = if dice.once_in(3) { 2 } else { 1 };
    let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
    let mut planned: Vec<Planned> = (0..count)
        .filter_map(|_| {
            Some(Planned {
                fault: *dice.pick(&Fault::WEIGHTED)?,
                after: Duration::from_millis(dice.below(within)),
                lasts: Duration::from_millis(30 + dice.below(1_500)),
            })
        })
        .collect();
    planned.sort_by_key(|planned| planned.after);
    planned
}

/// What was hit.
#[derive(Debug, Default)]
pub struct Hits {
    /// How often each kind of fault found something to hit.
    pub counts: BTreeMap<Fault, u32>,
    /// Runs whose supervisor was killed.
    pub shims: Vec<String>,
    /// Tags of runs whose agent was killed.
    pub agents: Vec<String>,
    /// Tags of runs whose command line was killed.
    pub clients: Vec<String>,
    /// An engine was killed.
    pub engine: bool,
    /// What may have stopped itself because its child was stopped: `nsenter` does, and is not woken by
    /// the child's going on.
    pub stopped: Vec<i32>,
}

impl Hits {
    /// Lets those go on that stopped with a child of theirs.
    pub fn wake(&self) {
        for pid in &self.stopped {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(*pid), Signal::SIGCONT);
        }
    }
}

/// What there is to hit.
pub struct Targets<'a> {
    pub table: Table,
    pub data: &'a Path,
    pub clients: &'a [(String, LiveRun)],
    /// The `foreman serve` of the lane, as the host numbers it.
    pub server: Option<i32>,
}

/// Does what is planned, each at its time after `begin`.
pub fn strike(
    targets: &Targets<'_>,
    planned: &[Planned],
    dice: &mut Dice,
    begin: Instant,
    hits: &Mutex<Hits>,
) {
    for Planned {
        fault,
        after,
        lasts,
    } in planned
    {
        std::thread::sleep((begin + *after).saturating_duration_since(Instant::now()));
        let hit = match fault {
            Fault::Engine => targets.kill_engine(hits),
            Fault::Shim => targets.kill_shim(dice, hits),
            Fault::Agent => targets.kill_agent(dice, hits),
            Fault::Client => targets.kill_client(dice, hits),
            Fault::Everything => targets.kill_everything(hits),
            Fault::EnginePause => pause(targets.engine(), *lasts, hits),
            Fault::ShimPause => pause(targets.shim(dice).map(|(_, shim)| shim), *lasts, hits),
        };
        if hit {
            let mut hits = hits.lock().unwrap();
            *hits.counts.entry(*fault).or_default() += 1;
        }
    }
}

fn pause(process: Option<Process>, lasts: Duration, hits: &Mutex<Hits>) -> bool {
    let Some(process) = process else { return false };
    if let Some(parent) = process.enters_the_world() {
        hits.lock().unwrap().stopped.push(parent);
    }
    if !process.signal(Signal::SIGSTOP) {
        return false;
    }
    std::thread::sleep(lasts);
    process.signal(Signal::SIGCONT);
    true
}

impl Targets<'_> {
    fn engine(&self) -> Option<Process> {
        self.table.engine(self.data)
    }

    fn shim(&self, dice: &mut Dice) -> Option<(String, Process)> {
        dice.pick(&self.table.shims(self.data)).cloned()
    }

    fn kill_engine(&self, hits: &Mutex<Hits>) -> bool {
        let Some(engine) = self.engine() else {
            return false;
        };
        // Before the blow: whoever looks at what is left must know.
        hits.lock().unwrap().engine = true;
        self.note_client(engine.pid, hits);
        engine.signal(Signal::SIGKILL)
    }

    fn kill_shim(&self, dice: &mut Dice, hits: &Mutex<Hits>) -> bool {
        let Some((run, shim)) = self.shim(dice) else {
            return false;
        };
        hits.lock().unwrap().shims.push(run);
        shim.signal(Signal::SIGKILL)
    }

    fn kill_agent(&self, dice: &mut Dice, hits: &Mutex<Hits>) -> bool {
        let tags = self.clients.iter().map(|(tag, _)| tag);
        let agents: Vec<(&String, Process)> = tags
            .flat_map(|tag| {
                let own = self.table.all().into_iter();
                let own = own.filter(|process| {
                    process.depth > 0 && process.program() == "sh" && process.mentions(tag)
                });
                own.map(move |process| (tag, process))
            })
            .collect();
        let Some((tag, agent)) = dice.pick(&agents) else {
            return false;
        };
        hits.lock().unwrap().agents.push((*tag).clone());
        agent.signal(Signal::SIGKILL)
    }

    fn kill_client(&self, dice: &mut Dice, hits: &Mutex<Hits>) -> bool {
        let Some((tag, client)) = dice.pick(self.clients) else {
            return false;
        };
        let Ok(pid) = client.pid() else { return false };
        let hosts = self.engine().is_some_and(|engine| engine.pid == pid);
        {
            let mut hits = hits.lock().unwrap();
            hits.clients.push(tag.clone());
            hits.engine |= hosts;
        }
        client.signal(Signal::SIGKILL).is_ok()
    }

    fn kill_everything(&self, hits: &Mutex<Hits>) -> bool {
        hits.lock().unwrap().engine = true;
        let mut any = false;
        for (tag, client) in self.clients {
            if !client.is_over() {
                hits.lock().unwrap().clients.push(tag.clone());
                any |= client.signal(Signal::SIGKILL).is_ok();
            }
        }
        let server = self.server.map(nix::unistd::Pid::from_raw);
        any |= server.is_some_and(|server| nix::sys::signal::kill(server, Signal::SIGKILL).is_ok());
        if let Some(engine) = self.engine() {
            any |= engine.signal(Signal::SIGKILL);
        }
        for (run, shim) in self.table.shims(self.data) {
            hits.lock().unwrap().shims.push(run);
            any |= shim.signal(Signal::SIGKILL);
        }
        any
    }

    /// An engine may be one of the command lines.
    fn note_client(&self, pid: i32, hits: &Mutex<Hits>) {
        for (tag, client) in self.clients {
            if client.pid().is_ok_and(|own| own == pid) {
                hits.lock().unwrap().clients.push(tag.clone());
            }
        }
    }
}
