//! Escapes that must fail: each line of the manifest, inside a real cage, as an ordinary user and as
//! root. A case asserts what was seen from inside, what reached the other side (nothing), and what the
//! feed says; where it is safe the same attack runs uncaged as a control, and must succeed there.

mod bounds;
mod egress;
mod files;
mod git;
mod ground;
mod keys;
mod manifest;
mod names;
mod plane;
mod processes;
mod sockets;

use anyhow::{Result, ensure};
use foreman_testkit::suite::{Case, Tally, Verdict, Wanted};
use foreman_testkit::{Stage, Who};
use ground::Ground;
use std::process::ExitCode;

/// Cases at a time: they mostly wait.
const PARALLEL: usize = 5;

/// One attack: the lines that it stands for, its name, and what it does.
pub struct Attack {
    pub ids: &'static [&'static str],
    pub name: &'static str,
    pub run: fn(&Ground<'_>) -> Result<Verdict>,
}

/// A list of attacks from functions; each is named after its function.
macro_rules! attacks {
    ($([$($id:literal),+] $name:ident),* $(,)?) => {
        vec![$(crate::Attack { ids: &[$($id),+], name: stringify!($name), run: |ground| {
            $crate::IntoVerdict::into_verdict($name(ground))
        } }),*]
    };
}
pub(crate) use attacks;

/// Attacks end with nothing, or with a verdict where they may skip.
pub trait IntoVerdict {
    fn into_verdict(self) -> Result<Verdict>;
}

impl IntoVerdict for Result<()> {
    fn into_verdict(self) -> Result<Verdict> {
        self.map(|()| Verdict::Passed)
    }
}

impl IntoVerdict for Result<Verdict> {
    fn into_verdict(self) -> Result<Verdict> {
        self
    }
}

fn all() -> Vec<Attack> {
    let mut all = egress::attacks();
    all.extend(names::attacks());
    all.extend(processes::attacks());
    all.extend(sockets::attacks());
    all.extend(files::attacks());
    all.extend(git::attacks());
    all.extend(keys::attacks());
    all.extend(plane::attacks());
    all.extend(bounds::attacks());
    all
}

fn main() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    let checks = vec![
        Case::plain(
            "manifest::every_line_of_the_suite_has_its_place",
            manifest::is_complete,
        ),
        Case::plain("manifest::every_tested_line_has_a_case", || {
            manifest::is_tested(&all())
        }),
    ];
    tally.run(&wanted, 1, checks);
    for &who in Who::all() {
        if wanted.lists() {
            let names = all()
                .into_iter()
                .map(|attack| Case::plain(name(who, &attack), || Ok(())));
            tally.run(&wanted, 1, names.collect());
        } else if let Err(error) = on_ground(&mut tally, &wanted, who) {
            tally.fail(&format!("{}::ground", who.name()), &error);
        }
    }
    for (name, why) in tally.skips().to_vec() {
        if let Err(error) = manifest::allows_skip(&name, &why, &all()) {
            tally.fail(&format!("{name}::skip"), &error);
        }
    }
    tally.close(&wanted)
}

fn name(who: Who, attack: &Attack) -> String {
    format!(
        "{}::{}::{}",
        who.name(),
        attack.ids.join("_").to_lowercase(),
        attack.name
    )
}

fn on_ground(tally: &mut Tally, wanted: &Wanted, who: Who) -> Result<()> {
    let chosen: Vec<Attack> = all()
        .into_iter()
        .filter(|attack| wanted.takes(&name(who, attack)))
        .collect();
    if chosen.is_empty() {
        return Ok(());
    }
    let stage = Stage::new(who)?;
    let report = stage.product()?.ask(&["doctor"])?;
    ensure!(
        report["tier"] == "full",
        "the suite needs the full tier: {report}"
    );
    let ground = Ground::new(&stage, who)?;
    let cases = chosen
        .into_iter()
        .map(|attack| {
            let ground = &ground;
            Case::new(name(who, &attack), move || (attack.run)(ground))
        })
        .collect();
    tally.run(wanted, PARALLEL, cases);
    if wanted.takes("the_internet_saw_only_what_was_amended") {
        let last = Case::plain(
            format!("{}::the_internet_saw_only_what_was_amended", who.name()),
            || ground.saw_only_what_was_meant(),
        );
        tally.run(wanted, 1, vec![last]);
    }
    Ok(())
}
