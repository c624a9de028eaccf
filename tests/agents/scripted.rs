//! Programs under an agent's name that say exactly what a case wants.

use crate::checkout;
use anyhow::{Context, Result, ensure};
use foreman_domain::{
    AgentEvent, AgentOutcome, ConnectVerdict, Decider, Event, EventKind, LogStream,
};
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, cases_of, eventually, repos};
use nix::sys::signal::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "scripted",
        [
            what_an_agent_says_is_in_the_feed_and_its_work_comes_to_review,
            an_agent_that_failed_and_ended_with_code_0_is_a_failure,
            an_agent_that_is_talked_with_is_answered_and_completes,
            an_agent_that_is_stopped_is_asked_in_its_own_protocol_first,
            garbage_and_giant_lines_are_kept_and_harm_nothing,
            an_order_names_its_agent,
            what_an_agent_reports_home_is_refused_at_once_and_told_together,
            a_card_says_when_the_agent_gives_up_and_a_late_decision_that_it_did,
            what_cannot_be_is_refused_before_a_run_is_made,
            what_is_said_to_a_working_agent_outlives_the_engine_and_is_gone_on_with,
            an_agent_that_hears_nothing_goes_on_once_its_run_is_in_review,
        ]
    )
}

/// The product, with a program of this name first on the operator's search path.
pub fn with_agent<'a>(stage: &'a Stage, name: &str, script: &str) -> Result<Product<'a>> {
    let bin = stage.bench.scratch("bin")?;
    let path = bin.join(name);
    stage.bench.write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    Ok(stage.product()?.with_variable("PATH", &path))
}

/// `foreman run --agent NAME PROMPT`.
pub fn run_agent(
    product: &Product<'_>,
    repo: &Path,
    agent: &str,
    options: &[&str],
) -> Result<LiveRun> {
    let repo = repo.display().to_string();
    let mut arguments = vec!["run", "--json", "--repo", &repo, "--agent", agent];
    arguments.extend(options);
    arguments.push("do the job");
    LiveRun::start(product.foreman(arguments))
}

/// What the agent said.
pub fn said(events: &[Event]) -> Vec<&AgentEvent> {
    events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Agent { event } => Some(event),
            _ => None,
        })
        .collect()
}

/// How it ended, as its messages show.
pub fn outcome(events: &[Event]) -> Result<AgentOutcome> {
    let ends: Vec<_> = said(events)
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::Ended { outcome, .. } => Some(*outcome),
            _ => None,
        })
        .collect();
    ensure!(ends.len() == 1, "{} ends: {ends:?}", ends.len());
    ends.first().copied().context("no end")
}

fn printing(recording: &str, then: &str) -> Result<String> {
    let text = fs::read_to_string(checkout("crates/foreman-agent/recordings").join(recording))?;
    ensure!(!text.contains("\nEND\n"), "the recording has the mark");
    Ok(format!("#!/bin/sh\n{then}\ncat <<'END'\n{text}END\n"))
}

