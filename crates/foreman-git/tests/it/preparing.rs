//! Making a run's worktree ready, and taking back one that nothing was started in.

use crate::fixture::{Run, Scratch, git, write};
use foreman_domain::Code;
use foreman_git::GitError;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn with_submodule() -> (Scratch, Scratch) {
    let library = Scratch::named("library");
    symlink("a.txt", library.repo.join("link")).unwrap();
    library.commit("link");
    let scratch = Scratch::new();
    let address = library.repo.to_str().unwrap();
    git(
        &scratch.repo,
        &[
            "submodule",
            "add",
            "-q",
            "--name",
            "the-lib",
            address,
            "vendor/lib",
        ],
    );
    scratch.commit("submodule");
    (scratch, library)
}

#[test]
fn submodules_are_filled_from_the_local_store_without_network_or_hooks() {
    let (scratch, library) = with_submodule();
    let canary = scratch.path("canary");
    // Neither the address nor anything that its store configures is used.
    fs::remove_dir_all(&library.repo).unwrap();
    let module = scratch.repo.join(".git/modules/the-lib");
    for setting in ["core.fsmonitor", "filter.x.smudge", "core.sshCommand"] {
        git(
            &module,
            &["config", setting, &format!("touch '{}'", canary.display())],
        );
    }
    let hook = module.join("hooks/post-checkout");
    write(&hook, format!("#!/bin/sh\ntouch '{}'\n", canary.display()));
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = scratch.start();
    assert!(run.pre.has_submodules);
    let done = run.repository.fill_submodules(&run.worktree).unwrap();
    assert_eq!(done.filled, ["vendor/lib"]);
    assert_eq!(done.missing, [""; 0]);
    let place = run.path("vendor/lib");
    assert_eq!(
        fs::read_to_string(place.join("a.txt")).unwrap(),
        "one\ntwo\nthree\n"
    );
    assert_eq!(
        fs::read_link(place.join("link")).unwrap(),
        Path::new("a.txt")
    );
    assert!(place.join("run.sh").metadata().is_ok_and(|meta| {
        std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o100 != 0
    }));
    assert!(!place.join(".git").exists());
    assert!(!canary.exists());
    // Nothing of it is a change of the run's.
    run.agent("echo y >y");
    let harvest = run.collect();
    let diff = run.repository.diff(&run.worktree, &harvest.head).unwrap();
    assert_eq!(diff.files.len(), 1, "{:?}", diff.files);
    assert_eq!(
        run.repository.changed_submodules(&run.worktree).unwrap(),
        [""; 0]
    );
}

#[test]
fn submodules_inside_submodules_are_filled_too() {
    let inner = Scratch::named("inner");
    let middle = Scratch::named("middle");
    git(
        &middle.repo,
        &["submodule", "add", "-q", inner.repo.to_str().unwrap(), "in"],
    );
    middle.commit("inner");
    let scratch = Scratch::new();
    git(
        &scratch.repo,
        &[
            "submodule",
            "add",
            "-q",
            middle.repo.to_str().unwrap(),
            "mid",
        ],
    );
    git(
        &scratch.repo,
        &["submodule", "update", "-q", "--init", "--recursive"],
    );
    scratch.commit("middle");
    let run = scratch.start();
    let done = run.repository.fill_submodules(&run.worktree).unwrap();
    assert_eq!(done.filled, ["mid", "mid/in"], "{done:?}");
    assert!(run.path("mid/in/a.txt").exists());
}

#[test]
fn a_submodule_whose_objects_are_not_here_is_named_and_stays_empty() {
    let (scratch, _library) = with_submodule();
    fs::remove_dir_all(scratch.repo.join(".git/modules")).unwrap();
    let run = scratch.start();
    let done = run.repository.fill_submodules(&run.worktree).unwrap();
    assert_eq!(done.filled, [""; 0]);
    assert!(done.missing[0].contains("vendor/lib"), "{done:?}");
    assert!(
        fs::read_dir(run.path("vendor/lib"))
            .unwrap()
            .next()
            .is_none()
    );
    assert_eq!(
        run.repository.changed_submodules(&run.worktree).unwrap(),
        [""; 0]
    );
}

#[test]
fn what_a_run_changes_in_a_submodule_is_told_because_no_commit_has_it() {
    let (scratch, _library) = with_submodule();
    for change in [
        "echo x >>vendor/lib/a.txt",
        "echo x >vendor/lib/new",
        "rm vendor/lib/a.txt",
        "rm vendor/lib/a.txt; ln -s run.sh vendor/lib/a.txt",
        "rm -r vendor/lib; ln -s /etc vendor/lib",
        "rm vendor/lib/a.txt; mkfifo vendor/lib/a.txt",
    ] {
        let run = scratch.start();
        run.repository.fill_submodules(&run.worktree).unwrap();
        run.agent(change);
        run.collect();
        let told = run.repository.changed_submodules(&run.worktree).unwrap();
        assert!(
            told.first().is_some_and(|one| one.contains("vendor/lib")),
            "{change}: {told:?}"
        );
    }
}

