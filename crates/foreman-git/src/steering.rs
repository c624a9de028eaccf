//! Which of a run's changes could steer how its result is checked, or what opens it afterwards: the
//! list behind a merge that nobody looks at (`docs/gate.md` has it in words).
//!
//! It errs on the side of saying so: a change that is not on the list is an ordinary source file, a new
//! test, or prose. It cannot say that a check means anything: a source file can still contain code
//! that ends the tests early.

mod names;

use crate::deep_stack::on_deep_stack;
use crate::diff::{compare, fork_point};
use crate::flags::autoloaded;
use crate::{GitError, Repository, Worktree};
use foreman_domain::sanitize_line;
use names::{FOLDERS, IN_FOLDERS, NAMES};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The most findings that are given.
const MOST: usize = 200;
const LINK: u32 = 0o120_000;
const GITLINK: u32 = 0o160_000;

/// One side of every path that a run changed, renames taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Path in the repository, with `/`. Untrusted text.
    pub path: String,
    /// False when the path is not UTF-8, so that `path` is not the whole truth.
    pub is_utf8: bool,
    /// Mode before; absent when it is new.
    pub before: Option<u32>,
    /// Mode after; absent when it is gone.
    pub after: Option<u32>,
}

/// A change that could steer a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steering {
    /// Path in the repository. Untrusted text.
    pub path: String,
    /// What it steers, as the end of "changes".
    pub what: String,
}

impl Repository {
    /// Every path that the commits up to `head` change, beyond what the run started from.
    ///
    /// # Errors
    /// [`GitError::NotFound`] when `head` or the base branch is gone.
    pub fn touched(&self, worktree: &Worktree, head: &str) -> Result<Vec<Touched>, GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let base = self.base_tip(&repo, worktree)?;
        let from = fork_point(&repo, worktree, head, base)?;
        let diff = compare(&repo, from, head)?;
        let side = |file: git2::DiffFile<'_>| (!file.id().is_zero()).then(|| file.mode().into());
        Ok(diff
            .deltas()
            .map(|delta| {
                let (old, new) = (delta.old_file(), delta.new_file());
                let path = new.path_bytes().or(old.path_bytes()).unwrap_or_default();
                Touched {
                    path: String::from_utf8_lossy(path).into_owned(),
                    is_utf8: std::str::from_utf8(path).is_ok(),
                    before: side(old),
                    after: side(new),
                }
            })
            .collect())
    }

    /// The same changes under the other names that symbolic links of what the run started from give
    /// them: for a link `verify` to `src/v.rb`, a change of `src/v.rb` is one of `verify`.
    ///
    /// # Errors
    /// As for [`touched`](Self::touched).
    pub fn touched_by_links(
        &self,
        worktree: &Worktree,
        head: &str,
        touched: &[Touched],
    ) -> Result<Vec<Touched>, GitError> {
        let links = on_deep_stack(|| {
            let repo = self.git()?;
            let head = self.find_head(&repo, head)?;
            let base = self.base_tip(&repo, worktree)?;
            let from = fork_point(&repo, worktree, head, base)?;
            from.map_or(Ok(Vec::new()), |from| links_of(&repo, from))
                .map_err(GitError::git("look for symbolic links"))
        })?;
        Ok(under_links(touched, &links))
    }
}

/// Every symbolic link of a commit that leads to something inside, and where to.
fn links_of(
    repo: &git2::Repository,
    commit: git2::Oid,
) -> Result<Vec<(String, String)>, git2::Error> {
    let tree = repo.find_commit(commit)?.tree()?;
    let mut links = Vec::new();
    tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        let is_link = entry.filemode() & 0o170_000 == LINK as i32;
        if let (true, Ok(name), Ok(blob)) = (is_link, entry.name(), repo.find_blob(entry.id()))
            && let Ok(target) = std::str::from_utf8(blob.content())
            && let Some(target) = inside(folder, target)
        {
            links.push((format!("{folder}{name}"), target));
        }
        git2::TreeWalkResult::Ok
    })?;
    Ok(links)
}

