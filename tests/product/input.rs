//! Bad input: a sentence, an exit code by class, and nothing lost or half-made.

use anyhow::{Result, ensure};
use foreman_testkit::cases_of;
use foreman_testkit::suite::{Case, Verdict};
use foreman_testkit::{Product, Ran, Stage, repos};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    let mut cases = cases_of!(
        stage,
        "input",
        [
            a_folder_that_is_no_repository,
            a_path_that_is_not_there,
            a_bare_repository,
            a_corrupt_repository,
            a_repository_without_commits,
            a_detached_head,
            a_base_that_is_not_there,
            paths_with_spaces_unicode_and_a_newline_work,
            a_command_that_does_not_exist,
            a_run_block_or_decision_that_does_not_exist,
            a_typo_in_a_policy_file_is_named_with_its_place,
            contradictory_rules_are_refused,
            bounds_that_are_absurd_or_not_enforced,
            destinations_that_are_none,
            a_branch_of_the_runs_name_is_not_taken_over,
        ]
    );
    cases.push(Case::new(
        "input::a_full_disk_leaves_nothing_half_made",
        move || full_disk(stage),
    ));
    cases
}

/// Starts a run that must be refused, and checks that nothing of it stays.
fn refused(
    product: &Product<'_>,
    repo: &Path,
    options: &[&str],
    code: i32,
    kind: &str,
) -> Result<String> {
    let mut arguments: Vec<&OsStr> = vec![
        "run".as_ref(),
        "--json".as_ref(),
        "--repo".as_ref(),
        repo.as_os_str(),
    ];
    arguments.extend(options.iter().map(OsStr::new));
    arguments.extend(["--", "true"].map(OsStr::new));
    let ran = product.call(arguments)?;
    let message = sentence(&ran, code, kind)?;
    let worktrees = product.data().join("worktrees");
    let left: Vec<PathBuf> = std::fs::read_dir(&worktrees)
        .map(|all| {
            all.flatten()
                .filter_map(|repo| {
                    std::fs::read_dir(repo.path())
                        .ok()?
                        .flatten()
                        .next()
                        .map(|run| run.path())
                })
                .collect()
        })
        .unwrap_or_default();
    ensure!(left.is_empty(), "a worktree was left: {left:?}");
    let branches = product
        .bench()
        .shell(
            repo,
            "git for-each-ref 2>/dev/null | grep -E 'refs/(heads/)?foreman/' || true",
        )
        .unwrap_or_default();
    ensure!(branches.is_empty(), "a branch was left: {branches}");
    Ok(message)
}

fn sentence(ran: &Ran, code: i32, kind: &str) -> Result<String> {
    ensure!(
        ran.code == code,
        "exit code {} instead of {code}: {ran:?}",
        ran.code
    );
    let (found, message) = ran.error()?;
    ensure!(
        kind.split('|').any(|kind| kind == found),
        "code {found} instead of {kind}: {message}"
    );
    ensure!(
        message.contains(' ') && message.len() > 12,
        "no sentence: {message}"
    );
    ensure!(
        !message.contains("Os {") && !message.contains("Error {"),
        "raw error text: {message}"
    );
    Ok(message)
}

fn a_folder_that_is_no_repository(stage: &Stage) -> Result<()> {
    let folder = stage.bench.scratch("plain-folder")?;
    refused(
        &stage.product()?,
        &folder,
        &[],
        3,
        "bad_input|bad_repository",
    )
    .map(drop)
}

fn a_path_that_is_not_there(stage: &Stage) -> Result<()> {
    let folder = stage.bench.home().join("nowhere/at/all");
    refused(
        &stage.product()?,
        &folder,
        &[],
        3,
        "bad_input|bad_repository",
    )
    .map(drop)
}

fn a_bare_repository(stage: &Stage) -> Result<()> {
    let folder = stage.bench.scratch("bare")?;
    stage.bench.shell(&folder, "git init -q --bare .")?;
    let message = refused(
        &stage.product()?,
        &folder,
        &[],
        3,
        "bad_input|bad_repository",
    )?;
    ensure!(message.contains("bare"), "{message}");
    Ok(())
}

