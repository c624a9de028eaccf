//! Pushing a reviewed tip: to one branch, never by force, with nothing of the tree taking part.

use crate::fixture::{Run, Scratch, git, try_git, write};
use foreman_git::{GitError, PushRefusal, PushTo};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// A run with a commit, and a bare repository that is its `origin`.
fn worked(scratch: &Scratch) -> (Run, String, PathBuf) {
    let bare = scratch.path("remote.git");
    git(
        &scratch.repo,
        &["clone", "-q", "--bare", ".", bare.to_str().unwrap()],
    );
    git(
        &scratch.repo,
        &["remote", "add", "origin", bare.to_str().unwrap()],
    );
    let run = scratch.start();
    run.agent("echo x >x");
    let head = run.collect().head;
    (run, head, bare)
}

fn to<'a>(head: &'a str, branch: &'a str) -> PushTo<'a> {
    PushTo {
        remote: "origin",
        branch,
        head,
        base: "main",
        replaces: None,
    }
}

fn push(run: &Run, to: &PushTo<'_>) -> Result<foreman_git::Pushed, GitError> {
    run.repository.push(to, &AtomicBool::new(false))
}

fn refusal(error: &GitError) -> PushRefusal {
    match error {
        GitError::Push { kind, .. } => *kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn exactly_the_named_commit_goes_to_exactly_the_named_branch() {
    let scratch = Scratch::new();
    let (run, head, bare) = worked(&scratch);
    git(&scratch.repo, &["tag", "-am", "t", "v1", &head]);
    git(&scratch.repo, &["config", "push.followTags", "true"]);
    let before = git(&bare, &["rev-parse", "main"]);
    let pushed = push(&run, &to(&head, "topic/one")).unwrap();
    assert_eq!(pushed.web, None, "a folder has no web page");
    assert_eq!(git(&bare, &["rev-parse", "topic/one"]), head);
    assert_eq!(git(&bare, &["rev-parse", "main"]), before);
    assert_eq!(git(&bare, &["tag"]), "");
    // Again: nothing to do, and no refusal.
    push(&run, &to(&head, "topic/one")).unwrap();
}

#[test]
fn no_hook_of_the_checkout_runs() {
    let scratch = Scratch::new();
    let (run, head, _) = worked(&scratch);
    let mark = scratch.path("ran");
    for folder in [scratch.repo.join(".git/hooks"), scratch.repo.join(".husky")] {
        for name in ["pre-push", "reference-transaction", "post-update"] {
            let path = folder.join(name);
            write(&path, format!("#!/bin/sh\ntouch {}\n", mark.display()));
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
    }
    for hooks in [".git/hooks", ".husky"] {
        git(&scratch.repo, &["config", "core.hooksPath", hooks]);
        push(&run, &to(&head, &format!("b{}", hooks.len()))).unwrap();
        assert!(!mark.exists(), "a hook in {hooks} ran");
    }
}

#[test]
fn a_branch_with_something_else_is_never_overwritten() {
    let scratch = Scratch::new();
    let (run, head, bare) = worked(&scratch);
    write(scratch.repo.join("others"), "others");
    let others = scratch.commit("others");
    git(
        &scratch.repo,
        &[
            "push",
            "-q",
            "origin",
            &format!("{others}:refs/heads/topic"),
        ],
    );
    let error = push(&run, &to(&head, "topic")).unwrap_err();
    assert_eq!(refusal(&error), PushRefusal::NotFastForward, "{error}");
    assert_eq!(error.code(), foreman_domain::Code::Conflict);
    // Not even when it claims to have left it elsewhere.
    let wrong = PushTo {
        replaces: Some(&run.pre.base_commit),
        ..to(&head, "topic")
    };
    assert_eq!(
        refusal(&push(&run, &wrong).unwrap_err()),
        PushRefusal::NotFastForward
    );
    assert_eq!(git(&bare, &["rev-parse", "topic"]), others);
    let right = PushTo {
        replaces: Some(&others),
        ..to(&head, "topic")
    };
    push(&run, &right).unwrap();
    assert_eq!(git(&bare, &["rev-parse", "topic"]), head);
}

#[test]
fn what_the_remote_declines_is_told_in_its_words_made_safe() {
    let scratch = Scratch::new();
    let (run, head, bare) = worked(&scratch);
    let hook = bare.join("hooks/pre-receive");
    write(
        &hook,
        "#!/bin/sh\nprintf 'no \\033[2Jentry: see https://rules.example/1\\n' >&2\nexit 1\n",
    );
    fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).unwrap();
    let error = push(&run, &to(&head, "topic")).unwrap_err();
    assert_eq!(refusal(&error), PushRefusal::Declined);
    let text = error.to_string();
    assert!(text.contains("https://rules.example/1"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn remotes_that_are_not_there_or_cannot_be_reached_are_told_apart() {
    let scratch = Scratch::new();
    let (run, head, _) = worked(&scratch);
    let nowhere = PushTo {
        remote: "nowhere",
        ..to(&head, "topic")
    };
    let error = push(&run, &nowhere).unwrap_err();
    assert!(
        matches!(&error, GitError::NotFound { what } if what.contains("origin")),
        "{error}"
    );
    for (url, expected) in [
        ("/nonexistent/x.git", PushRefusal::Network),
        ("http://127.0.0.1:1/x.git", PushRefusal::Network),
        ("ssh://127.0.0.1:1/x.git", PushRefusal::Network),
    ] {
        if url.starts_with("ssh") && try_git(&scratch.repo, &["--version"]).stdout.is_empty() {
            continue;
        }
        git(&scratch.repo, &["remote", "set-url", "origin", url]);
        let error = push(&run, &to(&head, "topic")).unwrap_err();
        assert_eq!(refusal(&error), expected, "{url}: {error}");
        assert!(error.hint().is_some());
    }
    for branch in ["", "-x", "a..b", "a b", "x.lock"] {
        let error = push(&run, &to(&head, branch)).unwrap_err();
        assert!(
            matches!(error, GitError::BadBase { .. }),
            "{branch}: {error}"
        );
    }
}

#[test]
fn credentials_are_neither_asked_for_nor_shown() {
    let scratch = Scratch::new();
    let (run, head, _) = worked(&scratch);
    // A web server that wants a name and a password.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\
                  Content-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    let url = format!("http://me:secret@127.0.0.1:{port}/x.git");
    git(&scratch.repo, &["remote", "set-url", "origin", &url]);
    let error = push(&run, &to(&head, "topic")).unwrap_err();
    assert_eq!(refusal(&error), PushRefusal::Credentials, "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    drop(server);
}
