//! Cards and what is decided on them, by clicks.

use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{PATIENCE, SeenKind, Stage, cases_of, repos, until};
use foreman_tests::desk::{App, Desk, id};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "deciding",
        [
            held_amended_reviewed_and_merged,
            denied_with_words_for_the_agent,
            a_denial_is_undone_and_the_next_try_is_held_again,
            an_amendment_is_revoked_on_the_policy_screen,
            a_run_is_stopped_from_its_card,
            t23_of_window_and_command_line_one_decides,
        ]
    )
}

/// Selector of something inside the card of one block.
pub fn on_card(block: &str, what: &str) -> String {
    format!("[data-testid=\"block-card\"][data-block=\"{block}\"] [data-testid=\"{what}\"]")
}

/// Selector of the card of one block in one phase.
pub fn card_in(block: &str, phase: &str) -> String {
    format!("[data-testid=\"block-card\"][data-block=\"{block}\"][data-phase=\"{phase}\"]")
}

/// Where a run stands, as its screen says, in lower case.
pub fn reaches(app: &App<'_>, run: &str, state: &str) -> Result<()> {
    app.go(&format!("/run/{run}"))?;
    app.within(&format!("the run is {state}"), || {
        let shown = app.text(&id("run-state")).unwrap_or_default();
        Ok(shown.to_lowercase().contains(state).then_some(()))
    })
}

fn held_amended_reviewed_and_merged(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-main")?;
    let agent = "curl -sS -m 100 http://window.held.example/ > got.txt && git add got.txt && git commit -qm 'fetched'";
    let run = product.run(&repo, &["--title", "Fetch a page"], &["sh", "-c", agent])?;
    let block = run.block("tcp window.held.example:80")?;
    app.go("/inbox")?;
    app.says(&id("block-card"), "window.held.example")?;
    ensure!(
        !stage
            .world
            .names_asked()?
            .iter()
            .any(|name| name == "window.held.example"),
        "the name was looked up before the amend"
    );
    app.click(&on_card(&block, "amend"))?;
    app.says(&on_card(&block, "decision"), "")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let reached = |seen: &foreman_testkit::Seen| {
        seen.kind == SeenKind::Closed && seen.head.contains("window.held.example")
    };
    ensure!(stage.world.seen()?.iter().any(reached), "nothing arrived");

    let run = run.id()?;
    reaches(&app, &run, "review")?;
    app.click(&id("tab-changes"))?;
    app.says(&id("changes"), "got.txt")?;
    app.see(&id("gate-summary"))?;
    app.keep_picture("changes");
    app.click(&id("merge"))?;
    merged(&app, &run)?;
    let shown = product.show(&run)?;
    ensure!(shown["state"] == "merged", "{shown}");
    let text = stage
        .bench
        .shell(&repo, "cat got.txt; git status --porcelain")?;
    ensure!(text == "hello from the far side\n", "{text}");
    Ok(())
}

/// The run is merged, also when the window asks once more before it merges.
pub fn merged(app: &App<'_>, run: &str) -> Result<()> {
    let product = app.desk.product();
    until("the run is merged", PATIENCE, || {
        if let Ok(button) = app.session.find(&id("merge-confirm")) {
            let _ = app.session.click(&button);
        }
        Ok((product.show(run)?["state"] == "merged").then_some(()))
    })
    .with_context(|| app.shown())?;
    reaches(app, run, "merged")
}

/// Selector of a button of the dialog that is open.
pub fn dialog_button(word: &str) -> String {
    format!("//*[@role='dialog' or @role='alertdialog']//button[normalize-space()=\"{word}\"]")
}

fn denied_with_words_for_the_agent(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let repo = repos::plain(&stage.bench, "desktop-deny")?;
    let agent =
        "curl -sS -m 100 http://deny.window.example/; echo \"curl said $?\"; foreman why --json";
    let run = desk.product().run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp deny.window.example:80")?;
    app.go("/inbox")?;
    app.click(&on_card(&block, "deny-tell"))?;
    app.fill(&id("deny-reason"), "use the mirror instead")?;
    app.click(&id("deny-send"))?;
    run.said("curl said 7")?;
    run.said("use the mirror instead")?;
    app.says(&on_card(&block, "decision"), "")?;
    app.see(&on_card(&block, "undo"))?;
    run.ended()?;
    ensure!(
        !stage
            .world
            .names_asked()?
            .iter()
            .any(|name| name == "deny.window.example"),
        "a name left"
    );
    Ok(())
}

