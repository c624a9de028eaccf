//! Cards of files and of bounds, by clicks: what waits goes on in the same process, or the run stops.

use crate::deciding::{card_in, on_card, reaches};
use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{Stage, cases_of, repos};
use foreman_tests::desk::{App, Desk, id};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "walls",
        [
            a_held_write_goes_on_by_a_rule_of_the_menu,
            a_run_at_its_bound_goes_on_by_a_figure_of_the_operator,
            a_run_at_its_bound_is_stopped_after_a_question,
            a_bound_that_a_run_goes_on_at_is_in_the_inbox_until_it_is_answered,
        ]
    )
}

/// Opens the menu of a card, once it takes a decision, and chooses the first rule that reaches this far.
fn choose(app: &App<'_>, block: &str, scope: &str) -> Result<()> {
    app.see(&card_in(block, "armed"))?;
    app.click(&on_card(block, "amend-menu"))?;
    app.click(&format!(
        "[data-testid=\"amend-option\"][data-scope=\"{scope}\"]"
    ))
}

fn a_held_write_goes_on_by_a_rule_of_the_menu(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-write")?;
    let folder = stage.bench.scratch("desktop-written")?.canonicalize()?;
    let written = folder.join("report.txt");
    let agent = format!(
        "echo \"I am $$\"; echo fine > '{0}'; echo \"wrote $? by $$\"; echo more >> '{0}'; echo \"again $?\"",
        written.display()
    );
    let run = product.run(&repo, &[], &["sh", "-c", &agent])?;
    let pid = run.said("I am")?.trim_start_matches("I am ").to_owned();
    let block = run.block(&format!("write {}", written.display()))?;
    app.go("/inbox")?;
    app.says(
        &format!("[data-testid=\"block-card\"][data-block=\"{block}\"]"),
        "File wall",
    )?;
    ensure!(!written.exists(), "it was written before it was amended");
    choose(&app, &block, "run")?;
    app.click(&id("amend-chosen"))?;
    app.says(&on_card(&block, "decision"), "1 action let go")?;
    run.said(&format!("wrote 0 by {pid}"))?;
    run.said("again 0")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let text = std::fs::read_to_string(&written)?;
    ensure!(text == "fine\nmore\n", "{text:?}");
    Ok(())
}

fn a_run_at_its_bound_goes_on_by_a_figure_of_the_operator(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-bound")?;
    let run = product.run(&repo, &["--bounds", "output=64KiB"], &["seq", "1", "20000"])?;
    let block = run.block("bound of output")?;
    app.go("/inbox")?;
    choose(&app, &block, "run")?;
    // What does not raise it is said at once, and cannot be sent.
    app.fill(&id("amend-limit"), "32KiB")?;
    app.says("[role=\"dialog\"]", "The bound is 64 KiB already")?;
    let off = app.see(&format!("{}[aria-disabled=\"true\"]", id("amend-chosen")));
    off.context("a figure below the bound can be sent")?;
    app.fill(&id("amend-limit"), "16 MiB")?;
    app.says(&id("amend-chosen"), "Raise output to 16 MiB for this run")?;
    app.click(&id("amend-chosen"))?;
    app.says(&on_card(&block, "decision"), "the run goes on")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let amendments = product.ask(&["amendments", "--all"])?;
    let words = &amendments["amendments"][0]["words"];
    ensure!(words == "Raise output to 16 MiB for this run", "{words}");
    Ok(())
}

fn a_run_at_its_bound_is_stopped_after_a_question(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-bound-stop")?;
    // Without an end of its own: one that has said all before it is paused would be over.
    let count = [
        "yes",
        "counting, for ever and ever and ever and ever and ever",
    ];
    let run = product.run(&repo, &["--bounds", "output=64KiB"], &count)?;
    let block = run.block("bound of output")?;
    app.go("/inbox")?;
    app.click(&on_card(&block, "deny"))?;
    app.fill(&id("deny-reason"), "it only counts")?;
    app.click(&id("deny-send"))?;
    app.says(&on_card(&block, "decision"), "the run is stopped")?;
    run.ended()?;
    let run = run.id()?;
    reaches(&app, &run, "failed")?;
    let shown = product.ask(&["blocks", "--all"])?;
    let denied = &shown["blocks"][0];
    ensure!(
        denied["state"] == "denied" && denied["reason"] == "it only counts",
        "{shown}"
    );
    Ok(())
}

fn a_bound_that_a_run_goes_on_at_is_in_the_inbox_until_it_is_answered(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-processes")?;
    let many = "import os, subprocess, time\nall = []\ntry:\n  for _ in range(200): all.append(subprocess.Popen(['sleep', '30']))\n\
                except OSError: print('stopped at', len(all), flush=True)\n\
                while not os.path.exists('seen'): time.sleep(0.05)\nfor one in all: one.kill()";
    app.go("/inbox")?;
    let run = product.run(
        &repo,
        &["--bounds", "processes=40"],
        &["python3", "-c", many],
    )?;
    run.said("stopped at")?;
    // It comes while the inbox is looked at, is told, and stays when the run is over.
    let card = "[data-testid=\"block-card\"]";
    app.says(card, "Goes on")?;
    app.says(card, "40 of 40 processes")?;
    app.within("it is notified", || {
        let told = |notice: &foreman_tests::desk::Notice| notice.summary.contains("its bound");
        Ok(desk.bus.notices().iter().any(told).then_some(()))
    })?;
    let block = app.datum(card, "block")?;
    let view = product.show(&run.id()?)?;
    let worktree = std::path::PathBuf::from(view["worktree"].as_str().context("a worktree")?);
    stage.bench.write(&worktree.join("seen"), "")?;
    run.ended()?;
    app.go("/")?;
    app.go("/inbox")?;
    app.says(card, "Goes on")?;
    app.click(&on_card(&block, "amend"))?;
    app.says(
        &on_card(&block, "decision"),
        "for every run of this work order",
    )?;
    app.go("/")?;
    app.go("/inbox")?;
    app.gone(card)?;
    let open = product.ask(&["blocks"])?;
    ensure!(
        open["blocks"].as_array().is_some_and(Vec::is_empty),
        "{open}"
    );
    Ok(())
}
