//! Files of the operator's checkout that a run gets a copy of, although git does not track them.
//!
//! What is copied is listed, by the order or by a project file that the operator trusts; nothing is found
//! by itself. The walk starts at the checkout's root and goes through real folders only: no link is
//! followed, no repository inside is entered, nothing outside is reached. A link is copied as a link, and
//! only where it leads to something inside. What git tracks is never replaced. All of it is bounded.

use crate::failures::io;
use foreman_domain::{Code, Failure, sanitize_line};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// The most patterns, and the longest one.
const MOST_PATTERNS: usize = 1_000;
const LONGEST_PATTERN: usize = 1_024;
/// The most entries that are looked at, and that are copied.
const MOST_SEEN: usize = 500_000;
const MOST_COPIED: usize = 20_000;
/// The largest file, and all of them together.
const LARGEST: u64 = 512 << 20;
const ALL: u64 = 2 << 30;
/// The deepest folder that is entered.
const DEPTH: usize = 100;
/// How many of a kind are named in a sentence.
const NAMED: usize = 5;

/// What is to be copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Patterns in git's own language for what it ignores; checked by [`check_patterns`].
    pub patterns: Vec<String>,
    /// Only what git ignores, as the files of other tools mean it.
    pub only_ignored: bool,
}

/// One entry to copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// From the root of the checkout.
    pub path: String,
    pub bytes: u64,
    pub link: Option<PathBuf>,
}

/// What a walk found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub items: Vec<Item>,
    /// What is left out, and what the agent will be able to read, as sentences.
    pub warnings: Vec<String>,
}

/// Patterns of an explicit list, as anchored ones: `a` is the root's `a`, not every `a`.
pub(crate) fn anchored(patterns: &[String]) -> Vec<String> {
    let anchor = |pattern: &String| match pattern.strip_prefix("./").unwrap_or(pattern) {
        rest if rest.starts_with('/') => rest.to_owned(),
        rest => format!("/{rest}"),
    };
    patterns.iter().map(anchor).collect()
}

/// Refuses patterns that could mean anything outside of the checkout, or that are none.
pub(crate) fn check_patterns(patterns: &[String]) -> Result<(), Failure> {
    let refuse = |what: String| Err(Failure::new(Code::BadInput, what));
    if patterns.len() > MOST_PATTERNS {
        return refuse(format!(
            "at most {MOST_PATTERNS} things to copy can be listed"
        ));
    }
    for pattern in patterns {
        let cut: String = pattern.chars().take(80).collect();
        let shown = sanitize_line(&cut);
        let plain = pattern.strip_prefix('!').unwrap_or(pattern);
        let why = if plain.trim_matches('/').trim().is_empty() {
            "it is empty"
        } else if pattern.len() > LONGEST_PATTERN {
            "it is too long"
        } else if pattern.chars().any(char::is_control) {
            "it holds control characters"
        } else if plain.split('/').any(|part| part == "..") {
            "it leads out of the repository"
        } else if plain
            .split('/')
            .any(|part| part.eq_ignore_ascii_case(".git"))
        {
            "it is git's own folder"
        } else {
            continue;
        };
        return refuse(format!("\"{shown}\" cannot be copied: {why}"));
    }
    compile(Path::new("/"), patterns).map(drop)
}

fn compile(root: &Path, patterns: &[String]) -> Result<Gitignore, Failure> {
    let mut builder = GitignoreBuilder::new(root);
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(|error| {
            let shown = sanitize_line(pattern);
            let why = sanitize_line(&error.to_string());
            Failure::new(Code::BadInput, format!("\"{shown}\" is no pattern: {why}"))
        })?;
    }
    builder
        .build()
        .map_err(|error| Failure::new(Code::BadInput, sanitize_line(&error.to_string())))
}

