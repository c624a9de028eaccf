//! Taking a run down without losing anything: everything it had goes into one snapshot commit
//! first, then worktree, shadow directory, registration and branch go.
//!
//! The commit at `refs/foreman/snapshots/<run>` holds, as plain git objects, the files of the
//! worktree (tracked, untracked and ignored, byte for byte), of its registration (with the index)
//! and of the shadow directory (with commits that were never collected, as inert files), and a
//! manifest of what trees cannot hold. Its parents are the run's commits and a commit of its index.
//!
//! Removal starts by moving the folders aside under another name, so that a half-removed worktree is
//! never taken for a whole one and snapshotted over the good snapshot. Gone is done: it can be
//! called again at any time.

use crate::checked_out::is_checked_out;
use crate::deep_stack::on_deep_stack;
use crate::hostile_dir::{self, Entry, Kind};
use crate::lock::RepositoryLock;
use crate::manifest::{Header, Part, Row, VERSION, What, encode};
use crate::program::Program;
use crate::shadow::identity;
use crate::worktree::registered_place;
use crate::{GitError, Repository, Worktree, bounded};
use foreman_domain::RunId;
use git2::{ErrorCode, ObjectType, Oid};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest single file, by its length.
const FILE: u64 = 16 << 30;
/// The largest sum of all files.
const TOTAL: u64 = 64 << 30;
/// How long taking a snapshot may last.
const IMPORT: Duration = Duration::from_secs(2 * 60 * 60);

/// Full name of the snapshot of `run`.
pub(crate) fn snapshot_ref(run: &RunId) -> String {
    format!("refs/foreman/snapshots/{run}")
}

impl Repository {
    /// Keeps everything of `worktree` and its `shadow` directory in a snapshot, then removes both,
    /// the registration and the branch; gives the snapshot's ref. What is gone already is done.
    ///
    /// # Errors
    /// Nothing is removed before the snapshot is complete. [`GitError::BadPlace`] when the folder
    /// cannot be proven to be this worktree, or something is mounted in it.
    pub fn snapshot_and_remove(
        &self,
        run: &RunId,
        worktree: &Worktree,
        shadow: &Path,
    ) -> Result<String, GitError> {
        on_deep_stack(|| self.take_down(run, worktree, shadow))
    }

    fn take_down(
        &self,
        run: &RunId,
        worktree: &Worktree,
        shadow: &Path,
    ) -> Result<String, GitError> {
        let _lock = RepositoryLock::take(self.common_dir())?;
        let name = snapshot_ref(run);
        let repo = self.git()?;
        let taken = match repo.refname_to_id(&name) {
            Ok(_) => true,
            Err(error) if error.code() == ErrorCode::NotFound => false,
            Err(error) => return Err(GitError::git("look for the snapshot")(error)),
        };
        let there = |path: &Path| path.symlink_metadata().is_ok();
        let aside = [aside(&worktree.path), aside(shadow)];
        let removing = aside.iter().any(|path| there(path));
        if there(&worktree.path) {
            self.prove_ours(run, worktree)?;
        }
        if !taken {
            // Somebody deleted the snapshot's ref while a removal was cut short: what is left is
            // the only copy again.
            for (path, aside) in [worktree.path.as_path(), shadow].into_iter().zip(&aside) {
                if !there(path) && there(aside) {
                    fs::rename(aside, path).map_err(GitError::io("cannot move", aside))?;
                }
            }
        }
        let whole = there(&worktree.path) || (there(shadow) && !removing);
        if whole || !taken {
            self.take_snapshot(&repo, &name, worktree, shadow)?;
        }
        for (path, aside) in [&worktree.path, shadow].into_iter().zip(&aside) {
            if there(path) {
                // A remainder under the name it will get: already in an older snapshot.
                hostile_dir::remove(aside)?;
                fs::rename(path, aside).map_err(GitError::io("cannot move", path))?;
            }
        }
        for path in &aside {
            hostile_dir::remove(path)?;
        }
        self.unregister(worktree)?;
        self.delete_refs(worktree)?;
        Ok(name)
    }

