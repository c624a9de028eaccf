//! Fifty orders with dependencies, scopes and caps, through a queue whose engine is killed all the time.
//!
//! Ten areas of five orders: a root, two that depend on it, and two that depend on those. What others
//! depend on merges by its checks; the last ones have a connection held and come to Review. Claims of an
//! area's orders overlap, a few share a class, and caps hold for all.

use crate::dice::Dice;
use crate::faults::Fault;
use crate::processes::Table;
use crate::service::{Service, call, decide};
use anyhow::{Context, Result, ensure};
use foreman_testkit::{Product, SeenKind, Stage, eventually, repos};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const AREAS: u32 = 10;
const TOTAL: usize = 4;
const CLASS: usize = 2;
/// Longest time for all of it; a minute or two is usual.
const PATIENCE: Duration = Duration::from_secs(240);
/// The blows end with the queue, or after this.
const BLOWS: Duration = Duration::from_secs(120);

pub fn fifty_orders_run_to_review_under_repeated_kills(stage: &Stage, seed: u64) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "fifty")?;
    let table = Table::of(stage)?;
    let mut service = Service::default();
    let total = TOTAL.to_string();
    let class = format!("db={CLASS}");
    product.ask(&["orders", "limits", "--total", &total, "--class", &class])?;
    let file = stage.bench.scratch("orders")?.join("fifty.toml");
    stage.bench.write(&file, orders(&repo))?;
    let file = file.display().to_string();
    product.ask(&["order", "add", "--file", &file])?;

    let mut dice = Dice::new(seed);
    let mut hits: BTreeMap<Fault, u32> = BTreeMap::new();
    let begin = Instant::now();
    let (mut next_blow, mut looks, mut lost) = (begin, 0_u32, BTreeSet::new());
    loop {
        service.keep_up(&product)?;
        if Instant::now() >= next_blow && begin.elapsed() < BLOWS {
            if let Some(fault) = blow(&product, table, &mut dice, &mut lost) {
                *hits.entry(fault).or_default() += 1;
            }
            next_blow = Instant::now() + Duration::from_millis(200 + dice.below(2_500));
            continue;
        }
        decide(&product)?;
        let Some(all) = call(&product, &["orders", "--all", "--limit", "100"])? else {
            continue;
        };
        let orders = all["orders"]
            .as_array()
            .context("a list of orders")?
            .clone();
        caps_hold(&product)?;
        start_over_what_was_lost(&product, &orders, &lost)?;
        looks += 1;
        if orders.iter().all(is_through) {
            ensure!(orders.len() == 50, "{} orders", orders.len());
            break;
        }
        ensure!(
            begin.elapsed() < PATIENCE,
            "not through after {} s: {}\nserve: {}",
            PATIENCE.as_secs(),
            standing(&product, &orders),
            Service::log(&product)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let took = begin.elapsed();
    look(stage, &product, &repo, &lost)?;
    drop(service);
    let mark = product.data().display().to_string();
    eventually("nothing lives", Duration::from_secs(20), || {
        !table.all().iter().any(|process| process.mentions(&mark))
    })?;
    let hits: Vec<String> = hits
        .iter()
        .map(|(fault, count)| format!("{} {count}", fault.name()))
        .collect();
    println!(
        "| 50 orders in {:.0} s, {looks} looks; hit: {}; {} runs lost and started over; violations: 0",
        took.as_secs_f32(),
        hits.join(", "),
        lost.len()
    );
    Ok(())
}

/// The order file.
fn orders(repo: &Path) -> String {
    let mut text = format!("repo = {:?}\n", repo.display().to_string());
    for area in 0..AREAS {
        let class = if area % 3 == 0 {
            "class = \"db\"\n"
        } else {
            ""
        };
        let mut order = |name: &str, needs: &[String], scope: &str, gate: bool, script: String| {
            let id = format!("a{area}-{name}");
            let needs: Vec<String> = needs.iter().map(|need| format!("{need:?}")).collect();
            let _ = write!(
                text,
                "\n[[order]]\nid = {id:?}\ntitle = {id:?}\n{class}depends_on = [{}]\n{scope}\n",
                needs.join(", ")
            );
            if gate {
                text.push_str(
                    "gate = \"checks\"\nchecks = [\"test -f README || test -f file.txt\"]\n",
                );
            }
            let _ = writeln!(text, "command = [\"sh\", \"-c\", {script:?}]");
        };
        let mandatory = |folder: &str| {
            format!(
                "scope = {{ patterns = [\"area{area}/{folder}**\"], enforcement = \"mandatory\" }}"
            )
        };
        let work = |name: &str, folder: &str| {
            format!(
                "echo begun a{area}-{name}; mkdir -p area{area}/{folder}; sleep 0.2; \
                 echo {name} > area{area}/{folder}{name}.txt; git add -A; git commit -qm a{area}-{name}"
            )
        };
        order("root", &[], &mandatory(""), true, work("root", ""));
        let root = [format!("a{area}-root")];
        for half in ["left", "right"] {
            let folder = format!("{half}/");
            order(half, &root, &mandatory(&folder), true, work(half, &folder));
        }
        let halves = [format!("a{area}-left"), format!("a{area}-right")];
        for leaf in ["leaf1", "leaf2"] {
            let scope = format!("scope = {{ patterns = [\"area{area}/leaves/\"] }}");
            let fetch = format!(
                " && curl -sS -m 300 http://a{area}-{leaf}.fifty.example/ > area{area}/leaves/{leaf}.got && \
                 git add -A && git commit -qm fetched"
            );
            order(leaf, &halves, &scope, false, work(leaf, "leaves/") + &fetch);
        }
    }
    text
}

/// One blow; runs whose supervisor was hit are noted.
fn blow(
    product: &Product<'_>,
    table: Table,
    dice: &mut Dice,
    lost: &mut BTreeSet<String>,
) -> Option<Fault> {
    let data = product.data();
    let fault = *dice.pick(&[
        Fault::Engine,
        Fault::Engine,
        Fault::Engine,
        Fault::Engine,
        Fault::EnginePause,
        Fault::Shim,
    ])?;
    let hit = match fault {
        Fault::Shim => {
            let (run, shim) = dice.pick(&table.shims(&data)).cloned()?;
            lost.insert(run);
            shim.signal(Signal::SIGKILL)
        }
        Fault::EnginePause => {
            let engine = table.engine(&data)?;
            let parent = engine.enters_the_world();
            let hit = engine.signal(Signal::SIGSTOP);
            std::thread::sleep(Duration::from_millis(50 + dice.below(800)));
            engine.signal(Signal::SIGCONT);
            // `nsenter` stops with its child and is not woken with it.
            if let Some(parent) = parent {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(parent), Signal::SIGCONT);
            }
            hit
        }
        _ => table.engine(&data)?.signal(Signal::SIGKILL),
    };
    hit.then_some(fault)
}

