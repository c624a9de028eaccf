//! Many runs on one repository: how long until all of them run, and what they cost when they do nothing.

use crate::Size;
use crate::table::{Row, median};
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, eventually, repos};
use nix::sys::signal::Signal;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// An agent that says once that it runs, and then waits.
const AGENT: [&str; 3] = ["sh", "-c", "echo going; exec sleep 3600"];

/// Processor time of a second in which the machine is at rest.
const AT_REST: Duration = Duration::from_millis(50);

/// From the first command until the agents of all runs have said something, on a repository with a remote.
pub fn start_at_once(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let product = stage.product()?;
    let _service = Service::start(&product)?;
    let repo = cloned(stage)?;
    let begun = Instant::now();
    let runs = start(&product, &repo, size.at_once)?;
    let all = begun.elapsed().as_secs_f64();
    let mut each: Vec<f64> = Vec::new();
    for run in &runs {
        let began = run.arrival(|event| matches!(event.kind, EventKind::State { .. }));
        let went = run.arrival(|event| matches!(event.kind, EventKind::Output { .. }));
        let took = went
            .context("output")?
            .duration_since(began.context("a start")?)?;
        each.push(took.as_secs_f64());
    }
    stop_all(&product)?;
    Ok(vec![
        Row::plain(
            format!(
                "{} runs started at once on one repository: until the last agent runs",
                runs.len()
            ),
            format!("{all:.1} s"),
        ),
        Row::plain(
            "the same, from a run's first event to its agent, p50",
            format!("{:.2} s", median(&mut each)),
        ),
    ])
}

/// Processor time of the engine, the supervisors and the cages of runs whose agents sleep and which nobody
/// watches, as a share of one core.
pub fn idle(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let product = stage.product()?;
    let _service = Service::start(&product)?;
    let repo = repos::plain(&stage.bench, "idle")?;
    let mut left = size.idle;
    while left > 0 {
        let many = size.at_once.min(left);
        left -= many;
        let runs = start(&product, &repo, many)?;
        // Whoever watches is no part of what idles.
        for run in &runs {
            run.signal(Signal::SIGKILL)?;
        }
    }
    let live = live(&product)?;
    let uid = stage.bench.uid();
    // What starting them left to do comes to its end first.
    eventually("the machine comes to rest", PATIENCE * 2, || {
        let before = spent(uid);
        std::thread::sleep(Duration::from_secs(1));
        since(&before, &spent(uid)) <= AT_REST
    })?;
    let engine = engine_of(uid)?;
    let engine = || time_of(engine).context("the engine is gone");
    let (before, of_engine, begun) = (spent(uid), engine()?, Instant::now());
    std::thread::sleep(size.idle_for);
    let percent = |spent: Duration| spent.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
    let share = percent(since(&before, &spent(uid)));
    let of_engine = percent(engine()?.saturating_sub(of_engine));
    let processes = of_user(uid).count();
    stop_all(&product)?;
    Ok(vec![
        Row::at_most(
            format!(
                "{live} idle live runs: engine, supervisors and cages ({processes} processes), of one core"
            ),
            share,
            1.0,
            "%",
        ),
        Row::plain("the engine's part of that", format!("{of_engine:.2} %")),
    ])
}

/// `foreman serve`, ended when it drops.
struct Service {
    process: std::process::Child,
}

impl Service {
    fn start(product: &Product<'_>) -> Result<Self> {
        let process = product
            .foreman(["serve"])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .context("start foreman serve")?;
        let lock = product.data().join("state/engine.lock");
        let service = Self { process };
        eventually("the service is up", PATIENCE, || {
            std::fs::read_to_string(&lock).is_ok_and(|text| text.contains("socket"))
        })?;
        Ok(service)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn cloned(stage: &Stage) -> Result<std::path::PathBuf> {
    let remote = repos::plain(&stage.bench, "many")?;
    let place = stage.bench.scratch("clone")?.join("clone");
    let script = format!("git clone -q '{}' '{}'", remote.display(), place.display());
    stage.bench.shell(&remote, &script)?;
    Ok(place)
}

/// Starts so many at once, and waits until all agents run.
fn start(product: &Product<'_>, repo: &Path, many: usize) -> Result<Vec<LiveRun>> {
    let runs = (0..many)
        .map(|_| product.run(repo, &[], &AGENT))
        .collect::<Result<Vec<_>>>()?;
    for run in &runs {
        run.said("going")?;
    }
    Ok(runs)
}

fn live(product: &Product<'_>) -> Result<usize> {
    let all = product.ask(&["runs", "--limit", "1000"])?;
    let runs = all["runs"].as_array().context("runs")?;
    Ok(runs.iter().filter(|run| run["state"] == "running").count())
}

fn stop_all(product: &Product<'_>) -> Result<()> {
    let all = product.ask(&["runs", "--limit", "1000"])?;
    for run in all["runs"].as_array().context("runs")? {
        if run["state"] == "running" {
            product.ask(&["stop", run["id"].as_str().context("an id")?])?;
        }
    }
    ensure!(live(product)? == 0, "runs go on");
    Ok(())
}

fn of_user(uid: u32) -> impl Iterator<Item = i32> {
    use std::os::unix::fs::MetadataExt;
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(move |entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        entry
            .metadata()
            .is_ok_and(|meta| meta.uid() == uid)
            .then_some(pid)
    })
}

/// The service of a user, as the host numbers it.
fn engine_of(uid: u32) -> Result<i32> {
    let is_service = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        let is_ours = words.next().is_some_and(|name| name.ends_with(b"/foreman"));
        is_ours && words.next() == Some(b"serve")
    };
    of_user(uid).find(is_service).context("no service runs")
}

/// Processor time that each process of a user has used so far.
fn spent(uid: u32) -> HashMap<i32, Duration> {
    let time = |pid| Some((pid, time_of(pid).ok()?));
    of_user(uid).filter_map(time).collect()
}

/// What was used since `before` by everything that is still there.
fn since(before: &HashMap<i32, Duration>, now: &HashMap<i32, Duration>) -> Duration {
    now.iter()
        .map(|(pid, time)| time.saturating_sub(before.get(pid).copied().unwrap_or_default()))
        .sum()
}

/// Processor time of a process, to the nanosecond: what wakes up for less than a tick of the clock is
/// often not in the figures of `stat` at all. With that of its threads that have ended.
fn time_of(pid: i32) -> Result<Duration> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid))?;
    Ok(clock_gettime(clock)?.into())
}
