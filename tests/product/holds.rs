//! Held, amended, denied, once, undone, revoked.

use anyhow::{Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{PATIENCE, SeenKind, Stage, eventually, repos, until};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "holds",
        [
            a_held_connect_goes_on_after_an_amend_and_the_work_merges,
            a_denied_connect_is_refused_and_why_says_the_reason,
            once_lets_exactly_what_waited_go_on,
            many_connects_wait_under_one_block,
            undo_of_a_denial_lets_the_next_try_be_held_again,
            undo_of_an_amend_stops_what_is_still_to_come,
            a_revoked_amend_cuts_the_open_connection,
            of_two_answers_at_the_same_time_one_counts,
            an_answer_to_another_card_than_shown_is_refused,
            an_allowed_destination_is_never_held,
            a_refusal_by_the_other_side_is_a_refusal_inside,
            bytes_of_a_connection_are_counted,
        ]
    )
}

const FETCH: &str =
    "curl -sS -m 100 http://%/ > got.txt && git add got.txt && git commit -qm 'fetched'";

pub fn fetch(host: &str) -> String {
    FETCH.replace('%', host)
}

fn a_held_connect_goes_on_after_an_amend_and_the_work_merges(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let repo = repos::plain(bench, "main-path")?;
    let before = repos::fingerprint(bench, &repo)?;
    let run = product.run(
        &repo,
        &["--title", "fetch"],
        &["sh", "-c", &fetch("main.held.example")],
    )?;
    let block = run.block("tcp main.held.example:80")?;
    let card = product.card_with_holder(&block)?;
    ensure!(
        card["waiting"].as_u64() == Some(1),
        "the card counts no hold: {card}"
    );
    ensure!(
        card["holders"][0]["argv"][0] == "curl",
        "the card does not name curl: {card}"
    );
    ensure!(
        !stage
            .world
            .names_asked()?
            .iter()
            .any(|name| name.contains("main.held.example")),
        "the name was looked up before the amend"
    );
    ensure!(
        stage
            .world
            .seen()?
            .iter()
            .all(|seen| !seen.head.contains("main.held.example")),
        "bytes left"
    );
    let decided = product.amend(&block, &[])?;
    ensure!(
        decided["released"].as_u64() == Some(1),
        "nothing was let go: {decided}"
    );
    let code = run.ended()?;
    ensure!(code == 0, "exit code {code}: {}", run.story());
    let id = run.id()?;
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "not in review: {view}");
    repos::unchanged(bench, &repo, &before)?;

    let diff = product.ask(&["diff", &id])?;
    ensure!(
        diff["files"][0]["path"] == "got.txt",
        "another diff: {diff}"
    );
    ensure!(
        diff["patch"]
            .as_str()
            .is_some_and(|patch| patch.contains("+hello from the far side")),
        "{diff}"
    );
    ensure!(
        diff["refusal"].is_null(),
        "a merge would be refused: {diff}"
    );
    let expect = diff["expect"].as_str().unwrap_or_default();
    let merged = product.ask(&["merge", &id, "--expect", expect])?;
    ensure!(merged["state"] == "merged", "not merged: {merged}");
    ensure!(
        repos::tip(bench, &repo, "main")? == diff["head"].as_str().unwrap_or_default(),
        "main is elsewhere"
    );
    let text = bench.shell(&repo, "cat got.txt; git status --porcelain")?;
    ensure!(
        text == "hello from the far side\n",
        "the checked-out tree was not updated: {text}"
    );
    Ok(())
}

fn a_denied_connect_is_refused_and_why_says_the_reason(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "deny")?;
    let script = "curl -sS -m 100 http://deny.held.example/; echo \"curl said $?\"; foreman why --json; \
                  curl -sS -m 100 http://deny.held.example/; echo \"again $?\"; exit 3";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    let block = run.block("tcp deny.held.example:80")?;
    let decided = product.deny(&block, "use the mirror instead")?;
    ensure!(decided["refused"].as_u64() == Some(1), "{decided}");
    run.said("curl said 7")?;
    let why = run.said("use the mirror instead")?;
    ensure!(
        why.contains("deny.held.example"),
        "why does not name the host: {why}"
    );
    run.said("again 7")?;
    let code = run.ended()?;
    ensure!(code == 1, "exit code {code}");
    let blocks = run
        .events()
        .iter()
        .filter(|event| match &event.kind {
            EventKind::Block { block } => block.state.tag() == "open",
            _ => false,
        })
        .count();
    ensure!(blocks == 1, "a repeat of what was denied raised a card");
    ensure!(
        !stage
            .world
            .names_asked()?
            .iter()
            .any(|name| name.contains("deny.held")),
        "a name left"
    );
    Ok(())
}

