//! Git: nothing that a cage writes under any `.git` takes effect on the host.

use crate::Attack;
use crate::attacks;
use crate::ground::Ground;
use anyhow::{Context, Result, ensure};
use foreman_testkit::{Arena, repos};
use std::path::{Path, PathBuf};

pub fn attacks() -> Vec<Attack> {
    attacks![
        ["E74"] hooks_written_in_the_cage_never_run_on_the_host,
        ["E75"] configuration_that_runs_programs_is_never_read_on_the_host,
        ["E75"] what_is_checked_is_what_would_be_merged,
        ["E78"] nested_repositories_are_inert,
        ["E78"] a_repository_recorded_as_a_link_is_inert,
        ["E79"] no_branch_but_the_runs_own_moves,
        ["E80"] files_that_tools_run_by_themselves_are_flagged,
    ]
}

struct Scene<'a> {
    arena: Arena<'a>,
    repo: PathBuf,
    mark: PathBuf,
    before: String,
}

fn scene<'a>(ground: &Ground<'a>, name: &str) -> Result<Scene<'a>> {
    let bench = &ground.stage.bench;
    let repo = repos::plain(bench, name)?;
    bench.shell(
        &repo,
        "git branch other; git tag fixed; git config core.hooksPath .githooks",
    )?;
    let before = repos::fingerprint(bench, &repo)?;
    let mark = bench.scratch("mark")?.join("ran-on-the-host");
    let arena = Arena::in_repository(ground.stage.product()?, &repo, &[])?;
    Ok(Scene {
        arena,
        repo,
        mark,
        before,
    })
}

impl Scene<'_> {
    /// What an operator does afterwards, with plain git and with the product; then nothing planted ran
    /// and nothing but the run's branch moved.
    fn close(self, ground: &Ground<'_>) -> Result<()> {
        let bench = &ground.stage.bench;
        let code = self.arena.finish()?;
        ensure!(code == 0, "exit code {code}: {}", self.arena.run().story());
        let product = self.arena.product();
        let id = self.arena.id();
        let tree = self.arena.worktree().to_path_buf();
        repos::unchanged(bench, &self.repo, &self.before)?;
        nothing_ran(&self.mark).context("while the run was collected")?;
        product.ask(&["diff", id])?;
        product.ask(&["discard", id])?;
        product.ask(&["restore", id])?;
        nothing_ran(&self.mark).context("by diff, discard or restore")?;
        operate(ground, &self.repo, &self.mark)?;
        operate(ground, &tree, &self.mark)?;
        let diff = product.ask(&["diff", id])?;
        let expect = diff["expect"].as_str().unwrap_or_default();
        let merged = product.call(["merge", id, "--expect", expect, "--json"])?;
        ensure!(merged.code == 0 || merged.code == 4, "{merged:?}");
        nothing_ran(&self.mark).context("by a merge")?;
        bench.shell(&self.repo, "git fsck --no-dangling 2>&1")?;
        Ok(())
    }
}

/// What an operator types.
const COMMANDS: [&str; 17] = [
    "status",
    "diff",
    "diff HEAD~1",
    "log -p -2",
    "add -n .",
    "branch -a",
    "stash list",
    "show HEAD",
    "blame file.txt",
    "checkout -q HEAD -- file.txt",
    "fetch --all",
    "submodule status",
    "grep agent",
    "archive HEAD",
    "gc --auto",
    "ls-files -m",
    "describe",
];

/// Plain git, with the configuration that the repository has on the host. The hooks folder in the tree is
/// the one way that the operator's own configuration opens; the operator's git is told not to take it, as
/// the product's own calls do.
fn operate(ground: &Ground<'_>, folder: &Path, mark: &Path) -> Result<()> {
    for command in COMMANDS {
        let script = format!("git -c core.hooksPath=/dev/null {command} >/dev/null 2>&1 || true");
        ground.stage.bench.shell(folder, &script)?;
        nothing_ran(mark)
            .with_context(|| format!("`git {command}` by the operator in {}", folder.display()))?;
    }
    Ok(())
}

fn nothing_ran(mark: &Path) -> Result<()> {
    let ran = std::fs::read_to_string(mark).unwrap_or_default();
    ensure!(ran.is_empty(), "code of the cage ran on the host: {ran}");
    Ok(())
}

fn hooks_written_in_the_cage_never_run_on_the_host(ground: &Ground<'_>) -> Result<()> {
    let scene = scene(ground, "e74")?;
    let script = format!(
        "hook() {{ mkdir -p \"$1\"; for name in {names}; do printf '#!/bin/sh\\necho $0 >> \"{mark}\"\\n' > \"$1/$name\"; chmod +x \"$1/$name\"; done; }}
         hook \"$(git rev-parse --git-common-dir)/hooks\"; hook \"$(git rev-parse --git-dir)/hooks\"; hook .githooks; hook /tmp/hooks
         git config core.hooksPath /tmp/hooks; git config --worktree core.hooksPath /tmp/hooks || true
         echo x > x.txt; git -c core.hooksPath=/dev/null add -A; git -c core.hooksPath=/dev/null commit -qm x; git log -1 --format=%s",
        names = repos::ALL_HOOKS.join(" "),
        mark = scene.mark.display()
    );
    let reply = scene.arena.shell(&script)?;
    ensure!(
        reply.stdout.contains('x'),
        "the attack could not commit: {reply:?}"
    );
    scene.close(ground)
}