fn a_corrupt_repository(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "corrupt")?;
    stage
        .bench
        .shell(&repo, "find .git/objects -type f -delete")?;
    refused(&product, &repo, &[], 3, "bad_repository")?;
    let repo = repos::plain(&stage.bench, "corrupt-head")?;
    stage.bench.write(&repo.join(".git/HEAD"), "garbage\n")?;
    refused(&product, &repo, &[], 3, "bad_repository")?;
    let repo = repos::plain(&stage.bench, "corrupt-config")?;
    stage
        .bench
        .write(&repo.join(".git/config"), "[core\nbroken")?;
    refused(&product, &repo, &[], 3, "bad_repository")?;
    Ok(())
}

fn a_repository_without_commits(stage: &Stage) -> Result<()> {
    let folder = stage.bench.scratch("unborn")?;
    stage.bench.shell(&folder, "git init -q -b main .")?;
    let message = refused(
        &stage.product()?,
        &folder,
        &[],
        3,
        "bad_input|bad_repository",
    )?;
    ensure!(message.contains("commit"), "{message}");
    Ok(())
}

fn a_detached_head(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "detached")?;
    stage.bench.shell(&repo, "git checkout -q --detach")?;
    let ran = product.call([
        OsStr::new("run"),
        "--json".as_ref(),
        "--repo".as_ref(),
        repo.as_os_str(),
        "--".as_ref(),
        "true".as_ref(),
    ])?;
    ensure!(ran.code == 3, "{ran:?}");
    let text = ran.json()?.to_string();
    ensure!(text.contains("--base"), "no remedy is named: {text}");
    let run = product.run_to_end(&repo, &["--base", "main"], &["true"])?;
    ensure!(run.ended()? == 0, "{}", run.story());
    Ok(())
}

fn a_base_that_is_not_there(stage: &Stage) -> Result<()> {
    let repo = repos::plain(&stage.bench, "no-base")?;
    let product = stage.product()?;
    for base in [
        "no-such-branch",
        "--upload-pack=x",
        "../../etc",
        "main~1",
        "",
    ] {
        let option = format!("--base={base}");
        let message = refused(
            &product,
            &repo,
            &[&option],
            3,
            if base.is_empty() {
                "bad_input"
            } else {
                "bad_repository"
            },
        )
        .or_else(|_| refused(&product, &repo, &[&option], 3, "bad_input"))?;
        ensure!(
            base.is_empty() || message.contains(base),
            "the base is not named: {message}"
        );
    }
    Ok(())
}

fn paths_with_spaces_unicode_and_a_newline_work(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let parent = stage.bench.scratch("odd paths")?;
    for name in [
        "with space",
        "h\u{e9}llo w\u{f6}rld \u{65e5}\u{672c}",
        "new\nline",
        "quote'\"$(x)`y`",
        "-dash",
        "tab\there",
    ] {
        let repo = parent.join(name);
        repos::plain_at(&stage.bench, &repo)?;
        let run = product.run_to_end(
            &repo,
            &[],
            &["sh", "-c", "echo x > x.txt; git add -A; git commit -qm x"],
        )?;
        ensure!(run.ended()? == 0, "{name:?}: {}", run.story());
        let id = run.id()?;
        let diff = product.ask(&["diff", &id])?;
        let expect = diff["expect"].as_str().unwrap_or_default();
        product.ask(&["merge", &id, "--expect", expect])?;
        ensure!(repo.join("x.txt").exists(), "{name:?} was not updated");
    }
    // A path that is not text at all: works or is refused with a sentence.
    let raw = parent.join(OsStr::from_bytes(b"raw\xff\xfe"));
    repos::plain_at(&stage.bench, &raw)?;
    let ran = product.call([
        OsStr::new("run"),
        "--json".as_ref(),
        "--repo".as_ref(),
        raw.as_os_str(),
        "--".as_ref(),
        "true".as_ref(),
    ])?;
    ensure!([0, 2, 3].contains(&ran.code), "{ran:?}");
    Ok(())
}

fn a_command_that_does_not_exist(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    for arguments in [
        vec!["frobnicate"],
        vec!["run"],
        vec!["run", "sh"],
        vec!["amend"],
        vec!["runs", "--no-such-option"],
        vec!["policy", "dance"],
    ] {
        let ran = product.call(&arguments)?;
        ensure!(ran.code == 2, "{arguments:?}: {ran:?}");
        ensure!(!ran.stderr.trim().is_empty(), "nothing is said: {ran:?}");
        ensure!(
            !product.data().join("state").exists(),
            "a wrong command made the data directory"
        );
    }
    Ok(())
}

