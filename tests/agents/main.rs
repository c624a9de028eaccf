//! Agents through their drivers, in the real cage. The small ones are scripts that print what a real agent printed, or
//! speak its protocol; the real ones are published programs, installed by `npm run test:agents`, that work against
//! a scripted model server on the far side of a private internet.

mod asking;
mod budgets;
mod documented;
mod real;
mod scripted;

use foreman_testkit::suite::{Tally, Wanted};
use foreman_testkit::{Bench, Binaries, Stage, Who, World};
use std::process::ExitCode;

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    if wanted.lists() {
        return tally.close(&wanted);
    }
    let stage = Bench::new(Who::Ordinary).and_then(|bench| {
        let model = real::model_server(&bench)?;
        let world = World::with_programs(&bench, &[model])?;
        Ok(Stage { world, bench })
    });
    match stage {
        Ok(stage) => {
            tally.run(&wanted, 2, scripted::cases(&stage));
            tally.run(&wanted, 2, asking::cases(&stage));
            tally.run(&wanted, 2, budgets::cases(&stage));
            tally.run(&wanted, 1, real::cases(&stage));
            tally.run(&wanted, 1, documented::cases(&stage));
        }
        Err(error) => tally.fail("agents::stage", &error),
    }
    tally.close(&wanted)
}

/// A file of this repository.
fn checkout(path: &str) -> std::path::PathBuf {
    Binaries::checkout().join(path)
}
