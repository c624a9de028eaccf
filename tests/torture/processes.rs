//! The process table of a world, seen from the host: who is the engine, which shims and agents live.

use anyhow::{Context, Result};
use foreman_testkit::Stage;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process of the bench's user in the world or in a cage in it.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its number on the host.
    pub pid: i32,
    /// Its number in the world.
    pub in_world: i32,
    /// How many process namespaces lie between it and the world; 0 for the world's own.
    pub depth: usize,
    /// Its arguments.
    pub words: Vec<String>,
}

impl Process {
    /// The last part of its program's name.
    pub fn program(&self) -> &str {
        let first = self.words.first().map_or("", String::as_str);
        first.rsplit('/').next().unwrap_or_default()
    }

    /// True when one of its arguments contains this.
    pub fn mentions(&self, text: &str) -> bool {
        self.words.iter().any(|word| word.contains(text))
    }

    fn parent(&self) -> Option<i32> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok()
    }

    /// Its parent, where that is the `nsenter` which started it in the world.
    pub fn enters_the_world(&self) -> Option<i32> {
        let parent = self.parent()?;
        let name = fs::read_to_string(format!("/proc/{parent}/comm")).ok()?;
        (name.trim() == "nsenter").then_some(parent)
    }

    pub fn signal(&self, signal: Signal) -> bool {
        kill(Pid::from_raw(self.pid), signal).is_ok()
    }
}

/// Reads the table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    uid: u32,
    /// Process namespaces from the host's to the world's.
    depth: usize,
}

impl Table {
    pub fn of(stage: &Stage) -> Result<Self> {
        let first = stage.world.first_process();
        let numbers = numbers(Path::new(&format!("/proc/{first}"))).context("the world is gone")?;
        Ok(Self {
            uid: stage.bench.uid(),
            depth: numbers.len(),
        })
    }

    /// All that live, zombies aside.
    pub fn all(&self) -> Vec<Process> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let processes = entries.flatten().filter_map(|entry| {
            let name = entry.file_name();
            let pid: i32 = name.to_str()?.parse().ok()?;
            (entry.metadata().ok()?.uid() == self.uid).then_some(())?;
            let numbers = numbers(&entry.path())?;
            let in_world = *numbers.get(self.depth.checked_sub(1)?)?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            // What has ended and was not waited for has no arguments any more.
            let words = String::from_utf8_lossy(&line).into_owned();
            let words: Vec<String> = words.split_terminator('\0').map(str::to_owned).collect();
            (!words.is_empty()).then_some(Process {
                pid,
                in_world,
                depth: numbers.len() - self.depth,
                words,
            })
        });
        processes.collect()
    }

    /// The process that holds a data directory.
    pub fn engine(&self, data: &Path) -> Option<Process> {
        let text = fs::read(data.join("state/engine.lock")).ok()?;
        let holder: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let number = holder["pid"].as_i64()?;
        let is_it = |process: &Process| {
            process.depth == 0
                && i64::from(process.in_world) == number
                && process.program() == "foreman"
        };
        self.all().into_iter().find(is_it)
    }

    /// The shims of a data directory's runs, each with its run.
    pub fn shims(&self, data: &Path) -> Vec<(String, Process)> {
        let runs = format!("{}/state/runs/", data.display());
        let shims = self.all().into_iter().filter_map(|process| {
            if process.depth != 0 || process.program() != "foreman-shim" {
                return None;
            }
            let place = process
                .words
                .iter()
                .find_map(|word| word.strip_prefix(&runs))?;
            // Not those of checks, which are run beside it when a run is to be merged.
            let run = place.strip_suffix("/spec.json")?.to_owned();
            (!run.contains('/')).then_some((run, process))
        });
        let shims: Vec<_> = shims.collect();
        // While a cage is built its first process still looks like the shim that forked it; killing that one
        // is a cage that could not be built, not a shim that is gone.
        let is_a_shim = |process: &Process| {
            let parent = process.parent();
            !shims.iter().any(|(_, shim)| Some(shim.pid) == parent)
        };
        let own = shims.iter().filter(|(_, process)| is_a_shim(process));
        own.cloned().collect()
    }
}

/// The process's number in each namespace from ours inwards; nothing for a zombie.
fn numbers(process: &Path) -> Option<Vec<i32>> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    if field("State:")?.trim_start().starts_with(['Z', 'X']) {
        return None;
    }
    let numbers = field("NSpid:")?.split_whitespace();
    numbers.map(|number| number.parse().ok()).collect()
}
