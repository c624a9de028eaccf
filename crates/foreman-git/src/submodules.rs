//! The files of submodules, from what the operator's checkout has: no network, no hook, nothing of a
//! submodule's configuration, and nothing that the tree says but paths and names.
//!
//! A submodule's objects are read as a bare store (`.git/modules/<name>`, or a `.git` folder in the
//! operator's own submodule folder) and written out byte for byte. In the
//! run's worktree they are plain files: there is no repository in there, so nothing that the run does
//! inside can be committed to the submodule. Whether files changed is told from their content when the run
//! is over.

use crate::deep_stack::on_deep_stack;
use crate::hostile_dir::{self, Kind};
use crate::{GitError, Repository, Worktree};
use foreman_domain::sanitize_line;
use git2::{ObjectType, Oid, TreeWalkMode, TreeWalkResult};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// Submodules inside submodules, at most so deep.
const DEPTH: usize = 8;
/// The most submodules that are filled.
const MOST: usize = 500;
/// The largest file whose content is compared; a larger one is taken for unchanged.
const COMPARED: u64 = 64 << 20;

/// What became of a run's submodules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submodules {
    /// Paths that were filled.
    pub filled: Vec<String>,
    /// Sentences about those that were not. Sanitised.
    pub missing: Vec<String>,
}

impl Repository {
    /// Puts the files of every submodule of the base commit into the worktree, where their objects are
    /// here. What cannot be filled is told of and stays an empty folder.
    ///
    /// # Errors
    /// Only when the base commit itself cannot be read.
    pub fn fill_submodules(&self, worktree: &Worktree) -> Result<Submodules, GitError> {
        on_deep_stack(|| {
            let repo = self.git()?;
            let tree = base_tree(&repo, worktree)?;
            let mut done = Submodules::default();
            let stores = Stores::of(self);
            let here = Path::new("");
            fill(&repo, &tree, &stores, &worktree.path, here, 0, &mut done)?;
            Ok(done)
        })
    }

    /// Sentences about submodules whose files the run changed: its commits hold nothing of that. For a
    /// run whose processes are all dead.
    ///
    /// # Errors
    /// When the base commit cannot be read.
    pub fn changed_submodules(&self, worktree: &Worktree) -> Result<Vec<String>, GitError> {
        on_deep_stack(|| {
            let repo = self.git()?;
            let tree = base_tree(&repo, worktree)?;
            let stores = Stores::of(self);
            let mut sentences = Vec::new();
            for link in links_of(&repo, &tree).into_iter().take(MOST) {
                let shown = sanitize_line(&link.path.to_string_lossy());
                let store = stores.open(&link);
                let expected = store.and_then(|store| files_of(&store, link.commit).ok());
                match is_as_expected(&worktree.path, &link.path, expected.as_ref()) {
                    Ok(true) => {}
                    Ok(false) => sentences.push(format!(
                        "the run changed files in the submodule {shown}: they are in no commit of the \
                         run, and only its worktree keeps them"
                    )),
                    Err(error) => sentences.push(format!(
                        "whether the run changed files in the submodule {shown} cannot be told: {error}"
                    )),
                }
            }
            Ok(sentences)
        })
    }
}

fn base_tree<'a>(
    repo: &'a git2::Repository,
    worktree: &Worktree,
) -> Result<git2::Tree<'a>, GitError> {
    repo.find_commit(worktree.base_oid()?)
        .and_then(|commit| commit.tree())
        .map_err(GitError::git("read the base commit"))
}

/// Where the objects of submodules may be.
struct Stores {
    modules: PathBuf,
    checkout: PathBuf,
}

impl Stores {
    fn of(repository: &Repository) -> Self {
        Self {
            modules: repository.common_dir().join("modules"),
            checkout: repository.root().to_owned(),
        }
    }

    fn folders(&self, link: &Link) -> [PathBuf; 3] {
        [
            self.modules.join(&link.name),
            self.modules.join(&link.path),
            self.checkout.join(&link.path).join(".git"),
        ]
    }

