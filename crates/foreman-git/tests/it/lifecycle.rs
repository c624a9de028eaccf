//! From a base commit to collected commits.

use crate::fixture::{Run, Scratch, git, run_id, write};
use foreman_git::GitError;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_new_worktree_is_its_base_commit_and_knows_no_upstream() {
    let scratch = Scratch::new();
    let run = scratch.start();
    assert_eq!(git(&run.worktree.path, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&run.worktree.path, &["rev-parse", "HEAD"]),
        run.pre.base_commit
    );
    assert_eq!(
        git(&run.worktree.path, &["symbolic-ref", "HEAD"]),
        format!("refs/heads/foreman/{}", run.id)
    );
    assert!(
        !crate::fixture::try_git(&run.worktree.path, &["rev-parse", "@{u}"])
            .status
            .success()
    );
    assert!(run.pre.warnings.is_empty(), "{:?}", run.pre.warnings);
    assert!(run.repository.verify(&run.worktree).is_empty());
    git(&scratch.repo, &["fsck", "--strict"]);
}

#[test]
fn the_closing_steps_have_nothing_to_say_about_an_ordinary_run() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent("echo four >>a.txt; git commit -qam four; echo five >>a.txt; echo new >new.txt");
    for step in [run.worktree.finish_argv(), run.worktree.harvest_argv()] {
        // The distribution's git, which is often older than another in the PATH.
        let mut argv = vec!["env".to_owned(), "PATH=/usr/bin:/bin".to_owned()];
        argv.extend(step);
        let output = run.caged(&argv);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

#[test]
fn the_agent_commits_branches_stashes_and_rebases_on_a_private_copy() {
    let scratch = Scratch::new();
    let run = scratch.start();
    let before = git(&scratch.repo, &["for-each-ref"]);
    let status = run.agent("git status --porcelain; git log --oneline | wc -l");
    assert_eq!(status, "1");
    run.agent(
        "echo four >>a.txt; git commit -qam four
         git switch -qc side; echo side >side.txt; git add .; git commit -qm side
         echo dirt >>a.txt; git stash -q; git stash pop -q; git checkout -q a.txt
         git switch -q -; git tag v1; git rebase -q side; git branch -D side
         git config alias.x status; git gc -q; git fsck",
    );
    assert_eq!(
        run.agent("git log -1 --format='%an <%ae>'"),
        "Operator Ä <operator@example.org>"
    );
    let refused = run.caged(&["sh", "-c", "rm -f .git || mv .git x || echo kept"]);
    assert!(String::from_utf8_lossy(&refused.stdout).contains("kept"));
    let locked = run.caged(&["sh", "-c", "touch /run/foreman/objects/0/x || echo locked"]);
    assert!(String::from_utf8_lossy(&locked.stdout).contains("locked"));
    assert_eq!(git(&scratch.repo, &["for-each-ref"]), before);

    let harvest = run.collect();
    assert_eq!(harvest.commits, 2);
    assert!(!harvest.finished_by_us);
    assert!(harvest.warnings.is_empty(), "{:?}", harvest.warnings);
    assert_eq!(
        git(&scratch.repo, &["rev-parse", &run.worktree.branch]),
        harvest.head
    );
    assert_eq!(git(&run.worktree.path, &["status", "--porcelain"]), "");
    git(&scratch.repo, &["fsck", "--strict"]);
}

#[test]
fn leftovers_are_committed_and_ignored_files_are_not() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent(
        "echo new >new.txt; rm a.txt; mkdir ignored; echo x >ignored/x; echo y >y.log
         touch \"$(git rev-parse --git-dir)/index.lock\"; chmod -x run.sh; ln -s /etc/passwd link",
    );
    let harvest = run.collect();
    assert!(harvest.finished_by_us);
    assert_eq!(harvest.commits, 1);
    let diff = run.repository.diff(&run.worktree, &harvest.head).unwrap();
    let mut files: Vec<_> = diff
        .files
        .iter()
        .map(|file| format!("{} {}", file.change, file.path))
        .collect();
    files.sort();
    assert_eq!(
        files,
        [
            "added link",
            "added new.txt",
            "deleted a.txt",
            "mode run.sh"
        ]
    );
    assert!(
        diff.flags
            .iter()
            .any(|flag| flag.contains("link is a symbolic link out"))
    );
    assert_eq!(
        git(&scratch.repo, &["log", "-1", "--format=%s", &harvest.head]),
        format!("foreman: uncommitted work of run {}", run.id)
    );
    // Again, as after a crash: the same place.
    assert_eq!(
        run.repository
            .harvest(&run.worktree, &run.file)
            .unwrap()
            .head,
        harvest.head
    );
    run.finish();
    assert_eq!(
        run.repository
            .harvest(&run.worktree, &run.file)
            .unwrap()
            .head,
        harvest.head
    );
}