/// Where a link in `folder` leads, by its words; none for what is outside.
fn inside(folder: &str, target: &str) -> Option<String> {
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn under_links(touched: &[Touched], links: &[(String, String)]) -> Vec<Touched> {
    /// Links to links that are followed.
    const DEEP: usize = 4;
    /// The most other names in all.
    const MOST_NAMES: usize = 100_000;
    let (mut found, mut from) = (Vec::new(), touched.to_vec());
    for _ in 0..DEEP {
        let mut next = Vec::new();
        for one in &from {
            for (link, target) in links {
                let rest = match target.is_empty() {
                    true => Some(format!("/{}", one.path)),
                    false => one.path.strip_prefix(target.as_str()).map(str::to_owned),
                };
                let is_at = |rest: &String| rest.is_empty() || rest.starts_with('/');
                if let Some(rest) = rest.filter(is_at)
                    && found.len() + next.len() < MOST_NAMES
                {
                    next.push(Touched {
                        path: format!("{link}{rest}"),
                        ..one.clone()
                    });
                }
            }
        }
        found.extend(next.iter().cloned());
        from = next;
    }
    found
}

/// Which of the changes could steer checks that run these commands.
#[must_use]
pub fn steering(touched: &[Touched], commands: &[&str]) -> Vec<Steering> {
    let words = words_of(commands);
    let finding = |touched: &Touched| {
        let what = steers(touched, &words)?;
        Some(Steering {
            path: sanitize_line(&touched.path),
            what: what.to_owned(),
        })
    };
    touched.iter().filter_map(finding).take(MOST).collect()
}

fn steers(touched: &Touched, words: &[String]) -> Option<&'static str> {
    let is = |wanted: u32| [touched.before, touched.after].contains(&Some(wanted));
    if is(GITLINK) {
        return Some("which commit of another repository is linked");
    }
    if is(LINK) {
        return Some("a symbolic link, which can stand for any file");
    }
    if !touched.is_utf8 || is_disguised(&touched.path) {
        return Some("a file whose name some systems take for another");
    }
    let path = plain(&touched.path);
    let parts: Vec<&str> = path.split('/').collect();
    let name = *parts.last()?;
    if words.iter().any(|word| is_named(word, &path)) {
        return Some("what a check or the setup names");
    }
    if autoloaded(Path::new(OsStr::from_bytes(path.as_bytes()))).is_some() {
        return Some("what editors, agents, git or a service load by themselves");
    }
    if let Some((_, what)) = FOLDERS.iter().find(|(folder, _)| parts.contains(folder)) {
        return Some(what);
    }
    let in_folder = |(folder, end, _): &&(&str, &str, &str)| {
        name.ends_with(end) && parts[..parts.len() - 1].contains(folder)
    };
    if let Some((_, _, what)) = IN_FOLDERS.iter().find(in_folder) {
        return Some(what);
    }
    if parts.iter().any(|part| part.starts_with('.')) {
        return Some("a hidden file, as settings are kept in");
    }
    if let Some((_, what)) = NAMES.iter().find(|(known, _)| fits(known, name)) {
        return Some(what);
    }
    if is_executable(touched) {
        return Some("a file that can be executed");
    }
    (touched.before.is_some() && is_test(&parts)).then_some("tests that were there before")
}

/// Made executable, or an executable that changed: scripts are what checks call.
fn is_executable(touched: &Touched) -> bool {
    [touched.before, touched.after]
        .into_iter()
        .flatten()
        .any(|mode| mode & 0o170_000 == 0o100_000 && mode & 0o111 != 0)
}

/// Lower-cased, as file systems compare names that do not know case.
fn plain(path: &str) -> String {
    path.to_lowercase()
}

