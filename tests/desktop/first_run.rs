//! A new user's way: first run, the demo, and an order of their own.

use crate::deciding::{merge, reaches};
use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{PATIENCE, Stage, cases_of, repos, until};
use foreman_tests::desk::{Desk, Has, field, id, named};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "first_run",
        [
            the_demo_is_played_by_clicks,
            an_order_is_written_in_the_window_and_run,
        ]
    )
}

fn the_demo_is_played_by_clicks(stage: &Stage) -> Result<()> {
    let has = Has {
        tray_host: true,
        is_new: true,
    };
    let desk = Desk::with(stage, has)?;
    let app = desk.app(&[])?;
    app.see(&id("first-run"))?;
    app.says(&id("first-run"), "files confined")?;
    app.click(&id("try-it"))?;
    app.see(&id("demo-banner"))?;
    app.within("the demo's card is shown", || {
        if app.session.find(&id("block-card")).is_ok() {
            return Ok(Some(()));
        }
        if app.session.find(&id("demo-banner")).is_ok() && !app.route().contains("inbox") {
            app.go("/inbox")?;
        }
        Ok(None)
    })?;
    app.click(&id("amend"))?;
    app.see(&id("decision"))?;
    app.go("/")?;
    let run = app.datum(&id("run-row"), "run")?;
    reaches(&app, &run, "review")?;
    app.click(&id("tab-changes"))?;
    app.see(&id("diff-file"))?;
    merge(&app)?;
    reaches(&app, &run, "merged")?;
    app.click(&named("Leave the demo"))?;
    app.gone(&id("demo-banner"))?;
    // Nothing of it is among the operator's own runs.
    let own = desk.product().ask(&["runs"])?;
    ensure!(own["runs"].as_array().is_some_and(Vec::is_empty), "{own}");
    app.go("/")?;
    app.see(&id("board"))?;
    app.gone(&id("run-row"))
}

fn an_order_is_written_in_the_window_and_run(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let repo = repos::plain(&stage.bench, "desktop-order")?;
    let link = format!(
        "sdf://order/new?repo={}&title=From%20a%20link",
        repo.display()
    );
    let app = desk.app(&[&link])?;
    let product = desk.product();
    // A link fills the form in and hands nothing in.
    app.see(&id("order-submit"))?;
    app.within("the link is in the form", || {
        let filled = app.session.script(
            "return [...document.querySelectorAll('main input, main textarea')].map((field) => field.value)",
            &[],
        )?;
        let has = |text: &str| filled.as_array().is_some_and(|all| all.iter().any(|one| one == text));
        Ok((has("From a link") && has(&repo.display().to_string())).then_some(()))
    })?;
    let orders = product.ask(&["order", "list"])?;
    ensure!(
        orders["orders"].as_array().is_some_and(Vec::is_empty),
        "{orders}"
    );
    let runs = product.ask(&["runs"])?;
    ensure!(runs["runs"].as_array().is_some_and(Vec::is_empty), "{runs}");
    // The operator writes the command and starts it.
    app.fill(
        &field("Command"),
        "sh -c 'echo x > x.txt; git add x.txt; git commit -qm x'",
    )?;
    app.click(&id("order-submit"))?;
    let run = until("the order has run", PATIENCE, || {
        let runs = product.ask(&["runs"])?;
        let run = runs["runs"]
            .get(0)
            .filter(|run| run["state"] == "review")
            .cloned();
        Ok(run)
    })
    .with_context(|| app.shown())?;
    ensure!(run["title"] == "From a link", "{run}");
    reaches(&app, run["id"].as_str().unwrap_or_default(), "review")
}
