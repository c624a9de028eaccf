//! The feed in the real window: a million events out of SQLite over the app's own calls, and an agent that
//! says twenty thousand lines a second and then one of fifty megabytes. `--smoke` (also the default) is short and
//! only shows that everything can be measured; `--full` measures and writes a section of docs/benchmarks.md.

mod fill;
mod memory;

use anyhow::{Context, Result, ensure};
use foreman_testkit::{Binaries, Stage, Who, repos, until};
use foreman_tests::desk::{self, App, Desk};
use foreman_tests::table::{self, Row, Table, median, percentile};
use memory::Memory;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Size {
    past_runs: u64,
    events: u64,
    few: u64,
    frames: u64,
    rounds: usize,
    seconds: u64,
    a_second: u64,
    long_line: u64,
}

const SMOKE: Size = Size {
    past_runs: 100,
    events: 50_000,
    few: 1_000,
    frames: 60,
    rounds: 1,
    seconds: 4,
    a_second: 20_000,
    long_line: 5_000_000,
};
const FULL: Size = Size {
    past_runs: 10_000,
    events: 1_000_000,
    few: 1_000,
    frames: 300,
    rounds: 5,
    seconds: 60,
    a_second: 20_000,
    long_line: 50_000_000,
};

const FEED: &str = "[data-testid=\"feed\"]";

