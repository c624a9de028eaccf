//! Agent programs on this machine: where they are, and what they say their version is.
//!
//! A program that is found is the operator's own, on the operator's own search path. It is asked for its
//! version without a shell, without standard input, with a deadline; what it says is one line of text.

use crate::api::{AgentView, Agents};
use crate::engine::Engine;
use crate::programs::asking::said_by;
use foreman_domain::{Failure, sanitize_line};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest wait for a version.
const VERSION: Duration = Duration::from_secs(3);
/// Bytes of it that are read, and letters that are kept.
const READ: u64 = 16_384;
const KEPT: usize = 120;

/// Programs that are looked for: what they are called, the program, and a word about starting it where it has no
/// driver.
const KNOWN: [(&str, &str, &str); 10] = [
    ("pi", "pi", "pi -p {prompt}"),
    ("Claude Code", "claude", "claude -p {prompt}"),
    ("Codex", "codex", "codex exec {prompt}"),
    ("Gemini CLI", "gemini", "gemini -p {prompt}"),
    ("OpenCode", "opencode", "opencode run {prompt}"),
    ("Aider", "aider", "aider --yes-always --message {prompt}"),
    ("Goose", "goose", "goose run --text {prompt}"),
    ("Cursor Agent", "cursor-agent", "cursor-agent -p {prompt}"),
    ("Amp", "amp", "amp -x {prompt}"),
    ("Qwen Code", "qwen", "qwen -p {prompt}"),
];
/// Folders below the home directory where installers put them.
const AT_HOME: [&str; 6] = [
    ".local/bin",
    ".npm-global/bin",
    ".bun/bin",
    ".cargo/bin",
    ".claude/local",
    "bin",
];

impl Engine {
    /// The agent programs that are looked for; those that were found first.
    pub async fn find_agents(&self) -> Result<Agents, Failure> {
        let path = operator_path(std::env::var_os("PATH"), login_path().await);
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let places = places(path.as_deref(), home.as_deref());
        let looking: Vec<_> = KNOWN
            .iter()
            .map(|known| look(known, places.clone(), home.clone()))
            .collect();
        let mut agents = futures::future::join_all(looking).await;
        agents.sort_by_key(|agent| agent.path.is_none());
        Ok(Agents { agents })
    }
}

/// This process's search path, then what the login shell has besides.
pub(crate) fn operator_path(own: Option<OsString>, login: Option<OsString>) -> Option<OsString> {
    match (own, login) {
        (Some(mut own), Some(login)) => {
            own.push(":");
            own.push(login);
            Some(own)
        }
        (own, login) => own.or(login),
    }
}

