//! How long it takes until a program runs in a cage, and until a run has its own git directory.

use crate::Size;
use crate::peer::Peer;
use crate::table::{Row, median};
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::{PATIENCE, Product, Stage, repos, run, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

fn now_nanos() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_nanos() as f64)
}

/// Milliseconds from before a command starts to the moment that its `stamp` printed.
fn to_stamp(mut command: Command) -> Result<f64> {
    let begin = now_nanos();
    let out = run(&mut command)?;
    let line = out
        .lines()
        .find(|line| line.contains("nanos"))
        .context("no stamp")?;
    stamp_of(line).map(|end| (end - begin) / 1e6)
}

fn stamp_of(line: &str) -> Result<f64> {
    let value: Value = serde_json::from_str(line)?;
    value["nanos"].as_f64().context("a stamp")
}

/// Shim spawned to the payload's exec, start probes included, against `bwrap --unshare-all` and a bare
/// exec, in interleaved rounds.
pub fn cage_start(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let product = stage.product()?;
    let spec = recorded_spec(&product, stage)?;
    let program = stage.bench.program("fm-attack");
    let (mut bare, mut peer, mut cage) = (Vec::new(), Vec::new(), Vec::new());
    let mut ratios = Vec::new();
    let has_peer = Path::new("/usr/bin/bwrap").exists();
    for round in 0..size.rounds * 3 {
        let mut command = stage.bench.command(&program);
        command.arg("stamp");
        bare.push(to_stamp(command)?);
        if has_peer {
            let mut command = stage.bench.command("bwrap");
            command.args([
                "--unshare-all",
                "--ro-bind",
                "/",
                "/",
                "--proc",
                "/proc",
                "--dev",
                "/dev",
            ]);
            command.args(["--tmpfs", "/tmp"]).arg(&program).arg("stamp");
            peer.push(to_stamp(command)?);
        }
        let started = start_once(stage, &spec, round)?;
        cage.push(started);
        // Neighbours in time share what else the machine was doing.
        ratios.extend(peer.last().filter(|_| has_peer).map(|peer| started / peer));
    }
    let (bare, peer, cage) = (median(&mut bare), median(&mut peer), median(&mut cage));
    let mut rows = vec![
        Row::plain(
            "bare exec, start to first instruction, p50",
            format!("{bare:.1} ms"),
        ),
        Row::at_most(
            "cage start over a bare exec (shim spawned to payload's exec, probes included), p50",
            cage - bare,
            25.0,
            "ms",
        ),
    ];
    if has_peer {
        rows.push(Row::plain(
            "`bwrap --unshare-all`, start to payload's exec, p50",
            format!("{peer:.1} ms"),
        ));
        rows.push(Row::at_most(
            "cage start, as a multiple of `bwrap --unshare-all` in the same round, p50",
            median(&mut ratios),
            1.0,
            "times",
        ));
    } else {
        rows.push(Row::absent(
            "`bwrap --unshare-all`",
            "bubblewrap is not on this machine",
        ));
    }
    Ok(rows)
}

