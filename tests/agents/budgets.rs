//! Tokens, cost and turns as bounds, and in the book of the orders' budgets; agents are scripts.

use crate::scripted::{outcome, run_agent, with_agent};
use anyhow::{Context, Result, ensure};
use foreman_domain::{AgentOutcome, EventKind};
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, Product, Stage, cases_of, repos, until};
use serde_json::Value;
use std::path::Path;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "budgets",
        [
            a_run_is_paused_at_its_tokens_and_goes_on_when_they_are_raised,
            a_run_that_is_not_raised_is_stopped_at_its_cost,
            a_bound_that_nobody_would_measure_is_refused_with_a_sentence,
            what_an_order_spent_takes_the_place_of_what_it_reserved,
            an_order_waits_for_the_limit_of_its_agents_provider_and_is_started_again,
        ]
    )
}

/// Speaks as pi does: uses 850 tokens, then 350 more, for a cent each; and goes on to work a while later.
const SPENDING: &str = r#"#!/bin/sh
used() { printf '{"type":"message_end","message":{"role":"assistant","content":[],"usage":{"input":%s,"output":50,"cacheRead":9000,"cost":{"total":0.01}}}}\n' "$1"; }
echo '{"type":"session","id":"s1"}'
used 800
sleep 1
used 300
sleep 3
echo after > after.txt
echo '{"type":"agent_settled"}'
"#;

fn worktree(product: &Product<'_>, run: &LiveRun) -> Result<String> {
    let view = product.show(&run.id()?)?;
    Ok(view["worktree"].as_str().context("a worktree")?.to_owned())
}

fn card(product: &Product<'_>, run: &LiveRun, bound: &str) -> Result<Value> {
    let id = run.id()?;
    until("a card of the bound", PATIENCE, || {
        let blocks = product.blocks(&id)?;
        Ok(blocks
            .into_iter()
            .find(|block| block["subject"]["bound"] == bound))
    })
}

fn told(run: &LiveRun, bound: &str) -> Vec<(bool, String)> {
    let events = run.events();
    let of_bound = events.iter().filter_map(|event| match &event.kind {
        EventKind::Bound {
            bound: found,
            figure,
            reached,
            ..
        } if found == bound => Some((*reached, figure.clone())),
        _ => None,
    });
    of_bound.collect()
}

