//! One `foreman run --json` as it happens: its events, and waiting for them.

use crate::{Ran, eventually, until};
use anyhow::{Context, Result, bail};
use foreman_domain::{Event, EventKind};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Longest wait for something that a live run does: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Heard {
    events: Vec<Event>,
    arrived: Vec<SystemTime>,
    other: Vec<String>,
    errors: String,
}

/// A `foreman` process that prints events.
#[derive(Debug)]
pub struct LiveRun {
    process: Mutex<Child>,
    heard: Arc<Mutex<Heard>>,
    readers: Vec<std::thread::JoinHandle<()>>,
}

impl LiveRun {
    /// Starts the command and listens to it.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start foreman")?;
        let out = process.stdout.take().context("a pipe")?;
        let mut errors = process.stderr.take().context("a pipe")?;
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (to_lines, to_errors) = (heard.clone(), heard.clone());
        let lines = std::thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                let mut heard = to_lines.lock().unwrap();
                match serde_json::from_str::<Event>(&line) {
                    Ok(event) => {
                        heard.arrived.push(SystemTime::now());
                        heard.events.push(event);
                    }
                    Err(_) => heard.other.push(line),
                }
            }
        });
        let texts = std::thread::spawn(move || {
            let mut chunk = [0_u8; 4096];
            while let Ok(count @ 1..) = errors.read(&mut chunk) {
                to_errors
                    .lock()
                    .unwrap()
                    .errors
                    .push_str(&String::from_utf8_lossy(&chunk[..count]));
            }
        });
        Ok(Self {
            process: Mutex::new(process),
            heard,
            readers: vec![lines, texts],
        })
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.heard.lock().unwrap().events.clone()
    }

    /// When the first event that `pick` takes was printed by `foreman`, as seen by its reader.
    #[must_use]
    pub fn arrival(&self, mut pick: impl FnMut(&Event) -> bool) -> Option<SystemTime> {
        let heard = self.heard.lock().unwrap();
        let index = heard.events.iter().position(&mut pick)?;
        heard.arrived.get(index).copied()
    }

    /// Everything heard so far, for messages.
    #[must_use]
    pub fn story(&self) -> String {
        let heard = self.heard.lock().unwrap();
        let mut story = String::new();
        let from = heard.events.len().saturating_sub(60);
        for event in &heard.events[from..] {
            let text = serde_json::to_string(event).unwrap_or_default();
            story.push_str(&text.chars().take(600).collect::<String>());
            story.push('\n');
        }
        for line in &heard.other {
            story.push_str(line);
            story.push('\n');
        }
        story + &heard.errors
    }

    /// Standard error so far.
    #[must_use]
    pub fn errors(&self) -> String {
        self.heard.lock().unwrap().errors.clone()
    }

    /// Lines that are no events (the failure of a run that never began).
    #[must_use]
    pub fn other_lines(&self) -> Vec<String> {
        self.heard.lock().unwrap().other.clone()
    }

    /// Waits for an event that `pick` takes.
    ///
    /// # Errors
    /// It did not come; the message has what came.
    pub fn wait_for<T>(&self, what: &str, mut pick: impl FnMut(&Event) -> Option<T>) -> Result<T> {
        let mut seen = 0;
        let found = until(what, PATIENCE, || {
            let over = self.is_over()
                && self
                    .readers
                    .iter()
                    .all(std::thread::JoinHandle::is_finished);
            let heard = self.heard.lock().unwrap();
            let found = heard.events[seen..].iter().find_map(&mut pick);
            seen = heard.events.len();
            if found.is_none() && over {
                bail!("the run ended without: {what}");
            }
            Ok(found)
        });
        found.with_context(|| self.story())
    }

    /// The run's id.
    ///
    /// # Errors
    /// No event came.
    pub fn id(&self) -> Result<String> {
        self.wait_for("the run has begun", |event| Some(event.run.to_string()))
    }

    /// Waits until a block for this subject is open, and gives its id. `subject` as on the card:
    /// `tcp name.example:443`.
    ///
    /// # Errors
    /// None opened.
    pub fn block(&self, subject: &str) -> Result<String> {
        self.wait_for(&format!("a block for {subject}"), |event| {
            match &event.kind {
                EventKind::Block { block }
                    if block.subject.to_string() == subject && block.state.tag() == "open" =>
                {
                    Some(block.id.to_string())
                }
                _ => None,
            }
        })
    }

    /// Waits until the agent printed a line that contains this.
    ///
    /// # Errors
    /// It did not.
    pub fn said(&self, text: &str) -> Result<String> {
        self.wait_for(&format!("output with {text:?}"), |event| {
            match &event.kind {
                EventKind::Output { text: line, .. } if line.contains(text) => Some(line.clone()),
                _ => None,
            }
        })
    }

    /// Waits for the process to end and gives its exit code.
    ///
    /// # Errors
    /// It did not end; it is then killed.
    pub fn ended(&self) -> Result<i32> {
        use std::os::unix::process::ExitStatusExt;
        let waited = until("foreman run ended", PATIENCE * 2, || {
            Ok(self.process.lock().unwrap().try_wait()?)
        });
        let status = waited.with_context(|| self.story())?;
        eventually("its output was read", PATIENCE, || {
            self.readers
                .iter()
                .all(std::thread::JoinHandle::is_finished)
        })?;
        Ok(status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal))
            .unwrap_or(-1))
    }

    /// As a finished command; call after [`LiveRun::ended`].
    ///
    /// # Errors
    /// It did not end.
    pub fn ran(&self) -> Result<Ran> {
        let code = self.ended()?;
        let heard = self.heard.lock().unwrap();
        let events = heard
            .events
            .iter()
            .filter_map(|event| serde_json::to_string(event).ok());
        let stdout = events
            .chain(heard.other.iter().cloned())
            .collect::<Vec<_>>()
            .join("\n");
        Ok(Ran {
            code,
            stdout,
            stderr: heard.errors.clone(),
        })
    }

    /// The `foreman` process itself, as the host numbers it.
    ///
    /// # Errors
    /// It is gone.
    pub fn pid(&self) -> Result<i32> {
        let own = self.process.lock().unwrap().id().cast_signed();
        let name = std::fs::read_to_string(format!("/proc/{own}/comm")).unwrap_or_default();
        if name.trim() != "nsenter" {
            return Ok(own);
        }
        let inner = crate::world::children(own);
        inner.first().copied().context("foreman is gone")
    }

    /// True when the process has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !matches!(self.process.lock().unwrap().try_wait(), Ok(None))
    }

    /// Sends the `foreman` process a signal.
    ///
    /// # Errors
    /// It is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill(Pid::from_raw(self.pid()?), signal)?)
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        if !self.is_over() {
            if let Ok(pid) = self.pid() {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let mut process = self.process.lock().unwrap();
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