/// Looks for what `wanted` names below `root`. Blocking.
pub(crate) fn find(root: &Path, wanted: &Wanted) -> Result<Found, Failure> {
    let mut found = Found::default();
    if wanted.patterns.is_empty() {
        return Ok(found);
    }
    check_patterns(&wanted.patterns)?;
    let mut walk = Walk {
        root,
        rules: compile(root, &wanted.patterns)?,
        patterns: wanted.patterns.iter().map(|text| parts_of(text)).collect(),
        seen: 0,
        bytes: 0,
        outside: Vec::new(),
        odd: Vec::new(),
        found: &mut found,
    };
    walk.enter(Path::new(""), false, 0)?;
    let (outside, odd) = (walk.outside, walk.odd);
    let secrets: Vec<String> = found
        .items
        .iter()
        .filter(|item| looks_secret(&item.path))
        .map(|item| item.path.clone())
        .collect();
    for (paths, why) in [
        (
            outside,
            "not copied, because what they lead to is not inside the repository",
        ),
        (
            odd,
            "not copied, because they are repositories, devices or have odd names",
        ),
        (
            secrets,
            "copied, so the agent can read them; give it only what it needs",
        ),
    ] {
        if !paths.is_empty() {
            found.warnings.push(format!("{} {why}", listed(&paths)));
        }
    }
    Ok(found)
}

/// The parts of an anchored pattern; none for one that may match anywhere.
fn parts_of(pattern: &str) -> Option<Vec<String>> {
    let inner = pattern.trim_end_matches('/').trim_start_matches('/');
    let is_anchored = pattern.starts_with('/') || inner.contains('/');
    (is_anchored && !pattern.starts_with('!'))
        .then(|| inner.split('/').map(str::to_owned).collect())
}

struct Walk<'a> {
    root: &'a Path,
    rules: Gitignore,
    patterns: Vec<Option<Vec<String>>>,
    seen: usize,
    bytes: u64,
    outside: Vec<String>,
    odd: Vec<String>,
    found: &'a mut Found,
}

impl Walk<'_> {
    fn enter(&mut self, below: &Path, is_wanted: bool, depth: usize) -> Result<(), Failure> {
        let folder = self.root.join(below);
        let cannot = |error| io(format!("{} cannot be read", folder.display()), &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(cannot)? {
            names.push(entry.map_err(cannot)?.file_name());
        }
        names.sort();
        for name in names {
            self.seen += 1;
            if self.seen > MOST_SEEN {
                let what = "there is too much in this checkout to look through for files to copy";
                return Err(Failure::new(Code::BadInput, what)
                    .hint("List paths from the root on, without `**`."));
            }
            if name.as_encoded_bytes().eq_ignore_ascii_case(b".git") {
                continue;
            }
            let path = below.join(&name);
            self.look(&path, is_wanted, depth)?;
        }
        Ok(())
    }

    fn look(&mut self, path: &Path, above_is_wanted: bool, depth: usize) -> Result<(), Failure> {
        let full = self.root.join(path);
        let meta = match fs::symlink_metadata(&full) {
            Ok(meta) => meta,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io(format!("{} cannot be read", full.display()), &error)),
        };
        let is_wanted = match self.rules.matched(path, meta.is_dir()) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => above_is_wanted,
        };
        if meta.is_dir() {
            if depth >= DEPTH || fs::symlink_metadata(full.join(".git")).is_ok() {
                if is_wanted {
                    self.odd.push(shown(path));
                }
                return Ok(());
            }
            if is_wanted || self.may_match_below(path) {
                self.enter(path, is_wanted, depth + 1)?;
            }
            return Ok(());
        }
        if !is_wanted {
            return Ok(());
        }
        let Some(text) = path
            .to_str()
            .filter(|text| !text.chars().any(char::is_control))
        else {
            self.odd.push(shown(path));
            return Ok(());
        };
        let link = match meta.is_symlink() {
            true => match fs::read_link(&full) {
                Ok(target) if stays_inside(path, &target) => Some(target),
                _ => {
                    self.outside.push(shown(path));
                    return Ok(());
                }
            },
            false if meta.is_file() => None,
            false => {
                self.odd.push(shown(path));
                return Ok(());
            }
        };
        self.bytes = self.bytes.saturating_add(meta.len());
        let too_much = |what: String| {
            Err(Failure::new(Code::BadInput, what)
                .hint("Copy less, or make it in the worktree by a setup command."))
        };
        if meta.len() > LARGEST {
            return too_much(format!("{} is too large to be copied", shown(path)));
        }
        if self.bytes > ALL || self.found.items.len() >= MOST_COPIED {
            return too_much(format!(
                "there is too much to copy: at most {MOST_COPIED} files and {} GiB",
                ALL >> 30
            ));
        }
        self.found.items.push(Item {
            path: text.to_owned(),
            bytes: meta.len(),
            link,
        });
        Ok(())
    }

    fn may_match_below(&self, folder: &Path) -> bool {
        self.patterns.iter().any(|pattern| {
            let Some(parts) = pattern else { return true };
            let mut wanted = parts.iter();
            for part in folder.components() {
                match wanted.next() {
                    Some(glob) if glob.contains("**") => return true,
                    Some(glob) if glob.contains(['*', '?', '[', '\\']) => {}
                    Some(name) if part.as_os_str() == name.as_str() => {}
                    _ => return false,
                }
            }
            true
        })
    }
}

