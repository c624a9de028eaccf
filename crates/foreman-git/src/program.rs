//! The one home of the git program on the host.
//!
//! It is started only inside the repository's own common directory, never in a worktree that a run
//! could write and never in a nested folder; with an empty environment but for what is listed here,
//! the operator's global and system configuration off, hooks and file monitor off, a C locale, and a
//! deadline after which its process group is killed.

use crate::GitError;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How much of what the program says is kept.
const KEEP: usize = 1 << 20;

/// One call of the git program.
pub(crate) struct Program<'a> {
    common: &'a Path,
    objects: Option<PathBuf>,
    what: &'static str,
    args: Vec<OsString>,
    deadline: Duration,
    output: Option<File>,
}

impl<'a> Program<'a> {
    /// A call of `git <what>` in the common directory `common`.
    pub(crate) fn new(common: &'a Path, what: &'static str, deadline: Duration) -> Self {
        Self {
            common,
            objects: None,
            what,
            args: Vec::new(),
            deadline,
            output: None,
        }
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub(crate) fn args<const N: usize>(self, args: [&str; N]) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Writes new objects to `objects` instead of the repository's own store.
    pub(crate) fn objects(mut self, objects: &Path) -> Self {
        self.objects = Some(objects.to_owned());
        self
    }

    /// Writes what it prints to a new file instead of giving it.
    pub(crate) fn output(mut self, path: &Path) -> Result<Self, GitError> {
        self.output = Some(File::create_new(path).map_err(GitError::io("cannot write", path))?);
        Ok(self)
    }

    /// Runs it with what `feed` writes as its input; gives what it printed.
    ///
    /// # Errors
    /// [`GitError::Program`] when it cannot be started, fails or takes too long; what `feed`
    /// returned when that failed by itself.
    pub(crate) fn run(
        mut self,
        feed: impl FnOnce(&mut dyn Write) -> Result<(), GitError>,
    ) -> Result<Vec<u8>, GitError> {
        let what = self.what;
        let failed = move |detail: String| GitError::Program {
            what: what.to_owned(),
            detail,
        };
        let mut command = self.command();
        if let Some(file) = self.output.take() {
            command.stdout(file);
        }
        let mut child = command.spawn().map_err(|error| {
            failed(match error.kind() {
                std::io::ErrorKind::NotFound => "the git program is not installed".to_owned(),
                _ => error.to_string(),
            })
        })?;
        let until = Instant::now() + self.deadline;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
        std::thread::scope(|scope| {
            let out = scope.spawn(move || keep(stdout));
            let err = scope.spawn(move || keep(stderr));
            // The watch ends the program when time is up, which also ends a feed that hangs on it.
            let (done, watch) = std::sync::mpsc::channel::<()>();
            let watcher = scope.spawn(move || {
                let late = watch.recv_timeout(until.saturating_duration_since(Instant::now()))
                    == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
                if late {
                    let _ = killpg(group, Signal::SIGKILL);
                }
                late
            });
            let fed = match stdin {
                Some(pipe) => {
                    let mut pipe = std::io::BufWriter::with_capacity(1 << 16, pipe);
                    let fed = feed(&mut pipe);
                    let flushed = pipe.flush();
                    fed.and_then(|()| match flushed {
                        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                            Err(failed(error.to_string()))
                        }
                        _ => Ok(()),
                    })
                }
                None => Ok(()),
            };
            if fed.is_err() {
                let _ = killpg(group, Signal::SIGKILL);
            }
            let status = child.wait();
            drop(done);
            let late = watcher.join().unwrap_or(false);
            let out = out.join().unwrap_or_default();
            let err = err.join().unwrap_or_default();
            match (status, fed) {
                _ if late => Err(failed(format!(
                    "no end after {} s",
                    self.deadline.as_secs()
                ))),
                (Ok(status), Ok(())) if status.success() => Ok(out),
                // A broken pipe in the feed is the program's own death: its words say more.
                (Ok(status), Err(GitError::Io { source, .. }))
                    if source.kind() == std::io::ErrorKind::BrokenPipe && !status.success() =>
                {
                    Err(failed(last_words(&err, &status.to_string())))
                }
                (_, Err(error)) => Err(error),
                (Ok(status), Ok(())) => Err(failed(last_words(&err, &status.to_string()))),
                (Err(error), Ok(())) => Err(failed(error.to_string())),
            }
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        command.env_clear();
        command.env(
            "PATH",
            std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()),
        );
        for (name, value) in [
            ("LC_ALL", "C"),
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_PAGER", "cat"),
            ("GIT_ADVICE", "0"),
        ] {
            command.env(name, value);
        }
        command.env("GIT_DIR", self.common);
        if let Some(objects) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", objects);
        }
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "gc.auto=0",
            "maintenance.auto=false",
            // Whether the repository may be used was decided when it was opened.
            "safe.directory=*",
        ] {
            command.arg("-c").arg(setting);
        }
        command.arg(self.what).args(&self.args);
        command.current_dir(self.common).process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

/// Reads to the end so that the program never blocks on us, and keeps the first part.
fn keep(pipe: Option<impl Read>) -> Vec<u8> {
    let Some(mut pipe) = pipe else {
        return Vec::new();
    };
    let mut kept = Vec::new();
    let _ = pipe.by_ref().take(KEEP as u64).read_to_end(&mut kept);
    let _ = std::io::copy(&mut pipe, &mut std::io::sink());
    kept
}

/// The line of its messages that says most: the first fatal one, else the last one.
fn last_words(err: &[u8], status: &str) -> String {
    let text = String::from_utf8_lossy(err);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let fatal = lines
        .clone()
        .find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    match fatal.or_else(|| lines.next_back()) {
        Some(line) => foreman_domain::sanitize_line(line.trim()),
        None => status.to_owned(),
    }
}
