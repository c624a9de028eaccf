//! What users of comparable tools were hurt by, one case each, against the real binaries: a fake
//! agent is a script; git, processes and files are real. Run as an ordinary user.

mod adoption;
mod bases;
mod deciding;
mod deleting;
mod merging;
mod queue;
mod serving;

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
    let mut cases = deciding::cases(stage);
    cases.extend(adoption::cases(stage));
    cases.extend(serving::cases(stage));
    cases.extend(bases::cases(stage));
    cases.extend(deleting::cases(stage));
    cases.extend(merging::cases(stage));
    cases.extend(queue::cases(stage));
    cases
}
