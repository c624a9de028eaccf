//! Questions of an agent as cards: asked in the real cage, answered from the command line.

use crate::scripted::{ASKING, outcome, run_agent, said, with_agent};
use anyhow::{Context, Result, ensure};
use foreman_domain::{AgentEvent, AgentOutcome, EventKind, PermissionAnswer, Subject};
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, cases_of, eventually, repos};
use nix::sys::signal::Signal;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "asking",
        [
            a_question_is_a_card_and_its_answer_lets_the_agent_go_on,
            a_no_is_a_rejection_and_its_reason_is_there_to_be_asked_for,
            a_yes_for_the_run_is_the_agents_own_always_and_asks_no_more,
            a_yes_opens_no_wall,
            a_question_outlives_the_engine_that_heard_it,
            a_question_that_is_taken_back_waits_no_more,
            where_nobody_attends_a_question_is_answered_no_at_once,
            a_secret_in_a_question_is_on_no_card,
        ]
    )
}

/// Asks as `$1` whether it may do `$2`; `$answer` is what came back.
const ASK: &str = r#"
ask() {
  say "{\"jsonrpc\":\"2.0\",\"id\":\"$1\",\"method\":\"session/request_permission\",\"params\":{\"toolCall\":{\"toolCallId\":\"c1\",\"kind\":\"execute\",\"rawInput\":{\"command\":\"$2\"}},\"options\":[{\"optionId\":\"yes\",\"kind\":\"allow_once\",\"name\":\"Allow\"},{\"optionId\":\"ever\",\"kind\":\"allow_always\",\"name\":\"Always allow $2\"},{\"optionId\":\"no\",\"kind\":\"reject_once\",\"name\":\"Reject\"}]}}"
}
told() { read -r answer; case "$answer" in *"\"optionId\":\"$1\""*) ;; *) echo "not $1: $answer" >&2; exit 5;; esac; }
done_() { say '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'; cat > /dev/null; }
"#;

fn asking<'a>(stage: &'a Stage, then: &str) -> Result<Product<'a>> {
    with_agent(stage, "opencode", &format!("{ASKING}{ASK}{then}"))
}

/// The card of the first question that waits and is not among these.
fn question(run: &LiveRun, but: &[&str]) -> Result<String> {
    run.wait_for("a question that waits", |event| match &event.kind {
        EventKind::Block { block }
            if matches!(block.subject, Subject::Question { .. })
                && block.state.tag() == "open"
                && !but.contains(&block.id.to_string().as_str()) =>
        {
            Some(block.id.to_string())
        }
        _ => None,
    })
}

fn answers(run: &LiveRun) -> Vec<PermissionAnswer> {
    said(&run.events())
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::PermissionAnswered { answer, .. } => Some(*answer),
            _ => None,
        })
        .collect()
}

fn left(product: &Product<'_>, run: &LiveRun, file: &str) -> Result<String> {
    let view = product.show(&run.id()?)?;
    let worktree = view["worktree"].as_str().context("a worktree")?;
    Ok(std::fs::read_to_string(Path::new(worktree).join(file))?)
}

fn a_question_is_a_card_and_its_answer_lets_the_agent_go_on(stage: &Stage) -> Result<()> {
    let product = asking(
        stage,
        "ask q1 'rm x'; told yes; echo work > work.txt; done_",
    )?;
    let repo = repos::plain(&stage.bench, "asking-yes")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    let block = question(&run, &[])?;
    let card = product.card(&block)?;
    ensure!(
        card["subject"]["agent"] == "opencode" && card["subject"]["tool"] == "execute",
        "{card}"
    );
    ensure!(
        card["subject"]["arguments"] == "{\"command\":\"rm x\"}",
        "{card}"
    );
    ensure!(
        card["question"]["options"][1]["words"] == "Always allow rm x",
        "{card}"
    );
    let scopes: Vec<_> = card["candidates"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|candidate| candidate["scope"].as_str().unwrap_or_default())
        .collect();
    ensure!(scopes == ["once", "run"], "{card}");
    let text = product.call(["blocks"])?.stdout;
    ensure!(
        text.contains("question of opencode: execute"),
        "it is no card of the command line:\n{text}"
    );
    let decided = product.amend(&block, &[])?;
    ensure!(
        decided["released"] == 1 && decided["amendment"]["scope"] == "once",
        "{decided}"
    );
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(
        answers(&run) == [PermissionAnswer::AllowOnce],
        "{}",
        run.story()
    );
    ensure!(
        outcome(&run.events())? == AgentOutcome::Completed,
        "{}",
        run.story()
    );
    Ok(())
}

fn a_no_is_a_rejection_and_its_reason_is_there_to_be_asked_for(stage: &Stage) -> Result<()> {
    let product = asking(
        stage,
        "ask q1 'rm x'; told no; foreman why > why.txt; ask q2 'rm x'; told no; done_",
    )?;
    let repo = repos::plain(&stage.bench, "asking-no")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    let block = question(&run, &[])?;
    let decided = product.deny(&block, "use make clean instead")?;
    ensure!(decided["refused"] == 1, "{decided}");
    run.ended()?;
    let no = PermissionAnswer::RejectOnce;
    ensure!(
        answers(&run) == [no, no],
        "the second like it is answered at once: {}",
        run.story()
    );
    ensure!(
        outcome(&run.events())? == AgentOutcome::CompletedWithDenials,
        "{}",
        run.story()
    );
    let why = left(&product, &run, "why.txt")?;
    ensure!(why.contains("use make clean instead"), "{why}");
    Ok(())
}

