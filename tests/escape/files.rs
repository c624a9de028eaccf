//! Files: nothing outside the worktree is written, nothing of the operator's is read.

use crate::Attack;
use crate::attacks;
use crate::ground::{Ground, none_succeeded};
use anyhow::{Result, ensure};
use foreman_domain::{ConnectVerdict, EventKind};
use foreman_testkit::{PATIENCE, eventually, repos};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E64"] writing_outside_the_worktree_reaches_nothing_of_the_host,
        ["E65"] a_planted_link_leads_nowhere_for_the_cage_and_for_the_host,
        ["E65"] a_link_swapped_between_check_and_use_leads_nowhere,
        ["E64"] a_write_outside_waits_for_a_decision_and_reaches_nothing_before,
        ["E65"] a_path_that_is_swapped_while_it_is_held_opens_what_the_card_showed,
        ["E66"] hard_links_to_files_outside_cannot_be_made,
        ["E69"] a_credential_store_is_not_opened_by_a_wide_rule,
        ["E70"] other_ways_to_open_a_file_end_the_same,
        ["E70"] device_nodes_cannot_be_made_or_found,
        ["E70"] every_call_that_changes_a_file_outside_is_held_and_refused,
        ["E82"] credential_files_are_unreadable,
        ["E82"] credential_files_raise_no_card_although_reads_are_held,
        ["E83"] a_worktree_reached_by_a_link_or_dots_is_still_itself,
        ["E84"] another_name_for_a_tool_changes_no_verdict,
    ]
}

/// A file of the operator's, outside of everything, with this content.
fn victim(ground: &Ground<'_>, name: &str) -> Result<PathBuf> {
    let path = ground.stage.bench.home().join(name);
    ground.stage.bench.write(&path, "untouched\n")?;
    Ok(path)
}

fn untouched(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(
        text == "untouched\n",
        "{} was changed: {text}",
        path.display()
    );
    Ok(())
}

fn writing_outside_the_worktree_reaches_nothing_of_the_host(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let victim = victim(ground, "e64.txt")?;
    let home = bench.home();
    let places: Vec<PathBuf> = vec![
        home.join("e64-new.txt"),
        home.join(".bashrc-e64"),
        home.join(".config/e64"),
        "/tmp/fm-e64".into(),
        "/var/tmp/fm-e64".into(),
        "/dev/shm/fm-e64".into(),
        "/run/fm-e64".into(),
        "/etc/fm-e64".into(),
        "/usr/bin/fm-e64".into(),
        "/opt/fm-e64".into(),
        "/fm-e64".into(),
        bench.bin().join("fm-e64"),
        ground.repo.join("fm-e64"),
        ground.repo.join(".git/fm-e64"),
        bench.runtime().join("fm-e64"),
        "/proc/sys/kernel/hostname".into(),
        "/sys/fm-e64".into(),
    ];
    let texts: Vec<String> = places
        .iter()
        .chain([&victim])
        .map(|path| path.display().to_string())
        .collect();
    let mut attack = vec!["write"];
    attack.extend(texts.iter().map(String::as_str));
    ground.arena.attack(&attack)?;
    untouched(&victim)?;
    for place in places.iter().filter(|place| !place.starts_with("/proc")) {
        // The repository's .git is a private copy inside, so it may be written there.
        ensure!(!place.exists(), "{} appeared on the host", place.display());
    }
    for path in ["/etc/passwd", "/usr/bin/env"] {
        let saw = ground.arena.attack(&["alter", path])?;
        none_succeeded(&saw, &[])?;
    }
    let saw = ground
        .arena
        .attack(&["alter", &victim.display().to_string()])?;
    untouched(&victim)?;
    drop(saw);
    let control = ground
        .arena
        .control(&["write", &home.join("control.txt").display().to_string()])?;
    ensure!(control.to_string().contains("\"ok\":true"), "{control}");
    Ok(())
}

/// A folder of the operator's that a cage could be let into, if somebody decided so.
fn outside(ground: &Ground<'_>, name: &str) -> Result<PathBuf> {
    let folder = ground.stage.bench.scratch(name)?.canonicalize()?;
    // As root a run is another user, who could do nothing there: nobody would be asked.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    Ok(folder)
}

