//! A machine that lacks a part of the kernel: what is refused, and what is left when that is accepted.

use anyhow::{Result, ensure};
use foreman_domain::{EventKind, ExitCode, Wall};
use foreman_testkit::suite::Case;
use foreman_testkit::{Stage, cases_of, expect_exit, repos};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "weaker",
        [
            a_machine_that_cannot_hold_connections_is_told_what_it_lacks,
            a_run_without_a_network_works_says_so_and_lands,
            a_wall_that_every_cage_is_made_of_cannot_be_given_up,
        ]
    )
}

fn a_machine_that_cannot_hold_connections_is_told_what_it_lacks(stage: &Stage) -> Result<()> {
    let product = stage.product()?.without_nf_tables();
    let ran = product.call(["doctor", "--json"])?;
    expect_exit(&ran, ExitCode::WallMissing)?;
    let report = ran.json()?;
    ensure!(report["tier"] == "reduced", "{report}");
    ensure!(
        report["words"] == "Network refused, files confined",
        "{report}"
    );
    for wall in report["walls"].as_array().into_iter().flatten() {
        let name = wall["wall"].as_str().unwrap_or_default();
        let holds = wall["holds"] == true;
        let is_missing = ["network", "dns"].contains(&name);
        ensure!(holds != is_missing || name == "cgroup", "{wall}");
        ensure!(
            !is_missing || wall["remedy"].to_string().contains("nf_tables"),
            "{wall}"
        );
    }
    let repo = repos::plain(&stage.bench, "weaker")?;
    let path = repo.display().to_string();
    for accepted in [None, Some("dns"), Some("seccomp")] {
        let mut words = vec!["run", "--json", "--repo", &path];
        words.extend(accepted.iter().flat_map(|wall| ["--accept-weaker", wall]));
        words.extend(["--", "true"]);
        let ran = product.call(&words)?;
        expect_exit(&ran, ExitCode::WallMissing)?;
        let hint = ran.json()?["error"]["hint"].to_string();
        ensure!(hint.contains("--accept-weaker network"), "{hint}");
    }
    let runs = product.ask(&["runs"])?;
    ensure!(
        runs["runs"].as_array().is_some_and(Vec::is_empty),
        "a refused run was made: {runs}"
    );
    Ok(())
}

fn a_run_without_a_network_works_says_so_and_lands(stage: &Stage) -> Result<()> {
    let product = stage.product()?.without_nf_tables();
    let repo = repos::plain(&stage.bench, "no-network")?;
    let agent = "curl -sS -m 20 http://weaker.allowed.example/ && echo REACHED; \
        curl -sS -m 20 http://203.0.113.10/ && echo REACHED; \
        foreman why; foreman why --json; \
        python3 -c 'import socket as s; l = s.create_server((\"127.0.0.1\", 7311)); \
        s.create_connection((\"127.0.0.1\", 7311)); l.accept(); print(\"talks to itself\")'; \
        echo done > done.txt";
    let options = [
        "--accept-weaker",
        "network",
        "--allow",
        "weaker.allowed.example:80",
        "--allow",
        "203.0.113.10:80",
    ];
    let run = product.run_to_end(&repo, &options, &["sh", "-c", agent])?;
    let view = product.show(&run.id()?)?;
    ensure!(view["state"] == "review", "{view} {}", run.story());
    let tier = view["tier"].as_str().unwrap_or_default();
    ensure!(
        tier.starts_with("Network refused, files confined"),
        "{view}"
    );
    run.said("This run has no network")?;
    run.said("\"network\":\"This run has no network")?;
    run.said("talks to itself")?;
    let told = |pick: &dyn Fn(&EventKind) -> bool| run.events().iter().any(|it| pick(&it.kind));
    ensure!(
        told(
            &|kind| matches!(kind, EventKind::Warning { message } if message.contains("has no network, as accepted"))
        ),
        "{}",
        run.story()
    );
    ensure!(
        told(
            &|kind| matches!(kind, EventKind::Probe { wall: Wall::Network, holds: false, detail } if detail.contains("could not see a network device but lo"))
        ),
        "{}",
        run.story()
    );
    ensure!(
        !told(&|kind| matches!(kind, EventKind::Output { text, .. } if text.contains("REACHED"))),
        "something was reached: {}",
        run.story()
    );
    ensure!(
        !told(&|kind| matches!(kind, EventKind::Block { .. } | EventKind::Egress { .. })),
        "something was held: {}",
        run.story()
    );
    let names = stage.world.names_asked()?;
    ensure!(
        !names.iter().any(|name| name == "weaker.allowed.example"),
        "a name was asked for: {names:?}"
    );
    Ok(())
}

fn a_wall_that_every_cage_is_made_of_cannot_be_given_up(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "never-weaker")?;
    let path = repo.display().to_string();
    for wall in ["mounts", "git"] {
        let words = [
            "run",
            "--json",
            "--repo",
            &path,
            "--accept-weaker",
            wall,
            "--",
            "true",
        ];
        let ran = product.call(words)?;
        expect_exit(&ran, ExitCode::Usage)?;
        let (_, message) = ran.error()?;
        let wanted = format!("--accept-weaker {wall} is not possible");
        ensure!(message.contains(&wanted), "{message}");
    }
    Ok(())
}
