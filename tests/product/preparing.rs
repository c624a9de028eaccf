//! Making a worktree ready: files that are copied, a setup that the repository names, who trusts it.

use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, Stage, cases_of, expect_exit, repos};
use std::path::PathBuf;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "preparing",
        [
            listed_files_are_copied_are_seen_and_are_never_committed,
            a_list_that_leads_elsewhere_is_refused_before_anything_is_made,
            what_a_repository_says_counts_only_once_it_is_trusted_and_while_it_stays_so,
            what_other_tools_left_in_a_repository_is_shown_and_imported,
            hostile_project_files_stop_no_run_and_are_never_followed,
            changes_in_a_submodule_are_told_because_no_commit_has_them
        ]
    )
}

fn warned(run: &LiveRun, text: &str) -> bool {
    run.events().iter().any(
        |event| matches!(&event.kind, EventKind::Warning { message } if message.contains(text)),
    )
}

/// Files of a run's branch.
fn committed(stage: &Stage, repo: &std::path::Path, id: &str) -> Result<String> {
    stage
        .bench
        .shell(repo, &format!("git ls-tree -r --name-only foreman/{id}"))
}

fn listed_files_are_copied_are_seen_and_are_never_committed(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let repo = repos::plain(bench, "copies")?;
    bench.shell(
        &repo,
        "printf 'TOKEN=x\\n' > .env; mkdir -p conf/deep; echo a > conf/a.local; echo b > conf/deep/b.local
         echo mine >> file.txt; ln -s /etc/passwd conf/out.local",
    )?;
    let agent = "cat .env conf/a.local conf/deep/b.local; test ! -e conf/out.local
                 git status --porcelain; git add -A; git commit -qm all --allow-empty; echo x > left";
    let options = [
        "--copy",
        ".env",
        "--copy",
        "conf/**/*.local",
        "--copy",
        "file.txt",
        "--copy",
        "no-such",
    ];
    let run = product.run_to_end(&repo, &options, &["sh", "-ec", agent])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    run.said("TOKEN=x")?;
    ensure!(
        warned(&run, ".env is copied, so the agent can read them"),
        "{}",
        run.story()
    );
    ensure!(
        warned(&run, "conf/out.local is not copied"),
        "{}",
        run.story()
    );
    ensure!(
        warned(&run, "nothing is copied for \"no-such\""),
        "{}",
        run.story()
    );
    ensure!(
        warned(&run, "nothing is copied for \"file.txt\""),
        "{}",
        run.story()
    );
    let files = committed(stage, &repo, &run.id()?)?;
    ensure!(files.contains("left"), "{files}");
    ensure!(
        !files.contains(".env") && !files.contains(".local"),
        "{files}"
    );
    let status = bench.shell(&repo, "git status --porcelain")?;
    ensure!(
        status.contains(" M file.txt"),
        "the checkout changed: {status}"
    );
    Ok(())
}

fn a_list_that_leads_elsewhere_is_refused_before_anything_is_made(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "elsewhere")?;
    let at = repo.to_str().context("a path")?.to_owned();
    for bad in ["../x", "a/../../x", ".git/config", "/", "x\ny"] {
        let ran = product.call(["run", "--json", "--repo", &at, "--copy", bad, "--", "true"])?;
        ensure!(ran.code == 3, "{bad:?}: {ran:?}");
        ensure!(ran.error()?.0 == "bad_input", "{bad:?}: {ran:?}");
    }
    ensure!(
        product.ask(&["runs"])?["runs"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    Ok(())
}

fn what_a_repository_says_counts_only_once_it_is_trusted_and_while_it_stays_so(
    stage: &Stage,
) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let repo = repos::plain(bench, "own-project")?;
    bench.shell(
        &repo,
        "mkdir .foreman; printf 'copy = [\".env\"]\\nsetup = \"echo prepared > prepared.ignored\"\\n' \
         > .foreman/project.toml; echo s > .env",
    )?;
    let at = repo.to_str().context("a path")?.to_owned();
    let agent = [
        "sh",
        "-c",
        "ls -a; test -f prepared.ignored && test -f .env && echo ready",
    ];
    let run = product.run_to_end(&repo, &[], &agent)?;
    ensure!(run.ended()? == 1, "{}", run.story());
    ensure!(
        warned(&run, "does not count: it is not trusted"),
        "{}",
        run.story()
    );

    let shown = product.ask(&["project", "show", &at])?;
    ensure!(
        shown["standing"] == "untrusted" && shown["copies"][0][0] == ".env",
        "{shown}"
    );
    expect_exit(
        &product.call(["project", "trust", &at, "--json"])?,
        foreman_domain::ExitCode::Usage,
    )?;
    let expect = shown["expect"].as_str().context("a token")?;
    product.ask(&["project", "trust", &at, "--expect", expect])?;
    let run = product.run_to_end(&repo, &[], &agent)?;
    run.said("ready")?;
    ensure!(run.ended()? == 0, "{}", run.story());
    // The order comes first; and all of it can be left out.
    let run = product.run_to_end(
        &repo,
        &["--setup", "touch other.ignored"],
        &["sh", "-c", "ls; test ! -e prepared.ignored && echo own"],
    )?;
    run.said("own")?;
    let run = product.run_to_end(
        &repo,
        &["--no-project"],
        &["sh", "-c", "test ! -e .env && echo bare"],
    )?;
    run.said("bare")?;
    // Another content is nobody's consent.
    bench.shell(
        &repo,
        "printf 'setup = \"echo evil\"\\n' > .foreman/project.toml",
    )?;
    let stale = product.call(["project", "trust", &at, "--expect", expect, "--json"])?;
    ensure!(stale.code == 4, "{stale:?}");
    let run = product.run_to_end(&repo, &[], &["true"])?;
    ensure!(
        warned(&run, "it has changed since it was trusted"),
        "{}",
        run.story()
    );
    ensure!(!run.story().contains("evil"), "{}", run.story());
    // A setup that fails is a typed end with its output in the feed, and is tried again as a whole.
    let run = product.run_to_end(&repo, &["--setup", "echo why >&2; exit 3"], &["true"])?;
    run.said("why")?;
    let view = product.show(&run.id()?)?;
    ensure!(view["reason"]["reason"] == "setup", "{view}");
    let again = LiveRun::start(product.foreman(["retry", &run.id()?, "--json"]))?;
    again.said("why")?;
    ensure!(again.ended()? == 1, "{}", again.story());
    // What was asked for is kept only for as long as there is something to try.
    product.ask(&["discard", &run.id()?])?;
    let ran = product.call(["retry", &run.id()?, "--json"])?;
    ensure!(ran.code == 3 && ran.error()?.0 == "not_found", "{ran:?}");
    Ok(())
}

