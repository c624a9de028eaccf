//! Files that nobody writes by hand: lock files, vendored ones, generated ones.
//!
//! By their names, and by what the attributes of the base commit say (`linguist-generated`,
//! `linguist-vendored`): a run cannot hide its own changes by an attribute that it adds.

use git2::{ObjectType, Oid};
use std::collections::HashMap;

/// Lock files of package managers.
const LOCKS: [&str; 22] = [
    "cargo.lock",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.lock",
    "composer.lock",
    "gemfile.lock",
    "podfile.lock",
    "poetry.lock",
    "pdm.lock",
    "uv.lock",
    "pipfile.lock",
    "go.sum",
    "mix.lock",
    "pubspec.lock",
    "packages.lock.json",
    "flake.lock",
    "gradle.lockfile",
    "package.resolved",
];
/// Folders of what others wrote or a tool made.
const FOLDERS: [&str; 5] = [
    "dist",
    "vendor",
    "node_modules",
    "__snapshots__",
    "third_party",
];
const ENDINGS: [&str; 6] = [
    ".min.js", ".min.css", ".snap", ".js.map", ".css.map", ".pb.go",
];
/// Bytes of an attributes file, and rules of one, that are read.
const ATTRIBUTES: usize = 256 << 10;
const RULES: usize = 1_000;
/// Longest pattern.
const PATTERN: usize = 256;

/// Says of paths whether they are generated, as a base commit sees it.
pub(crate) struct Generated<'a> {
    repo: &'a git2::Repository,
    tree: Option<git2::Tree<'a>>,
    /// Rules of each folder that was asked about.
    rules: HashMap<String, Vec<(String, bool)>>,
}

impl<'a> Generated<'a> {
    /// By the attributes of this commit; by names alone when there is none.
    pub fn by(repo: &'a git2::Repository, base: Option<Oid>) -> Self {
        let tree = base.and_then(|base| repo.find_commit(base).ok()?.tree().ok());
        Self {
            repo,
            tree,
            rules: HashMap::new(),
        }
    }

    /// Whether nobody writes this file by hand.
    pub fn is(&mut self, path: &str) -> bool {
        // The rule that is nearest to the file counts, as with git.
        let mut folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        loop {
            let inside = match folder {
                "" => path,
                folder => &path[folder.len() + 1..],
            };
            let rules = self.rules_of(folder);
            let said = rules
                .iter()
                .rev()
                .find(|(pattern, _)| covers(pattern, inside));
            if let Some((_, is_generated)) = said {
                return *is_generated;
            }
            match folder.rsplit_once('/') {
                Some((above, _)) => folder = above,
                None if folder.is_empty() => return by_name(path),
                None => folder = "",
            }
        }
    }

    fn rules_of(&mut self, folder: &str) -> &[(String, bool)] {
        if !self.rules.contains_key(folder) {
            let found = self.read(folder).unwrap_or_default();
            self.rules.insert(folder.to_owned(), found);
        }
        self.rules.get(folder).map_or(&[], Vec::as_slice)
    }

    fn read(&self, folder: &str) -> Option<Vec<(String, bool)>> {
        let path = std::path::Path::new(folder).join(".gitattributes");
        let entry = self.tree.as_ref()?.get_path(&path).ok()?;
        if entry.kind() != Some(ObjectType::Blob) {
            return None;
        }
        let blob = self.repo.find_blob(entry.id()).ok()?;
        let bytes = blob.content();
        Some(rules(&String::from_utf8_lossy(
            &bytes[..bytes.len().min(ATTRIBUTES)],
        )))
    }
}

fn rules(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for line in text.lines().take(RULES) {
        let mut words = line.split_whitespace();
        let Some(pattern) = words
            .next()
            .filter(|first| !first.starts_with(['#', '"', '[']))
        else {
            continue;
        };
        for word in words {
            let is_generated = match word {
                "linguist-generated"
                | "linguist-generated=true"
                | "linguist-vendored"
                | "linguist-vendored=true" => true,
                "-linguist-generated" | "linguist-generated=false" | "!linguist-generated" => false,
                _ => continue,
            };
            if pattern.len() <= PATTERN {
                found.push((pattern.to_owned(), is_generated));
            }
        }
    }
    found
}