fn once_lets_exactly_what_waited_go_on(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "once")?;
    let script = "curl -sS -m 100 http://once.held.example/; echo first; \
                  curl -sS -m 100 http://once.held.example/; echo \"second $?\"";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    let block = run.block("tcp once.held.example:80")?;
    product.amend(&block, &["--scope", "once"])?;
    run.said("first")?;
    let id = run.id()?;
    let again = until("the second connect is held", PATIENCE, || {
        let open = product.blocks(&id)?;
        Ok(open
            .into_iter()
            .find(|card| card["waiting"].as_u64() == Some(1)))
    })?;
    let again = again["id"].as_str().unwrap_or_default().to_owned();
    product.deny(&again, "")?;
    run.said("second 7")?;
    run.ended()?;
    Ok(())
}

fn many_connects_wait_under_one_block(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "many")?;
    let script = "for n in 1 2 3 4 5 6 7 8; do curl -sS -m 100 http://many.held.example/ & done; wait; echo all";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    let block = run.block("tcp many.held.example:80")?;
    eventually("eight wait", PATIENCE, || {
        product
            .card(&block)
            .is_ok_and(|card| card["waiting"].as_u64() == Some(8))
    })?;
    let id = run.id()?;
    ensure!(product.blocks(&id)?.len() == 1, "more than one card");
    let decided = product.amend(&block, &[])?;
    ensure!(decided["released"].as_u64() == Some(8), "{decided}");
    run.said("all")?;
    run.ended()?;
    let hellos = run.events().iter().filter(|event| {
        matches!(&event.kind, EventKind::Output { text, .. } if text.contains("hello from the far side"))
    }).count();
    ensure!(hellos == 8, "{hellos} of 8 came through: {}", run.story());
    Ok(())
}

fn undo_of_a_denial_lets_the_next_try_be_held_again(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "undo-deny")?;
    let script = "curl -sS -m 100 http://undo.held.example/; echo \"first $?\"; \
                  while ! [ -e go ]; do sleep 0.05; done; curl -sS -m 100 http://undo.held.example/; echo \"second $?\"";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    let block = run.block("tcp undo.held.example:80")?;
    product.deny(&block, "")?;
    run.said("first 7")?;
    let undone = product.ask(&["undo"])?;
    ensure!(undone["amendment"]["state"] == "revoked", "{undone}");
    go(stage, &product, &run)?;
    let id = run.id()?;
    let open = until("it is held again", PATIENCE, || {
        Ok(product.blocks(&id)?.into_iter().next())
    })?;
    product.amend(open["id"].as_str().unwrap_or_default(), &[])?;
    run.said("second 0")?;
    run.ended()?;
    Ok(())
}

/// Lets an agent go on that waits for the file `go` in its worktree.
pub fn go(
    stage: &Stage,
    product: &foreman_testkit::Product<'_>,
    run: &foreman_testkit::LiveRun,
) -> Result<()> {
    let view = product.show(&run.id()?)?;
    let worktree = std::path::PathBuf::from(view["worktree"].as_str().unwrap_or_default());
    stage.bench.write(&worktree.join("go"), "")
}

fn undo_of_an_amend_stops_what_is_still_to_come(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "undo-amend")?;
    let script = "curl -sS -m 100 http://undone.held.example/; echo \"first $?\"; \
                  while ! [ -e go ]; do sleep 0.05; done; curl -sS -m 100 http://undone.held.example/; echo \"second $?\"";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    let block = run.block("tcp undone.held.example:80")?;
    product.amend(&block, &[])?;
    run.said("first 0")?;
    product.ask(&["undo"])?;
    go(stage, &product, &run)?;
    let id = run.id()?;
    let open = until("it is held again", PATIENCE, || {
        Ok(product.blocks(&id)?.into_iter().next())
    })?;
    product.deny(open["id"].as_str().unwrap_or_default(), "")?;
    run.said("second 7")?;
    run.ended()?;
    Ok(())
}

fn a_revoked_amend_cuts_the_open_connection(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "revoke")?;
    let script = "exec 3<>/dev/tcp/revoke.held.example/7007; n=0; \
                  while printf 'still\\n' >&3 && read -r line <&3; do n=$((n+1)); [ $n = 5 ] && echo 'five rounds'; sleep 0.02; done; \
                  echo 'connection ended'";
    let run = product.run(&repo, &[], &["bash", "-c", script])?;
    let block = run.block("tcp revoke.held.example:7007")?;
    let decided = product.amend(&block, &[])?;
    run.said("five rounds")?;
    let amendment = decided["amendment"]["id"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let revoked = product.ask(&["policy", "revoke", &amendment])?;
    ensure!(
        revoked["cut"].as_u64() == Some(1),
        "nothing was cut: {revoked}"
    );
    run.said("connection ended")?;
    run.wait_for("the connection closed as cut", |event| match &event.kind {
        EventKind::ConnectionClosed { cut: true, .. } => Some(()),
        _ => None,
    })?;
    run.ended()?;
    Ok(())
}

