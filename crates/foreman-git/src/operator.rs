//! Git as the operator's own hands: for what must reach a remote with the operator's credentials.
//!
//! Unlike [`crate::program`], it has the operator's environment and all of the operator's configuration,
//! because keys, credential helpers, proxies and URL rewrites live there; it is started in the operator's
//! checkout, where the operator's own git would be. What of that can run programs (`core.sshCommand`,
//! `credential.helper`, `core.gitProxy`, `remote.*.uploadpack`, an allowed `ext::` address) is written in
//! files outside of the tree, which no cage can reach, and is trusted exactly as far as it is when the
//! operator types the command. What the *tree* could decide is switched off: hooks, file monitors,
//! submodules, and programs looked up in the checkout.
//!
//! Nobody is asked for anything: no terminal, no prompt, no window. Bounded by time, by the bytes that
//! arrive in a folder, and by a flag that somebody else may set.

use crate::GitError;
use foreman_domain::sanitize_line;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause between looks at the bounds.
const LOOK: Duration = Duration::from_millis(50);
/// The longest line of the program's messages that is passed on.
const LINE: u64 = 4096;
/// The most lines of messages that are kept.
const LINES: usize = 200;
/// Where programs are looked up when the environment says nothing usable.
const USUAL_PATH: &str = "/usr/bin:/bin";
/// Variables of git's own that say how to connect, and nothing about repositories.
const KEPT: [&str; 7] = [
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_PROXY_COMMAND",
    "GIT_ALLOW_PROTOCOL",
];

/// How much a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// The longest it may take.
    pub time: Duration,
    /// The most bytes that may arrive.
    pub bytes: u64,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Well.
    Done,
    /// Not well; its last words.
    Failed(String),
    /// Ended by us: out of time.
    TooLong,
    /// Ended by us: too much arrived.
    TooLarge,
    /// Ended by us: the flag was set.
    Stopped,
}

/// One call of git with the operator's credentials.
pub(crate) struct OperatorGit<'a> {
    root: &'a Path,
    variables: Vec<(&'static str, PathBuf)>,
    settings: Vec<&'static str>,
    args: Vec<OsString>,
    /// What the configuration says about ssh.
    ssh: Option<String>,
}

impl<'a> OperatorGit<'a> {
    /// A call in the checkout `root`, with `config` to look up how ssh is started.
    pub(crate) fn new(root: &'a Path, config: &git2::Config) -> Self {
        Self {
            root,
            variables: Vec::new(),
            settings: Vec::new(),
            args: Vec::new(),
            ssh: config.get_string("core.sshcommand").ok(),
        }
    }

