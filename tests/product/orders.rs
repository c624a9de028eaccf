//! Orders through the real command line and the real cage: handed in, dispatched, followed, merged.

use anyhow::{Context, Result, ensure};
use foreman_domain::ExitCode;
use foreman_testkit::suite::Case;
use foreman_testkit::{
    Daemon, PATIENCE, Product, Stage, cases_of, eventually, expect_exit, repos, until,
};
use serde_json::Value;
use std::fs;
use std::path::Path;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "orders",
        [
            orders_wait_for_an_engine_and_then_go_one_after_the_other_to_the_merge,
            an_order_that_is_waited_for_ends_with_the_code_of_its_run,
            a_decision_for_an_order_counts_in_its_second_attempt,
            an_order_file_is_handed_in_whole_or_refused_with_its_place,
            a_watched_folder_takes_files_in_and_shows_a_bad_one,
            a_gate_of_checks_merges_by_itself_and_the_order_is_done,
            attempts_of_one_order_run_side_by_side_and_can_be_compared,
            limits_and_pauses_are_set_and_absurd_ones_refused,
            an_order_that_cannot_be_meant_is_refused_and_shown_whole_otherwise,
        ]
    )
}

/// The view of an order.
fn order(product: &Product<'_>, id: &str) -> Result<Value> {
    product.ask(&["order", "show", id])
}

/// Waits until an order's last run stands so, and gives the order.
fn run_is(product: &Product<'_>, id: &str, state: &str) -> Result<Value> {
    let mut last = Value::Null;
    let found = until(&format!("the run of {id} is {state}"), PATIENCE, || {
        last = order(product, id)?;
        Ok((last["last_run"]["state"] == state).then(|| last.clone()))
    });
    found.with_context(|| last.to_string())
}

fn order_is(product: &Product<'_>, id: &str, state: &str) -> Result<Value> {
    let mut last = Value::Null;
    let found = until(&format!("order {id} is {state}"), PATIENCE, || {
        last = order(product, id)?;
        Ok((last["state"] == state).then(|| last.clone()))
    });
    found.with_context(|| last.to_string())
}

fn add(product: &Product<'_>, repo: &Path, options: &[&str], agent: &[&str]) -> Result<Value> {
    let repo = repo.to_str().context("a path in UTF-8")?;
    let mut words = vec!["order", "add", "--json", "--repo", repo];
    words.extend(options);
    words.push("--");
    words.extend(agent);
    let ran = product.call(&words)?;
    expect_exit(&ran, ExitCode::Ok)?;
    ran.json()
}

fn merge(product: &Product<'_>, run: &str) -> Result<()> {
    let expect = product.ask(&["diff", run])?["expect"].clone();
    let expect = expect.as_str().context("a token")?;
    product.ask(&["merge", run, "--expect", expect]).map(drop)
}

