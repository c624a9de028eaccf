//! A process that runs beside a case and ends with it.

use crate::world::descendants;
use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::process::{Child, Command, Stdio};

/// A process that is killed, with all it started, when this drops.
#[derive(Debug)]
pub struct Daemon(Child);

impl Daemon {
    /// Starts it, with its output dropped.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Self(child.with_context(|| {
            format!("start {:?}", command.get_program())
        })?))
    }

    /// Its number; of `nsenter`, where it runs in a world.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.0.id().cast_signed()
    }

    /// True while it runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        for pid in descendants(self.pid()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many processes of this machine have this mark in their arguments, those aside that only pass
/// an agent's command line on (`foreman` and what enters a world).
#[must_use]
pub fn processes_with(mark: &str) -> usize {
    let Ok(entries) = fs::read_dir("/proc") else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let first = line.split('\0').next().unwrap_or_default().to_owned();
            let passes_on = ["foreman", "foreman-shim", "nsenter", "setsid"]
                .iter()
                .any(|name| first.rsplit('/').next() == Some(*name));
            line.contains(mark) && !passes_on
        })
        .count()
}