fn a_denial_is_undone_and_the_next_try_is_held_again(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-undo")?;
    let agent = "curl -sS -m 100 http://undo.window.example/; echo \"first $?\"; \
                 while ! [ -e go ]; do sleep 0.05; done; curl -sS -m 100 http://undo.window.example/; echo \"second $?\"";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp undo.window.example:80")?;
    app.go("/inbox")?;
    app.click(&on_card(&block, "deny"))?;
    run.said("first 7")?;
    app.click(&on_card(&block, "undo"))?;
    app.see(&card_in(&block, "undone"))?;
    let run_id = run.id()?;
    let view = product.show(&run_id)?;
    let worktree = std::path::PathBuf::from(view["worktree"].as_str().unwrap_or_default());
    stage.bench.write(&worktree.join("go"), "")?;
    let again = until("it is held again", PATIENCE, || {
        Ok(product.blocks(&run_id)?.into_iter().next())
    })?;
    let again = again["id"].as_str().context("an id")?.to_owned();
    app.click(&on_card(&again, "amend"))?;
    run.said("second 0")?;
    run.ended()?;
    Ok(())
}

fn an_amendment_is_revoked_on_the_policy_screen(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let repo = repos::plain(&stage.bench, "desktop-revoke")?;
    let agent = "exec 3<>/dev/tcp/revoke.window.example/7007; n=0; \
                 while printf 'still\\n' >&3 && read -r line <&3; do n=$((n+1)); [ $n = 5 ] && echo 'five rounds'; sleep 0.02; done; \
                 echo 'connection ended'";
    let run = desk.product().run(&repo, &[], &["bash", "-c", agent])?;
    let block = run.block("tcp revoke.window.example:7007")?;
    app.go("/inbox")?;
    app.click(&on_card(&block, "amend"))?;
    run.said("five rounds")?;
    app.go("/policy")?;
    app.says(&id("policy-row"), "revoke.window.example")?;
    app.click(&id("revoke"))?;
    confirmed(&app, "Revoke", || {
        Ok(run.events().iter().any(|event| {
            matches!(
                &event.kind,
                foreman_domain::EventKind::ConnectionClosed { cut: true, .. }
            )
        }))
    })?;
    run.said("connection ended")?;
    run.ended()?;
    Ok(())
}

/// Waits for a level, and confirms in the dialog that may ask first.
fn confirmed(app: &App<'_>, word: &str, mut level: impl FnMut() -> Result<bool>) -> Result<()> {
    app.within(&format!("{word} is done"), || {
        if level()? {
            return Ok(Some(()));
        }
        if let Ok(button) = app.session.find(&dialog_button(word)) {
            let _ = app.session.click(&button);
        }
        Ok(None)
    })
}

fn a_run_is_stopped_from_its_card(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-stop")?;
    let agent = "curl -sS -m 100 http://stop.window.example/; sleep 600";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp stop.window.example:80")?;
    let id = run.id()?;
    app.go("/inbox")?;
    app.click(&on_card(&block, "stop-run"))?;
    confirmed(&app, "Stop run", || {
        Ok(product.show(&id)?["state"] == "cancelled")
    })?;
    reaches(&app, &id, "cancelled")
}

/// One revision, one resume; whoever comes late is told so. The window's click and the command line start
/// together, and either may win.
fn t23_of_window_and_command_line_one_decides(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-t23")?;
    let agent = "curl -sS -m 100 http://t23.window.example/ && echo resumed";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp t23.window.example:80")?;
    let card = product.card_with_holder(&block)?;
    let expect = card["expect"].as_str().context("a token")?.to_owned();
    app.go("/inbox")?;
    app.see(&card_in(&block, "armed"))?;
    let amend = app.session.find(&on_card(&block, "amend"))?;
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| product.call(["amend", &block, "--expect", &expect, "--json"]));
        // Pressed once, whatever comes of it.
        let _ = app.session.click(&amend);
        asked.join().unwrap()
    })?;
    run.said("resumed")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let applied = |event: &&foreman_domain::Event| {
        matches!(event.kind, foreman_domain::EventKind::PolicyApplied { .. })
    };
    let revisions = run.events().iter().filter(applied).count();
    ensure!(revisions == 1, "{revisions} revisions were applied");
    if answer.code == 0 {
        app.says(
            &on_card(&block, "decision"),
            "lready amended by you on the command line at ",
        )?;
    } else {
        ensure!(answer.code == 4, "{answer:?}");
        let (code, message) = answer.error()?;
        ensure!(
            ["already_decided", "stale"].contains(&code.as_str()),
            "{code}: {message}"
        );
        app.see(&card_in(&block, "decided"))?;
    }
    // A second press decides nothing more: there is nothing to press.
    ensure!(app.session.find(&on_card(&block, "amend")).is_err());

    // Decided on the command line while the window looks at it: it says by whom, and where.
    let agent = "curl -sS -m 100 http://late.window.example/ && echo resumed";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let block = run.block("tcp late.window.example:80")?;
    app.see(&card_in(&block, "armed"))?;
    product.amend(&block, &[])?;
    run.said("resumed")?;
    app.says(
        &on_card(&block, "decision"),
        "lready amended by you on the command line at ",
    )?;
    let open = product.ask(&["blocks"])?;
    ensure!(
        open["blocks"].as_array().is_some_and(Vec::is_empty),
        "{open}"
    );
    Ok(())
}