fn orders_wait_for_an_engine_and_then_go_one_after_the_other_to_the_merge(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "orders")?;
    let write = "echo \"$FOREMAN_PROMPT\" > \"$1\"";
    let agent = |file| ["sh", "-c", write, "sh", file, "{prompt}"];
    add(
        &product,
        &repo,
        &["--id", "first", "--prompt", "one", "--scope", "*.txt"],
        &agent("first.txt"),
    )?;
    let second = add(
        &product,
        &repo,
        &["--id", "second", "--prompt", "two", "--depends-on", "first"],
        &agent("second.txt"),
    )?;
    ensure!(second["queue"]["dispatching"] == false, "{second}");
    let listed = product.call(["orders"])?;
    expect_exit(&listed, ExitCode::Ok)?;
    ensure!(
        listed.stdout.contains("2 orders wait; no engine is up")
            && listed
                .stdout
                .contains("depends on first, which is not done"),
        "{listed:?}"
    );
    ensure!(
        product.ask(&["runs"])?["runs"] == serde_json::json!([]),
        "an order was started by whoever only asked"
    );

    let _service = Daemon::start(&mut product.foreman(["serve"]))?;
    let first = run_is(&product, "first", "review")?;
    ensure!(first["last_run"]["order"] == "first", "{first}");
    let waits = order(&product, "second")?;
    ensure!(waits["wait"]["wait"] == "dependency", "{waits}");
    merge(&product, first["last_run"]["id"].as_str().context("a run")?)?;
    let done = order_is(&product, "first", "done")?;
    ensure!(done["how"]["how"] == "merged", "{done}");
    let second = run_is(&product, "second", "review")?;
    merge(
        &product,
        second["last_run"]["id"].as_str().context("a run")?,
    )?;
    order_is(&product, "second", "done")?;
    let text = |name: &str| fs::read_to_string(repo.join(name));
    ensure!(text("first.txt")? == "one\n", "the prompt did not arrive");
    ensure!(text("second.txt")? == "two\n", "the prompt did not arrive");
    let words = product.call(["orders", "--all"])?;
    ensure!(words.stdout.contains("is merged, as "), "{words:?}");
    ensure!(!words.stdout.contains("no engine is up"), "{words:?}");
    Ok(())
}

fn an_order_that_is_waited_for_ends_with_the_code_of_its_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "waited")?;
    let repo = repo.to_str().context("a path in UTF-8")?;
    let run = |agent: &str, options: &[&str]| {
        let mut words = vec!["order", "add", "--wait", "--repo", repo];
        words.extend(options);
        words.extend(["--", "sh", "-c", agent]);
        product.call(words)
    };
    expect_exit(&run("echo x > x.txt", &[])?, ExitCode::Ok)?;
    expect_exit(&run("exit 3", &["--retries", "3"])?, ExitCode::AgentFailed)?;
    // A variable is taken from the environment of whoever dispatches; here that has none.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| run("true", &["--id", "unset", "--env", "NO_SUCH_VARIABLE"]));
        until("the order is found faulty", PATIENCE, || {
            let view = order(&product, "unset").ok();
            Ok(view.filter(|view| {
                let words = view["wait"]["words"].as_str().unwrap_or_default();
                view["wait"]["wait"] == "fault" && words.contains("NO_SUCH_VARIABLE")
            }))
        })?;
        product.ask(&["order", "cancel", "unset"])?;
        let waited = waits.join().unwrap()?;
        expect_exit(&waited, ExitCode::Ok)
    })
}

fn a_decision_for_an_order_counts_in_its_second_attempt(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "decided")?;
    let _service = Daemon::start(&mut product.foreman(["serve"]))?;
    let script =
        "curl -sS -m 100 -o got.txt http://order.held.example/ && test -s got.txt && sleep 1000";
    add(&product, &repo, &["--id", "twice"], &["sh", "-c", script])?;
    let run = run_is(&product, "twice", "running")?["last_run"]["id"]
        .as_str()
        .context("a run")?
        .to_owned();
    let block = until("its connection is held", PATIENCE, || {
        let blocks = product.blocks(&run)?;
        Ok(blocks
            .first()
            .and_then(|block| block["id"].as_str().map(str::to_owned)))
    })?;
    product.amend(&block, &["--scope", "order", "--yes"])?;
    product.ask(&["stop", &run])?;
    order_is(&product, "twice", "failed")?;

    let again = product.ask(&["order", "dispatch", "twice"])?;
    let second = again["last_run"]["id"]
        .as_str()
        .context("a run")?
        .to_owned();
    ensure!(second != run, "{again}");
    ensure!(again["runs"] == serde_json::json!([run, second]), "{again}");
    let worktree = again["last_run"]["worktree"]
        .as_str()
        .context("a worktree")?
        .to_owned();
    eventually("the second attempt went through", PATIENCE, || {
        fs::metadata(Path::new(&worktree).join("got.txt")).is_ok_and(|file| file.len() > 0)
    })?;
    ensure!(product.blocks(&second)?.is_empty(), "it was held again");
    let policy = product.ask(&["policy", "show", "--run", &second])?;
    ensure!(
        policy.to_string().contains("order.held.example"),
        "{policy}"
    );
    let cancelled = product.ask(&["order", "cancel", "twice"])?;
    ensure!(cancelled["state"] == "cancelled", "{cancelled}");
    ensure!(cancelled["last_run"]["state"] == "cancelled", "{cancelled}");
    Ok(())
}