    /// The objects of the submodule at `link`, when they have its commit.
    fn open(&self, link: &Link) -> Option<git2::Repository> {
        let store = self
            .folders(link)
            .into_iter()
            .map(|folder| folder.join("objects"))
            .find(|store| store.is_dir() && has(store, link.commit))?;
        open(&store)
    }

    /// Where the submodules of the submodule at `link` are.
    fn below(&self, link: &Link) -> Self {
        let modules = self
            .folders(link)
            .into_iter()
            .map(|folder| folder.join("modules"))
            .find(|folder| folder.is_dir());
        Self {
            modules: modules.unwrap_or_else(|| self.modules.join(&link.name).join("modules")),
            checkout: self.checkout.join(&link.path),
        }
    }
}

/// A submodule as a tree has it.
struct Link {
    path: PathBuf,
    /// As `.gitmodules` calls it; its path when that says nothing usable.
    name: PathBuf,
    commit: Oid,
}

fn has(store: &Path, commit: Oid) -> bool {
    open(store).is_some_and(|repo| repo.find_commit(commit).is_ok())
}

fn open(store: &Path) -> Option<git2::Repository> {
    let odb = git2::Odb::new().ok()?;
    odb.add_disk_alternate(store.to_str()?).ok()?;
    git2::Repository::from_odb(odb).ok()
}

fn links_of(repo: &git2::Repository, tree: &git2::Tree<'_>) -> Vec<Link> {
    let names = names_of(repo, tree);
    let mut links = Vec::new();
    let _ = tree.walk(TreeWalkMode::PreOrder, |dir, entry| {
        if entry.kind() == Some(ObjectType::Commit) {
            let bytes = [dir.as_bytes(), entry.name_bytes()].concat();
            let path = PathBuf::from(OsStr::from_bytes(&bytes));
            if is_plain(&path) {
                let name = names.get(&path).cloned().unwrap_or_else(|| path.clone());
                links.push(Link {
                    path,
                    name,
                    commit: entry.id(),
                });
            }
        }
        TreeWalkResult::Ok
    });
    links
}

/// A relative path that goes down only and passes no git directory.
fn is_plain(path: &Path) -> bool {
    path.components().next().is_some()
        && path.components().all(|part| match part {
            Component::Normal(name) => !name.as_bytes().eq_ignore_ascii_case(b".git"),
            _ => false,
        })
}

/// Names of submodules by path, from `.gitmodules` as text: nothing else of it is looked at.
fn names_of(repo: &git2::Repository, tree: &git2::Tree<'_>) -> BTreeMap<PathBuf, PathBuf> {
    let blob = tree
        .get_name(".gitmodules")
        .and_then(|entry| repo.find_blob(entry.id()).ok());
    let Some(blob) = blob.filter(|blob| blob.size() < 1 << 20) else {
        return BTreeMap::new();
    };
    let text = String::from_utf8_lossy(blob.content()).into_owned();
    let mut names = BTreeMap::new();
    let mut current = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            current = line
                .strip_prefix("[submodule \"")
                .and_then(|rest| rest.strip_suffix("\"]"))
                .map(PathBuf::from)
                .filter(|name| is_plain(name));
        } else if let Some((key, value)) = line.split_once('=')
            && key.trim().eq_ignore_ascii_case("path")
            && let Some(name) = &current
        {
            let value = value.trim().trim_matches('"').trim_end_matches('/');
            names.insert(PathBuf::from(value), name.clone());
        }
    }
    names
}

