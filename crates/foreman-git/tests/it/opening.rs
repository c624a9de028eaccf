//! What is refused at the door, in which words, and what is let in.

use crate::fixture::{Run, Scratch, git, try_git, write};
use foreman_domain::Code;
use foreman_git::{GitError, Repository};
use std::fs;
use std::path::Path;

fn refusal(path: &Path) -> GitError {
    match Repository::open(path).and_then(|repository| repository.preflight(None)) {
        Ok(pre) => panic!("{} was let in: {pre:?}", path.display()),
        Err(error) => error,
    }
}

fn says(error: &GitError, code: Code, words: &str) {
    let text = format!("{error} — {}", error.hint().unwrap_or_default());
    assert_eq!(error.code(), code, "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn what_is_no_usable_repository_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    says(
        &refusal(&dir.path().join("missing")),
        Code::BadInput,
        "--repo",
    );
    says(&refusal(dir.path()), Code::BadInput, "git init");

    let empty = Scratch::empty("repo");
    says(&refusal(&empty.repo), Code::BadInput, "no commits yet");

    git(dir.path(), &["init", "-q", "--bare", "bare.git"]);
    says(
        &refusal(&dir.path().join("bare.git")),
        Code::BadRepository,
        "bare",
    );

    let broken = Scratch::new();
    fs::remove_file(broken.repo.join(".git/HEAD")).unwrap();
    says(&refusal(&broken.repo), Code::BadRepository, "damaged");

    let broken = Scratch::new();
    fs::write(broken.repo.join(".git/config"), "[core\nx").unwrap();
    says(&refusal(&broken.repo), Code::BadRepository, "damaged");

    let broken = Scratch::new();
    fs::write(broken.repo.join(".git/refs/heads/main"), "junk\n").unwrap();
    says(&refusal(&broken.repo), Code::BadRepository, "damaged");

    let broken = Scratch::new();
    fs::remove_dir_all(broken.repo.join(".git/objects")).unwrap();
    fs::create_dir(broken.repo.join(".git/objects")).unwrap();
    says(&refusal(&broken.repo), Code::BadRepository, "damaged");
}

#[test]
fn bases_that_are_not_branches_are_refused_with_the_remedy() {
    let scratch = Scratch::new();
    let repository = scratch.open();
    git(&scratch.repo, &["tag", "v1"]);
    git(
        &scratch.repo,
        &["update-ref", "refs/remotes/origin/next", "HEAD"],
    );
    let refused = |base: &str| repository.preflight(Some(base)).unwrap_err();
    says(&refused("nope"), Code::BadInput, "git branch");
    says(&refused("v1"), Code::BadInput, "it is a tag");
    says(
        &refused("origin/next"),
        Code::BadInput,
        "git branch next origin/next",
    );
    says(&refused("HEAD~0"), Code::BadInput, "it is a commit");
    assert_eq!(
        repository
            .preflight(Some("refs/heads/main"))
            .unwrap()
            .base_branch,
        "main"
    );

    git(&scratch.repo, &["checkout", "-q", "--detach"]);
    says(
        &refusal(&scratch.repo),
        Code::BadInput,
        "pass --base BRANCH",
    );
    assert_eq!(
        repository.preflight(Some("main")).unwrap().base_branch,
        "main"
    );
}

#[test]
fn a_paused_operation_in_the_operators_tree_does_not_matter() {
    let scratch = Scratch::new();
    git(&scratch.repo, &["switch", "-qc", "one"]);
    write(scratch.repo.join("a.txt"), "one");
    scratch.commit("one");
    git(&scratch.repo, &["switch", "-q", "main"]);
    write(scratch.repo.join("a.txt"), "two");
    scratch.commit("two");
    assert!(!try_git(&scratch.repo, &["merge", "one"]).status.success());
    let run = scratch.start();
    assert_eq!(run.agent("git status --porcelain"), "");
}