fn a_run_block_or_decision_that_does_not_exist(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    for arguments in [
        vec!["show", "rzzzzzzz"],
        vec!["events", "last"],
        vec!["diff", "../../etc/passwd"],
        vec!["stop", "last"],
        vec!["discard", "r2"],
        vec!["restore", "rzzzzzzz"],
        vec!["attach", "rzzzzzzz"],
        vec!["merge", "rzzzzzzz", "--expect", "x"],
        vec!["amend", "rbbbbbbb-b1", "--expect", "x"],
        vec!["deny", "b1", "--expect", "x"],
        vec!["policy", "revoke", "rbbbbbbb-a1"],
        vec!["undo"],
        vec!["policy", "show", "--run", "rzzzzzzz"],
    ] {
        let mut all = arguments.clone();
        all.push("--json");
        let ran = product.call(&all)?;
        ensure!(ran.code == 3, "{arguments:?}: {ran:?}");
        let (_, message) = ran.error()?;
        ensure!(message.contains(' '), "{message}");
    }
    Ok(())
}

fn policy_file(stage: &Stage, text: &str) -> Result<String> {
    let file = stage.bench.scratch("policy")?.join("policy.toml");
    stage.bench.write(&file, text)?;
    Ok(file.display().to_string())
}

fn a_typo_in_a_policy_file_is_named_with_its_place(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "typo")?;
    for (text, wanted) in [
        (
            "[[egress]]\nhost = \"a.example\"\nprot = 443\n",
            vec!["3", "port"],
        ),
        (
            "[[egres]]\nhost = \"a.example\"\nport = 443\n",
            vec!["1", "egress"],
        ),
        ("[bounds]\nwal = \"2h\"\n", vec!["2", "wall"]),
        (
            "[[egress]]\nhost = \"a.example\"\nport = 70000\n",
            vec!["3", "port"],
        ),
        ("[[egress]]\nhost = \"a.example\"\n", vec!["port"]),
        ("[[egress]\nhost = 3", vec!["1"]),
    ] {
        let file = policy_file(stage, text)?;
        let ran = product.call([
            OsStr::new("run"),
            "--json".as_ref(),
            "--repo".as_ref(),
            repo.as_os_str(),
            "--policy".as_ref(),
            file.as_ref(),
            "--".as_ref(),
            "true".as_ref(),
        ])?;
        sentence(&ran, 3, "bad_policy")?;
        let told = ran.json()?["error"].to_string();
        for part in wanted.iter().chain(&["policy.toml"]) {
            ensure!(
                told.contains(part),
                "{part} is not named for {text:?}: {told}"
            );
        }
    }
    let ran = refused(
        &product,
        &repo,
        &["--policy", "/nowhere/policy.toml"],
        3,
        "bad_input",
    )?;
    ensure!(ran.contains("/nowhere/policy.toml"), "{ran}");
    Ok(())
}

fn contradictory_rules_are_refused(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "contradiction")?;
    let text = "[[egress]]\nhost = \"a.example\"\nport = 443\nexpires = \"2001-01-01\"\n\
                [[egress]]\nhost = \"a.example\"\nport = 443\n\
                [[read]]\npath = \"/srv/x\"\n[[write]]\npath = \"/srv/x\"\n";
    let file = policy_file(stage, text)?;
    refused(&product, &repo, &["--policy", &file], 3, "bad_policy").map(drop)
}

fn bounds_that_are_absurd_or_not_enforced(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "absurd")?;
    for bounds in [
        "wall=0",
        "wall=-5m",
        "wall=99999999999999999999h",
        "memory=1",
        "memory=lots",
        "processes=0",
        "output=0",
        "wall",
        "=",
        "wall=1h,wall=2h",
        "colour=red",
        "tokens=2",
        "cost=-1",
    ] {
        let option = format!("--bounds={bounds}");
        let ran = product.call([
            OsStr::new("run"),
            "--json".as_ref(),
            "--repo".as_ref(),
            repo.as_os_str(),
            option.as_ref(),
            "--".as_ref(),
            "true".as_ref(),
        ])?;
        ensure!([2, 3].contains(&ran.code), "{bounds}: {ran:?}");
        ensure!(ran.error()?.1.contains(' '), "{bounds}: {ran:?}");
    }
    let bounds = ["--bounds", "network=10GiB"];
    let message = refused(&product, &repo, &bounds, 3, "not_enforced")?;
    ensure!(message.contains("not enforced"), "{message}");
    // What a command uses of a model is said by nobody.
    let bounds = ["--bounds", "tokens=500k"];
    let message = refused(&product, &repo, &bounds, 3, "bad_input")?;
    ensure!(message.contains("needs an agent"), "{message}");
    Ok(())
}

