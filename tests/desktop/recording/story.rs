//! What the browser suite is shown: runs that have been, that go on and that wait, and what is decided about them.

use super::Recorder;
use anyhow::{Context, Result, ensure};
use foreman_testkit::{Binaries, LiveRun, PATIENCE, Product, Stage, repos, until};
use foreman_tests::desk::Desk;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// An agent that works on a small service, with words for the feed, files of several kinds, and output in
/// colour. `%` is what it does at last.
fn agent(title: &str, last: &str) -> String {
    format!(
        "printf '\\033[1mReading the repository\\033[0m\\n'; cat file.txt; \
         printf 'hello from the agent\\n'; \
         mkdir -p src docs; printf '// {title}\\npub fn retry(times: u32) -> bool {{\\n    times > 0\\n}}\\n' > src/retry.rs; \
         printf 'fn main() {{\\n    println!(\"{{}}\", retry(3));\\n}}\\n' > src/main.rs; \
         printf '# Retries\\n\\nA request is tried three times.\\n' > docs/retries.md; \
         printf '{{\\n  \"lockfileVersion\": 3\\n}}\\n' > package-lock.json; \
         git add -A; git commit -qm '{title}'; \
         printf '\\033[32mok\\033[0m  3 tests passed\\n'; {last}"
    )
}

fn start(
    product: &Product<'_>,
    repo: &Path,
    title: &str,
    options: &[&str],
    last: &str,
) -> Result<LiveRun> {
    let mut all = vec!["--title", title];
    all.extend(options);
    product.run(repo, &all, &["bash", "-c", &agent(title, last)])
}

const FETCH: &str = "curl -sS -m 600 http://registry.window.example/ > got.txt; git add -A; git commit -qm 'Add the index'";

/// Makes more processes than it may.
const MANY: &str = "python3 -c \"import os, subprocess, time\nall = []\ntry:\n  for _ in range(200): all.append(subprocess.Popen(['sleep', '30']))\nexcept OSError as error: print('stopped at', len(all))\nwhile not os.path.exists('seen'): time.sleep(0.05)\nos.remove('seen')\nfor one in all: one.kill()\"";

/// Runs that reached something else than the network, each with its block.
struct Walls {
    write: (String, String),
    output: (String, String),
    disk: (String, String),
    processes: (String, String),
    _live: [LiveRun; 4],
}

impl Walls {
    fn reached(stage: &Stage, product: &Product<'_>, web: &Path, tools: &Path) -> Result<Self> {
        let reports = stage.bench.scratch("reports")?.canonicalize()?;
        let reports = reports.display();
        let last = format!("echo 'all is well' > '{reports}/weekly.txt'; echo \"wrote: $?\"");
        let write = start(product, web, "Write the weekly report", &[], &last)?;
        let write_block = write.block(&format!("write {reports}/weekly.txt"))?;
        product.card_with_holder(&write_block)?;
        let bounds = ["--bounds", "output=64KiB"];
        // Few and long lines: each scene has every event of its runs.
        let last = "for n in $(seq 40); do printf '%04000d\\n' $n; done";
        let output = start(product, tools, "Print the index", &bounds, last)?;
        let output_block = output.block("bound of output")?;
        let bounds = ["--bounds", "disk=20MiB"];
        let last = "head -c 40000000 /dev/zero > archive.bin; sleep 600";
        let disk = start(product, tools, "Unpack the archive", &bounds, last)?;
        let disk_block = disk.block("bound of disk")?;
        let bounds = ["--bounds", "processes=40"];
        let processes = start(product, tools, "Test on every core", &bounds, MANY)?;
        let run = processes.id()?;
        let card = until("a card of processes", PATIENCE, || {
            Ok(product.blocks(&run)?.into_iter().next())
        })?;
        let reached = card["id"].as_str().context("an id")?.to_owned();
        let view = product.show(&run)?;
        let worktree = Path::new(view["worktree"].as_str().context("a worktree")?);
        stage.bench.write(&worktree.join("seen"), "")?;
        processes.ended()?;
        Ok(Self {
            write: (write.id()?, write_block),
            output: (output.id()?, output_block),
            disk: (disk.id()?, disk_block),
            processes: (run, reached),
            _live: [write, output, disk, processes],
        })
    }
}

