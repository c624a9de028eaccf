//! What was measured to run code on the host with other layouts, as a regression suite: a run writes
//! what it can write, then everything on the host that could be fooled is used. A canary must not
//! appear.

use crate::fixture::{Run, Scratch, git, try_git, write};
use foreman_git::GitError;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const HOOKS: &[&str] = &[
    "pre-commit",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "post-rewrite",
    "update",
    "pre-receive",
    "post-receive",
    "fsmonitor-watchman",
    "pre-merge-commit",
    "prepare-commit-msg",
];

struct Attack {
    scratch: Scratch,
    run: Run,
    canary: PathBuf,
}

impl Attack {
    fn new() -> Self {
        Self::on(Scratch::new())
    }

    fn on(scratch: Scratch) -> Self {
        let canary = scratch.path("canary");
        let run = scratch.start();
        Self {
            scratch,
            run,
            canary,
        }
    }

    fn script(&self) -> String {
        format!("touch '{}'", self.canary.display())
    }

    fn plant(&self, path: &Path) {
        write(path, format!("#!/bin/sh\n{}\n", self.script()));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A configuration of nothing but programs.
    fn evil_config(&self) -> String {
        let run = self.script();
        let mut text = String::from("[core]\n\trepositoryformatversion = 0\n");
        for key in [
            "fsmonitor",
            "sshCommand",
            "pager",
            "editor",
            "askPass",
            "gitProxy",
            "alternateRefsCommand",
        ] {
            text.push_str(&format!("\t{key} = \"{run}; true\"\n"));
        }
        text.push_str("\thooksPath = hooks\n");
        for section in ["filter \"x\"", "diff \"x\"", "merge \"x\""] {
            text.push_str(&format!("[{section}]\n"));
            for key in [
                "clean", "smudge", "process", "command", "textconv", "driver",
            ] {
                text.push_str(&format!("\t{key} = \"{run}; cat\"\n"));
            }
        }
        text.push_str(&format!(
            "[gpg]\n\tprogram = \"{run}\"\n[diff]\n\texternal = \"{run}\"\n[uploadpack]\n\t\
             packObjectsHook = \"{run}; true\"\n[credential]\n\thelper = \"!{run}\"\n[alias]\n\t\
             status = \"!{run}\"\n[gc]\n\trecentObjectsHook = \"{run}\"\n[include]\n\tpath = other\n"
        ));
        text
    }

    /// Everything the host does with a run, and what an operator does in the main repository.
    fn use_everything(&self, expect_harvest: bool) {
        let Run {
            repository,
            worktree,
            ..
        } = &self.run;
        let operator = |args: &[&str]| {
            let _ = try_git(&self.scratch.repo, args);
            self.unharmed(&args.join(" "));
        };
        operator(&["status"]);
        operator(&["worktree", "list"]);
        let _ = repository.verify(worktree);
        self.unharmed("verify");
        let finish = self.run.caged(&worktree.finish_argv());
        let printed = self.run.caged(&worktree.harvest_argv());
        // What ran in the cage may have left its mark: only the host counts.
        let _ = fs::remove_file(&self.canary);
        fs::write(&self.run.file, &printed.stdout).unwrap();
        let harvest = repository.harvest(worktree, &self.run.file);
        self.unharmed("harvest");
        if expect_harvest {
            let stderr = String::from_utf8_lossy(&finish.stderr).into_owned();
            let harvest = harvest.unwrap_or_else(|error| panic!("{error} {stderr}"));
            repository.diff(worktree, &harvest.head).unwrap();
            self.unharmed("diff");
            repository.merge_refusal(worktree, &harvest.head).unwrap();
            self.unharmed("merge_refusal");
            repository
                .merge(worktree, &harvest.head, &worktree.base_commit)
                .unwrap();
            self.unharmed("merge");
        }
        operator(&["status"]);
        operator(&["checkout", "-q", "-b", "somewhere"]);
        operator(&["checkout", "-q", "main"]);
        operator(&["log", "-p", "--all"]);
        repository
            .snapshot_and_remove(&self.run.id, worktree, &self.run.shadow_dir)
            .unwrap();
        self.unharmed("snapshot_and_remove");
        repository
            .restore(&self.run.id, worktree, &self.run.shadow_dir)
            .unwrap();
        self.unharmed("restore");
        let _ = repository.verify(worktree);
        repository
            .snapshot_and_remove(&self.run.id, worktree, &self.run.shadow_dir)
            .unwrap();
        self.unharmed("snapshot_and_remove again");
        operator(&["fsck", "--strict"]);
        operator(&["gc", "-q"]);
        operator(&["status"]);
    }

    fn unharmed(&self, after: &str) {
        assert!(!self.canary.exists(), "host code ran during: {after}");
    }
}

#[test]
fn the_planted_programs_do_run_where_git_trusts_them() {
    // The control: without it, a canary that can never appear would prove nothing.
    let attack = Attack::new();
    let trusted = attack.scratch.path("trusted");
    fs::create_dir_all(&trusted).unwrap();
    git(&trusted, &["init", "-q"]);
    fs::write(trusted.join(".git/config"), attack.evil_config()).unwrap();
    let _ = try_git(&trusted, &["status"]);
    assert!(attack.canary.exists());
    fs::remove_file(&attack.canary).unwrap();
    fs::write(trusted.join(".git/config"), "").unwrap();
    attack.plant(&trusted.join(".git/hooks/reference-transaction"));
    git(&trusted, &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert!(attack.canary.exists());
}

#[test]
fn configuration_hooks_and_attributes_of_the_private_copy_never_take_effect() {
    let attack = Attack::new();
    let shadow = &attack.run.shadow_dir;
    fs::write(shadow.join("config"), attack.evil_config()).unwrap();
    write(shadow.join("other"), attack.evil_config());
    let admin = shadow.join("worktrees").join(&attack.run.worktree.admin);
    write(admin.join("config.worktree"), attack.evil_config());
    for hook in HOOKS {
        attack.plant(&shadow.join("hooks").join(hook));
        attack.plant(&attack.run.path(&format!("hooks/{hook}")));
    }
    write(
        shadow.join("info/attributes"),
        "* filter=x diff=x merge=x\n",
    );
    write(
        attack.run.path(".gitattributes"),
        "* filter=x diff=x merge=x\n",
    );
    attack.use_everything(true);
}

#[test]
fn links_in_the_private_copy_lead_nowhere() {
    let attack = Attack::new();
    let shadow = attack.run.shadow_dir.clone();
    let admin = shadow.join("worktrees").join(&attack.run.worktree.admin);
    write(
        attack.scratch.path("secret"),
        "0123456789012345678901234567890123456789 secret\n",
    );
    fs::write(
        admin.join("commondir"),
        attack.run.worktree.path.as_os_str().as_encoded_bytes(),
    )
    .unwrap();
    symlink(
        attack.scratch.path("secret"),
        shadow.join("refs/heads/secret"),
    )
    .unwrap();
    symlink("/", shadow.join("refs/heads/loop")).unwrap();
    fs::remove_dir_all(shadow.join("objects/pack")).unwrap();
    symlink(
        attack.scratch.repo.join(".git/objects/pack"),
        shadow.join("objects/pack"),
    )
    .unwrap();
    write(shadow.join("objects/info/alternates"), "/\n");
    attack.use_everything(false);
    assert!(attack.scratch.path("secret").exists());
}

#[test]
fn a_repository_in_place_of_the_git_file_is_not_used() {
    // The cage binds the file read-only; this is what would happen if it did not.
    let attack = Attack::new();
    let dot_git = attack.run.path(".git");
    fs::remove_file(&dot_git).unwrap();
    git(&attack.run.worktree.path, &["init", "-q"]);
    fs::write(dot_git.join("config"), attack.evil_config()).unwrap();
    for hook in HOOKS {
        attack.plant(&dot_git.join("hooks").join(hook));
    }
    let Run {
        id,
        repository,
        worktree,
        shadow_dir,
        ..
    } = &attack.run;
    assert_eq!(repository.verify(worktree).len(), 1);
    fs::write(
        &attack.run.file,
        format!("head {}\nnone\n", worktree.base_commit),
    )
    .unwrap();
    repository.harvest(worktree, &attack.run.file).unwrap();
    repository.diff(worktree, &worktree.base_commit).unwrap();
    git(&attack.scratch.repo, &["status"]);
    repository
        .snapshot_and_remove(id, worktree, shadow_dir)
        .unwrap();
    repository.restore(id, worktree, shadow_dir).unwrap();
    attack.unharmed("everything");
}

#[test]
fn nested_repositories_at_any_depth_stay_inert() {
    let attack = Attack::new();
    for below in ["sub", "a/b/c/sub", "ignored/sub"] {
        let nested = attack.run.path(below);
        fs::create_dir_all(&nested).unwrap();
        git(&nested, &["init", "-q"]);
        write(nested.join("file"), "x");
        git(&nested, &["add", "."]);
        git(&nested, &["commit", "-q", "-m", "x"]);
        fs::write(nested.join(".git/config"), attack.evil_config()).unwrap();
        for hook in HOOKS {
            attack.plant(&nested.join(".git/hooks").join(hook));
        }
    }
    // Also as submodules that name programs and places.
    write(
        attack.run.path(".gitmodules"),
        format!(
            "[submodule \"x\"]\n\tpath = sub\n\turl = -u./x\n\tupdate = !{}\n",
            attack.script()
        ),
    );
    attack.use_everything(false);
}

#[test]
fn a_nested_repository_recorded_as_a_link_runs_nothing_for_the_operator() {
    let attack = Attack::new();
    let nested = attack.run.path("a/lib");
    fs::create_dir_all(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    write(nested.join("file"), "x");
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "-q", "-m", "x"]);
    write(attack.run.path("b/.git"), "gitdir: ../a/lib/.git\n");
    fs::write(nested.join(".git/config"), attack.evil_config()).unwrap();
    let closed = attack.run.path("a");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o111)).unwrap();
    let worktree = &attack.run.worktree;
    let said = worktree.take_nested_repositories_out_of_use().unwrap();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        worktree
            .take_nested_repositories_out_of_use()
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        fs::metadata(&closed).unwrap().permissions().mode() & 0o777,
        0o111
    );
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).unwrap();
    // The index names the nested repository as a link, so that git would look into it.
    let link = format!("160000,{},a/lib", attack.run.worktree.base_commit);
    git(
        &worktree.path,
        &["update-index", "--add", "--cacheinfo", &link],
    );
    for folder in [&worktree.path, &nested, &worktree.path.join("b")] {
        let _ = try_git(folder, &["status"]);
        let _ = try_git(folder, &["diff"]);
        attack.unharmed(&format!("git in {}", folder.display()));
    }
}

