//! Making a run's worktree and branch: registered, checked out and proven equal to the base commit,
//! or undone.
//!
//! The order is branch, folder, registration, files. The registration carries git's own `locked`
//! mark for as long as it lives, so that no `git worktree prune` of anybody takes it for stale.
//! libgit2 checks the files out: it knows line endings and nothing else, so no filter program runs.

use crate::deep_stack::on_deep_stack;
use crate::lock::RepositoryLock;
use crate::{GitError, Preflight, Repository, Worktree, hostile_dir};
use foreman_domain::RunId;
use git2::{ErrorCode, Oid};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Nested repositories of one run that are named.
const NAMED: usize = 20;

impl Worktree {
    /// What [`Repository::create_worktree`] will make for `run` at `at`; nothing is touched.
    #[must_use]
    pub fn planned(run: &RunId, pre: &Preflight, at: &Path) -> Self {
        Self {
            run: run.to_string(),
            path: at.to_owned(),
            branch: format!("foreman/{run}"),
            admin: run.to_string(),
            base_branch: pre.base_branch.clone(),
            base_commit: pre.base_commit.clone(),
        }
    }

    /// Takes every repository that the run made inside its worktree out of use, by renaming its
    /// `.git`: git, and every editor that looks for repositories, runs the programs that such a
    /// repository's configuration names. For a run whose processes are all dead; does nothing the
    /// second time. Gives a sentence per repository.
    ///
    /// # Errors
    /// When the worktree cannot be searched to its end.
    pub fn take_nested_repositories_out_of_use(&self) -> Result<Vec<String>, GitError> {
        if !self.path.is_dir() {
            return Ok(Vec::new());
        }
        let found = on_deep_stack(|| hostile_dir::rename_git_entries(&self.path))?;
        let sentence = |folder: PathBuf| {
            format!(
                "the repository that the run made in {} is out of use: its .git is called {} now, \
                 because git would run what its configuration names",
                foreman_domain::sanitize_line(&folder.to_string_lossy()),
                hostile_dir::OUT_OF_USE,
            )
        };
        let more = found.len().saturating_sub(NAMED);
        let mut sentences: Vec<String> = found.into_iter().take(NAMED).map(sentence).collect();
        if more > 0 {
            sentences.push(format!(
                "{more} more repositories that the run made are out of use in the same way"
            ));
        }
        Ok(sentences)
    }

    /// Full name of its branch.
    pub(crate) fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    /// Full name of its base branch.
    pub(crate) fn base_ref(&self) -> String {
        format!("refs/heads/{}", self.base_branch)
    }

    /// Where the collected tip is kept, whatever becomes of the branch.
    pub(crate) fn head_ref(&self) -> String {
        format!("refs/foreman/{}/head", self.run)
    }

    /// Where the commit that it starts from is kept.
    pub(crate) fn kept_base_ref(&self) -> String {
        format!("refs/foreman/{}/base", self.run)
    }

    /// Its base commit as an id.
    pub(crate) fn base_oid(&self) -> Result<Oid, GitError> {
        parse_oid(&self.base_commit)
    }
}

/// A full object name in hexadecimal.
pub(crate) fn parse_oid(text: &str) -> Result<Oid, GitError> {
    let full = text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    if !full {
        return Err(GitError::NotFound {
            what: format!("commit \"{}\"", foreman_domain::sanitize_line(text)),
        });
    }
    Oid::from_str(text).map_err(GitError::git("read a commit's name"))
}

impl Repository {
    /// The registration of `worktree` below the common directory.
    pub(crate) fn admin_dir(&self, worktree: &Worktree) -> PathBuf {
        self.common_dir().join("worktrees").join(&worktree.admin)
    }

    /// Makes the branch `foreman/<run>` at the base commit and a worktree of it at `at`, which must
    /// not exist or be an empty folder, outside of any repository.
    ///
    /// # Errors
    /// [`GitError::BranchClash`], [`GitError::BadPlace`], [`GitError::CheckoutDiffers`] and the
    /// failures of files and objects. Nothing half-made is left behind.
    pub fn create_worktree(
        &self,
        run: &RunId,
        pre: &Preflight,
        at: &Path,
    ) -> Result<Worktree, GitError> {
        let at = self.place(at)?;
        let worktree = Worktree::planned(run, pre, &at);
        let base = worktree.base_oid()?;
        let repo = self.git()?;
        let mut undo = Undo {
            repository: self,
            worktree: &worktree,
            base,
            made: Made::default(),
        };
        {
            let _lock = RepositoryLock::take(self.common_dir())?;
            self.prune_stale(&worktree)?;
            self.refuse_clash(&repo, &worktree)?;
            let log = format!("foreman: start of run {run}");
            repo.reference(&worktree.branch_ref(), base, false, &log)
                .map_err(GitError::git("make the run's branch"))?;
            undo.made.branch = true;
            undo.made.dir = make_dir(&at)?;
            undo.made.admin = true;
            self.register(&worktree)?;
        }
        self.check_out(&repo, &worktree, base)?;
        undo.made = Made::default();
        drop(undo);
        Ok(worktree)
    }