fn configuration_that_runs_programs_is_never_read_on_the_host(ground: &Ground<'_>) -> Result<()> {
    let scene = scene(ground, "e75")?;
    let script = format!(
        "p='/tmp/p'; printf '#!/bin/sh\\necho $0 $@ >> \"{mark}\"\\ncat\\n' > $p; chmod +x $p; cp $p ./planted-program
         for f in \"$(git rev-parse --git-common-dir)/config\" \"$(git rev-parse --git-dir)/config.worktree\" .gitconfig ~/.gitconfig; do
         for key in core.fsmonitor core.sshCommand core.pager core.editor core.askPass core.gitProxy diff.external diff.planted.command \
           diff.planted.textconv filter.planted.clean filter.planted.smudge filter.planted.process merge.planted.driver gpg.program \
           credential.helper sequence.editor interactive.diffFilter uploadpack.packObjectsHook remote.evil.uploadpack pager.status pager.diff pager.log alias.status; do
         git config -f \"$f\" \"$key\" \"$PWD/planted-program\"; done
         git config -f \"$f\" filter.planted.required true; git config -f \"$f\" include.path \"$PWD/.gitconfig\"; git config -f \"$f\" extensions.worktreeConfig true
         git config -f \"$f\" core.worktree /; git config -f \"$f\" core.attributesFile \"$PWD/.gitattributes\"; done
         printf '* filter=planted diff=planted merge=planted\\n' > .gitattributes
         mkdir -p \"$(git rev-parse --git-common-dir)/info\"; cp .gitattributes \"$(git rev-parse --git-common-dir)/info/attributes\"
         echo 'ref: refs/heads/other' > \"$(git rev-parse --git-dir)/HEAD.evil\"; echo /tmp > \"$(git rev-parse --git-common-dir)/objects/info/alternates\"
         echo /tmp/evil > \"$(git rev-parse --git-dir)/commondir\"; echo agent > agent.txt; echo over",
        mark = scene.mark.display()
    );
    let reply = scene.arena.shell(&script)?;
    ensure!(reply.stdout.contains("over"), "{reply:?}");
    // Its own git may now be broken; that is the agent's affair. Let it leave something all the same.
    scene
        .arena
        .shell("rm -f \"$(git rev-parse --git-common-dir 2>/dev/null)/config\"; true")?;
    let bench = &ground.stage.bench;
    let _ = scene.arena.finish()?;
    repos::unchanged(bench, &scene.repo, &scene.before)?;
    operate(ground, &scene.repo, &scene.mark)?;
    operate(ground, scene.arena.worktree(), &scene.mark)?;
    let product = scene.arena.product();
    for verb in ["diff", "discard", "restore", "show"] {
        let _ = product.call([verb, scene.arena.id(), "--json"])?;
    }
    nothing_ran(&scene.mark)?;
    bench.shell(&scene.repo, "git fsck --no-dangling 2>&1")?;
    Ok(())
}

fn nested_repositories_are_inert(ground: &Ground<'_>) -> Result<()> {
    let scene = scene(ground, "e78")?;
    let script = format!(
        "for d in nested deep/er/nested lib; do mkdir -p $d; (cd $d; git init -q .; git config user.name x; git config user.email x@example.org
         printf '#!/bin/sh\\necho nested $0 >> \"{mark}\"\\n' > .git/evil; chmod +x .git/evil; for h in pre-commit post-checkout post-index-change reference-transaction; do cp .git/evil .git/hooks/$h; done
         echo y > y.txt; git -c core.hooksPath=/dev/null add -A; git -c core.hooksPath=/dev/null commit -qm y; git config core.fsmonitor \"$PWD/.git/evil\"); done
         printf '[submodule \"lib\"]\\n\\tpath = lib\\n\\turl = ext::sh -c {mark_quoted}\\n' > .gitmodules
         echo x > x.txt; git add x.txt .gitmodules; git commit -qm x; git add lib 2>/dev/null; git commit -qm lib; echo over",
        mark = scene.mark.display(),
        mark_quoted = scene.mark.display()
    );
    let reply = scene.arena.shell(&script)?;
    ensure!(reply.stdout.contains("over"), "{reply:?}");
    scene.close(ground)
}

