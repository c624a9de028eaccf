//! Rules: explained, shown, trusted, kept for an order or a project.

use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::cases_of;
use foreman_testkit::suite::Case;
use foreman_testkit::{MAIN_V4, PATIENCE, Seen, Stage, eventually, repos};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "policy",
        [
            why_names_the_rule_that_decides_or_that_none_matches,
            a_repositorys_policy_file_counts_only_once_trusted,
            a_project_decision_holds_for_the_next_run_and_needs_a_second_word,
            a_run_decision_does_not_hold_for_the_next_run,
            candidates_are_narrowest_first_and_say_what_they_open,
            a_rule_that_expired_does_not_count,
            doctor_finds_every_wall_in_place,
            the_operators_proxy_is_dialled_and_resolves_the_name,
        ]
    )
}

fn why_names_the_rule_that_decides_or_that_none_matches(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "why")?;
    let run = product.run_to_end(&repo, &["--allow", "known.example:443"], &["true"])?;
    let id = run.id()?;
    let known = product.ask(&["policy", "why", "known.example:443", "--run", &id])?;
    ensure!(
        known["verdict"] == "allowed" && known["layer"] == "order",
        "{known}"
    );
    let unknown = product.ask(&["policy", "why", "unknown.example:443", "--run", &id])?;
    ensure!(
        unknown["verdict"] == "held" && unknown["rule"].is_null(),
        "{unknown}"
    );
    let port = product.ask(&["policy", "why", "known.example:444", "--run", &id])?;
    ensure!(port["verdict"] == "held", "{port}");
    let floor = product.ask(&["policy", "why", "169.254.169.254:80", "--run", &id])?;
    ensure!(
        floor["verdict"] == "refused" && floor["layer"] == "floor",
        "{floor}"
    );
    let shown = product.ask(&["policy", "show", "--run", &id])?;
    ensure!(shown.to_string().contains("known.example"), "{shown}");
    Ok(())
}

fn a_repositorys_policy_file_counts_only_once_trusted(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let bench = &stage.bench;
    let repo = repos::plain(bench, "trust")?;
    let text = "[[egress]]\nhost = \"project.example\"\nport = 80\nreason = \"dependencies\"\n";
    bench.write(&repo.join(".foreman/policy.toml"), text)?;
    bench.shell(&repo, "git add -A; git commit -qm policy")?;
    let path = repo.display().to_string();
    let agent = [
        "sh",
        "-c",
        "curl -sS -m 30 http://project.example/; echo \"curl $?\"",
    ];
    let run = product.run_to_end(&repo, &["--unattended"], &agent)?;
    run.said("curl 7")?;
    let shown = product
        .ask(&["policy", "trust", &path])
        .or_else(|_| product.call(["policy", "trust", &path, "--json"])?.json())?;
    let shown = if shown["expect"].is_string() {
        shown
    } else {
        product.ask(&["policy", "show", "--repo", &path])?
    };
    let expect = shown["expect"]
        .as_str()
        .context("trust shows no token")?
        .to_owned();
    let trusted = product.ask(&["policy", "trust", &path, "--expect", &expect])?;
    ensure!(trusted["trusted"] == true, "{trusted}");
    let run = product.run_to_end(&repo, &["--unattended"], &agent)?;
    run.said("curl 0")?;
    // Changed by so much as a byte, it counts no more.
    bench.write(&repo.join(".foreman/policy.toml"), format!("{text}\n"))?;
    bench.shell(&repo, "git commit -qam changed")?;
    let run = product.run_to_end(&repo, &["--unattended"], &agent)?;
    run.said("curl 7")?;
    let shown = product.ask(&["policy", "show", "--repo", &path])?;
    ensure!(shown["project_file"] == "changed", "{shown}");
    Ok(())
}

fn a_project_decision_holds_for_the_next_run_and_needs_a_second_word(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "project")?;
    let agent = [
        "sh",
        "-c",
        "curl -sS -m 100 http://always.example/; echo \"curl $?\"",
    ];
    let run = product.run(&repo, &[], &agent)?;
    let block = run.block("tcp always.example:80")?;
    ensure!(
        product.amend(&block, &["--scope", "project"]).is_err(),
        "no second word was asked for"
    );
    product.amend(&block, &["--scope", "project", "--yes"])?;
    run.said("curl 0")?;
    run.ended()?;
    let next = product.run_to_end(&repo, &["--unattended"], &agent)?;
    next.said("curl 0")?;
    ensure!(next.ended()? == 0, "{}", next.story());
    let decided = product.ask(&["policy", "show", "--repo", &repo.display().to_string()])?;
    let amendment = decided["amendments"][0]["id"]
        .as_str()
        .context("the decision")?
        .to_owned();
    let written = product.ask(&["policy", "write", &amendment])?;
    ensure!(
        written["text"]
            .as_str()
            .is_some_and(|text| text.contains("always.example")),
        "{written}"
    );
    ensure!(
        repo.join(".foreman/policy.toml").exists(),
        "nothing was written"
    );
    std::fs::remove_dir_all(repo.join(".foreman"))?;
    let other = repos::plain(&stage.bench, "other-project")?;
    let other = product.run_to_end(&other, &["--unattended"], &agent)?;
    other.said("curl 7")?;
    let status = stage.bench.shell(&repo, "git status --porcelain")?;
    ensure!(
        status.is_empty(),
        "the decision was written into the repository: {status}"
    );
    Ok(())
}

