//! What a repository itself says about making its runs ready: its own `.foreman/project.toml`, or, where
//! it has none, what the files of other tools say.
//!
//! It counts only while the operator trusts exactly what all of these files hold; until then it is shown
//! and nothing of it is done. The files are read from the operator's checkout, never from a run's
//! worktree, without following a link, and are hostile: bounded, parsed exactly, and what they name is
//! checked like what anybody else asks for.

use super::copying::{Found, Wanted, anchored, check_patterns, find};
use crate::api::{ProjectRequest, ProjectSource, ProjectView};
use crate::engine::Engine;
use crate::failures::{OrFail, io, join};
use crate::policies::open_repository;
use crate::tokens;
use foreman_domain::{At, Code, Failure, sanitize_line};
use foreman_git::Repository;
use serde::Deserialize;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The product's own file.
pub(crate) const OWN: &str = ".foreman/project.toml";
/// Files of other tools, in the order in which they are asked.
const FOREIGN: [(&str, Parse); 4] = [
    (".worktreeinclude", worktreeinclude),
    ("conductor.json", conductor),
    (".superset/config.json", superset),
    (".emdash.json", emdash),
];
/// Longest file that is read, and longest command in it.
const LONGEST: u64 = 256 << 10;
const LONGEST_COMMAND: usize = 64 << 10;
/// Files that are listed when it is shown.
const SHOWN: usize = 200;

type Parse = fn(&str) -> Result<Said, Failure>;

/// What one file says.
#[derive(Debug, Default)]
struct Said {
    copy: Vec<String>,
    setup: Option<String>,
    notes: Vec<String>,
}

/// What a repository says, whether or not it is trusted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Project {
    pub sources: Vec<ProjectSource>,
    /// All of what is copied.
    pub wanted: Wanted,
    pub setup: Option<String>,
    /// The file that the command is from.
    pub setup_from: Option<String>,
    /// `absent`, `untrusted`, `changed` or `trusted`.
    pub standing: &'static str,
    /// Token of all files together.
    pub expect: String,
}

impl Project {
    /// Files that were found, for a sentence.
    pub fn files(&self) -> String {
        let counting = self.sources.iter().filter(|source| source.counts);
        let names: Vec<&str> = counting.map(|source| source.file.as_str()).collect();
        names.join(", ")
    }

    /// Whether anything would be done.
    pub fn does_something(&self) -> bool {
        self.setup.is_some() || !self.wanted.patterns.is_empty()
    }
}

impl Engine {
    /// What a repository says about making its runs ready.
    pub async fn project(&self, repo: &Repository) -> Result<Project, Failure> {
        let root = repo.root().to_owned();
        let reading = tokio::task::spawn_blocking(move || read_all(&root));
        let mut project = reading.await.map_err(join)??;
        if project.sources.is_empty() {
            project.standing = "absent";
            return Ok(project);
        }
        let key = trust_key(repo);
        let trusted = self
            .store
            .is_trusted(&key, &project.expect)
            .await
            .or_fail()?;
        project.standing = match trusted {
            true => "trusted",
            false if self.store.was_ever_trusted(&key).await.or_fail()? => "changed",
            false => "untrusted",
        };
        Ok(project)
    }

    /// Shows what a repository would have copied and run.
    pub async fn show_project(&self, request: ProjectRequest) -> Result<ProjectView, Failure> {
        let repo = open_repository(&request.repo).await?;
        self.project_of(&repo).await
    }

    /// What a repository would have copied and run, as shown.
    pub(crate) async fn project_of(&self, repo: &Repository) -> Result<ProjectView, Failure> {
        let project = self.project(repo).await?;
        view(repo.clone(), project).await
    }

