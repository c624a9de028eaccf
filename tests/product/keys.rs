//! Keys that are added outside of the cage, and logins that are written back.

use crate::secrets::{VALUE, kept_in, saying_processes, with_key};
use anyhow::{Context, Result, ensure};
use foreman_domain::{EventKind, Host, Subject};
use foreman_testkit::suite::Case;
use foreman_testkit::{
    Daemon, LiveRun, PATIENCE, Product, Stage, cases_of, descendants, eventually, repos,
};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const HOST: &str = "model.key.example";
const BLOCK: &str = "tcp model.key.example:443";

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "keys",
        [
            a_key_is_added_outside_held_and_amended_and_is_nowhere_inside,
            the_name_inside_leads_to_one_host_on_one_port,
            an_order_names_its_key,
            what_cannot_be_added_is_refused_before_a_run_is_made,
            a_login_that_was_renewed_comes_back_where_that_was_said,
        ]
    )
}

/// The product with this script under an agent's name, and the world's authority as the operator's.
fn with_agent<'a>(
    stage: &'a Stage,
    product: Product<'a>,
    name: &str,
    script: &str,
) -> Result<Product<'a>> {
    let bin = stage.bench.scratch("key-bin")?;
    let path = bin.join(name);
    stage
        .bench
        .write(&path, format!("#!/bin/bash\n{script}\n"))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let authority = stage.world.authority().display().to_string();
    Ok(product
        .with_variable("PATH", &path)
        .with_variable("SSL_CERT_FILE", &authority))
}

fn run_agent(product: &Product<'_>, repo: &Path, agent: &str, options: &[&str]) -> Result<LiveRun> {
    let repo = repo.display().to_string();
    let mut arguments = vec!["run", "--json", "--repo", &repo, "--agent", agent];
    arguments.extend(options);
    arguments.push("do the job");
    LiveRun::start(product.foreman(arguments))
}

fn worktree(product: &Product<'_>, id: &str) -> Result<PathBuf> {
    let view = product.show(id)?;
    Ok(PathBuf::from(
        view["worktree"].as_str().context("no worktree")?,
    ))
}

/// Whether the memory of a process has the value. Nothing of a process that is gone, or that is not ours to read.
fn memory_says(pid: i32) -> Option<bool> {
    use std::io::{Read, Seek, SeekFrom};
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, to) = (number(from)?, number(to)?);
        let mut bytes = Vec::new();
        if memory.seek(SeekFrom::Start(from)).is_ok() {
            // Parts that were never touched cannot be read, and have nothing.
            let _ = (&mut memory)
                .take((to - from).min(256 << 20))
                .read_to_end(&mut bytes);
        }
        if bytes
            .windows(VALUE.len())
            .any(|part| part == VALUE.as_bytes())
        {
            return Some(true);
        }
    }
    Some(false)
}