fn a_run_is_paused_at_its_tokens_and_goes_on_when_they_are_raised(stage: &Stage) -> Result<()> {
    let product = with_agent(stage, "pi", SPENDING)?;
    let repo = repos::plain(&stage.bench, "tokens")?;
    let run = run_agent(&product, &repo, "pi", &["--bounds", "tokens=1k"])?;
    let card = card(&product, &run, "tokens")?;
    ensure!(
        card["breach"]["seen"] == 1200 && card["breach"]["limit"] == 1000,
        "{card}"
    );
    let tree = worktree(&product, &run)?;
    let late = Path::new(&tree).join("after.txt");
    // Longer than the agent would have slept.
    std::thread::sleep(std::time::Duration::from_secs(4));
    ensure!(!late.exists(), "it went on although it is paused");
    let block = card["id"].as_str().context("an id")?;
    product.amend(block, &["--scope", "run"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(late.exists(), "{}", run.story());
    let told = told(&run, "tokens");
    let wanted = [
        (false, "850 tokens".to_owned()),
        (true, "1200 tokens".to_owned()),
    ];
    ensure!(told == wanted, "warned at 80 %, then reached: {told:?}");
    let view = product.show(&run.id()?)?;
    let spent = &view["spent"];
    ensure!(
        spent["tokens"] == 1200 && spent["cost_microusd"] == 20_000 && spent["turns"] == 1,
        "{view}"
    );
    Ok(())
}

fn a_run_that_is_not_raised_is_stopped_at_its_cost(stage: &Stage) -> Result<()> {
    let product = with_agent(stage, "pi", SPENDING)?;
    let repo = repos::plain(&stage.bench, "cost")?;
    let run = run_agent(&product, &repo, "pi", &["--bounds", "cost=0.02"])?;
    let card = card(&product, &run, "cost")?;
    let block = card["id"].as_str().context("an id")?;
    product.deny(block, "too dear")?;
    ensure!(run.ended()? != 0, "{}", run.story());
    ensure!(
        outcome(&run.events())? != AgentOutcome::Completed,
        "{}",
        run.story()
    );
    let told = product.call(["events", &run.id()?])?.stdout;
    ensure!(told.contains("$0.02 of $0.02"), "{told}");
    Ok(())
}

fn a_bound_that_nobody_would_measure_is_refused_with_a_sentence(stage: &Stage) -> Result<()> {
    let product = with_agent(stage, "codex", "#!/bin/sh\n")?;
    let repo = repos::plain(&stage.bench, "unmeasured")?;
    let repo = repo.display().to_string();
    for (rest, words) in [
        (
            &["--bounds", "cost=5", "--agent", "codex", "x"][..],
            "does not say what it costs",
        ),
        (
            &["--bounds", "tokens=5k", "--", "true"][..],
            "needs an agent by its name",
        ),
    ] {
        let mut all = vec!["run", "--json", "--repo", &repo];
        all.extend(rest);
        let (code, message) = product.call(&all)?.error()?;
        ensure!(
            code == "bad_input" && message.contains(words),
            "{code}: {message}"
        );
    }
    Ok(())
}

fn what_an_order_spent_takes_the_place_of_what_it_reserved(stage: &Stage) -> Result<()> {
    let product = with_agent(stage, "pi", SPENDING)?;
    let repo = repos::plain(&stage.bench, "booked")?;
    product.ask(&[
        "orders",
        "limits",
        "--budget-tokens",
        "10k",
        "--budget-cost",
        "1",
    ])?;
    let file = stage.bench.scratch("orders")?.join("booked.toml");
    let text = format!(
        "id = \"booked\"\nrepo = {:?}\nagent = \"pi\"\nprompt = \"x\"\nbounds = {{ tokens = 5000, cost = \"0.50\" }}\n",
        repo.display().to_string()
    );
    stage.bench.write(&file, text)?;
    let file = file.display().to_string();
    product.ask(&["order", "add", "--file", &file, "--wait"])?;
    let book = until("the book is settled", PATIENCE, || {
        let queue = product.ask(&["orders", "limits"])?;
        Ok(Some(queue).filter(|queue| queue["tokens_used"] != 5000))
    })?;
    ensure!(
        book["tokens_used"] == 1200 && book["cost_used_micros"] == 20_000,
        "{book}"
    );
    Ok(())
}

/// Speaks the Agent Client Protocol; its model's provider turns it away until a moment, as a typed error says.
const LIMITED: &str = r#"#!/bin/sh
say() { printf '%s\n' "$1"; }
read -r initialize
say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}'
read -r open
say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s1","modes":{"currentModeId":"plan","availableModes":[{"id":"build"}]}}}'
read -r mode
say '{"jsonrpc":"2.0","id":3,"result":{}}'
read -r prompt
if [ "$(date +%s)" -lt @UNTIL@ ]; then
  say '{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"too much","data":{"status":429,"resetsAt":@UNTIL@}}}'
else
  echo done > done.txt
  say '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'
fi
cat > /dev/null
"#;

fn an_order_waits_for_the_limit_of_its_agents_provider_and_is_started_again(
    stage: &Stage,
) -> Result<()> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let until_seconds = now.as_secs() + 20;
    let script = LIMITED.replace("@UNTIL@", &until_seconds.to_string());
    let product = with_agent(stage, "opencode", &script)?;
    let repo = repos::plain(&stage.bench, "limited")?;
    let file = stage.bench.scratch("orders")?.join("limited.toml");
    let text = format!(
        "id = \"limited\"\nrepo = {:?}\nagent = \"opencode\"\nprompt = \"x\"\n",
        repo.display().to_string()
    );
    stage.bench.write(&file, text)?;
    let file = file.display().to_string();
    product.ask(&["order", "add", "--file", &file, "--serve"])?;
    let waits = until("the order waits for the limit", PATIENCE, || {
        let order = product.ask(&["order", "show", "limited"])?;
        Ok(Some(order).filter(|order| order["wait"]["wait"] == "retry"))
    })?;
    let at = waits["wait"]["at"].as_str().context("a time")?;
    let at: foreman_domain::At = serde_json::from_value(Value::String(at.to_owned()))?;
    ensure!(
        at.as_millis() >= i64::try_from(until_seconds)? * 1_000,
        "not before the limit is over: {waits}"
    );
    let why = waits["wait"]["why"].as_str().unwrap_or_default();
    ensure!(why.contains("lets it do no more"), "{waits}");
    let order = until("the order has its run in review", PATIENCE, || {
        let order = product.ask(&["order", "show", "limited"])?;
        let run = order["runs"]
            .as_array()
            .and_then(|runs| runs.get(1)?.as_str().map(str::to_owned));
        let Some(run) = run else { return Ok(None) };
        let view = product.show(&run)?;
        Ok(Some(view).filter(|view| view["state"] == "review"))
    })?;
    ensure!(order["state"] == "review", "{order}");
    product.ask(&["shutdown"])?;
    Ok(())
}