    /// Trusts what was shown, if it is still so.
    pub async fn trust_project(&self, request: ProjectRequest) -> Result<ProjectView, Failure> {
        let repo = open_repository(&request.repo).await?;
        let project = self.project(&repo).await?;
        if project.sources.is_empty() {
            return Err(Failure::new(
                Code::NotFound,
                format!(
                    "{} says nothing about making its runs ready",
                    repo.root().display()
                ),
            )
            .hint(format!(
                "Write a {OWN} with `copy = [...]` and `setup = \"...\"`."
            )));
        }
        let Some(expect) = request.expect else {
            return Err(
                Failure::new(Code::Usage, "no token says what is to be trusted")
                    .hint("Take it from `foreman project show --json`."),
            );
        };
        if expect != project.expect {
            return Err(Failure::new(
                Code::Stale,
                format!("{} is not as it was shown any more", project.files()),
            )
            .hint("Look at it again and trust that."));
        }
        self.store
            .trust(self.epoch, &trust_key(&repo), &project.expect, At::now())
            .await
            .or_fail()?;
        let trusted = Project {
            standing: "trusted",
            ..project
        };
        view(repo, trusted).await
    }
}

/// Apart from the consent to the policy file: one says nothing about the other.
fn trust_key(repo: &Repository) -> String {
    format!("{} project", repo.slug())
}

async fn view(repo: Repository, project: Project) -> Result<ProjectView, Failure> {
    let (looked, wanted) = (repo.clone(), project.wanted.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let base = looked.preflight(None)?.base_commit;
        select(&looked, &base, &wanted)
    });
    let (items, mut warnings) = match looking.await.map_err(join)? {
        Ok(found) => (found.items, found.warnings),
        // What cannot be copied now is shown all the same.
        Err(failure) => (Vec::new(), vec![failure.to_string()]),
    };
    warnings.sort();
    let more = u64::try_from(items.len().saturating_sub(SHOWN)).unwrap_or(u64::MAX);
    let copies = items.into_iter().take(SHOWN);
    Ok(ProjectView {
        repo: repo.root().to_owned(),
        sources: project.sources,
        copies: copies.map(|item| (item.path, item.bytes)).collect(),
        more,
        warnings,
        setup: project.setup,
        standing: project.standing.to_owned(),
        expect: project.expect,
    })
}

/// What of `wanted` is in the operator's checkout and not in `base`. Blocking.
pub(crate) fn select(repo: &Repository, base: &str, wanted: &Wanted) -> Result<Found, Failure> {
    let mut found = find(repo.root(), wanted)?;
    let paths = found.items.iter().map(|item| item.path.clone()).collect();
    let kept: std::collections::HashSet<String> = repo
        .untracked(base, paths, wanted.only_ignored)?
        .into_iter()
        .collect();
    found.items.retain(|item| kept.contains(&item.path));
    Ok(found)
}

fn read_all(root: &Path) -> Result<Project, Failure> {
    let mut project = Project::default();
    let mut whole = String::new();
    let mut found = Vec::new();
    let own: (&str, Parse) = (OWN, own);
    for (file, parse) in [own].into_iter().chain(FOREIGN) {
        if let Some(text) = read(root, file)? {
            whole.push_str(&format!("{file}\n{}\n{text}\n", text.len()));
            let said = parse(&text)
                .and_then(|said| check(said, file))
                .map_err(|failure| in_file(file, failure))?;
            found.push((file, said));
        }
    }
    project.expect = tokens::of_text(&whole);
    let has_own = found.first().is_some_and(|(file, _)| *file == OWN);
    project.wanted.only_ignored = !has_own;
    for (file, said) in found {
        let is_own = file == OWN;
        let mut counts = is_own || !has_own;
        if counts && said.setup.is_some() && project.setup.is_some() {
            // One command prepares a run: the first one.
            counts = !said.copy.is_empty();
        } else if counts && said.setup.is_some() {
            project.setup.clone_from(&said.setup);
            project.setup_from = Some(file.to_owned());
        }
        if counts {
            project.wanted.patterns.extend(said.copy.iter().cloned());
        }
        project.sources.push(ProjectSource {
            file: file.to_owned(),
            counts,
            copy: said.copy,
            setup: said.setup,
            notes: said.notes,
        });
    }
    Ok(project)
}

fn in_file(file: &str, failure: Failure) -> Failure {
    Failure {
        message: format!("{file}: {}", failure.message),
        hint: failure
            .hint
            .or_else(|| Some("Mend it, or leave it out with --no-project.".into())),
        ..failure
    }
}