fn a_key_is_added_outside_held_and_amended_and_is_nowhere_inside(stage: &Stage) -> Result<()> {
    let script = r#"env > env.txt
curl -sS -m 100 "$GOOGLE_GEMINI_BASE_URL/asked/one" -H "x-goog-api-key: $GEMINI_API_KEY" > answer.txt; echo "curl $?" >> answer.txt
curl -sS -m 100 "$GOOGLE_GEMINI_BASE_URL/echo" > echo.txt
curl -sS -m 100 -i "$GOOGLE_GEMINI_BASE_URL/redirect?https://other.key.example/" > redirect.txt
curl -sS -m 100 "$GOOGLE_GEMINI_BASE_URL/bytes/3000000" | wc -c > bytes.txt
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline > proc.txt 2>/dev/null
curl -sS -m 100 http://waits.key.example/ > /dev/null 2>&1
true"#;
    let product = with_agent(stage, with_key(stage, "added")?, "gemini", script)?;
    let repo = repos::plain(&stage.bench, "key-added")?;
    let run = run_agent(
        &product,
        &repo,
        "gemini",
        &["--key", &format!("API_KEY={HOST}")],
    )?;
    let block = run.block(BLOCK)?;
    let card = product.card(&block)?;
    let notice = card["secrets_notice"].as_str().unwrap_or_default();
    ensure!(
        notice.contains("The key API_KEY is added outside of the cage") && notice.contains(HOST),
        "{card}"
    );
    ensure!(
        stage.world.asked(HOST)?.is_empty(),
        "it was sent while it was held"
    );
    product.amend(&block, &[])?;
    let waits = run.block("tcp waits.key.example:80")?;
    let card = product.card(&waits)?;
    ensure!(
        card["secrets_notice"].is_null(),
        "it is not sent there: {card}"
    );
    // While it lives: on no command line, in no environment of ours; and in the memory of the supervisor only.
    let saying = saying_processes()?;
    ensure!(saying.is_empty(), "{saying:?}");
    let id = run.id()?;
    if nix::unistd::geteuid().is_root() {
        let shim = shim_of(&product, &id)?;
        ensure!(memory_says(shim) == Some(true), "the search finds nothing");
        let inside = descendants(shim);
        ensure!(!inside.is_empty(), "the cage has no process");
        for pid in inside {
            ensure!(
                memory_says(pid) != Some(true),
                "process {pid} of the cage has the key"
            );
        }
    }
    product.amend(&waits, &[])?;
    run.ended()?;
    // What the host got, and what the agent got.
    let asked = stage.world.asked(HOST)?;
    let first = asked.first().context("the host was asked nothing")?;
    ensure!(
        first.contains(&format!("x-goog-api-key: {VALUE}\r\n")),
        "{first}"
    );
    ensure!(!first.contains("added-outside-of-the-cage"), "{first}");
    ensure!(first.starts_with("GET /asked/one HTTP/1.1\r\n"), "{first}");
    let tree = worktree(&product, &id)?;
    let file = |name: &str| fs::read_to_string(tree.join(name)).with_context(|| name.to_owned());
    ensure!(
        file("answer.txt")?.contains("curl 0"),
        "{}",
        file("answer.txt")?
    );
    let env = file("env.txt")?;
    ensure!(
        env.contains("GEMINI_API_KEY=added-outside-of-the-cage"),
        "{env}"
    );
    ensure!(!env.contains("SSL_CERT_FILE"), "{env}");
    let echo = file("echo.txt")?;
    ensure!(echo.contains("x-goog-api-key: ‹secret API_KEY›"), "{echo}");
    let redirect = file("redirect.txt")?;
    ensure!(
        redirect.contains("302") && redirect.contains("https://other.key.example/"),
        "{redirect}"
    );
    ensure!(
        file("bytes.txt")?.trim() == "3000000",
        "{}",
        file("bytes.txt")?
    );
    ensure!(
        stage.world.asked("other.key.example")?.is_empty(),
        "a redirection was followed"
    );
    // Nowhere inside, and in no file of ours.
    for entry in fs::read_dir(&tree)?.flatten() {
        let bytes = fs::read(entry.path()).unwrap_or_default();
        ensure!(
            !String::from_utf8_lossy(&bytes).contains(VALUE),
            "{}",
            entry.path().display()
        );
    }
    let story = product.call(["events", &id, "--json"])?.stdout;
    ensure!(!story.contains(VALUE), "{story}");
    let found = kept_in(stage, &product)?;
    ensure!(found.is_empty(), "kept in {found}");
    // Told as connections to the host, with what went over them.
    let closed = run
        .events()
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::ConnectionClosed {
                subject:
                    Subject::Egress {
                        host: Host::Name(host),
                        port: 443,
                        ..
                    },
                sent,
                received,
                ..
            } if host == HOST => Some((sent, received)),
            _ => None,
        });
    let closed: Vec<_> = closed.collect();
    ensure!(
        closed
            .iter()
            .any(|(sent, received)| *sent > 100 && *received > 3_000_000),
        "{closed:?}"
    );
    let named = run.story();
    ensure!(!named.contains("looked up key"), "{named}");
    Ok(())
}