fn a_run_decision_does_not_hold_for_the_next_run(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "only-run")?;
    let agent = [
        "sh",
        "-c",
        "curl -sS -m 100 http://onlyrun.example/; echo \"curl $?\"",
    ];
    let run = product.run(&repo, &[], &agent)?;
    let block = run.block("tcp onlyrun.example:80")?;
    product.amend(&block, &["--scope", "run"])?;
    run.said("curl 0")?;
    run.ended()?;
    let next = product.run_to_end(&repo, &["--unattended"], &agent)?;
    next.said("curl 7")?;
    Ok(())
}

fn candidates_are_narrowest_first_and_say_what_they_open(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "candidates")?;
    let run = product.run(
        &repo,
        &[],
        &["sh", "-c", "curl -sS -m 100 http://a.candidates.example/"],
    )?;
    let block = run.block("tcp a.candidates.example:80")?;
    let card = product.card(&block)?;
    let candidates = card["candidates"].as_array().context("candidates")?;
    let scopes: Vec<&str> = candidates
        .iter()
        .filter_map(|one| one["scope"].as_str())
        .collect();
    ensure!(
        scopes.first() == Some(&"once") && scopes.get(1) == Some(&"run"),
        "{scopes:?}"
    );
    for one in candidates {
        let words = one["words"].as_str().unwrap_or_default();
        ensure!(
            words.contains("candidates.example")
                || words.contains("waits")
                || words.contains("waiting"),
            "{words}"
        );
        let wide = words.contains('*') || one["scope"] == "project";
        ensure!(
            !wide || one["needs_confirmation"] == true,
            "wide without a second word: {one}"
        );
    }
    product.deny(&block, "")?;
    run.ended()?;
    Ok(())
}

fn a_rule_that_expired_does_not_count(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "expired")?;
    let file = stage.bench.scratch("policy")?.join("expired.toml");
    let text = "[[egress]]\nhost = \"old.example\"\nport = 80\nexpires = \"2001-01-01\"\n";
    stage.bench.write(&file, text)?;
    let file = file.display().to_string();
    let agent = [
        "sh",
        "-c",
        "curl -sS -m 30 http://old.example/; echo \"curl $?\"",
    ];
    let run = product.run(&repo, &["--unattended", "--policy", &file], &agent)?;
    let ran = run.ran()?;
    // Taken with the rule dead, or refused with a sentence: never allowed.
    ensure!(ran.code == 6 || ran.code == 3, "{ran:?}");
    let allowed = run.events().iter().any(|event| {
        matches!(
            &event.kind,
            EventKind::Egress {
                verdict: foreman_domain::ConnectVerdict::Allowed { .. },
                ..
            }
        )
    });
    ensure!(!allowed, "an expired rule let something out");
    Ok(())
}

fn doctor_finds_every_wall_in_place(stage: &Stage) -> Result<()> {
    let report = stage.product()?.ask(&["doctor"])?;
    ensure!(report["tier"] == "full", "{report}");
    for wall in report["walls"].as_array().context("walls")? {
        ensure!(wall["holds"] == true || wall["required"] == false, "{wall}");
        ensure!(
            wall["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty()),
            "{wall}"
        );
    }
    Ok(())
}

fn the_operators_proxy_is_dialled_and_resolves_the_name(stage: &Stage) -> Result<()> {
    let proxy = format!("http://{MAIN_V4}:3128");
    let product = stage.product()?.with_variable("https_proxy", &proxy);
    let repo = repos::plain(&stage.bench, "proxy")?;
    let script = "env | grep -i proxy; curl -sS -m 90 http://proxied.example/; echo \"curl $?\"; \
                  curl -sS -m 20 http://169.254.169.254/; echo \"metadata $?\"";
    let run = product.run(&repo, &[], &["sh", "-c", script])?;
    let block = run.block("tcp proxied.example:80")?;
    let card = product.card(&block)?;
    ensure!(
        card["address_vetted"] == false,
        "the card says that the address was vetted: {card}"
    );
    let before = stage.world.seen_on(3128)?;
    let of_us = |seen: &Seen| seen.head.contains("proxied.example");
    ensure!(
        !before.iter().any(of_us),
        "the proxy was told before the amend"
    );
    product.amend(&block, &[])?;
    run.said("hello from the far side")?;
    run.said("curl 0")?;
    run.said("metadata 7")?;
    run.ended()?;
    eventually("the proxy was asked by name", PATIENCE, || {
        stage.world.seen_on(3128).is_ok_and(|seen| {
            seen.iter()
                .any(|seen| seen.head.starts_with("CONNECT proxied.example:80"))
        })
    })?;
    let asked = stage.world.names_asked()?;
    ensure!(
        !asked.iter().any(|name| name == "proxied.example"),
        "the name was looked up here"
    );
    ensure!(
        !run.story().contains("https_proxy="),
        "the proxy came into the cage"
    );
    Ok(())
}
