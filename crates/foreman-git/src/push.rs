//! Sending a reviewed tip to a branch of a remote, with the operator's credentials.
//!
//! Exactly one commit goes to exactly one branch, never by force; a branch that we pushed before may be
//! replaced on request, and only while it is where we left it. No hook runs, nothing of submodules or
//! tags goes along, nobody is asked for anything. What the remote says is untrusted text.

use crate::operator::{Ended, FetchLimits, OperatorGit, without_credentials};
use crate::worktree::parse_oid;
use crate::{GitError, Repository};
use foreman_domain::sanitize_line;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The longest a push may take.
const TIME: Duration = Duration::from_secs(30 * 60);
/// The most lines of the remote that are passed on.
const SAID: usize = 20;

/// What to push where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushTo<'a> {
    /// Name of the remote.
    pub remote: &'a str,
    /// Short name of the branch there.
    pub branch: &'a str,
    /// The commit, in hexadecimal.
    pub head: &'a str,
    /// Short name of the branch that a pull request would go to.
    pub base: &'a str,
    /// Where we left the branch when we pushed to it last; it may then be replaced.
    pub replaces: Option<&'a str>,
}

/// What was pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pushed {
    /// Address of the remote, without credentials.
    pub url: String,
    /// Where to open a pull request; absent when that cannot be known.
    pub web: Option<String>,
    /// What the remote said. Untrusted text, made safe.
    pub said: Vec<String>,
}

/// Why a push did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushRefusal {
    /// The remote does not know or does not let the operator in.
    Credentials,
    /// The remote could not be reached.
    Network,
    /// The branch there has something else.
    NotFastForward,
    /// The remote has a rule of its own against it.
    Declined,
    /// It took too long.
    TooLong,
    /// Something else.
    Other,
}

impl Repository {
    /// Pushes.
    ///
    /// # Errors
    /// [`GitError::NotFound`] without such a remote, branch name or commit; [`GitError::Push`] with the
    /// kind of refusal.
    pub fn push(&self, to: &PushTo<'_>, stop: &AtomicBool) -> Result<Pushed, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, to.head)?;
        let full = format!("refs/heads/{}", to.branch);
        if !git2::Reference::is_valid_name(&full) || to.branch.starts_with('-') {
            return Err(GitError::BadBase {
                base: sanitize_line(to.branch),
                what: ", and cannot be the name of one".into(),
                hint: "Name another with --branch.".into(),
            });
        }
        let url = self.push_url(&repo, to.remote)?;
        let config = repo
            .config()
            .map_err(GitError::git("read the configuration"))?;
        let mut call = OperatorGit::new(self.root(), &config)
            .setting("push.recurseSubmodules=no")
            .setting("push.followTags=false")
            .setting("push.gpgSign=false")
            .setting("push.useForceIfIncludes=false")
            .setting("color.ui=false")
            .arg("push")
            .arg("--no-verify")
            .arg("--no-progress");
        if let Some(left_at) = to.replaces {
            let left_at = parse_oid(left_at)?;
            call = call.arg(format!("--force-with-lease={full}:{left_at}"));
        }
        let call = call.arg("--").arg(to.remote).arg(format!("{head}:{full}"));
        let limits = FetchLimits {
            time: TIME,
            bytes: u64::MAX,
        };
        let mut lines = Vec::new();
        let nothing = Path::new("/nonexistent");
        let ended = call.run(limits, nothing, stop, &mut |line| {
            lines.push(line.to_owned());
        })?;
        let refused = |kind: PushRefusal, detail: String| GitError::Push {
            remote: format!(
                "{} ({})",
                sanitize_line(to.remote),
                without_credentials(&url)
            ),
            kind,
            detail,
        };
        match ended {
            Ended::Done => Ok(Pushed {
                web: web_address(&url, to.base, to.branch),
                url: sanitize_line(&without_credentials(&url)),
                said: remote_lines(&lines),
            }),
            Ended::Failed(last) => {
                let kind = kind_of(&lines);
                Err(refused(kind, telling(&lines).unwrap_or(last)))
            }
            Ended::TooLong | Ended::TooLarge => {
                let detail = format!("no end after {} minutes", TIME.as_secs() / 60);
                Err(refused(PushRefusal::TooLong, detail))
            }
            Ended::Stopped => Err(refused(PushRefusal::Other, "it was stopped".into())),
        }
    }