#[test]
fn a_run_that_did_nothing_has_nothing_to_collect() {
    let scratch = Scratch::new();
    let run = scratch.start();
    let harvest = run.collect();
    assert_eq!(
        (harvest.head.as_str(), harvest.commits),
        (run.pre.base_commit.as_str(), 0)
    );
    assert_eq!(
        fs::read_to_string(&run.file).unwrap(),
        format!("head {}\nnone\n", harvest.head)
    );
}

#[test]
fn work_is_collected_from_wherever_the_run_ended() {
    let scratch = Scratch::new();
    // On another branch, with the own one behind.
    let run = scratch.start();
    run.agent("git switch -qc other; echo x >x; git add .; git commit -qm x; echo y >y");
    let harvest = run.collect();
    assert_eq!(harvest.commits, 2);
    // Back on main, with the own branch ahead.
    let run = scratch.start();
    run.agent("echo x >x; git add .; git commit -qm x; git checkout -q --detach main");
    let harvest = run.collect();
    assert_eq!(harvest.commits, 1);
    assert_eq!(harvest.warnings.len(), 1);
    // In the middle of a conflict.
    let run = scratch.start();
    run.agent(
        "git switch -qc one; echo one >a.txt; git commit -qam one
         git switch -q -; echo two >a.txt; git commit -qam two; ! git merge -q one >/dev/null",
    );
    let harvest = run.collect();
    assert!(harvest.finished_by_us);
    assert_eq!(harvest.commits, 3);
    // In the middle of a rebase.
    let run = scratch.start();
    run.agent(
        "git switch -qc one; echo one >a.txt; git commit -qam one
         git switch -q -; echo two >a.txt; git commit -qam two; ! git rebase -q one 2>/dev/null",
    );
    let harvest = run.collect();
    assert!(harvest.finished_by_us);
    // With an orphan branch, or the own branch deleted.
    let run = scratch.start();
    run.agent("git switch -q --orphan new; echo x >x");
    let harvest = run.collect();
    assert!(harvest.finished_by_us);
    assert!(
        harvest
            .warnings
            .iter()
            .any(|warning| warning.contains("do not build on"))
    );
    let run = scratch.start();
    run.agent("git update-ref -d HEAD; echo x >x");
    assert_eq!(run.collect().commits, 1);
}

#[test]
fn nested_repositories_are_collected_as_files() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent(
        "mkdir -p 'sub one/deep' empty ignored
         git init -q 'sub one'; echo x >'sub one/deep/x'
         git init -q empty; git init -q ignored/r; echo n >ignored/r/n
         git clone -q . cloned; git add cloned 2>/dev/null; git commit -qm cloned
         printf '!.*\\n' >>.gitignore",
    );
    let harvest = run.collect();
    let listed = git(
        &scratch.repo,
        &["ls-tree", "-r", "--name-only", &harvest.head],
    );
    assert!(listed.contains("sub one/deep/x"), "{listed}");
    assert!(listed.contains("cloned/src/lib.rs"), "{listed}");
    assert!(
        !listed.contains(".git-foreman") && !listed.contains("ignored"),
        "{listed}"
    );
    assert!(run.path("sub one/.git").is_dir() && run.path("cloned/.git").is_dir());
    let flags = run
        .repository
        .diff(&run.worktree, &harvest.head)
        .unwrap()
        .flags;
    assert!(
        flags
            .iter()
            .any(|flag| flag.starts_with("sub one is a repository")),
        "{flags:?}"
    );
}

