//! What surrounds the window: links, notifications, the tray, second instances, and its ends.

use crate::deciding::{card_in, on_card};
use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, cases_of, eventually, repos, until};
use foreman_tests::desk::Screen;
use foreman_tests::desk::{App, Desk, Has, id, named};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "desktop",
        [
            links_open_cards_and_decide_nothing,
            a_notification_is_shown_once_and_its_click_opens_the_card,
            the_tray_has_everything_in_its_menu,
            a_closed_window_comes_back_from_the_tray,
            without_a_tray_host_closing_asks_and_quitting_keeps_the_runs,
            quitting_can_stop_the_runs,
        ]
    )
}

/// A run that has one connect held.
fn held(product: &Product<'_>, stage: &Stage, name: &str) -> Result<(LiveRun, String)> {
    let repo = repos::plain(&stage.bench, name)?;
    let agent = format!("curl -sS -m 100 http://{name}.example/ && echo resumed; sleep 600");
    let run = product.run(&repo, &["--title", name], &["sh", "-c", &agent])?;
    let block = run.block(&format!("tcp {name}.example:80"))?;
    Ok((run, block))
}

fn links_open_cards_and_decide_nothing(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let product = desk.product();
    let _service = crate::lives::serve(&product)?;
    let (run, block) = held(&product, stage, "links")?;
    // Cold: the link starts the app.
    let app = desk.app(&[&format!("sdf://block/{block}")])?;
    app.see(&card_in(&block, "armed"))?;
    ensure!(app.route().contains("/inbox"), "{}", app.route());
    // Warm: a second start hands its link over and ends.
    let run_id = run.id()?;
    let code = desk.again(&[&format!("sdf://run/{run_id}")])?;
    ensure!(code == 0, "the second instance ended with {code}");
    app.within("the run is shown", || {
        Ok(app.route().contains(&run_id).then_some(()))
    })?;
    for link in [
        "sdf://block/zzzzzzzz-b1",
        "sdf://run/zzzzzzzz",
        "sdf://block/../../etc/passwd",
        "sdf://amend/%00%1b[31m",
        "sdf:block",
    ] {
        app.go("/")?;
        app.see(&id("board"))?;
        ensure!(desk.again(&[link])? == 0, "{link}");
        app.within(&format!("{link} opens the inbox"), || {
            Ok((app.route().contains("/inbox")).then_some(()))
        })?;
        app.within(&format!("{link} is answered by a sentence"), || {
            let said = app.session.script(
                "return [...document.querySelectorAll('[role=status], [role=alert]')].map((e) => e.innerText).join(' ')",
                &[],
            )?;
            let said = said.as_str().unwrap_or_default().to_lowercase();
            Ok(["link", "no block", "not found", "no such", "unknown"]
                .iter()
                .any(|word| said.contains(word))
                .then_some(()))
        })?;
        app.session.script(
            "for (const e of document.querySelectorAll('[aria-label=\"Close this notice\"]')) e.click()",
            &[],
        )?;
        // What the next link is answered with is its own.
        app.gone("[aria-label=\"Close this notice\"]")?;
    }
    let card = product.card(&block)?;
    ensure!(card["state"] == "open", "a link decided something: {card}");
    product.ask(&["stop", &run_id])?;
    Ok(())
}

fn a_notification_is_shown_once_and_its_click_opens_the_card(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let (run, block) = held(&product, stage, "notice")?;
    let about = |desk: &Desk<'_>| -> Vec<foreman_tests::desk::Notice> {
        let names = |notice: &foreman_tests::desk::Notice| {
            format!("{} {}", notice.summary, notice.body).contains("notice")
        };
        desk.bus.notices().into_iter().filter(names).collect()
    };
    let notice = until("a notification came", PATIENCE, || {
        Ok(about(&desk).into_iter().next())
    })
    .with_context(|| format!("{:?}\n{}", desk.bus.notices(), desk.log()))?;
    app.go("/doctor")?;
    desk.bus.click(&notice)?;
    app.see(&card_in(&block, "armed"))?;
    let card = product.card(&block)?;
    ensure!(
        card["state"] == "open",
        "a click on a notification decided something: {card}"
    );
    app.click(&on_card(&block, "deny"))?;
    app.see(&card_in(&block, "decided"))?;
    ensure!(about(&desk).len() == 1, "{:?}", about(&desk));
    product.ask(&["stop", &run.id()?])?;
    Ok(())
}

fn entry<'e>(
    menu: &'e [foreman_tests::desk::Entry],
    text: &str,
) -> Option<&'e foreman_tests::desk::Entry> {
    let lower = text.to_lowercase();
    menu.iter()
        .find(|entry| entry.label.to_lowercase().contains(&lower))
}

/// Waits until the tray menu has entries that contain each of these.
fn menu_has(app: &App<'_>, texts: &[&str]) -> Result<()> {
    let bus = &app.desk.bus;
    let found = until(&format!("the tray menu has {texts:?}"), PATIENCE, || {
        let menu = bus.menu().unwrap_or_default();
        let has_all = texts.iter().all(|text| entry(&menu, text).is_some());
        Ok(has_all.then_some(()))
    });
    found.with_context(|| format!("{:?}\n{}", bus.menu(), app.desk.log()))
}