fn a_yes_for_the_run_is_the_agents_own_always_and_asks_no_more(stage: &Stage) -> Result<()> {
    // An agent that forgets what it was told and asks the same again is answered without a card; another
    // command is another question.
    let product = asking(
        stage,
        "ask q1 ls; told ever; ask q2 ls; told ever; ask q3 rm; told yes; echo work > work.txt; done_",
    )?;
    let repo = repos::plain(&stage.bench, "asking-always")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    let first = question(&run, &[])?;
    product.amend(&first, &["--scope", "run"])?;
    let second = question(&run, &[&first])?;
    ensure!(
        answers(&run) == [PermissionAnswer::AllowAlways; 2],
        "{}",
        run.story()
    );
    product.amend(&second, &["--scope", "once"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    Ok(())
}

fn a_yes_opens_no_wall(stage: &Stage) -> Result<()> {
    let product = asking(
        stage,
        "ask q1 'curl'; told yes; curl -sS -m 100 http://asked.held.example/ > got.txt; done_",
    )?;
    let repo = repos::plain(&stage.bench, "asking-walls")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    product.amend(&question(&run, &[])?, &[])?;
    let held = run.block("tcp asked.held.example:80")?;
    product.amend(&held, &[])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    Ok(())
}

fn a_question_outlives_the_engine_that_heard_it(stage: &Stage) -> Result<()> {
    let product = asking(
        stage,
        "ask q1 'rm x'; told yes; echo work > work.txt; done_",
    )?;
    let repo = repos::plain(&stage.bench, "asking-adopted")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    let block = question(&run, &[])?;
    let id = run.id()?;
    run.signal(Signal::SIGKILL)?;
    run.ended()?;
    // Another engine adopts the run, and the question with it.
    let decided = product.amend(&block, &[])?;
    ensure!(decided["released"] == 1, "{decided}");
    eventually("the run is in review", PATIENCE, || {
        let view = product.show(&id);
        view.is_ok_and(|view| view["state"] == "review")
    })?;
    let diff = product.call(["diff", &id])?.stdout;
    ensure!(diff.contains("work.txt"), "{diff}");
    Ok(())
}

fn a_question_that_is_taken_back_waits_no_more(stage: &Stage) -> Result<()> {
    let product = asking(
        stage,
        r#"ask q1 'rm x'
while [ ! -e go ]; do sleep 0.05; done
say '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"q1"}}'
read -r gone; case "$gone" in *-32800*) ;; *) exit 5;; esac
echo work > work.txt; done_"#,
    )?;
    let repo = repos::plain(&stage.bench, "asking-back")?;
    let run = run_agent(&product, &repo, "opencode", &[])?;
    let block = question(&run, &[])?;
    let view = product.show(&run.id()?)?;
    let worktree = view["worktree"].as_str().context("a worktree")?.to_owned();
    stage.bench.write(&Path::new(&worktree).join("go"), "")?;
    run.wait_for("the card is gone", |event| match &event.kind {
        EventKind::Block { block: told }
            if told.id.to_string() == block && told.state.tag() == "gone" =>
        {
            Some(())
        }
        _ => None,
    })?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(answers(&run).is_empty(), "{}", run.story());
    Ok(())
}

fn where_nobody_attends_a_question_is_answered_no_at_once(stage: &Stage) -> Result<()> {
    let product = asking(stage, "ask q1 'rm x'; told no; echo work > work.txt; done_")?;
    let repo = repos::plain(&stage.bench, "asking-nobody")?;
    let run = run_agent(&product, &repo, "opencode", &["--unattended"])?;
    run.ended()?;
    ensure!(
        answers(&run) == [PermissionAnswer::RejectOnce],
        "{}",
        run.story()
    );
    let id = run.id()?;
    let feed = product.call(["events", &id])?.stdout;
    ensure!(
        feed.contains("question of opencode: execute") && feed.contains("nobody attends"),
        "it is not in the feed:\n{feed}"
    );
    Ok(())
}

fn a_secret_in_a_question_is_on_no_card(stage: &Stage) -> Result<()> {
    const VALUE: &str = "tr0ub4dor-and-3-Horses";
    let product = asking(
        stage,
        r#"ask q1 "echo $API_KEY"; told yes; echo work > work.txt; done_"#,
    )?;
    let product = product.with_data(&stage.bench.scratch("asking-secret")?);
    let mut set = product
        .foreman(["secret", "set", "API_KEY", "--store", "file"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut input = set.stdin.take().context("a pipe")?;
    input.write_all(format!("{VALUE}\n").as_bytes())?;
    drop(input);
    ensure!(set.wait()?.success(), "the secret was not kept");
    let repo = repos::plain(&stage.bench, "asking-secret")?;
    let run = run_agent(&product, &repo, "opencode", &["--secret", "API_KEY"])?;
    let block = question(&run, &[])?;
    let card = product.card(&block)?.to_string();
    ensure!(
        card.contains("echo ‹secret API_KEY›") && !card.contains(VALUE),
        "{card}"
    );
    product.amend(&block, &[])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(!run.story().contains(VALUE), "{}", run.story());
    Ok(())
}
