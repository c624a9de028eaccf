//! The committed list of lines, and what keeps it whole.

use crate::Attack;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Ids of the suite: how many lines each section has must not shrink unnoticed.
const SECTIONS: [(&str, usize); 7] = [
    ("Direct egress", 19),
    ("Names, TLS, HTTP", 18),
    ("IPC and process", 11),
    ("Filesystem and git", 14),
    ("Bounds", 6),
    ("Secrets", 4),
    ("Policy plane", 9),
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    line: Vec<Line>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub id: String,
    section: String,
    attack: String,
    must: String,
    status: Status,
    issue: Option<String>,
    why: Option<String>,
    #[serde(default)]
    skips: Vec<Skip>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Tested,
    Later,
    NotOnLinux,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Skip {
    case: String,
    reason: String,
}

fn read() -> Result<Vec<Line>> {
    let manifest: Manifest = toml::from_str(include_str!("manifest.toml"))?;
    Ok(manifest.line)
}

/// No line is missing, none is there twice, and each says what it must.
pub fn is_complete() -> Result<()> {
    let lines = read()?;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for line in &lines {
        ensure!(ids.insert(&line.id), "{} is there twice", line.id);
        ensure!(
            !line.attack.is_empty() && !line.must.is_empty(),
            "{} says nothing",
            line.id
        );
        ensure!(
            line.status != Status::Later || line.issue.is_some(),
            "{} comes when?",
            line.id
        );
        ensure!(
            line.status != Status::NotOnLinux || line.why.is_some(),
            "{}: why?",
            line.id
        );
        *counts.entry(&line.section).or_default() += 1;
    }
    for (section, count) in SECTIONS {
        let found = counts.get(section).copied().unwrap_or(0);
        ensure!(found >= count, "{section} has {found} lines of {count}");
    }
    // What is still to come may only lie where the issue says so.
    for line in lines.iter().filter(|line| line.status == Status::Later) {
        ensure!(
            ["Bounds", "Secrets"].contains(&line.section.as_str()),
            "{} of \"{}\" cannot come later",
            line.id,
            line.section
        );
    }
    Ok(())
}

/// Every line marked tested has a case, and no case stands for a line that is not there.
pub fn is_tested(attacks: &[Attack]) -> Result<()> {
    let lines = read()?;
    let done: BTreeSet<&str> = attacks
        .iter()
        .flat_map(|attack| attack.ids)
        .copied()
        .collect();
    let missing: Vec<&str> = lines
        .iter()
        .filter(|line| line.status == Status::Tested && !done.contains(line.id.as_str()))
        .map(|line| line.id.as_str())
        .collect();
    ensure!(
        missing.is_empty(),
        "marked as tested, but without a case: {missing:?}"
    );
    for id in done {
        let line = lines
            .iter()
            .find(|line| line.id == id)
            .with_context(|| format!("no line {id}"))?;
        ensure!(
            line.status == Status::Tested,
            "{id} has a case but is not marked as tested"
        );
    }
    Ok(())
}

/// A skip counts only where the manifest allows it, with that very reason.
pub fn allows_skip(name: &str, why: &str, attacks: &[Attack]) -> Result<()> {
    let case = name.rsplit("::").next().unwrap_or_default();
    let Some(attack) = attacks.iter().find(|attack| attack.name == case) else {
        bail!("{name} was skipped and is no attack");
    };
    for line in read()?
        .iter()
        .filter(|line| attack.ids.contains(&line.id.as_str()))
    {
        if line
            .skips
            .iter()
            .any(|skip| skip.case == case && skip.reason == why)
        {
            return Ok(());
        }
    }
    bail!("the manifest does not allow this skip: {why}")
}
