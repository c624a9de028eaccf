//! The repository of a run at a station: made here, from a bundle, and thrown away with the run.
//!
//! It is what a shadow directory is on the engine's machine, with the objects in it: all of it is the
//! run's to write but the worktree's `.git` and the configuration as it was made. Git runs here, outside
//! of any cage, before anything of the run does: on a repository without hooks, remotes and filters, with
//! no configuration of the machine or the user.

use super::{Offer, Reason, Refused};
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the closing steps find the configuration as it was made.
pub(super) const PRISTINE: &str = "foreman-pristine";

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n\
                      [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n";

/// Makes the repository and its worktree, at the base commit.
pub(super) fn make(
    repository: &Path,
    worktree: &Path,
    bundle: &Path,
    offer: &Offer,
) -> Result<(), Refused> {
    let base = &offer.spec.base;
    let is_hex = |byte: u8| byte.is_ascii_hexdigit();
    if !matches!(base.len(), 40 | 64) || !base.bytes().all(is_hex) {
        return Err(Reason::Malformed.says("the base commit is no object's name"));
    }
    let branch = format!("refs/heads/{}", offer.branch);
    let base_branch = format!("refs/heads/{}", offer.base_branch);
    for name in [&branch, &base_branch] {
        git(None, &["check-ref-format", name])
            .map_err(|_| Reason::Malformed.says("a branch has a name that git does not take"))?;
    }
    let path = text(repository)?;
    git(None, &["init", "-q", "--bare", "--template=", path])?;
    let wanted = format!("+{branch}:{branch}");
    let fetch = [
        "fetch",
        "-q",
        "--no-tags",
        "--no-write-fetch-head",
        text(bundle)?,
        &wanted,
    ];
    git(Some(repository), &fetch)?;
    let found = git(Some(repository), &["rev-parse", "-q", "--verify", &branch])?;
    if found.trim() != base {
        let what = "the repository that came does not hold the run's branch at its base commit";
        return Err(Reason::BadRepository.says(what));
    }
    if base_branch != branch {
        git(Some(repository), &["update-ref", &base_branch, base])?;
    }
    git(Some(repository), &["symbolic-ref", "HEAD", &base_branch])?;
    let add = ["worktree", "add", "-q", "--detach", text(worktree)?, base];
    git(Some(repository), &add)?;
    git(Some(worktree), &["symbolic-ref", "HEAD", &branch])?;
    furnish(repository)
        .map_err(|error| Reason::Environment.says(format!("cannot write in {path}: {error}")))
}

/// The configuration that the run finds, and a copy of it that stays as it is.
fn furnish(repository: &Path) -> io::Result<()> {
    std::fs::write(repository.join("config"), CONFIG)?;
    for folder in [PRISTINE, "hooks", "info", "objects/info"] {
        std::fs::create_dir_all(repository.join(folder))?;
    }
    let pristine = repository.join(PRISTINE);
    std::fs::write(pristine.join("config"), CONFIG)?;
    // No other object store is needed; a file that says so keeps the closing steps from looking for one.
    for alternates in ["objects/info/alternates", "foreman-pristine/alternates"] {
        std::fs::write(repository.join(alternates), "# none\n")?;
    }
    Ok(())
}

fn text(path: &Path) -> Result<&str, Refused> {
    let what = "a path of this station is not valid UTF-8";
    path.to_str().ok_or_else(|| Reason::Environment.says(what))
}

/// Runs git without anything of anybody's that could steer it; its output.
fn git(folder: Option<&Path>, arguments: &[&str]) -> Result<String, Refused> {
    let mut command = Command::new("git");
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .envs([
            ("LC_ALL", "C"),
            ("HOME", "/nonexistent"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
        ])
        .args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
        ])
        .args([
            "-c",
            "fetch.fsckObjects=true",
            "-c",
            "core.attributesFile=/dev/null",
        ])
        .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
        .args(arguments)
        .stdin(Stdio::null());
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Reason::Environment.says("git is not installed on this machine"),
        _ => Reason::Environment.says(format!("git cannot be started: {error}")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().rev().find(|line| !line.trim().is_empty());
    let what = arguments.first().copied().unwrap_or_default();
    Err(Reason::BadRepository.says(format!(
        "git {what} failed: {}",
        line.unwrap_or("it did not say why").trim()
    )))
}

/// Gives trees to the user that a cage's payload is on this machine, where this process is root and that
/// is another one.
pub(super) fn give_away(trees: &[PathBuf], maps_to: u32) -> Result<(), Refused> {
    if !nix::unistd::geteuid().is_root() || !is_mapped(maps_to) {
        return Ok(());
    }
    for tree in trees {
        give(tree, maps_to).map_err(|error| {
            let what = format!("{} cannot be given to the run: {error}", tree.display());
            Reason::Environment.says(what)
        })?;
    }
    Ok(())
}

fn give(path: &Path, user: u32) -> io::Result<()> {
    lchown(path, Some(user), Some(user))?;
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

/// Whether this user namespace knows a user of that number: only then does a cage's payload become it.
fn is_mapped(user: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(user))
    })
}