    /// Sets one of git's variables to a path.
    pub(crate) fn variable(mut self, name: &'static str, value: &Path) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Overrides a setting.
    pub(crate) fn setting(mut self, setting: &'static str) -> Self {
        self.settings.push(setting);
        self
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Runs it; `measured` is the folder in which bytes arrive, and `said` hears each line that it says.
    pub(crate) fn run(
        self,
        limits: FetchLimits,
        measured: &Path,
        stop: &AtomicBool,
        said: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Ended, GitError> {
        let failed = |detail: String| GitError::Program {
            what: self
                .args
                .first()
                .map_or_else(String::new, |what| what.to_string_lossy().into_owned()),
            detail,
        };
        let mut child = self.command().spawn().map_err(|error| {
            failed(match error.kind() {
                std::io::ErrorKind::NotFound => "the git program is not installed".to_owned(),
                _ => error.to_string(),
            })
        })?;
        let until = Instant::now() + limits.time;
        let stderr = child.stderr.take();
        std::thread::scope(|scope| {
            let words = scope.spawn(move || listen(stderr, said));
            let cut = loop {
                match child.try_wait() {
                    Ok(Some(_)) | Err(_) => break None,
                    Ok(None) => {}
                }
                if stop.load(Ordering::Relaxed) {
                    break Some(Ended::Stopped);
                }
                if Instant::now() >= until {
                    break Some(Ended::TooLong);
                }
                if size_of(measured) > limits.bytes {
                    break Some(Ended::TooLarge);
                }
                std::thread::sleep(LOOK);
            };
            if cut.is_some() {
                kill(&mut child);
            }
            let status = child.wait();
            // What it started (ssh, a helper) may live on and hold its messages open.
            end_group(&child);
            let words = words.join().unwrap_or_default();
            match (cut, status) {
                (Some(cut), _) => Ok(cut),
                (None, Ok(status)) if status.success() => Ok(Ended::Done),
                (None, Ok(status)) => Ok(Ended::Failed(last_words(&words, &status.to_string()))),
                (None, Err(error)) => Err(failed(error.to_string())),
            }
        })
    }

    fn command(&self) -> Command {
        let path = outside_of(self.root, std::env::var_os("PATH"));
        // In a session of its own there is no terminal that anybody could ask on.
        let mut command = match find("setsid", &path) {
            Some(setsid) => {
                let mut command = Command::new(setsid);
                command.arg("git");
                command
            }
            None => {
                let mut command = Command::new("git");
                command.process_group(0);
                command
            }
        };
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text.starts_with("GIT_") && !KEPT.contains(&name_text.as_ref()) {
                command.env_remove(&name);
            }
        }
        command.env("PATH", &path);
        for (name, value) in [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", "false"),
            ("SSH_ASKPASS", "false"),
            ("SSH_ASKPASS_REQUIRE", "never"),
            ("GCM_INTERACTIVE", "never"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_ADVICE", "0"),
        ] {
            command.env(name, value);
        }
        let given = std::env::var("GIT_SSH_COMMAND").ok();
        let has_program = std::env::var_os("GIT_SSH").is_some();
        if let Some(ssh) = unattended_ssh(given.or_else(|| self.ssh.clone()), has_program) {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "submodule.recurse=false",
            "gc.auto=0",
            "maintenance.auto=false",
            // Whether the repository may be used was decided when it was opened.
            "safe.directory=*",
        ]
        .iter()
        .chain(&self.settings)
        {
            command.arg("-c").arg(setting);
        }
        command.args(&self.args);
        command
            .current_dir(self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }
}

/// How ssh is started so that it asks nobody; none when that is not ours to say.
fn unattended_ssh(configured: Option<String>, has_program: bool) -> Option<String> {
    let command = match configured {
        Some(command) => command,
        // A program of the operator's, which may not know ssh's options.
        None if has_program => return None,
        None => "ssh".to_owned(),
    };
    let program = command.split_whitespace().next().unwrap_or_default();
    let is_ssh = Path::new(program).file_name() == Some(OsStr::new("ssh"));
    is_ssh.then(|| format!("{command} -o BatchMode=yes"))
}

/// The search path without what is relative, what lies in the checkout `root`, and what is not there:
/// the checkout is no place to find programs in, by whatever name it is reached.
fn outside_of(root: &Path, path: Option<OsString>) -> OsString {
    let path = path.unwrap_or_else(|| USUAL_PATH.into());
    let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let kept = std::env::split_paths(&path).filter(|folder| {
        let is_outside = |real: PathBuf| !real.starts_with(&real_root);
        folder.is_absolute()
            // A link in the checkout that leads out of it may lead elsewhere tomorrow.
            && !folder.starts_with(root)
            && !folder.starts_with(&real_root)
            && folder.canonicalize().is_ok_and(is_outside)
    });
    match std::env::join_paths(kept) {
        // An empty search path means the current folder, which is the checkout.
        Ok(kept) if !kept.is_empty() => kept,
        Ok(_) | Err(_) => USUAL_PATH.into(),
    }
}

fn find(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

/// Reads messages to their end, so that the program never blocks on us.
fn listen(pipe: Option<impl Read>, said: &mut dyn FnMut(&str)) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(pipe) = pipe else { return lines };
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut bytes = Vec::new();
        match pipe.by_ref().take(LINE).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return lines,
            Ok(_) => {}
        }
        let text = without_credentials(&sanitize_line(String::from_utf8_lossy(&bytes).trim()));
        if !text.is_empty() && lines.len() < LINES {
            said(&text);
            lines.push(text);
        }
    }
}

/// Takes `user:password@` out of every address in a text.
pub(crate) fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let host = after
            .find(|c: char| c == '/' || c.is_whitespace() || c == '\'' || c == '"')
            .unwrap_or(after.len());
        let (authority, more) = after.split_at(host);
        out.push_str(
            authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host),
        );
        rest = more;
    }
    out.push_str(rest);
    out
}

