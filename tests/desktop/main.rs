//! The desktop app end to end: the real window under WebKitWebDriver on a screen of its own, with the real
//! engine and the real cage behind it, as an ordinary user.

mod deciding;
mod desktop;
mod first_run;
mod lives;
mod odd;
mod recording;
mod walls;

use foreman_testkit::suite::{Case, Tally, Verdict, Wanted};
use foreman_testkit::{Stage, Who};
use std::process::ExitCode;

/// Cases at a time: a window takes a core while it starts.
const PARALLEL: usize = 2;

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    if let (false, Some(why)) = (wanted.lists(), missing()) {
        let skip = vec![Case::new("desktop", move || Ok(Verdict::Skipped(why)))];
        tally.run(&Wanted::default(), 1, skip);
    } else if !wanted.lists() {
        let stage = Stage::new(Who::Ordinary).and_then(|stage| {
            foreman_tests::desk::install(&stage)?;
            Ok(stage)
        });
        match stage {
            Ok(stage) => tally.run(&wanted, PARALLEL, cases(&stage)),
            Err(error) => tally.fail("stage", &error),
        }
    }
    tally.close(&wanted)
}

/// What is not on this machine, as the reason to skip all.
fn missing() -> Option<String> {
    let path = std::env::var_os("PATH")?;
    let has = |name: &&str| std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    let absent: Vec<&str> = ["WebKitWebDriver", "Xvfb", "dbus-daemon"]
        .into_iter()
        .filter(|name| !has(name))
        .collect();
    (!absent.is_empty()).then(|| format!("not installed here: {}", absent.join(", ")))
}

fn cases(stage: &Stage) -> Vec<Case<'_>> {
    let mut cases = first_run::cases(stage);
    cases.extend(deciding::cases(stage));
    cases.extend(desktop::cases(stage));
    cases.extend(lives::cases(stage));
    cases.extend(odd::cases(stage));
    cases.extend(walls::cases(stage));
    cases.extend(recording::cases(stage));
    cases
}
