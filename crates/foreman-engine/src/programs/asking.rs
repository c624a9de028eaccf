//! Asking a program of the operator's a question: no standard input, a bound, a deadline, and nothing left behind.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// What a command says on its standard output, up to `most` bytes; none when it does not start, cannot be read,
/// or goes on for longer than `patience`.
pub(crate) async fn said_by(
    command: &mut Command,
    most: u64,
    patience: Duration,
) -> Option<Vec<u8>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let mut said = Vec::new();
    let mut out = child.stdout.take()?.take(most);
    let in_time = tokio::time::timeout(patience, out.read_to_end(&mut said)).await;
    // What it started goes with it.
    if let Some(group) = group {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let _ = child.wait().await;
    in_time.ok()?.ok()?;
    Some(said)
}
