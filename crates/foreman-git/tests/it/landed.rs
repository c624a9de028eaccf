//! What may go without being missed: only what is on the base branch, or never was anything.

use crate::fixture::{Run, Scratch, git, write};
use foreman_git::Unlanded;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

fn unlanded(run: &Run) -> Option<Unlanded> {
    run.repository.unlanded(&run.worktree).unwrap()
}

fn committed(run: &Run) -> String {
    run.agent("echo more >> a.txt; echo new > new.txt; git add -A; git commit -qm more");
    run.collect().head
}

fn merge(scratch: &Scratch, run: &Run, head: &str) {
    let base = git(&scratch.repo, &["rev-parse", "main"]);
    run.repository.merge(&run.worktree, head, &base).unwrap();
}

#[test]
fn a_run_that_did_nothing_has_nothing_to_land() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.collect();
    assert_eq!(unlanded(&run), None);
    // What git ignores is no work.
    write(run.path("ignored/deep/build.o"), "x");
    write(run.path("x.log"), "x");
    assert_eq!(unlanded(&run), None);
}

#[test]
fn commits_are_missed_until_they_are_on_the_base_branch() {
    let scratch = Scratch::new();
    let run = scratch.start();
    let head = committed(&run);
    assert_eq!(unlanded(&run), Some(Unlanded::Commits { count: 1 }));
    merge(&scratch, &run, &head);
    assert_eq!(unlanded(&run), None);
    scratch.commit("the base goes on");
    assert_eq!(unlanded(&run), None);
    // Taken off the branch again, they are only here.
    git(&scratch.repo, &["reset", "-q", "--hard", "HEAD~2"]);
    assert_eq!(unlanded(&run), Some(Unlanded::Commits { count: 1 }));
    git(&scratch.repo, &["checkout", "-q", "--detach"]);
    git(&scratch.repo, &["branch", "-D", "main"]);
    assert_eq!(unlanded(&run), Some(Unlanded::Commits { count: 1 }));
}

#[test]
fn any_file_that_is_not_as_committed_is_missed() {
    let scratch = Scratch::new();
    type Change = fn(&Run);
    let changes: [Change; 7] = [
        |run| write(run.path("src/lib.rs"), "pub fn lit() {}\n"),
        |run| fs::remove_file(run.path("a.txt")).unwrap(),
        |run| write(run.path("deep/er/untracked"), ""),
        |run| fs::set_permissions(run.path("run.sh"), PermissionsExt::from_mode(0o644)).unwrap(),
        |run| {
            fs::remove_file(run.path("a.txt")).unwrap();
            symlink("src/lib.rs", run.path("a.txt")).unwrap();
        },
        |run| {
            fs::remove_file(run.path("a.txt")).unwrap();
            fs::create_dir(run.path("a.txt")).unwrap();
            write(run.path("a.txt/inner"), "x");
        },
        |run| {
            git(&run.path(""), &["init", "-q", "nested"]);
            write(run.path("nested/own"), "x");
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let run = scratch.start();
        run.collect();
        change(&run);
        assert!(
            matches!(unlanded(&run), Some(Unlanded::Files { count: 1.., .. })),
            "change {number}: {:?}",
            unlanded(&run)
        );
    }
}

#[test]
fn a_change_that_keeps_size_and_time_is_seen() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.collect();
    let path = run.path("src/lib.rs");
    let times = fs::metadata(&path).unwrap().modified().unwrap();
    write(&path, "pub fn lob() {}\n");
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(times).unwrap();
    assert_eq!(
        unlanded(&run),
        Some(Unlanded::Files {
            count: 1,
            first: vec!["src/lib.rs".into()]
        })
    );
}

#[test]
fn what_was_done_by_hand_is_kept_and_what_is_gone_is_not_missed() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.collect();
    let branch = &run.worktree.branch;
    git(&scratch.repo, &["branch", "-f", "other", branch]);
    git(&scratch.repo, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(
        &scratch.repo,
        &["update-ref", &format!("refs/heads/{branch}"), "main"],
    );
    assert!(matches!(unlanded(&run), Some(Unlanded::ByHand { .. })));
    fs::remove_dir_all(&run.worktree.path).unwrap();
    assert_eq!(unlanded(&run), None);
}

#[test]
fn a_broken_repository_is_no_answer() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.collect();
    fs::rename(scratch.repo.join(".git/objects"), scratch.path("away")).unwrap();
    assert!(run.repository.unlanded(&run.worktree).is_err());
}
