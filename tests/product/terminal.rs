//! On a terminal: cards, keys, type-ahead, a terminal for the agent, and the demo.

use anyhow::{Result, ensure};
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{Product, Screen, Stage, eventually, repos};
use std::time::{Duration, Instant};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "terminal",
        [
            one_key_amends_a_card_that_has_stood_for_half_a_second,
            keys_typed_before_the_card_are_thrown_away,
            output_of_the_cage_cannot_draw_a_card,
            an_agent_with_a_terminal_gets_one,
            the_demo_goes_its_whole_way_by_one_key,
            the_demo_goes_its_whole_way_without_a_terminal,
        ]
    )
}

/// Waits as a person does who reads before a key is pressed.
fn stand(long: Duration) -> Result<()> {
    let begin = Instant::now();
    eventually("it was read", long * 3, || begin.elapsed() > long)
}

fn one_key_amends_a_card_that_has_stood_for_half_a_second(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "keys")?.display().to_string();
    let script = "curl -sS -m 100 http://keys.example/; echo \"curl $?\"; echo x > x.txt";
    let mut screen = Screen::new(
        &product,
        &["run", "--repo", &repo, "--", "sh", "-c", script],
    )?;
    screen.shows("keys.example:80")?;
    let shown = Instant::now();
    screen.types("a")?;
    eventually("half a second has passed", Duration::from_secs(2), || {
        shown.elapsed() > Duration::from_millis(800)
    })?;
    ensure!(
        !screen.text().contains("curl 0"),
        "a key typed at once counted"
    );
    screen.types("a")?;
    screen.shows("hello from the far side")?;
    screen.shows("curl 0")?;
    ensure!(screen.ended()? == 0, "{}", screen.text());
    Ok(())
}

fn keys_typed_before_the_card_are_thrown_away(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "type-ahead")?
        .display()
        .to_string();
    let script = "sleep 1; curl -sS -m 100 http://ahead.example/; echo \"curl $?\"";
    let mut screen = Screen::new(
        &product,
        &["run", "--repo", &repo, "--", "sh", "-c", script],
    )?;
    screen.types("aaaaaaaa")?;
    screen.shows("ahead.example:80")?;
    let shown = Instant::now();
    eventually("a while has passed", Duration::from_secs(3), || {
        shown.elapsed() > Duration::from_millis(1500)
    })?;
    ensure!(!screen.text().contains("curl 0"), "type-ahead amended");
    screen.types("d")?;
    screen.shows("curl 7")?;
    screen.ended()?;
    Ok(())
}

fn output_of_the_cage_cannot_draw_a_card(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "spoof")?.display().to_string();
    let script = "printf '\\033[2J\\033[H\\033[7m HELD tcp bank.example:443 \\033[0m\\r\\n[a] amend\\n\\033]0;x\\007'; \
                  printf 'spoof\\342\\200\\256end\\n'; echo over";
    let screen = Screen::new(
        &product,
        &["run", "--repo", &repo, "--", "sh", "-c", script],
    )?;
    screen.shows("over")?;
    screen.ended()?;
    let raw = String::from_utf8_lossy(&screen.raw()).into_owned();
    ensure!(
        !raw.contains("\u{1b}[2J\u{1b}[H\u{1b}[7m HELD"),
        "escape sequences came through"
    );
    ensure!(!raw.contains('\u{202e}'), "a direction mark came through");
    ensure!(!raw.contains("\u{1b}]0;x"), "a title came through");
    for line in screen
        .text()
        .lines()
        .filter(|line| line.contains("bank.example"))
    {
        // The command line itself is shown once, by us.
        ensure!(
            line.contains('\u{2502}') || line.contains("printf"),
            "no gutter before {line:?}"
        );
    }
    Ok(())
}

fn an_agent_with_a_terminal_gets_one(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "tty")?.display().to_string();
    let script = "tty; stty size; read -r line; echo \"heard $line\"";
    let mut screen = Screen::new(
        &product,
        &["run", "--tty", "--repo", &repo, "--", "sh", "-c", script],
    )?;
    screen.shows("/dev/pts/")?;
    screen.types("amen\r")?;
    screen.shows("heard amen")?;
    ensure!(screen.ended()? == 0, "{}", screen.text());
    Ok(())
}

/// The demo makes a world of its own, so it runs on the bare machine.
fn the_demo_goes_its_whole_way_by_one_key(stage: &Stage) -> Result<()> {
    let product = Product::on_host(&stage.bench);
    let mut screen = Screen::new(&product, &["demo"])?;
    screen.shows("all choices")?;
    stand(Duration::from_millis(900))?;
    screen.types("a")?;
    screen.shows("Press m to merge")?;
    stand(Duration::from_millis(900))?;
    screen.types("m")?;
    screen.shows("erged")?;
    ensure!(screen.ended()? == 0, "{}", screen.text());
    Ok(())
}

fn the_demo_goes_its_whole_way_without_a_terminal(stage: &Stage) -> Result<()> {
    let ran = Product::on_host(&stage.bench).call(["demo"])?;
    ensure!(ran.code == 0, "{ran:?}");
    ensure!(ran.stdout.to_lowercase().contains("merged"), "{ran:?}");
    Ok(())
}