fn destinations_that_are_none(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "destinations")?;
    for allow in [
        "a.example",
        "a.example:0",
        "a.example:70000",
        ":443",
        "a b.example:443",
        "a\u{0}b:443".trim_matches('\u{0}'),
        "http://a.example:443",
        "169.254.169.254:80",
        "127.0.0.1:80",
        "[::1]:80",
        "*:443",
        "a..example:443",
    ] {
        let option = format!("--allow={}", allow.replace('\u{0}', "%00"));
        let ran = product.call([
            OsStr::new("run"),
            "--json".as_ref(),
            "--repo".as_ref(),
            repo.as_os_str(),
            option.as_ref(),
            "--".as_ref(),
            "true".as_ref(),
        ])?;
        ensure!([2, 3].contains(&ran.code), "{allow:?} was taken: {ran:?}");
        ensure!(ran.error()?.1.contains(' '), "{allow:?}: {ran:?}");
    }
    Ok(())
}

fn a_branch_of_the_runs_name_is_not_taken_over(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let repo = repos::plain(&stage.bench, "clash")?;
    // A branch called `foreman` makes `foreman/<run>` impossible.
    stage.bench.shell(&repo, "git branch foreman")?;
    let before = repos::fingerprint(&stage.bench, &repo)?;
    let message = refused(&product, &repo, &[], 3, "bad_repository")
        .or_else(|_| refused(&product, &repo, &[], 4, "conflict"))?;
    ensure!(message.contains("foreman"), "{message}");
    repos::unchanged(&stage.bench, &repo, &before)?;
    Ok(())
}

/// Needs root to mount a file system of a few megabytes that is then full.
fn full_disk(stage: &Stage) -> Result<Verdict> {
    if !nix::unistd::Uid::effective().is_root() {
        return Ok(Verdict::Skipped(
            "only root can mount a small file system to fill".to_owned(),
        ));
    }
    let repo = repos::plain(&stage.bench, "large")?;
    stage.bench.shell(
        &repo,
        "head -c 9000000 /dev/urandom > large.dat; git add -A; git commit -qm large",
    )?;
    let data = stage.bench.scratch("small-disk")?;
    // In the world's own mount namespace, so that the mount ends with the world.
    let mut mount = Command::new("nsenter");
    mount.args([
        "--target",
        &stage.world.first_process().to_string(),
        "--mount",
        "--",
    ]);
    mount
        .args([
            "mount",
            "-t",
            "tmpfs",
            "-o",
            &format!("size=6m,mode=0777,uid={}", stage.bench.uid()),
            "small",
        ])
        .arg(&data);
    // From the host's user namespace the world's mounts can be changed only where it has none of its own.
    if !mount
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()?
        .success()
    {
        return Ok(Verdict::Skipped(
            "a file system cannot be mounted into this world".to_owned(),
        ));
    }
    let product = Product::in_world(&stage.bench, &stage.world).with_data(&data);
    let before = repos::fingerprint(&stage.bench, &repo)?;
    let run = product.run(&repo, &[], &["true"])?;
    let ran = run.ran()?;
    ensure!(ran.code == 9, "exit code {}: {ran:?}", ran.code);
    ensure!(
        ran.stdout.contains("disk") || ran.stdout.contains("space"),
        "{ran:?}"
    );
    repos::unchanged(&stage.bench, &repo, &before)?;
    let left = stage.bench.shell(
        &repo,
        "git for-each-ref refs/heads/foreman; git worktree prune -v -n; git worktree list | wc -l",
    )?;
    ensure!(left.trim() == "1", "something was left: {left}");
    Ok(Verdict::Passed)
}