/// The text of a file that may be absent; neither it nor a folder above it may be a link.
fn read(root: &Path, file: &str) -> Result<Option<String>, Failure> {
    let refuse = |what: &str| Err(Failure::new(Code::BadInput, format!("{file} {what}")));
    let path = root.join(file);
    for above in path.ancestors().skip(1).take_while(|above| *above != root) {
        match std::fs::symlink_metadata(above) {
            Ok(meta) if meta.is_dir() => {}
            Ok(meta) if meta.is_symlink() => return refuse("is reached through a link"),
            Ok(_) | Err(_) => return Ok(None),
        }
    }
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(&path);
    let opened = match opened {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            return refuse("is a link; it must be a file");
        }
        Err(error) => return Err(io(format!("{file} cannot be read"), &error)),
    };
    if !opened.metadata().is_ok_and(|meta| meta.is_file()) {
        return refuse("is not a file");
    }
    let mut bytes = Vec::new();
    opened
        .take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| io(format!("{file} cannot be read"), &error))?;
    if bytes.len() as u64 > LONGEST {
        return refuse("is too large");
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => refuse("is not UTF-8 text"),
    }
}

fn check(mut said: Said, file: &str) -> Result<Said, Failure> {
    said.setup = said.setup.filter(|command| !command.trim().is_empty());
    check_patterns(&said.copy)?;
    if let Some(command) = &said.setup {
        if command.len() > LONGEST_COMMAND || command.contains('\0') {
            return Err(Failure::new(
                Code::BadInput,
                "its setup command is too long or holds a NUL byte",
            ));
        }
        for (prefix, instead) in [("CONDUCTOR_", "the run"), ("SUPERSET_", "the run")] {
            if file != OWN && command.contains(prefix) {
                said.notes.push(format!(
                    "variables that begin with {prefix} are not set in {instead}'s cage, and the checkout \
                     is not seen there: list what is copied from it in {OWN}"
                ));
            }
        }
    }
    Ok(said)
}

