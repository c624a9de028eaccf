//! Scratch repositories, runs in them, and a stand-in for the cage.

use foreman_domain::RunId;
use foreman_git::{Harvest, Preflight, Repository, Shadow, Worktree};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Scratch {
    pub dir: tempfile::TempDir,
    pub repo: PathBuf,
}

/// Runs git in `dir` as an operator would, with an empty global configuration; must succeed.
pub fn git<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> String {
    let output = try_git(dir, args);
    assert!(
        output.status.success(),
        "git {:?}: {}",
        args.iter()
            .map(|a| a.as_ref().to_owned())
            .collect::<Vec<_>>(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

pub fn try_git<S: AsRef<OsStr>>(dir: &Path, args: &[S]) -> Output {
    Command::new("git")
        .args([
            "-c",
            "protocol.file.allow=always",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "Op")
        .env("GIT_AUTHOR_EMAIL", "op@example.org")
        .env("GIT_COMMITTER_NAME", "Op")
        .env("GIT_COMMITTER_EMAIL", "op@example.org")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

pub fn write(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl Scratch {
    /// A repository with three files on `main`.
    pub fn new() -> Self {
        Self::named("repo")
    }

    pub fn named(name: &str) -> Self {
        let scratch = Self::empty(name);
        write(scratch.repo.join("a.txt"), "one\ntwo\nthree\n");
        write(scratch.repo.join("src/lib.rs"), "pub fn lib() {}\n");
        write(scratch.repo.join("run.sh"), "#!/bin/sh\n");
        write(scratch.repo.join(".gitignore"), "ignored/\n*.log\n");
        git(
            &scratch.repo,
            &["update-index", "--add", "--chmod=+x", "run.sh"],
        );
        fs::set_permissions(
            scratch.repo.join("run.sh"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        scratch.commit("start");
        scratch
    }

    pub fn empty(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repo = dir.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(&repo).unwrap();
        git(&repo, &["init", "-q"]);
        git(&repo, &["config", "user.name", "Operator Ä"]);
        git(&repo, &["config", "user.email", "operator@example.org"]);
        Self { dir, repo }
    }

    pub fn commit(&self, message: &str) -> String {
        git(&self.repo, &["add", "-A"]);
        git(
            &self.repo,
            &["commit", "-q", "--allow-empty", "-m", message],
        );
        git(&self.repo, &["rev-parse", "HEAD"])
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub fn open(&self) -> Repository {
        Repository::open(&self.repo).unwrap()
    }

    /// A run, made ready as the engine does it.
    pub fn start(&self) -> Run {
        Run::start(self.open(), self.dir.path(), None)
    }
}

/// A run's files.
pub struct Run {
    pub id: RunId,
    pub repository: Repository,
    pub pre: Preflight,
    pub worktree: Worktree,
    pub shadow_dir: PathBuf,
    pub shadow: Shadow,
    pub file: PathBuf,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

pub fn run_id() -> RunId {
    RunId::from_random(NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Run {
    pub fn start(repository: Repository, data: &Path, base: Option<&str>) -> Self {
        let data = data.canonicalize().unwrap().join("data");
        let id = run_id();
        let pre = repository.preflight(base).unwrap();
        let at = data
            .join("worktrees")
            .join(repository.slug())
            .join(id.as_str());
        let worktree = repository.create_worktree(&id, &pre, &at).unwrap();
        let shadow_dir = data.join("shadows").join(id.as_str());
        let shadow = repository.shadow(&worktree, &shadow_dir).unwrap();
        let file = data.join(format!("{id}.bundle"));
        Self {
            id,
            repository,
            pre,
            worktree,
            shadow_dir,
            shadow,
            file,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.worktree.path.join(name)
    }

    /// Runs a program in the worktree as the cage shows it.
    pub fn caged(&self, argv: &[impl AsRef<OsStr>]) -> Output {
        self.caged_as(
            &["--user", "--map-root-user", "--mount"],
            "exec \"$@\"",
            argv,
        )
    }

    /// The same as another user, of whom files can be given to; root only.
    pub fn caged_as_other(&self, argv: &[impl AsRef<OsStr>]) -> Output {
        let exec = "exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\"";
        self.caged_as(&["--mount"], exec, argv)
    }

    fn caged_as(&self, unshare: &[&str], exec: &str, argv: &[impl AsRef<OsStr>]) -> Output {
        let mut script = String::from("set -e; mount -t tmpfs none /run; ");
        // Sources are the host's, also where a bind lies over them later.
        for (number, bind) in self.shadow.binds.iter().enumerate() {
            let stage = format!("/run/stage/{number}");
            script.push_str(&match bind.source.is_dir() {
                true => format!("mkdir -p {stage}; "),
                false => format!("mkdir -p /run/stage; : >{stage}; "),
            });
            script.push_str(&format!("mount --bind {} {stage}; ", quoted(&bind.source)));
        }
        for (number, bind) in self.shadow.binds.iter().enumerate() {
            let (source, target) = (format!("/run/stage/{number}"), quoted(&bind.target));
            if bind.target.starts_with("/run/foreman") && bind.source.is_dir() {
                script.push_str(&format!("mkdir -p {target}; "));
            }
            script.push_str(&format!("mount --bind {source} {target}; "));
            if !bind.writable {
                script.push_str(&format!("mount -o remount,bind,ro {target}; "));
            }
        }
        script.push_str(&format!("cd {}; {exec}", quoted(&self.worktree.path)));
        Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", &script, "cage"])
            .args(argv)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent")
            .envs(self.shadow.env.iter().cloned())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// A shell command of the agent; must succeed.
    pub fn agent(&self, script: &str) -> String {
        let output = self.caged(&["sh", "-euc", script]);
        assert!(
            output.status.success(),
            "{script}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned()
    }

    /// The two closing steps, as the shim runs them; the harvest file is written.
    pub fn finish(&self) {
        let finished = self.caged(&self.worktree.finish_argv());
        assert!(
            finished.status.success(),
            "finish: {}",
            String::from_utf8_lossy(&finished.stderr)
        );
        self.print_bundle();
    }

    pub fn print_bundle(&self) {
        let printed = self.caged(&self.worktree.harvest_argv());
        assert!(
            printed.status.success(),
            "harvest: {}",
            String::from_utf8_lossy(&printed.stderr)
        );
        fs::write(&self.file, printed.stdout).unwrap();
    }

    pub fn collect(&self) -> Harvest {
        self.finish();
        self.repository.harvest(&self.worktree, &self.file).unwrap()
    }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_str().unwrap().replace('\'', "'\\''"))
}

/// Gives everything below `root` to another user; root only.
pub fn give_away(root: &Path) {
    std::os::unix::fs::lchown(root, Some(65_534), Some(65_534)).unwrap();
    if root.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(root).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}