fn main() -> ExitCode {
    let full = std::env::args().any(|argument| argument == "--full");
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let size = if full { FULL } else { SMOKE };
    let mut table = Table::default();
    let (mut passed, mut failed) = (0, 0);
    match measure(size) {
        Ok(rows) => {
            passed += 1;
            table.add(rows);
        }
        Err(error) => {
            failed += 1;
            println!("---- feed\n{error:#}\n");
        }
    }
    print!("{}", table.text());
    if full
        && failed == 0
        && let Err(error) = write(&table)
    {
        failed += 1;
        println!("{error:#}");
    }
    println!("\n{passed} passed, {failed} failed, 0 skipped");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn measure(size: Size) -> Result<Vec<Row>> {
    let stage = Stage::new(Who::Ordinary)?;
    desk::install(&stage)?;
    let mut rows = starting(&stage, size)?;
    let desk = Desk::new(&stage)?;
    let (many, few) = fill::two_runs(&desk, size.events, size.few)?;
    let app = desk.app(&[])?;
    app.session.allow_scripts(Duration::from_secs(300))?;
    app.go("/")?;
    app.see(&desk::id("board"))?;
    let before = Memory::of(&app)?;

    rows.extend(scrolling(&app, size, &many, &few)?);
    let after_many = Memory::of(&app)?;
    rows.extend(talking(&stage, &app, size)?);
    let after_all = Memory::of(&app)?;
    for (what, before, many, all) in [
        ("the app", before.app, after_many.app, after_all.app),
        ("the web process", before.web, after_many.web, after_all.web),
    ] {
        rows.push(Row::plain(
            format!(
                "memory of {what}: at the start / after {} events / after the live minute",
                size.events
            ),
            format!("{before:.0} / {many:.0} / {all:.0} MiB"),
        ));
    }
    Ok(rows)
}

/// From the start of the app, which becomes the engine, until its board has rows and answers a key.
fn starting(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let desk = Desk::new(stage)?;
    fill::past_runs(&desk, size.past_runs)?;
    let mut times = Vec::new();
    // The first start is the one of a machine that has just come up, as far as files are cached; it counts, too.
    for _ in 0..size.rounds {
        let app = desk.app(&[])?;
        app.see(&desk::id("run-row"))?;
        app.session.press(&['?'])?;
        app.see("[role='dialog']")?;
        times.push(app.started.elapsed().as_secs_f64() * 1e3);
    }
    Ok(vec![Row::at_most(
        format!(
            "start of the app with {} past runs, until its board has rows and a key is answered, p50",
            size.past_runs
        ),
        median(&mut times),
        1_000.0,
        "ms",
    )])
}

/// Scrolls the feed of a run to and fro, a step each frame, and gives the times between frames.
const SCROLL: &str = "const done = arguments[arguments.length - 1]; const [selector, frames] = arguments; \
    const feed = document.querySelector(selector); const times = []; let blank = 0, most = 0; \
    const end = feed.scrollHeight - feed.clientHeight; let at = 0, last = performance.now(); \
    const step = (now) => { times.push(now - last); last = now; \
      const rows = feed.querySelectorAll('[data-testid=\"feed-row\"]').length; most = Math.max(most, rows); if (rows === 0) blank += 1; \
      if (times.length > frames) return done({ times: times.slice(1), most, blank }); \
      at += 1; feed.scrollTop = at % 10 === 0 ? end * ((at * 7919 % 1000) / 1000) : feed.scrollTop + (at % 20 < 10 ? 700 : -700); \
      requestAnimationFrame(step); }; \
    requestAnimationFrame(step)";

fn scrolling(app: &App<'_>, size: Size, many: &str, few: &str) -> Result<Vec<Row>> {
    let (mut ratios, mut much, mut little) = (Vec::new(), Vec::new(), Vec::new());
    let (mut opened, mut mounted, mut blank) = (Vec::new(), 0, 0);
    for _ in 0..size.rounds {
        let mut p95 = [0.0; 2];
        for (slot, run) in [(0, few), (1, many)] {
            app.go("/")?;
            app.see(&desk::id("run-row"))?;
            let begin = Instant::now();
            app.go(&format!("/run/{run}/feed"))?;
            app.within("rows of the feed", || {
                let count = app.session.script(
                    "return document.querySelectorAll('[data-testid=\"feed-row\"]').length",
                    &[],
                )?;
                Ok(count.as_u64().filter(|count| *count > 5))
            })?;
            if slot == 1 {
                opened.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            let seen = app
                .session
                .script_later(SCROLL, &[json!(FEED), json!(size.frames)])?;
            let mut times = numbers(&seen["times"]);
            mounted = mounted.max(seen["most"].as_u64().unwrap_or(0));
            blank += seen["blank"].as_u64().unwrap_or(0);
            p95[slot] = percentile(&mut times, 0.95);
        }
        little.push(p95[0]);
        much.push(p95[1]);
        ratios.push(p95[1] / p95[0].max(0.1));
    }
    ensure!(blank == 0, "the feed was blank in {blank} frames");
    // The last row is reached.
    app.session.script(
        "const feed = document.querySelector(arguments[0]); feed.scrollTop = feed.scrollHeight",
        &[json!(FEED)],
    )?;
    app.within("the last row is reached", || {
        let last = app.session.script(
            "return Math.max(...[...document.querySelectorAll('[data-testid=\"feed-row\"]')].map((row) => Number(row.dataset.seq)))",
            &[],
        )?;
        Ok(last.as_f64().filter(|last| *last >= size.events as f64))
    })?;
    Ok(vec![
        Row::plain(
            format!(
                "opening the feed of a run of {} events, to its first rows, p50",
                size.events
            ),
            format!("{:.0} ms", median(&mut opened)),
        ),
        Row::plain("rows mounted, at most", format!("{mounted}")),
        Row::plain(
            format!("frame time while scrolling {} events, p95", size.few),
            format!("{:.1} ms", median(&mut little)),
        ),
        Row::plain(
            format!("frame time while scrolling {} events, p95", size.events),
            format!("{:.1} ms", median(&mut much)),
        ),
        Row::at_most(
            "the latter against the former in the same round",
            median(&mut ratios),
            1.25,
            "times",
        ),
    ])
}

/// Asks itself again and again how long a key would wait: from a task that is posted to the end of the frame
/// after it.
const LISTEN: &str = "const probe = { waits: [], rows: 0, over: false }; window.__PROBE__ = probe; const channel = new MessageChannel(); let posted = 0; \
    channel.port1.onmessage = () => requestAnimationFrame(() => { probe.waits.push(performance.now() - posted); \
      probe.rows = Math.max(probe.rows, document.querySelectorAll('[data-testid=\"feed-row\"]').length); \
      if (!probe.over) setTimeout(post, 100); }); \
    const post = () => { posted = performance.now(); channel.port2.postMessage(0); }; post()";

/// Prints lines at a pace, then a long one, then the last; `%` stand for the figures.
const TALK: &str = "import sys, time\n\
    out = sys.stdout.buffer\n\
    begin = time.monotonic()\n\
    said = 0\n\
    while said < TOTAL:\n    \
        due = min(TOTAL, int((time.monotonic() - begin) * PACE) + 100)\n    \
        while said < due:\n        \
            out.write(b'line %d of an agent that talks a lot, and not always the same\\n' % said)\n        \
            said += 1\n    \
        out.flush()\n    \
        time.sleep(0.005)\n\
    out.write(b'x' * LONG + b'\\n')\n\
    out.write(b'the very last line\\n')\n\
    out.flush()\n\
    time.sleep(600)\n";

fn talking(stage: &Stage, app: &App<'_>, size: Size) -> Result<Vec<Row>> {
    let product = app.desk.product();
    let repo = repos::plain(&stage.bench, "talks")?;
    let total = size.seconds * size.a_second;
    let program = TALK
        .replace("TOTAL", &total.to_string())
        .replace("PACE", &size.a_second.to_string())
        .replace("LONG", &size.long_line.to_string());
    let options = ["--title", "Talks", "--bounds", "output=2GiB"];
    let mut arguments = vec!["run", "--json", "--repo"];
    let path = repo.display().to_string();
    arguments.push(&path);
    arguments.extend(options);
    arguments.extend(["--", "python3", "-c", &program]);
    // Its events are not read here: the window is who follows.
    let mut command = product.foreman(arguments);
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().context("start the run")?;
    let run = until("the run is listed", desk::PATIENCE, || {
        let runs = product.ask(&["runs"])?;
        let runs = runs["runs"].as_array().cloned().unwrap_or_default();
        let found = runs
            .iter()
            .find(|run| run["title"] == "Talks" && run["state"] == "running");
        Ok(found.and_then(|run| run["id"].as_str().map(str::to_owned)))
    })?;
    app.go(&format!("/run/{run}/feed"))?;
    app.see(FEED)?;
    app.session.script(LISTEN, &[])?;
    let begin = Instant::now();
    let mut most = Memory::of(app)?;
    let mut seen = 0;
    // The end of the agent's own output, as the engine has it, and then as the window shows it.
    let limit = Duration::from_secs(size.seconds * 4 + 60);
    let mut stored = None;
    let shown = loop {
        ensure!(
            begin.elapsed() < limit,
            "the last line did not come: {}",
            app.shown()
        );
        let now = Memory::of(app)?;
        most = Memory {
            app: most.app.max(now.app),
            web: most.web.max(now.web),
        };
        let view = product.show(&run)?;
        seen = view["last_seq"].as_u64().unwrap_or(0).max(seen);
        if stored.is_none() && seen >= total {
            let tail = product.call([
                "events",
                &run,
                "--json",
                "--after",
                &(seen - 50).to_string(),
            ])?;
            if tail.stdout.contains("the very last line") {
                stored = Some(Instant::now());
            }
        }
        if app.shown().contains("the very last line") {
            break Instant::now();
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let late = stored.map_or(Duration::ZERO, |stored| {
        shown.saturating_duration_since(stored)
    });
    let probe = app
        .session
        .script("window.__PROBE__.over = true; return window.__PROBE__", &[])?;
    let mut waits = numbers(&probe["waits"]);
    let rows = probe["rows"].as_u64().unwrap_or(0);
    let took = shown.duration_since(begin).as_secs_f64();
    product.ask(&["stop", &run])?;
    let _ = child.wait();
    let what = format!(
        "live, {} lines/s for {} s and a line of {} MB",
        size.a_second,
        size.seconds,
        size.long_line / 1_000_000
    );
    Ok(vec![
        Row::plain(
            format!("{what}: lines taken in and shown"),
            format!("{:.0} lines/s", total as f64 / took),
        ),
        Row::plain("the same: rows mounted, at most", format!("{rows}")),
        Row::at_most(
            "the same: from input to the end of the next frame, p95",
            percentile(&mut waits, 0.95),
            100.0,
            "ms",
        ),
        Row::plain(
            "the same, at most",
            format!("{:.0} ms", percentile(&mut waits, 1.0)),
        ),
        Row::at_most(
            "the same: last line on the screen after it was stored",
            late.as_secs_f64(),
            1.0,
            "s",
        ),
        Row::plain(
            "the same: memory of app / web process, at most",
            format!("{:.0} / {:.0} MiB", most.app, most.web),
        ),
    ])
}

fn numbers(list: &Value) -> Vec<f64> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_f64).collect()
}

/// The last section of the file; what stands above it is another bench's.
fn write(table: &Table) -> Result<()> {
    let file = Binaries::checkout().join("docs/benchmarks.md");
    let old = std::fs::read_to_string(&file).unwrap_or_default();
    let above = old
        .split("\n## The feed in the window")
        .next()
        .unwrap_or_default()
        .trim_end();
    let build = if cfg!(debug_assertions) {
        "without"
    } else {
        "with"
    };
    let section = format!(
        "{above}\n\n## The feed in the window\n\nWritten by `npm run bench:feed`: the real window in WebKitGTK on a screen without graphics hardware, built {build} optimisation.\n\n\
         Machine: {}.\n\n{}",
        table::machine(),
        table.text()
    );
    std::fs::write(file, section)?;
    Ok(())
}
