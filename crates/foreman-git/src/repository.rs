//! A repository of the operator: found, judged fit to be opened, and opened again for each use.
//!
//! Only paths are kept, so a value can be sent between threads and never holds a stale handle. Who
//! owns it is judged once, by [`Repository::open`], under git's own rule (`safe.directory`).

use crate::GitError;
use git2::{ErrorCode, RepositoryOpenFlags};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A repository of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    root: PathBuf,
    common: PathBuf,
}

impl Repository {
    /// Finds the repository at or above `path`; a linked worktree of it is fine.
    ///
    /// # Errors
    /// A typed refusal when there is none, it is bare or damaged, belongs to somebody else, or uses
    /// a storage format that this build cannot read.
    pub fn open(path: &Path) -> Result<Self, GitError> {
        let path = path
            .canonicalize()
            .map_err(|source| GitError::Unreachable {
                path: path.to_owned(),
                source,
            })?;
        let none: [&OsStr; 0] = [];
        let repo = git2::Repository::open_ext(&path, RepositoryOpenFlags::empty(), none)
            .map_err(|error| explain_open(&path, &error))?;
        let Some(root) = repo.workdir() else {
            return Err(GitError::Bare {
                path: repo.path().to_owned(),
            });
        };
        let canonical = |path: &Path| {
            path.canonicalize().map_err(|source| GitError::Unreachable {
                path: path.to_owned(),
                source,
            })
        };
        let opened = Self {
            root: canonical(root)?,
            common: canonical(repo.commondir())?,
        };
        for path in [&opened.root, &opened.common] {
            if path.to_str().is_none() {
                return Err(GitError::Unsupported {
                    path: path.clone(),
                    why: "its path is not valid UTF-8".into(),
                    hint: "move it to a path with a valid name".into(),
                });
            }
        }
        Ok(opened)
    }

    /// Root of the checked-out tree it was opened at.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory that all its worktrees share (`.git` of the main one), canonical.
    #[must_use]
    pub fn common_dir(&self) -> &Path {
        &self.common
    }

    /// The main tree, where the shared directory is that of one.
    #[must_use]
    pub fn main_tree(&self) -> Option<PathBuf> {
        let is_inside = self.common.file_name().is_some_and(|name| name == ".git");
        let tree = self.common.parent().filter(|_| is_inside);
        tree.map(Path::to_owned)
    }

    /// A folder name for it: its own name made safe, and a short hash of where it is.
    #[must_use]
    pub fn slug(&self) -> String {
        let named = match self.common.file_name() {
            Some(name) if name == ".git" => self.common.parent().and_then(Path::file_name),
            other => other,
        };
        let mut name: String = named
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
            .trim_end_matches(".git")
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .take(40)
            .collect();
        name = name.trim_matches('-').to_owned();
        if name.is_empty() {
            name.push_str("repo");
        }
        let bytes = self.common.as_os_str().as_encoded_bytes();
        // SHA-1 as a plain hash: nothing is decided on it but a folder name.
        let hash = git2::Oid::hash_object(git2::ObjectType::Blob, bytes)
            .map(|oid| oid.to_string())
            .unwrap_or_default();
        format!("{name}-{}", hash.get(..8).unwrap_or("00000000"))
    }

    /// Opens the common directory, without any worktree.
    pub(crate) fn git(&self) -> Result<git2::Repository, GitError> {
        let none: [&OsStr; 0] = [];
        let flags = RepositoryOpenFlags::NO_SEARCH
            | RepositoryOpenFlags::NO_DOTGIT
            | RepositoryOpenFlags::BARE;
        match git2::Repository::open_ext(&self.common, flags, none) {
            Ok(repo) => Ok(repo),
            // `safe.directory` may name the tree instead of the directory inside it.
            Err(error) if error.code() == ErrorCode::Owner => self.git_at_root(),
            Err(error) => Err(explain_open(&self.common, &error)),
        }
    }

