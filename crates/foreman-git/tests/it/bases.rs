//! Fetching the base of a run: what arrives, what stays untouched, and when it is given up.

use crate::fixture::{Scratch, git, try_git, write};
use foreman_git::{FetchLimits, Fetched, Repository, Standing, Upstream};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const LIMITS: FetchLimits = FetchLimits {
    time: Duration::from_secs(60),
    bytes: 1 << 30,
};

/// A remote with `ahead` commits that its clone has never seen.
struct Pair {
    remote: Scratch,
    clone: PathBuf,
}

impl Pair {
    fn new(ahead: usize) -> Self {
        let remote = Scratch::new();
        git(remote.dir.path(), &["clone", "-q", "repo", "clone"]);
        for number in 0..ahead {
            write(remote.repo.join(format!("new-{number}")), "new\n");
            remote.commit("newer");
        }
        let clone = remote.path("clone");
        Self { remote, clone }
    }

    fn open(&self) -> Repository {
        Repository::open(&self.clone).unwrap()
    }

    fn upstream(&self) -> Upstream {
        self.open().upstream("main").unwrap().unwrap()
    }

    fn fetch(&self) -> Fetched {
        let never = AtomicBool::new(false);
        self.open()
            .fetch_base("r1", &self.upstream(), LIMITS, &never, &mut |_| {})
            .unwrap()
    }

    /// Everything of the operator's that a fetch of ours must not touch.
    fn operators(&self) -> String {
        let refs = git(&self.clone, &["for-each-ref"]);
        let log = fs::read_to_string(self.clone.join(".git/logs/refs/remotes/origin/HEAD"));
        let head = fs::read_to_string(self.clone.join(".git/FETCH_HEAD"));
        let config = fs::read_to_string(self.clone.join(".git/config")).unwrap();
        format!("{refs}\n{log:?}\n{head:?}\n{config}")
    }
}

fn nothing_half_done(clone: &Path) {
    let store = clone.join(".git/objects");
    let left: Vec<_> = fs::read_dir(&store)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_remotes_tip_is_fetched_and_no_ref_of_the_operators_moves() {
    let pair = Pair::new(40);
    let before = pair.operators();
    let tip = git(&pair.remote.repo, &["rev-parse", "main"]);
    assert_eq!(pair.upstream().shown, "origin/main");
    assert_eq!(pair.fetch(), Fetched::Tip(tip.clone()));
    assert_eq!(pair.operators(), before);
    nothing_half_done(&pair.clone);
    let repository = pair.open();
    let pre = repository.preflight(None).unwrap();
    let standing = repository.standing(&pre, &tip).unwrap();
    assert_eq!((standing.ahead, standing.behind), (0, 40));
    git(&pair.clone, &["fsck", "--strict"]);
    // Again, with nothing new.
    assert_eq!(pair.fetch(), Fetched::Tip(tip));
}

#[test]
fn a_run_starts_from_the_remotes_tip_and_merges_into_the_branch_that_is_behind() {
    let pair = Pair::new(2);
    let Fetched::Tip(tip) = pair.fetch() else {
        panic!("not fetched")
    };
    let repository = pair.open();
    let mut pre = repository.preflight(None).unwrap();
    let local = std::mem::replace(&mut pre.base_commit, tip.clone());
    let id = crate::fixture::run_id();
    let at = pair.remote.path("data").join(id.as_str());
    let worktree = repository.create_worktree(&id, &pre, &at).unwrap();
    repository.keep_base(&worktree).unwrap();
    assert!(at.join("new-1").exists());
    write(at.join("mine"), "mine\n");
    git(&at, &["add", "mine"]);
    git(
        &at,
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-qm",
            "mine",
        ],
    );
    let head = git(&at, &["rev-parse", "HEAD"]);
    let diff = repository.diff(&worktree, &head).unwrap();
    assert_eq!(diff.files.len(), 1, "only the run's own: {:?}", diff.files);
    assert_eq!(repository.merge_refusal(&worktree, &head).unwrap(), None);
    repository.merge(&worktree, &head, &local).unwrap();
    assert_eq!(git(&pair.clone, &["rev-parse", "main"]), head);
    assert!(pair.clone.join("new-1").exists() && pair.clone.join("mine").exists());
    assert_eq!(git(&pair.clone, &["status", "--porcelain"]), "");
}

#[test]
fn a_remote_that_is_not_there_is_told_and_costs_nothing() {
    let pair = Pair::new(1);
    git(
        &pair.clone,
        &["remote", "set-url", "origin", "/nonexistent/gone.git"],
    );
    let before = pair.operators();
    assert!(matches!(pair.fetch(), Fetched::Unreached(why) if why.contains("gone.git")));
    assert_eq!(pair.operators(), before);
    nothing_half_done(&pair.clone);
}

#[test]
fn a_branch_that_the_remote_does_not_have_is_told() {
    let pair = Pair::new(0);
    let upstream = Upstream {
        branch: "refs/heads/other".into(),
        ..pair.upstream()
    };
    let never = AtomicBool::new(false);
    let fetched = pair
        .open()
        .fetch_base("r1", &upstream, LIMITS, &never, &mut |_| {})
        .unwrap();
    assert!(matches!(fetched, Fetched::Unreached(why) if why.contains("refs/heads/other")));
}

