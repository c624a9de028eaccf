//! Engines and windows that go away and come back.

use crate::deciding::{card_in, on_card, reaches};
use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{Daemon, PATIENCE, Product, Stage, cases_of, descendants, repos, until};
use foreman_tests::desk::{Desk, id};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::PathBuf;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "lives",
        [
            killed_in_a_hold_it_shows_the_card_again_and_the_same_connect_goes_on,
            it_takes_over_from_a_service_that_was_killed,
            a_run_that_is_gone_is_said_to_be_gone,
            a_database_of_a_newer_version_is_refused_in_words,
        ]
    )
}

/// Starts a service and waits until it is up.
pub fn serve(product: &Product<'_>) -> Result<Daemon> {
    let service = Daemon::start(&mut product.foreman(["serve"]))?;
    let socket = || -> Option<PathBuf> {
        let lock = std::fs::read(product.data().join("state/engine.lock")).ok()?;
        let holder: Value = serde_json::from_slice(&lock).ok()?;
        let path = PathBuf::from(holder["socket"].as_str()?);
        path.exists().then_some(path)
    };
    until("a service is up", PATIENCE, || Ok(socket()))?;
    Ok(service)
}

fn killed_in_a_hold_it_shows_the_card_again_and_the_same_connect_goes_on(
    stage: &Stage,
) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-kill")?;
    let agent = "curl -sS -m 200 http://kill.window.example/ > got.txt && git add got.txt && git commit -qm fetched";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp kill.window.example:80")?;
    let id = run.id()?;
    app.go("/inbox")?;
    app.see(&card_in(&block, "armed"))?;
    // Nobody else is the engine meanwhile.
    run.signal(Signal::SIGKILL)?;
    app.kill()?;
    drop(app);

    let app = desk.app(&[])?;
    app.go("/inbox")?;
    app.click(&on_card(&block, "amend"))?;
    reaches(&app, &id, "review")?;
    let arrived = stage.world.seen()?;
    let requests = arrived
        .iter()
        .filter(|seen| seen.head.contains("kill.window.example"))
        .count();
    ensure!(requests == 1, "the request arrived {requests} times");
    Ok(())
}

fn it_takes_over_from_a_service_that_was_killed(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let product = desk.product();
    let service = serve(&product)?;
    let app = desk.app(&[])?;
    let repo = repos::plain(&stage.bench, "desktop-takes-over")?;
    let agent = "curl -sS -m 200 http://over.window.example/ > got.txt && git add got.txt && git commit -qm fetched";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp over.window.example:80")?;
    let id = run.id()?;
    app.go("/inbox")?;
    app.see(&card_in(&block, "armed"))?;
    run.signal(Signal::SIGKILL)?;
    // The service alone, not what it supervises.
    let engine = descendants(service.pid());
    let engine = *engine.first().context("the service is gone")?;
    kill(Pid::from_raw(engine), Signal::SIGKILL)?;
    // Pressed while nobody is the engine it may fail, and is pressed again then.
    app.within("it is amended", || {
        if app.session.find(&card_in(&block, "decided")).is_ok() {
            return Ok(Some(()));
        }
        if app.session.find(&card_in(&block, "armed")).is_ok() {
            app.click(&on_card(&block, "amend"))?;
        }
        Ok(None)
    })?;
    reaches(&app, &id, "review")?;
    let shown = product.show(&id)?;
    ensure!(shown["state"] == "review", "{shown}");
    Ok(())
}

fn a_run_that_is_gone_is_said_to_be_gone(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-gone")?;
    let run = product.run_to_end(
        &repo,
        &["--title", "To be discarded"],
        &["sh", "-c", "echo x > x; git add x; git commit -qm x"],
    )?;
    let run = run.id()?;
    reaches(&app, &run, "review")?;
    app.click(&id("tab-changes"))?;
    app.see(&id("merge"))?;
    product
        .ask(&["discard", &run, "--yes"])
        .or_else(|_| product.ask(&["discard", &run]))?;
    app.within("the window says that it was discarded", || {
        Ok(app
            .shown()
            .to_lowercase()
            .contains("discarded")
            .then_some(()))
    })?;
    app.go("/run/zzzzzzzz")?;
    app.within("a run that never was is said not to be there", || {
        Ok(app.shown().contains("no such run").then_some(()))
    })?;
    app.go("/")?;
    app.see(&id("board")).map(|_| ())
}

fn a_database_of_a_newer_version_is_refused_in_words(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let product = desk.product();
    product.ask(&["runs"])?;
    let database = product.data().join("state/foreman.db");
    ensure!(database.is_file(), "no database");
    let program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
                   c.execute(\"insert into _sqlx_migrations values (99990101000000, 'later', '2099-01-01', 1, x'00', 0)\"); c.commit()";
    let mut command = stage.bench.command("python3");
    command.args(["-c", program]).arg(&database);
    foreman_testkit::run(&mut command)?;
    let app = desk.app(&[])?;
    app.within("the window says what is wrong", || {
        let shown = app.shown().to_lowercase();
        Ok((shown.contains("newer") || shown.contains("later version")).then_some(()))
    })
    .context("with a newer database")?;
    Ok(())
}