fn what_an_agent_says_is_in_the_feed_and_its_work_comes_to_review(stage: &Stage) -> Result<()> {
    let script = printing(
        "pi-hello-then-curl.jsonl",
        "echo \"$*\" > hello.txt; echo $PI_OFFLINE >> hello.txt; ls -d ~/.pi >> hello.txt",
    )?;
    let product = with_agent(stage, "pi", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-pi")?;
    let run = run_agent(&product, &repo, "pi", &["--title", "t"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let events = run.events();
    let messages: Vec<_> = said(&events)
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::Message { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let wanted = [
        "I will create the file.",
        "Now I fetch a page.",
        "Done: hello.txt is written and the page was tried.",
    ];
    ensure!(messages == wanted, "{messages:?}");
    ensure!(
        outcome(&events)? == AgentOutcome::Completed,
        "{}",
        run.story()
    );
    let raw: String = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Output {
                stream: LogStream::Received,
                text,
                continued,
                ..
            } => Some(format!("{text}{}", if *continued { "" } else { "\n" })),
            _ => None,
        })
        .collect();
    let printed = fs::read_to_string(checkout(
        "crates/foreman-agent/recordings/pi-hello-then-curl.jsonl",
    ))?;
    ensure!(raw == printed, "the lines are not kept as they were");
    let id = run.id()?;
    let text = product.call(["events", &id])?.stdout;
    for shown in [
        "│ I will create the file.",
        "│ → write",
        "│ ± ",
        "the agent completed",
    ] {
        ensure!(
            text.contains(shown),
            "{shown:?} is not in the feed:\n{text}"
        );
    }
    ensure!(
        !text.contains("tool_execution_start"),
        "raw lines are in the feed:\n{text}"
    );
    let found = product.ask(&["search", "page", "tried"])?;
    ensure!(
        found.to_string().contains("hello.txt is written"),
        "{found}"
    );
    let diff = product.call(["diff", &id])?.stdout;
    ensure!(
        diff.contains("+-p --mode json do the job"),
        "its arguments: {diff}"
    );
    ensure!(
        diff.contains("\n+1\n") && diff.contains("/.pi"),
        "its variables and its home: {diff}"
    );
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "{view}");
    product.ask(&["discard", &id])?;
    let homes = fs::read_dir(product.data().join("homes"))?.count();
    ensure!(homes == 0, "{homes} homes of agents are left");
    Ok(())
}

fn an_agent_that_failed_and_ended_with_code_0_is_a_failure(stage: &Stage) -> Result<()> {
    let script = printing("pi-bad-request.jsonl", "")?;
    let product = with_agent(stage, "pi", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-fails")?;
    let run = run_agent(&product, &repo, "pi", &[])?;
    ensure!(run.ended()? == 1, "{}", run.story());
    ensure!(
        outcome(&run.events())? == AgentOutcome::AgentError,
        "{}",
        run.story()
    );
    // One that says nothing at all is lost, not done.
    let product = with_agent(stage, "pi", "#!/bin/sh\nexit 0\n")?;
    let run = run_agent(&product, &repo, "pi", &[])?;
    ensure!(run.ended()? == 1, "{}", run.story());
    ensure!(
        outcome(&run.events())? == AgentOutcome::Lost,
        "{}",
        run.story()
    );
    Ok(())
}

/// Speaks the Agent Client Protocol as far as a case needs it; `$1` of `answer` is what came back.
pub const ASKING: &str = r#"#!/bin/sh
say() { printf '%s\n' "$1"; }
read -r initialize; case "$initialize" in *'"terminal":false'*) ;; *) exit 9;; esac
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}'
read -r new; case "$new" in *"\"cwd\":\"$PWD\""*) ;; *) echo "no cwd: $new" >&2; exit 8;; esac
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","modes":{"currentModeId":"plan","availableModes":[{"id":"build"}]}}}'
read -r mode; case "$mode" in *'"modeId":"build"'*) ;; *) exit 7;; esac
say '{"jsonrpc":"2.0","id":3,"result":{}}'
read -r prompt; case "$prompt" in *'do the job'*) ;; *) exit 6;; esac
update() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"update\":$1}}"; }
for letter in H e l l o; do update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$letter\"}}"; done
"#;