/// The peer's command line to its payload's exec, against ours to that of a whole run (worktree and git
/// directory included), and against a cage alone, in interleaved rounds.
pub fn against_peer(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let peer = match Peer::find(stage)? {
        Ok(peer) => peer,
        Err(why) => {
            let what = "sandbox-runtime, start to payload's exec";
            return Ok(vec![Row::absent(what, format!("{why:#}"))]);
        }
    };
    let product = stage.product()?;
    let spec = recorded_spec(&product, stage)?;
    let tools = tools(stage)?;
    let repo = repos::plain(&stage.bench, "peer-start")?;
    let program = stage.bench.program("fm-attack").display().to_string();
    let (mut others, mut cages, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..size.rounds {
        others.push(to_stamp(peer.command(stage, &[program.as_str(), "stamp"]))?);
        cages.push(start_once(stage, &spec, 10_000 + round)?);
        let begin = now_nanos();
        let live = product.run(&repo, &["--policy", &tools], &[&program, "stamp"])?;
        let end = stamp_of(&live.said("nanos")?)?;
        runs.push((end - begin) / 1e6);
        ensure!(live.ended()? == 0, "{}", live.story());
    }
    let (other, cage, run) = (median(&mut others), median(&mut cages), median(&mut runs));
    Ok(vec![
        Row::plain(
            "sandbox-runtime, start to payload's exec, p50",
            format!("{other:.1} ms"),
        ),
        Row::plain(
            "`foreman run`, start to payload's exec (worktree and git directory included), p50",
            format!("{run:.1} ms"),
        ),
        Row::plain(
            "cage start in the same rounds (shim spawned to payload's exec), p50",
            format!("{cage:.1} ms"),
        ),
        Row::at_most(
            "cage start, as a multiple of sandbox-runtime's in the same run",
            cage / other,
            1.0,
            "times",
        ),
        Row::plain(
            "`foreman run`, as a multiple of sandbox-runtime's start",
            format!("{:.2} times", run / other),
        ),
    ])
}

/// The spec of a real run, to start shims by without an engine.
fn recorded_spec(product: &Product<'_>, stage: &Stage) -> Result<Value> {
    let repo = repos::plain(&stage.bench, "start")?;
    let agent = ["sh", "-c", "echo going; exec sleep 600"];
    let live = product.run(&repo, &["--policy", &tools(stage)?], &agent)?;
    live.said("going")?;
    let id = live.id()?;
    // It holds a secret, so it is there only while the run lives.
    let file = product
        .data()
        .join("state/runs")
        .join(&id)
        .join("spec.json");
    let spec = serde_json::from_slice(&std::fs::read(file)?)?;
    product.ask(&["stop", &id])?;
    Ok(spec)
}

/// A policy that lets the cage see the test programs.
pub fn tools(stage: &Stage) -> Result<String> {
    let file = stage.bench.scratch("policy")?.join("tools.toml");
    stage.bench.write(
        &file,
        format!("[[read]]\npath = {}\n", json!(stage.bench.bin())),
    )?;
    Ok(file.display().to_string())
}

fn start_once(stage: &Stage, spec: &Value, round: usize) -> Result<f64> {
    let folder = stage.bench.scratch(&format!("s{round}"))?;
    let mut spec = spec.clone();
    let place = |name: &str| json!(folder.join(name));
    spec["files"] = json!({
        "journal": place("journal.ndjson"), "exit": place("exit.json"), "identity": place("identity.json"),
        "bundle": place("bundle"), "log": place("log"),
        // A socket's path must be short.
        "socket": stage.bench.runtime().join(format!("b{round}.sock")),
    });
    let agent = spec["steps"]
        .as_array()
        .context("steps")?
        .iter()
        .find(|step| step["kind"] == "agent")
        .cloned();
    let mut agent = agent.context("an agent step")?;
    agent["argv"] = json!([stage.bench.program("fm-attack"), "stamp"]);
    spec["steps"] = json!([agent]);
    let file: PathBuf = folder.join("spec.json");
    stage.bench.write(&file, spec.to_string())?;
    let mut command = stage.bench.command(stage.bench.program("foreman-shim"));
    command
        .arg("run")
        .arg(&file)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let begin = now_nanos();
    let mut child = command.spawn()?;
    let journal = folder.join("journal.ndjson");
    let stamped = until("the payload ran", PATIENCE, || {
        let text = std::fs::read_to_string(&journal).unwrap_or_default();
        Ok(text
            .lines()
            .filter(|line| line.contains("nanos"))
            .find_map(|line| {
                let event: Value = serde_json::from_str(line).ok()?;
                stamp_of(event["text"].as_str()?).ok()
            }))
    });
    let stamped = stamped.with_context(|| std::fs::read_to_string(&journal).unwrap_or_default());
    // Its cage ends with it; waiting for its farewell would take seconds a round.
    let _ = child.kill();
    child.wait()?;
    Ok((stamped? - begin) / 1e6)
}

/// The run's own git directory at many refs: time between its progress events.
pub fn shadow_directory(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let repo = repos::with_many_refs(&stage.bench, size.refs)?;
    let product = stage.product()?;
    let mut millis = Vec::new();
    for _ in 0..size.rounds {
        let done = product.run_to_end(&repo, &[], &["true"])?;
        ensure!(done.ended()? == 0, "{}", done.story());
        let events = done.events();
        let index = events.iter().position(
            |event| matches!(&event.kind, EventKind::Progress { stage, .. } if stage == "shadow"),
        );
        let index = index.context("no progress of the shadow directory")?;
        let next = events.get(index + 1).context("nothing after it")?;
        let between = between_millis(
            &serde_json::to_value(events[index].at)?,
            &serde_json::to_value(next.at)?,
        )?;
        millis.push(between);
    }
    let what = format!("shadow git directory at {} refs, p50", size.refs);
    Ok(vec![Row::at_most(what, median(&mut millis), 100.0, "ms")])
}

/// Milliseconds between two times of the same hour or so, as RFC 3339 texts.
fn between_millis(from: &Value, to: &Value) -> Result<f64> {
    let seconds = |value: &Value| -> Result<f64> {
        let text = value.as_str().context("a time")?;
        let clock = text
            .split('T')
            .nth(1)
            .context("a clock")?
            .trim_end_matches('Z');
        clock
            .split(':')
            .try_fold(0.0, |sum, part| Ok(sum * 60.0 + part.parse::<f64>()?))
    };
    let between = (seconds(to)? - seconds(from)?) * 1000.0;
    Ok(if between < 0.0 {
        between + 86_400_000.0
    } else {
        between
    })
}
