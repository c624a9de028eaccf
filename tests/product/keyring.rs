//! Secrets in a real keyring: a Secret Service of the session's bus keeps them, and a run gets them by name.

use crate::secrets::VALUE;
use anyhow::{Context, Result, ensure};
use foreman_testkit::suite::{Case, Verdict};
use foreman_testkit::{Stage, repos};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

const SERVICE: &str = "gnome-keyring-daemon";

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    vec![Case::new(
        "keyring::a_keyring_keeps_a_secret_and_a_run_gets_it".to_owned(),
        move || keeps_and_gives(stage),
    )]
}

/// Everything on one bus of its own, which takes the service with it when it ends.
fn keeps_and_gives(stage: &Stage) -> Result<Verdict> {
    let bench = &stage.bench;
    let has = bench.shell(
        &bench.home(),
        &format!("for name in {SERVICE} dbus-run-session; do command -v $name || true; done"),
    )?;
    if has.lines().count() != 2 {
        let why = format!("there is no {SERVICE}, or no session bus to run it on");
        return Ok(Verdict::Skipped(why));
    }
    let data = bench.scratch("keyring")?;
    let product = stage.product()?.with_data(&data);
    let repo = repos::plain(bench, "keyring")?;
    let foreman = bench.program("foreman");
    let foreman = foreman.display();
    let script = format!(
        r#"set -e
read -r value
printf 'a password' | {SERVICE} --foreground --unlock --components=secrets >/dev/null 2>&1 &
tries=0
until {foreman} secret list --json | grep -q '"keyring":null'; do
  tries=$((tries + 1)); test $tries -lt 300; sleep 0.1
done
printf %s "$value" | {foreman} secret set RING_KEY --json
{foreman} secret list --json
{foreman} run --json --repo '{}' --secret RING_KEY -- sh -c 'printf %s "$RING_KEY" | sha256sum'
{foreman} secret remove RING_KEY --json
{foreman} secret list --json
printf %s "$value" | sha256sum
"#,
        repo.display()
    );
    let mut child = product
        .program("dbus-run-session")
        .args(["--", "sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().context("a pipe")?;
    writeln!(input, "{VALUE}")?;
    drop(input);
    let done = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let errors = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.success(), "{said}\n{errors}");
    let digest = said.lines().last().unwrap_or_default();
    let got = said
        .lines()
        .filter(|line| line.contains("\"output\"") && line.contains(digest));
    ensure!(got.count() == 1, "the run did not get it: {said}");
    let lists: Vec<Value> = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|value| value["secrets"].is_array())
        .collect();
    let first = lists
        .iter()
        .find(|list| list["secrets"][0]["name"] == "RING_KEY");
    let first = first.with_context(|| said.clone())?;
    ensure!(first["secrets"][0]["store"] == "keyring", "{first}");
    let last = lists.last().with_context(|| said.clone())?;
    ensure!(
        last["secrets"].as_array().is_some_and(Vec::is_empty),
        "{last}"
    );
    ensure!(
        !said.contains(VALUE) && !errors.contains(VALUE),
        "it is shown"
    );
    for place in [data, bench.home()] {
        let found = bench.shell(&place, &format!("grep -rlaF -e '{VALUE}' . || true"))?;
        ensure!(found.is_empty(), "in clear in {}: {found}", place.display());
    }
    Ok(Verdict::Passed)
}
