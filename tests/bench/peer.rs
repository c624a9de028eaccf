//! The peer: another maker's sandbox for agents, with proxies instead of capture.

use crate::traffic::{HOST, Sample, children_cpu, in_micros};
use anyhow::{Context, Result};
use foreman_testkit::{Binaries, Stage};
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

/// The peer's program, installed by `npm run bench`.
pub struct Peer {
    program: PathBuf,
    settings: PathBuf,
    /// It leaves sockets behind in its directory for temporary files.
    scratch: PathBuf,
}

impl Peer {
    /// Finds it; otherwise why it cannot be compared with.
    pub fn find(stage: &Stage) -> Result<Result<Self>> {
        let package = Binaries::tools()?.join("peer/node_modules");
        let entry = package.join("@anthropic-ai/sandbox-runtime/dist/cli.js");
        if !entry.exists() {
            return Ok(Err(anyhow::anyhow!(
                "it is not installed: npm run bench installs it"
            )));
        }
        for tool in ["node", "bwrap", "socat", "rg"] {
            if stage
                .bench
                .shell(&stage.bench.home(), &format!("command -v {tool}"))
                .is_err()
            {
                return Ok(Err(anyhow::anyhow!(
                    "it needs {tool}, which is not on this machine"
                )));
            }
        }
        // The test's user cannot read the checkout.
        let copy = stage.bench.scratch("peer")?.join("node_modules");
        foreman_testkit::run(Command::new("cp").arg("-rL").arg(&package).arg(&copy))?;
        foreman_testkit::run(Command::new("chmod").args(["-R", "a+rX"]).arg(&copy))?;
        let settings = stage.bench.home().join("peer-settings.json");
        let text = json!({
            "network": {"allowedDomains": [HOST], "deniedDomains": []},
            "filesystem": {"denyRead": [], "allowWrite": ["/tmp"], "denyWrite": []},
        });
        stage.bench.write(&settings, text.to_string())?;
        Ok(Ok(Self {
            program: copy.join("@anthropic-ai/sandbox-runtime/dist/cli.js"),
            settings,
            scratch: stage.bench.scratch("t")?,
        }))
    }

    /// Fetches once; how fast, and what it cost with its start.
    pub fn fetch(&self, stage: &Stage, fetch: &[&str], bytes: usize) -> Result<Sample> {
        let mut before = children_cpu();
        let mut sample = None;
        self.run(stage, fetch, |said| {
            let saw = in_micros(said);
            let cpu_seconds = children_cpu() - before;
            before = children_cpu();
            let seconds = saw?.context("a time")?["micros"]
                .as_f64()
                .unwrap_or(f64::MAX)
                / 1e6;
            sample = Some(Sample {
                mib_per_second: bytes as f64 / f64::from(1 << 20) / seconds,
                cpu_seconds,
            });
            Ok(())
        })?;
        sample.context("a sample")
    }

    /// Runs a program in it until `take` takes what it said: its first connections may come before its
    /// own bridge listens.
    pub fn run(
        &self,
        stage: &Stage,
        words: &[&str],
        mut take: impl FnMut(&str) -> Result<()>,
    ) -> Result<()> {
        let mut last = String::new();
        for _ in 0..5 {
            let out = self.command(stage, words).output()?;
            let said = String::from_utf8_lossy(&out.stdout);
            match take(&said) {
                Ok(()) => return Ok(()),
                Err(_) => last = format!("{said}{}", String::from_utf8_lossy(&out.stderr)),
            }
        }
        anyhow::bail!("sandbox-runtime did nothing in five tries: {last}")
    }

    /// A program in it, in the world.
    pub fn command(&self, stage: &Stage, words: &[&str]) -> Command {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let mut command = stage.world.command(&stage.bench, "node");
        command
            .env("TMPDIR", &self.scratch)
            .arg(&self.program)
            .arg("--settings")
            .arg(&self.settings)
            .arg("-c")
            .arg(quoted.join(" "));
        command
    }
}