fn of_two_answers_at_the_same_time_one_counts(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "race")?;
    let run = product.run(
        &repo,
        &[],
        &[
            "sh",
            "-c",
            "curl -sS -m 100 http://race.held.example/; echo done",
        ],
    )?;
    let block = run.block("tcp race.held.example:80")?;
    let card = product.card(&block)?;
    let expect = card["expect"].as_str().unwrap_or_default().to_owned();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = |arguments: Vec<&'static str>| {
            let (product, block, expect) = (product.clone(), block.clone(), expect.clone());
            scope.spawn(move || {
                let mut all = vec![arguments[0], &block, "--expect", &expect, "--json"];
                all.extend(&arguments[1..]);
                product.call(all)
            })
        };
        let started = vec![
            ask(vec!["amend"]),
            ask(vec!["deny"]),
            ask(vec!["amend", "--scope", "once"]),
        ];
        started
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect::<Result<Vec<_>>>()
    })?;
    let won = answers.iter().filter(|ran| ran.code == 0).count();
    ensure!(won == 1, "{won} answers counted: {answers:?}");
    for lost in answers.iter().filter(|ran| ran.code != 0) {
        ensure!(lost.code == 4, "a late answer must end with 4: {lost:?}");
        ensure!(
            ["already_decided", "stale"].contains(&lost.error()?.0.as_str()),
            "{lost:?}"
        );
    }
    run.said("done")?;
    run.ended()?;
    Ok(())
}

fn an_answer_to_another_card_than_shown_is_refused(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "stale")?;
    let run = product.run(
        &repo,
        &[],
        &[
            "sh",
            "-c",
            "curl -sS -m 100 http://stale.held.example/; echo done",
        ],
    )?;
    let block = run.block("tcp stale.held.example:80")?;
    for verb in ["amend", "deny"] {
        let ran = product.call([verb, &block, "--expect", "0123456789abcdef", "--json"])?;
        ensure!(ran.code == 4 && ran.error()?.0 == "stale", "{ran:?}");
        let ran = product.call([verb, &block, "--json"])?;
        ensure!(
            ran.code == 2,
            "{verb} without a token and without a terminal: {ran:?}"
        );
    }
    ensure!(
        !stage
            .world
            .names_asked()?
            .iter()
            .any(|name| name.contains("stale.held")),
        "a name left"
    );
    product.deny(&block, "")?;
    run.ended()?;
    Ok(())
}

fn an_allowed_destination_is_never_held(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "allowed")?;
    let run = product.run_to_end(
        &repo,
        &["--allow", "allowed.example:80"],
        &["sh", "-c", "curl -sS -m 60 http://allowed.example/"],
    )?;
    run.said("hello from the far side")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    let blocked = run
        .events()
        .iter()
        .any(|event| matches!(event.kind, EventKind::Block { .. }));
    ensure!(!blocked, "an allowed destination was held");
    let seen = stage.world.seen_on(80)?;
    ensure!(
        seen.iter()
            .any(|seen| seen.kind == SeenKind::Closed && seen.head.contains("allowed.example")),
        "the far side saw nothing"
    );
    Ok(())
}

fn a_refusal_by_the_other_side_is_a_refusal_inside(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "refused")?;
    let run = product.run_to_end(
        &repo,
        &["--allow", "closed.example:81", "--allow", "nx.example:80"],
        &[
            "sh",
            "-c",
            "curl -sS -m 60 http://closed.example:81/; echo \"closed $?\"; \
                       curl -sS -m 60 http://nx.example/; echo \"nx $?\"",
        ],
    )?;
    run.said("closed 7")?;
    run.said("nx 7")?;
    Ok(())
}

fn bytes_of_a_connection_are_counted(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "bytes")?;
    let run = product.run_to_end(
        &repo,
        &["--allow", "bytes.example:80"],
        &[
            "sh",
            "-c",
            "curl -sS -m 60 http://bytes.example/bytes/20000000 | wc -c",
        ],
    )?;
    run.said("20000000")?;
    run.wait_for(
        "the closed connection with its bytes",
        |event| match &event.kind {
            EventKind::ConnectionClosed { received, sent, .. }
                if *received > 20_000_000
                    && *received < 20_010_000
                    && *sent > 50
                    && *sent < 1000 =>
            {
                Some(())
            }
            _ => None,
        },
    )
}
