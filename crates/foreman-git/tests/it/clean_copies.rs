//! Copies of one commit to be checked: nothing of what the run left beside its commits is in them.

use crate::fixture::{Scratch, git, write};
use foreman_git::{GitError, steering};
use std::fs;

#[test]
fn a_copy_has_the_commit_and_nothing_that_was_left_beside_it() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent(
        "echo '*.pyc' >.gitignore; echo good >good; git add -A; git commit -qm work
         echo planted >conftest.pyc; mkdir -p node_modules; echo '*' >node_modules/.gitignore
         git config core.fsmonitor 'touch /tmp/x'; git config alias.st '!false'",
    );
    let head = run.collect().head;
    write(run.path("untracked"), "by hand\n");
    let dir = scratch.path("copy");
    let copy = run
        .repository
        .clean_copy(&run.worktree, &head, &[], &dir)
        .unwrap();
    let mut names: Vec<_> = fs::read_dir(&copy.tree)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let tracked = git(&scratch.repo, &["ls-tree", "--name-only", &head]);
    let mut expected: Vec<_> = tracked.lines().map(str::to_owned).collect();
    expected.push(".git".into());
    expected.sort();
    assert_eq!(names, expected);
    let config = fs::read_to_string(copy.git.join("config")).unwrap();
    assert!(
        !config.contains("fsmonitor") && !config.contains("alias"),
        "{config}"
    );
    // It is no worktree that git on the host knows of.
    let known = git(&scratch.repo, &["worktree", "list"]);
    assert!(!known.contains("copy"), "{known}");
    // Inside, it is at the worktree's place, on the run's branch, and clean.
    let inside = crate::fixture::Run {
        shadow: copy.shadow.clone(),
        ..run
    };
    let seen =
        inside.agent("pwd; git rev-parse HEAD; git symbolic-ref HEAD; git status --porcelain");
    let lines: Vec<_> = seen.lines().collect();
    assert_eq!(
        lines,
        [
            inside.worktree.path.to_str().unwrap(),
            head.as_str(),
            &format!("refs/heads/{}", inside.worktree.branch)
        ]
    );
    inside.agent("echo made >made; git add -A; git commit -qm inside");
    assert_eq!(
        git(&scratch.repo, &["rev-parse", &inside.worktree.branch]),
        head,
        "what is done to a copy reached the repository"
    );
}

#[test]
fn a_copy_is_made_whole_or_not_at_all() {
    let scratch = Scratch::new();
    let run = scratch.start();
    let dir = scratch.path("copy");
    let none = "0123456789012345678901234567890123456789";
    let error = run
        .repository
        .clean_copy(&run.worktree, none, &[], &dir)
        .unwrap_err();
    assert!(matches!(error, GitError::NotFound { .. }), "{error}");
    assert!(!dir.exists());
    fs::create_dir(&dir).unwrap();
    let error = run
        .repository
        .clean_copy(&run.worktree, &run.pre.base_commit, &[], &dir)
        .unwrap_err();
    assert!(matches!(error, GitError::BadPlace { .. }), "{error}");
}

#[test]
fn what_a_run_touched_is_named_on_both_sides_of_a_rename() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent("mkdir -p tests; git mv a.txt conftest.py; ln -s src/lib.rs link; echo x >plain.rs");
    let head = run.collect().head;
    let touched = run.repository.touched(&run.worktree, &head).unwrap();
    let paths: Vec<_> = touched.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["a.txt", "conftest.py", "link", "plain.rs"]);
    let found = steering(&touched, &["cargo test"]);
    let steers: Vec<_> = found.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(steers, ["conftest.py", "link"], "{found:?}");
}
