//! Toolchains of the operator's: ordinary builds need no card for a file, and nothing beside the tools is
//! seen or changed.

use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::{Case, Verdict};
use foreman_testkit::{Bench, LiveRun, Stage, repos, toolchains};
use std::path::{Path, PathBuf};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    let case = |name: &str, run: fn(&Stage) -> Result<Verdict>| {
        Case::new(format!("toolchains::{name}"), move || run(stage))
    };
    vec![
        case(
            "cargo_builds_without_a_card_and_sees_no_credentials",
            cargo_builds_without_a_card_and_sees_no_credentials,
        ),
        case(
            "what_a_run_puts_into_a_cache_reaches_nobody",
            what_a_run_puts_into_a_cache_reaches_nobody,
        ),
        case(
            "npm_runs_with_the_node_that_the_repository_asks_for",
            npm_runs_with_the_node_that_the_repository_asks_for,
        ),
        case(
            "toolchains_are_shown_explained_and_chosen",
            toolchains_are_shown_explained_and_chosen,
        ),
        case(
            "a_home_that_leads_through_the_repository_is_not_shown",
            a_home_that_leads_through_the_repository_is_not_shown,
        ),
    ]
}

/// A crate without dependencies.
fn crate_of(bench: &Bench, name: &str) -> Result<PathBuf> {
    let repo = repos::plain(bench, name)?;
    bench.write(
        &repo.join("Cargo.toml"),
        "[package]\nname = \"built\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    )?;
    bench.write(
        &repo.join("src/main.rs"),
        "fn main() { println!(\"built and run\"); }\n",
    )?;
    bench.shell(
        &repo,
        "printf '/target\\n' >> .gitignore; git add -A; git commit -qm crate",
    )?;
    Ok(repo)
}

/// No card was raised, and no file was refused.
fn nothing_was_asked(run: &LiveRun) -> Result<()> {
    let asked = run.events().into_iter().find(|event| {
        matches!(
            event.kind,
            EventKind::Block { .. } | EventKind::File { .. } | EventKind::Egress { .. }
        )
    });
    ensure!(asked.is_none(), "{asked:?}\n{}", run.story());
    Ok(())
}

const CREDENTIALS: [&str; 6] = [
    ".cargo/credentials.toml",
    ".cargo/config.toml",
    ".npmrc",
    ".pypirc",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
];

fn cargo_builds_without_a_card_and_sees_no_credentials(stage: &Stage) -> Result<Verdict> {
    let bench = &stage.bench;
    if let Err(why) = toolchains::rust(bench)? {
        return Ok(Verdict::Skipped(why));
    }
    for path in CREDENTIALS {
        bench.write(&bench.home().join(path), "# SECRET-OF-A-TOOL\n")?;
    }
    let product = stage.product()?;
    let repo = crate_of(bench, "cargo")?;
    let script = "set -e; command -v cargo; cargo build 2>&1; ./target/debug/built
        found=$(grep -rl SECRET-OF-A-TOOL ~ 2>/dev/null || true); echo \"seen: $found.\"";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    let cargo = run.said("/bin/cargo")?;
    let mine = bench.home().join(".cargo/bin/cargo");
    ensure!(cargo == mine.display().to_string(), "{cargo}");
    run.said("built and run")?;
    run.said("seen: .")?;
    nothing_was_asked(&run)?;
    Ok(Verdict::Passed)
}

fn what_a_run_puts_into_a_cache_reaches_nobody(stage: &Stage) -> Result<Verdict> {
    let bench = &stage.bench;
    if let Err(why) = toolchains::rust(bench)? {
        return Ok(Verdict::Skipped(why));
    }
    let product = stage.product()?;
    let repo = crate_of(bench, "poison")?;
    let script = "mkdir -p ~/.cargo/registry/cache ~/.rustup/toolchains/planted
        echo poison > ~/.cargo/registry/cache/poison && echo planted
        echo x > ~/.cargo/bin/cargo || echo kept
        for t in ~/.rustup/toolchains/*/bin; do echo x > \"$t/rustc\" || echo \"kept too\"; done";
    let run = product.run_to_end(&repo, &["--unattended"], &["sh", "-c", script])?;
    for said in ["planted", "kept", "kept too"] {
        run.said(said)?;
    }
    for path in [".cargo/registry", ".rustup/toolchains/planted"] {
        ensure!(!bench.home().join(path).exists(), "{path} is on the host");
    }
    let script = "ls ~/.cargo ~/.rustup/toolchains; cargo --version && echo looked";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", script])?;
    run.said("looked")?;
    ensure!(!run.story().contains("planted"), "{}", run.story());
    Ok(Verdict::Passed)
}

fn npm_runs_with_the_node_that_the_repository_asks_for(stage: &Stage) -> Result<Verdict> {
    let bench = &stage.bench;
    let version = match toolchains::node(bench)? {
        Ok(version) => version,
        Err(why) => return Ok(Verdict::Skipped(why)),
    };
    let repo = repos::plain(bench, "node")?;
    bench.write(&repo.join(".nvmrc"), format!("{version}\n"))?;
    bench.write(
        &repo.join("package.json"),
        "{\"name\":\"x\",\"version\":\"1.0.0\",\"scripts\":{\"hello\":\"node -e 'console.log(40+2)'\"}}\n",
    )?;
    bench.shell(&repo, "git add -A; git commit -qm node")?;
    let has_npm = Path::new("/usr/bin/npm").exists() || Path::new("/usr/local/bin/npm").exists();
    let hello = match has_npm {
        true => "npm run hello",
        false => "node -e 'console.log(40+2)'",
    };
    let script = format!("command -v node; {hello}; node -e 'console.log(process.execPath)'");
    let run = stage
        .product()?
        .run_to_end(&repo, &[], &["sh", "-c", &script])?;
    run.said("42")?;
    let place = format!(".nvm/versions/node/{version}/bin/node");
    run.said(&bench.home().join(place).display().to_string())?;
    nothing_was_asked(&run)?;
    Ok(Verdict::Passed)
}

fn toolchains_are_shown_explained_and_chosen(stage: &Stage) -> Result<Verdict> {
    let bench = &stage.bench;
    if let Err(why) = toolchains::rust(bench)? {
        return Ok(Verdict::Skipped(why));
    }
    let product = stage.product()?;
    let repo = crate_of(bench, "shown")?;
    let path = repo.display().to_string();
    let shown = product.ask(&["policy", "show", "--repo", &path])?;
    let rust = &shown["toolchains"][0];
    ensure!(
        rust["toolchain"] == "rust" && rust["chosen_by"] == "Cargo.toml" && rust["found"] == true,
        "{shown}"
    );
    let cargo = format!("read:{}/.cargo/bin/rustup", bench.home().display());
    let why = product.ask(&["policy", "why", &cargo, "--repo", &path])?;
    ensure!(
        why["verdict"] == "allowed" && why["layer"] == "profile",
        "{why}"
    );
    let agent = ["sh", "-c", "command -v cargo || echo without"];
    let run = product.run_to_end(&repo, &["--toolchain", "none"], &agent)?;
    run.said("without")?;
    let id = run.id()?;
    let shown = product.ask(&["policy", "show", "--run", &id])?;
    ensure!(shown["toolchains"] == serde_json::json!([]), "{shown}");
    // Where nothing of the repository tells of it, it can be asked for.
    let plain = repos::plain(bench, "asked-for")?;
    let run = product.run_to_end(&plain, &["--toolchain", "rust"], &agent)?;
    run.said("/.cargo/bin/cargo")?;
    let refused = product.call(["run", "--toolchain", "cobol", "--repo", &path, "--", "true"])?;
    ensure!(refused.stderr.contains("cobol"), "{refused:?}");
    Ok(Verdict::Passed)
}

fn a_home_that_leads_through_the_repository_is_not_shown(stage: &Stage) -> Result<Verdict> {
    let bench = &stage.bench;
    let repo = crate_of(bench, "leads")?;
    bench.shell(
        &repo,
        "mkdir -p home/bin; printf '#!/bin/sh\\necho planted\\n' > home/bin/cargo; chmod +x home/bin/cargo
         git add -A; git commit -qm planted",
    )?;
    let product = stage
        .product()?
        .with_data(&bench.scratch("leads-data")?)
        .with_variable("CARGO_HOME", &repo.join("home").display().to_string());
    let agent = ["sh", "-c", "cargo || echo \"no cargo\""];
    let run = product.run_to_end(&repo, &[], &agent)?;
    let warned = run.events().into_iter().find_map(|event| match event.kind {
        EventKind::Warning { message } if message.contains("through the repository") => {
            Some(message)
        }
        _ => None,
    });
    warned.with_context(|| run.story())?;
    ensure!(!run.story().contains("planted\""), "{}", run.story());
    Ok(Verdict::Passed)
}