fn an_agent_that_is_talked_with_is_answered_and_completes(stage: &Stage) -> Result<()> {
    let script = format!(
        "{ASKING}{}",
        r#"
say '{"jsonrpc":"2.0","id":"q1","method":"session/request_permission","params":{"toolCall":{"toolCallId":"c1","kind":"execute","rawInput":{"command":"x"}},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}'
read -r answer; case "$answer" in *'"id":"q1"'*'"optionId":"yes"'*) ;; *'"optionId":"yes"'*'"id":"q1"'*) ;; *) echo "$answer" >&2; exit 5;; esac
say '{"jsonrpc":"2.0","id":9,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}'
read -r refusal; case "$refusal" in *-32601*) ;; *) exit 4;; esac
echo work > work.txt
say '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'
# It ends when nobody talks with it any more.
cat > /dev/null
exit 3
"#
    );
    let product = with_agent(stage, "opencode", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-acp")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    let block = run.block(r#"question of opencode: execute {"command":"x"}"#)?;
    product.amend(&block, &[])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let events = run.events();
    ensure!(
        outcome(&events)? == AgentOutcome::Completed,
        "{}",
        run.story()
    );
    let messages: Vec<_> = said(&events)
        .into_iter()
        .filter(|event| matches!(event, AgentEvent::Message { text, .. } if text == "Hello"))
        .collect();
    ensure!(
        messages.len() == 1,
        "five letters are one message: {}",
        run.story()
    );
    let sent = events.iter().filter(|event| {
        matches!(
            event.kind,
            EventKind::Output {
                stream: LogStream::Sent,
                ..
            }
        )
    });
    ensure!(
        sent.count() == 6,
        "what it was told is kept: {}",
        run.story()
    );
    let view = product.show(&run.id()?)?;
    ensure!(view["state"] == "review", "{view}");
    Ok(())
}

fn an_agent_that_is_stopped_is_asked_in_its_own_protocol_first(stage: &Stage) -> Result<()> {
    let script = format!(
        "{ASKING}{}",
        r#"
echo begun > begun.txt
read -r cancel; case "$cancel" in *'session/cancel'*) ;; *) exit 5;; esac
echo cancelled > cancelled.txt
say '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"cancelled"}}'
cat > /dev/null
"#
    );
    let product = with_agent(stage, "opencode", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-stop")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    run.wait_for("the agent's message", |event| match &event.kind {
        EventKind::Agent {
            event: AgentEvent::Message { .. },
        } => Some(()),
        _ => None,
    })?;
    let id = run.id()?;
    product.ask(&["stop", &id])?;
    run.ended()?;
    ensure!(
        outcome(&run.events())? == AgentOutcome::Cancelled,
        "{}",
        run.story()
    );
    let worktree = product.show(&id)?["worktree"]
        .as_str()
        .context("a worktree")?
        .to_owned();
    ensure!(
        Path::new(&worktree).join("cancelled.txt").exists(),
        "it was not asked: {}",
        run.story()
    );
    ensure!(
        !run.story().contains("SIGINT"),
        "it was signalled although it went: {}",
        run.story()
    );
    Ok(())
}

fn garbage_and_giant_lines_are_kept_and_harm_nothing(stage: &Stage) -> Result<()> {
    let script = r#"#!/bin/sh
printf '\377\376 no JSON\n'
printf '{"type":"session","id":"s1"}\n{"type":"half'
printf '\n{"type":"brand_new","x":1}\n{"type":"brand_new","x":"'
head -c 5000000 /dev/zero | tr '\0' x
printf '"}\n{"type":"agent_settled"}\n'
"#;
    let product = with_agent(stage, "pi", script)?;
    let repo = repos::plain(&stage.bench, "scripted-garbage")?;
    let run = run_agent(&product, &repo, "pi", &[])?;
    ensure!(run.ended()? == 0, "{}", run.errors());
    let events = run.events();
    let said = said(&events);
    let count = |is: fn(&AgentEvent) -> bool| said.iter().filter(|event| is(event)).count();
    let unreadable = count(|event| matches!(event, AgentEvent::Unreadable { .. }));
    let unknown =
        count(|event| matches!(event, AgentEvent::Unknown { name } if name == "brand_new"));
    ensure!(
        (unreadable, unknown) == (2, 2),
        "{unreadable} unreadable, {unknown} unknown"
    );
    let kept: usize = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Output {
                stream: LogStream::Received,
                text,
                ..
            } => Some(text.len()),
            _ => None,
        })
        .sum();
    ensure!(kept > 5_000_000, "{kept} bytes are kept");
    Ok(())
}