fn fill(
    repo: &git2::Repository,
    tree: &git2::Tree<'_>,
    stores: &Stores,
    root: &Path,
    above: &Path,
    depth: usize,
    done: &mut Submodules,
) -> Result<(), GitError> {
    for link in links_of(repo, tree) {
        let shown = sanitize_line(&above.join(&link.path).to_string_lossy());
        if depth >= DEPTH || done.filled.len() >= MOST {
            done.missing.push(format!(
                "{shown} is empty: there are too many submodules, or they are nested too deep"
            ));
            continue;
        }
        let Some(store) = stores.open(&link) else {
            done.missing.push(format!(
                "{shown} is empty: commit {} is not in this checkout's copy of it (`git submodule update \
                 --init` fetches it)",
                link.commit
            ));
            continue;
        };
        let place = root.join(&link.path);
        let inner = store
            .find_commit(link.commit)
            .and_then(|commit| commit.tree())
            .map_err(GitError::git("read a submodule's commit"));
        let inner = match inner.and_then(|tree| {
            // What an earlier try put there.
            hostile_dir::remove(&place)?;
            fs::create_dir(&place).map_err(GitError::io("cannot make", &place))?;
            write_files(&store, &tree, &place)?;
            Ok(tree)
        }) {
            Ok(tree) => tree,
            Err(error) => {
                // Half a submodule would be taken for all of it.
                hostile_dir::remove(&place)?;
                fs::create_dir(&place).map_err(GitError::io("cannot make", &place))?;
                done.missing.push(format!("{shown} is empty: {error}"));
                continue;
            }
        };
        done.filled.push(shown);
        let below = stores.below(&link);
        let above = above.join(&link.path);
        fill(&store, &inner, &below, &place, &above, depth + 1, done)?;
    }
    Ok(())
}

/// Writes the files of `tree` into the empty folder `place`, byte for byte. Every name is new there: what
/// exists already, a link above all, is never written to or through.
fn write_files(
    store: &git2::Repository,
    tree: &git2::Tree<'_>,
    place: &Path,
) -> Result<(), GitError> {
    for entry in tree.iter() {
        let name = Path::new(OsStr::from_bytes(entry.name_bytes()));
        if !is_plain(name) || name.components().count() != 1 {
            return Err(GitError::BadPlace {
                path: place.to_owned(),
                why: "its commit has a name that no checkout may have".into(),
            });
        }
        let path = place.join(name);
        let failed = GitError::io("cannot write", &path);
        match entry.kind() {
            Some(ObjectType::Tree) => {
                fs::create_dir(&path).map_err(failed)?;
                let inner = store
                    .find_tree(entry.id())
                    .map_err(GitError::git("read a submodule's tree"))?;
                write_files(store, &inner, &path)?;
            }
            Some(ObjectType::Blob) => {
                let blob = store
                    .find_blob(entry.id())
                    .map_err(GitError::git("read a submodule's file"))?;
                match entry.filemode() {
                    0o120_000 => symlink(OsStr::from_bytes(blob.content()), &path),
                    mode => OpenOptions::new()
                        .write(true)
                        .create_new(true)
                        .mode(if mode == 0o100_755 { 0o755 } else { 0o644 })
                        .open(&path)
                        .and_then(|mut file| file.write_all(blob.content())),
                }
                .map_err(failed)?;
            }
            // A submodule of its own.
            _ => fs::create_dir(&path).map_err(failed)?,
        }
    }
    Ok(())
}

/// A file of a submodule: its content, and whether it is a link.
type File = (Oid, bool);

/// The files of a commit by path; those of its own submodules are not among them.
fn files_of(
    store: &git2::Repository,
    commit: Oid,
) -> Result<BTreeMap<PathBuf, Option<File>>, GitError> {
    let tree = store
        .find_commit(commit)
        .and_then(|commit| commit.tree())
        .map_err(GitError::git("read a submodule's commit"))?;
    let mut files = BTreeMap::new();
    tree.walk(TreeWalkMode::PreOrder, |dir, entry| {
        let bytes = [dir.as_bytes(), entry.name_bytes()].concat();
        let path = PathBuf::from(OsStr::from_bytes(&bytes));
        match entry.kind() {
            Some(ObjectType::Blob) => {
                let is_link = entry.filemode() == 0o120_000;
                files.insert(path, Some((entry.id(), is_link)));
            }
            Some(ObjectType::Commit) => {
                files.insert(path, None);
            }
            _ => {}
        }
        TreeWalkResult::Ok
    })
    .map_err(GitError::git("read a submodule's commit"))?;
    Ok(files)
}