fn what_other_tools_left_in_a_repository_is_shown_and_imported(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    let repo = repos::plain(bench, "imports")?;
    bench.shell(
        &repo,
        "printf '.env\\n' >> .gitignore; git commit -qam ignore
         echo s > .env; echo u > untracked; printf '.env\\nuntracked\\n' > .worktreeinclude
         mkdir .superset; printf '{\"setup\": [\"touch a.ignored\", \"touch b.ignored\"], \"teardown\": [\"x\"]}' \
           > .superset/config.json
         printf '{\"preservePatterns\": [\"*.ignored\"], \"scripts\": {\"setup\": \"touch never.ignored\"}}' \
           > .emdash.json; echo k > kept.ignored",
    )?;
    let at = repo.to_str().context("a path")?.to_owned();
    let shown = product.ask(&["project", "show", &at])?;
    let copies: Vec<&str> = shown["copies"]
        .as_array()
        .context("copies")?
        .iter()
        .filter_map(|item| item[0].as_str())
        .collect();
    ensure!(copies == [".env", "kept.ignored"], "{shown}");
    ensure!(
        shown["setup"] == "touch a.ignored && touch b.ignored",
        "{shown}"
    );
    let text = product.call(["project", "show", &at])?.stdout;
    ensure!(
        text.contains("its teardown commands are not used"),
        "{text}"
    );
    let expect = shown["expect"].as_str().context("a token")?;
    product.ask(&["project", "trust", &at, "--expect", expect])?;
    let agent = "test -f .env && test -f kept.ignored && test -f a.ignored && test -f b.ignored &&
                 test ! -e untracked && test ! -e never.ignored && echo imported";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", agent])?;
    run.said("imported")?;
    Ok(())
}

fn hostile_project_files_stop_no_run_and_are_never_followed(stage: &Stage) -> Result<()> {
    let (product, bench) = (stage.product()?, &stage.bench);
    for (number, script) in [
        "ln -s /etc/passwd .worktreeinclude",
        "ln -s / .superset",
        "printf '../../etc/passwd\\n' > .worktreeinclude",
        "head -c 3000000 /dev/zero > conductor.json",
        "mkfifo .emdash.json",
        "mkdir .emdash.json",
        "printf '{' > conductor.json",
    ]
    .into_iter()
    .enumerate()
    {
        let repo: PathBuf = repos::plain(bench, &format!("hostile-{number}"))?;
        bench.shell(&repo, script)?;
        let run = product.run_to_end(&repo, &[], &["true"])?;
        ensure!(run.ended()? == 0, "{script}: {}", run.story());
        ensure!(warned(&run, "does not count"), "{script}: {}", run.story());
        let ran = product.call([
            "project",
            "show",
            repo.to_str().context("a path")?,
            "--json",
        ])?;
        ensure!(ran.code == 3, "{script}: {ran:?}");
    }
    Ok(())
}

fn changes_in_a_submodule_are_told_because_no_commit_has_them(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::with_submodule(&stage.bench)?;
    let agent = "echo more >> lib/inner/file.txt; echo x > x";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", agent])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    ensure!(
        warned(&run, "changed files in the submodule lib/inner"),
        "{}",
        run.story()
    );
    // A commit that it makes in there is refused at the gate: no repository of the operator's has it.
    let agent =
        "cd lib/inner; git init -q .; git add -A; git commit -qm inner; cd ../..; git add lib/inner
                 git commit -qm link";
    let run = product.run_to_end(&repo, &[], &["sh", "-c", agent])?;
    let diff = product.ask(&["diff", &run.id()?])?;
    let expect = diff["expect"].as_str().context("a token")?.to_owned();
    let merged = product.call(["merge", &run.id()?, "--expect", &expect, "--json"])?;
    ensure!(merged.code == 4, "{merged:?}");
    ensure!(merged.error()?.1.contains("lib/inner"), "{merged:?}");
    Ok(())
}
