//! Holding off sleep: a lock of the login manager (`org.freedesktop.login1`), taken by `systemd-inhibit`.
//!
//! The lock belongs to a helper process that ends when its standard input does: when the lock is let go
//! of, and also when this process ends in whatever way.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// The program that takes the lock.
const PROGRAM: &str = "systemd-inhibit";
/// What the helper says once the lock is held.
const HELD: &str = "held";
/// Longest wait for the lock.
const PATIENCE: Duration = Duration::from_secs(10);
/// What of the environment the program needs besides the search path: where the bus is.
const BUS: &str = "DBUS_SYSTEM_BUS_ADDRESS";

/// Where programs are looked up when the environment says nothing usable.
const USUAL_PATH: &str = "/usr/bin:/bin";

/// A lock against sleep, as long as it lives.
#[derive(Debug)]
pub(crate) struct Inhibitor {
    _helper: Child,
}

impl Inhibitor {
    /// Takes the lock; a phrase when it cannot be had.
    pub async fn take(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut helper = command(variable)
            .spawn()
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => format!("{PROGRAM} is not installed"),
                _ => format!("{PROGRAM} cannot be started: {error}"),
            })?;
        let (Some(out), Some(mut errors)) = (helper.stdout.take(), helper.stderr.take()) else {
            return Err(format!("{PROGRAM} cannot be talked to"));
        };
        let mut line = String::new();
        let mut out = BufReader::new(out.take(4096));
        let said = tokio::time::timeout(PATIENCE, out.read_line(&mut line)).await;
        match said {
            Ok(Ok(_)) if line.trim() == HELD => Ok(Self { _helper: helper }),
            Err(_) => Err(format!("{PROGRAM} did not answer")),
            Ok(_) => {
                let mut text = Vec::new();
                let mut bounded = (&mut errors).take(4096);
                let reading = bounded.read_to_end(&mut text);
                let _ = tokio::time::timeout(PATIENCE, reading).await;
                let text = String::from_utf8_lossy(&text).into_owned();
                let last = text.lines().rev().find(|line| !line.trim().is_empty());
                Err(foreman_domain::sanitize_line(
                    last.unwrap_or("it gave no reason").trim(),
                ))
            }
        }
    }
}

/// The helper: started where no checkout is, with programs looked up in absolute places only.
fn command(variable: impl Fn(&str) -> Option<String>) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(["--what=sleep:idle", "--mode=block", "--who=Foreman"])
        .arg("--why=A run is at work")
        .args(["sh", "-c", "echo held; exec cat >/dev/null"])
        .env_clear()
        .env("PATH", absolute_only(variable("PATH")))
        .envs(variable(BUS).map(|address| (BUS, address)))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// The search path without what is relative: the engine may have been started in a checkout, which is no
/// place to find programs in.
fn absolute_only(path: Option<String>) -> OsString {
    let path = path.unwrap_or_else(|| USUAL_PATH.to_owned());
    let kept = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    match std::env::join_paths(kept) {
        // An empty search path means the current folder.
        Ok(kept) if !kept.is_empty() => kept,
        Ok(_) | Err(_) => USUAL_PATH.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::path::Path;

    #[test]
    fn programs_of_the_checkout_are_never_started() {
        let path_of = |path: Option<&str>| {
            let command = command(|name| path.filter(|_| name == "PATH").map(str::to_owned));
            let command = command.as_std();
            assert_eq!(command.get_current_dir(), Some(Path::new("/")));
            let mut variables = command.get_envs();
            let found = variables.find(|(name, _)| *name == OsStr::new("PATH"));
            found.and_then(|(_, value)| value).map(OsStr::to_owned)
        };
        let expect = |path| Some(OsString::from(path));
        assert_eq!(
            path_of(Some(".:bin:/opt/x::../y:/bin:")),
            expect("/opt/x:/bin")
        );
        for nothing in [None, Some(""), Some("."), Some(":bin")] {
            assert_eq!(path_of(nothing), expect(USUAL_PATH), "{nothing:?}");
        }
    }
}
