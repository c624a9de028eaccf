//! What each tier stops and what it says of itself: on this machine as it is, and where user namespaces are
//! switched off, by the machine (in the test machine, see `npm run test:vm`) or below a namespace that this
//! suite makes.
//!
//! `FOREMAN_TEST_TIER` says what the machine must turn out to be (`full`, `no_namespaces`); without it, both are
//! tried.

mod alone;
mod full;
mod unconfined;

use anyhow::Result;
use foreman_testkit::suite::{Case, Tally, Wanted};
use foreman_testkit::{Bench, Product, Stage, Who};
use std::process::ExitCode;

/// Cases at a time: they mostly wait.
const PARALLEL: usize = 3;

/// Where a case runs the product.
pub struct Place<'a> {
    pub bench: &'a Bench,
    /// Whether the machine itself gives no namespaces.
    is_off: bool,
}

impl<'a> Place<'a> {
    /// The product with a data directory of its own, on a machine without namespaces.
    pub fn alone(&self) -> Result<Product<'a>> {
        let product = Product::on_host(self.bench).with_data(&self.bench.scratch("data")?);
        Ok(match self.is_off {
            true => product,
            false => product.without_namespaces(),
        })
    }
}

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    let expected = std::env::var("FOREMAN_TEST_TIER").ok();
    if wanted.lists() {
        return tally.close(&wanted);
    }
    if expected.as_deref() != Some("no_namespaces") {
        match Stage::new(Who::Ordinary) {
            Ok(stage) => {
                tally.run(&wanted, PARALLEL, full::cases(&stage));
            }
            Err(error) => tally.fail("full::stage", &error),
        }
    }
    if expected.as_deref() != Some("full") {
        match Bench::new(Who::Ordinary) {
            Ok(bench) => {
                let place = Place {
                    bench: &bench,
                    is_off: expected.is_some(),
                };
                tally.run(&wanted, PARALLEL, cases_alone(&place));
            }
            Err(error) => tally.fail("no_namespaces::bench", &error),
        }
    }
    tally.close(&wanted)
}

fn cases_alone<'a>(place: &'a Place<'a>) -> Vec<Case<'a>> {
    let mut cases = alone::cases(place);
    cases.extend(unconfined::cases(place));
    cases
}
