//! Bringing a run's commits onto a base that moved: replayed or merged, without anybody's configuration;
//! a conflict moves nothing.

use crate::fixture::{Run, Scratch, git, write};
use foreman_git::{GitError, Sync, Synced, Worktree};
use std::fs;

fn worked(scratch: &Scratch, script: &str) -> (Run, String) {
    let run = scratch.start();
    run.agent(script);
    let head = run.collect().head;
    (run, head)
}

fn ready(run: &Run, head: &str) -> Synced {
    match run.repository.prepare_sync(&run.worktree, head).unwrap() {
        Sync::Ready(synced) => synced,
        other => panic!("{other:?}"),
    }
}

/// Prepared, taken over, and merged from there.
fn synced(scratch: &Scratch, run: &Run, head: &str) -> Synced {
    let synced = ready(run, head);
    run.repository.apply_sync(&run.worktree, &synced).unwrap();
    let branch = git(&scratch.repo, &["rev-parse", &run.worktree.branch]);
    assert_eq!(branch, synced.head);
    assert_eq!(git(&run.worktree.path, &["status", "--porcelain"]), "");
    run.repository
        .merge(&run.worktree, &synced.head, &synced.base)
        .unwrap();
    assert_eq!(git(&scratch.repo, &["rev-parse", "main"]), synced.head);
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");
    synced
}

#[test]
fn a_line_of_commits_is_replayed_with_its_authors_and_words() {
    let scratch = Scratch::new();
    let (run, head) = worked(
        &scratch,
        "echo one >one; git add .; git commit -qm 'first: one' -m 'body'
         echo two >>a.txt; GIT_AUTHOR_NAME=Änne git commit -qam second
         echo left >left",
    );
    write(scratch.repo.join("others.txt"), "others\n");
    let others = scratch.commit("others");
    let made = synced(&scratch, &run, &head);
    assert!(made.replayed && made.same_changes && made.dropped == 0);
    assert_eq!(made.base, others);
    let told = git(
        &scratch.repo,
        &["log", "--format=%s|%an", &format!("{others}..main")],
    );
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1], "second|Änne");
    assert!(lines[2].starts_with("first: one|"));
    assert!(git(&scratch.repo, &["log", "--format=%b", "-1", "main~2"]).contains("body"));
    assert_eq!(
        fs::read_to_string(scratch.repo.join("one")).unwrap(),
        "one\n"
    );
    // What it changed is still only its own.
    let worktree = Worktree {
        base_commit: made.base,
        ..run.worktree
    };
    let diff = run.repository.diff(&worktree, &made.head).unwrap();
    assert!(!diff.patch.contains("others"), "{}", diff.patch);
}

#[test]
fn a_run_that_builds_on_the_base_is_left_alone() {
    let scratch = Scratch::new();
    let (run, head) = worked(&scratch, "echo x >x");
    let found = run.repository.prepare_sync(&run.worktree, &head).unwrap();
    assert_eq!(found, Sync::UpToDate);
}

#[test]
fn a_conflict_names_its_files_and_moves_nothing() {
    let scratch = Scratch::new();
    let (run, head) = worked(
        &scratch,
        "echo fine >fine; git add .; git commit -qm fine; echo run >a.txt; git commit -qam clash",
    );
    write(scratch.repo.join("a.txt"), "operator\n");
    let base = scratch.commit("operator");
    let refs = git(&scratch.repo, &["for-each-ref"]);
    let found = run.repository.prepare_sync(&run.worktree, &head).unwrap();
    let Sync::Conflict {
        base: on,
        commit,
        paths,
    } = found
    else {
        panic!("{found:?}")
    };
    assert_eq!((on, paths), (base, vec!["a.txt".to_owned()]));
    assert_eq!(commit.as_deref(), Some(head.as_str()));
    assert_eq!(git(&scratch.repo, &["for-each-ref"]), refs);
    assert_eq!(git(&run.worktree.path, &["status", "--porcelain"]), "");
}

#[test]
fn a_history_with_merges_is_merged_and_not_rewritten() {
    let scratch = Scratch::new();
    let (run, head) = worked(
        &scratch,
        "git checkout -qb side; echo s >s; git add .; git commit -qm side
         git checkout -q -; echo m >m; git add .; git commit -qm main-line
         git merge -q --no-edit side",
    );
    write(scratch.repo.join("others.txt"), "others\n");
    scratch.commit("others");
    let made = synced(&scratch, &run, &head);
    assert!(!made.replayed && made.same_changes);
    git(
        &scratch.repo,
        &["merge-base", "--is-ancestor", &head, "main"],
    );
}

#[test]
fn a_commit_that_the_base_has_already_is_dropped() {
    let scratch = Scratch::new();
    let (run, head) = worked(
        &scratch,
        "echo same >same; git add .; git commit -qm same; echo own >own; git add .; git commit -qm own",
    );
    write(scratch.repo.join("same"), "same\n");
    scratch.commit("the same, by somebody else");
    let made = synced(&scratch, &run, &head);
    assert_eq!(made.dropped, 1);
    assert!(!made.same_changes, "what it changes is less than before");
}

