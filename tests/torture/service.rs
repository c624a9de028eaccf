//! `foreman serve` as it comes and goes, and what an operator types meanwhile.

use anyhow::{Context, Result, bail};
use foreman_testkit::Product;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

/// The service of one data directory.
#[derive(Debug, Default)]
pub struct Service {
    process: Option<Child>,
}

impl Service {
    /// Starts it where it is not up.
    pub fn keep_up(&mut self, product: &Product<'_>) -> Result<()> {
        if let Some(process) = &mut self.process
            && matches!(process.try_wait(), Ok(None))
        {
            return Ok(());
        }
        let log = File::options()
            .create(true)
            .append(true)
            .open(log_path(product))?;
        let mut command = product.foreman(["serve"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        // A group of its own: a signal to the suite is none to the service.
        command.process_group(0);
        self.process = Some(command.spawn().context("start foreman serve")?);
        Ok(())
    }

    /// `foreman` itself, which `nsenter` waits for, as the host numbers it.
    pub fn pid(&self) -> Option<i32> {
        let own = self.process.as_ref()?.id();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// The last lines that services of this data directory wrote, for messages.
    pub fn log(product: &Product<'_>) -> String {
        let text = std::fs::read(log_path(product)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn log_path(product: &Product<'_>) -> PathBuf {
    product.data().with_extension("serve.log")
}

/// Calls `foreman … --json`. Nothing when the call itself was killed, for it may have been the engine, or
/// when the world moved on meanwhile.
pub fn call(product: &Product<'_>, arguments: &[&str]) -> Result<Option<Value>> {
    const MOVED_ON: [&str; 4] = ["stale", "already_decided", "not_found", "conflict"];
    let mut all = arguments.to_vec();
    all.push("--json");
    let ran = product.call(&all)?;
    let moved_on = || {
        let (code, message) = ran.error().unwrap_or_default();
        // A decision stands although its run's supervisor ended before it could confirm it.
        MOVED_ON.contains(&code.as_str()) || message.contains("is recorded, but the supervisor")
    };
    match ran.code {
        0 => ran.json().map(Some),
        code if !(0..128).contains(&code) || moved_on() => Ok(None),
        code => bail!(
            "foreman {arguments:?} ended with {code}: {}{}\nserve: {}",
            ran.stdout,
            ran.stderr,
            Service::log(product)
        ),
    }
}

/// Allows whatever is held.
pub fn decide(product: &Product<'_>) -> Result<()> {
    let Some(all) = call(product, &["blocks"])? else {
        return Ok(());
    };
    for block in all["blocks"].as_array().into_iter().flatten() {
        let (Some(id), Some(expect)) = (block["id"].as_str(), block["expect"].as_str()) else {
            bail!("a block without id or token: {block}");
        };
        call(product, &["amend", id, "--expect", expect])?;
    }
    Ok(())
}