#[test]
fn a_broken_private_copy_does_not_lose_the_work() {
    let scratch = Scratch::new();
    for damage in [
        "printf '[core\\n' >\"$c/config\"",
        "git config filter.x.clean false; git config filter.x.required true
         echo '*.txt filter=x' >.gitattributes",
        "git config core.hooksPath hooks; git config commit.gpgsign true; git config core.bare true",
        "echo junk >\"$g/index\"",
        "rm -f \"$c/HEAD\"",
        "echo junk >\"$g/HEAD\"",
        "touch \"$c/packed-refs.lock\" \"$g/HEAD.lock\" \"$c/refs/heads/foreman/x.lock\"",
    ] {
        let run = scratch.start();
        run.agent(&format!(
            "c=$(git rev-parse --path-format=absolute --git-common-dir)
             g=$(git rev-parse --absolute-git-dir); mkdir -p \"$c/refs/heads/foreman\"
             echo work >work.txt; {damage}"
        ));
        let harvest = run.collect();
        let listed = git(
            &scratch.repo,
            &["ls-tree", "-r", "--name-only", &harvest.head],
        );
        assert!(listed.contains("work.txt"), "{damage}: {listed}");
        assert!(listed.contains("src/lib.rs"), "{damage}: {listed}");
    }
}

#[test]
fn a_branch_moved_by_hand_is_left_alone_and_the_commits_are_kept() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent("echo x >x");
    let other = scratch.commit("elsewhere");
    git(
        &scratch.repo,
        &[
            "update-ref",
            &format!("refs/heads/{}", run.worktree.branch),
            &other,
        ],
    );
    run.finish();
    let error = run
        .repository
        .harvest(&run.worktree, &run.file)
        .unwrap_err();
    let GitError::BranchMoved { found, kept, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(found, &other);
    git(
        &scratch.repo,
        &["cat-file", "-e", &format!("{kept}^{{commit}}")],
    );
    assert_eq!(run.repository.verify(&run.worktree).len(), 1);
}

#[test]
fn a_name_clash_is_refused_and_nothing_is_left() {
    let scratch = Scratch::new();
    let repository = scratch.open();
    let pre = repository.preflight(None).unwrap();
    let at = scratch.path("data/worktrees/x");
    git(&scratch.repo, &["branch", "foreman"]);
    let error = repository
        .create_worktree(&run_id(), &pre, &at)
        .unwrap_err();
    assert!(matches!(error, GitError::BranchClash { .. }), "{error}");
    git(&scratch.repo, &["branch", "-D", "foreman"]);
    let id = run_id();
    git(&scratch.repo, &["branch", &format!("foreman/{id}")]);
    let error = repository.create_worktree(&id, &pre, &at).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    assert!(!at.exists() && !scratch.repo.join(".git/worktrees").exists());
    for place in [
        scratch.repo.join("inside"),
        scratch.repo.join(".git/inside"),
    ] {
        let error = repository
            .create_worktree(&run_id(), &pre, &place)
            .unwrap_err();
        assert!(matches!(error, GitError::BadPlace { .. }), "{error}");
    }
}

#[test]
fn a_failed_check_out_takes_everything_back() {
    let scratch = Scratch::new();
    let repository = scratch.open();
    let pre = repository.preflight(None).unwrap();
    let blob = git(&scratch.repo, &["rev-parse", "HEAD:a.txt"]);
    fs::remove_file(
        scratch
            .repo
            .join(".git/objects")
            .join(&blob[..2])
            .join(&blob[2..]),
    )
    .unwrap();
    let at = scratch.path("data/worktrees/x");
    let error = repository
        .create_worktree(&run_id(), &pre, &at)
        .unwrap_err();
    assert!(matches!(error, GitError::Corrupt { .. }), "{error:?}");
    assert!(!at.exists());
    assert!(!scratch.repo.join(".git/worktrees").exists());
    assert_eq!(git(&scratch.repo, &["branch", "--list", "foreman/*"]), "");
}