fn a_write_outside_waits_for_a_decision_and_reaches_nothing_before(
    ground: &Ground<'_>,
) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let folder = outside(ground, "e64-held")?;
    let path = folder.join("new.txt");
    let job = arena.start_attack(&["write", &path.display().to_string()])?;
    let block = arena.block(&format!("write {}", path.display()))?;
    ensure!(job.reply()?.is_none(), "it did not wait: {:?}", job.reply());
    ensure!(!path.exists(), "it was made before anybody decided");
    arena.product().deny(&block, "it is an attack")?;
    let saw = job.wait(PATIENCE)?.json()?;
    let wrote = &saw[path.display().to_string()];
    ensure!(wrote["ok"] == false && wrote["errno"] == "EACCES", "{saw}");
    ensure!(!path.exists(), "it was made although it was denied");
    arena
        .run()
        .wait_for("the held action in the feed", |event| match &event.kind {
            EventKind::File {
                subject,
                verdict: ConnectVerdict::Held { .. },
                ..
            } if subject.to_string() == format!("write {}", path.display()) => Some(()),
            _ => None,
        })
}

fn a_path_that_is_swapped_while_it_is_held_opens_what_the_card_showed(
    ground: &Ground<'_>,
) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let victim = victim(ground, "e65-held.txt")?;
    let folder = outside(ground, "e65-swapped")?;
    let shown = folder.join("shown.txt");
    // What the card shows is what the link led to when it was held; the link leads elsewhere by then.
    let script = format!(
        "ln -sfn '{0}' way.ignored; (echo attack > way.ignored; echo $? > said.ignored) & \
         while ! [ -e swap.ignored ]; do sleep 0.05; done; \
         ln -sfn '{1}' way.ignored; touch swapped.ignored; wait; cat said.ignored",
        shown.display(),
        victim.display()
    );
    let job = arena.shell_job(&script)?;
    let block = arena.block(&format!("write {}", shown.display()))?;
    let worktree = arena.worktree().to_owned();
    fs::write(worktree.join("swap.ignored"), "")?;
    eventually("the link was swapped", PATIENCE, || {
        worktree.join("swapped.ignored").exists()
    })?;
    arena.product().amend(&block, &[])?;
    // The kernel looks at the path anew: what it leads to now is held, or was what the card showed.
    let reply = job.wait_denying(PATIENCE)?;
    untouched(&victim)?;
    ensure!(reply.code == 0, "{reply:?}");
    Ok(())
}

fn every_call_that_changes_a_file_outside_is_held_and_refused(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let folder = outside(ground, "e70-held")?;
    let file = folder.join("there.txt");
    ground.stage.bench.write(&file, "untouched\n")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
    for attack in ["alter", "open-ways"] {
        let saw = arena.attack(&[attack, &file.display().to_string()])?;
        let others: &[&str] = match attack {
            // What is not there for the cage cannot be opened by a handle at all.
            "open-ways" => &["handle"],
            _ => &[],
        };
        none_succeeded(&saw, others)?;
    }
    untouched(&file)?;
    let names: Vec<_> = fs::read_dir(&folder)?.flatten().collect();
    ensure!(names.len() == 1, "something was made: {names:?}");
    Ok(())
}

fn credential_files_raise_no_card_although_reads_are_held(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&["--hold-reads"])?;
    let bench = &ground.stage.bench;
    let mut attack = vec!["read".to_owned()];
    for name in [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".netrc",
        ".bash_history",
    ] {
        let path = bench.home().join(name);
        bench.write(&path, "SECRET-E82\n")?;
        attack.push(path.display().to_string());
    }
    let attack: Vec<&str> = attack.iter().map(String::as_str).collect();
    let saw = arena.start_attack(&attack)?.wait(PATIENCE)?.json()?;
    none_succeeded(&saw, &[])?;
    let carded = arena
        .run()
        .events()
        .iter()
        .any(|event| matches!(event.kind, EventKind::Block { .. }));
    ensure!(!carded, "a card was shown for a store of credentials");
    Ok(())
}

fn a_planted_link_leads_nowhere_for_the_cage_and_for_the_host(ground: &Ground<'_>) -> Result<()> {
    let arena = ground.fresh(&[])?;
    let (product, bench) = (arena.product(), &ground.stage.bench);
    let victim = victim(ground, "e65.txt")?;
    let folder = bench.home().join("e65-folder");
    bench.write(&folder.join("inner.txt"), "untouched\n")?;
    let script = format!(
        "set -x; ln -s '{}' to-file; ln -s '{}' to-folder; echo attack > to-file; echo attack > to-folder/inner.txt; \
         rm -rf src; ln -s '{}' src; mkdir -p .git-x; ln -sf '{}' .gitmodules; echo plain > plain.txt",
        victim.display(),
        folder.display(),
        folder.display(),
        victim.display()
    );
    arena.shell(&script)?;
    untouched(&victim)?;
    untouched(&folder.join("inner.txt"))?;
    let code = arena.finish()?;
    ensure!(code == 0, "exit code {code}: {}", arena.run().story());
    // The host reads, snapshots, restores and merges what the cage planted.
    let id = arena.id();
    let diff = product.ask(&["diff", id])?;
    ensure!(
        !diff["patch"].to_string().contains("untouched"),
        "the host followed a link: {diff}"
    );
    product.ask(&["discard", id])?;
    untouched(&victim)?;
    untouched(&folder.join("inner.txt"))?;
    product.ask(&["restore", id])?;
    let diff = product.ask(&["diff", id])?;
    let expect = diff["expect"].as_str().unwrap_or_default();
    let merged = product.call(["merge", id, "--expect", expect, "--json"])?;
    ensure!(merged.code == 0 || merged.code == 4, "{merged:?}");
    untouched(&victim)?;
    untouched(&folder.join("inner.txt"))?;
    Ok(())
}