/// The supervisor of a run, as the host numbers it.
fn shim_of(product: &Product<'_>, id: &str) -> Result<i32> {
    let path = product
        .data()
        .join("state/runs")
        .join(id)
        .join("identity.json");
    let identity: Value =
        serde_json::from_slice(&fs::read(&path).with_context(|| path.display().to_string())?)?;
    let inside = identity["pid"].as_i64().context("no pid")?;
    // It says the number that it has in the world's own process namespace.
    for entry in fs::read_dir("/proc")?.flatten() {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let line = read("cmdline");
        let numbers = read("status");
        let own = numbers.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let own = own.and_then(|line| line.split_whitespace().next_back()?.parse::<i64>().ok());
        if line.contains(id) && line.contains("foreman-shim") && own == Some(inside) {
            return Ok(entry.file_name().to_string_lossy().parse()?);
        }
    }
    anyhow::bail!("the supervisor {inside} of {id} is not found")
}

fn the_name_inside_leads_to_one_host_on_one_port(stage: &Stage) -> Result<()> {
    let script = r#"out() { echo "$1: $(cat)" >> out.txt; }
code() { curl -sS -m 30 -o /dev/null -w '%{http_code}' "$@" 2>/dev/null; }
code "$GOOGLE_GEMINI_BASE_URL/" | out plain
code -x http://key:80 http://other.key.example/ | out absolute
code -H 'Host: other.key.example' http://key/ | out host
code -X TRACE http://key/ | out trace
curl -sS -m 30 http://key:81/ 2>/dev/null; echo $? | out port
curl -sSk -m 30 https://key/ 2>/dev/null; echo $? | out secure
curl -sS -m 30 http://127.0.0.1:80/ 2>/dev/null; echo $? | out loopback
true"#;
    let product = with_agent(stage, with_key(stage, "one-host")?, "gemini", script)?;
    let repo = repos::plain(&stage.bench, "key-one-host")?;
    let options = [
        "--key",
        "API_KEY=one.key.example",
        "--allow",
        "one.key.example:443",
    ];
    let run = run_agent(&product, &repo, "gemini", &options)?;
    run.ended()?;
    let out = fs::read_to_string(worktree(&product, &run.id()?)?.join("out.txt"))?;
    let wanted =
        "plain: 200\nabsolute: 400\nhost: 421\ntrace: 405\nport: 7\nsecure: 7\nloopback: 7\n";
    ensure!(out == wanted, "{out}\n{}", run.story());
    ensure!(
        run.story()
            .contains("key is there for HTTP on port 80 only"),
        "{}",
        run.story()
    );
    let names = stage.world.names_asked()?;
    let left = names
        .iter()
        .find(|name| *name == "key" || name.starts_with("other.key"));
    ensure!(left.is_none(), "a name left: {left:?}");
    ensure!(
        stage.world.asked("other.key.example")?.is_empty(),
        "another host was asked"
    );
    Ok(())
}

fn an_order_names_its_key(stage: &Stage) -> Result<()> {
    let script = "curl -sS -m 100 \"$GOOGLE_GEMINI_BASE_URL/asked/order\" > answer.txt; true";
    let product = with_agent(stage, with_key(stage, "order")?, "gemini", script)?;
    let repo = repos::plain(&stage.bench, "key-order")?;
    let order = stage.bench.scratch("key-order")?.join("order.toml");
    let text = format!(
        "repo = {:?}\nagent = \"gemini\"\nkey = \"API_KEY=order.key.example\"\nallow = [\"order.key.example:443\"]\n\
         prompt = \"Do it.\"\n",
        repo.display().to_string()
    );
    stage.bench.write(&order, text)?;
    let _service = Daemon::start(&mut product.foreman(["serve"]))?;
    product.ask(&["order", "add", "--file", &order.display().to_string()])?;
    eventually("the host was asked with the key", PATIENCE, || {
        let asked = stage.world.asked("order.key.example");
        asked.is_ok_and(|asked| asked.iter().any(|head| head.contains(VALUE)))
    })
}