fn a_repository_recorded_as_a_link_is_inert(ground: &Ground<'_>) -> Result<()> {
    let scene = scene(ground, "e78b")?;
    let script = format!(
        "mkdir lib; (cd lib; git init -q .; git config user.name x; git config user.email x@example.org; echo y > y.txt; git add y.txt; git commit -qm y
         printf '#!/bin/sh\\necho nested $0 >> \"{mark}\"\\n' > .git/evil; chmod +x .git/evil; git config core.fsmonitor \"$PWD/.git/evil\")
         printf '[submodule \"lib\"]\\n\\tpath = lib\\n\\turl = ./lib\\n' > .gitmodules
         git update-index --add --cacheinfo 160000,$(git -c core.fsmonitor=false -C lib rev-parse HEAD),lib; git add .gitmodules; git commit -qm lib; git ls-tree HEAD lib",
        mark = scene.mark.display()
    );
    let reply = scene.arena.shell(&script)?;
    ensure!(reply.stdout.contains("160000"), "{reply:?}");
    ensure!(scene.arena.finish()? == 0);
    operate(ground, scene.arena.worktree(), &scene.mark)?;
    operate(ground, &scene.arena.worktree().join("lib"), &scene.mark)
}

/// Each trick leaves a good file where the checks look and a bad one in the commits.
fn what_is_checked_is_what_would_be_merged(ground: &Ground<'_>) -> Result<()> {
    let product = ground.stage.product()?;
    let tricks = [
        "echo bad > file.txt; git commit -qam x; git update-index --assume-unchanged file.txt; echo good > file.txt",
        "git config filter.x.clean 'echo bad'; mkdir -p \"$(git rev-parse --git-common-dir)/info\"
         echo 'file.txt filter=x' > \"$(git rev-parse --git-common-dir)/info/attributes\"; echo good > file.txt",
        "echo good > file.txt; git commit -qam x; echo bad > file.txt; git commit -qam y; git checkout -q --detach HEAD~1",
    ];
    for trick in tricks {
        let repo = repos::plain(&ground.stage.bench, "checked")?;
        let check = ["--check", "grep -qx good file.txt"];
        let run = product.run_to_end(&repo, &check, &["sh", "-c", trick])?;
        let id = run.id()?;
        let view = product.ask(&["show", &id])?;
        let passed = view["checks"].to_string().contains("passed");
        let diff = product.ask(&["diff", &id])?["patch"].to_string();
        let would_merge_good = diff.contains("+good");
        ensure!(passed == would_merge_good, "{trick}: {view} {diff}");
    }
    Ok(())
}

fn no_branch_but_the_runs_own_moves(ground: &Ground<'_>) -> Result<()> {
    let scene = scene(ground, "e79")?;
    let script = "echo x > x.txt; git add x.txt; git commit -qm x
        git update-ref refs/heads/main HEAD; git update-ref refs/heads/other HEAD; git branch -f main HEAD; git branch -D other
        git tag -d fixed; git tag -f fixed HEAD; git update-ref refs/foreman/evil HEAD; git update-ref refs/heads/foreman/evil HEAD
        git push -q . +HEAD:refs/heads/main; git symbolic-ref HEAD refs/heads/main; git checkout -q -B main
        git reflog expire --expire=now --all; git gc -q --prune=now; git pack-refs --all; git worktree prune; git remote add x /; echo over";
    let reply = scene.arena.shell(script)?;
    ensure!(reply.stdout.contains("over"), "{reply:?}");
    let reply = scene.arena.shell("cat $(git rev-parse --git-common-dir)/objects/info/alternates | while read d; do \
        touch \"$d/evil\" && echo \"wrote $d\"; rm -rf \"$d\"/pack \"$d\"/[0-9a-f][0-9a-f]; done; true")?;
    ensure!(
        !reply.stdout.contains("wrote"),
        "the real object store can be written: {reply:?}"
    );
    let refs = ground.stage.bench.shell(
        &scene.repo,
        "git for-each-ref --format='%(refname)' refs/heads/foreman refs/foreman",
    )?;
    ensure!(!refs.contains("evil"), "{refs}");
    scene.close(ground)
}

fn files_that_tools_run_by_themselves_are_flagged(ground: &Ground<'_>) -> Result<()> {
    let scene = scene(ground, "e80")?;
    let planted = [
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".devcontainer/devcontainer.json",
        ".envrc",
        ".husky/pre-commit",
        ".mcp.json",
        ".claude/settings.json",
        ".cursor/mcp.json",
        ".codex/config.toml",
        ".githooks/pre-commit",
        "sub/.envrc",
    ];
    let script = planted
        .iter()
        .map(|path| format!("mkdir -p \"$(dirname {path})\"; echo x > {path}; "))
        .collect::<String>();
    scene.arena.shell(&(script + "echo plain > plain.txt"))?;
    ensure!(scene.arena.finish()? == 0);
    let diff = scene.arena.product().ask(&["diff", scene.arena.id()])?;
    let flags = diff["flags"].to_string();
    for path in planted {
        ensure!(flags.contains(path), "{path} is not flagged: {flags}");
    }
    ensure!(!flags.contains("plain.txt"), "{flags}");
    Ok(())
}