/// Whether the folder `below` of a worktree that a run could write holds exactly these files, or nothing
/// where none were put. A link in place of the folder, or on the way to it, is not as expected and is not
/// followed: what it names is not the run's.
fn is_as_expected(
    worktree: &Path,
    below: &Path,
    expected: Option<&BTreeMap<PathBuf, Option<File>>>,
) -> Result<bool, GitError> {
    let none = BTreeMap::new();
    let (mut same, mut seen) = (true, 0);
    let expected_files = expected.unwrap_or(&none);
    // Inside a submodule of the submodule: filled from elsewhere, not compared.
    let nested: Vec<&Path> = expected_files
        .iter()
        .filter(|(_, file)| file.is_none())
        .map(|(path, _)| path.as_path())
        .collect();
    let mut any = false;
    let there = hostile_dir::walk_in(worktree, below, &mut |entry| {
        if entry.path.as_os_str().is_empty()
            || nested.iter().any(|path| entry.path.starts_with(path))
        {
            return Ok(());
        }
        let wanted = expected_files.get(entry.path).copied().flatten();
        match entry.kind {
            Kind::Folder => {}
            Kind::File(file) => {
                any = true;
                seen += 1;
                same &= match wanted {
                    Some((oid, false)) => {
                        let size = u64::try_from(entry.stat.st_size).unwrap_or(u64::MAX);
                        if size > COMPARED {
                            return Ok(());
                        }
                        let mut bytes = Vec::new();
                        file.take(COMPARED)
                            .read_to_end(&mut bytes)
                            .map_err(GitError::io("cannot read", entry.path))?;
                        Oid::hash_object(ObjectType::Blob, &bytes).is_ok_and(|found| found == oid)
                    }
                    _ => false,
                };
            }
            Kind::Link(target) => {
                any = true;
                seen += 1;
                same &= matches!(wanted, Some((oid, true))
                    if Oid::hash_object(ObjectType::Blob, &target).is_ok_and(|found| found == oid));
            }
            Kind::Pipe | Kind::Other => {
                any = true;
                same = false;
            }
        }
        Ok(())
    })?;
    if !there {
        return Ok(false);
    }
    let files = expected_files
        .values()
        .filter(|file| file.is_some())
        .count();
    // A submodule that could not be filled is an empty folder.
    Ok(if any { same && seen == files } else { true })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_paths_that_go_down_are_followed() {
        for good in ["lib", "a/b c/d"] {
            assert!(is_plain(Path::new(good)), "{good}");
        }
        for bad in ["", "..", "a/../../b", "/etc", "a/.GIT/b"] {
            assert!(!is_plain(Path::new(bad)), "{bad}");
        }
    }

    #[test]
    fn a_link_above_a_submodule_is_a_change_and_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = dir.path().join("foreign");
        fs::create_dir_all(foreign.join("lib")).unwrap();
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(foreign.join("lib"), closed).unwrap();
        let worktree = dir.path().join("worktree");
        fs::create_dir_all(worktree.join("kept/lib")).unwrap();
        for (way, target) in [("vendor", foreign.clone()), ("up", "../foreign".into())] {
            symlink(target, worktree.join(way)).unwrap();
            let below = Path::new(way).join("lib");
            assert!(!is_as_expected(&worktree, &below, None).unwrap(), "{way}");
        }
        symlink(foreign.join("lib"), worktree.join("kept/link")).unwrap();
        assert!(!is_as_expected(&worktree, Path::new("kept/link"), None).unwrap());
        assert!(is_as_expected(&worktree, Path::new("kept/lib"), None).unwrap());
        let mode = fs::metadata(foreign.join("lib"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o7777, 0, "the foreign folder was touched");
    }
}
