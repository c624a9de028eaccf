//! The files of one commit and nothing else, with a git directory of their own, to check them in a
//! cage: what the run left beside its commits (ignored and untracked files, its index, its git
//! configuration) is not there and cannot steer what is checked.
//!
//! Inside the cage it is at the worktree's own path and on the run's branch. It is registered nowhere,
//! so that git on the host neither sees nor keeps anything of it.

use crate::deep_stack::on_deep_stack;
use crate::worktree::verify_equal;
use crate::{GitError, Repository, Shadow, Worktree, hostile_dir};
use git2::ErrorCode;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The checked-out files, inside the folder of a copy.
const TREE: &str = "tree";
/// Its private common directory.
const GIT: &str = "git";

/// A copy of one commit, ready to be shown in a cage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanCopy {
    /// The files, on the host.
    pub tree: PathBuf,
    /// The git directory, on the host.
    pub git: PathBuf,
    /// What the cage must bind.
    pub shadow: Shadow,
}

impl CleanCopy {
    /// Where the files are of a copy that was made at `dir`.
    #[must_use]
    pub fn tree_in(dir: &Path) -> PathBuf {
        dir.join(TREE)
    }

    /// Removes what was made at `dir`, whatever its processes did to it. What is gone is done.
    ///
    /// # Errors
    /// [`GitError::BadPlace`] when it is no folder or something is mounted in it; failures of files.
    pub fn remove(dir: &Path) -> Result<(), GitError> {
        on_deep_stack(|| hostile_dir::remove(dir))
    }
}

impl Repository {
    /// Makes a copy of `head` below `dir`, which must not exist; submodules are filled from what is here.
    /// Git ignores the paths of `copied` inside: files that are put there and are nobody's work.
    ///
    /// # Errors
    /// [`GitError::BadPlace`] when `dir` exists, [`GitError::NotFound`] when `head` is not a commit
    /// here, [`GitError::CheckoutDiffers`]; failures of files and objects. Nothing half-made is left.
    pub fn clean_copy(
        &self,
        worktree: &Worktree,
        head: &str,
        copied: &[String],
        dir: &Path,
    ) -> Result<CleanCopy, GitError> {
        fs::DirBuilder::new()
            .mode(0o700)
            .create(dir)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => GitError::BadPlace {
                    path: dir.to_owned(),
                    why: "it exists already".into(),
                },
                _ => GitError::io("cannot make", dir)(error),
            })?;
        let made = on_deep_stack(|| self.fill(worktree, head, copied, dir));
        if made.is_err() {
            let _ = fs::remove_dir_all(dir);
        }
        made
    }

    fn fill(
        &self,
        worktree: &Worktree,
        head: &str,
        copied: &[String],
        dir: &Path,
    ) -> Result<CleanCopy, GitError> {
        let dir = dir
            .canonicalize()
            .map_err(GitError::io("cannot find", dir))?;
        let (tree, git) = (dir.join(TREE), dir.join(GIT));
        fs::create_dir(&tree).map_err(GitError::io("cannot make", &tree))?;
        let admin = git.join("worktrees").join(&worktree.admin);
        fs::create_dir_all(&admin).map_err(GitError::io("cannot make", &admin))?;
        self.check_out_copy(head, &tree, &admin.join("index"))?;
        self.fill_submodules(&Worktree {
            path: tree.clone(),
            base_commit: head.to_owned(),
            ..worktree.clone()
        })?;
        let write = |path: PathBuf, parts: &[&[u8]]| {
            fs::write(&path, parts.concat()).map_err(GitError::io("cannot write", &path))
        };
        let (dot_git, known) = (worktree.path.join(".git"), self.admin_dir(worktree));
        write(
            admin.join("HEAD"),
            &[b"ref: ", worktree.branch_ref().as_bytes(), b"\n"],
        )?;
        write(admin.join("commondir"), &[b"../..\n"])?;
        write(
            admin.join("gitdir"),
            &[dot_git.as_os_str().as_bytes(), b"\n"],
        )?;
        write(
            tree.join(".git"),
            &[b"gitdir: ", known.as_os_str().as_bytes(), b"\n"],
        )?;
        let shadow = self.shadow_of_copy(worktree, &tree, &git, copied)?;
        // The branch as the copy has it, wherever the repository's own may go meanwhile.
        let own = git.join(worktree.branch_ref());
        if let Some(above) = own.parent() {
            fs::create_dir_all(above).map_err(GitError::io("cannot make", above))?;
        }
        write(own, &[head.as_bytes(), b"\n"])?;
        Ok(CleanCopy { tree, git, shadow })
    }

    fn check_out_copy(&self, head: &str, to: &Path, index: &Path) -> Result<(), GitError> {
        let repo = self.git()?;
        let head = self.find_head(&repo, head)?;
        let cannot = |error: git2::Error| match error.code() {
            ErrorCode::NotFound => GitError::Corrupt {
                path: self.common_dir().to_owned(),
                what: format!("the commit {head} is not whole: {}", error.message()),
            },
            _ => GitError::git("check out what is to be checked")(error),
        };
        let tree = repo
            .find_commit(head)
            .and_then(|commit| commit.tree())
            .map_err(cannot)?;
        let mut index = git2::Index::open(index).map_err(cannot)?;
        // Before any file is written, so that attributes are known whatever the order of files.
        index.read_tree(&tree).map_err(cannot)?;
        repo.set_workdir(to, false).map_err(cannot)?;
        repo.set_index(&mut index).map_err(cannot)?;
        let mut options = git2::build::CheckoutBuilder::new();
        options.force();
        repo.checkout_tree(tree.as_object(), Some(&mut options))
            .map_err(cannot)?;
        verify_equal(&repo, &mut index, &tree, to)
    }
}