fn is_through(order: &Value) -> bool {
    let in_review = order["state"] == "dispatched" && order["last_run"]["state"] == "review";
    let waits_for_checks = order["gate"] == "checks";
    order["state"] == "done" || (in_review && !waits_for_checks)
}

/// Who is not through and why, for the message.
fn standing(product: &Product<'_>, orders: &[Value]) -> String {
    let mut text = String::new();
    for order in orders.iter().filter(|order| !is_through(order)) {
        let (id, state) = (&order["id"], &order["state"]);
        let (words, run) = (&order["wait"]["words"], &order["last_run"]);
        let _ = writeln!(text, "{id} {state} {words} {} {}", run["id"], run["state"]);
        let Some(run) = run["id"].as_str() else {
            continue;
        };
        let events = product.call(["events", run, "--json"]);
        let events = events.map(|ran| ran.stdout).unwrap_or_default();
        let told = [
            "\"kind\":\"warning\"",
            "\"kind\":\"state\"",
            "\"kind\":\"progress\"",
        ];
        let lines = events
            .lines()
            .filter(|line| told.iter().any(|kind| line.contains(kind)));
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    let merges = product.call(["merges", "--json"]);
    text + &merges.map(|ran| ran.stdout).unwrap_or_default()
}

/// At each look no more lives than may, and one run of an order at most.
fn caps_hold(product: &Product<'_>) -> Result<()> {
    const LIVE: [&str; 3] = ["provisioning", "running", "stopping"];
    let Some(all) = call(product, &["runs", "--limit", "60"])? else {
        return Ok(());
    };
    let runs = all["runs"].as_array().context("a list of runs")?.iter();
    let live: Vec<&str> = runs
        .filter(|run| {
            run["state"]
                .as_str()
                .is_some_and(|state| LIVE.contains(&state))
        })
        .filter_map(|run| run["order"].as_str())
        .collect();
    let orders: BTreeSet<&str> = live.iter().copied().collect();
    ensure!(
        orders.len() == live.len(),
        "an order has two live runs: {live:?}"
    );
    ensure!(live.len() <= TOTAL, "{} runs live: {live:?}", live.len());
    let of_class = |order: &&&str| {
        ["a0-", "a3-", "a6-", "a9-"]
            .iter()
            .any(|area| order.starts_with(area))
    };
    let of_class = live.iter().filter(of_class).count();
    ensure!(
        of_class <= CLASS,
        "{of_class} runs of the class live: {live:?}"
    );
    for area in 0..AREAS {
        let together = |one: &str, other: &str| {
            let id = |name: &str| format!("a{area}-{name}");
            live.contains(&id(one).as_str()) && live.contains(&id(other).as_str())
        };
        ensure!(
            !together("leaf1", "leaf2"),
            "two leaves of area {area} run at once"
        );
    }
    Ok(())
}

/// What an operator does about orders whose run was lost; every other failure is a fault.
fn start_over_what_was_lost(
    product: &Product<'_>,
    orders: &[Value],
    lost: &BTreeSet<String>,
) -> Result<()> {
    for order in orders.iter().filter(|order| order["state"] == "failed") {
        let (id, run) = (
            &order["id"],
            order["why"]["run"].as_str().unwrap_or_default(),
        );
        ensure!(
            lost.contains(run),
            "order {id} failed and nobody hit its run:\n{}",
            standing(product, orders)
        );
        let id = id.as_str().context("an order without id")?;
        call(product, &["order", "dispatch", id])?;
    }
    Ok(())
}

/// When all are through.
fn look(stage: &Stage, product: &Product<'_>, repo: &Path, lost: &BTreeSet<String>) -> Result<()> {
    let all = product.ask(&["orders", "--all", "--limit", "100"])?;
    for order in all["orders"].as_array().context("a list of orders")? {
        let id = order["id"].as_str().context("an order without id")?;
        let runs = order["runs"].as_array().context("an order without runs")?;
        let mut begun = 0;
        for run in runs.iter().filter_map(Value::as_str) {
            let ran = product.call(["events", run, "--json"])?;
            ensure!(ran.code == 0, "events of {run}: {ran:?}");
            let line = format!("begun {id}");
            let mut said = 0;
            for (place, text) in ran.stdout.lines().enumerate() {
                let event: Value = serde_json::from_str(text)?;
                ensure!(
                    event["seq"] == place as u64 + 1,
                    "run {run} has a hole at {}",
                    event["seq"]
                );
                said += usize::from(
                    event["text"]
                        .as_str()
                        .is_some_and(|text| text.contains(&line)),
                );
            }
            ensure!(said <= 1, "the agent of run {run} began {said} times");
            let was_lost = lost.contains(run) && product.show(run)?["state"] == "interrupted";
            begun += usize::from(said == 1 && !was_lost);
        }
        ensure!(
            begun == 1,
            "the agent of order {id} began {begun} times in runs that were not lost: {runs:?}"
        );
    }
    let files = stage.bench.shell(repo, "git fsck --no-dangling --no-progress 2>&1 >/dev/null; git ls-tree -r --name-only main | grep -c '^area'")?;
    ensure!(
        files.trim() == "30",
        "{files} files of merged orders are in main"
    );
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    for seen in stage.world.seen()? {
        if seen.kind == SeenKind::Closed
            && let Some(host) = seen
                .head
                .lines()
                .find(|line| line.contains(".fifty.example"))
        {
            *asked.entry(host.trim().to_owned()).or_default() += 1;
        }
    }
    let most = asked.values().max().copied().unwrap_or(0);
    ensure!(
        asked.len() == 20 && most as usize <= 1 + lost.len(),
        "{asked:?}"
    );
    Ok(())
}