fn by_name(path: &str) -> bool {
    let lower = path.to_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", lower.as_str()));
    LOCKS.contains(&name)
        || ENDINGS.iter().any(|end| name.ends_with(end))
        || folders.split('/').any(|folder| FOLDERS.contains(&folder))
}

/// Whether a pattern of an attributes file covers a path below its folder.
fn covers(pattern: &str, path: &str) -> bool {
    let anchored = pattern.strip_prefix('/').unwrap_or(pattern);
    let pieces: Vec<&str> = anchored.split('/').collect();
    if pieces.len() == 1 && !pattern.starts_with('/') {
        let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
        return matches_name(anchored.as_bytes(), name.as_bytes());
    }
    let parts: Vec<&str> = path.split('/').collect();
    matches_path(&pieces, &parts)
}

/// `**` stands for any number of folders. By a table: no pattern makes it slow.
fn matches_path(pieces: &[&str], parts: &[&str]) -> bool {
    let mut reached = vec![false; parts.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for (index, piece) in pieces.iter().enumerate() {
        let is_last = index + 1 == pieces.len();
        let mut next = vec![false; parts.len() + 1];
        for (at, _) in reached.iter().enumerate().filter(|(_, is)| **is) {
            if *piece == "**" {
                // At the end it stands for what is inside, so at least for something.
                let from = if is_last { at + 1 } else { at };
                next.iter_mut().skip(from).for_each(|slot| *slot = true);
            } else if let Some(part) = parts.get(at)
                && matches_name(piece.as_bytes(), part.as_bytes())
                && let Some(slot) = next.get_mut(at + 1)
            {
                *slot = true;
            }
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
}

/// `*` stands for any letters, `?` for one.
fn matches_name(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(letter) if *letter == b'?' || *letter == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                Some((star_at, covered)) => {
                    at = star_at + 1;
                    seen = covered + 1;
                    star = Some((star_at, seen));
                }
                None => return false,
            },
        }
    }
    pattern
        .get(at..)
        .unwrap_or_default()
        .iter()
        .all(|letter| *letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_files_and_what_others_made_are_known_by_their_names() {
        for path in [
            "Cargo.lock",
            "web/package-lock.json",
            "a/vendor/b.c",
            "dist/app.js",
            "x/y.min.js",
            "src/__snapshots__/a.snap",
        ] {
            assert!(by_name(path), "{path}");
        }
        for path in [
            "src/lock.rs",
            "distance/a.rs",
            "vendor.rs",
            "a.lock.rs",
            "src/min.js",
        ] {
            assert!(!by_name(path), "{path}");
        }
    }

    #[test]
    fn patterns_of_attributes_cover_what_git_says_they_do() {
        assert!(covers("*.pb.rs", "a/b/x.pb.rs"));
        assert!(covers("gen/**", "gen/a/b.rs") && !covers("gen/**", "gen"));
        assert!(covers("**/gen/*.rs", "a/gen/b.rs") && covers("**/gen/*.rs", "gen/b.rs"));
        assert!(covers("/only.rs", "only.rs") && !covers("/only.rs", "a/only.rs"));
        assert!(!covers("gen/*.rs", "gen/a/b.rs"));
        let long = "a*".repeat(120);
        assert!(!covers(&long, &"a".repeat(4000).replace("aaaa", "aaab")) || long.len() > 1);
    }

    #[test]
    fn the_last_word_about_a_pattern_counts() {
        let found = rules("# no\n*.rs linguist-generated\nkeep.rs -linguist-generated text\n");
        assert_eq!(
            found,
            [("*.rs".to_owned(), true), ("keep.rs".to_owned(), false)]
        );
    }
}