    fn push_url(&self, repo: &git2::Repository, remote: &str) -> Result<String, GitError> {
        let found = repo.find_remote(remote).map_err(|_| {
            let known: Vec<String> = repo
                .remotes()
                .map(|names| {
                    let named = names.iter().flatten().flatten();
                    named.map(sanitize_line).collect()
                })
                .unwrap_or_default();
            let known = match known.as_slice() {
                [] => "the repository has none: `git remote add`".to_owned(),
                names => format!("it has {}", names.join(", ")),
            };
            GitError::NotFound {
                what: format!("a remote \"{}\" ({known})", sanitize_line(remote)),
            }
        })?;
        let push = found.pushurl().ok().flatten().map(str::to_owned);
        let url = push.or_else(|| found.url().ok().map(str::to_owned));
        url.ok_or_else(|| GitError::NotFound {
            what: format!("an address of the remote \"{}\"", sanitize_line(remote)),
        })
    }
}

/// What the remote itself said, without its frame.
fn remote_lines(lines: &[String]) -> Vec<String> {
    lines
        .iter()
        .filter_map(|line| line.strip_prefix("remote:"))
        .map(|line| sanitize_line(line.trim()))
        .filter(|line| !line.is_empty())
        .take(SAID)
        .collect()
}

/// The line that says why.
fn telling(lines: &[String]) -> Option<String> {
    let rejected = lines
        .iter()
        .find(|line| line.trim_start().starts_with("! ["));
    let remote = lines
        .iter()
        .find(|line| line.starts_with("remote: ") && line.len() > "remote: ".len() + 3);
    match (rejected, remote) {
        (Some(rejected), Some(remote)) => Some(format!("{} ({remote})", rejected.trim())),
        (Some(line), None) => Some(line.trim().to_owned()),
        (None, _) => None,
    }
}

fn kind_of(lines: &[String]) -> PushRefusal {
    let text = lines.join("\n").to_lowercase();
    let says = |any: &[&str]| any.iter().any(|words| text.contains(words));
    if says(&[
        "[remote rejected]",
        "pre-receive hook declined",
        "protected branch",
    ]) {
        PushRefusal::Declined
    } else if says(&[
        "[rejected]",
        "non-fast-forward",
        "fetch first",
        "stale info",
    ]) {
        PushRefusal::NotFastForward
    } else if says(&[
        "authentication failed",
        "permission denied",
        "could not read username",
        "could not read password",
        "terminal prompts disabled",
        "access denied",
        "invalid credentials",
        "error: 401",
        "error: 403",
        "host key verification failed",
        "not authorized",
    ]) {
        PushRefusal::Credentials
    } else if says(&[
        "could not resolve host",
        "connection refused",
        "connection timed out",
        "operation timed out",
        "network is unreachable",
        "no route to host",
        "couldn't connect",
        "failed to connect",
        "could not connect",
        "unable to access",
        "connection reset",
        "does not appear to be a git repository",
        "the remote end hung up",
        "temporary failure in name resolution",
    ]) {
        PushRefusal::Network
    } else {
        PushRefusal::Other
    }
}

/// Where a pull request from `branch` into `base` is opened; none for addresses that are no web server's.
fn web_address(url: &str, base: &str, branch: &str) -> Option<String> {
    let (host, path) = host_and_path(url)?;
    let (base, branch) = (encoded(base, "/"), encoded(branch, "/"));
    let path = encoded(&path, "/");
    let known = host.to_ascii_lowercase();
    let is = |name: &str| known.split(['.', ':', '-']).any(|part| part == name);
    Some(if is("gitlab") {
        let query = encoded("merge_request[source_branch]", "");
        let target = encoded("merge_request[target_branch]", "");
        format!(
            "https://{host}/{path}/-/merge_requests/new?{query}={}&{target}={}",
            branch.replace('/', "%2F"),
            base.replace('/', "%2F")
        )
    } else if is("bitbucket") {
        format!(
            "https://{host}/{path}/pull-requests/new?source={}&dest={}",
            branch.replace('/', "%2F"),
            base.replace('/', "%2F")
        )
    } else if is("dev") && is("azure") {
        format!(
            "https://{host}/{path}/pullrequestcreate?sourceRef={}&targetRef={}",
            branch.replace('/', "%2F"),
            base.replace('/', "%2F")
        )
    } else if known == "git.sr.ht" {
        format!("https://{host}/{path}/log/{branch}")
    } else {
        // The form of GitHub, which Gitea, Forgejo and others share.
        format!("https://{host}/{path}/compare/{base}...{branch}")
    })
}