fn start_with(scratch: &Scratch, copied: &[&str]) -> Run {
    let mut run = scratch.start();
    for path in copied {
        write(run.path(path), "copied\n");
    }
    let copied: Vec<String> = copied.iter().map(|path| (*path).to_owned()).collect();
    run.shadow_dir = run.shadow_dir.with_extension("2");
    run.shadow = run
        .repository
        .shadow_without(&run.worktree, &run.shadow_dir, &copied)
        .unwrap();
    run
}

#[test]
fn what_was_copied_in_is_never_committed_by_the_closing_step() {
    let scratch = Scratch::new();
    write(scratch.repo.join("sub/.gitignore"), "!kept\n");
    scratch.commit("a file that git is told not to ignore");
    let copied = [
        ".env",
        "plain",
        "with space",
        "a[b]*!",
        "#x",
        "sub/kept",
        "deep/er/file",
    ];
    let run = start_with(&scratch, &copied);
    run.agent("git add -A; git status --porcelain >status; echo mine >mine");
    let harvest = run.collect();
    let listed = git(
        &scratch.repo,
        &["ls-tree", "-r", "--name-only", &harvest.head],
    );
    for path in copied {
        assert!(
            !listed.lines().any(|line| line.contains(path)),
            "{path}: {listed}"
        );
    }
    assert!(listed.contains("mine"));
}

#[test]
fn what_the_run_commits_itself_of_it_stays_committed() {
    let scratch = Scratch::new();
    let run = start_with(&scratch, &[".env", "other"]);
    run.agent("git add -f .env; git commit -qm env; echo mine >mine");
    let harvest = run.collect();
    let listed = git(
        &scratch.repo,
        &["ls-tree", "-r", "--name-only", &harvest.head],
    );
    assert!(listed.contains(".env") && listed.contains("mine"));
    assert!(!listed.contains("other"));
}

#[test]
fn a_worktree_that_nothing_was_started_in_is_taken_back_without_a_trace() {
    let scratch = Scratch::new();
    let before = git(&scratch.repo, &["for-each-ref"]);
    let run = scratch.start();
    run.repository.keep_base(&run.worktree).unwrap();
    write(run.path("ignored/copied"), "x");
    for _ in 0..2 {
        run.repository
            .unmake_worktree(&run.id, &run.worktree)
            .unwrap();
        assert!(!run.worktree.path.exists());
        assert_eq!(git(&scratch.repo, &["for-each-ref"]), before);
        assert!(!scratch.repo.join(".git/worktrees").exists());
        assert!(!scratch.repo.join(".git/refs/foreman").exists());
    }
}

#[test]
fn one_that_is_more_than_what_was_made_is_not_taken_back() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent("echo x >x; git add x; git commit -qm x");
    run.collect();
    let refused = run.repository.unmake_worktree(&run.id, &run.worktree);
    assert!(matches!(refused, Err(GitError::BranchMoved { .. })));
    assert!(run.path("x").exists());
}

#[test]
fn a_checkout_that_cannot_fit_is_refused_before_it_is_made() {
    let scratch = Scratch::new();
    let repository = scratch.open();
    let base = repository.preflight(None).unwrap().base_commit;
    let needed = repository.checkout_size(&base).unwrap();
    // Four files, the root and one folder, a block each.
    assert_eq!((needed.entries, needed.bytes), (6, 6 * 4096));
    repository
        .refuse_without_room(&base, &scratch.repo)
        .unwrap();
    // One file, a million million times.
    write(scratch.repo.join("zeros"), vec![0; 8 << 20]);
    let mut tree = git(&scratch.repo, &["hash-object", "-w", "zeros"]);
    let mut kind = "100644 blob";
    for _ in 0..4 {
        let entries: String = (0..1000).map(|n| format!("{kind} {tree}\t{n}\n")).collect();
        let list = scratch.path("list");
        write(&list, entries);
        let made = std::process::Command::new("git")
            .args(["mktree"])
            .current_dir(&scratch.repo)
            .stdin(fs::File::open(&list).unwrap())
            .output()
            .unwrap();
        tree = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        kind = "040000 tree";
    }
    let bomb = git(&scratch.repo, &["commit-tree", "-m", "bomb", &tree]);
    let refused = repository
        .refuse_without_room(&bomb, &scratch.path("data/not/there/yet"))
        .unwrap_err();
    assert!(matches!(refused, GitError::NoRoom { .. }));
    assert_eq!(refused.code(), Code::DiskFull);
    assert!(refused.to_string().contains("MiB are free"), "{refused}");
}

#[test]
fn a_base_can_be_kept_while_another_run_is_taken_back() {
    let scratch = Scratch::new();
    let before = git(&scratch.repo, &["for-each-ref"]);
    let repository = scratch.open();
    let pre = repository.preflight(None).unwrap();
    let planned = || {
        let id = crate::fixture::run_id();
        let at = scratch.path("data").join(id.as_str());
        (id.clone(), foreman_git::Worktree::planned(&id, &pre, &at))
    };
    let ((one, kept), others) = (planned(), [planned(), planned()]);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (id, worktree) in &others {
            let (repository, done) = (&repository, &done);
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    repository.unmake_worktree(id, worktree).unwrap();
                }
            });
        }
        let made = (0..400).try_for_each(|_| {
            repository.keep_base(&kept)?;
            repository.unmake_worktree(&one, &kept)
        });
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        made.unwrap();
    });
    assert_eq!(git(&scratch.repo, &["for-each-ref"]), before);
}