/// Whether a link at `path` leads to something inside of the checkout, by its words alone.
pub(crate) fn stays_inside(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

/// Names that usually hold secrets.
fn looks_secret(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let sample = ["example", "sample", "template", "dist"];
    let is_sample = sample.iter().any(|word| name.ends_with(word));
    let whole = [
        ".npmrc",
        ".netrc",
        ".pypirc",
        "credentials",
        ".pgpass",
        ".envrc",
    ];
    let ends = [
        ".pem",
        ".key",
        ".p12",
        ".pfx",
        ".keystore",
        ".jks",
        ".kdbx",
        ".tfvars",
    ];
    !is_sample
        && (name == ".env"
            || name.starts_with(".env.")
            || name.ends_with(".env")
            || name.starts_with("id_rsa")
            || name.starts_with("id_ed25519")
            || name.contains("secret")
            || whole.contains(&name.as_str())
            || ends.iter().any(|end| name.ends_with(end)))
}

fn shown(path: &Path) -> String {
    sanitize_line(&path.to_string_lossy())
}

fn listed(paths: &[String]) -> String {
    let some: Vec<_> = paths
        .iter()
        .take(NAMED)
        .map(|one| sanitize_line(one))
        .collect();
    let verb = if paths.len() == 1 { "is" } else { "are" };
    match paths.len().saturating_sub(some.len()) {
        0 => format!("{} {verb}", some.join(", ")),
        more => format!("{} and {more} more {verb}", some.join(", ")),
    }
}

/// Copies `items` from `root` into `worktree`; what stands there under such a name is replaced, but only
/// through real folders. Blocking.
pub(crate) fn copy(root: &Path, worktree: &Path, items: &[Item]) -> Result<(), Failure> {
    for item in items {
        let to = worktree.join(&item.path);
        make_folders(worktree, &item.path)?;
        let cannot = |error: std::io::Error| {
            io(
                format!("{} cannot be copied", sanitize_line(&item.path)),
                &error,
            )
        };
        match fs::symlink_metadata(&to) {
            Ok(meta) if meta.is_dir() => {
                return Err(cannot(std::io::Error::other("a folder is in the way")));
            }
            Ok(_) => fs::remove_file(&to).map_err(cannot)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
        match &item.link {
            Some(target) => symlink(target, &to).map_err(cannot)?,
            None => copy_file(&root.join(&item.path), &to).map_err(cannot)?,
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let from = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(from)?;
    let meta = from.metadata()?;
    if !meta.is_file() {
        return Err(std::io::Error::other("it is not a file any more"));
    }
    // Neither a set-id bit nor others' permissions come along.
    let mode = if meta.permissions().mode() & 0o100 != 0 {
        0o700
    } else {
        0o600
    };
    let mut to = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(to)?;
    let copied = std::io::copy(&mut from.take(LARGEST + 1), &mut to)?;
    match copied > LARGEST {
        true => Err(std::io::Error::other("it grew while it was copied")),
        false => Ok(()),
    }
}

/// Makes the folders above `path`; a link or a file among them is refused.
fn make_folders(worktree: &Path, path: &str) -> Result<(), Failure> {
    let mut folder = worktree.to_owned();
    let parts: Vec<_> = Path::new(path).components().collect();
    let above = parts.split_last().map_or(&[][..], |(_, above)| above);
    for part in above {
        folder.push(part);
        let cannot = |error| io(format!("{} cannot be made", folder.display()), &error);
        match fs::symlink_metadata(&folder) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                let what = format!(
                    "{} cannot be copied: {} is no folder in the base commit",
                    sanitize_line(path),
                    shown(folder.strip_prefix(worktree).unwrap_or(&folder))
                );
                return Err(Failure::new(Code::Conflict, what));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir(&folder).map_err(cannot)?;
            }
            Err(error) => return Err(cannot(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "repo/.env",
            "repo/a/.env",
            "repo/a/b/c.local",
            "repo/big/x/y",
            "repo/.git/config",
            "repo/nested/.git/config",
            "repo/nested/.env",
            "outside/secret",
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        dir
    }

    fn found(root: &Path, patterns: &[&str]) -> (Vec<String>, Vec<String>) {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        let wanted = Wanted {
            patterns,
            only_ignored: false,
        };
        let found = find(root, &wanted).unwrap();
        let paths = found.items.into_iter().map(|item| item.path).collect();
        (paths, found.warnings)
    }

    #[test]
    fn a_list_names_what_is_meant_and_patterns_mean_what_git_means() {
        let dir = scene();
        let root = dir.path().join("repo");
        let only = |patterns: &[&str]| found(&root, patterns).0;
        assert_eq!(only(&["/.env"]), [".env"]);
        assert_eq!(only(&[".env"]), [".env", "a/.env"]);
        assert_eq!(only(&["/a"]), ["a/.env", "a/b/c.local"]);
        assert_eq!(only(&["/a/**/*.local"]), ["a/b/c.local"]);
        assert_eq!(only(&["/big/"]), ["big/x/y"]);
        assert_eq!(only(&[".env", "!/a/.env"]), [".env"]);
        assert_eq!(only(&["/nothing"]), [""; 0]);
        let own: Vec<String> = ["a", "./b", "/c"].map(str::to_owned).to_vec();
        assert_eq!(anchored(&own), ["/a", "/b", "/c"]);
    }

    #[test]
    fn nothing_outside_is_reached_and_no_repository_inside_is_entered() {
        let dir = scene();
        let root = dir.path().join("repo");
        symlink("../outside", root.join("door")).unwrap();
        symlink("/etc/passwd", root.join("a/absolute")).unwrap();
        symlink("../.env", root.join("a/inner")).unwrap();
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (paths, warnings) = found(&root, &["*"]);
        assert_eq!(
            paths,
            [".env", "a/.env", "a/b/c.local", "a/inner", "big/x/y"]
        );
        let all = warnings.join("\n");
        for word in ["door", "a/absolute", "nested", "pipe", ".env"] {
            assert!(all.contains(word), "{word}: {all}");
        }
        for bad in [
            "..",
            "a/../../x",
            "/",
            "",
            ".git/config",
            "a\nb",
            "!..",
            "a/.GIT",
        ] {
            assert!(check_patterns(&[bad.to_owned()]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_copy_goes_through_real_folders_only_and_can_be_made_twice() {
        let dir = scene();
        let (root, to) = (dir.path().join("repo"), dir.path().join("worktree"));
        fs::create_dir(&to).unwrap();
        symlink("b/c.local", root.join("a/link")).unwrap();
        fs::set_permissions(root.join(".env"), fs::Permissions::from_mode(0o4755)).unwrap();
        let wanted = Wanted {
            patterns: vec!["/.env".into(), "/a".into()],
            only_ignored: false,
        };
        let items = find(&root, &wanted).unwrap().items;
        for _ in 0..2 {
            copy(&root, &to, &items).unwrap();
            assert_eq!(fs::read_to_string(to.join("a/b/c.local")).unwrap(), "x");
            assert_eq!(
                fs::read_link(to.join("a/link")).unwrap(),
                Path::new("b/c.local")
            );
            let mode = fs::metadata(to.join(".env")).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700);
        }
        // The base commit has a link where the checkout has a folder.
        fs::remove_dir_all(to.join("a")).unwrap();
        symlink("../outside", to.join("a")).unwrap();
        let refused = copy(&root, &to, &items).unwrap_err();
        assert_eq!(refused.code, Code::Conflict);
        assert!(!dir.path().join("outside/.env").exists());
    }

    #[test]
    fn what_usually_holds_secrets_is_told_of() {
        for name in [
            ".env",
            "a/.env.local",
            "prod.env",
            "id_rsa",
            "x/server.pem",
            ".npmrc",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [".env.example", "environment.ts", "readme.md", "key.rs"] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
