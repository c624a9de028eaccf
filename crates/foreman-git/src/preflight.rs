//! What a run would start from, and everything about the repository that stands in the way or that
//! the operator should know. Reads only.

use crate::repository::partial_clone;
use crate::{GitError, Preflight, Repository};
use git2::{ErrorCode, ObjectType, Oid, TreeWalkMode, TreeWalkResult};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

impl Repository {
    /// Finds branch and commit to start from: of `base`, or of the HEAD of the tree that this was
    /// opened at. A paused merge or rebase there does not matter: a run starts from a commit.
    ///
    /// # Errors
    /// A typed refusal when there is no such branch or commit, or when the repository uses
    /// something that cannot be caged safely.
    pub fn preflight(&self, base: Option<&str>) -> Result<Preflight, GitError> {
        let repo = self.git()?;
        self.refuse_what_cannot_be_caged(&repo)?;
        let (base_branch, oid) = match base {
            Some(name) => self.named_base(&repo, name)?,
            None => self.head_base()?,
        };
        let mut warnings = Vec::new();
        let tree = repo
            .find_commit(oid)
            .and_then(|commit| commit.tree())
            .map_err(|error| GitError::Corrupt {
                path: self.common_dir().to_owned(),
                what: format!("commit {oid} cannot be read: {}", error.message()),
            })?;
        let contents = self.contents(&repo, &tree)?;
        if !contents.filters.is_empty() {
            warnings.push(format!(
                "no filter program runs for the worktree: files under {} are checked out as they \
                 are stored (for LFS: as pointer files)",
                listed(&contents.filters)
            ));
        }
        if contents.encodings {
            warnings.push(
                "files with a working-tree-encoding are checked out as they are stored (UTF-8)"
                    .to_owned(),
            );
        }
        let config = repo
            .config()
            .map_err(GitError::git("read the configuration"))?;
        if config.get_bool("core.sparsecheckout").unwrap_or(false)
            || self
                .git_at_root()?
                .config()
                .is_ok_and(|own| own.get_bool("core.sparsecheckout").unwrap_or(false))
        {
            warnings.push("this is a sparse checkout: the run gets the whole tree".to_owned());
        }
        if let Some(inside) = hooks_inside(&config) {
            warnings.push(format!(
                "core.hooksPath points into the tree ({}): the run works on a private copy of it, \
                 and what it changes there is seen in its commits only",
                inside.display()
            ));
        }
        Ok(Preflight {
            base_branch,
            base_commit: oid.to_string(),
            warnings,
            has_submodules: contents.submodules,
        })
    }

    fn refuse_what_cannot_be_caged(&self, repo: &git2::Repository) -> Result<(), GitError> {
        let config = repo
            .config()
            .map_err(GitError::git("read the configuration"))?;
        let mut partial = config.get_string("extensions.partialclone").is_ok();
        if let Ok(mut entries) = config.entries(Some("^remote\\..*\\.promisor$")) {
            while let Some(Ok(entry)) = entries.next() {
                partial |= entry.value().is_ok_and(|value| value != "false");
            }
        }
        if partial {
            return Err(partial_clone(self.common_dir()));
        }
        if let Some(inside) = hooks_inside(&config)
            && inside.as_os_str().is_empty()
        {
            return Err(GitError::Unsupported {
                path: self.common_dir().to_owned(),
                why:
                    "core.hooksPath is the root of the tree: any file a run writes could become a \
                      hook of yours"
                        .into(),
                hint: "give the hooks a folder of their own: git config core.hooksPath .githooks"
                    .into(),
            });
        }
        Ok(())
    }

    fn head_base(&self) -> Result<(String, Oid), GitError> {
        let repo = self.git_at_root()?;
        let head = repo
            .find_reference("HEAD")
            .map_err(|error| self.damaged(&error))?;
        let Ok(Some(name)) = head.symbolic_target() else {
            // Detached, but perhaps there is no branch at all either.
            return Err(GitError::DetachedHead {
                path: self.root().to_owned(),
            });
        };
        match head.resolve().and_then(|end| end.peel(ObjectType::Commit)) {
            Ok(commit) => {
                let short = name
                    .strip_prefix("refs/heads/")
                    .ok_or_else(|| GitError::BadBase {
                        base: name.to_owned(),
                        what: String::new(),
                        hint: "say which branch to start from: pass --base BRANCH".into(),
                    })?;
                Ok((short.to_owned(), commit.id()))
            }
            Err(error) if error.code() == ErrorCode::NotFound && self.has_branches(&repo) => {
                let short = name.strip_prefix("refs/heads/").unwrap_or(name);
                if repo.find_reference(name).is_ok() {
                    return Err(self.damaged(&error));
                }
                Err(GitError::BadBase {
                    base: short.to_owned(),
                    what: ": it is checked out but has no commits yet".into(),
                    hint: "say which branch to start from: pass --base BRANCH".into(),
                })
            }
            Err(error) if error.code() == ErrorCode::NotFound => Err(GitError::NoCommits {
                path: self.root().to_owned(),
            }),
            Err(error) => Err(self.damaged(&error)),
        }
    }

