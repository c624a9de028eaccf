//! Pausing everything in a cage without a freezer of the kernel's, and letting it go on.
//!
//! Process 1 sends SIGSTOP to all the others with one call. The kernel takes forks and that call one after
//! the other: a fork that began before it is either in the list already, or is taken back and begun anew
//! when the forking process goes on. So nothing is left out, however fast it forks.
//!
//! A process that the signal has not reached yet may still finish its system call, and that may be SIGCONT
//! for another one. Therefore the cage counts as paused only when two looks one after the other saw every
//! thread stopped and none of them scheduled in between: then there was a moment, between the looks, in which
//! all of them were stopped, and from that moment on nobody was left in the cage who could wake anybody.
//!
//! What the kernel does on behalf of a stopped process may wake it all the same: a timer, or a descriptor's
//! owner signal, that was set to SIGCONT before. Nothing can take that back, so it is noticed:
//! [`Cage::is_still`] compares how often every thread has been scheduled. Whoever pauses a cage looks again
//! and again, and ends what does not stay paused.

use crate::{Cage, census, kernel};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a cage may take to come to rest.
const REST_LIMIT: Duration = Duration::from_secs(10);
/// First and longest pause between two tries.
const FIRST_TRY: Duration = Duration::from_millis(1);
const LAST_TRY: Duration = Duration::from_millis(50);

/// A thread, by the process ids of the cage.
pub(crate) type Thread = (u32, u32);

/// Where a thread stands: what the kernel calls its state, and how often it was scheduled away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub state: u8,
    pub switches: u64,
}

pub(crate) type Standings = BTreeMap<Thread, Standing>;

/// A cage that is paused. It stays so when this is dropped.
#[derive(Debug)]
pub struct Paused {
    standings: Standings,
    /// Processes that had been stopped before, by whom ever: they are not ours to wake.
    stopped_before: BTreeSet<u32>,
}

impl Paused {
    /// How many processes are paused.
    #[must_use]
    pub fn processes(&self) -> usize {
        let mut processes: Vec<u32> = self.standings.keys().map(|(process, _)| *process).collect();
        processes.dedup();
        processes.len()
    }
}

impl Cage {
    /// Stops every process but process 1, and returns when all of them are.
    ///
    /// # Errors
    /// When the cage is gone, or does not come to rest within ten seconds: it may be running then.
    pub async fn pause(&self) -> io::Result<Paused> {
        let stopped_before = stopped_processes(&census::threads(self.population()));
        Ok(Paused {
            standings: self.come_to_rest().await?,
            stopped_before,
        })
    }

    /// Stops again what has begun to run in a paused cage.
    ///
    /// # Errors
    /// As [`Cage::pause`].
    pub async fn pause_again(&self, paused: &mut Paused) -> io::Result<()> {
        paused.standings = self.come_to_rest().await?;
        Ok(())
    }

