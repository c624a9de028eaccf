//! Lock files that a killed engine leaves in a repository.

use crate::fixture::{Run, Scratch, git, try_git};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

/// As a holder of the repository's lock leaves it that is killed.
fn cut_short(scratch: &Scratch) {
    fs::write(scratch.repo.join(".git/foreman.lock"), "held\n").unwrap();
}

/// What it may leave: the locks of a run's refs, of the packed refs, of a branch and of an index.
fn leave_locks(scratch: &Scratch, run: &Run) -> Vec<PathBuf> {
    let common = scratch.repo.join(".git");
    let locks = [
        format!("refs/heads/foreman/{}.lock", run.id),
        "refs/heads/main.lock".to_owned(),
        "packed-refs.lock".to_owned(),
        "index.lock".to_owned(),
    ];
    let locks: Vec<PathBuf> = locks.iter().map(|lock| common.join(lock)).collect();
    locks.iter().for_each(|lock| fs::write(lock, "").unwrap());
    locks
}

#[test]
fn locks_that_a_killed_engine_left_are_taken_away_by_the_next() {
    let scratch = Scratch::new();
    let run = scratch.start();
    cut_short(&scratch);
    let locks = leave_locks(&scratch, &run);
    assert!(
        !try_git(&scratch.repo, &["commit", "--allow-empty", "-qm", "x"])
            .status
            .success()
    );
    run.repository
        .unmake_worktree(&run.id, &run.worktree)
        .unwrap();
    for lock in locks {
        assert!(!lock.exists(), "{}", lock.display());
    }
    scratch.commit("the operator goes on");
    assert_eq!(git(&scratch.repo, &["branch", "--list", "foreman/*"]), "");
    assert_eq!(
        fs::read(scratch.repo.join(".git/foreman.lock")).unwrap(),
        b""
    );
}

#[test]
fn locks_from_before_and_locks_of_nobody_who_was_killed_are_left() {
    let scratch = Scratch::new();
    let run = scratch.start();
    let locks = leave_locks(&scratch, &run);
    run.repository
        .unmake_worktree(&run.id, &run.worktree)
        .unwrap_err();
    assert!(locks.iter().all(|lock| lock.exists()), "nobody was killed");

    let before = SystemTime::now() - Duration::from_secs(60);
    for lock in &locks {
        File::options()
            .write(true)
            .open(lock)
            .unwrap()
            .set_modified(before)
            .unwrap();
    }
    cut_short(&scratch);
    run.repository
        .unmake_worktree(&run.id, &run.worktree)
        .unwrap_err();
    assert!(
        locks.iter().all(|lock| lock.exists()),
        "they are older than the holder"
    );
}

#[test]
fn while_the_operators_git_works_there_its_locks_are_left() {
    let scratch = Scratch::new();
    let run = scratch.start();
    cut_short(&scratch);
    let locks = leave_locks(&scratch, &run);
    let mut at_work = Command::new("git")
        .args(["cat-file", "--batch"])
        .current_dir(&scratch.repo)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Until then it still has the test's own name.
    let name = format!("/proc/{}/comm", at_work.id());
    while fs::read_to_string(&name).unwrap() != "git\n" {
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = run.repository.unmake_worktree(&run.id, &run.worktree);
    assert!(!locks[0].exists(), "the run's own goes");
    assert!(locks[1..].iter().all(|lock| lock.exists()));

    drop(at_work.stdin.take());
    at_work.wait().unwrap();
    run.repository
        .unmake_worktree(&run.id, &run.worktree)
        .unwrap();
    assert!(locks.iter().all(|lock| !lock.exists()));
}