fn bad(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::BadInput, sanitize_line(&what.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Own {
    #[serde(default)]
    copy: Vec<String>,
    setup: Option<String>,
}

fn own(text: &str) -> Result<Said, Failure> {
    let own: Own = toml::from_str(text).map_err(|error| bad(error.message()))?;
    Ok(Said {
        copy: anchored(&own.copy),
        setup: own.setup,
        notes: Vec::new(),
    })
}

fn worktreeinclude(text: &str) -> Result<Said, Failure> {
    let lines = text.trim_start_matches('\u{feff}').lines();
    let copy = lines
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    Ok(Said {
        copy,
        ..Said::default()
    })
}

fn json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Failure> {
    serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(bad)
}

#[derive(Default, Deserialize)]
struct Scripts {
    setup: Option<String>,
    run: Option<serde_json::Value>,
    archive: Option<serde_json::Value>,
    teardown: Option<serde_json::Value>,
}

impl Scripts {
    fn notes(&self) -> Vec<String> {
        [
            ("run", &self.run),
            ("archive", &self.archive),
            ("teardown", &self.teardown),
        ]
        .into_iter()
        .filter(|(_, script)| script.is_some())
        .map(|(name, _)| format!("its {name} script is not used"))
        .collect()
    }
}

fn conductor(text: &str) -> Result<Said, Failure> {
    #[derive(Deserialize)]
    struct Conductor {
        #[serde(default)]
        scripts: Scripts,
    }
    let read: Conductor = json(text)?;
    Ok(Said {
        notes: read.scripts.notes(),
        setup: read.scripts.setup,
        copy: Vec::new(),
    })
}

fn superset(text: &str) -> Result<Said, Failure> {
    #[derive(Deserialize)]
    struct Superset {
        #[serde(default)]
        setup: Vec<String>,
        #[serde(default)]
        teardown: Vec<String>,
    }
    let read: Superset = json(text)?;
    let mut said = Said::default();
    if !read.setup.is_empty() {
        said.setup = Some(read.setup.join(" && "));
    }
    if !read.teardown.is_empty() {
        said.notes.push("its teardown commands are not used".into());
    }
    Ok(said)
}

fn emdash(text: &str) -> Result<Said, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Emdash {
        #[serde(default)]
        preserve_patterns: Vec<String>,
        #[serde(default)]
        scripts: Scripts,
        shell_setup: Option<serde_json::Value>,
    }
    let read: Emdash = json(text)?;
    let mut notes = read.scripts.notes();
    if read.shell_setup.is_some() {
        notes.push("its shellSetup is not used".into());
    }
    Ok(Said {
        copy: read.preserve_patterns,
        setup: read.scripts.setup,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read_from(files: &[(&str, &str)]) -> Result<Project, Failure> {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        read_all(dir.path())
    }

    #[test]
    fn the_files_of_other_tools_are_read_and_their_commands_never_added_up() {
        let project = read_from(&[
            (".worktreeinclude", "# secrets\n.env\n\n!a/.env\n"),
            (
                "conductor.json",
                r#"{"scripts": {"setup": "npm ci; cp $CONDUCTOR_ROOT_PATH/.env .", "run": "x"}}"#,
            ),
            (
                ".superset/config.json",
                r#"{"setup": ["bun i", "bun db"], "teardown": ["y"]}"#,
            ),
            (
                ".emdash.json",
                r#"{"preservePatterns": [".env.local"], "scripts": {"setup": "pnpm i"}}"#,
            ),
        ])
        .unwrap();
        assert_eq!(project.wanted.patterns, [".env", "!a/.env", ".env.local"]);
        assert!(project.wanted.only_ignored);
        assert!(project.setup.unwrap().starts_with("npm ci"));
        let counts: Vec<_> = project.sources.iter().map(|source| source.counts).collect();
        assert_eq!(counts, [true, true, false, true]);
        assert_eq!(
            project.sources[1].notes.len(),
            2,
            "{:?}",
            project.sources[1]
        );
        assert_eq!(project.sources[2].setup.as_deref(), Some("bun i && bun db"));
    }

    #[test]
    fn the_own_file_comes_first_and_alone() {
        let project = read_from(&[
            (OWN, "copy = [\".env\", \"a/b\"]\nsetup = \"make deps\""),
            (".worktreeinclude", "*\n"),
        ])
        .unwrap();
        assert_eq!(project.wanted.patterns, ["/.env", "/a/b"]);
        assert!(!project.wanted.only_ignored);
        assert_eq!(project.setup.as_deref(), Some("make deps"));
        assert!(!project.sources[1].counts);
    }

    #[test]
    fn any_change_of_any_file_is_another_token() {
        let one = read_from(&[("conductor.json", "{}")]).unwrap().expect;
        let spaced = read_from(&[("conductor.json", "{ }")]).unwrap().expect;
        let moved = read_from(&[(".emdash.json", "{}")]).unwrap().expect;
        assert!(one != spaced && one != moved);
    }

    #[test]
    fn what_is_hostile_is_a_sentence_that_names_the_file() {
        let long = "x".repeat(300 << 10);
        for (file, text) in [
            (OWN, "copy = [\"../x\"]"),
            (OWN, "copy = 1"),
            (OWN, "colour = 1"),
            (".worktreeinclude", "../../etc/passwd"),
            (".worktreeinclude", ".git/config"),
            (
                "conductor.json",
                "{\"scripts\": {\"setup\": \"a\\u0000b\"}}",
            ),
            ("conductor.json", "{\"scripts\": []"),
            (".superset/config.json", "{\"setup\": {\"before\": []}}"),
            (".emdash.json", "{\"preservePatterns\": [\"/../x\"]}"),
            (".emdash.json", long.as_str()),
        ] {
            let failure = read_from(&[(file, text)]).unwrap_err();
            assert!(failure.message.contains(file), "{file}: {failure}");
            assert_eq!(failure.code, Code::BadInput);
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("conductor.json")).unwrap();
        assert!(read_all(dir.path()).unwrap_err().message.contains("link"));
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join(".superset")).unwrap();
        assert!(read_all(dir.path()).unwrap_err().message.contains("link"));
    }
}
