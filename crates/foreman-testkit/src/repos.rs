//! Scratch repositories: plain, odd, large, hostile, and real ones.

use crate::{Bench, Binaries};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// A small repository with two commits; ignores the arena's folder.
///
/// # Errors
/// git or the file system failed.
pub fn plain(bench: &Bench, name: &str) -> Result<PathBuf> {
    let folder = bench.scratch("repo")?.join(name);
    plain_at(bench, &folder)?;
    Ok(folder)
}

/// As [`plain`], at a place of the caller's, which may have an odd name.
///
/// # Errors
/// git or the file system failed.
pub fn plain_at(bench: &Bench, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    bench.own(folder)?;
    bench.shell(
        folder,
        "git init -q -b main .
         printf '/.arena/\\n*.ignored\\n' > .gitignore
         printf 'one\\n' > file.txt
         mkdir src; printf 'fn main() {}\\n' > src/main.rs
         git add -A; git commit -qm 'first'
         printf 'two\\n' >> file.txt; git commit -qam 'second'",
    )?;
    Ok(())
}

/// The tip of a branch, in hexadecimal.
///
/// # Errors
/// No such branch.
pub fn tip(bench: &Bench, repo: &Path, branch: &str) -> Result<String> {
    Ok(bench
        .shell(repo, &format!("git rev-parse --verify -q '{branch}'"))?
        .trim()
        .to_owned())
}