#[test]
fn formats_that_cannot_be_caged_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, args: &[&str]| {
        let mut all = vec!["init", "-q"];
        all.extend(args);
        all.push(name);
        let made = try_git(dir.path(), &all).status.success();
        let path = dir.path().join(name);
        made.then(|| git(&path, &["commit", "-q", "--allow-empty", "-m", "x"]))
            .map(|_| path)
    };
    match make("reftable", &["--ref-format=reftable"]) {
        Some(path) => says(&refusal(&path), Code::BadRepository, "reftable"),
        None => eprintln!("skipped: this git does not know reftable"),
    }
    match make("sha256", &["--object-format=sha256"]) {
        Some(path) => says(&refusal(&path), Code::BadRepository, "SHA-256"),
        None => eprintln!("skipped: this git does not know SHA-256"),
    }
    let odd = Scratch::new();
    git(&odd.repo, &["config", "core.repositoryformatversion", "1"]);
    git(&odd.repo, &["config", "extensions.fancy", "true"]);
    says(&refusal(&odd.repo), Code::BadRepository, "extensions.fancy");

    let source = Scratch::new();
    git(&source.repo, &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", source.repo.display());
    git(
        dir.path(),
        &["clone", "-q", "--filter=blob:none", &url, "partial"],
    );
    says(
        &refusal(&dir.path().join("partial")),
        Code::BadRepository,
        "partial clone",
    );

    let rooted = Scratch::new();
    git(&rooted.repo, &["config", "core.hooksPath", "."]);
    says(
        &refusal(&rooted.repo),
        Code::BadRepository,
        "core.hooksPath",
    );
}

#[test]
fn a_linked_worktree_stands_for_its_repository() {
    let scratch = Scratch::new();
    git(
        &scratch.repo,
        &["worktree", "add", "-q", "../linked", "-b", "feature"],
    );
    let repository = Repository::open(&scratch.path("linked/src")).unwrap();
    assert_eq!(repository.common_dir(), scratch.repo.join(".git"));
    assert_eq!(repository.root(), scratch.path("linked"));
    assert_eq!(repository.slug(), scratch.open().slug());
    let run = Run::start(repository, scratch.dir.path(), None);
    assert_eq!(run.pre.base_branch, "feature");
    run.agent("echo x >x; git add .; git commit -qm x");
    let harvest = run.collect();
    let base = run.pre.base_commit.clone();
    run.repository
        .merge(&run.worktree, &harvest.head, &base)
        .unwrap();
    assert!(scratch.path("linked/x").exists());
    assert_eq!(git(&scratch.path("linked"), &["status", "--porcelain"]), "");
}

#[test]
fn worktrees_of_a_bare_repository_are_fine() {
    let scratch = Scratch::new();
    git(
        scratch.dir.path(),
        &["clone", "-q", "--bare", "repo", "bare.git"],
    );
    git(
        &scratch.path("bare.git"),
        &["worktree", "add", "-q", "../tree", "main"],
    );
    let run = Run::start(
        Repository::open(&scratch.path("tree")).unwrap(),
        scratch.dir.path(),
        None,
    );
    run.agent("git status; echo x >x; git add .; git commit -qm x");
    let harvest = run.collect();
    run.repository
        .merge(&run.worktree, &harvest.head, &run.pre.base_commit)
        .unwrap();
    assert_eq!(git(&scratch.path("tree"), &["status", "--porcelain"]), "");
}

#[test]
fn a_slug_is_a_safe_folder_name_that_tells_repositories_apart() {
    let (one, two) = (
        Scratch::named("Ünsafe näme\n.git"),
        Scratch::named("Ünsafe näme\n.git"),
    );
    let (one, two) = (one.open().slug(), two.open().slug());
    assert_ne!(one, two);
    assert!(
        one.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
        "{one}"
    );
}

#[test]
fn a_repository_of_somebody_else_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can give a repository away");
        return;
    }
    let scratch = Scratch::new();
    crate::fixture::give_away(&scratch.repo);
    says(
        &refusal(&scratch.repo),
        Code::BadRepository,
        "safe.directory",
    );
}