/// Where programs are looked for: the search path, then the usual places.
pub(super) fn places(path: Option<&OsStr>, home: Option<&Path>) -> Vec<PathBuf> {
    let on_path = path.into_iter().flat_map(std::env::split_paths);
    let usual = home
        .into_iter()
        .flat_map(|home| AT_HOME.iter().map(|folder| home.join(folder)))
        .chain([PathBuf::from("/usr/local/bin"), PathBuf::from("/usr/bin")]);
    let mut places: Vec<PathBuf> = Vec::new();
    for place in on_path.chain(usual) {
        if place.is_absolute() && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

async fn look(
    (name, program, start): &(&str, &str, &str),
    places: Vec<PathBuf>,
    home: Option<PathBuf>,
) -> AgentView {
    let profile = foreman_agent::profile(program).ok();
    let logins: Vec<PathBuf> = match (&profile, &home) {
        (Some(profile), Some(home)) => {
            let files = profile.logins.iter().map(|path| home.join(path));
            files.filter(|path| path.is_file()).collect()
        }
        _ => Vec::new(),
    };
    let found = places
        .iter()
        .map(|place| place.join(program))
        .find(|path| is_program(path));
    let version = match &found {
        Some(path) => version_of(path).await,
        None => None,
    };
    let hint = match (&found, &profile) {
        (Some(_), Some(profile)) if logins.is_empty() => format!(
            "`foreman run --agent {} PROMPT` starts it; no login or settings of its were found",
            profile.name
        ),
        (Some(_), Some(profile)) => format!(
            "`foreman run --agent {} --lend-login PROMPT` starts it with a copy of your login",
            profile.name
        ),
        (Some(_), None) => format!("An order starts it by `{start}`"),
        (None, _) => format!("\"{program}\" is in none of the places where it was looked for"),
    };
    AgentView {
        name: (*name).to_owned(),
        program: (*program).to_owned(),
        path: found,
        version,
        looked_in: places,
        hint,
        agent: profile.map(|profile| profile.name),
        logins,
    }
}

pub(super) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The first line that a program says about its version; none when it says nothing in time.
async fn version_of(path: &Path) -> Option<String> {
    let mut asking = tokio::process::Command::new(path);
    asking.arg("--version").current_dir("/");
    first_line(&said_by(&mut asking, READ, VERSION).await?)
}

/// The search path of the operator's login shell. A window that was opened from a menu was not started by one, and
/// has a shorter path than the operator's terminals; none when the shell does not say it in time.
pub(crate) async fn login_path() -> Option<OsString> {
    let shell = std::env::var_os("SHELL").map(PathBuf::from);
    let shell = shell.filter(|shell| shell.is_absolute())?;
    let mut asking = tokio::process::Command::new(shell);
    // What the shell's own files say comes before the mark.
    asking.args(["-l", "-c", "printf '\\n\\001%s\\n' \"$PATH\""]);
    asking.current_dir("/");
    let said = said_by(&mut asking, READ, VERSION).await?;
    let after = said.rsplit(|byte| *byte == 1).next()?;
    let line = after.split(|byte| *byte == b'\n').next()?;
    (said.contains(&1) && !line.is_empty()).then(|| OsString::from_vec(line.to_vec()))
}

fn first_line(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(sanitize_line(line).chars().take(KEPT).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    #[tokio::test]
    async fn what_a_program_says_of_its_version_is_one_line_that_steers_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let text = "#!/bin/sh\nprintf '\\n  1.2.3 \\033[2J(x)\\nmore\\n'\n";
        let path = program(dir.path(), "claude", text);
        let version = version_of(&path).await.unwrap();
        assert!(
            version.starts_with("1.2.3 ") && !version.contains('\u{1b}'),
            "{version}"
        );
        assert!(!version.contains('\n') && !version.contains("more"));
    }

    #[tokio::test]
    async fn a_program_that_does_not_answer_has_no_version_and_does_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("pid");
        let text = format!("#!/bin/sh\necho $$ > {}\nsleep 60\n", mark.display());
        let path = program(dir.path(), "codex", &text);
        assert_eq!(version_of(&path).await, None);
        let pid = std::fs::read_to_string(&mark).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists());
    }

    #[tokio::test]
    async fn a_program_is_found_on_the_path_first_and_only_where_it_can_be_started() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(one.path().join("amp"), "not a program").unwrap();
        let there = program(two.path(), "amp", "#!/bin/sh\necho amp 1\n");
        let places = vec![one.path().to_owned(), two.path().to_owned()];
        let found = look(&("Amp", "amp", "amp"), places.clone(), None).await;
        assert_eq!(found.path, Some(there));
        assert_eq!(found.version.as_deref(), Some("amp 1"));
        assert_eq!(found.looked_in, places);
        let missing = look(&("Qwen", "qwen", "qwen"), places, None).await;
        assert_eq!((missing.path, missing.version), (None, None));
    }

    #[test]
    fn relative_places_are_never_looked_in() {
        let path = OsStr::new("bin:/opt/x:.:/opt/x");
        let places = places(Some(path), Some(Path::new("/home/op")));
        assert_eq!(places[0], Path::new("/opt/x"));
        assert_eq!(places[1], Path::new("/home/op/.local/bin"));
        assert!(places.iter().all(|place| place.is_absolute()));
    }
}