fn last_words(lines: &[String], status: &str) -> String {
    let fatal = lines
        .iter()
        .find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    // What ssh or a helper said before says why.
    let first = lines.first().filter(|line| !line.starts_with("From "));
    match (first, fatal) {
        (Some(first), Some(fatal)) if first != fatal => format!("{first} ({fatal})"),
        (_, Some(line)) | (Some(line), None) => line.clone(),
        (None, None) => status.to_owned(),
    }
}

fn group_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

fn kill(child: &mut Child) {
    // Before it has its own group there is none; then there is nothing but itself.
    if killpg(group_of(child), Signal::SIGKILL).is_err() {
        let _ = child.kill();
    }
}

fn end_group(child: &Child) {
    let _ = killpg(group_of(child), Signal::SIGKILL);
}

/// Bytes of all files below a folder; what vanishes meanwhile counts nothing.
fn size_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => size_of(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_is_told_to_ask_nobody_whatever_the_operator_configured() {
        let told = |configured: Option<&str>, program| {
            unattended_ssh(configured.map(str::to_owned), program)
        };
        assert_eq!(told(None, false).as_deref(), Some("ssh -o BatchMode=yes"));
        assert_eq!(
            told(Some("/usr/bin/ssh -i key"), false).as_deref(),
            Some("/usr/bin/ssh -i key -o BatchMode=yes")
        );
        assert_eq!(told(Some("plink -batch"), false), None);
        assert_eq!(told(None, true), None);
    }

    #[test]
    fn credentials_in_addresses_are_never_passed_on() {
        assert_eq!(
            without_credentials("unable to access 'https://me:secret@host.example/x.git/': no"),
            "unable to access 'https://host.example/x.git/': no"
        );
        assert_eq!(
            without_credentials("ssh://git@a/b and https://t@c"),
            "ssh://a/b and https://c"
        );
        assert_eq!(without_credentials("git@host:path"), "git@host:path");
    }

    #[test]
    fn programs_are_never_looked_up_in_the_checkout() {
        let dir = tempfile::tempdir().unwrap();
        let (root, tools) = (dir.path().join("repo"), dir.path().join("tools"));
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir(&tools).unwrap();
        let link = |target: &Path, name: &str| {
            let link = dir.path().join(name);
            std::os::unix::fs::symlink(target, &link).unwrap();
            link
        };
        let into = link(&root.join("bin"), "into");
        let other_name = link(&root, "other-name");
        let out = link(&tools, "repo/out");
        let inside = [
            root.clone(),
            root.join("bin"),
            root.join("not-yet"),
            dir.path().join("tools/../repo/bin"),
            into,
            other_name.join("bin"),
            out,
            ".".into(),
            "bin".into(),
            "".into(),
        ];
        // By whichever name the checkout itself was opened.
        for root in [&root, &other_name] {
            let all = inside.iter().map(PathBuf::as_path);
            let good = [tools.as_path(), Path::new("/usr/bin")];
            let path = std::env::join_paths(all.clone().chain(good)).unwrap();
            let kept = std::env::join_paths(good).unwrap();
            assert_eq!(outside_of(root, Some(path)), kept);
            let path = std::env::join_paths(all).unwrap();
            assert_eq!(outside_of(root, Some(path)), USUAL_PATH);
        }
        assert_eq!(
            outside_of(&root, Some(".:bin:/usr/bin::/bin".into())),
            "/usr/bin:/bin"
        );
        assert_eq!(outside_of(&root, Some("".into())), USUAL_PATH);
    }
}
