//! Discard and restore: nothing is lost, nothing outside is touched, gone is done.

use crate::fixture::{Run, Scratch, git, try_git, write};
use foreman_git::GitError;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Every entry below `root` with its kind, mode, time and content.
fn picture(root: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            let content = if meta.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_owned()
            } else if meta.is_file() {
                fs::read(&path).unwrap()
            } else {
                if meta.is_dir() {
                    folders.push(path.clone());
                }
                Vec::new()
            };
            let relative = path.strip_prefix(root).unwrap().to_owned();
            all.insert(
                relative,
                (meta.mode(), meta.mtime(), meta.mtime_nsec(), content),
            );
        }
    }
    all
}

fn messy(scratch: &Scratch) -> Run {
    let run = scratch.start();
    run.agent(
        "echo c >committed; git add committed; git commit -qm committed
         echo staged >staged; git add staged; echo changed >>a.txt; rm run.sh
         mkdir -p ignored/deep empty/inner; echo i >ignored/deep/i; echo l >x.log
         git init -q nested; echo n >nested/n; mkfifo pipe; ln -s /etc/passwd out; ln -s nowhere dangling
         printf 'bytes\\0\\377' >bin; chmod 600 bin; chmod 755 x.log",
    );
    write(
        run.path("latin")
            .with_file_name(std::ffi::OsStr::from_bytes(b"latin-\xe9")),
        "1",
    );
    fs::set_permissions(run.path("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    run
}

#[test]
fn a_discarded_run_comes_back_byte_for_byte() {
    let scratch = Scratch::new();
    let run = messy(&scratch);
    let admin = scratch
        .repo
        .join(".git/worktrees")
        .join(&run.worktree.admin);
    let before = [&run.worktree.path, &run.shadow_dir, &admin].map(|path| picture(path));
    let branch = git(&scratch.repo, &["rev-parse", &run.worktree.branch]);

    let name = run
        .repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert_eq!(name, format!("refs/foreman/snapshots/{}", run.id));
    for path in [&run.worktree.path, &run.shadow_dir, &admin] {
        assert!(path.symlink_metadata().is_err(), "{}", path.display());
    }
    assert_eq!(git(&scratch.repo, &["branch", "--list", "foreman/*"]), "");
    assert!(!run.repository.verify(&run.worktree).is_empty());
    // People find the files and the uncollected commit with plain git.
    assert_eq!(
        git(
            &scratch.repo,
            &["show", &format!("{name}:worktree/ignored/deep/i")]
        ),
        "i"
    );
    let log = git(&scratch.repo, &["log", "--format=%s", &name]);
    assert!(log.contains("committed"), "{log}");
    git(&scratch.repo, &["fsck", "--strict"]);
    git(&scratch.repo, &["gc", "-q", "--prune=now"]);
    // Gone is done.
    let again = run
        .repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert_eq!(again, name);

    run.repository
        .restore(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    let after = [&run.worktree.path, &run.shadow_dir, &admin].map(|path| picture(path));
    for (before, after) in before.iter().zip(&after) {
        for (path, was) in before {
            assert_eq!(after.get(path), Some(was), "{}", path.display());
        }
        assert_eq!(before.len(), after.len());
    }
    assert_eq!(
        git(&scratch.repo, &["rev-parse", &run.worktree.branch]),
        branch
    );
    assert!(run.repository.verify(&run.worktree).is_empty());
    assert_eq!(run.agent("git log -1 --format=%s"), "committed");
    assert!(run.agent("git status --porcelain").contains("A  staged"));
    let harvest = run.collect();
    assert_eq!(harvest.commits, 2);
    git(&scratch.repo, &["fsck", "--strict"]);
}

#[test]
fn a_restore_never_overwrites() {
    let scratch = Scratch::new();
    let run = messy(&scratch);
    let restore = || {
        run.repository
            .restore(&run.id, &run.worktree, &run.shadow_dir)
    };
    assert!(matches!(restore(), Err(GitError::NotFound { .. })));
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    write(run.path("mine"), "mine");
    assert!(matches!(restore(), Err(GitError::InTheWay { .. })));
    assert_eq!(fs::read_to_string(run.path("mine")).unwrap(), "mine");
    fs::remove_dir_all(&run.worktree.path).unwrap();
    write(run.shadow_dir.join("mine"), "mine");
    assert!(matches!(restore(), Err(GitError::InTheWay { .. })));
    fs::remove_dir_all(&run.shadow_dir).unwrap();
    let other = scratch.commit("other");
    git(&scratch.repo, &["branch", &run.worktree.branch, &other]);
    assert!(matches!(restore(), Err(GitError::BranchClash { .. })));
    assert!(!run.worktree.path.exists() && !run.shadow_dir.exists());
    git(&scratch.repo, &["branch", "-D", &run.worktree.branch]);
    restore().unwrap();
    assert!(run.repository.verify(&run.worktree).is_empty());
}

#[test]
fn a_half_removed_worktree_is_not_taken_for_a_whole_one() {
    let scratch = Scratch::new();
    let run = messy(&scratch);
    let discard = || {
        run.repository
            .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
            .unwrap()
    };
    let name = discard();
    run.repository
        .restore(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    // Died while removing: moved aside, some of it gone.
    let snapshot = git(&scratch.repo, &["rev-parse", &name]);
    let aside = run
        .worktree
        .path
        .with_file_name(format!("{}.removing", run.id));
    fs::rename(&run.worktree.path, &aside).unwrap();
    fs::remove_file(aside.join("bin")).unwrap();
    discard();
    assert_eq!(git(&scratch.repo, &["rev-parse", &name]), snapshot);
    assert!(!aside.exists() && !run.shadow_dir.exists());
    run.repository
        .restore(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert!(run.path("bin").exists());
}

#[test]
fn what_was_removed_by_hand_is_done() {
    let scratch = Scratch::new();
    // The worktree.
    let run = messy(&scratch);
    fs::remove_dir_all(&run.worktree.path).unwrap();
    assert!(run.repository.verify(&run.worktree)[0].contains("removed by hand"));
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert!(!run.shadow_dir.exists());
    // The registration.
    let run = messy(&scratch);
    fs::remove_dir_all(
        scratch
            .repo
            .join(".git/worktrees")
            .join(&run.worktree.admin),
    )
    .unwrap();
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert!(!run.worktree.path.exists());
    // Everything.
    let run = messy(&scratch);
    fs::remove_dir_all(&run.worktree.path).unwrap();
    fs::remove_dir_all(&run.shadow_dir).unwrap();
    fs::remove_dir_all(
        scratch
            .repo
            .join(".git/worktrees")
            .join(&run.worktree.admin),
    )
    .unwrap();
    git(&scratch.repo, &["branch", "-D", &run.worktree.branch]);
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    git(&scratch.repo, &["fsck", "--strict"]);
}

#[test]
fn removal_never_leaves_the_worktree() {
    let scratch = Scratch::new();
    let run = scratch.start();
    write(scratch.path("outside/precious"), "x");
    symlink(scratch.path("outside"), run.path("link")).unwrap();
    symlink(&scratch.repo, run.path("src/link")).unwrap();
    fs::hard_link(scratch.path("outside/precious"), run.path("hard")).unwrap();
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert_eq!(
        fs::read_to_string(scratch.path("outside/precious")).unwrap(),
        "x"
    );
    assert_eq!(git(&scratch.repo, &["status", "--porcelain"]), "");

    // A folder that nothing proves to be the run's, the operator's own tree, a link to it.
    let run = scratch.start();
    for path in [scratch.path("outside"), scratch.repo.clone()] {
        let mut wrong = run.worktree.clone();
        wrong.path = path;
        wrong.admin = "unknown".into();
        let error = run
            .repository
            .snapshot_and_remove(&run.id, &wrong, &run.shadow_dir)
            .unwrap_err();
        assert!(matches!(error, GitError::BadPlace { .. }), "{error}");
    }
    assert!(scratch.path("outside/precious").exists() && scratch.repo.join("a.txt").exists());
}

#[test]
fn a_branch_that_the_operator_took_over_stays() {
    let scratch = Scratch::new();
    let run = messy(&scratch);
    let harvest = run.collect();
    git(
        &scratch.repo,
        &["worktree", "unlock", run.worktree.path.to_str().unwrap()],
    );
    git(&run.worktree.path, &["checkout", "-q", "--detach"]);
    git(&scratch.repo, &["checkout", "-q", &run.worktree.branch]);
    run.repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap();
    assert_eq!(git(&scratch.repo, &["rev-parse", "HEAD"]), harvest.head);
}

#[test]
fn an_operators_prune_leaves_the_run_alone() {
    let scratch = Scratch::new();
    let run = scratch.start();
    let hidden = run.worktree.path.with_file_name("hidden");
    fs::rename(&run.worktree.path, &hidden).unwrap();
    git(&scratch.repo, &["worktree", "prune", "--expire=now"]);
    git(&scratch.repo, &["gc", "-q", "--prune=now"]);
    fs::rename(&hidden, &run.worktree.path).unwrap();
    assert!(run.repository.verify(&run.worktree).is_empty());
    assert!(try_git(&run.worktree.path, &["status"]).status.success());
}

#[test]
fn absurdly_large_files_are_refused_before_anything_is_removed() {
    let scratch = Scratch::new();
    let run = scratch.start();
    fs::File::create(run.path("huge"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let error = run
        .repository
        .snapshot_and_remove(&run.id, &run.worktree, &run.shadow_dir)
        .unwrap_err();
    assert!(
        matches!(error, GitError::SnapshotTooLarge { .. }),
        "{error}"
    );
    assert!(run.path("huge").exists() && run.repository.verify(&run.worktree).is_empty());
}

#[test]
fn what_a_killed_creation_left_behind_can_be_taken_down() {
    let scratch = Scratch::new();
    let repository = scratch.open();
    let pre = repository.preflight(None).unwrap();
    for stage in 0..3 {
        let id = crate::fixture::run_id();
        let at = scratch.path("data").join(id.as_str());
        let planned = foreman_git::Worktree::planned(&id, &pre, &at);
        git(
            &scratch.repo,
            &["branch", "--no-track", &planned.branch, &pre.base_commit],
        );
        if stage > 0 {
            fs::create_dir_all(&at).unwrap();
        }
        if stage > 1 {
            let admin = scratch.repo.join(".git/worktrees").join(&planned.admin);
            write(admin.join("locked"), "foreman run\n");
            write(at.join("half"), "written");
        }
        let shadow = scratch.path("data/shadow");
        repository
            .snapshot_and_remove(&id, &planned, &shadow)
            .unwrap();
        assert!(!at.exists());
        assert_eq!(git(&scratch.repo, &["branch", "--list", "foreman/*"]), "");
        assert!(!scratch.repo.join(".git/worktrees").exists());
    }
}

#[test]
fn folders_in_folders_by_the_hundred_are_taken_down_and_come_back() {
    let scratch = Scratch::new();
    let run = scratch.start();
    let mut deep = run.worktree.path.clone();
    for _ in 0..700 {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    write(deep.join("file"), "x");
    fs::create_dir(deep.join(".git")).unwrap();
    let Run {
        id,
        repository,
        worktree,
        shadow_dir,
        ..
    } = &run;
    // As in the product: on a thread whose stack is small.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            worktree.take_nested_repositories_out_of_use().unwrap();
            repository
                .snapshot_and_remove(id, worktree, shadow_dir)
                .unwrap();
            assert!(!worktree.path.exists());
            repository.restore(id, worktree, shadow_dir).unwrap();
        });
    });
    assert_eq!(fs::read_to_string(deep.join("file")).unwrap(), "x");
    assert!(!deep.join(".git").exists());
}
