//! Without a cage: only where that is asked for by name, and never for what nobody attends.

use crate::Place;
use anyhow::{Result, ensure};
use foreman_domain::{EventKind, ExitCode};
use foreman_testkit::suite::Case;
use foreman_testkit::{cases_of, expect_exit, repos};

pub fn cases<'a>(place: &'a Place<'a>) -> Vec<Case<'a>> {
    cases_of!(
        place,
        "unconfined",
        [
            a_run_is_without_a_cage_only_when_that_is_asked_for_and_says_so,
            nobody_gets_it_unattended_or_with_checks_or_as_an_order,
        ]
    )
}

fn a_run_is_without_a_cage_only_when_that_is_asked_for_and_says_so(
    place: &Place<'_>,
) -> Result<()> {
    let product = place.alone()?;
    let repo = repos::plain(place.bench, "unconfined")?;
    let mark = place.bench.scratch("outside")?.join("mark");
    let script = format!("echo x > {} && echo done > done.txt", mark.display());
    let run = product.run_to_end(&repo, &["--unconfined"], &["sh", "-c", &script])?;
    let view = product.show(&run.id()?)?;
    ensure!(view["state"] == "review", "{view} {}", run.story());
    ensure!(view["confinement"] == "unconfined", "{view}");
    let tier = view["tier"].as_str().unwrap_or_default();
    ensure!(tier.starts_with("NOT CONFINED"), "{view}");
    ensure!(mark.exists(), "it was confined after all: {}", run.story());
    let told = run.events().iter().any(|event| {
        matches!(&event.kind, EventKind::Warning { message } if message.contains("NOT CONFINED"))
    });
    ensure!(told, "{}", run.story());
    Ok(())
}

fn nobody_gets_it_unattended_or_with_checks_or_as_an_order(place: &Place<'_>) -> Result<()> {
    let product = place.alone()?;
    let repo = repos::plain(place.bench, "unconfined-refused")?;
    let path = repo.display().to_string();
    for more in [&["--unattended"][..], &["--check", "true"]] {
        let mut words = vec!["run", "--json", "--repo", &path, "--unconfined"];
        words.extend(more);
        words.extend(["--", "true"]);
        expect_exit(&product.call(&words)?, ExitCode::Usage)?;
    }
    let words = [
        "order",
        "add",
        "--json",
        "--repo",
        &path,
        "--unconfined",
        "--",
        "true",
    ];
    let ran = product.call(words)?;
    ensure!(ran.code != 0, "an order was taken: {ran:?}");
    Ok(())
}
