//! The service and its socket, as other programs meet them.

use crate::adoption::worktree_of;
use anyhow::{Context, Result, bail, ensure};
use foreman_testkit::suite::{Case, Verdict};
use foreman_testkit::{
    Daemon, PATIENCE, Product, Stage, cases_of, eventually, processes_with, repos, until,
};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    let mut cases = cases_of!(
        stage,
        "serving",
        [
            a_service_ends_in_good_order_and_leaves_its_runs,
            a_detached_service_is_started_once_and_outlives_its_caller,
            hints_follow_a_list_without_a_hole_and_name_what_changed,
            a_second_engine_is_a_client_and_a_lock_that_nobody_answers_for_is_a_sentence,
        ]
    );
    for (name, case) in [
        (
            "serving::the_control_socket_is_for_its_own_user_only",
            the_control_socket_is_for_its_own_user_only as fn(&Stage) -> Result<Verdict>,
        ),
        (
            "serving::systemd_understands_the_unit",
            systemd_understands_the_unit,
        ),
    ] {
        cases.push(Case::new(name, move || case(stage)));
    }
    cases
}

/// The control socket of the engine that is up.
fn socket(product: &Product<'_>) -> Option<PathBuf> {
    let lock = fs::read(product.data().join("state/engine.lock")).ok()?;
    let holder: Value = serde_json::from_slice(&lock).ok()?;
    let path = PathBuf::from(holder["socket"].as_str()?);
    path.exists().then_some(path)
}

/// Starts a service and waits until it is up.
pub fn serve(product: &Product<'_>) -> Result<Daemon> {
    let service = Daemon::start(&mut product.foreman(["serve"]))?;
    until("a service is up", PATIENCE, || Ok(socket(product)))?;
    Ok(service)
}

fn hints_follow_a_list_without_a_hole_and_name_what_changed(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "watch")?;
    let _service = serve(&product)?;
    let list = product.ask(&["runs"])?;
    let begun = list["cursor"].as_str().context("a cursor")?.to_owned();
    let agent = "curl -sS -m 100 http://watch.held.example/; echo done";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp watch.held.example:80")?;
    let id = run.id()?;
    let names = |hints: &Value, what: &str, name: &str| {
        let all = hints[what].as_array().cloned().unwrap_or_default();
        let same = |one: &&Value| **one == *name || one["run"] == name;
        all.iter().filter(same).count()
    };
    let hints = until("the block is hinted", PATIENCE, || {
        let hints = product.ask(&["watch", "--once", "--cursor", &begun])?;
        Ok((names(&hints, "blocks", &block) == 1).then_some(hints))
    })?;
    ensure!(
        hints["from"] == begun.as_str() && hints["resync"] == false,
        "{hints}"
    );
    ensure!(names(&hints, "runs", &id) == 1, "{hints}");
    let words = product.call(["watch", "--once", "--cursor", &begun])?;
    ensure!(
        words.stdout.contains(&format!("block {block}\n")),
        "{words:?}"
    );
    ensure!(words.stdout.contains(&format!("run {id} ")), "{words:?}");

    let cursor = hints["to"].as_str().context("a cursor")?.to_owned();
    product.ask(&["stop", &id])?;
    let hints = product.ask(&["watch", "--once", "--cursor", &cursor])?;
    ensure!(hints["runs"][0]["state"] == "cancelled", "{hints}");
    ensure!(
        hints["runs"][0]["last_seq"] == product.show(&id)?["last_seq"],
        "{hints}"
    );
    let foreign = product.ask(&["watch", "--once", "--cursor", "999.2.3"])?;
    ensure!(
        foreign["resync"] == true && foreign["from"].is_null(),
        "{foreign}"
    );
    Ok(())
}

fn a_second_engine_is_a_client_and_a_lock_that_nobody_answers_for_is_a_sentence(
    stage: &Stage,
) -> Result<()> {
    let product = stage.product()?;
    let service = serve(&product)?;
    let second = product.ask(&["serve", "--detach"])?;
    ensure!(second["role"] == "unneeded", "{second}");
    let mut standby = Daemon::start(&mut product.foreman(["serve"]))?;
    ensure!(product.ask(&["runs"])?["runs"] == serde_json::json!([]));
    ensure!(standby.is_alive(), "a second service did not stand by");
    let before = fs::read(product.data().join("state/engine.lock"))?;
    drop(service);
    eventually("the one that stood by has taken over", PATIENCE, || {
        let lock = fs::read(product.data().join("state/engine.lock"));
        lock.is_ok_and(|lock| lock != before) && socket(&product).is_some()
    })?;
    ensure!(product.ask(&["runs"])?["runs"] == serde_json::json!([]));
    drop(standby);

    // Somebody holds the lock and serves nothing.
    let lock = product
        .data()
        .join("state/engine.lock")
        .display()
        .to_string();
    let hold = Daemon::start(product.program("flock").args([&lock, "sleep", "600"]))?;
    let refused = until("the lock is held", PATIENCE, || {
        let refused = product.call(["runs", "--json"])?;
        Ok((refused.code != 0).then_some(refused))
    })?;
    ensure!(refused.code == 9, "{refused:?}");
    let (code, message) = refused.error()?;
    ensure!(
        code == "busy" && message.contains("does not answer"),
        "{message}"
    );
    drop(hold);
    Ok(())
}