fn what_cannot_be_added_is_refused_before_a_run_is_made(stage: &Stage) -> Result<()> {
    let product = with_agent(stage, with_key(stage, "refused-key")?, "gemini", "true")?;
    let repo = repos::plain(&stage.bench, "key-refused")?;
    let path = repo.display().to_string();
    let call = |options: &[&str]| {
        let begin = ["run", "--json", "--repo", &path];
        product.call(begin.iter().chain(options).copied())
    };
    let named = ["--agent", "gemini"];
    for (options, why) in [
        (&["--key", "ABSENT"][..], "no secret ABSENT"),
        (
            &["--key", "API_KEY", "--secret", "API_KEY"],
            "handed to the run already",
        ),
        (&["--key", "API_KEY", "--lend-login"], "cannot be used with"),
        (&["--key", "API_KEY=host"], "this is neither"),
        (&["--key", "API_KEY=127.0.0.1"], "this is neither"),
        (&["--key", "API_KEY", "--unconfined"], "is captured"),
    ] {
        let all: Vec<&str> = named
            .iter()
            .chain(options)
            .copied()
            .chain(["do it"])
            .collect();
        let ran = call(&all)?;
        ensure!(ran.code != 0, "{options:?}: {ran:?}");
        let said = format!("{}{}", ran.stdout, ran.stderr);
        ensure!(said.contains(why), "{options:?}: {ran:?}");
        ensure!(!said.contains(VALUE), "{ran:?}");
    }
    let runs = product.call(["list", "--json"])?.stdout;
    ensure!(!runs.contains("\"id\""), "a run was made: {runs}");
    Ok(())
}

fn a_login_that_was_renewed_comes_back_where_that_was_said(stage: &Stage) -> Result<()> {
    let old = r#"{"access_token":"old-token","expiry_date":1}"#;
    let new = r#"{"access_token":"new-token","expiry_date":2}"#;
    let script = format!(
        "grep -q old-token ~/.gemini/oauth_creds.json && echo lent > lent.txt\n\
         printf '%s' '{new}' > ~/.gemini/oauth_creds.json; echo '{{}}' > ~/.gemini/settings.json; true"
    );
    let data = stage.bench.scratch("login-data")?;
    let product = with_agent(stage, stage.product()?.with_data(&data), "gemini", &script)?;
    let repo = repos::plain(&stage.bench, "login")?;
    let home = stage.bench.scratch("login-home")?;
    let product = product.with_variable("HOME", &home.display().to_string());
    let login = home.join(".gemini/oauth_creds.json");
    let settings = home.join(".gemini/settings.json");
    stage.bench.write(&login, old)?;
    stage.bench.write(&settings, "{\"mine\":1}")?;
    fs::set_permissions(&login, fs::Permissions::from_mode(0o600))?;
    let read = |path: &Path| fs::read_to_string(path).with_context(|| path.display().to_string());

    let copied = run_agent(&product, &repo, "gemini", &["--lend-login"])?;
    copied.ended()?;
    ensure!(read(&worktree(&product, &copied.id()?)?.join("lent.txt"))?.contains("lent"));
    ensure!(read(&login)? == old, "a copy came back that was only lent");

    let refreshed = run_agent(&product, &repo, "gemini", &["--lend-login=refresh"])?;
    refreshed.ended()?;
    ensure!(read(&login)? == new, "{}", refreshed.story());
    ensure!(read(&settings)? == "{\"mine\":1}", "settings came back");
    let id = refreshed.id()?;
    let story = product.call(["events", &id, "--json"])?.stdout;
    let told = story.matches("oauth_creds.json was written back").count();
    ensure!(
        told == 1 && !story.contains("new-token"),
        "{told} times: {story}"
    );

    // The operator's own word, meanwhile, counts.
    stage.bench.write(&login, old)?;
    let meanwhile =
        format!("{script}\ncurl -sS -m 100 http://waits.login.example/ >/dev/null 2>&1; true");
    let product = with_agent(stage, product, "gemini", &meanwhile)?;
    let run = run_agent(&product, &repo, "gemini", &["--lend-login=refresh"])?;
    let block = run.block("tcp waits.login.example:80")?;
    let theirs = r#"{"access_token":"theirs","expiry_date":3}"#;
    stage.bench.write(&login, theirs)?;
    product.amend(&block, &[])?;
    run.ended()?;
    ensure!(read(&login)? == theirs, "{}", run.story());
    let story = product.call(["events", &run.id()?, "--json"])?.stdout;
    ensure!(story.contains("not what was lent any more"), "{story}");
    Ok(())
}