    fn named_base(&self, repo: &git2::Repository, name: &str) -> Result<(String, Oid), GitError> {
        let short = name.strip_prefix("refs/heads/").unwrap_or(name);
        match repo.find_reference(&format!("refs/heads/{short}")) {
            Ok(found) => {
                let end = found.resolve().map_err(|error| self.damaged(&error))?;
                let full = end.name().unwrap_or_default();
                let short = full.strip_prefix("refs/heads/").unwrap_or(short).to_owned();
                let commit = end.peel_to_commit().map_err(|error| self.damaged(&error))?;
                Ok((short, commit.id()))
            }
            Err(_) if !self.has_branches(repo) => Err(GitError::NoCommits {
                path: self.root().to_owned(),
            }),
            Err(_) => Err(self.not_a_branch(repo, name)),
        }
    }

    fn not_a_branch(&self, repo: &git2::Repository, name: &str) -> GitError {
        let is = |full: String| repo.find_reference(&full).is_ok();
        let (what, hint) = if is(format!("refs/tags/{name}")) {
            (
                ": it is a tag",
                format!("make a branch of it: git branch NAME {name}"),
            )
        } else if is(format!("refs/remotes/{name}")) {
            let local = name.split_once('/').map_or(name, |(_, rest)| rest);
            (
                ": it is a remote-tracking branch",
                format!("make a local branch of it: git branch {local} {name}"),
            )
        } else if repo.revparse_single(name).is_ok() {
            (
                ": it is a commit",
                format!("make a branch of it: git branch NAME {name}"),
            )
        } else {
            ("", "see `git branch` for the branches there are".to_owned())
        };
        GitError::BadBase {
            base: name.to_owned(),
            what: what.to_owned(),
            hint,
        }
    }

    fn has_branches(&self, repo: &git2::Repository) -> bool {
        repo.references_glob("refs/heads/*")
            .is_ok_and(|mut all| all.next().is_some())
    }

    fn damaged(&self, error: &git2::Error) -> GitError {
        GitError::Corrupt {
            path: self.common_dir().to_owned(),
            what: error.message().to_owned(),
        }
    }

    fn contents(
        &self,
        repo: &git2::Repository,
        tree: &git2::Tree<'_>,
    ) -> Result<Contents, GitError> {
        let mut contents = Contents::default();
        let walked = tree.walk(TreeWalkMode::PreOrder, |_, entry| {
            let name = String::from_utf8_lossy(entry.name_bytes());
            match entry.kind() {
                Some(ObjectType::Commit) => contents.submodules = true,
                Some(ObjectType::Blob) if name == ".gitattributes" => {
                    if let Ok(blob) = repo.find_blob(entry.id()) {
                        contents.read_attributes(blob.content());
                    }
                }
                _ => {}
            }
            TreeWalkResult::Ok
        });
        walked.map_err(|error| self.damaged(&error))?;
        Ok(contents)
    }
}

#[derive(Default)]
struct Contents {
    submodules: bool,
    filters: BTreeSet<String>,
    encodings: bool,
}

impl Contents {
    fn read_attributes(&mut self, bytes: &[u8]) {
        for line in String::from_utf8_lossy(bytes).lines() {
            if line.trim_start().starts_with('#') {
                continue;
            }
            for word in line.split_whitespace().skip(1) {
                if let Some(name) = word.strip_prefix("filter=") {
                    self.filters.insert(format!("filter \"{name}\""));
                }
                self.encodings |= word.starts_with("working-tree-encoding=");
            }
        }
    }
}

/// At most five of them in words.
fn listed(all: &BTreeSet<String>) -> String {
    let shown: Vec<_> = all
        .iter()
        .take(5)
        .map(|s| foreman_domain::sanitize_line(s))
        .collect();
    match all.len().checked_sub(shown.len()) {
        Some(more) if more > 0 => format!("{} and {more} more", shown.join(", ")),
        _ => shown.join(", "),
    }
}

/// The configured hooks folder, relative to a tree's root, when it lies inside the tree; empty when
/// it is the root itself. Hooks there would be files that a run can write.
pub(crate) fn hooks_inside(config: &git2::Config) -> Option<PathBuf> {
    let value = config.get_string("core.hookspath").ok()?;
    // An absolute path or one below the home directory is the operator's own place.
    if value.is_empty() || value.starts_with(['/', '~']) || value.starts_with("%(prefix)") {
        return None;
    }
    let mut inside = PathBuf::new();
    for part in Path::new(&value).components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            // Outside of the tree, or a detour that is not worth following.
            Component::ParentDir if !inside.pop() => return None,
            Component::ParentDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let in_git_dir = inside
        .components()
        .next()
        .is_some_and(|c| c.as_os_str() == ".git");
    (!in_git_dir).then_some(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hooks_folder_inside_the_tree_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = git2::Config::open(&dir.path().join("config")).unwrap();
        let mut inside = |value: &str| {
            config.set_str("core.hookspath", value).unwrap();
            hooks_inside(&config).map(|path| path.to_string_lossy().into_owned())
        };
        assert_eq!(inside(".husky/_").as_deref(), Some(".husky/_"));
        assert_eq!(inside("./tools/../.hooks/").as_deref(), Some(".hooks"));
        assert_eq!(inside(".").as_deref(), Some(""));
        assert_eq!(inside("/opt/hooks"), None);
        assert_eq!(inside("~/hooks"), None);
        assert_eq!(inside("../hooks"), None);
        assert_eq!(inside(".git/hooks"), None);
    }
}