fn a_link_swapped_between_check_and_use_leads_nowhere(ground: &Ground<'_>) -> Result<()> {
    let victim = victim(ground, "e65-race.txt")?;
    let bad = victim.display().to_string();
    ground.arena.shell("echo good > e65-good.ignored")?;
    let saw = ground.arena.attack(&[
        "swap-link",
        "e65-link.ignored",
        "e65-good.ignored",
        &bad,
        "3000",
    ])?;
    ensure!(
        saw["written"].as_u64().is_some_and(|count| count > 0),
        "the attack did nothing: {saw}"
    );
    untouched(&victim)
}

fn hard_links_to_files_outside_cannot_be_made(ground: &Ground<'_>) -> Result<()> {
    let victim = victim(ground, "e66.txt")?.display().to_string();
    for from in [
        victim.as_str(),
        "/etc/passwd",
        "/usr/bin/env",
        &ground.stage.bench.program("foreman").display().to_string(),
    ] {
        let saw = ground.arena.attack(&["link", from, "e66-linked.ignored"])?;
        ensure!(saw["ok"] == false, "{from}: {saw}");
    }
    Ok(())
}

fn a_credential_store_is_not_opened_by_a_wide_rule(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    bench.write(&bench.home().join(".ssh/id_e69"), "SECRET-E69\n")?;
    bench.write(&bench.home().join(".aws/e69"), "SECRET-E69\n")?;
    let file = bench.scratch("policy")?.join("wide.toml");
    for (rule, path) in [
        ("read", "~"),
        ("write", "~"),
        ("read", "~/.ssh"),
        ("read", "~/.ssh/id_e69"),
        ("read", "~/.aws"),
    ] {
        bench.write(&file, format!("[[{rule}]]\npath = \"{path}\"\n"))?;
        let file = file.display().to_string();
        let product = ground.stage.product()?;
        let repo = repos::plain(bench, "e69")?;
        let run = product.run(
            &repo,
            &["--policy", &file],
            &["sh", "-c", "cat ~/.ssh/id_e69 ~/.aws/e69; echo looked"],
        )?;
        let ran = run.ran()?;
        ensure!(
            !ran.stdout.contains("SECRET-E69"),
            "[[{rule}]] {path} opened it: {}",
            ran.stdout
        );
    }
    Ok(())
}

fn other_ways_to_open_a_file_end_the_same(ground: &Ground<'_>) -> Result<()> {
    let victim = victim(ground, "e70.txt")?;
    for path in [
        victim.display().to_string(),
        "/etc/passwd".to_owned(),
        "/usr/bin/env".to_owned(),
    ] {
        let saw = ground.arena.attack(&["open-ways", &path])?;
        none_succeeded(&saw, &["handle"]).or_else(|error| {
            // In the private home a new, empty file of that name is the cage's own.
            if path.starts_with(&ground.stage.bench.home().display().to_string()) {
                Ok(())
            } else {
                Err(error)
            }
        })?;
        ensure!(saw["by_handle"]["ok"] == false, "{saw}");
    }
    untouched(&victim)?;
    ensure!(!Path::new("/etc/passwd.linked").exists());
    Ok(())
}

fn device_nodes_cannot_be_made_or_found(ground: &Ground<'_>) -> Result<()> {
    let saw = ground.arena.attack(&["devices"])?;
    for name in ["null", "mem", "disk"] {
        ensure!(saw[name]["ok"] == false, "{name}: {saw}");
    }
    for device in saw["seen"].as_array().into_iter().flatten() {
        let known = [
            "null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx", "shm", "fd",
            "stdin", "stdout", "stderr", "mqueue",
        ];
        ensure!(
            known.contains(&device.as_str().unwrap_or_default()),
            "/dev has {device}"
        );
    }
    Ok(())
}