/// Host (with a port of the web) and path of an address that a browser could open.
fn host_and_path(url: &str) -> Option<(String, String)> {
    let (authority, path, is_web) = match url.split_once("://") {
        Some(("https" | "http", rest)) => {
            let (authority, path) = rest.split_once('/')?;
            (authority, path, true)
        }
        Some(("ssh" | "git+ssh" | "ssh+git" | "git", rest)) => {
            let (authority, path) = rest.split_once('/')?;
            (authority, path, false)
        }
        Some(_) => return None,
        None => {
            // The short form of ssh: host:path.
            let (authority, path) = url.split_once(':')?;
            if authority.contains('/') || path.starts_with("//") {
                return None;
            }
            (authority, path.trim_start_matches('/'), false)
        }
    };
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    // A port of ssh is none of the web.
    let host = match host.rsplit_once(':') {
        Some((name, _)) if !is_web => name,
        _ => host,
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':');
    if host.is_empty() || !host.chars().all(fine) || !host.contains('.') {
        return None;
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!path.is_empty()).then(|| (host.to_owned(), path.to_owned()))
}

/// Percent-encoded but for what names are made of, and `keep`.
fn encoded(text: &str, keep: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'~')
            || keep.as_bytes().contains(&byte);
        if plain {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_request_is_opened_where_each_kind_of_host_has_it() {
        let web = |url: &str| web_address(url, "main", "foreman/r1");
        for (url, expected) in [
            (
                "git@github.com:me/x.git",
                "https://github.com/me/x/compare/main...foreman/r1",
            ),
            (
                "https://token@github.com/me/x.git",
                "https://github.com/me/x/compare/main...foreman/r1",
            ),
            (
                "ssh://git@gitlab.example.org:2222/group/sub/x.git",
                "https://gitlab.example.org/group/sub/x/-/merge_requests/new?\
                 merge_request%5Bsource_branch%5D=foreman%2Fr1&\
                 merge_request%5Btarget_branch%5D=main",
            ),
            (
                "https://bitbucket.org/me/x",
                "https://bitbucket.org/me/x/pull-requests/new?source=foreman%2Fr1&dest=main",
            ),
            (
                "https://codeberg.org:8443/me/x.git",
                "https://codeberg.org:8443/me/x/compare/main...foreman/r1",
            ),
        ] {
            assert_eq!(web(url).as_deref(), Some(expected), "{url}");
        }
    }

    #[test]
    fn an_address_of_no_web_server_gives_none_and_text_cannot_break_out() {
        for url in [
            "/srv/git/x.git",
            "file:///srv/x.git",
            "../x",
            "ext::sh -c evil",
            "host:x.git",
            "https://evil.example\u{1b}[2J/x.git",
            "https://host.example/",
        ] {
            assert_eq!(web_address(url, "main", "b"), None, "{url}");
        }
        let odd = web_address("git@host.example:a b/\u{202e}x.git", "main", "x\"><b").unwrap();
        assert_eq!(
            odd,
            "https://host.example/a%20b/%E2%80%AEx/compare/main...x%22%3E%3Cb"
        );
    }

    #[test]
    fn refusals_are_told_apart_by_what_git_says() {
        let kind = |text: &str| kind_of(&[text.to_owned()]);
        for (text, expected) in [
            (
                " ! [rejected]        abc -> x (fetch first)",
                PushRefusal::NotFastForward,
            ),
            (
                " ! [remote rejected] abc -> x (pre-receive hook declined)",
                PushRefusal::Declined,
            ),
            (
                "git@host: Permission denied (publickey).",
                PushRefusal::Credentials,
            ),
            (
                "fatal: could not read Username for 'https://h': terminal prompts disabled",
                PushRefusal::Credentials,
            ),
            (
                "ssh: connect to host h port 22: Connection refused",
                PushRefusal::Network,
            ),
            ("fatal: something new", PushRefusal::Other),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
