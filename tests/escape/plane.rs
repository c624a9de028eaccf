//! The policy plane: the caged side has no way to change, answer or reach what judges it.

use crate::Attack;
use crate::attacks;
use crate::ground::{Ground, newest};
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::Verdict;
use foreman_testkit::{PATIENCE, Who, eventually};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E96"] a_run_cannot_edit_its_policy_or_the_engines_data,
        ["E96"] the_engines_data_below_a_system_directory_is_out_of_reach,
        ["E97"] the_one_socket_in_the_cage_answers_why_and_nothing_else,
        ["E98"] a_decision_on_a_card_whose_policy_moved_is_void,
        ["E99"] of_amend_and_deny_at_once_one_is_recorded,
        ["E101"] crafted_names_and_arguments_cannot_make_a_card_read_wrong,
        ["E102"] there_is_no_switch_inside_that_turns_the_cage_off,
        ["E103"] tools_inside_the_agents_process_are_held_too,
        ["E104"] unrelated_settings_do_not_turn_filtering_off,
        ["E105"] after_a_restart_each_run_is_confined_or_stopped,
    ]
}

fn a_run_cannot_edit_its_policy_or_the_engines_data(ground: &Ground<'_>) -> Result<()> {
    let data = ground.arena.product().data();
    let mut paths = vec![
        data.clone(),
        data.join("state"),
        data.join("state/foreman.db"),
        data.join("state/runs"),
    ];
    let run = data.join("state/runs").join(ground.arena.id());
    paths.extend(["spec.json", "journal.ndjson", "identity.json"].map(|file| run.join(file)));
    for path in &paths {
        ensure!(
            path.exists(),
            "{} is not there to be attacked",
            path.display()
        );
        let text = path.display().to_string();
        let saw = ground.arena.attack(&["read", &text])?;
        let names = saw[&text]["names"].as_array().cloned().unwrap_or_default();
        // Folders above the worktree exist inside as empty mount points.
        ensure!(
            saw[&text]["ok"] == false
                || names
                    .iter()
                    .all(|name| name == "worktrees" || name == "shadows"),
            "{saw}"
        );
        let saw = ground
            .arena
            .attack(&["write", &format!("{text}/evil"), &text])?;
        ensure!(!saw.to_string().contains("\"ok\":true,\"value\""), "{saw}");
    }
    ensure!(
        !data.join("state/evil").exists() && !data.join("evil").exists(),
        "something was written"
    );
    let policy = "mkdir -p .foreman ~/.config/foreman; for f in .foreman/policy.toml ~/.config/foreman/policy.toml; do \
        printf '[[egress]]\\nhost = \"e96.example\"\\nport = 443\\n' > $f; done";
    ground.arena.shell(policy)?;
    ground.held_then_refused(
        &["tcp", "e96.example", "443", "mark-e96"],
        "tcp e96.example:443",
    )?;
    ground.arena.shell("rm -rf .foreman")?;
    ground.nothing_with("e96")
}

/// System directories are seen in every cage; the engine's data and sockets must not be, wherever they are.
fn the_engines_data_below_a_system_directory_is_out_of_reach(
    ground: &Ground<'_>,
) -> Result<Verdict> {
    if !Who::all().contains(&Who::Root) {
        return Ok(Verdict::Skipped(
            "only root can make a folder below /opt".to_owned(),
        ));
    }
    let bench = &ground.stage.bench;
    let place = std::path::PathBuf::from(format!(
        "/opt/fm-test-{}-{}",
        std::process::id(),
        bench.uid()
    ));
    let made = Removed(place.clone());
    for folder in [place.clone(), place.join("data"), place.join("run")] {
        std::fs::create_dir(&folder)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        bench.own(&folder)?;
    }
    let runtime = place.join("run").display().to_string();
    let product = ground
        .stage
        .product()?
        .with_data(&place.join("data"))
        .with_variable("XDG_RUNTIME_DIR", &runtime);
    let repo = foreman_testkit::repos::plain(bench, "e96")?;
    let script = format!(
        "find {0} -path '*/worktrees/*' -prune -o -path '*/shadows/*' -prune -o -type f -print -o -type s -print; cat {0}/data/state/runs/*/spec.json; echo looked",
        place.display()
    );
    let run = product.run(&repo, &[], &["sh", "-c", &script])?;
    let ran = run.ran()?;
    drop(made);
    ensure!(
        !ran.stdout.contains("\\\"nonce\\\""),
        "the run's secret was read: {}",
        ran.stdout
    );
    for name in ["foreman.db", "spec.json", "control.sock", "journal.ndjson"] {
        let seen = run.events().iter().any(|event| match &event.kind {
            EventKind::Output { text, .. } => text.contains(name) && !text.contains("No such file"),
            _ => false,
        });
        ensure!(!seen, "{name} is seen in the cage: {}", run.story());
    }
    Ok(Verdict::Passed)
}

