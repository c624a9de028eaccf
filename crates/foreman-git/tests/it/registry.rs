//! What git has registered for runs, by whomever.

use crate::fixture::{Scratch, git};
use foreman_git::Repository;

#[test]
fn branches_and_registrations_of_runs_are_listed_and_those_of_nobody_are_not() {
    let scratch = Scratch::new();
    let repo = Repository::open(&scratch.repo).unwrap();
    for branch in ["foreman/r1", "foreman/r2", "other"] {
        git(&scratch.repo, &["branch", branch]);
    }
    let tree = scratch.dir.path().canonicalize().unwrap().join("r2");
    git(
        &scratch.repo,
        &[
            "worktree",
            "add",
            "-q",
            tree.to_str().unwrap(),
            "foreman/r2",
        ],
    );
    let own = tree.with_file_name("own");
    git(
        &scratch.repo,
        &["worktree", "add", "-q", own.to_str().unwrap(), "other"],
    );
    let found = repo.registered(|name| name == "r3").unwrap();
    let names: Vec<_> = found.iter().map(|known| known.run.as_str()).collect();
    assert_eq!(names, ["r1", "r2"]);
    assert_eq!(found[0].worktree, None);
    assert_eq!(
        found[1].worktree.as_deref(),
        Some(tree.join(".git").as_path())
    );
    assert!(found.iter().all(|known| known.branch.is_some()));
}

#[test]
fn only_a_branch_that_holds_nothing_and_is_used_nowhere_is_taken_away() {
    let scratch = Scratch::new();
    let repo = Repository::open(&scratch.repo).unwrap();
    let tip = git(&scratch.repo, &["rev-parse", "HEAD"]);
    for branch in ["foreman/empty", "foreman/used", "foreman/moved"] {
        git(&scratch.repo, &["branch", branch]);
    }
    git(&scratch.repo, &["checkout", "-q", "-b", "foreman/work"]);
    git(
        &scratch.repo,
        &["commit", "-q", "--allow-empty", "-m", "work"],
    );
    let work = git(&scratch.repo, &["rev-parse", "HEAD"]);
    git(&scratch.repo, &["branch", "-f", "foreman/moved"]);
    git(&scratch.repo, &["checkout", "-q", "foreman/used"]);
    assert!(!repo.holds_nothing_of_its_own(&work).unwrap());
    for (run, tip) in [
        ("work", &work),
        ("used", &tip),
        ("moved", &tip),
        ("none", &tip),
    ] {
        assert!(!repo.remove_empty_branch(run, tip).unwrap(), "{run}");
    }
    assert!(repo.remove_empty_branch("empty", &tip).unwrap());
    let left = git(
        &scratch.repo,
        &["branch", "--list", "foreman/*", "--format=%(refname:short)"],
    );
    assert_eq!(left, "foreman/moved\nforeman/used\nforeman/work");
}
