//! The product end to end, through the real command line, in a private world: as an ordinary user,
//! and the main path as root too.

mod attempts;
mod bounds;
mod files;
mod gate;
mod going_on;
mod holds;
mod input;
mod keeping;
mod keyring;
mod keys;
mod lives;
mod orders;
mod outcomes;
mod policy;
mod ports;
mod preparing;
mod repositories;
mod secrets;
mod shells;
mod sockets;
mod terminal;
mod toolchains;
mod walls;
mod weaker;

use foreman_testkit::suite::{Case, Tally, Wanted};
use foreman_testkit::{Stage, Who};
use std::process::ExitCode;

/// Cases at a time: they mostly wait.
const PARALLEL: usize = 4;

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    for &who in Who::all() {
        if wanted.lists() || !wanted.may_take(who) {
            continue;
        }
        match Stage::new(who) {
            Ok(stage) => tally.run(&wanted, PARALLEL, cases(&stage, who)),
            Err(error) => tally.fail(&format!("{}::stage", who.name()), &error),
        }
    }
    tally.close(&wanted)
}

fn cases(stage: &Stage, who: Who) -> Vec<Case<'_>> {
    let mut cases = holds::cases(stage);
    if who == Who::Ordinary {
        cases.extend(outcomes::cases(stage));
        cases.extend(lives::cases(stage));
        cases.extend(gate::cases(stage));
        cases.extend(input::cases(stage));
        cases.extend(keeping::cases(stage));
        cases.extend(keys::cases(stage));
        cases.extend(policy::cases(stage));
        cases.extend(preparing::cases(stage));
        cases.extend(bounds::cases(stage));
        cases.extend(files::cases(stage));
        cases.extend(going_on::cases(stage));
        cases.extend(repositories::cases(stage));
        cases.extend(secrets::cases(stage));
        cases.extend(keyring::cases(stage));
        cases.extend(shells::cases(stage));
        cases.extend(sockets::cases(stage));
        cases.extend(ports::cases(stage));
        cases.extend(terminal::cases(stage));
        cases.extend(toolchains::cases(stage));
        cases.extend(weaker::cases(stage));
        cases.extend(attempts::cases(stage));
        cases.extend(orders::cases(stage));
    }
    if who == Who::Root {
        cases.extend(walls::cases(stage));
    }
    for case in &mut cases {
        case.name = format!("{}::{}", who.name(), case.name);
    }
    cases
}