    /// The canonical form of the place for a worktree, when it can be used.
    fn place(&self, at: &Path) -> Result<PathBuf, GitError> {
        let bad = |path: &Path, why: &str| GitError::BadPlace {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let (Some(parent), Some(name)) = (at.parent(), at.file_name()) else {
            return Err(bad(at, "it is not the path of a new folder"));
        };
        if !at.is_absolute() {
            return Err(bad(at, "the path is not absolute"));
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(GitError::io("cannot make the folder", parent))?;
        let at = parent
            .canonicalize()
            .map_err(GitError::io("cannot find the folder", parent))?
            .join(name);
        if at.to_str().is_none() {
            return Err(bad(&at, "the path is not valid UTF-8"));
        }
        if at.starts_with(self.common_dir()) || at.starts_with(self.root()) {
            return Err(bad(&at, "it lies inside the repository"));
        }
        // A worktree inside another one would be seen by that one's git, and by its run.
        if let Some(outer) = at
            .ancestors()
            .skip(1)
            .find(|dir| dir.join(".git").symlink_metadata().is_ok())
        {
            return Err(bad(
                &at,
                &format!("{} is a git repository", outer.display()),
            ));
        }
        match fs::symlink_metadata(&at) {
            Err(_) => {}
            Ok(meta) if !meta.is_dir() => return Err(bad(&at, "something else is there")),
            Ok(_) => {
                let mut entries =
                    fs::read_dir(&at).map_err(GitError::io("cannot read the folder", &at))?;
                if entries.next().is_some() {
                    return Err(bad(&at, "the folder is not empty"));
                }
            }
        }
        Ok(at)
    }

    fn refuse_clash(&self, repo: &git2::Repository, worktree: &Worktree) -> Result<(), GitError> {
        let branch_ref = worktree.branch_ref();
        let clash = |branch: &str, what: String| {
            Err(GitError::BranchClash {
                branch: branch.to_owned(),
                what,
            })
        };
        match repo.find_reference("refs/heads/foreman") {
            Ok(_) => {
                return clash(
                    "foreman",
                    format!(", so there can be no branch {}", worktree.branch),
                );
            }
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return Err(GitError::git("look for the run's branch")(error)),
        }
        match repo.find_reference(&branch_ref) {
            Ok(found) => {
                let at = found
                    .target()
                    .map(|oid| format!(" (at {oid})"))
                    .unwrap_or_default();
                return clash(&worktree.branch, at);
            }
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return Err(GitError::git("look for the run's branch")(error)),
        }
        let admin = self.admin_dir(worktree);
        if admin.symlink_metadata().is_ok() {
            return Err(GitError::BadPlace {
                path: worktree.path.clone(),
                why: format!("{} is registered already", admin.display()),
            });
        }
        Ok(())
    }

    /// Removes registrations that would stand in the way of `worktree` and whose folder is gone:
    /// those for the very same place, and those that bear its name. Others are left alone, even when
    /// their folder is missing: it may be on a disk that is not mounted now.
    fn prune_stale(&self, worktree: &Worktree) -> Result<(), GitError> {
        let registry = self.common_dir().join("worktrees");
        let Ok(entries) = fs::read_dir(&registry) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let dir = entry.path();
            let Some(dot_git) = registered_place(&dir) else {
                continue;
            };
            let ours = dot_git.parent() == Some(&worktree.path)
                || entry.file_name().as_bytes() == worktree.admin.as_bytes();
            let gone = dot_git
                .symlink_metadata()
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
            let locked_by_others = fs::read(dir.join("locked"))
                .is_ok_and(|reason| !reason.starts_with(LOCKED.as_bytes()));
            if ours && gone && !locked_by_others {
                fs::remove_dir_all(&dir)
                    .map_err(GitError::io("cannot remove the stale registration", &dir))?;
            }
        }
        Ok(())
    }

    /// Writes the registration and the worktree's `.git` file.
    pub(crate) fn register(&self, worktree: &Worktree) -> Result<(), GitError> {
        let admin = self.admin_dir(worktree);
        fs::create_dir_all(&admin).map_err(GitError::io("cannot make", &admin))?;
        let write = |path: PathBuf, parts: &[&[u8]]| {
            fs::write(&path, parts.concat()).map_err(GitError::io("cannot write", &path))
        };
        let dot_git = worktree.path.join(".git");
        write(
            admin.join("locked"),
            &[LOCKED.as_bytes(), worktree.run.as_bytes(), b"\n"],
        )?;
        write(
            admin.join("gitdir"),
            &[dot_git.as_os_str().as_bytes(), b"\n"],
        )?;
        write(admin.join("commondir"), &[b"../..\n"])?;
        write(
            admin.join("HEAD"),
            &[b"ref: ", worktree.branch_ref().as_bytes(), b"\n"],
        )?;
        write(dot_git, &[b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"])
    }

    fn check_out(
        &self,
        repo: &git2::Repository,
        worktree: &Worktree,
        base: Oid,
    ) -> Result<(), GitError> {
        let cannot = |error: git2::Error| match error.code() {
            ErrorCode::NotFound => GitError::Corrupt {
                path: self.common_dir().to_owned(),
                what: format!("the base commit {base} is not whole: {}", error.message()),
            },
            _ => GitError::git("check out the base commit")(error),
        };
        let tree = repo
            .find_commit(base)
            .and_then(|commit| commit.tree())
            .map_err(cannot)?;
        let path = self.admin_dir(worktree).join("index");
        let mut index = git2::Index::open(&path).map_err(cannot)?;
        // Before any file is written, so that attributes are known whatever the order of files.
        index.read_tree(&tree).map_err(cannot)?;
        repo.set_workdir(&worktree.path, false).map_err(cannot)?;
        repo.set_index(&mut index).map_err(cannot)?;
        let mut options = git2::build::CheckoutBuilder::new();
        options.force();
        repo.checkout_tree(tree.as_object(), Some(&mut options))
            .map_err(cannot)?;
        verify_equal(repo, &mut index, &tree, &worktree.path)
    }
}

/// How our `locked` marks begin; the run's id follows.
pub(crate) const LOCKED: &str = "foreman run ";

/// Where a registration says its worktree's `.git` file is.
pub(crate) fn registered_place(admin: &Path) -> Option<PathBuf> {
    let bytes = crate::bounded::read(&admin.join("gitdir"), 64 * 1024).ok()?;
    let end = bytes
        .iter()
        .rposition(|byte| !matches!(byte, b'\n' | b'\r'))?
        + 1;
    let path = PathBuf::from(OsStr::from_bytes(&bytes[..end]));
    // A relative path (extensions.relativeWorktrees) is relative to the registration.
    Some(if path.is_absolute() {
        path
    } else {
        admin.join(path)
    })
}

fn make_dir(at: &Path) -> Result<bool, GitError> {
    match fs::DirBuilder::new().create(at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(GitError::io("cannot make the folder", at)(error)),
    }
}

/// The index holds exactly the tree, and the disk every file that the index tells of.
pub(crate) fn verify_equal(
    repo: &git2::Repository,
    index: &mut git2::Index,
    tree: &git2::Tree<'_>,
    root: &Path,
) -> Result<(), GitError> {
    let differs = |what: String| GitError::CheckoutDiffers { what };
    index
        .read(true)
        .map_err(GitError::git("read the worktree's index"))?;
    let written = index
        .write_tree_to(repo)
        .map_err(GitError::git("read the worktree's index"))?;
    if written != tree.id() {
        return Err(differs(format!(
            "its index holds tree {written} instead of {}",
            tree.id()
        )));
    }
    for entry in index.iter() {
        let name = Path::new(OsStr::from_bytes(&entry.path));
        let shown = foreman_domain::sanitize_line(&name.to_string_lossy());
        let meta = fs::symlink_metadata(root.join(name))
            .map_err(|error| differs(format!("{shown}: {error}")))?;
        let right = match entry.mode & 0o170_000 {
            0o120_000 => meta.file_type().is_symlink(),
            0o160_000 => meta.is_dir(),
            _ => meta.is_file() && meta.len() & 0xffff_ffff == u64::from(entry.file_size),
        };
        if !right {
            return Err(differs(format!("{shown} is not what was checked out")));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Made {
    branch: bool,
    dir: bool,
    admin: bool,
}

/// Takes back what was made, newest first, unless it was made to the end.
struct Undo<'a> {
    repository: &'a Repository,
    worktree: &'a Worktree,
    base: Oid,
    made: Made,
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        let path = &self.worktree.path;
        if self.made.dir {
            let _ = fs::remove_dir_all(path);
        } else if self.made.admin {
            // The empty folder was there before: only its contents are ours.
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                let inner = entry.path();
                let _ = match entry.file_type() {
                    Ok(kind) if kind.is_dir() => fs::remove_dir_all(inner),
                    _ => fs::remove_file(inner),
                };
            }
        }
        if !(self.made.admin || self.made.branch) {
            return;
        }
        let _lock = RepositoryLock::take(self.repository.common_dir());
        if self.made.admin {
            let _ = fs::remove_dir_all(self.repository.admin_dir(self.worktree));
            // Only goes when it is empty.
            let _ = fs::remove_dir(self.repository.common_dir().join("worktrees"));
        }
        if self.made.branch
            && let Ok(repo) = self.repository.git()
            && let Ok(mut branch) = repo.find_reference(&self.worktree.branch_ref())
            && branch.target() == Some(self.base)
        {
            let _ = branch.delete();
            // The folder of branches, when this was the only one; fails when it is not empty.
            let _ = fs::remove_dir(self.repository.common_dir().join("refs/heads/foreman"));
        }
    }
}
