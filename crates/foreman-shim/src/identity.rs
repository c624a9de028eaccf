//! Who a process is: process id, start time and boot, so that a recycled id is never taken for it.

use crate::protocol::ShimIdentity;
use foreman_domain::RunId;
use serde::{Deserialize, Serialize};
use std::io;

/// The identity of a process could not be read.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// `/proc` did not answer.
    #[error("could not read {path}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// `/proc` answered something unexpected.
    #[error("{path} does not look like what a kernel writes")]
    Format {
        /// Which file.
        path: String,
    },
}

/// A process, never to be taken for another one that got its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id on the host.
    pub pid: u32,
    /// Start time in clock ticks since boot, field 22 of `/proc/<pid>/stat`.
    pub start_ticks: u64,
    /// The kernel's boot id.
    pub boot_id: String,
}

impl ProcessIdentity {
    /// The process that has this number now.
    ///
    /// # Errors
    /// When there is none, or `/proc` cannot be read.
    pub fn of(pid: u32) -> Result<Self, IdentityError> {
        Ok(Self {
            pid,
            start_ticks: read_stat(pid)?.start_ticks,
            boot_id: read_boot_id()?,
        })
    }

    /// True while exactly this process runs: same boot, same id, same start time, and not a zombie.
    /// An unreadable `/proc` counts as not alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let Ok(stat) = read_stat(self.pid) else {
            return false;
        };
        self.is_of_this_boot()
            && stat.start_ticks == self.start_ticks
            && !matches!(stat.state, 'Z' | 'X' | 'x')
    }

    /// True when it was started since the machine was.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        read_boot_id().is_ok_and(|boot_id| boot_id == self.boot_id)
    }
}

/// State letter and start time of a process, from `/proc/<pid>/stat`.
struct Stat {
    state: char,
    start_ticks: u64,
}

impl ShimIdentity {
    /// The identity of this very process as the shim of `run`.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn of_this_process(run: RunId) -> Result<Self, IdentityError> {
        let process = ProcessIdentity::of(std::process::id())?;
        Ok(Self {
            run,
            pid: process.pid,
            start_ticks: process.start_ticks,
            boot_id: process.boot_id,
        })
    }

    /// Kills exactly this process, if it is there; a shim takes its cage along.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn kill(&self) -> io::Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        let pid = i32::try_from(self.pid).map_err(|_| io::ErrorKind::InvalidData)?;
        let pid = nix::unistd::Pid::from_raw(pid);
        match nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL) {
            Ok(()) | Err(nix::Error::ESRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// True while exactly this process runs: same boot, same id, same start time, and not a zombie.
    /// An unreadable `/proc` counts as not alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.process().is_alive()
    }

    /// The process alone, without its run.
    #[must_use]
    pub fn process(&self) -> ProcessIdentity {
        ProcessIdentity {
            pid: self.pid,
            start_ticks: self.start_ticks,
            boot_id: self.boot_id.clone(),
        }
    }
}

fn read(path: String) -> Result<(String, String), IdentityError> {
    match std::fs::read(&path) {
        Ok(bytes) => Ok((path, String::from_utf8_lossy(&bytes).into_owned())),
        Err(source) => Err(IdentityError::Read { path, source }),
    }
}

fn read_boot_id() -> Result<String, IdentityError> {
    let (_, text) = read("/proc/sys/kernel/random/boot_id".to_owned())?;
    Ok(text.trim().to_owned())
}

fn read_stat(pid: u32) -> Result<Stat, IdentityError> {
    let (path, text) = read(format!("/proc/{pid}/stat"))?;
    parse_stat(&text).ok_or(IdentityError::Format { path })
}

/// The command name is in parentheses and may itself hold any byte, so fields count from the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // `state` is field 3 and the start time field 22.
    let start_ticks = fields.nth(22 - 3 - 1)?.parse().ok()?;
    Some(Stat { state, start_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_start_time_is_not_it() {
        let me = ShimIdentity::of_this_process(RunId::from_random(1)).unwrap();
        assert!(me.is_alive());
        let mut recycled = me.clone();
        recycled.start_ticks += 1;
        assert!(!recycled.is_alive());
        let mut other_boot = me;
        other_boot.boot_id = "another boot".into();
        assert!(!other_boot.is_alive());
    }

    #[test]
    fn a_command_name_with_parentheses_and_spaces_does_not_shift_the_fields() {
        let text = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20 21";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.state, stat.start_ticks), ('S', 777));
    }

    #[test]
    fn a_zombie_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let stat = read_stat(pid).unwrap();
        let identity = ShimIdentity {
            run: RunId::from_random(1),
            pid,
            start_ticks: stat.start_ticks,
            boot_id: read_boot_id().unwrap(),
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while identity.is_alive() {
            assert!(std::time::Instant::now() < deadline, "it never ended");
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