    /// The folder is this run's worktree: by git's registration, by its own `.git` file, or by its
    /// name; and it is not the operator's tree. Unknown is never a licence to delete.
    pub(crate) fn prove_ours(&self, run: &RunId, worktree: &Worktree) -> Result<(), GitError> {
        let refuse = |why: &str| {
            Err(GitError::BadPlace {
                path: worktree.path.clone(),
                why: why.to_owned(),
            })
        };
        if self.root().starts_with(&worktree.path) || self.common_dir().starts_with(&worktree.path)
        {
            return refuse("it holds the repository itself");
        }
        let canonical = worktree
            .path
            .canonicalize()
            .map_err(GitError::io("cannot look at", &worktree.path))?;
        if canonical != worktree.path {
            return refuse("it is reached through a symbolic link");
        }
        let admin = self.admin_dir(worktree);
        let registered = registered_place(&admin) == Some(worktree.path.join(".git"));
        let expected = [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat();
        let linked = bounded::read(&worktree.path.join(".git"), 64 * 1024)
            .is_ok_and(|bytes| bytes == expected);
        let named = worktree.path.file_name() == Some(OsStr::new(run.as_str()));
        if registered || linked || named {
            Ok(())
        } else {
            refuse("nothing proves that it is the run's worktree, so it is not removed")
        }
    }

    fn take_snapshot(
        &self,
        repo: &git2::Repository,
        name: &str,
        worktree: &Worktree,
        shadow: &Path,
    ) -> Result<(), GitError> {
        let admin = self.admin_dir(worktree);
        let places = [
            (Part::Worktree, worktree.path.as_path()),
            (Part::Admin, admin.as_path()),
            (Part::Shadow, shadow),
        ];
        let mut rows = self.import(repo, &places)?;
        let at = |name: &str| repo.refname_to_id(name).ok();
        let (branch_at, head_at) = (at(&worktree.branch_ref()), at(&worktree.head_ref()));
        let what = "write the snapshot";
        let mut tree = repo.treebuilder(None).map_err(GitError::git(what))?;
        for part in Part::ALL {
            let oid = tree_of(repo, &rows, part)?;
            tree.insert(part.name(), oid, 0o040_000)
                .map_err(GitError::git(what))?;
        }
        let header = Header {
            v: VERSION,
            run: worktree.run.clone(),
            branch: worktree.branch.clone(),
            branch_at: branch_at.map(|oid| oid.to_string()),
            head_at: head_at.map(|oid| oid.to_string()),
            rows: rows.len(),
        };
        let mut manifest = json_line(&header)?;
        for row in rows.drain(..) {
            manifest.extend(json_line(&row)?);
        }
        let manifest = repo.blob(&manifest).map_err(GitError::git(what))?;
        tree.insert("manifest", manifest, 0o100_644)
            .map_err(GitError::git(what))?;
        let tree = tree.write().map_err(GitError::git(what))?;

        let (author, email) = identity(repo);
        let signature = git2::Signature::now(&author, &email).map_err(GitError::git(what))?;
        let commit = |tree: Oid, message: &str, parents: &[Oid]| -> Result<Oid, git2::Error> {
            let tree = repo.find_tree(tree)?;
            let parents = parents
                .iter()
                .map(|oid| repo.find_commit(*oid))
                .collect::<Result<Vec<_>, _>>()?;
            let parents: Vec<_> = parents.iter().collect();
            repo.commit(None, &signature, &signature, message, &tree, &parents)
        };
        let tip = branch_at
            .or(head_at)
            .map_or_else(|| worktree.base_oid(), Ok)?;
        let mut parents = vec![tip];
        parents.extend(head_at.filter(|oid| *oid != tip));
        if let Some(index) = index_tree(repo, &admin) {
            let message = format!("foreman: index of run {}\n", worktree.run);
            parents.push(commit(index, &message, &[tip]).map_err(GitError::git(what))?);
        }
        parents.extend(self.salvage(repo, worktree, shadow));
        // An older snapshot, of before a restore, stays reachable.
        parents.extend(repo.refname_to_id(name));
        let message = format!("foreman: snapshot of run {}\n", worktree.run);
        let snapshot = commit(tree, &message, &parents).map_err(GitError::git(what))?;
        repo.reference(name, snapshot, true, message.trim_end())
            .map_err(GitError::git("name the snapshot"))?;
        Ok(())
    }

    /// Writes the content of every file as an object, in one pack.
    fn import(
        &self,
        repo: &git2::Repository,
        places: &[(Part, &Path)],
    ) -> Result<Vec<Row>, GitError> {
        let marks = self
            .common_dir()
            .join(format!("foreman-marks-{}", std::process::id()));
        let _gone = Gone(&marks);
        let mut rows = Vec::new();
        let mut total = 0;
        Program::new(self.common_dir(), "fast-import", IMPORT)
            .args(["--quiet", "--done"])
            .arg([OsStr::new("--export-marks="), marks.as_os_str()].join(OsStr::new("")))
            .run(|input| {
                for (part, place) in places {
                    if place.symlink_metadata().is_err() {
                        continue;
                    }
                    hostile_dir::walk(place, &mut |entry| {
                        let row = import_entry(repo, *part, entry, rows.len(), &mut total, input)?;
                        rows.push(row);
                        Ok(())
                    })?;
                }
                input
                    .write_all(b"done\n")
                    .map_err(GitError::io("cannot write to", "git"))
            })?;
        let text = fs::read_to_string(&marks).map_err(GitError::io("cannot read", &marks))?;
        let broken = || GitError::Program {
            what: "fast-import".into(),
            detail: "it did not name every object".into(),
        };
        let mut named = 0;
        for line in text.lines() {
            let (mark, oid) = line
                .strip_prefix(':')
                .and_then(|l| l.split_once(' '))
                .ok_or_else(broken)?;
            let mark: usize = mark.parse().map_err(|_| broken())?;
            let row = mark
                .checked_sub(1)
                .and_then(|at| rows.get_mut(at))
                .ok_or_else(broken)?;
            row.what = What::File(oid.to_owned());
            named += 1;
        }
        let files = rows
            .iter()
            .filter(|row: &&Row| matches!(row.what, What::File(_)))
            .count();
        if files != named {
            return Err(broken());
        }
        Ok(rows)
    }

    pub(crate) fn unregister(&self, worktree: &Worktree) -> Result<(), GitError> {
        let admin = self.admin_dir(worktree);
        if admin.symlink_metadata().is_err() {
            return Ok(());
        }
        if let Some(place) = registered_place(&admin)
            && place != worktree.path.join(".git")
            && place.symlink_metadata().is_ok()
        {
            return Err(GitError::BadPlace {
                path: place,
                why: "the worktree was moved there by hand; remove it with `git worktree remove`"
                    .into(),
            });
        }
        hostile_dir::remove(&admin)?;
        // Only goes when it is empty.
        let _ = fs::remove_dir(self.common_dir().join("worktrees"));
        Ok(())
    }

    pub(crate) fn delete_refs(&self, worktree: &Worktree) -> Result<(), GitError> {
        let repo = self.git()?;
        let branch = worktree.branch_ref();
        let admin = self.admin_dir(worktree);
        // A branch that the operator has checked out meanwhile is the operator's now.
        if !is_checked_out(self, &branch, &admin)? {
            delete(&repo, &branch)?;
        }
        delete(&repo, &worktree.head_ref())?;
        delete(&repo, &worktree.kept_base_ref())?;
        for folder in ["refs/heads/foreman", "logs/refs/heads/foreman"] {
            let _ = fs::remove_dir(self.common_dir().join(folder));
        }
        let _ = fs::remove_dir(self.common_dir().join("refs/foreman").join(&worktree.run));
        Ok(())
    }
}

pub(crate) fn delete(repo: &git2::Repository, name: &str) -> Result<(), GitError> {
    match repo.find_reference(name) {
        Ok(mut found) => found
            .delete()
            .map_err(GitError::git("delete the run's refs")),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
        Err(error) => Err(GitError::git("delete the run's refs")(error)),
    }
}

/// The name under which a folder is removed.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".removing");
    path.with_file_name(name)
}

