//! What users of comparable tools were hurt by, one case each, against the real binaries: a fake
//! agent is a script; git, processes and files are real. Run as an ordinary user.

mod deciding;

use foreman_testkit::suite::{Case, Tally, Wanted};
use foreman_testkit::{Stage, Who};
use std::process::ExitCode;

/// Cases at a time: they mostly wait.
const PARALLEL: usize = 4;

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    if !wanted.lists() {
        match Stage::new(Who::Ordinary) {
            Ok(stage) => tally.run(&wanted, PARALLEL, cases(&stage)),
            Err(error) => tally.fail("stage", &error),
        }
    }
    tally.close(&wanted)
}

fn cases(stage: &Stage) -> Vec<Case<'_>> {
    deciding::cases(stage)
}