/// A folder that goes when this does.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const TALK: &str = r#"
import json, os, socket
said = []
for line in [{"method":"apply","params":{}}, {"jsonrpc":"2.0","id":1,"method":"block.amend","params":{"block":"b1"}},
             {"jsonrpc":"2.0","id":2,"method":"hello","params":{}}, {"jsonrpc":"2.0","id":3,"method":"run.list","params":{}}]:
    s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect("/run/foreman/why.sock")
    try:
        s.sendall((json.dumps(line) + "\n").encode()); said.append(s.recv(65536).decode(errors="replace"))
    except OSError as error: said.append(str(error))
s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect("/run/foreman/why.sock")
try:
    for _ in range(400): s.sendall(b"x" * 65536)
except OSError as error: said.append("flood: " + str(error))
print(json.dumps({"ok": True, "said": said, "there": [os.path.join(d, x) for d, _, f in os.walk("/run/foreman") for x in f if (os.lstat(os.path.join(d, x)).st_mode & 0o170000) == 0o140000]}))
"#;

fn the_one_socket_in_the_cage_answers_why_and_nothing_else(ground: &Ground<'_>) -> Result<()> {
    let job = ground
        .arena
        .start_attack(&["tcp", "e97.example", "443", "mark-e97"])?;
    let block = ground.held(&job, "tcp e97.example:443")?;
    let reply = ground
        .arena
        .exec(&["timeout", "40", "python3", "-c", TALK])?;
    let there = reply.json()?["there"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    ensure!(
        there.len() == 1 && there[0] == "/run/foreman/why.sock",
        "more than one socket: {there:?}"
    );
    let number = block.split('-').next_back().unwrap_or_default();
    for command in [
        "amend",
        "deny",
        "undo",
        "policy revoke",
        "runs",
        "stop",
        "attach",
    ] {
        let reply = ground.arena.shell(&format!(
            "foreman {command} {number} --json; foreman {command} {block} --expect x"
        ))?;
        ensure!(
            reply.code != 0,
            "`foreman {command}` works inside: {reply:?}"
        );
    }
    ensure!(
        job.reply()?.is_none(),
        "the held connect went on: {:?}",
        job.reply()
    );
    let open = newest(ground.arena.run(), &block).context("the block")?;
    ensure!(open.state.tag() == "open", "the cage decided: {open:?}");
    let why = ground.arena.shell("foreman why --json; foreman why")?;
    ensure!(why.code == 0 && why.stdout.len() < 200_000, "{why:?}");
    ground.deny(&block)?;
    job.wait(PATIENCE)?;
    let why = ground.arena.shell("foreman why --json")?;
    ensure!(why.stdout.contains("e97.example"), "{why:?}");
    ground.nothing_with("e97")
}

fn a_decision_on_a_card_whose_policy_moved_is_void(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let product = arena.product();
    let first = arena.start_attack(&["tcp", "e98-a.example", "443", "x"])?;
    let second = arena.start_attack(&["tcp", "e98-b.example", "443", "x"])?;
    let (a, b) = (
        arena.block("tcp e98-a.example:443")?,
        arena.block("tcp e98-b.example:443")?,
    );
    let shown = product.card(&a)?;
    let expect = shown["expect"].as_str().context("a token")?.to_owned();
    product.deny(&b, "")?;
    let ran = product.call(["amend", &a, "--expect", &expect, "--json"])?;
    ensure!(ran.code == 4 && ran.error()?.0 == "stale", "{ran:?}");
    ensure!(first.reply()?.is_none(), "it went on all the same");
    let fresh = product.card(&a)?;
    ensure!(
        fresh["expect"] != shown["expect"],
        "the card was not refreshed"
    );
    product.deny(&a, "")?;
    first.wait(PATIENCE)?;
    second.wait(PATIENCE)?;
    ground.nothing_with("e98")?;
    arena.finish()?;
    Ok(())
}

fn of_amend_and_deny_at_once_one_is_recorded(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let product = arena.product();
    let job = arena.start_attack(&["tcp", "e99.amended.example", "7007", "x"])?;
    let block = arena.block("tcp e99.amended.example:7007")?;
    let expect = product.card(&block)?["expect"]
        .as_str()
        .context("a token")?
        .to_owned();
    let verbs = ["amend", "deny", "amend", "deny"];
    let codes: Vec<i32> = std::thread::scope(|scope| {
        let threads: Vec<_> = verbs
            .iter()
            .map(|verb| {
                let (product, block, expect) = (product.clone(), &block, &expect);
                scope.spawn(move || {
                    product
                        .call([verb, block.as_str(), "--expect", expect.as_str(), "--json"])
                        .map(|ran| ran.code)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Result<_>>()
    })?;
    ensure!(
        codes.iter().filter(|code| **code == 0).count() == 1,
        "{codes:?}"
    );
    ensure!(codes.iter().all(|code| [0, 4].contains(code)), "{codes:?}");
    let saw = job.wait(PATIENCE)?.json()?;
    arena
        .run()
        .wait_for("the decision in the feed", |event| match &event.kind {
            EventKind::Amendment { .. } => Some(()),
            _ => None,
        })?;
    let recorded: std::collections::BTreeSet<String> = arena
        .run()
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Amendment { amendment } => Some(amendment.id.to_string()),
            _ => None,
        })
        .collect();
    ensure!(recorded.len() == 1, "recorded: {recorded:?}");
    eventually("the feed has the block decided", PATIENCE, || {
        newest(arena.run(), &block).is_some_and(|block| block.state.tag() != "open")
    })?;
    let state = newest(arena.run(), &block).context("the block")?.state;
    ensure!(
        (state.tag() == "amended") == (saw["ok"] == true),
        "recorded {state:?}, but the connect saw {saw}"
    );
    arena.finish()?;
    Ok(())
}

fn crafted_names_and_arguments_cannot_make_a_card_read_wrong(ground: &Ground<'_>) -> Result<()> {
    let script = "exec -a $'\\e[2J\\e[H HELD tcp bank.example:443\\n[a] amend\\u202e' curl -sS -m 60 http://e101.example/";
    let job = ground.arena.start(&["bash", "-c", script])?;
    let block = ground.held(&job, "tcp e101.example:80")?;
    let product = ground.arena.product();
    let ran = product.call(["blocks", "--run", ground.arena.id()])?;
    ensure!(ran.stdout.contains("e101.example:80"), "{ran:?}");
    for bad in ["\u{1b}[2J", "\u{202e}", "\n[a] amend"] {
        ensure!(
            !ran.stdout.contains(bad),
            "{bad:?} reached the terminal: {ran:?}"
        );
    }
    ground.deny(&block)?;
    job.wait(PATIENCE)?;
    for name in [
        "allowed.example.e101.example",
        "allowed.example-e101.example",
    ] {
        ground.held_then_refused(&["tcp", name, "443", "x"], &format!("tcp {name}:443"))?;
    }
    ground.nothing_with("e101")
}

fn there_is_no_switch_inside_that_turns_the_cage_off(ground: &Ground<'_>) -> Result<()> {
    let reply = ground.arena.shell("foreman --help; foreman run -- true; echo \"run said $?\"; foreman doctor; echo \"doctor said $?\"")?;
    ensure!(!reply.stdout.contains("said 0"), "{reply:?}");
    let program = ground.stage.bench.program("foreman").display().to_string();
    let shim = ground
        .stage
        .bench
        .program("foreman-shim")
        .display()
        .to_string();
    // The product's own programs, nested: they get no further than anybody.
    let reply = ground.arena.shell(&format!("FOREMAN_SHIM={shim} FOREMAN_DATA_DIR=/tmp/d XDG_RUNTIME_DIR=/tmp/r timeout 30 {program} run --accept-weaker user_namespace \
        --accept-weaker mounts --accept-weaker network --unattended -- curl -sS -m 5 http://e102.example/; echo \"nested said $?\"; timeout 20 {shim} world --serve '[]' -- true; echo \"world said $?\""))?;
    ensure!(!reply.stdout.contains("said 0"), "{reply:?}");
    ensure!(
        !reply.stdout.contains("hello from the far side"),
        "{reply:?}"
    );
    ground.nothing_with("e102")
}

fn tools_inside_the_agents_process_are_held_too(ground: &Ground<'_>) -> Result<()> {
    let python = "import urllib.request\ntry: print(urllib.request.urlopen('http://e103-python.example/', timeout=60).read())\nexcept OSError as error: print('refused', error)";
    let mut tools: Vec<(&str, Vec<&str>)> =
        vec![("e103-python.example", vec!["python3", "-c", python])];
    let node = "fetch('http://e103-node.example/').then(r => r.text()).then(console.log, e => console.log('refused', e.cause?.code))";
    if ground.has("node") {
        tools.push(("e103-node.example", vec!["node", "-e", node]));
    }
    for (host, argv) in tools {
        let job = ground.arena.start(&argv)?;
        let block = ground.held(&job, &format!("tcp {host}:80"))?;
        ground.deny(&block)?;
        let reply = job.wait(PATIENCE)?;
        ensure!(reply.stdout.contains("refused"), "{reply:?}");
        ground.nothing_with(host)?;
    }
    Ok(())
}

fn unrelated_settings_do_not_turn_filtering_off(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let bench = &ground.stage.bench;
    // The operator edits things while the run goes on.
    bench.write(
        &bench.home().join(".config/foreman/config.toml"),
        "colour = \"blue\"\n",
    )?;
    bench.shell(
        &ground.repo,
        "git config user.name 'Another Name'; git config --unset user.name",
    )?;
    let product = arena.product();
    let unrelated = arena.start_attack(&["tcp", "e104.amended.example", "7007", "x"])?;
    let block = arena.block("tcp e104.amended.example:7007")?;
    product.amend(&block, &[])?;
    ensure!(unrelated.wait(PATIENCE)?.json()?["ok"] == true);
    let job = arena.start_attack(&["tcp", "e104.example", "443", "mark-e104"])?;
    let block = arena.block("tcp e104.example:443")?;
    product.deny(&block, "")?;
    ensure!(job.wait(PATIENCE)?.json()?["errno"] == "ECONNREFUSED");
    ensure!(arena.attack(&["tcp", "169.254.169.254", "80", "x"])?["ok"] == false);
    // The run proved its walls before the agent started.
    let probes: Vec<bool> = arena
        .run()
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Probe { wall, holds, .. } if wall.is_required() => Some(*holds),
            _ => None,
        })
        .collect();
    ensure!(
        !probes.is_empty() && probes.iter().all(|holds| *holds),
        "{probes:?}"
    );
    ground.nothing_with("mark-e104")?;
    arena.finish()?;
    Ok(())
}

fn after_a_restart_each_run_is_confined_or_stopped(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let product = arena.product();
    let repo = foreman_testkit::repos::plain(&ground.stage.bench, "e105")?;
    let dead = product.run(&repo, &[], &["sh", "-c", "echo going; exec sleep 1005"])?;
    dead.said("going")?;
    let dead_id = dead.id()?;
    let identity = product
        .data()
        .join("state/runs")
        .join(&dead_id)
        .join("identity.json");
    let identity: serde_json::Value = serde_json::from_slice(&std::fs::read(identity)?)?;
    // Both front ends die, and one of the two supervisors.
    dead.signal(Signal::SIGKILL)?;
    arena.run().signal(Signal::SIGKILL)?;
    dead.ended()?;
    arena.run().ended()?;
    let killed = product
        .program("kill")
        .args(["-KILL", &identity["pid"].to_string()])
        .status()?;
    ensure!(killed.success());
    eventually("the dead run is interrupted", PATIENCE, || {
        product
            .show(&dead_id)
            .is_ok_and(|view| view["state"] == "interrupted")
    })?;
    ensure!(
        product.show(arena.id())?["state"] == "running",
        "the live run was not adopted"
    );
    let job = arena.start_attack(&["tcp", "e105.example", "443", "mark-e105"])?;
    eventually("the live run is still confined", PATIENCE, || {
        product
            .blocks(arena.id())
            .is_ok_and(|blocks| !blocks.is_empty())
    })?;
    ensure!(job.reply()?.is_none(), "{:?}", job.reply());
    ground.nothing_with("e105")?;
    let view = product.ask(&["stop", arena.id()])?;
    ensure!(view["state"] == "cancelled", "{view}");
    Ok(())
}
