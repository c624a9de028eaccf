//! What comes from a cage is hostile, and there may be much of it.

use crate::deciding::reaches;
use anyhow::{Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{PATIENCE, Stage, cases_of, repos, until};
use foreman_tests::desk::{Desk, id};
use std::time::{Duration, Instant};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "odd",
        [
            text_of_an_agent_is_shown_neutralised,
            a_talkative_agent_does_not_slow_the_window,
            five_hundred_open_blocks_stay_usable,
        ]
    )
}

fn text_of_an_agent_is_shown_neutralised(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-odd")?;
    let agent = r#"printf '<img src=x onerror="document.title=1"><script>document.title=2</script>\n'
        printf 'esc \033]0;owned\007 \033[2J end\n'; printf 'bidi \342\200\256gpj.exe\n'
        printf 'x' > "$(printf 'new\nline.txt')"; printf 'y' > "$(printf 'gpj.\342\200\256exe')"
        git add -A; git commit -qm "$(printf 'a <b>title</b>\nand \033[31mred\033[0m')""#;
    let title = "<img src=x onerror=alert(1)> \u{202e}title";
    let run = product.run_to_end(&repo, &["--title", title], &["sh", "-c", agent])?;
    let run = run.id()?;
    reaches(&app, &run, "review")?;
    app.click(&id("tab-feed"))?;
    app.within("the feed has the agent's lines", || {
        Ok(app.shown().contains("<img src=x onerror").then_some(()))
    })?;
    let marks = "const text = document.body.textContent; \
                 const bad = [...text].filter((c) => /[\\u202a-\\u202e\\u2066-\\u2069\\u200b-\\u200f\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f]/.test(c)); \
                 return [bad.map((c) => c.codePointAt(0)), document.querySelectorAll('img[src=x]').length, document.title]";
    let clean = |where_: &str| -> Result<()> {
        let found = app.session.script(marks, &[])?;
        ensure!(
            found[0].as_array().is_some_and(Vec::is_empty),
            "{where_} shows characters {found}"
        );
        ensure!(
            found[1] == 0,
            "{where_} made an element of the agent's text"
        );
        let title = found[2].as_str().unwrap_or_default();
        ensure!(title != "1" && title != "2", "a script of the agent ran");
        Ok(())
    };
    clean("the feed")?;
    app.click(&id("tab-changes"))?;
    app.within("the changes have both files", || {
        let shown = app.shown();
        Ok((shown.contains("line.txt") && shown.contains("gpj.")).then_some(()))
    })?;
    clean("the list of changes")?;
    app.go("/")?;
    app.see(&id("run-row"))?;
    clean("the board")
}

/// Twenty thousand lines, and one line of a megabyte: a small form of the case in the feed's bench.
fn a_talkative_agent_does_not_slow_the_window(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-talk")?;
    let agent = "seq 1 20000 | sed 's/$/ of many lines/'; head -c 1000000 /dev/zero | tr '\\0' x; echo; \
                 echo the very last line; sleep 600";
    let run = product.run(&repo, &[], &["sh", "-c", agent])?;
    let id_ = run.id()?;
    app.go(&format!("/run/{id_}/feed"))?;
    run.said("the very last line")?;
    let begin = Instant::now();
    app.within("the last line is shown", || {
        Ok(app.shown().contains("the very last line").then_some(()))
    })?;
    ensure!(
        begin.elapsed() < Duration::from_secs(15),
        "the last line came after {:?}",
        begin.elapsed()
    );
    let rows = app.session.script(
        "return document.querySelectorAll('[data-testid=\"feed-row\"]').length",
        &[],
    )?;
    ensure!(
        rows.as_u64().is_some_and(|rows| (1..400).contains(&rows)),
        "{rows} rows are mounted"
    );
    product.ask(&["stop", &id_])?;
    Ok(())
}

fn five_hundred_open_blocks_stay_usable(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let repo = repos::plain(&stage.bench, "desktop-many")?;
    let agent = "import socket, time
all = []
for number in range(500):
    one = socket.socket()
    one.setblocking(False)
    try:
        one.connect((f'h{number}.many.example', 80))
    except BlockingIOError:
        pass
    all.append(one)
print('all asked', flush=True)
time.sleep(600)";
    let run = product.run(&repo, &[], &["python3", "-c", agent])?;
    run.said("all asked")?;
    let id = run.id()?;
    // However long the engine takes to hold them all: that is not what is looked at here.
    until("all are held", PATIENCE * 4, || {
        Ok((product.blocks(&id)?.len() == 500).then_some(()))
    })?;
    app.go("/inbox")?;
    app.says("[data-testid=\"inbox\"]", "500 blocks")?;
    let mounted = app.session.script(
        "return document.querySelectorAll('[data-testid=\"block-card\"]').length",
        &[],
    )?;
    ensure!(
        mounted
            .as_u64()
            .is_some_and(|mounted| (1..=100).contains(&mounted)),
        "{mounted} cards are mounted"
    );
    let open = product.blocks(&id)?;
    let block = open[0]["id"].as_str().unwrap_or_default().to_owned();
    let begin = Instant::now();
    app.click(&crate::deciding::on_card(&block, "deny"))?;
    app.see(&crate::deciding::card_in(&block, "decided"))?;
    ensure!(
        begin.elapsed() < Duration::from_secs(10),
        "a decision took {:?}",
        begin.elapsed()
    );
    product.ask(&["stop", &id])?;
    Ok(())
}
