//! The commits of a run: which, in pages, whatever a run wrote into them.

use crate::fixture::{Run, Scratch, git};
use foreman_git::{Commit, GitError};

fn subjects(commits: &[Commit]) -> Vec<&str> {
    commits
        .iter()
        .map(|commit| commit.subject.as_str())
        .collect()
}

fn page(run: &Run, head: &str, skip: usize, most: usize) -> Vec<Commit> {
    run.repository
        .commits(&run.worktree, head, skip, most)
        .unwrap()
        .commits
}

#[test]
fn commits_beyond_the_base_come_newest_first_with_their_figures() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent(
        "printf 'one\\n' >new; git add -A; git commit -qm 'Add new'
         printf 'one\\ntwo\\n' >new; rm run.sh; git add -A; git commit -qm 'Change new'
         head -c 300 /dev/zero >blob; git add -A; git commit -qm 'Add a blob'",
    );
    let head = run.collect().head;
    let all = run.repository.commits(&run.worktree, &head, 0, 10).unwrap();
    assert_eq!(
        subjects(&all.commits),
        ["Add a blob", "Change new", "Add new"]
    );
    assert_eq!((all.listed, all.truncated), (3, false));
    assert_eq!((&all.head, all.base_now.len()), (&head, 40));
    let figures: Vec<_> = all
        .commits
        .iter()
        .map(|commit| (commit.files, commit.added, commit.removed, commit.parents))
        .collect();
    assert_eq!(
        figures,
        [
            (1, Some(0), Some(0), 1),
            (2, Some(1), Some(1), 1),
            (1, Some(1), Some(0), 1)
        ]
    );
    assert_eq!(all.commits[0].id, head);

    // One of them by itself, and one file of it.
    let middle = &all.commits[1].id;
    let diff = run
        .repository
        .diff_commit(&run.worktree, &head, middle, true)
        .unwrap();
    let files: Vec<_> = diff.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(files, ["new", "run.sh"]);
    assert!(diff.patch.contains("+two") && !diff.patch.contains("+one"));
    assert_eq!(diff.head, *middle);
    assert_eq!(diff.base_now, all.commits[2].id);
    let file = run
        .repository
        .diff_commit_file(&run.worktree, &head, middle, "new")
        .unwrap();
    assert!(file.patch.contains("+two"), "{}", file.patch);
    let other = run
        .repository
        .diff_commit_file(&run.worktree, &head, middle, "blob");
    assert!(matches!(other, Err(GitError::NotFound { .. })), "{other:?}");
}

#[test]
fn only_commits_of_the_run_are_shown_by_themselves() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent("echo x >x; git add -A; git commit -qm work");
    let head = run.collect().head;
    let base = run.pre.base_commit.clone();
    let elsewhere = scratch.commit("of the operator");
    let tree = git(&scratch.repo, &["rev-parse", "HEAD^{tree}"]);
    for other in [
        base.as_str(),
        &elsewhere,
        &tree,
        "main",
        "HEAD",
        &"0".repeat(40),
        &head[..10],
        "--output=x",
        "",
    ] {
        let diff = run
            .repository
            .diff_commit(&run.worktree, &head, other, false);
        assert!(
            matches!(diff, Err(GitError::NotFound { .. })),
            "{other}: {diff:?}"
        );
    }
    // What others did on the base branch meanwhile is none of its commits.
    assert_eq!(subjects(&page(&run, &head, 0, 10)), ["work"]);
    run.repository
        .merge_refusal(&run.worktree, &head)
        .unwrap()
        .expect("diverged");
}

#[test]
fn hostile_words_and_dates_are_shown_as_what_they_are() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent(
        r#"say() { tree=$(git write-tree); parent=$(git rev-parse HEAD)
             { printf 'tree %s\nparent %s\nauthor a <a@b> %s +0000\ncommitter a <a@b> 1 +0000\n\n' "$tree" "$parent" "$1"; cat; } >/tmp/commit
             git reset -q --soft "$(git hash-object -t commit -w --literally /tmp/commit)"; }
           printf 'a\033[2J\342\200\256gnp.exe\r\nbody' | say 1700000000
           head -c 3000000 /dev/zero | tr '\0' x | say 1700000000
           printf '' | say 99999999999999
           printf '\n\n   ' | say 1700000000
           printf '\377\376 raw' | say 1700000000"#,
    );
    let head = run.collect().head;
    let commits = page(&run, &head, 0, 10);
    let shown = subjects(&commits);
    assert_eq!(shown.len(), 5, "{shown:?}");
    assert_eq!(shown[0], "\u{fffd}\u{fffd} raw");
    assert_eq!((shown[1], shown[2]), ("", ""));
    assert!(shown[3].chars().count() == 201 && shown[3].ends_with('…'));
    assert_eq!(shown[4], "a␛[2J<U+202E>gnp.exe");
    assert_eq!(commits[0].authored_at.as_millis(), 1_700_000_000_000);
    for commit in &commits {
        let json = serde_json::to_string(&commit.authored_at).unwrap();
        assert!(json.len() < 40, "{json}");
    }
}

#[test]
fn thousands_of_commits_come_in_pages_without_a_gap() {
    let scratch = Scratch::new();
    let run = scratch.start();
    // Younger ones carry older dates, which must not turn their order.
    run.agent(
        "i=0; { while [ $i -lt 3000 ]; do i=$((i+1))
           printf 'commit refs/heads/%s\nauthor a <a@b> %s +0000\ncommitter a <a@b> %s +0000\ndata %s\nwork %s\n' \
             \"$(git symbolic-ref --short HEAD)\" $((2000000000-i)) $((2000000000-i)) $((5+${#i})) $i
           [ $i = 1 ] && printf 'from %s\n' \"$(git rev-parse HEAD)\"
           printf 'M 100644 inline n\ndata %s\n%s\n' ${#i} $i
         done; } >/tmp/stream; git fast-import --quiet --force </tmp/stream; git reset -q --hard",
    );
    let head = run.collect().head;
    let first = run
        .repository
        .commits(&run.worktree, &head, 0, 100)
        .unwrap();
    assert_eq!((first.listed, first.commits.len()), (3_000, 100));
    assert_eq!(first.commits[0].subject, "work 3000");
    let mut seen = 0;
    for skip in (0..3_000).step_by(500) {
        let page = page(&run, &head, skip, 500);
        for (at, commit) in page.iter().enumerate() {
            assert_eq!(commit.subject, format!("work {}", 3_000 - skip - at));
        }
        seen += page.len();
    }
    assert_eq!(seen, 3_000);
    assert!(page(&run, &head, 3_000, 100).is_empty());
    assert!(page(&run, &head, usize::MAX, 100).is_empty());
}

#[test]
fn a_commit_that_is_too_large_to_count_has_no_figures() {
    let scratch = Scratch::new();
    let run = scratch.start();
    run.agent(
        "for n in 1 2 3 4 5 6 7 8 9 10; do yes $n | head -c 7000000 >large.$n; done
         git add -A; git commit -qm 'Large files'
         echo small >small; git add -A; git commit -qm small",
    );
    let head = run.collect().head;
    let commits = page(&run, &head, 0, 10);
    assert_eq!((commits[0].added, commits[0].files), (Some(1), 1));
    assert_eq!((commits[1].added, commits[1].removed), (None, None));
    assert_eq!(commits[1].files, 10);
}