/// Whoever is not its user is not even greeted.
fn the_control_socket_is_for_its_own_user_only(stage: &Stage) -> Result<Verdict> {
    let product = stage.product()?;
    let _service = serve(&product)?;
    let path = socket(&product).context("a socket")?;
    let mode = |path: &std::path::Path| {
        Ok::<_, std::io::Error>(path.metadata()?.permissions().mode() & 0o777)
    };
    ensure!(mode(&path)? == 0o600, "the socket's mode");
    let folder = path.parent().context("a folder")?;
    ensure!(mode(folder)? == 0o700, "the folder's mode");
    if nix::unistd::geteuid().as_raw() == stage.bench.uid() {
        return Ok(Verdict::Skipped(
            "another user can be played by root only".to_owned(),
        ));
    }
    // Root passes by every permission, but is not the engine's user.
    let mut stream = UnixStream::connect(&path)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Ok(_) if heard.is_empty() => Ok(Verdict::Passed),
        other => bail!(
            "another user was answered: {other:?} {}",
            String::from_utf8_lossy(&heard)
        ),
    }
}

fn systemd_understands_the_unit(stage: &Stage) -> Result<Verdict> {
    let product = stage.product()?;
    let printed = product.call(["serve", "--print-unit", "--drain-on-exit", "10m"])?;
    ensure!(printed.code == 0, "{printed:?}");
    ensure!(
        printed.stdout.contains("serve --drain-on-exit 600s"),
        "{printed:?}"
    );
    let scratch = stage.bench.scratch("unit")?;
    let home = scratch.display().to_string();
    let installing = product.clone().with_variable("XDG_CONFIG_HOME", &home);
    installing.ask(&["serve", "--install"])?;
    let unit = scratch.join("systemd/user/foreman.service");
    ensure!(unit.is_file(), "no unit was written");
    let verify = Command::new("systemd-analyze")
        .args(["--user", "verify"])
        .arg(&unit)
        .env("XDG_RUNTIME_DIR", &scratch)
        .output();
    let verdict = match verify {
        Err(error) => Verdict::Skipped(format!("systemd-analyze cannot be run here: {error}")),
        Ok(said) => {
            let words = String::from_utf8_lossy(&said.stderr);
            let about_it: Vec<_> = words
                .lines()
                .filter(|line| line.contains("foreman.service"))
                .collect();
            ensure!(about_it.is_empty(), "{about_it:?}");
            ensure!(said.status.success(), "{said:?}");
            Verdict::Passed
        }
    };
    installing.ask(&["serve", "--uninstall"])?;
    ensure!(!unit.exists(), "the unit was left");
    Ok(verdict)
}

fn a_service_ends_in_good_order_and_leaves_its_runs(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "service")?;
    let nobody = product.ask(&["shutdown"])?;
    ensure!(nobody["pid"].is_null(), "{nobody}");
    let mut service = serve(&product)?;
    let script =
        "echo going; while [ ! -e stop ]; do sleep 0.05; done; echo x > x.txt # mark-service";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    run.said("going")?;
    let id = run.id()?;
    let report = product.ask(&["shutdown"])?;
    ensure!(report["left"][0]["run"] == id.as_str(), "{report}");
    eventually("the service has ended", PATIENCE, || !service.is_alive())?;
    // Whoever watched the run hosts now, and the run goes on.
    ensure!(!run.is_over() && processes_with("mark-service") > 0);
    fs::write(worktree_of(&product, &id)?.join("stop"), "")?;
    ensure!(run.ended()? == 0, "{}", run.story());

    // A drain waits for what runs, and refuses to begin anything.
    let mut service = serve(&product)?;
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    run.said("going")?;
    let id = run.id()?;
    let draining = Daemon::start(&mut product.foreman(["shutdown", "--drain", "2m"]))?;
    let refused = until("nothing new is begun", PATIENCE, || {
        let refused = product.call([
            "run",
            "--json",
            "--repo",
            &repo.display().to_string(),
            "--",
            "true",
        ])?;
        Ok((refused.code != 0).then_some(refused))
    })?;
    ensure!(refused.error()?.1.contains("about to end"), "{refused:?}");
    ensure!(service.is_alive());
    fs::write(worktree_of(&product, &id)?.join("stop"), "")?;
    eventually("the service has ended", PATIENCE, || !service.is_alive())?;
    drop(draining);
    ensure!(run.ended()? == 0, "{}", run.story());
    Ok(())
}

fn a_detached_service_is_started_once_and_outlives_its_caller(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let first = product.ask(&["serve", "--detach"])?;
    ensure!(first["role"] == "hosting", "{first}");
    let again = product.ask(&["serve", "--detach"])?;
    ensure!(again["role"] == "unneeded", "{again}");
    let report = product.ask(&["shutdown"])?;
    ensure!(report["pid"] == first["pid"], "{report} of {first}");
    let pid = first["pid"].as_u64().context("a pid")?.to_string();
    let lives = || {
        let asked = product.program("kill").args(["-0", &pid]).output();
        asked.is_ok_and(|asked| asked.status.success())
    };
    eventually("it has ended", PATIENCE, || !lives())
}