fn an_order_file_is_handed_in_whole_or_refused_with_its_place(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "files")?;
    let folder = stage.bench.scratch("files")?;
    let write = |name: &str, text: &str| -> Result<String> {
        let path = folder.join(name);
        stage.bench.write(&path, text)?;
        Ok(path.to_string_lossy().into_owned())
    };
    let repo = repo.to_str().context("a path in UTF-8")?;
    let head = format!("repo = \"{repo}\"\ncommand = [\"true\"]\n");
    let good = write(
        "batch.toml",
        &format!("{head}[[order]]\n[[order]]\nid = \"two\"\n"),
    )?;
    let added = product.ask(&["order", "add", "--file", &good])?;
    let ids = added["orders"].as_array().context("orders")?.iter();
    let ids: Vec<_> = ids.filter_map(|order| order["id"].as_str()).collect();
    ensure!(ids == ["batch-1", "two"], "{added}");

    for (name, text, code, said) in [
        (
            "again.toml",
            format!("{head}id = \"two\"\n"),
            ExitCode::Conflict,
            "there is an order two",
        ),
        (
            "typo.toml",
            format!("{head}deppends_on = []\n"),
            ExitCode::BadInput,
            "typo.toml, line 3, column 1",
        ),
        (
            "round.toml",
            format!(
                "{head}[[order]]\nid = \"x\"\ndepends_on = [\"y\"]\n[[order]]\nid = \"y\"\ndepends_on = [\"x\"]\n"
            ),
            ExitCode::BadInput,
            "wait for each other",
        ),
        (
            "gone.toml",
            format!("{head}[[order]]\nid = \"z\"\nrepo = \"/nowhere/at/all\"\n"),
            ExitCode::BadInput,
            "order z:",
        ),
        (
            "cap.toml",
            format!("{head}attempts = 4000\n"),
            ExitCode::BadInput,
            "not to be meant",
        ),
        (
            "note.md",
            "---\nrepo: &x /r\n---\n".into(),
            ExitCode::BadInput,
            "anchors",
        ),
    ] {
        let file = write(name, &text)?;
        let ran = product.call(["order", "add", "--file", &file, "--json"])?;
        expect_exit(&ran, code)?;
        let (_, message) = ran.error()?;
        ensure!(message.contains(said), "{name}: {message}");
    }
    let ran = product.call(["order", "add", "--file", "/no/such/file.toml", "--json"])?;
    expect_exit(&ran, ExitCode::BadInput)?;
    let listed = product.ask(&["orders", "--all"])?;
    ensure!(
        listed["orders"]
            .as_array()
            .is_some_and(|orders| orders.len() == 2),
        "something was half-made: {listed}"
    );
    let edited = product.ask(&[
        "order",
        "edit",
        "two",
        "--priority",
        "--depends-on",
        "batch-1",
    ])?;
    ensure!(edited["hints"]["priority"] == true, "{edited}");
    let round = product.call(["order", "edit", "batch-1", "--depends-on", "two", "--json"])?;
    expect_exit(&round, ExitCode::BadInput)?;
    for (words, code) in [
        (["order", "show", "nobody", "--json"], ExitCode::BadInput),
        (["order", "show", "../../etc", "--json"], ExitCode::BadInput),
    ] {
        expect_exit(&product.call(words)?, code)?;
    }
    Ok(())
}

