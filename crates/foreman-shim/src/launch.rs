//! Starts a shim that outlives whoever started it.
//!
//! Blocking: an async caller uses a blocking thread. The shim gets a session of its own, `/` as its
//! working directory, no standard input, its log as output, and only those variables of the
//! environment that name places and locales. It is never tied to the life of its parent.

use crate::protocol::{Request, Response, RunSpec, ShimIdentity, fence_record};
use crate::secrets::{Secret, sealed};
use crate::wire::{RequestLine, ResponseLine, Version};
use foreman_domain::Fence;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A shim could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The spec could not be read.
    #[error("could not read the run's spec {path}")]
    Spec {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its secrets could not be made ready to be handed over.
    #[error("could not make the run's secrets ready")]
    Secrets {
        /// Why.
        source: io::Error,
    },
    /// The log could not be opened.
    #[error("could not open the shim's log {path}")]
    Log {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program could not be executed.
    #[error("could not start {program}")]
    Spawn {
        /// Which program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ended before it answered.
    #[error("the shim ended before it answered ({status}): {last_line}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The last line of its log. Its own words, without the cage's.
        last_line: String,
    },
    /// It runs, but does not answer; it was killed.
    #[error("the shim did not answer within {} s: {last_line}", patience.as_secs())]
    Silent {
        /// How long it was waited for.
        patience: Duration,
        /// The last line of its log.
        last_line: String,
    },
}

/// Longest wait for a shim to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// What of the engine's environment a shim sees: nothing that could be a secret.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "FOREMAN_LOG",
    // Which certificate authorities the operator trusts; a cage has no part in it.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Starts `program run spec_file` detached, hands it the secrets that the spec names, and waits until it
/// answers hello on its socket. A shim
/// that could not build its cage answers, too: its journal and exit record say why.
///
/// # Errors
/// When it cannot be started, ends before it answers (its last log line says why), or stays silent.
pub fn start_shim(
    program: &Path,
    spec_file: &Path,
    secrets: &[Secret],
) -> Result<ShimIdentity, StartError> {
    let spec = read_spec(spec_file)?;
    let log_error = |source| StartError::Log {
        path: spec.files.log.clone(),
        source,
    };
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&spec.files.log)
        .map_err(log_error)?;
    let input = match secrets {
        [] => Stdio::null(),
        secrets => sealed(parts(&spec, secrets)?)
            .map_err(|source| StartError::Secrets { source })?
            .into(),
    };
    let mut command = Command::new(program);
    command
        .arg("run")
        .arg(spec_file)
        .current_dir("/")
        .env_clear()
        .envs(
            VARIABLES
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .stdin(input)
        .stdout(log.try_clone().map_err(log_error)?)
        .stderr(log);
    detach(&mut command);
    let mut child = command.spawn().map_err(|source| StartError::Spawn {
        program: program.to_owned(),
        source,
    })?;
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(identity) = greet(&spec) {
            reap_when_it_ends(child);
            return Ok(identity);
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(StartError::Ended {
                status,
                last_line: last_line(&spec.files.log),
            });
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            let last_line = last_line(&spec.files.log);
            return Err(StartError::Silent {
                patience: PATIENCE,
                last_line,
            });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// True while a process that was started with this spec is there: a shim that has not yet written down
/// who it is.
#[must_use]
pub fn is_on_its_way(spec_file: &Path) -> bool {
    let spec = spec_file.as_os_str().as_encoded_bytes();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|entry| {
        let name = entry.file_name();
        let is_process = name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        is_process
            && std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| line.split(|byte| *byte == 0).any(|word| word == spec))
    })
}

fn detach(command: &mut Command) {
    // SAFETY: between fork and exec only async-signal-safe calls may be made; `setsid` is one, and
    // the closure neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(|| {
            // Fails only for a group leader, which a just forked child is not.
            libc::setsid();
            Ok(())
        });
    }
}

/// Keeps a dead shim from staying a zombie for as long as the engine lives.
fn reap_when_it_ends(mut child: Child) {
    let _ = std::thread::Builder::new()
        .name("reap-shim".to_owned())
        .stack_size(64 << 10)
        .spawn(move || child.wait());
}

/// What steps get, and the key behind it.
fn parts<'a>(spec: &RunSpec, secrets: &'a [Secret]) -> Result<[&'a [Secret]; 2], StartError> {
    let split = secrets.split_at_checked(spec.secrets.len());
    let (of_steps, key) = split.ok_or_else(|| StartError::Secrets {
        source: io::Error::new(
            io::ErrorKind::InvalidInput,
            "there are fewer than the spec names",
        ),
    })?;
    Ok([of_steps, key])
}

fn read_spec(path: &Path) -> Result<RunSpec, StartError> {
    let spec_error = |source| StartError::Spec {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::read(path).map_err(spec_error)?;
    serde_json::from_slice(&bytes)
        .map_err(|error| spec_error(io::Error::new(io::ErrorKind::InvalidData, error)))
}

/// One hello; `None` when nobody answers yet. Under the fence that an earlier shim of the run has kept, so
/// that it is let in and fences nobody; under the lowest one where there was none.
fn greet(spec: &RunSpec) -> Option<ShimIdentity> {
    let kept = std::fs::read(fence_record(&spec.files.journal)).unwrap_or_default();
    let fence: Fence = serde_json::from_slice(&kept).unwrap_or_default();
    let mut stream = UnixStream::connect(&spec.files.socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream
        .set_write_timeout(Some(Duration::from_secs(5)))
        .ok()?;
    let request = Request::Hello {
        run: spec.run.clone(),
        nonce: spec.nonce.clone(),
        epoch: fence.engine,
        run_epoch: fence.run,
    };
    let line = RequestLine {
        jsonrpc: Version::V2,
        id: 0,
        request,
    };
    let mut text = serde_json::to_string(&line).ok()?;
    text.push('\n');
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    BufReader::new(stream)
        .take(64 << 10)
        .read_line(&mut answer)
        .ok()?;
    match serde_json::from_str::<ResponseLine>(&answer).ok()?.result? {
        Response::Welcome { identity, .. } => Some(identity),
        _ => None,
    }
}

/// The last line of a log that is not empty, cut to a bounded length.
fn last_line(log: &Path) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let end = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(end.saturating_sub(4096)))?;
        let mut bytes = Vec::new();
        file.take(4096).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    line.unwrap_or("it left no word in its log")
        .trim()
        .to_owned()
}