fn what_an_agent_reports_home_is_refused_at_once_and_told_together(stage: &Stage) -> Result<()> {
    let script = printing(
        "codex-hello-then-curl.jsonl",
        "for try in 1 2 3 4 5 6 7 8 9; do curl -s -m 20 https://ab.chatgpt.com/ >&2; done; foreman why > why.txt",
    )?;
    let product = with_agent(stage, "codex", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-telemetry")?;
    let run = run_agent(&product, &repo, "codex", &[])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let events = run.events();
    let mut tries = 0;
    let mut lines = 0;
    for event in &events {
        match &event.kind {
            EventKind::Block { block } => ensure!(false, "a card for {}", block.subject),
            EventKind::Egress {
                verdict: ConnectVerdict::Refused { by, why },
                count,
                ..
            } => {
                ensure!(
                    *by == Decider::Profile && why.contains("telemetry of Codex"),
                    "{why}"
                );
                tries += count;
                lines += 1;
            }
            _ => {}
        }
    }
    ensure!(tries == 9, "{tries} tries: {}", run.story());
    ensure!(lines < 9, "each is told alone: {}", run.story());
    let view = product.show(&run.id()?)?;
    let worktree = view["worktree"].as_str().context("a worktree")?;
    let why = fs::read_to_string(Path::new(worktree).join("why.txt"))?;
    ensure!(why.contains("the agent does without it"), "{why}");
    Ok(())
}

fn a_card_says_when_the_agent_gives_up_and_a_late_decision_that_it_did(
    stage: &Stage,
) -> Result<()> {
    let script = printing(
        "codex-hello-then-curl.jsonl",
        "curl -sS -m 100 http://github.com/ > got.txt",
    )?;
    let product = with_agent(stage, "codex", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-late")?;
    let run = run_agent(&product, &repo, "codex", &[])?;
    let block = run.block("tcp github.com:80")?;
    let began = Instant::now();
    let card = product.card(&block)?;
    let says = |key: &str, words: &str| card[key].as_str().is_some_and(|text| text.contains(words));
    ensure!(says("gives_up", "after 10 seconds"), "{card}");
    ensure!(
        says("by_itself", "Codex tries this host by itself"),
        "{card}"
    );
    // Its patience of ten seconds is to be over, which nothing but time brings about.
    eventually("its patience is over", PATIENCE, || {
        began.elapsed() > Duration::from_secs(11)
    })?;
    let decided = product.amend(&block, &[])?;
    let late = decided["late"].as_str().unwrap_or_default();
    ensure!(late.contains("may not try again by itself"), "{decided}");
    ensure!(run.ended()? == 0, "{}", run.story());
    Ok(())
}

fn an_order_names_its_agent(stage: &Stage) -> Result<()> {
    let script = printing("pi-hello-then-curl.jsonl", "echo \"$*\" > args.txt")?;
    let product = with_agent(stage, "pi", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-order")?;
    let file = stage.bench.scratch("orders")?.join("one.toml");
    let text = format!(
        "id = \"by-name\"\nrepo = {:?}\nagent = \"pi\"\nmodel = \"a/b\"\nprompt = \"first line\\nsecond\"\n",
        repo.display().to_string()
    );
    stage.bench.write(&file, text)?;
    let file = file.display().to_string();
    product.ask(&["order", "add", "--file", &file, "--wait"])?;
    let order = product.ask(&["order", "show", "by-name"])?;
    let run = order["runs"][0]
        .as_str()
        .with_context(|| order.to_string())?
        .to_owned();
    let diff = product.call(["diff", &run])?.stdout;
    ensure!(
        diff.contains("+-p --mode json --model a/b first line\n+second"),
        "{diff}"
    );
    Ok(())
}

fn what_cannot_be_is_refused_before_a_run_is_made(stage: &Stage) -> Result<()> {
    let product = with_agent(stage, "pi", "#!/bin/sh\n")?;
    let repo = repos::plain(&stage.bench, "scripted-refused")?;
    let repo = repo.display().to_string();
    for (arguments, code, words) in [
        (
            &["--agent", "nobody", "x"][..],
            "bad_input",
            "no agent called",
        ),
        (&["--agent", "pi"][..], "usage", "asked to do nothing"),
        (&["--agent", "codex", "x"][..], "not_found", "not installed"),
        (
            &["--agent", "pi", "--lend-login", "x"][..],
            "not_found",
            "no login or settings",
        ),
        (
            &["--agent", "opencode", "--model", "m", "x"][..],
            "bad_input",
            "cannot be told",
        ),
    ] {
        let mut all = vec!["run", "--json", "--repo", &repo];
        all.extend(arguments);
        let (found, message) = product.call(&all)?.error()?;
        ensure!(
            found == code && message.contains(words),
            "{arguments:?}: {found}: {message}"
        );
    }
    let runs = product.ask(&["runs"])?;
    ensure!(!runs.to_string().contains("scripted-refused"), "{runs}");
    Ok(())
}

/// Speaks the protocol with a memory in its home: a first turn that waits for the file `go`, a second by what is said
/// meanwhile, and a third by going on with its session in another run.
const REMEMBERING: &str = r#"#!/bin/sh
say() { printf '%s\n' "$1"; }
message() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}}}"; }
done_with() { say "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":{\"stopReason\":\"end_turn\"}}"; }
kept="$HOME/.local/share/opencode/memory"
modes='"modes":{"currentModeId":"plan","availableModes":[{"id":"build"}]}'
read -r initialize
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'
read -r open
case "$open" in
*session/load*s1*)
  [ "$(cat "$kept")" = "$PWD" ] || { echo "it remembers $(cat "$kept") and not $PWD" >&2; exit 8; }
  message "what was said before"
  say "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{$modes}}";;