/// True for names that a file system or a reader may take for others: characters that are left out or
/// turn the text around, short names of old systems, dots and spaces at the end, backslashes.
fn is_disguised(path: &str) -> bool {
    let odd = |c: char| {
        c.is_control()
            || matches!(
                c,
                '\\' | ':' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}'
            )
            || ('\u{200b}'..='\u{200f}').contains(&c)
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2060}'..='\u{206f}').contains(&c)
            || ('\u{fe00}'..='\u{fe0f}').contains(&c)
            || ('\u{ff01}'..='\u{ff5e}').contains(&c)
    };
    path.chars().any(odd)
        || path.split('/').any(|part| {
            part.ends_with([' ', '.'])
                || part
                    .split_once('~')
                    .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
}

/// What stands for other characters in a word of a command.
const GLOB: &[char] = &['*', '?', '[', ']', '{', '}'];

/// Paths and names in the commands, without the shell's own characters. A pattern counts as the folder
/// before it, or as itself where it has none; a dotted name as the module of that name, too.
fn words_of(commands: &[&str]) -> Vec<String> {
    let separates = |c: char| c.is_whitespace() || "'\"`;&|()<>=,$:{}".contains(c);
    // `a{1,2}.py` is one name for a shell.
    let ends = |c: char| c.is_whitespace() || "'\"`;&|()<>=$:".contains(c);
    let braces = commands.iter().flat_map(|command| command.split(ends));
    let words = commands
        .iter()
        .flat_map(|command| command.split(separates))
        .chain(braces.filter(|word| word.contains('{') && word.contains(',')))
        .map(|word| plain(word.trim_start_matches("./").trim_end_matches('/')));
    let mut all = Vec::new();
    for word in words.filter(|word| word.len() > 1 || word == "*") {
        let word = without_glob(&word);
        if word.len() > 1 && word.contains('.') && !word.contains(['/', '*']) {
            let module = word.replace('.', "/");
            let above = module.match_indices('/').map(|(at, _)| &module[..at]);
            all.extend(above.map(|above| format!("{above}/__init__")));
            all.push(module);
        }
        all.push(word);
    }
    all.retain(|word| !word.is_empty());
    all.sort();
    all.dedup();
    all
}

/// The folder before the first part with a pattern (`...` is one for Go); a pattern that begins the
/// word is left, as its last part.
fn without_glob(word: &str) -> String {
    let has = |part: &&str| part.contains(GLOB) || *part == "...";
    let before: Vec<&str> = word.split('/').take_while(|part| !has(part)).collect();
    if before.is_empty() {
        return word.rsplit('/').next().unwrap_or(word).to_owned();
    }
    before.join("/")
}

/// True when a word of a command is this path, a part of it or of its end, or its name with or without
/// what follows a dot.
fn is_named(word: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    if let (Some(first), Some(last)) = (word.find(GLOB), word.rfind(GLOB)) {
        // Anything at all is meant for where the check starts only.
        let (start, end) = (&word[..first], &word[last + 1..]);
        return match start.is_empty() && end.is_empty() {
            true => !path.contains('/') && word.contains('*'),
            false => name.starts_with(start) && name.ends_with(end),
        };
    }
    let has = |path: &str| format!("/{path}/").contains(&format!("/{word}/"));
    let ends = name.match_indices('.').filter(|(at, _)| *at > 0);
    let above = path.len() - name.len();
    has(path)
        || ends.into_iter().any(|(at, _)| has(&path[..above + at]))
        || (word.len() > 3 && word.rsplit('/').next() == Some(name))
}

fn is_test(parts: &[&str]) -> bool {
    const FOLDERS: &[&str] = &[
        "test",
        "tests",
        "__tests__",
        "spec",
        "specs",
        "testing",
        "e2e",
        "testdata",
        "fixtures",
        "__snapshots__",
        "snapshots",
        "__mocks__",
        "golden",
    ];
    let Some((name, above)) = parts.split_last() else {
        return false;
    };
    let (stem, _) = name.split_once('.').unwrap_or((name, ""));
    above.iter().any(|part| FOLDERS.contains(part))
        || [".test.", ".spec.", ".snap", ".stories."]
            .iter()
            .any(|mark| name.contains(mark))
        || stem.starts_with("test_")
        || stem.starts_with("test-")
        || ["_test", "_tests", "_spec", "-test", "test", "tests"]
            .iter()
            .any(|end| stem.ends_with(end))
}

/// `*` at either end stands for anything.
fn fits(known: &str, name: &str) -> bool {
    match (known.strip_prefix('*'), known.strip_suffix('*')) {
        (Some(end), Some(_)) => name.contains(end.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u32 = 0o100_644;
    const PROGRAM: u32 = 0o100_755;

    fn touched(path: &str, before: Option<u32>, after: Option<u32>) -> Touched {
        Touched {
            path: path.to_owned(),
            is_utf8: true,
            before,
            after,
        }
    }

    fn says(touched: &Touched) -> Option<&'static str> {
        steers(
            touched,
            &words_of(&["cargo test --workspace", "./tools/verify all"]),
        )
    }

    #[test]
    fn whatever_steers_tests_builds_or_services_is_known_in_any_case_and_at_any_depth() {
        for path in [
            "Makefile",
            "sub/GNUmakefile",
            "rules.mk",
            "package.json",
            "web/PACKAGE.JSON",
            "package-lock.json",
            "pnpm-lock.yaml",
            "yarn.lock",
            "bun.lockb",
            "Cargo.toml",
            "Cargo.lock",
            "crates/x/build.rs",
            ".cargo/config.toml",
            ".CARGO/Config.toml",
            "conftest.py",
            "a/b/ConfTest.py",
            "pytest.ini",
            "tox.ini",
            "setup.cfg",
            "setup.py",
            "pyproject.toml",
            "requirements-dev.txt",
            "jest.config.js",
            "vitest.config.mts",
            "src/jest.setup.ts",
            ".mocharc.json",
            ".github/workflows/ci.yml",
            ".GitHub/Workflows/ci.yml",
            ".gitlab-ci.yml",
            "Jenkinsfile",
            "ci/run.rb",
            ".gitattributes",
            "sub/.gitattributes",
            ".gitmodules",
            ".gitignore",
            ".husky/pre-commit",
            ".vscode/settings.json",
            ".envrc",
            "go.mod",
            "go.sum",
            "vendor/x/x.go",
            "CMakeLists.txt",
            "build.gradle.kts",
            "gradle/wrapper/gradle-wrapper.jar",
            "pom.xml",
            "App.csproj",
            "Directory.Build.props",
            "Dockerfile",
            "flake.nix",
            "justfile",
            "tsconfig.base.json",
            "babel.config.cjs",
            "AGENTS.md",
            "lib/sitecustomize.py",
            "evil.pth",
            "npm-shrinkwrap.json",
            "Pipfile",
            "rust-toolchain",
            "libs/a/project.json",
            "angular.json",
            "biome.json",
            "project/Deps.scala",
            "build.sbt",
            "args.rsp",
            "cucumber.js",
            "testem.js",
            "conanfile.txt",
            "tasks.py",
            "dodo.py",
            "fabfile.py",
            "manage.py",
            "Earthfile",
            "Snakefile",
            "premake5.lua",
            "xmake.lua",
            "src/a.SH",
            "a.bash",
            "a.zsh",
            "a.fish",
            "a.ps1",
            "a.bat",
            "a.cmd",
            "scripts/a.rb",
            "sub/script/a",
            "x/tools/a.py",
            "hack/a",
            "bin/a",
            "crates/xtask/src/main.rs",
            "build-logic/src/a.kt",
        ] {
            for (before, after) in [
                (None, Some(FILE)),
                (Some(FILE), Some(FILE)),
                (Some(FILE), None),
            ] {
                assert!(says(&touched(path, before, after)).is_some(), "{path}");
            }
        }
    }

    #[test]
    fn sources_prose_and_new_tests_are_what_an_order_is_for() {
        for path in [
            "src/main.rs",
            "README.md",
            "docs/guide.md",
            "lib/tests.rs.txt",
            "src/parser.py",
            "tests/new_test.py",
            "web/app.test.ts",
            "data.csv",
            "src/latest.rs",
        ] {
            assert_eq!(says(&touched(path, None, Some(FILE))), None, "{path}");
        }
        for path in [
            "src/main.rs",
            "README.md",
            "src/contested.rs",
            "src/protest/x.rs",
        ] {
            assert_eq!(says(&touched(path, Some(FILE), Some(FILE))), None, "{path}");
        }
    }

    #[test]
    fn a_test_that_was_there_may_not_be_changed_or_taken_away() {
        for path in [
            "tests/old.py",
            "src/x_test.go",
            "test_x.py",
            "web/app.spec.ts",
            "spec/models/user.rb",
            "src/FooTest.java",
            "src/__snapshots__/a.snap",
        ] {
            assert!(
                says(&touched(path, Some(FILE), Some(FILE))).is_some(),
                "{path}"
            );
            assert!(says(&touched(path, Some(FILE), None)).is_some(), "{path}");
        }
    }

    #[test]
    fn what_a_check_names_is_its_own_steering() {
        for path in ["tools/verify", "TOOLS/Verify", "other/verify"] {
            let found = says(&touched(path, Some(FILE), Some(FILE)));
            assert_eq!(found, Some("what a check or the setup names"), "{path}");
        }
        assert_eq!(says(&touched("src/verifying.rs", None, Some(FILE))), None);
    }

    #[test]
    fn patterns_modules_and_parts_of_paths_are_names_too() {
        let named = |command: &str, path: &str| {
            let words = words_of(&[command]);
            words.iter().any(|word| is_named(word, path))
        };
        for (command, path) in [
            ("for one in checks/*; do sh $one; done", "checks/a.txt"),
            ("sh ./checks/*.x", "checks/deep/b"),
            ("go test ./pkg/...", "pkg/a/b.go"),
            ("ruby a/x{1,2}.rb", "a/x1.rb"),
            ("ruby check_*.rb", "check_a.rb"),
            ("cat *", "anything.rs"),
            ("python -m verify.all", "verify/all.py"),
            ("python -m verify.all", "src/verify/all/__main__.py"),
            ("python -m verify.all", "verify/__init__.py"),
            ("cargo judge", "crates/judge/src/main.rs"),
            ("npm run judge", "support/judge.mjs"),
            ("node support/judge", "support/judge.test.mjs"),
        ] {
            assert!(named(command, path), "{command}: {path}");
        }
        for (command, path) in [
            ("cat *", "src/anything.rs"),
            ("go test ./...", "pkg/a.go"),
            ("find . -exec cat {} +", "a.rs"),
            ("ruby check_*.rb", "src/main.rs"),
            ("python -m verify.all", "src/main.py"),
            ("cargo judge", "src/judgement.rs"),
        ] {
            assert!(!named(command, path), "{command}: {path}");
        }
    }

    #[test]
    fn a_change_behind_a_link_of_the_base_is_one_of_the_link() {
        assert_eq!(inside("a/b/", "../x").as_deref(), Some("a/x"));
        assert_eq!(inside("", "./x/").as_deref(), Some("x"));
        assert_eq!(inside("a/", "../../x"), None);
        assert_eq!(inside("", "/etc/x"), None);
        let link = |link: &str, target: &str| (link.to_owned(), target.to_owned());
        let links = [
            link("verify", "second"),
            link("second", "src/v.rb"),
            link("tests", "src/cases"),
        ];
        let change = |path: &str| touched(path, Some(FILE), Some(FILE));
        let all = [
            change("src/v.rb"),
            change("src/cases/a.rb"),
            change("src/v.rbx"),
        ];
        let found = under_links(&all, &links);
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["second", "tests/a.rb", "verify"]);
        assert_eq!(steering(&all, &["ruby verify"]), []);
        assert_eq!(steering(&found, &["ruby verify"]).len(), 2);
    }

    #[test]
    fn links_of_a_commit_are_found_with_where_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let who = git2::Signature::now("a", "a@example").unwrap();
        let mut folder = repo.treebuilder(None).unwrap();
        let blob = |text: &[u8]| repo.blob(text).unwrap();
        folder.insert("in", blob(b"../x/y"), 0o120_000).unwrap();
        folder.insert("out", blob(b"../../x"), 0o120_000).unwrap();
        folder.insert("file", blob(b"in"), 0o100_644).unwrap();
        let mut root = repo.treebuilder(None).unwrap();
        let folder = folder.write().unwrap();
        root.insert("a", folder, 0o040_000).unwrap();
        let tree = repo.find_tree(root.write().unwrap()).unwrap();
        let commit = repo.commit(None, &who, &who, "x", &tree, &[]).unwrap();
        let links = links_of(&repo, commit).unwrap();
        assert_eq!(links, [("a/in".to_owned(), "x/y".to_owned())]);
    }

    #[test]
    fn links_programs_and_disguises_are_never_ordinary_files() {
        for (path, before, after) in [
            ("src/a", None, Some(LINK)),
            ("src/a", Some(LINK), Some(FILE)),
            ("sub", Some(GITLINK), Some(GITLINK)),
            ("src/run", None, Some(PROGRAM)),
            ("src/run", Some(FILE), Some(PROGRAM)),
            ("Makefile ", None, Some(FILE)),
            ("make\u{200c}file", None, Some(FILE)),
            ("PACKAG~1.JSO", None, Some(FILE)),
            ("a\\package", None, Some(FILE)),
            ("\u{ff4d}akefile2", None, Some(FILE)),
        ] {
            assert!(says(&touched(path, before, after)).is_some(), "{path:?}");
        }
        let mut bytes = touched("src/x", None, Some(FILE));
        bytes.is_utf8 = false;
        assert!(says(&bytes).is_some());
    }
}