#[test]
fn twenty_worktrees_are_made_at_the_same_time() {
    let scratch = Scratch::new();
    let repository = scratch.open();
    let pre = repository.preflight(None).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let (repository, pre) = (repository.clone(), pre.clone());
            let data = scratch.path("data");
            scope.spawn(move || {
                let id = run_id();
                let at = data.join("worktrees").join(id.as_str());
                let worktree = repository.create_worktree(&id, &pre, &at).unwrap();
                repository
                    .shadow(&worktree, &data.join("shadows").join(id.as_str()))
                    .unwrap();
            });
        }
    });
    assert_eq!(
        git(&scratch.repo, &["branch", "--list", "foreman/*"])
            .lines()
            .count(),
        20
    );
    assert_eq!(
        git(&scratch.repo, &["worktree", "list"]).lines().count(),
        21
    );
    git(&scratch.repo, &["fsck", "--strict"]);
}

#[test]
fn ten_thousand_files_and_refs_are_no_obstacle() {
    let scratch = Scratch::empty("repo");
    for folder in 0..100 {
        for file in 0..100 {
            write(
                scratch.repo.join(format!("d{folder}/f{file}.txt")),
                format!("{folder} {file}\n"),
            );
        }
    }
    let head = scratch.commit("many");
    let mut packed = String::from("# pack-refs with: peeled fully-peeled sorted \n");
    for number in 0..10_000 {
        packed.push_str(&format!("{head} refs/heads/b{number:05}\n"));
    }
    // Git may have packed the branch itself after so many objects.
    packed.push_str(&format!("{head} refs/heads/main\n"));
    fs::write(scratch.repo.join(".git/packed-refs"), packed).unwrap();
    let repository = scratch.open();
    let pre = repository.preflight(None).unwrap();
    let id = run_id();
    let worktree = repository
        .create_worktree(&id, &pre, &scratch.path("data/worktrees/w"))
        .unwrap();
    let shadow = repository
        .shadow(&worktree, &scratch.path("data/shadow"))
        .unwrap();
    let run = Run {
        id,
        pre,
        shadow_dir: scratch.path("data/shadow"),
        file: scratch.path("data/bundle"),
        repository,
        worktree,
        shadow,
    };
    assert_eq!(
        run.agent("git status --porcelain | wc -l; git branch | wc -l"),
        "0\n10002"
    );
}

#[test]
fn files_that_belong_to_the_payloads_user_are_no_hindrance_to_root() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root gives the worktree to another user");
        return;
    }
    let scratch = Scratch::new();
    let run = scratch.start();
    crate::fixture::give_away(&run.worktree.path);
    crate::fixture::give_away(&run.shadow_dir);
    for folder in run
        .worktree
        .path
        .ancestors()
        .skip(1)
        .chain([scratch.repo.as_path()])
    {
        if folder.starts_with(scratch.path("")) {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let other = |argv: &[&str]| {
        let output = run.caged_as_other(argv);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    };
    other(&[
        "sh",
        "-euc",
        "git status; echo x >x; git add x; git commit -qm x; echo y >y",
    ]);
    let steps = |argv: Vec<String>| other(&argv.iter().map(String::as_str).collect::<Vec<_>>());
    steps(run.worktree.finish_argv());
    fs::write(&run.file, steps(run.worktree.harvest_argv())).unwrap();
    let harvest = run.repository.harvest(&run.worktree, &run.file).unwrap();
    assert_eq!(harvest.commits, 2);
    run.repository.diff(&run.worktree, &harvest.head).unwrap();
    run.repository
        .merge(&run.worktree, &harvest.head, &run.pre.base_commit)
        .unwrap();
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    run.repository
        .restore(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert!(run.repository.verify(&run.worktree).is_empty());
}