fn a_watched_folder_takes_files_in_and_shows_a_bad_one(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "watched")?;
    let folder = stage.bench.scratch("orders")?;
    stage.bench.own(&folder)?;
    let _service = Daemon::start(&mut product.foreman(["serve"]))?;
    let place = folder.to_str().context("a path in UTF-8")?;
    product.ask(&["orders", "watch", "add", place])?;
    let text = format!(
        "---\nrepo: {}\ncommand: [sh, -c, 'cat > got.txt <<X\n\n  $1\n\n  X', sh]\n---\nWrite it down.\n",
        repo.display()
    );
    stage.bench.write(&folder.join("bad.toml"), "repo = [")?;
    // As an editor saves: beside it, then in its place.
    stage.bench.write(&folder.join(".task.md.swp"), &text)?;
    fs::rename(folder.join(".task.md.swp"), folder.join("task.md"))?;
    let view = until(
        "the file was taken in and its run is reviewed",
        PATIENCE,
        || {
            let view = order(&product, "task").ok();
            Ok(view.filter(|view| view["last_run"]["state"] == "review"))
        },
    )?;
    ensure!(view["prompt"] == "Write it down.", "{view}");
    let listed = product.call(["orders"])?;
    ensure!(
        listed.stdout.contains("not taken in") && listed.stdout.contains("not valid TOML"),
        "{listed:?}"
    );
    ensure!(
        fs::read_to_string(folder.join("task.md"))? == text,
        "the file was written to"
    );
    let inside = product.data().join("worktrees");
    let inside = inside.to_str().context("a path in UTF-8")?;
    let refused = product.call(["orders", "watch", "add", inside, "--json"])?;
    expect_exit(&refused, ExitCode::BadInput)?;
    ensure!(
        refused.error()?.1.contains("what agents write"),
        "{refused:?}"
    );
    product.ask(&["orders", "watch", "remove", place]).map(drop)
}

fn a_gate_of_checks_merges_by_itself_and_the_order_is_done(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "byitself")?;
    let _service = Daemon::start(&mut product.foreman(["serve"]))?;
    add(
        &product,
        &repo,
        &[
            "--id",
            "safe",
            "--gate",
            "checks",
            "--check",
            "test \"$(ls | wc -l)\" -gt 1",
        ],
        &["sh", "-c", "echo three >> file.txt"],
    )?;
    let done = order_is(&product, "safe", "done").or_else(|error| {
        let run = order(&product, "safe")?["last_run"]["id"].to_string();
        let events = product.call(["events", run.trim_matches('"'), "--kind", "warning"])?;
        Err(error.context(events.stdout))
    })?;
    ensure!(done["how"]["how"] == "merged", "{done}");
    ensure!(
        fs::read_to_string(repo.join("file.txt"))?.contains("three"),
        "not merged"
    );
    add(
        &product,
        &repo,
        &[
            "--id", "unsafe", "--gate", "checks", "--check", "true", "--scope", "src/**",
        ],
        &["sh", "-c", "echo four >> file.txt"],
    )?;
    let waits = run_is(&product, "unsafe", "review")?;
    let run = waits["last_run"]["id"].as_str().context("a run")?;
    let told = until("the gate says why not", PATIENCE, || {
        let events = product.call(["events", run, "--kind", "warning"])?;
        Ok(events
            .stdout
            .contains("not merged by itself")
            .then_some(events.stdout))
    })?;
    ensure!(
        told.contains("outside of the order's declared scope: file.txt"),
        "{told}"
    );
    let shown = product.call(["show", run])?;
    ensure!(
        shown.stdout.contains("outside of its scope: file.txt"),
        "{shown:?}"
    );
    ensure!(
        order(&product, "unsafe")?["state"] == "dispatched",
        "it was merged"
    );
    Ok(())
}