/// Every way that a tree or a configuration has to steer a merge, and a mark where one ran.
#[test]
fn no_driver_filter_hook_or_attribute_takes_part() {
    let scratch = Scratch::new();
    let mark = scratch.path("ran");
    let program = format!("sh -c 'touch {0}; exit 0' #", mark.display());
    let repo = &scratch.repo;
    for (name, value) in [
        ("merge.evil.driver", program.as_str()),
        ("filter.evil.clean", &program),
        ("filter.evil.smudge", &program),
        ("diff.evil.textconv", &program),
        ("merge.default", "evil"),
        ("merge.conflictStyle", "zdiff3"),
    ] {
        git(repo, &["config", name, value]);
    }
    for hook in [
        "post-checkout",
        "pre-rebase",
        "post-rewrite",
        "reference-transaction",
        "post-index-change",
        "post-merge",
    ] {
        let path = repo.join(".git/hooks").join(hook);
        write(&path, format!("#!/bin/sh\ntouch {}\n", mark.display()));
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    write(repo.join(".gitattributes"), "*.txt merge=union\n");
    git(repo, &["-c", "core.hooksPath=/dev/null", "add", "-A"]);
    git(
        repo,
        &[
            "-c",
            "core.hooksPath=/dev/null",
            "commit",
            "-qm",
            "attributes",
        ],
    );
    let (run, head) = worked(
        &scratch,
        "echo '* merge=evil filter=evil diff=evil' >.gitattributes; echo run >>b.txt
         git add -A; git commit -qm steering",
    );
    write(repo.join("c.txt"), "others\n");
    git(repo, &["-c", "core.hooksPath=/dev/null", "add", "c.txt"]);
    git(
        repo,
        &["-c", "core.hooksPath=/dev/null", "commit", "-qm", "others"],
    );
    let _ = fs::remove_file(&mark);
    let made = ready(&run, &head);
    run.repository.apply_sync(&run.worktree, &made).unwrap();
    run.repository
        .merge(&run.worktree, &made.head, &made.base)
        .unwrap();
    assert!(
        !mark.exists(),
        "something of the tree or its configuration ran"
    );
}

#[test]
fn a_union_attribute_hides_no_conflict() {
    let scratch = Scratch::new();
    write(scratch.repo.join(".gitattributes"), "* merge=union\n");
    write(scratch.repo.join(".git/info/attributes"), "* merge=union\n");
    scratch.commit("attributes");
    let (run, head) = worked(&scratch, "echo run >a.txt");
    write(scratch.repo.join("a.txt"), "operator\n");
    scratch.commit("operator");
    let found = run.repository.prepare_sync(&run.worktree, &head).unwrap();
    assert!(matches!(found, Sync::Conflict { .. }), "{found:?}");
}

#[test]
fn changes_by_hand_in_the_worktree_are_never_overwritten() {
    let scratch = Scratch::new();
    let (run, head) = worked(&scratch, "echo x >x");
    write(scratch.repo.join("a.txt"), "others\n");
    scratch.commit("others");
    write(run.path("a.txt"), "mine\n");
    let made = ready(&run, &head);
    let error = run.repository.apply_sync(&run.worktree, &made).unwrap_err();
    assert!(matches!(error, GitError::MergeRefused { .. }), "{error}");
    assert_eq!(fs::read_to_string(run.path("a.txt")).unwrap(), "mine\n");
    assert_eq!(
        git(&scratch.repo, &["rev-parse", &run.worktree.branch]),
        head
    );
}

#[test]
fn a_sync_that_was_cut_short_goes_on_and_a_moved_branch_is_refused() {
    let scratch = Scratch::new();
    let (run, head) = worked(&scratch, "echo x >x");
    write(scratch.repo.join("a.txt"), "others\n");
    scratch.commit("others");
    let made = ready(&run, &head);
    // Files and index are there, the branch is not yet.
    git(
        &run.worktree.path,
        &["restore", "-SW", "--source", &made.head, "."],
    );
    run.repository.apply_sync(&run.worktree, &made).unwrap();
    run.repository.apply_sync(&run.worktree, &made).unwrap();
    assert_eq!(git(&run.worktree.path, &["status", "--porcelain"]), "");
    let branch = format!("refs/heads/{}", run.worktree.branch);
    git(&scratch.repo, &["update-ref", &branch, "main"]);
    let error = run.repository.apply_sync(&run.worktree, &made).unwrap_err();
    assert!(matches!(error, GitError::BranchMoved { .. }), "{error}");
}

#[test]
fn commits_of_others_that_a_run_started_from_are_neither_shown_nor_rewritten() {
    let scratch = Scratch::new();
    // The run starts ahead of the branch here, as from a fetched remote.
    write(scratch.repo.join("upstream"), "upstream\n");
    let ahead = scratch.commit("upstream");
    let (run, head) = worked(&scratch, "echo own >own");
    git(&scratch.repo, &["reset", "-q", "--hard", "HEAD~1"]);
    let diff = run.repository.diff(&run.worktree, &head).unwrap();
    assert_eq!(diff.files.len(), 1, "{:?}", diff.files);
    assert!(
        diff.flags
            .iter()
            .any(|flag| flag.contains("a commit of others")),
        "{:?}",
        diff.flags
    );
    // And the branch here goes on by itself.
    write(scratch.repo.join("local"), "local\n");
    let base = scratch.commit("local");
    let made = ready(&run, &head);
    assert!(
        !made.replayed,
        "commits of others would have been rewritten"
    );
    run.repository.apply_sync(&run.worktree, &made).unwrap();
    git(
        &scratch.repo,
        &["merge-base", "--is-ancestor", &ahead, &made.head],
    );
    git(
        &scratch.repo,
        &["merge-base", "--is-ancestor", &base, &made.head],
    );
}

#[test]
fn a_base_behind_the_commit_that_a_run_started_from_is_fast_forwarded() {
    let scratch = Scratch::new();
    write(scratch.repo.join("upstream"), "upstream\n");
    scratch.commit("upstream");
    let (run, head) = worked(&scratch, "echo own >own");
    git(&scratch.repo, &["reset", "-q", "--hard", "HEAD~1"]);
    let base = git(&scratch.repo, &["rev-parse", "main"]);
    run.repository.merge(&run.worktree, &head, &base).unwrap();
    assert_eq!(git(&scratch.repo, &["rev-parse", "main"]), head);
    assert!(scratch.repo.join("upstream").exists() && scratch.repo.join("own").exists());
}

#[test]
fn a_submodule_that_both_moved_is_a_conflict() {
    let scratch = Scratch::new();
    let link = |commit: &str| format!("160000,{commit},sub");
    let commit = |n: u8| format!("{n:040x}");
    let record = |at: &std::path::Path, n: u8| {
        git(
            at,
            &["update-index", "--add", "--cacheinfo", &link(&commit(n))],
        );
        git(at, &["commit", "-qm", "link"]);
    };
    record(&scratch.repo, 1);
    let run = scratch.start();
    run.agent(&format!(
        "git update-index --add --cacheinfo {}; git commit -qm link",
        link(&commit(2))
    ));
    run.print_bundle();
    let head = run
        .repository
        .harvest(&run.worktree, &run.file)
        .unwrap()
        .head;
    record(&scratch.repo, 3);
    let found = run.repository.prepare_sync(&run.worktree, &head).unwrap();
    assert!(
        matches!(&found, Sync::Conflict { paths, .. } if paths == &["sub".to_owned()]),
        "{found:?}"
    );
}

#[test]
fn commits_added_by_hand_are_found_and_taken_over() {
    let scratch = Scratch::new();
    let (run, head) = worked(&scratch, "echo x >x");
    let added = || run.repository.added_by_hand(&run.worktree, &head).unwrap();
    assert_eq!(added(), None);
    write(run.path("more"), "more\n");
    git(&run.worktree.path, &["add", "-A"]);
    git(&run.worktree.path, &["commit", "-qm", "by hand"]);
    let tip = git(&run.worktree.path, &["rev-parse", "HEAD"]);
    assert_eq!(added().as_deref(), Some(tip.as_str()));
    run.repository.adopt(&run.worktree, &tip).unwrap();
    let since = run.repository.diff_since(&head, &tip, true).unwrap();
    assert_eq!(since.files.len(), 1);
    assert_eq!(since.files[0].path, "more");
    assert!(
        run.repository
            .merge_refusal(&run.worktree, &tip)
            .unwrap()
            .is_none()
    );
    // Somewhere else is no addition.
    let branch = format!("refs/heads/{}", run.worktree.branch);
    git(&scratch.repo, &["update-ref", &branch, "main"]);
    assert_eq!(added(), None);
}

#[test]
fn an_operation_that_is_paused_for_days_is_said_with_its_age() {
    let scratch = Scratch::new();
    let (run, head) = worked(&scratch, "echo x >x");
    let mark = scratch.repo.join(".git/MERGE_HEAD");
    write(&mark, format!("{head}\n"));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 86_400 + 60);
    fs::File::open(&mark).unwrap().set_modified(old).unwrap();
    let why = run
        .repository
        .merge_refusal(&run.worktree, &head)
        .unwrap()
        .unwrap();
    assert!(why.starts_with("a merge is paused in the tree at"), "{why}");
    assert!(
        why.contains("for 3 days") && why.contains("git merge --abort"),
        "{why}"
    );
}