#[test]
fn a_repository_put_into_a_submodules_folder_runs_nothing_while_the_run_goes_on() {
    let scratch = Scratch::new();
    let link = format!("160000,{},lib", git(&scratch.repo, &["rev-parse", "HEAD"]));
    git(
        &scratch.repo,
        &["update-index", "--add", "--cacheinfo", &link],
    );
    git(&scratch.repo, &["commit", "-q", "-m", "link"]);
    let attack = Attack::on(scratch);
    let nested = attack.run.path("lib");
    fs::create_dir_all(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    write(nested.join("file"), "x");
    git(&nested, &["add", "."]);
    git(&nested, &["commit", "-q", "-m", "x"]);
    fs::write(nested.join(".git/config"), attack.evil_config()).unwrap();
    for args in [
        &["status"][..],
        &["diff"],
        &["diff", "HEAD"],
        &["add", "-n", "."],
    ] {
        let _ = try_git(&attack.run.worktree.path, args);
        attack.unharmed(&format!("{args:?} in the worktree"));
    }
    // Inside, the submodule is what it was.
    let listed = attack.run.agent("git ls-files -t lib");
    assert_eq!(listed, "H lib");
    let harvest = attack.run.collect();
    let kept = git(&attack.scratch.repo, &["ls-tree", &harvest.head, "lib"]);
    assert!(kept.starts_with("160000"), "{kept}");
}

#[test]
fn hooks_in_the_tree_are_never_the_runs() {
    let scratch = Scratch::new();
    write(scratch.repo.join(".husky/.keep"), "");
    scratch.commit("husky");
    git(&scratch.repo, &["config", "core.hooksPath", ".husky"]);
    let attack = Attack::on(scratch);
    for hook in HOOKS {
        attack.plant(&attack.run.shadow_dir.join("foreman-hooks").join(hook));
    }
    // The operator looks around in the worktree itself, too.
    for args in [
        &["status"][..],
        &["add", "-A"],
        &["reset", "-q"],
        &["checkout", "-q", "."],
    ] {
        let _ = try_git(&attack.run.worktree.path, args);
        attack.unharmed(&format!("{args:?} in the worktree"));
    }
    let Run {
        repository,
        worktree,
        file,
        ..
    } = &attack.run;
    attack.run.caged(&worktree.finish_argv());
    let printed = attack.run.caged(&worktree.harvest_argv());
    let _ = fs::remove_file(&attack.canary);
    fs::write(file, printed.stdout).unwrap();
    let head = repository.harvest(worktree, file).unwrap().head;
    let _ = try_git(&worktree.path, &["status"]);
    attack.unharmed("status after the harvest");
    let flags = repository.diff(worktree, &head).unwrap().flags;
    assert!(
        flags.iter().any(|flag| flag.contains(".husky/pre-commit")),
        "{flags:?}"
    );
    // Merging brings reviewed hooks into the operator's tree, but runs none of them itself.
    repository
        .merge(worktree, &head, &worktree.base_commit)
        .unwrap();
    attack.unharmed("merge");
}

#[test]
fn files_that_load_themselves_are_flagged() {
    let attack = Attack::new();
    for path in [
        ".vscode/tasks.json",
        ".idea/x.xml",
        ".devcontainer/devcontainer.json",
        ".envrc",
        ".husky/pre-commit",
        ".mcp.json",
        ".claude/settings.json",
        ".cursor/mcp.json",
        ".codex/config.toml",
        ".github/workflows/x.yml",
        "deep/.vscode/settings.json",
    ] {
        write(attack.run.path(path), "x");
    }
    write(attack.run.path(".gitattributes"), "*.c filter=x\n");
    write(
        attack.run.path(".gitmodules"),
        "[submodule \"x\"]\n\tpath = x\n\turl = ./y\n",
    );
    let harvest = attack.run.collect();
    let flags = attack
        .run
        .repository
        .diff(&attack.run.worktree, &harvest.head)
        .unwrap()
        .flags;
    for name in [
        ".vscode",
        ".idea",
        ".devcontainer",
        ".envrc",
        ".husky",
        ".mcp.json",
        ".claude",
        ".cursor",
        ".codex",
        ".github/workflows",
        "deep/.vscode",
        ".gitattributes",
        ".gitmodules",
    ] {
        assert!(
            flags.iter().any(|flag| flag.contains(name)),
            "{name}: {flags:?}"
        );
    }
}

#[test]
fn files_that_load_themselves_and_are_in_no_commit_are_told_too() {
    let attack = Attack::new();
    // The run chooses what git ignores; what it ignores is not committed for it either.
    write(
        attack.run.path(".gitignore"),
        ".vscode/\n.envrc\nnode_modules/\nsub/\n",
    );
    for path in [
        ".vscode/tasks.json",
        ".envrc",
        "sub/.IDEA/x.xml",
        "node_modules/of-others/.vscode/settings.json",
    ] {
        write(attack.run.path(path), "x");
    }
    write(attack.run.path(".husky/pre-commit"), "committed");
    let harvest = attack.run.collect();
    let diff = attack
        .run
        .repository
        .diff(&attack.run.worktree, &harvest.head)
        .unwrap();
    let expected = [".envrc", ".vscode/tasks.json", "sub/.IDEA/x.xml"];
    assert_eq!(diff.uncommitted.len(), expected.len(), "{diff:?}");
    for (said, path) in diff.uncommitted.iter().zip(expected) {
        let begins = format!("{path} lies in the worktree and in no commit (");
        assert!(said.starts_with(&begins), "{said}");
    }
    // No merge takes them over, so they do not speak against one.
    assert!(!diff.flags.iter().any(|flag| flag.contains(".envrc")));
}

#[test]
fn a_forged_harvest_file_is_refused_and_nothing_of_it_stays() {
    let attack = Attack::new();
    attack.run.agent("echo x >x; git add x; git commit -qm x");
    attack.run.finish();
    let good = fs::read(&attack.run.file).unwrap();
    let Run {
        repository,
        worktree,
        file,
        ..
    } = &attack.run;
    let head = String::from_utf8_lossy(&good[5..45]).into_owned();
    let base = worktree.base_commit.clone();
    let replaced = |from: &str, to: &str| {
        assert_eq!(from.len(), to.len());
        let mut bytes = good.clone();
        let at = bytes
            .windows(from.len())
            .position(|w| w == from.as_bytes())
            .unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        bytes
    };
    let mut flipped = good.clone();
    let middle = good.len() - 30;
    flipped[middle] ^= 0x40;
    let mut trailing = format!("head {base}\nnone\n").into_bytes();
    trailing.push(b'x');
    let forged: Vec<(&str, Vec<u8>)> = vec![
        ("empty", vec![]),
        ("no line end", b"head ".repeat(1000)),
        ("cut", good[..good.len() - 10].to_vec()),
        ("bit flipped", flipped),
        ("other head", replaced(&head, &base)),
        (
            "other ref",
            replaced("refs/foreman/harvest", "refs/heads/aaa/bbbbb"),
        ),
        ("other version", replaced("# v2 git", "# v3 git")),
        (
            "unknown prerequisite",
            replaced(&format!("-{base}"), &format!("-{}", "1".repeat(40))),
        ),
        ("more after none", trailing),
        (
            "option as ref",
            replaced("refs/foreman/harvest", "--upload-pack=xxxxxx"),
        ),
        (
            "missing commit",
            format!("head {}\nnone\n", "2".repeat(40))
                .replace("none", "bundle")
                .into_bytes(),
        ),
        (
            "many notes",
            format!("head {base}\n{}none\n", "note branch\n".repeat(9)).into_bytes(),
        ),
        (
            "path as note",
            format!("head {base}\nnote ../../x\nnone\n").into_bytes(),
        ),
    ];
    let objects = || git(&attack.scratch.repo, &["count-objects", "-v"]);
    let before = objects();
    for (name, bytes) in forged {
        fs::write(file, &bytes).unwrap();
        let error = repository.harvest(worktree, file).unwrap_err();
        assert!(
            matches!(error, GitError::BadHarvest { .. }),
            "{name}: {error}"
        );
        assert_eq!(
            git(&attack.scratch.repo, &["rev-parse", &worktree.branch]),
            base,
            "{name}"
        );
        assert_eq!(objects(), before, "{name}");
    }
    fs::remove_file(file).unwrap();
    symlink("/dev/zero", file).unwrap();
    assert!(repository.harvest(worktree, file).is_err());
    fs::remove_file(file).unwrap();
    fs::write(file, good).unwrap();
    assert_eq!(repository.harvest(worktree, file).unwrap().head, head);
    let left: Vec<_> = fs::read_dir(attack.scratch.repo.join(".git/objects"))
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn objects_that_git_calls_an_attack_are_refused() {
    let attack = Attack::new();
    // A tree with an entry `.git`, and one with `..`: made by hand, as git itself refuses to.
    for name in [".git", ".."] {
        attack.run.agent(&format!(
            "b=$(echo evil | git hash-object -w --stdin)
             t=$(printf '100644 blob %s\t{name}\n' $b | git mktree)
             git update-ref HEAD $(git commit-tree $t -p HEAD -m evil)"
        ));
        attack.run.print_bundle();
        let error = attack
            .run
            .repository
            .harvest(&attack.run.worktree, &attack.run.file)
            .unwrap_err();
        assert!(matches!(error, GitError::BadHarvest { .. }), "{error}");
        attack.run.agent("git update-ref HEAD main");
    }
    attack.unharmed("harvest");
    git(&attack.scratch.repo, &["fsck", "--strict"]);
}

#[test]
fn grafts_replacements_and_false_shallows_hide_nothing() {
    let attack = Attack::new();
    attack.run.agent(
        "echo x >x; git add x; git commit -qm one; echo y >y; git add y; git commit -qm two
         git replace HEAD~1 main; c=$(git rev-parse --git-common-dir)
         git rev-parse HEAD >\"$c/info/grafts\"; git rev-parse HEAD >\"$c/shallow\"",
    );
    attack.run.print_bundle();
    // Either whole or refused; never a branch with a hole.
    match attack
        .run
        .repository
        .harvest(&attack.run.worktree, &attack.run.file)
    {
        Ok(harvest) => assert_eq!(harvest.commits, 2),
        Err(error) => assert!(matches!(error, GitError::BadHarvest { .. }), "{error}"),
    }
    git(&attack.scratch.repo, &["fsck", "--strict"]);
}

#[test]
fn refs_of_the_operator_do_not_move_whatever_the_run_does_to_its_copy() {
    let attack = Attack::new();
    let main = git(&attack.scratch.repo, &["rev-parse", "main"]);
    attack.run.agent(
        "echo x >x; git add x; git commit -qm x; git update-ref refs/heads/main HEAD
         git tag evil; git update-ref refs/remotes/origin/main HEAD; git branch -q other",
    );
    attack.run.collect();
    assert_eq!(git(&attack.scratch.repo, &["rev-parse", "main"]), main);
    let refs = git(
        &attack.scratch.repo,
        &["for-each-ref", "--format=%(refname)"],
    );
    let expected = format!(
        "refs/foreman/{}/head\nrefs/heads/{}\nrefs/heads/main",
        attack.run.id, attack.run.worktree.branch
    );
    assert_eq!(refs, expected);
}

/// What the run told git about its files must not make the commits differ from what was tried: each of
/// these left a good file in the tree and a bad one in the commit.
#[test]
fn the_commits_hold_what_lies_in_the_worktree() {
    let tricks = [
        // Flags of the index.
        "echo bad >a.txt; git commit -qam x; git update-index --assume-unchanged a.txt; echo good >a.txt",
        "echo bad >a.txt; git commit -qam x; git update-index --skip-worktree a.txt; echo good >a.txt",
        // Times that fit.
        "git config core.trustctime false; git config core.checkStat minimal
         echo bad! >a.txt; touch -d 2020-01-01 a.txt; git commit -qam x; git update-index --refresh
         echo good >a.txt; touch -d 2020-01-01 a.txt",
        // A filter of the private copy.
        "git config filter.x.clean 'echo bad'; mkdir -p \"$(git rev-parse --git-common-dir)/info\"
         echo 'a.txt filter=x' >\"$(git rev-parse --git-common-dir)/info/attributes\"; echo good >a.txt",
        // A file that only the private copy ignores.
        "git rm -q --cached a.txt; mkdir -p \"$(git rev-parse --git-common-dir)/info\"
         echo '*.txt' >\"$(git rev-parse --git-common-dir)/info/exclude\"; echo good >a.txt",
        // Standing on an older commit than the branch.
        "echo good >a.txt; git commit -qam good; echo bad >a.txt; git commit -qam bad; git checkout -q --detach HEAD~1",
        // What the closing steps write to.
        "d=\"$(git rev-parse --git-dir)\"; mkfifo \"$d/foreman-add\" \"$d/foreman-known\"; mkdir \"$d/foreman-index\"; echo good >a.txt",
        "mv \"$(git rev-parse --git-common-dir)/foreman-pristine\" /tmp/x || rm -rf \"$(git rev-parse --git-common-dir)/foreman-pristine\" || echo good >a.txt",
    ];
    for trick in tricks {
        let scratch = Scratch::new();
        let run = scratch.start();
        run.agent(trick);
        let harvest = run.collect();
        let shown = format!("{}:a.txt", harvest.head);
        let committed = git(&scratch.repo, &["show", &shown]);
        let lies_there = fs::read_to_string(run.path("a.txt")).unwrap();
        assert_eq!(committed, lies_there.trim_end(), "{trick}");
    }
}

#[test]
fn pipes_and_devices_where_git_reads_keep_no_closing_step_waiting() {
    let places = [
        "$c/config",
        "$c/packed-refs",
        "$c/HEAD",
        "$c/objects/info/alternates",
        "$d/HEAD",
        "$d/commondir",
        "$d/index",
        ".gitignore",
        "src/.gitattributes",
        ".gitmodules",
    ];
    for place in places {
        for make in [
            "mkfifo",
            "ln -s /dev/zero",
            "mkfifo \"$c/pipe\"; ln -s \"$c/pipe\"",
        ] {
            let scratch = Scratch::new();
            let run = scratch.start();
            let script = format!(
                "c=\"$(git rev-parse --git-common-dir)\"; d=\"$(git rev-parse --git-dir)\"
                 echo work >work; rm -f \"{place}\"; {make} \"{place}\""
            );
            run.agent(&script);
            let mut argv = vec!["timeout".to_owned(), "20".to_owned()];
            argv.extend(run.worktree.finish_argv());
            let finished = run.caged(&argv);
            assert_ne!(finished.status.code(), Some(124), "{make} {place}");
            let mut argv = vec!["timeout".to_owned(), "20".to_owned()];
            argv.extend(run.worktree.harvest_argv());
            let printed = run.caged(&argv);
            assert_ne!(printed.status.code(), Some(124), "{make} {place}");
            fs::write(&run.file, printed.stdout).unwrap();
            let harvest = run.repository.harvest(&run.worktree, &run.file);
            let said = String::from_utf8_lossy(&printed.stderr);
            let harvest = harvest.unwrap_or_else(|error| panic!("{make} {place}: {error} {said}"));
            let shown = format!("{}:work", harvest.head);
            assert_eq!(
                git(&scratch.repo, &["show", &shown]),
                "work",
                "{make} {place}: {}",
                String::from_utf8_lossy(&finished.stderr)
            );
        }
    }
}

#[test]
fn files_left_out_of_a_sparse_checkout_and_forced_ones_are_collected() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent(
        "git sparse-checkout set --no-cone /src; test ! -e run.sh; echo x >src/new; \
         mkdir -p src/ignored; echo y >src/ignored/forced; git add -f src/ignored/forced",
    );
    let head = run.collect().head;
    let listed = git(&scratch.repo, &["ls-tree", "-r", "--name-only", &head]);
    for name in ["run.sh", "a.txt", "src/new", "src/ignored/forced"] {
        assert!(listed.lines().any(|line| line == name), "{name}: {listed}");
    }
}

#[test]
fn text_that_an_attribute_keeps_from_being_shown_is_flagged() {
    let scratch = Scratch::new();
    write(scratch.repo.join(".gitattributes"), "*.txt -diff\n");
    scratch.commit("attributes");
    let run = scratch.start();
    run.agent("echo more >>a.txt; printf 'a\\0b' >b.txt; echo more >>src/lib.rs");
    let head = run.collect().head;
    let flags = run.repository.diff(&run.worktree, &head).unwrap().flags;
    let hidden: Vec<_> = flags
        .iter()
        .filter(|flag| flag.contains("is text"))
        .collect();
    assert_eq!(hidden.len(), 1, "{flags:?}");
    assert!(hidden[0].starts_with("a.txt "), "{flags:?}");
}
