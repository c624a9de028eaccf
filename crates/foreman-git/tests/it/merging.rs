//! Merging: fast-forward, only where it is clean, or a sentence.

use crate::fixture::{Run, Scratch, git, try_git, write};
use foreman_git::GitError;
use std::fs;
use std::os::unix::fs::symlink;

fn worked(scratch: &Scratch, script: &str) -> (Run, String) {
    let run = scratch.start();
    run.agent(script);
    let head = run.collect().head;
    (run, head)
}

fn refusal(run: &Run, head: &str) -> String {
    let why = run
        .repository
        .merge_refusal(&run.worktree, head)
        .unwrap()
        .expect("a refusal");
    let error = run
        .repository
        .merge(&run.worktree, head, &run.pre.base_commit)
        .unwrap_err();
    assert!(
        matches!(&error, GitError::MergeRefused { why: said } if *said == why),
        "{error:?}"
    );
    why
}

#[test]
fn a_merge_updates_branch_tree_index_and_reflogs() {
    let scratch = Scratch::new();
    write(scratch.repo.join("dirty elsewhere"), "untracked");
    write(scratch.repo.join("src/lib.rs"), "dirty but not touched\n");
    let (run, head) = worked(
        &scratch,
        "echo x >x; rm a.txt; mkdir a.txt; echo y >a.txt/y; chmod -x run.sh; ln -s x l
         mkdir -p d/e; echo z >d/e/z",
    );
    let tip = run
        .repository
        .merge(&run.worktree, &head, &run.pre.base_commit)
        .unwrap();
    assert_eq!(tip, head);
    assert_eq!(git(&scratch.repo, &["rev-parse", "main"]), head);
    assert_eq!(
        git(&scratch.repo, &["status", "--porcelain"]),
        " M src/lib.rs\n?? \"dirty elsewhere\""
    );
    assert!(git(&scratch.repo, &["reflog", "-1", "main"]).contains("foreman: merge of run"));
    assert!(git(&scratch.repo, &["reflog", "-1", "HEAD"]).contains("foreman: merge of run"));
    // Again: nothing to do.
    assert_eq!(
        run.repository
            .merge(&run.worktree, &head, &run.pre.base_commit)
            .unwrap(),
        head
    );
    // And the diff still shows what it did.
    assert!(
        !run.repository
            .diff(&run.worktree, &head)
            .unwrap()
            .files
            .is_empty()
    );
}

#[test]
fn a_base_that_is_not_checked_out_just_moves() {
    let scratch = Scratch::new();
    let (run, head) = worked(&scratch, "echo x >x");
    git(&scratch.repo, &["switch", "-qc", "elsewhere"]);
    run.repository
        .merge(&run.worktree, &head, &run.pre.base_commit)
        .unwrap();
    assert_eq!(git(&scratch.repo, &["rev-parse", "main"]), head);
    assert!(!scratch.repo.join("x").exists());
}

#[test]
fn a_diverged_base_is_refused_and_others_work_is_not_shown() {
    let scratch = Scratch::new();
    let (run, head) = worked(&scratch, "echo x >x");
    write(scratch.repo.join("others.txt"), "others");
    scratch.commit("others");
    let why = run
        .repository
        .merge_refusal(&run.worktree, &head)
        .unwrap()
        .unwrap();
    assert!(
        why.contains("main has a commit that the run does not have"),
        "{why}"
    );
    let error = run
        .repository
        .merge(&run.worktree, &head, &run.pre.base_commit)
        .unwrap_err();
    assert!(matches!(error, GitError::Stale { .. }), "{error}");
    let diff = run.repository.diff(&run.worktree, &head).unwrap();
    assert_eq!(diff.files.len(), 1);
    assert_eq!(diff.base_now, git(&scratch.repo, &["rev-parse", "main"]));
    assert!(diff.patch.contains("+x") && !diff.patch.contains("others"));
}