/// Everything that must not change on the host by what a cage does: refs but those of runs, config,
/// hooks, info and the checked-out files of the main worktree, as one text to compare.
///
/// # Errors
/// git failed.
pub fn fingerprint(bench: &Bench, repo: &Path) -> Result<String> {
    bench.shell(
        repo,
        "git for-each-ref | grep -v 'refs/\\(heads/\\)\\?foreman/' || true
         git symbolic-ref HEAD; git status --porcelain --ignored
         cd \"$(git rev-parse --git-common-dir)\"
         cat config; cat info/* 2>/dev/null || true; ls hooks 2>/dev/null || true
         find hooks info -type f -exec sha256sum {} + 2>/dev/null || true",
    )
}

/// The repository still has the [`fingerprint`] that it had.
///
/// # Errors
/// It has not; the message has the lines that differ.
pub fn unchanged(bench: &Bench, repo: &Path, before: &str) -> Result<()> {
    let after = fingerprint(bench, repo)?;
    let gone: Vec<&str> = before
        .lines()
        .filter(|line| !after.lines().any(|new| new == *line))
        .collect();
    let new: Vec<&str> = after
        .lines()
        .filter(|line| !before.lines().any(|old| old == *line))
        .collect();
    ensure!(
        after == before,
        "the repository changed: gone {gone:?}, new {new:?}"
    );
    Ok(())
}

/// A repository with a submodule at `lib/inner`, which has a local store.
///
/// # Errors
/// git failed.
pub fn with_submodule(bench: &Bench) -> Result<PathBuf> {
    let inner = plain(bench, "inner")?;
    let repo = plain(bench, "with-submodule")?;
    bench.shell(
        &repo,
        &format!(
            "git -c protocol.file.allow=always submodule add -q '{}' lib/inner
             git commit -qm 'add a submodule'",
            inner.display()
        ),
    )?;
    Ok(repo)
}

/// A repository whose files pass through a filter shaped like git-lfs: pointers in the store, content
/// by a program that is not there for the caged side.
///
/// # Errors
/// git failed.
pub fn with_filter(bench: &Bench) -> Result<PathBuf> {
    let repo = plain(bench, "with-filter")?;
    let store = bench.scratch("store")?;
    let clean = format!(
        "hash=$(tee '{0}/in' | sha256sum | cut -c1-64); mv '{0}/in' \"{0}/$hash\"; \
         printf 'version lfs-shaped\\noid sha256:%s\\n' \"$hash\"",
        store.display()
    );
    let smudge = format!(
        "hash=$(sed -n 's/^oid sha256://p'); cat \"{}/$hash\"",
        store.display()
    );
    bench.write(&store.join("clean"), format!("#!/bin/sh\n{clean}\n"))?;
    bench.write(&store.join("smudge"), format!("#!/bin/sh\n{smudge}\n"))?;
    bench.shell(
        &repo,
        &format!(
            "chmod +x '{0}/clean' '{0}/smudge'
             git config filter.shaped.clean '{0}/clean'
             git config filter.shaped.smudge '{0}/smudge'
             printf '*.bin filter=shaped -text\\n' > .gitattributes
             head -c 20000 /dev/zero > big.bin
             git add -A; git commit -qm 'add a filtered file'",
            store.display()
        ),
    )?;
    Ok(repo)
}

/// A repository with hooks that leave a mark when they run; the file whose presence tells.
///
/// # Errors
/// git failed.
pub fn with_hooks(bench: &Bench) -> Result<(PathBuf, PathBuf)> {
    let repo = plain(bench, "with-hooks")?;
    let mark = bench.scratch("mark")?.join("hook-ran");
    let hook = format!("#!/bin/sh\necho \"$0\" >> '{}'\n", mark.display());
    for name in ALL_HOOKS {
        bench.write(&repo.join(".git/hooks").join(name), &hook)?;
    }
    bench.shell(&repo, "chmod +x .git/hooks/*")?;
    Ok((repo, mark))
}

/// Names of the hooks that git runs on its own.
pub const ALL_HOOKS: [&str; 12] = [
    "pre-commit",
    "post-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "post-merge",
    "pre-rebase",
    "post-rewrite",
    "pre-auto-gc",
    "fsmonitor-watchman",
];

/// A repository that points `core.hooksPath` into its own tree, as husky does; and the mark file.
///
/// # Errors
/// git failed.
pub fn with_hooks_path(bench: &Bench) -> Result<(PathBuf, PathBuf)> {
    let repo = plain(bench, "with-hooks-path")?;
    let mark = bench.scratch("mark")?.join("hook-ran");
    bench.write(&repo.join(".husky/pre-commit"), "#!/bin/sh\nexit 0\n")?;
    bench.shell(
        &repo,
        "chmod +x .husky/*; git add -A; git commit -qm 'husky'; git config core.hooksPath .husky",
    )?;
    Ok((repo, mark))
}

/// A repository with many files.
///
/// # Errors
/// git failed.
pub fn with_many_files(bench: &Bench, count: u32) -> Result<PathBuf> {
    let repo = plain(bench, "with-many-files")?;
    for number in 0..count {
        let folder = repo.join(format!("many/{:03}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(
            folder.join(format!("{number:05}.txt")),
            format!("file {number}\n"),
        )?;
    }
    if bench.user() != "root" {
        crate::bench::run(
            std::process::Command::new("chown")
                .args(["-R", &bench.uid().to_string()])
                .arg(&repo),
        )?;
    }
    bench.shell(&repo, "git add -A; git commit -qm 'many files'")?;
    Ok(repo)
}

/// A repository with many branches and tags besides.
///
/// # Errors
/// git failed.
pub fn with_many_refs(bench: &Bench, count: u32) -> Result<PathBuf> {
    let repo = plain(bench, "with-many-refs")?;
    bench.shell(
        &repo,
        &format!(
            "tip=$(git rev-parse HEAD)
             seq 1 {count} | sed \"s|.*|create refs/heads/topic/& $tip|\" | git update-ref --stdin
             git pack-refs --all"
        ),
    )?;
    Ok(repo)
}

/// This very repository, cloned.
///
/// # Errors
/// This is no checkout, or git failed.
pub fn this_one(bench: &Bench) -> Result<PathBuf> {
    let folder = bench.scratch("real")?.join("foreman");
    let bundle = bench.scratch("real")?.join("foreman.bundle");
    // A bundle: the test's user cannot read the checkout itself.
    crate::bench::run(
        std::process::Command::new("git")
            .args(["-c", "safe.directory=*", "bundle", "create", "-q"])
            .arg(&bundle)
            .arg("HEAD")
            .current_dir(Binaries::checkout()),
    )?;
    bench.own(&bundle)?;
    bench.shell(
        bundle.parent().context("a parent")?,
        &format!("git clone -q '{}' '{}'", bundle.display(), folder.display()),
    )?;
    bench.shell(
        &folder,
        "git checkout -q -B main; printf '/.arena/\\n' >> .git/info/exclude",
    )?;
    Ok(folder)
}

/// A repository made from the sources of a published crate, as the registry's cache has them.
///
/// # Errors
/// No version of the crate is there.
pub fn of_crate(bench: &Bench, name: &str) -> Result<PathBuf> {
    let source = crate_source(name)?;
    let folder = bench.scratch("real")?.join(name);
    crate::bench::run(
        std::process::Command::new("cp")
            .args(["-r"])
            .arg(&source)
            .arg(&folder),
    )?;
    if bench.user() != "root" {
        crate::bench::run(
            std::process::Command::new("chown")
                .args(["-R", &bench.uid().to_string()])
                .arg(&folder),
        )?;
    }
    bench.shell(
        &folder,
        "rm -rf .git .gitignore; git init -q -b main .; printf '/.arena/\\n/target/\\n' > .gitignore
         git add -Af; git commit -qm 'as published'",
    )?;
    Ok(folder)
}

fn crate_source(name: &str) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
        .context("no HOME")?;
    let mut found: Vec<PathBuf> = Vec::new();
    for registry in fs::read_dir(home.join("registry/src")).context("no crate was ever built")? {
        for entry in fs::read_dir(registry?.path())? {
            let entry = entry?;
            let file = entry.file_name().to_string_lossy().into_owned();
            let rest = file
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('-'));
            if rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit())) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    ensure!(
        !found.is_empty(),
        "the sources of {name} are not in the registry's cache"
    );
    found.pop().context("just looked")
}