    async fn come_to_rest(&self) -> io::Result<Standings> {
        let begun = Instant::now();
        let mut between = FIRST_TRY;
        loop {
            self.stop_all().await?;
            // One look to have something to compare with, and one that compares.
            let first = census::threads(self.population());
            if at_rest(&first) && census::threads(self.population()) == first {
                return Ok(first);
            }
            if begun.elapsed() > REST_LIMIT {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // A thread needs to be scheduled once to stop.
            tokio::time::sleep(between).await;
            between = LAST_TRY.min(between * 2);
        }
    }

    /// Whether nothing has run in a paused cage since. What has been killed does not count.
    #[must_use]
    pub fn is_still(&self, paused: &Paused) -> bool {
        stays_at_rest(&paused.standings, &census::threads(self.population()))
    }

    /// Lets a paused cage go on: children before their parents, so that no parent sees a child that is
    /// still stopped and takes that for news. Processes that had been stopped before stay so.
    pub fn go_on(&self, paused: Paused) {
        let proc = self.proc();
        let mut processes: BTreeSet<u32> = census::threads(self.population())
            .into_keys()
            .map(|(process, _)| process)
            .collect();
        while let Some(process) = processes.pop_last() {
            if !paused.stopped_before.contains(&process) {
                // One that has been killed meanwhile needs no signal.
                let _ = signal(proc, process, libc::SIGCONT);
            }
        }
    }
}

/// Signals a process of the cage by its number there. The open directory names one process for good.
fn signal(proc: BorrowedFd<'_>, process: u32, signal: libc::c_int) -> io::Result<()> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let name = process.to_string();
    let process = openat(proc, Path::new(&name), flags, Mode::empty())?;
    kernel::signal_process(process.as_fd(), signal)
}

fn stopped_processes(standings: &Standings) -> BTreeSet<u32> {
    let running: BTreeSet<u32> = standings
        .iter()
        .filter(|(_, standing)| !matches!(standing.state, b'T' | b't' | b'Z' | b'X'))
        .map(|((process, _), _)| *process)
        .collect();
    let stopped = standings
        .iter()
        .filter(|((process, _), standing)| standing.state == b'T' && !running.contains(process))
        .map(|((process, _), _)| *process);
    stopped.collect()
}

/// Whether every thread is stopped, has ended, or waits inside the kernel where the signal that it has got
/// keeps it from ever returning to its program.
fn at_rest(standings: &Standings) -> bool {
    standings
        .values()
        .all(|standing| matches!(standing.state, b'T' | b't' | b'Z' | b'X' | b'D'))
}

/// Whether no thread was added or scheduled. What is gone was killed: it did not run either.
fn stays_at_rest(before: &Standings, now: &Standings) -> bool {
    at_rest(now)
        && now.iter().all(|(thread, standing)| {
            matches!(standing.state, b'Z' | b'X') || before.get(thread) == Some(standing)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standings(all: &[(u32, u32, u8, u64)]) -> Standings {
        let standing = |(process, thread, state, switches): &(u32, u32, u8, u64)| {
            let standing = Standing {
                state: *state,
                switches: *switches,
            };
            ((*process, *thread), standing)
        };
        all.iter().map(standing).collect()
    }

    #[test]
    fn a_cage_is_at_rest_when_no_thread_can_run() {
        assert!(at_rest(&standings(&[])));
        assert!(at_rest(&standings(&[(2, 2, b'T', 5), (3, 3, b'Z', 1)])));
        for state in [b'R', b'S', b'I', b'?'] {
            let standings = standings(&[(2, 2, b'T', 5), (2, 3, state, 1)]);
            assert!(!at_rest(&standings), "{}", char::from(state));
        }
    }

    #[test]
    fn a_thread_that_was_scheduled_or_is_new_has_run_and_a_killed_one_has_not() {
        let before = standings(&[(2, 2, b'T', 5), (3, 3, b'T', 7)]);
        assert!(stays_at_rest(&before, &before));
        assert!(stays_at_rest(&before, &standings(&[(2, 2, b'T', 5)])));
        assert!(stays_at_rest(
            &before,
            &standings(&[(2, 2, b'T', 5), (3, 3, b'Z', 8)])
        ));
        for now in [
            [(2, 2, b'T', 6), (3, 3, b'T', 7)],
            [(2, 2, b'T', 5), (4, 4, b'T', 0)],
            [(2, 2, b'R', 5), (3, 3, b'T', 7)],
        ] {
            assert!(!stays_at_rest(&before, &standings(&now)), "{now:?}");
        }
    }

    #[test]
    fn only_processes_that_were_stopped_as_a_whole_stay_stopped_later() {
        let standings = standings(&[
            (2, 2, b'S', 1),
            (3, 3, b'T', 1),
            (4, 4, b'T', 1),
            (4, 5, b'R', 1),
        ]);
        assert_eq!(stopped_processes(&standings), BTreeSet::from([3]));
    }
}