#[test]
fn what_the_operator_has_in_the_way_is_never_overwritten() {
    type Obstacle = fn(&Scratch);
    let obstacles: &[(&str, &str, Obstacle)] = &[
        ("changed", "echo x >>a.txt", |s| {
            write(s.repo.join("a.txt"), "mine")
        }),
        ("staged", "echo x >>a.txt", |s| {
            write(s.repo.join("a.txt"), "mine");
            git(&s.repo, &["add", "a.txt"]);
        }),
        ("deleted", "echo x >>a.txt", |s| {
            fs::remove_file(s.repo.join("a.txt")).unwrap()
        }),
        ("untracked", "echo x >new", |s| {
            write(s.repo.join("new"), "mine")
        }),
        ("ignored", "echo x >new; echo y >f.log; git add -f .", |s| {
            write(s.repo.join("f.log"), "mine");
        }),
        ("folder", "echo x >new", |s| {
            write(s.repo.join("new/mine"), "mine")
        }),
        ("file for folder", "mkdir new; echo x >new/x", |s| {
            write(s.repo.join("new"), "mine")
        }),
        ("link for folder", "mkdir new; echo x >new/x", |s| {
            fs::create_dir(s.path("outside")).unwrap();
            symlink(s.path("outside"), s.repo.join("new")).unwrap();
        }),
        ("folder to file", "rm -r src; echo x >src", |s| {
            write(s.repo.join("src/mine"), "mine")
        }),
        ("deleted by the run", "rm a.txt", |s| {
            write(s.repo.join("a.txt"), "mine")
        }),
    ];
    for (name, work, obstacle) in obstacles {
        let scratch = Scratch::new();
        let (run, head) = worked(&scratch, work);
        obstacle(&scratch);
        let before = git(&scratch.repo, &["status", "--porcelain", "--ignored"]);
        let why = refusal(&run, &head);
        assert!(
            why.contains("commit, stash or move them first"),
            "{name}: {why}"
        );
        assert_eq!(
            git(&scratch.repo, &["status", "--porcelain", "--ignored"]),
            before,
            "{name}"
        );
        assert_eq!(
            git(&scratch.repo, &["rev-parse", "main"]),
            run.pre.base_commit,
            "{name}"
        );
    }
}

#[test]
fn a_paused_operation_or_another_git_is_waited_for() {
    let scratch = Scratch::new();
    git(&scratch.repo, &["switch", "-qc", "one"]);
    write(scratch.repo.join("a.txt"), "one");
    scratch.commit("one");
    git(&scratch.repo, &["switch", "-q", "main"]);
    write(scratch.repo.join("a.txt"), "two");
    scratch.commit("two");
    let (run, head) = worked(&scratch, "echo x >x");
    assert!(!try_git(&scratch.repo, &["merge", "one"]).status.success());
    assert!(refusal(&run, &head).starts_with("a merge is paused"));
    git(&scratch.repo, &["merge", "--abort"]);
    assert!(!try_git(&scratch.repo, &["rebase", "one"]).status.success());
    assert!(refusal(&run, &head).starts_with("a rebase is paused"));
    git(&scratch.repo, &["rebase", "--abort"]);
    write(scratch.repo.join(".git/index.lock"), "");
    assert!(refusal(&run, &head).contains("index.lock"));
    fs::remove_file(scratch.repo.join(".git/index.lock")).unwrap();
    run.repository
        .merge(&run.worktree, &head, &run.pre.base_commit)
        .unwrap();
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");
}

#[test]
fn a_merge_that_was_cut_short_goes_on() {
    // Some files written but not the index; some of both; everything but the branch.
    let stages: &[&[&[&str]]] = &[
        &[&["restore", "--source", "HEAD-OF-RUN", "a.txt", "y"]],
        &[&["restore", "-SW", "--source", "HEAD-OF-RUN", "a.txt", "y"]],
        &[&["restore", "-SW", "--source", "HEAD-OF-RUN", "."]],
    ];
    for stage in stages {
        let scratch = Scratch::new();
        let (run, head) = worked(
            &scratch,
            "echo x >>a.txt; echo y >y; rm run.sh; echo z >>src/lib.rs",
        );
        for args in *stage {
            let args: Vec<_> = args
                .iter()
                .map(|arg| if *arg == "HEAD-OF-RUN" { &head } else { *arg })
                .collect();
            git(&scratch.repo, &args);
        }
        run.repository
            .merge(&run.worktree, &head, &run.pre.base_commit)
            .unwrap();
        assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");
        assert_eq!(git(&scratch.repo, &["rev-parse", "HEAD"]), head);
    }
}

#[test]
fn only_commits_that_are_here_can_be_shown_or_merged() {
    let scratch = Scratch::new();
    let (run, _) = worked(&scratch, "echo x >x");
    for head in [
        "0123456789012345678901234567890123456789",
        "HEAD",
        "--all",
        "",
    ] {
        assert!(matches!(
            run.repository.diff(&run.worktree, head),
            Err(GitError::NotFound { .. })
        ));
        let merged = run
            .repository
            .merge(&run.worktree, head, &run.pre.base_commit);
        assert!(
            matches!(merged, Err(GitError::NotFound { .. })),
            "{merged:?}"
        );
    }
}

#[test]
fn a_long_diff_is_cut_at_a_line_and_says_so() {
    let scratch = Scratch::new();
    let (run, head) = worked(
        &scratch,
        "seq 1 900000 >long; mv a.txt b.txt; head -c 9000 /dev/zero >bin",
    );
    let diff = run.repository.diff(&run.worktree, &head).unwrap();
    assert!(diff.truncated && diff.patch.len() <= 4 << 20 && diff.patch.ends_with('\n'));
    let of = |path: &str| diff.files.iter().find(|file| file.path == path).unwrap();
    assert_eq!(of("long").added, Some(900_000));
    assert_eq!(of("b.txt").change, "renamed");
    assert_eq!((of("bin").added, of("bin").removed), (None, None));
}