*)
  echo "$PWD" > "$kept"
  say "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"sessionId\":\"s1\",$modes}}";;
esac
read -r mode
say '{"jsonrpc":"2.0","id":3,"result":{}}'
read -r prompt
case "$prompt" in
*'do the job'*)
  echo one > one.txt
  message "I am at work"
  while [ ! -e go ]; do sleep 0.1; done
  rm go
  done_with 4
  read -r next; case "$next" in *'the second thing'*) ;; *) echo "$next" >&2; exit 5;; esac
  echo two > two.txt
  done_with 5;;
*'the third thing'*)
  echo three > three.txt
  done_with 4;;
*) echo "$prompt" >&2; exit 6;;
esac
cat > /dev/null
"#;

/// Everything that a run's log has.
fn events_of(product: &Product<'_>, id: &str) -> Result<Vec<Event>> {
    let text = product.call(["events", id, "--json"])?.stdout;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| line.to_owned()))
        .collect()
}

fn in_review(product: &Product<'_>, id: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let view = product.show(id)?;
        match view["state"].as_str() {
            Some("review") => return Ok(()),
            Some("provisioning" | "running" | "stopping") if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(200));
            }
            _ => anyhow::bail!("it does not come to review: {view}"),
        }
    }
}

fn what_is_said_to_a_working_agent_outlives_the_engine_and_is_gone_on_with(
    stage: &Stage,
) -> Result<()> {
    let product = with_agent(stage, "opencode", REMEMBERING)?;
    let repo = repos::plain(&stage.bench, "scripted-said")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    run.wait_for("the agent's message", |event| match &event.kind {
        EventKind::Agent {
            event: AgentEvent::Message { .. },
        } => Some(()),
        _ => None,
    })?;
    let id = run.id()?;
    let worktree = product.show(&id)?["worktree"]
        .as_str()
        .context("a worktree")?
        .to_owned();
    run.signal(Signal::SIGKILL)?;
    run.ended()?;
    // The engine of this call ends with it, too: the message is with the shim.
    let said = product.ask(&["say", &id, "the second thing"])?;
    ensure!(said["how"] == "waits", "{said}");
    let details = product.ask(&["show", &id])?;
    ensure!(details["state"] == "running", "{details}");
    stage.bench.write(&Path::new(&worktree).join("go"), "")?;
    in_review(&product, &id)?;
    let events = events_of(&product, &id)?;
    let told = said_as(&events);
    ensure!(
        told == ["told the second thing", "given"],
        "{told:?} of {id}"
    );
    let said = product.ask(&["say", &id, "the third thing"])?;
    ensure!(said["how"] == "resumes", "{said}");
    let next = said["run"]["id"].as_str().context("a run")?.to_owned();
    in_review(&product, &next)?;
    let events = events_of(&product, &next)?;
    let news: Vec<_> = self::said(&events);
    ensure!(
        news.contains(&&AgentEvent::Replayed { updates: 1 }),
        "its past is told of: {news:?}"
    );
    let is_old = |event: &&&AgentEvent| matches!(event, AgentEvent::Message { text, .. } if text.contains("before"));
    ensure!(news.iter().find(is_old).is_none(), "its past is news");
    let diff = product.call(["diff", &next])?.stdout;
    for file in ["one.txt", "two.txt", "three.txt"] {
        ensure!(diff.contains(file), "{file} is not in {diff}");
    }
    let homes = || Ok::<_, anyhow::Error>(fs::read_dir(product.data().join("homes"))?.count());
    ensure!(homes()? == 2, "each run has its own home");
    let disk = product.ask(&["disk"])?.to_string();
    ensure!(
        disk.contains("\"home_bytes\":") && !disk.contains("\"home_bytes\":0"),
        "{disk}"
    );
    product.ask(&["discard", &id])?;
    ensure!(homes()? == 1, "the session of the next one stays");
    product.ask(&["discard", &next])?;
    ensure!(homes()? == 0, "nothing stays");
    Ok(())
}