/// Chooses an entry of the tray menu until what it leads to is there. The menu is made anew with each change, and an
/// entry of the menu before is nobody's any more. For entries that may be chosen twice only.
fn choose(
    app: &App<'_>,
    text: &str,
    what: &str,
    mut level: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let bus = &app.desk.bus;
    let mut chosen = None;
    let done = until(what, PATIENCE, || {
        if level()? {
            return Ok(Some(()));
        }
        let menu = bus.menu().unwrap_or_default();
        if let Some(entry) = entry(&menu, text)
            && chosen != Some(entry.id)
        {
            bus.choose(entry)?;
            chosen = Some(entry.id);
        }
        Ok(None)
    });
    done.with_context(|| format!("{:?}\n{}", bus.menu(), app.desk.log()))
}

fn the_tray_has_everything_in_its_menu(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    eventually("a tray icon is there", PATIENCE, || desk.bus.icons() > 0)?;
    let product = desk.product();
    let (run, block) = held(&product, stage, "tray")?;
    menu_has(
        &app,
        &["tray.example", "pause", "open", "keep", "stop", "1"],
    )?;
    // The entry of a block opens its card and decides nothing.
    app.go("/doctor")?;
    app.gone(&card_in(&block, "armed"))?;
    choose(&app, "tray.example", "the card is shown", || {
        Ok(app.session.find(&card_in(&block, "armed")).is_ok())
    })?;
    let card = product.card(&block)?;
    ensure!(card["state"] == "open", "the tray decided: {card}");
    // The queue is paused and resumed from here.
    for (text, wanted) in [("pause", true), ("resume", false)] {
        menu_has(&app, &[text])?;
        choose(&app, text, "the queue follows the tray", || {
            let queue = product.ask(&["order", "list"])?;
            Ok(queue["queue"]["paused"] == wanted)
        })?;
    }
    product.ask(&["stop", &run.id()?])?;
    Ok(())
}

/// True while the window can be seen.
fn is_shown(screen: &Screen) -> Result<bool> {
    Ok(screen.window("SDF")?.is_some())
}

/// Closes the window as its title bar does.
fn close(screen: &Screen) -> Result<()> {
    let window = until("the window is on the screen", PATIENCE, || {
        screen.window("SDF")
    })?;
    screen.close(window)
}

fn a_closed_window_comes_back_from_the_tray(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let screen = Screen::of(desk.display())?;
    eventually("a tray icon is there", PATIENCE, || desk.bus.icons() > 0)?;
    let product = desk.product();
    let (run, block) = held(&product, stage, "closed")?;
    close(&screen)?;
    until("the window is closed", PATIENCE, || {
        Ok((!is_shown(&screen)?).then_some(()))
    })?;
    // The app is there still, and so is what waits.
    let pid = app.pid()?;
    menu_has(&app, &["closed.example"])?;
    choose(&app, "open", "the window is back", || is_shown(&screen))?;
    // A second start brings it to the front as well.
    close(&screen)?;
    until("the window is closed", PATIENCE, || {
        Ok((!is_shown(&screen)?).then_some(()))
    })?;
    ensure!(desk.again(&[])? == 0);
    until("the window is back", PATIENCE, || {
        Ok(is_shown(&screen)?.then_some(()))
    })?;
    ensure!(app.pid()? == pid, "there is another app");
    ensure!(product.card(&block)?["state"] == "open");
    product.ask(&["stop", &run.id()?])?;
    Ok(())
}

fn without_a_tray_host_closing_asks_and_quitting_keeps_the_runs(stage: &Stage) -> Result<()> {
    let desk = Desk::with(
        stage,
        Has {
            tray_host: false,
            is_new: false,
        },
    )?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let (run, block) = held(&product, stage, "keep")?;
    close(&Screen::of(desk.display())?)?;
    app.click(&named("Quit and keep runs going"))?;
    app.ended()?;
    let card = product.card(&block)?;
    ensure!(card["state"] == "open", "{card}");
    product.amend(&block, &[])?;
    let run = run.id()?;
    until("the same connect went on", PATIENCE, || {
        let said = product
            .call(["events", &run, "--json", "--kind", "output"])?
            .stdout;
        Ok(said.contains("resumed").then_some(()))
    })?;
    product.ask(&["stop", &run])?;
    Ok(())
}

fn quitting_can_stop_the_runs(stage: &Stage) -> Result<()> {
    let desk = Desk::new(stage)?;
    let app = desk.app(&[])?;
    let product = desk.product();
    let (run, _block) = held(&product, stage, "quit-stop")?;
    press_palette(&app, "Quit SDF")?;
    app.click(&named("Quit and stop runs"))?;
    app.ended()?;
    let run = run.id()?;
    until("the run is stopped", PATIENCE, || {
        Ok((product.show(&run)?["state"] == "cancelled").then_some(()))
    })
}

/// Chooses an action in the palette, by keys alone.
pub fn press_palette(app: &App<'_>, action: &str) -> Result<()> {
    let field = format!("{} input", id("palette"));
    let has_focus = "const e = document.querySelector(arguments[0]); return e !== null && e === document.activeElement";
    app.within("the palette is open", || {
        let is_open = app.session.script(has_focus, &[field.as_str().into()])?;
        if is_open != serde_json::Value::Bool(true) && app.session.find(&field).is_err() {
            app.session.press_with('\u{e009}', 'k')?;
        }
        Ok((is_open == serde_json::Value::Bool(true)).then_some(()))
    })?;
    app.fill(&field, action)?;
    app.within("the action is the first one", || {
        let first = app.text(&format!("{} [aria-selected=\"true\"]", id("palette")));
        Ok(first.filter(|first| first.contains(action)).map(|_| ()))
    })?;
    app.session.press(&['\u{e007}'])
}