/// Makes the remote answer by this shell command.
fn answer_by(pair: &Pair, command: &str) {
    let script = pair.remote.path("upload-pack");
    write(&script, format!("#!/bin/sh\n{command}\n"));
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    git(
        &pair.clone,
        &[
            "config",
            "remote.origin.uploadpack",
            script.to_str().unwrap(),
        ],
    );
}

#[test]
fn a_remote_that_never_answers_is_given_up_and_all_its_processes_end() {
    let pair = Pair::new(1);
    let mark = pair.remote.path("mark");
    answer_by(
        &pair,
        &format!("sleep 300 & echo $! >'{}'; wait", mark.display()),
    );
    let begun = Instant::now();
    let never = AtomicBool::new(false);
    let limits = FetchLimits {
        time: Duration::from_secs(2),
        ..LIMITS
    };
    let fetched = pair
        .open()
        .fetch_base("r1", &pair.upstream(), limits, &never, &mut |_| {})
        .unwrap();
    assert!(matches!(fetched, Fetched::Unreached(why) if why.contains("2 s")));
    assert!(begun.elapsed() < Duration::from_secs(30));
    nothing_half_done(&pair.clone);
    let pid = fs::read_to_string(mark).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while is_alive(pid.trim()) {
        assert!(Instant::now() < until, "{pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A process that runs; one that is dead and not waited for by its parent does not.
fn is_alive(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("").starts_with('Z'))
}

#[test]
fn a_fetch_that_is_stopped_ends_at_once() {
    let pair = Pair::new(1);
    answer_by(&pair, "exec sleep 300");
    let begun = Instant::now();
    let stop = AtomicBool::new(true);
    let fetched = pair
        .open()
        .fetch_base("r1", &pair.upstream(), LIMITS, &stop, &mut |_| {})
        .unwrap();
    assert_eq!(fetched, Fetched::Stopped);
    assert!(begun.elapsed() < Duration::from_secs(30));
    nothing_half_done(&pair.clone);
}

#[test]
fn more_than_may_arrive_is_given_up() {
    let pair = Pair::new(0);
    let mut noise = vec![0_u8; 8 << 20];
    let mut state = 1_u64;
    for byte in &mut noise {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
    write(pair.remote.repo.join("noise"), noise);
    pair.remote.commit("noise");
    // All of it arrives, and then the other side just waits.
    answer_by(
        &pair,
        "git-upload-pack \"$@\"; git upload-pack \"$@\"; sleep 300",
    );
    let limits = FetchLimits {
        bytes: 1 << 20,
        ..LIMITS
    };
    let never = AtomicBool::new(false);
    let fetched = pair
        .open()
        .fetch_base("r1", &pair.upstream(), limits, &never, &mut |_| {})
        .unwrap();
    assert!(matches!(fetched, Fetched::Unreached(why) if why.contains("1 MiB")));
    nothing_half_done(&pair.clone);
    assert!(
        !try_git(
            &pair.clone,
            &[
                "cat-file",
                "-e",
                &git(&pair.remote.repo, &["rev-parse", "main"])
            ]
        )
        .status
        .success()
    );
}

#[test]
fn no_hook_runs_and_no_program_of_the_checkout_is_taken() {
    let pair = Pair::new(1);
    let canary = pair.remote.path("canary");
    let script = format!("#!/bin/sh\ntouch '{}'\n", canary.display());
    for name in [
        "reference-transaction",
        "post-checkout",
        "fsmonitor-watchman",
        "pre-auto-gc",
    ] {
        let hook = pair.clone.join(".git/hooks").join(name);
        write(&hook, &script);
        fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    // What the tree says about submodules is not looked at.
    write(
        pair.clone.join(".gitmodules"),
        format!(
            "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% '{}'\n",
            canary.display()
        ),
    );
    git(&pair.clone, &["config", "fetch.recurseSubmodules", "true"]);
    assert!(matches!(pair.fetch(), Fetched::Tip(_)));
    assert!(!canary.exists());
}

#[test]
fn a_branch_without_a_remote_has_no_upstream_and_one_that_was_fetched_has() {
    let scratch = Scratch::new();
    assert_eq!(scratch.open().upstream("main").unwrap(), None);
    let pair = Pair::new(3);
    // Not configured, but of the same name as one that was fetched.
    git(&pair.clone, &["branch", "--unset-upstream"]);
    assert_eq!(pair.upstream().shown, "origin/main");
    let repository = pair.open();
    let pre = repository.preflight(None).unwrap();
    let none = Standing {
        ahead: 0,
        behind: 0,
    };
    assert_eq!(repository.last_fetched(&pre).unwrap(), Some(none));
    git(&pair.clone, &["fetch", "-q"]);
    let behind = repository.last_fetched(&pre).unwrap().unwrap().behind;
    assert_eq!(behind, 3);
    // A branch that follows another local one is fetched from nowhere.
    git(&pair.clone, &["branch", "topic"]);
    git(&pair.clone, &["config", "branch.topic.remote", "."]);
    git(
        &pair.clone,
        &["config", "branch.topic.merge", "refs/heads/main"],
    );
    assert_eq!(repository.upstream("topic").unwrap(), None);
}