fn said_as(events: &[Event]) -> Vec<String> {
    said(events)
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::Told { text, .. } => Some(format!("told {text}")),
            AgentEvent::Given { .. } => Some("given".to_owned()),
            _ => None,
        })
        .collect()
}

fn an_agent_that_hears_nothing_goes_on_once_its_run_is_in_review(stage: &Stage) -> Result<()> {
    let script = printing(
        "pi-hello-then-curl.jsonl",
        "echo \"$*\" >> args.txt; case \"$*\" in *'do the job'*) while [ -e wait ]; do sleep 0.1; done;; esac",
    )?;
    let product = with_agent(stage, "pi", &script)?;
    let repo = repos::plain(&stage.bench, "scripted-deaf")?;
    let run = run_agent(&product, &repo, "pi", &["--setup", "touch wait"])?;
    run.wait_for("the agent", |event| match &event.kind {
        EventKind::StepStarted { .. }
            if event.step.as_ref().is_some_and(|step| step.0 == "agent") =>
        {
            Some(())
        }
        _ => None,
    })?;
    let id = run.id()?;
    let (code, message) = product.call(["say", "--json", &id, "x"])?.error()?;
    ensure!(
        code == "conflict" && message.contains("cannot be told anything now"),
        "{code}: {message}"
    );
    let worktree = product.show(&id)?["worktree"]
        .as_str()
        .context("a worktree")?
        .to_owned();
    fs::remove_file(Path::new(&worktree).join("wait"))?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let session = said(&run.events())
        .into_iter()
        .find_map(|event| match event {
            AgentEvent::Session { session, .. } => Some(session.clone()),
            _ => None,
        })
        .context("a session")?;
    let next = product.ask(&["say", &id, "and now this"])?;
    ensure!(next["how"] == "resumes", "{next}");
    let next = next["run"]["id"].as_str().context("a run")?.to_owned();
    in_review(&product, &next)?;
    let diff = product.call(["diff", &next])?.stdout;
    let wanted = format!("+-p --mode json --session {session} and now this");
    ensure!(diff.contains(&wanted), "{wanted} is not in {diff}");
    let afresh = product.ask(&["say", &next, "--afresh", "again"])?;
    ensure!(afresh["how"] == "afresh", "{afresh}");
    let last = afresh["run"]["id"].as_str().context("a run")?.to_owned();
    in_review(&product, &last)?;
    let diff = product.call(["diff", &last])?.stdout;
    ensure!(diff.contains("+-p --mode json again"), "{diff}");
    let told = product.call(["events", &last])?.stdout;
    ensure!(told.contains("starts afresh"), "{told}");
    Ok(())
}
