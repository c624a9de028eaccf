//! Cards and what is decided on them, by clicks.

use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{PATIENCE, SeenKind, Stage, cases_of, repos, until};
use foreman_tests::desk::{App, Desk, dialog_button, field, id, named};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "deciding",
        [
            held_amended_reviewed_and_merged,
            comments_go_back_as_one_message_and_a_run_goes_on_from_there,
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

/// Goes to a run and waits until its own screen, not the one of a run that was shown before, says where it stands.
pub fn reaches(app: &App<'_>, run: &str, state: &str) -> Result<()> {
    app.go(&format!("/run/{run}"))?;
    app.within(&format!("the run is {state}"), || {
        let shown = app.text(&format!("[data-testid=\"run-state\"][data-run=\"{run}\"]"));
        let shown = shown.unwrap_or_default().to_lowercase();
        Ok(shown.contains(state).then_some(()))
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
    until("the request has arrived and ended", PATIENCE, || {
        Ok(stage.world.seen()?.iter().any(reached).then_some(()))
    })?;

    let run = run.id()?;
    reaches(&app, &run, "review")?;
    app.click(&id("tab-changes"))?;
    app.says(&id("changes"), "got.txt")?;
    app.see(&id("gate-summary"))?;
    app.keep_picture("changes");
    merge(&app)?;
    reaches(&app, &run, "merged")?;
    let shown = product.show(&run)?;
    ensure!(shown["state"] == "merged", "{shown}");
    let text = stage
        .bench
        .shell(&repo, "cat got.txt; git status --porcelain")?;
    ensure!(text == "hello from the far side\n", "{text}");
    Ok(())
}

/// Merges the run whose changes are shown; the window asks once more before it does.
pub fn merge(app: &App<'_>) -> Result<()> {
    app.click(&id("merge"))?;
    app.click(&id("merge-confirm"))
}

/// Writes a comment on a line of the file that is shown.
fn comment(app: &App<'_>, path: &str, line: u32, text: &str) -> Result<()> {
    app.click(&format!(
        "//button[@title='Comment on this line'][span[last()][normalize-space()='{line}']]"
    ))?;
    app.fill(&field(&format!("Comment on {path}:{line}")), text)?;
    app.click(&named("Add the comment"))?;
    app.see(&format!(
        "//article[@aria-label='Comment on {path}:{line}'][contains(., '{text}')]"
    ))
    .map(|_| ())
}

fn comments_go_back_as_one_message_and_a_run_goes_on_from_there(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-comments")?;
    // Its second attempt is told by what the first one left that there is one.
    let agent = "if [ -e notes.txt ]; then printf '%s' \"$FOREMAN_PROMPT\" > said.txt; \
                 else printf 'first\\nsecond\\nthird\\n' > notes.txt; fi; git add -A; git commit -qm work";
    let run = product.run(&repo, &["--title", "Write notes"], &["sh", "-c", agent])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let run = run.id()?;
    reaches(&app, &run, "review")?;
    app.click(&id("tab-changes"))?;
    // Sent in the order of the lines, whatever order they were written in.
    comment(&app, "notes.txt", 3, "Say which third.")?;
    comment(&app, "notes.txt", 2, "Spell it out.")?;
    app.says(&id("comment-send"), "Send 2 comments")?;
    app.click(&id("comment-send"))?;
    app.click(&id("comment-send-confirm"))?;
    let sent = "[aria-label=\"Sent before\"]";
    app.says(sent, "2 comments went to")?;
    let next = app
        .text(&format!("{sent} a"))
        .context("a link to the run that goes on")?;
    ensure!(next != run, "it went to the run that was reviewed");

    reaches(&app, &next, "review")?;
    let view = product.show(&next)?;
    let branch = view["branch"].as_str().context("a branch")?;
    let said = stage
        .bench
        .shell(&repo, &format!("git show '{branch}:said.txt'"))?;
    let places = "2 comments.\n\n1. notes.txt:2\n> second\nSpell it out.\n\n2. notes.txt:3\n> third\nSay which third.\n\n";
    ensure!(said.contains(places), "{said}");
    let runs = product.ask(&["runs"])?;
    ensure!(
        runs["runs"].as_array().is_some_and(|runs| runs.len() == 2),
        "{runs}"
    );
    // It is one piece of work against the base, and both runs name each other.
    app.click(&id("tab-changes"))?;
    app.says(&id("changes"), "said.txt")?;
    app.says(&id("changes"), "notes.txt")?;
    app.click(&id("tab-details"))?;
    app.within("it says what it started from", || {
        let link = app.text(&format!("#panel-details a[href=\"#/run/{run}\"]"));
        Ok(link.filter(|link| *link == run).map(|_| ()))
    })?;
    reaches(&app, &run, "review")?;
    app.click(&id("tab-changes"))?;
    app.says(sent, &next).map(|_| ())
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
    // First what is there for ten seconds only.
    app.see(&on_card(&block, "undo"))?;
    app.see(&on_card(&block, "decision"))?;
    run.said("curl said 7")?;
    run.said("use the mirror instead")?;
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
    // Within the ten seconds in which it can be undone.
    app.click(&on_card(&block, "undo"))?;
    app.see(&card_in(&block, "undone"))?;
    run.said("first 7")?;
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
    app.click(&dialog_button("Revoke"))?;
    app.within("the connection is cut", || {
        let cut = run.events().iter().any(|event| {
            matches!(
                &event.kind,
                foreman_domain::EventKind::ConnectionClosed { cut: true, .. }
            )
        });
        Ok(cut.then_some(()))
    })?;
    run.said("connection ended")?;
    run.ended()?;
    Ok(())
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
    app.click(&dialog_button("Stop run"))?;
    app.within("the run is stopped", || {
        Ok((product.show(&id)?["state"] == "cancelled").then_some(()))
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
    app.gone(&on_card(&block, "amend"))?;

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