    /// Opens the tree it was opened at, with its own HEAD.
    pub(crate) fn git_at_root(&self) -> Result<git2::Repository, GitError> {
        let none: [&OsStr; 0] = [];
        git2::Repository::open_ext(&self.root, RepositoryOpenFlags::NO_SEARCH, none)
            .map_err(|error| explain_open(&self.root, &error))
    }

    /// The object store, canonical.
    pub(crate) fn objects_dir(&self) -> Result<PathBuf, GitError> {
        let path = self.common.join("objects");
        path.canonicalize()
            .map_err(GitError::io("cannot find", path))
    }
}

/// Turns libgit2's refusal to open into a finding with a reason.
fn explain_open(path: &Path, error: &git2::Error) -> GitError {
    if error.code() == ErrorCode::Owner {
        let owned = find_dot_git(path).and_then(|dot| dot.parent().map(Path::to_owned));
        return GitError::ForeignOwner {
            path: owned.unwrap_or_else(|| path.to_owned()),
        };
    }
    let none: [&OsStr; 0] = [];
    let Ok(dir) = git2::Repository::discover_path(path, none) else {
        return match find_dot_git(path) {
            Some(dot) => GitError::Corrupt {
                path: dot,
                what: "it lacks HEAD, objects or refs, or points nowhere".into(),
            },
            None => GitError::NotARepository {
                path: path.to_owned(),
            },
        };
    };
    if let Some(refusal) = unsupported_format(&dir) {
        return refusal;
    }
    GitError::Corrupt {
        path: dir,
        what: error.message().to_owned(),
    }
}

/// The nearest `.git` at or above `path`, valid or not.
fn find_dot_git(path: &Path) -> Option<PathBuf> {
    path.ancestors()
        .map(|dir| dir.join(".git"))
        .find(|dot| dot.symlink_metadata().is_ok())
}

/// A refusal for a storage format that libgit2 does not read.
fn unsupported_format(dir: &Path) -> Option<GitError> {
    let common = match std::fs::read_to_string(dir.join("commondir")) {
        Ok(text) => dir.join(text.trim_end_matches(['\n', '\r'])),
        Err(_) => dir.to_owned(),
    };
    let config = git2::Config::open(&common.join("config")).ok()?;
    let refuse = |why: &str, hint: &str| {
        Some(GitError::Unsupported {
            path: common.clone(),
            why: why.to_owned(),
            hint: hint.to_owned(),
        })
    };
    if config
        .get_string("extensions.refstorage")
        .is_ok_and(|value| value != "files")
    {
        return refuse(
            "its refs are stored in the reftable format, of which no safe private copy can be made yet",
            "convert it: git refs migrate --ref-format=files",
        );
    }
    if config
        .get_string("extensions.objectformat")
        .is_ok_and(|value| value != "sha1")
    {
        return refuse(
            "its objects are named by SHA-256, which is not supported yet",
            "use a clone with SHA-1 object names",
        );
    }
    if config.get_string("extensions.partialclone").is_ok() {
        return Some(partial_clone(&common));
    }
    let mut names = Vec::new();
    if let Ok(mut entries) = config.entries(Some("^extensions\\.")) {
        while let Some(Ok(entry)) = entries.next() {
            if let Ok(name) = entry.name() {
                names.push(name.to_owned());
            }
        }
    }
    if names.is_empty() {
        return None;
    }
    refuse(
        &format!(
            "it uses extensions that are not supported: {}",
            names.join(", ")
        ),
        "use a clone without them",
    )
}

/// The refusal of a repository that has only a part of its objects.
pub(crate) fn partial_clone(common: &Path) -> GitError {
    GitError::Unsupported {
        path: common.to_owned(),
        why:
            "it is a partial clone: objects that are not here would be fetched from inside the cage"
                .into(),
        hint: "make it whole: git fetch --refetch --no-filter, then unset remote.<name>.promisor, \
               or use a full clone"
            .into(),
    }
}