pub(super) fn scenes_for_the_browser_are_recorded(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    app.session.allow_scripts(Duration::from_secs(60))?;
    let product = desk.product();
    let web = repos::plain(&stage.bench, "webshop")?;
    let tools = repos::plain(&stage.bench, "tools")?;

    // What has happened before.
    let merged = start(&product, &web, "Say hello in the footer", &[], "true")?;
    merged.ended()?;
    let merged = merged.id()?;
    let diff = product.ask(&["diff", &merged])?;
    product.ask(&[
        "merge",
        &merged,
        "--expect",
        diff["expect"].as_str().unwrap_or_default(),
    ])?;
    start(
        &product,
        &tools,
        "Upgrade the parser",
        &[],
        "echo 'cannot parse' >&2; exit 3",
    )?
    .ended()?;
    let review = start(
        &product,
        &web,
        "Retry failed requests",
        &["--check", "test -f src/retry.rs"],
        "printf '\\nThe third time it gives up.\\n' >> docs/retries.md; git commit -qam 'Say when it gives up'",
    )?;
    review.ended()?;
    let review = review.id()?;

    // What goes on.
    let held = start(&product, &web, "Fetch the package index", &[], FETCH)?;
    let held_block = held.block("tcp registry.window.example:80")?;
    let many = "for n in one two three; do (curl -sS -m 600 http://$n.window.example/ > /dev/null) & done; \
                exec 3<>/dev/tcp/live.window.example/7007; printf 'still\\n' >&3; sleep 600";
    let busy = start(
        &product,
        &tools,
        "Mirror three hosts",
        &["--allow", "live.window.example:7007"],
        many,
    )?;
    let mut others = Vec::new();
    for name in ["one", "two", "three"] {
        others.push(busy.block(&format!("tcp {name}.window.example:80"))?);
    }
    let working = start(
        &product,
        &tools,
        "Rewrite the docs",
        &[],
        "while true; do echo working; sleep 5; done",
    )?;
    working.said("working")?;

    let walls = Walls::reached(stage, &product, &web, &tools)?;

    let mut recorder = Recorder {
        app,
        scenes: Vec::new(),
        steps: Vec::new(),
    };
    let settings = recorder.answers(&[("app_settings", json!({}))])?.remove(0);
    let mut settings = settings["ok"].clone();
    settings["first_run_done"] = json!(true);
    recorder.answers(&[("app_settings_save", json!({ "settings": settings }))])?;

    // A queue that waits.
    recorder.ask("orders_pause", json!({ "paused": true }))?;
    let path = tools.display().to_string();
    for title in ["Remove dead code", "Sort the imports"] {
        let order = [
            "order", "add", "--json", "--repo", &path, "--title", title, "--", "true",
        ];
        let added = product.call(order)?;
        ensure!(added.code == 0, "{added:?}");
    }
    product.card_with_holder(&held_block)?;
    recorder.scene("at work", None)?;

    let expect = |block: &str| -> Result<String> {
        Ok(product.card(block)?["expect"]
            .as_str()
            .context("a token")?
            .to_owned())
    };
    // As the window asks: for a rule of the card, by its number.
    let amend = |block: &str, scope: &str, limit: Option<&str>| -> Result<Value> {
        let card = product.card(block)?;
        let mut rules = card["candidates"].as_array().into_iter().flatten();
        let rule = rules.find(|rule| rule["scope"] == scope);
        let rule = rule.with_context(|| format!("a rule for this {scope}: {card}"))?;
        Ok(
            json!({ "block": block, "expect": card["expect"], "scope": scope, "rule": rule["number"], "confirmed": false, "expires": null, "limit": limit, "surface": "window" }),
        )
    };
    let held_id = held.id()?;
    let request = amend(&held_block, "run", None)?;
    recorder.step("block_amend", request, || {
        Ok(product.show(&held_id)?["state"] == "review")
    })?;

    let request = json!({ "block": others[0], "expect": expect(&others[0])?, "reason": "Use the mirror instead.", "surface": "window" });
    let denied = recorder.step("block_deny", request, || Ok(true))?;
    let request = json!({ "amendment": denied["amendment"]["id"] });
    recorder.step("undo", request, || Ok(true))?;
    let request = amend(&others[1], "run", None)?;
    let amended = recorder.step("block_amend", request, || Ok(true))?;
    let request = json!({ "amendment": amended["amendment"]["id"] });
    recorder.step("policy_revoke", request, || Ok(true))?;

    // Files and bounds.
    let request = amend(&walls.write.1, "run", None)?;
    recorder.step("block_amend", request, || {
        Ok(product.show(&walls.write.0)?["state"] == "review")
    })?;
    let request = amend(&walls.output.1, "run", Some("16MiB"))?;
    recorder.step("block_amend", request, || {
        Ok(product.show(&walls.output.0)?["state"] == "review")
    })?;
    let request = json!({ "block": walls.disk.1, "expect": expect(&walls.disk.1)?, "reason": "It unpacks the wrong archive.", "surface": "window" });
    recorder.step("block_deny", request, || {
        let state = &product.show(&walls.disk.0)?["state"];
        Ok(state != "running" && state != "stopping")
    })?;
    let request = amend(&walls.processes.1, "order", None)?;
    recorder.step("block_amend", request, || Ok(true))?;

    let token =
        recorder.ask("run_diff", json!({ "run": review, "patch": true }))?["expect"].clone();
    let request = json!({ "run": review, "expect": token, "despite_checks": null });
    recorder.step("run_merge", request, || {
        Ok(product.show(&review)?["state"] == "merged")
    })?;
    let working = working.id()?;
    recorder.step("run_stop", json!({ "run": working }), || {
        Ok(product.show(&working)?["state"] == "cancelled")
    })?;
    let source = json!({
        "name": "order.toml",
        "text": "title = \"Check the links\"\ncommand = [\"true\"]\n",
        "folder": tools,
        "repo": tools,
    });
    recorder.step(
        "order_add",
        json!({ "draft": null, "source": source }),
        || Ok(true),
    )?;
    recorder.step("orders_pause", json!({ "paused": false }), || {
        let orders = product.ask(&["order", "list"])?;
        Ok(orders["orders"].as_array().is_some_and(Vec::is_empty))
    })?;

    let folder = Binaries::checkout().join("target/recording");
    std::fs::create_dir_all(&folder)?;
    let names = json!({ "merged": merged, "review": review, "held": held_id, "held_block": held_block, "busy": busy.id()?, "working": working, "others": others,
        "write_block": walls.write.1, "output_block": walls.output.1, "disk_block": walls.disk.1, "processes_block": walls.processes.1 });
    let all = json!({ "names": names, "scenes": recorder.scenes, "steps": recorder.steps });
    std::fs::write(folder.join("recording.json"), all.to_string())?;
    product.ask(&["stop", &busy.id()?])?;
    Ok(())
}