const CREDENTIALS: [&str; 22] = [
    ".ssh/id_ed25519",
    ".ssh/config",
    ".aws/credentials",
    ".azure/accessTokens.json",
    ".config/gcloud/credentials.db",
    ".netrc",
    ".git-credentials",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".kube/config",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".gnupg/private-keys-v1.d/x.key",
    ".password-store/x.gpg",
    ".mozilla/firefox/p/logins.json",
    ".config/chromium/Default/Cookies",
    ".local/share/keyrings/login.keyring",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".claude/.credentials.json",
];

fn credential_files_are_unreadable(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let mut paths = Vec::new();
    for name in CREDENTIALS {
        let path = bench.home().join(name);
        bench.write(&path, "SECRET-E82\n")?;
        paths.push(path.display().to_string());
    }
    paths.extend([
        "/etc/shadow".to_owned(),
        "/root/.ssh".to_owned(),
        "/root/.bashrc".to_owned(),
    ]);
    let mut attack = vec!["read"];
    attack.extend(paths.iter().map(String::as_str));
    let saw = ground.arena.attack(&attack)?;
    none_succeeded(&saw, &[])?;
    let reply = ground.arena.shell(&format!("timeout 60 grep -rlI SECRET-E82 '{}' /home /root /tmp /run /var /etc /srv /mnt /media 2>/dev/null", bench.home().display()))?;
    ensure!(reply.stdout.is_empty(), "found by search: {reply:?}");
    let control = ground.arena.control(&attack)?;
    ensure!(control[&paths[0]]["text"] == "SECRET-E82\n", "{control}");
    Ok(())
}

fn a_worktree_reached_by_a_link_or_dots_is_still_itself(ground: &Ground<'_>) -> Result<()> {
    let bench = &ground.stage.bench;
    let product = ground.stage.product()?;
    let repo = repos::plain(bench, "e83")?;
    let place = bench.scratch("e83")?;
    let link = place.join("link");
    std::os::unix::fs::symlink(&repo, &link)?;
    for path in [
        link.clone(),
        repo.join("../e83/src/.."),
        place.join("link/src"),
    ] {
        let run = product.run_to_end(&path, &[], &["sh", "-c", "pwd -P; echo x > x.txt"])?;
        ensure!(run.ended()? == 0, "{}", run.story());
        let view = product.show(&run.id()?)?;
        ensure!(
            view["repo"] == repo.display().to_string(),
            "{} is shown as {}",
            path.display(),
            view["repo"]
        );
    }
    // The cage cannot put something else where its worktree is.
    let reply = ground.arena.shell("here=$(pwd -P); cd /; mv \"$here\" \"$here.moved\"; rmdir \"$here\"; ln -sfn / \"$here\"; umount \"$here\"; ls -d \"$here/.git\"")?;
    ensure!(
        reply.stdout.contains(".git"),
        "the worktree was moved away: {reply:?}"
    );
    ensure!(
        ground.arena.worktree().join(".git").exists(),
        "the worktree was moved away on the host"
    );
    let reply = ground.arena.shell(
        "rm -f .git; mv .git x; echo 'gitdir: /tmp/evil' > .git; ln -sf /tmp .git; cat .git",
    )?;
    ensure!(
        !reply.stdout.contains("evil"),
        "the worktree's .git file was replaced: {reply:?}"
    );
    // A data directory whose worktrees would lie inside the repository, or lead away by a link.
    let inside = product.clone().with_data(&repo.join("inside"));
    let run = inside.run(&repo, &[], &["true"])?;
    ensure!(run.ended()? != 0, "worktrees inside a worktree were taken");
    Ok(())
}

fn another_name_for_a_tool_changes_no_verdict(ground: &Ground<'_>) -> Result<()> {
    let curl = ground.arena.shell("ln -sf \"$(command -v curl)\" ./git.ignored; cp \"$(command -v curl)\" ./npm.ignored; echo done")?;
    ensure!(curl.stdout.contains("done"), "{curl:?}");
    for (tool, host) in [
        ("./git.ignored", "e84-link.example"),
        ("./npm.ignored", "e84-copy.example"),
    ] {
        let job = ground
            .arena
            .start(&[tool, "-sS", "-m", "60", &format!("http://{host}/")])?;
        let block = ground.held(&job, &format!("tcp {host}:80"))?;
        ground.deny(&block)?;
        ensure!(job.wait(foreman_testkit::PATIENCE)?.code == 7);
        ground.nothing_with(host)?;
    }
    Ok(())
}
