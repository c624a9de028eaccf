//! Repositories that trip others: odd paths, submodules, filters, hooks, borrowed and missing objects.

use crate::fixture::{Run, Scratch, git, write};
use foreman_git::Repository;
use std::fs;
use std::path::Path;

/// From start to merge and discard, through every function.
fn whole_life(run: &Run, repo: &Path) {
    assert_eq!(run.agent("git status --porcelain"), "");
    run.agent("echo work >work.txt; git add work.txt; git commit -qm work; echo left >left.txt");
    let harvest = run.collect();
    assert_eq!(harvest.commits, 2);
    let diff = run.repository.diff(&run.worktree, &harvest.head).unwrap();
    assert_eq!(diff.files.len(), 2);
    assert_eq!(
        run.repository
            .merge_refusal(&run.worktree, &harvest.head)
            .unwrap(),
        None
    );
    let tip = run
        .repository
        .merge(&run.worktree, &harvest.head, &diff.base_now)
        .unwrap();
    assert_eq!(tip, harvest.head);
    assert!(repo.join("left.txt").exists());
    assert_eq!(git(repo, &["status", "--porcelain"]), "");
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    run.repository
        .restore(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert!(!run.worktree.path.exists());
    git(repo, &["fsck", "--strict"]);
}

#[test]
fn any_path_will_do() {
    for name in [
        "with space",
        "ünï ✓ код",
        "new\nline",
        "quo\"te's",
        "-dash",
        "co:lon",
        "back\\slash",
    ] {
        let scratch = Scratch::named(name);
        let run = scratch.start();
        whole_life(&run, &scratch.repo);
    }
}

#[test]
fn any_file_name_will_do() {
    let scratch = Scratch::new();
    for name in [
        " lead",
        "-n",
        "new\nline",
        "ünï",
        "qu\"ote",
        "*",
        "a[b]",
        ":(top)x",
    ] {
        write(scratch.repo.join(name), name);
    }
    scratch.commit("names");
    let run = scratch.start();
    run.agent("for f in *; do [ -f \"$f\" ] && echo more >>\"./$f\"; done; true");
    let harvest = run.collect();
    run.repository
        .merge(&run.worktree, &harvest.head, &run.pre.base_commit)
        .unwrap();
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");
    assert!(
        fs::read_to_string(scratch.repo.join("*"))
            .unwrap()
            .ends_with("more\n")
    );
}

#[test]
fn a_commit_of_a_submodule_that_only_the_run_has_is_never_merged() {
    let library = Scratch::named("library");
    let scratch = Scratch::new();
    git(
        &scratch.repo,
        &[
            "submodule",
            "add",
            "-q",
            library.repo.to_str().unwrap(),
            "vendor/lib",
        ],
    );
    scratch.commit("submodule");
    let run = scratch.start();
    assert!(run.pre.has_submodules);
    whole_life(&run, &scratch.repo);

    let run = scratch.start();
    run.agent(
        "git init -q vendor/lib; cd vendor/lib; echo x >x; git add .; git commit -qm x
         cd ../..; git add vendor/lib",
    );
    let harvest = run.collect();
    assert!(
        harvest.warnings.iter().any(|w| w.contains("vendor/lib")),
        "{:?}",
        harvest.warnings
    );
    let why = run
        .repository
        .merge_refusal(&run.worktree, &harvest.head)
        .unwrap()
        .unwrap();
    assert!(why.contains("vendor/lib"), "{why}");
}

#[test]
fn no_filter_runs_and_pointer_files_stay_as_they_are() {
    let scratch = Scratch::new();
    let canary = scratch.path("canary");
    write(
        scratch.repo.join(".gitattributes"),
        "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    );
    write(
        scratch.repo.join("big.bin"),
        "version https://example.org/spec/v1\noid sha256:00\n",
    );
    scratch.commit("pointer");
    let command = format!("touch '{}'; cat", canary.display());
    for key in ["clean", "smudge"] {
        git(
            &scratch.repo,
            &["config", &format!("filter.lfs.{key}"), &command],
        );
    }
    git(
        &scratch.repo,
        &[
            "config",
            "filter.lfs.process",
            &format!("touch '{}'", canary.display()),
        ],
    );
    git(&scratch.repo, &["config", "filter.lfs.required", "true"]);
    let run = scratch.start();
    assert!(
        run.pre.warnings[0].contains("lfs"),
        "{:?}",
        run.pre.warnings
    );
    let pointer = fs::read_to_string(run.path("big.bin")).unwrap();
    assert!(pointer.starts_with("version https"));
    run.agent("echo more >>big.bin; cp big.bin other.bin; git add .; git commit -qm more");
    let harvest = run.collect();
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
    assert!(!canary.exists());
    assert!(
        fs::read_to_string(scratch.repo.join("big.bin"))
            .unwrap()
            .ends_with("more\n")
    );
}

#[test]
fn line_endings_are_the_operators() {
    let scratch = Scratch::new();
    write(scratch.repo.join(".gitattributes"), "*.bat text eol=crlf\n");
    write(scratch.repo.join("x.bat"), "one\r\ntwo\r\n");
    scratch.commit("bat");
    let run = scratch.start();
    assert_eq!(fs::read(run.path("x.bat")).unwrap(), b"one\r\ntwo\r\n");
    assert_eq!(run.agent("git status --porcelain"), "");
    run.agent("printf 'three\\r\\n' >>x.bat");
    let harvest = run.collect();
    run.repository
        .merge(&run.worktree, &harvest.head, &run.pre.base_commit)
        .unwrap();
    assert_eq!(
        fs::read(scratch.repo.join("x.bat")).unwrap(),
        b"one\r\ntwo\r\nthree\r\n"
    );
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");
}

#[test]
fn borrowed_objects_are_found_inside() {
    let scratch = Scratch::new();
    git(
        scratch.dir.path(),
        &["clone", "-q", "--shared", "repo", "middle"],
    );
    git(
        scratch.dir.path(),
        &["clone", "-q", "--shared", "middle", "with space"],
    );
    // One of them relative, as people write it.
    write(
        scratch.path("middle/.git/objects/info/alternates"),
        "../../../repo/.git/objects\n",
    );
    let repo = scratch.path("with space");
    let run = Run::start(Repository::open(&repo).unwrap(), scratch.dir.path(), None);
    let quiet = run.caged(&["git", "log", "--stat"]);
    assert!(
        quiet.status.success() && quiet.stderr.is_empty(),
        "{quiet:?}"
    );
    whole_life(&run, &repo);
}

#[test]
fn shallow_clones_are_fine() {
    let scratch = Scratch::new();
    for number in 0..5 {
        write(scratch.repo.join("n"), number.to_string());
        scratch.commit("n");
    }
    let url = format!("file://{}", scratch.repo.display());
    git(
        scratch.dir.path(),
        &["clone", "-q", "--depth=2", &url, "shallow"],
    );
    let repo = scratch.path("shallow");
    let run = Run::start(Repository::open(&repo).unwrap(), scratch.dir.path(), None);
    assert_eq!(run.agent("git log --oneline | wc -l"), "2");
    whole_life(&run, &repo);
}

#[test]
fn a_sparse_checkout_gets_the_whole_tree_and_is_never_half_merged() {
    let scratch = Scratch::new();
    write(scratch.repo.join("docs/a.md"), "a\n");
    scratch.commit("docs");
    for sparse_index in ["--no-sparse-index", "--sparse-index"] {
        git(
            &scratch.repo,
            &["sparse-checkout", "set", "--cone", sparse_index, "src"],
        );
        let run = scratch.start();
        assert!(
            run.pre.warnings[0].contains("sparse"),
            "{:?}",
            run.pre.warnings
        );
        assert!(run.path("docs/a.md").exists());
        run.agent("echo more >>docs/a.md");
        let harvest = run.collect();
        let why = run
            .repository
            .merge_refusal(&run.worktree, &harvest.head)
            .unwrap()
            .unwrap();
        assert!(why.contains("git merge --ff-only"), "{why}");
    }
}

#[test]
fn a_hooks_folder_in_the_tree_is_a_private_copy() {
    for (hooks, tracked) in [(".husky", true), (".husky/_", false)] {
        let scratch = Scratch::new();
        write(scratch.repo.join(".husky/pre-commit"), "#!/bin/sh\n");
        scratch.commit("husky");
        git(&scratch.repo, &["config", "core.hooksPath", hooks]);
        let run = scratch.start();
        assert!(
            run.pre.warnings[0].contains("core.hooksPath"),
            "{:?}",
            run.pre.warnings
        );
        assert_eq!(run.agent("git status --porcelain"), "");
        run.agent(&format!(
            "mkdir -p {hooks}; printf '#!/bin/sh\\ntouch %s/canary\\n' \"$PWD\" >{hooks}/post-index-change
             chmod +x {hooks}/post-index-change"
        ));
        // On the host there is nothing to run, before or after the work is collected.
        assert!(!run.path(&format!("{hooks}/post-index-change")).exists());
        git(&run.worktree.path, &["status"]);
        let harvest = run.collect();
        git(&run.worktree.path, &["status"]);
        git(&run.worktree.path, &["add", "-A"]);
        assert!(!run.path("canary").exists());
        let flags = run
            .repository
            .diff(&run.worktree, &harvest.head)
            .unwrap()
            .flags;
        assert!(
            flags.iter().any(|flag| flag.contains(".husky/")),
            "{tracked} {flags:?}"
        );
    }
}

#[test]
fn other_runs_and_the_stash_are_not_seen_inside() {
    let scratch = Scratch::new();
    write(scratch.repo.join("a.txt"), "stashed");
    git(&scratch.repo, &["stash", "-q"]);
    git(
        &scratch.repo,
        &[
            "remote",
            "add",
            "origin",
            "https://user:secret@example.org/x.git",
        ],
    );
    git(&scratch.repo, &["config", "include.path", "/etc/secret"]);
    let other = scratch.start();
    let run = scratch.start();
    let refs = run.agent("git for-each-ref --format='%(refname)'; git stash list; git remote");
    assert_eq!(
        refs,
        format!("refs/heads/{}\nrefs/heads/main", run.worktree.branch)
    );
    let config = fs::read_to_string(run.shadow_dir.join("config")).unwrap();
    assert!(!config.contains("secret"), "{config}");
    assert!(!refs.contains(&other.worktree.branch));
}