fn attempts_of_one_order_run_side_by_side_and_can_be_compared(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "group")?;
    let _service = Daemon::start(&mut product.foreman(["serve"]))?;
    let agent = ["sh", "-c", "date +%N > attempt.txt"];
    let added = add(&product, &repo, &["--id", "try", "--attempts", "2"], &agent)?;
    ensure!(added["orders"][1]["group"] == "try", "{added}");
    for id in ["try-1", "try-2"] {
        run_is(&product, id, "review")?;
    }
    let compared = product.ask(&["compare", "try"])?;
    ensure!(
        compared["attempts"]
            .as_array()
            .is_some_and(|attempts| attempts.len() == 2),
        "{compared}"
    );
    Ok(())
}

fn an_order_that_cannot_be_meant_is_refused_and_shown_whole_otherwise(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "meant")?;
    let path = repo.to_str().context("a path in UTF-8")?;
    let nowhere = [
        "order", "add", "--repo", path, "--base", "nowhere", "--", "true",
    ];
    let refused = product.call(nowhere)?;
    expect_exit(&refused, ExitCode::BadInput)?;
    ensure!(refused.stderr.contains("nowhere"), "{}", refused.stderr);
    add(
        &product,
        &repo,
        &[
            "--id",
            "meant",
            "--check",
            "test -e file.txt",
            "--impact",
            "high",
            "--retries",
            "2",
        ],
        &["true"],
    )?;
    let shown = product.call(["order", "show", "meant"])?;
    for part in [
        "test -e file.txt",
        "high impact",
        "2 retries",
        "your review",
    ] {
        ensure!(shown.stdout.contains(part), "no {part}: {}", shown.stdout);
    }
    let unchanged = product.call(["order", "edit", "meant", "--impact", "high"])?;
    expect_exit(&unchanged, ExitCode::Usage)?;
    ensure!(unchanged.stderr.contains("nothing"), "{}", unchanged.stderr);
    product.ask(&["order", "edit", "meant", "--impact", "low"])?;
    ensure!(order(&product, "meant")?["hints"]["impact"] == "low");
    let repaired = product.call(["doctor", "--repair"])?;
    ensure!(
        repaired.stdout.contains("Nothing had to be repaired"),
        "{}",
        repaired.stdout
    );
    Ok(())
}

fn limits_and_pauses_are_set_and_absurd_ones_refused(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "limits")?;
    let set = product.ask(&[
        "orders",
        "limits",
        "--total",
        "2",
        "--class",
        "db=3",
        "--budget-wall",
        "2h",
        "--budget-tokens",
        "500k",
        "--budget-cost",
        "2.50",
    ])?;
    ensure!(
        set["limits"]["total"] == 2 && set["limits"]["per_class"]["db"] == 3,
        "{set}"
    );
    let budgets = &set["limits"]["budgets"];
    ensure!(
        budgets["tokens"] == 500_000 && budgets["cost_micros"] == 2_500_000,
        "{set}"
    );
    let shown = product.call(["orders", "limits"])?;
    ensure!(shown.stdout.contains("2 at once"), "{shown:?}");
    for (words, code) in [
        (
            vec!["orders", "limits", "--total", "1000000"],
            ExitCode::BadInput,
        ),
        (
            vec!["orders", "limits", "--budget-cost", "much"],
            ExitCode::Usage,
        ),
        (vec!["orders", "limits", "--class", "db"], ExitCode::Usage),
        (
            vec!["orders", "limits", "--class", "d b=1"],
            ExitCode::BadInput,
        ),
    ] {
        let mut words = words;
        words.push("--json");
        expect_exit(&product.call(&words)?, code)?;
    }
    product.ask(&["orders", "pause"])?;
    add(&product, &repo, &["--id", "held"], &["true"])?;
    let held = order(&product, "held")?;
    ensure!(held["wait"]["wait"] == "paused", "{held}");
    // By hand it starts although the queue is paused, and although nobody serves.
    let started = product.ask(&["order", "dispatch", "held"])?;
    ensure!(started["state"] == "dispatched", "{started}");
    order_is(&product, "held", "done")?;
    let resumed = product.ask(&["orders", "resume"])?;
    ensure!(resumed["paused"] == false, "{resumed}");
    Ok(())
}