struct Gone<'a>(&'a Path);

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

fn json_line(value: &impl serde::Serialize) -> Result<Vec<u8>, GitError> {
    let mut line = serde_json::to_vec(value).map_err(|error| GitError::Io {
        what: "cannot write the manifest of",
        path: PathBuf::from("the snapshot"),
        source: error.into(),
    })?;
    line.push(b'\n');
    Ok(line)
}

fn import_entry(
    repo: &git2::Repository,
    part: Part,
    entry: Entry<'_>,
    at: usize,
    total: &mut u64,
    input: &mut dyn Write,
) -> Result<Row, GitError> {
    let what = match entry.kind {
        Kind::Folder => What::Folder,
        Kind::Pipe => What::Pipe,
        Kind::Other => What::Other,
        Kind::Link(target) => What::Link(
            repo.blob(&target)
                .map_err(GitError::git("keep a link"))?
                .to_string(),
        ),
        Kind::File(file) => {
            let path = entry.path;
            let size = u64::try_from(entry.stat.st_size).unwrap_or(0);
            *total = total.saturating_add(size);
            if size > FILE || *total > TOTAL {
                return Err(GitError::SnapshotTooLarge {
                    path: path.to_owned(),
                    why: format!(
                        "a file may have {FILE} bytes and all together {TOTAL}; it has {size}"
                    ),
                });
            }
            let write = || -> std::io::Result<u64> {
                write!(input, "blob\nmark :{}\ndata {size}\n", at + 1)?;
                let written = std::io::copy(&mut file.take(size), input)?;
                input.write_all(b"\n")?;
                Ok(written)
            };
            let written = write().map_err(GitError::io("cannot keep", path))?;
            if written != size {
                let changed = std::io::Error::other("it changes while it is read");
                return Err(GitError::io("cannot keep", path)(changed));
            }
            What::File(String::new())
        }
    };
    Ok(Row {
        part,
        path: encode(entry.path),
        what,
        mode: entry.stat.st_mode & 0o7777,
        time: (entry.stat.st_mtime, entry.stat.st_mtime_nsec),
    })
}

#[derive(Default)]
struct Folder {
    folders: BTreeMap<Vec<u8>, Folder>,
    leaves: BTreeMap<Vec<u8>, (Oid, i32)>,
}

/// The files of one part as a git tree, for people and for reachability; the manifest is what a
/// restore reads.
fn tree_of(repo: &git2::Repository, rows: &[Row], part: Part) -> Result<Oid, GitError> {
    let mut root = Folder::default();
    for row in rows.iter().filter(|row| row.part == part) {
        let (oid, mode) = match &row.what {
            What::File(oid) if row.mode & 0o100 != 0 => (oid, 0o100_755),
            What::File(oid) => (oid, 0o100_644),
            What::Link(oid) => (oid, 0o120_000),
            What::Folder | What::Pipe | What::Other => continue,
        };
        let oid = crate::worktree::parse_oid(oid)?;
        let path = crate::manifest::decode(&row.path).unwrap_or_default();
        let mut folder = &mut root;
        let mut parts: Vec<&OsStr> = path.iter().collect();
        let leaf = parts.pop().unwrap_or_default();
        for part in parts {
            folder = folder
                .folders
                .entry(part.as_bytes().to_owned())
                .or_default();
        }
        folder
            .leaves
            .insert(leaf.as_bytes().to_owned(), (oid, mode));
    }
    write_folder(repo, &root)
}

fn write_folder(repo: &git2::Repository, folder: &Folder) -> Result<Oid, GitError> {
    let what = "write the snapshot's tree";
    let mut tree = repo.treebuilder(None).map_err(GitError::git(what))?;
    let mut insert = |name: &[u8], oid: Oid, mode: i32| -> Result<(), GitError> {
        if !is_refused_by_git(name) && tree.insert(name, oid, mode).is_ok() {
            return Ok(());
        }
        // A name that git refuses (`.git` and what some systems take for it).
        let mut other = b"foreman-name-".to_vec();
        other.extend(encode(Path::new(OsStr::from_bytes(name))).into_bytes());
        tree.insert(other, oid, mode)
            .map(|_| ())
            .map_err(GitError::git(what))
    };
    for (name, inner) in &folder.folders {
        let oid = write_folder(repo, inner)?;
        insert(name, oid, 0o040_000)?;
    }
    for (name, (oid, mode)) in &folder.leaves {
        insert(name, *oid, *mode)?;
    }
    tree.write().map_err(GitError::git(what))
}

/// Names that `git fsck` calls an attack: kept under another name, so that the operator's
/// repository stays clean in its eyes and `git archive` of the snapshot is harmless.
fn is_refused_by_git(name: &[u8]) -> bool {
    let lower: Vec<u8> = name
        .iter()
        .filter(|byte| byte.is_ascii())
        .map(u8::to_ascii_lowercase)
        .collect();
    lower.starts_with(b".git") || lower.starts_with(b"git~") || name.contains(&b'\\')
}

/// The tree that the worktree's index holds; none when it is missing, damaged or in conflict.
fn index_tree(repo: &git2::Repository, admin: &Path) -> Option<Oid> {
    let path = admin.join("index");
    bounded::open_regular(&path).ok()?;
    let mut index = git2::Index::open(&path).ok()?;
    if index.has_conflicts() {
        return None;
    }
    let oid = index.write_tree_to(repo).ok()?;
    repo.find_object(oid, Some(ObjectType::Tree)).ok()?;
    Some(oid)
}
