//! The shadow common directory: a private, minimal copy of everything git keeps beside the objects,
//! bound in the cage over the repository's own common directory.
//!
//! Inside, a run may commit, branch, rebase, stash and configure as it likes; nothing of it is ever
//! read as configuration on the host. Not copied: the operator's configuration (only what decides
//! how files look, by closed values), remotes, hooks, reflogs, the operator's stash, and whatever
//! belongs to other runs. The objects are bound read-only at a fixed place.

use crate::preflight::hooks_inside;
use crate::{CageBind, GitError, Repository, Shadow, Worktree, bounded};
use git2::ErrorCode;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where the object stores are inside the cage; `/0`, `/1`, ... follow.
const OBJECTS: &str = "/run/foreman/objects";
/// Bound of small files that are copied.
const SMALL: u64 = 1 << 20;
/// Bound of an index that is copied.
const INDEX: u64 = 1 << 30;
/// Where the closing steps find the configuration as it was made.
const PRISTINE: &str = "foreman-pristine";
/// How deep alternates of alternates are followed, as git itself does.
const ALTERNATES: usize = 5;

impl Repository {
    /// Makes the shadow directory of `worktree` at `dir`, which must not exist.
    ///
    /// # Errors
    /// [`GitError::BadPlace`] when `dir` exists; failures of files and objects. `dir` comes into
    /// being whole or not at all.
    pub fn shadow(&self, worktree: &Worktree, dir: &Path) -> Result<Shadow, GitError> {
        self.shadow_without(worktree, dir, &[])
    }

    /// As [`Self::shadow`], for a worktree with files that were copied into it and are nobody's work:
    /// paths from its root, which git ignores inside the cage and the closing steps never commit.
    ///
    /// # Errors
    /// As [`Self::shadow`].
    pub fn shadow_without(
        &self,
        worktree: &Worktree,
        dir: &Path,
        copied: &[String],
    ) -> Result<Shadow, GitError> {
        let (parent, name) = match (dir.parent(), dir.file_name()) {
            (Some(parent), Some(name)) => (parent, name),
            _ => {
                return Err(GitError::BadPlace {
                    path: dir.to_owned(),
                    why: "it is not the path of a new folder".into(),
                });
            }
        };
        fs::create_dir_all(parent).map_err(GitError::io("cannot make the folder", parent))?;
        let parent = parent
            .canonicalize()
            .map_err(GitError::io("cannot find", parent))?;
        let dir = parent.join(name);
        if dir.symlink_metadata().is_ok() {
            return Err(GitError::BadPlace {
                path: dir,
                why: "it exists already".into(),
            });
        }
        let mut building = name.to_owned();
        building.push(".new");
        let building = parent.join(building);
        if building.symlink_metadata().is_ok() {
            // Left by a process that died while building it: nothing has used it yet.
            fs::remove_dir_all(&building).map_err(GitError::io("cannot remove", &building))?;
        }
        let made = self.build(worktree, &building, copied).and_then(|plan| {
            fs::rename(&building, &dir).map_err(GitError::io("cannot move", &building))?;
            Ok(plan)
        });
        match made.and_then(|plan| self.leave_links_alone(worktree).map(|()| plan)) {
            Ok(plan) => self.describe(worktree, &worktree.path, &dir, &plan),
            Err(error) => {
                let _ = fs::remove_dir_all(&building);
                Err(error)
            }
        }
    }

    /// What to bind for a shadow directory that was made before (after a restart).
    ///
    /// # Errors
    /// Failures to read the repository.
    pub fn shadow_again(&self, worktree: &Worktree, dir: &Path) -> Result<Shadow, GitError> {
        let dir = dir
            .canonicalize()
            .map_err(GitError::io("cannot find", dir))?;
        self.describe(worktree, &worktree.path, &dir, &self.plan()?)
    }

    fn plan(&self) -> Result<Plan, GitError> {
        let repo = self.git()?;
        let config = repo
            .config()
            .map_err(GitError::git("read the configuration"))?;
        let mut stores = Vec::new();
        collect_stores(&self.objects_dir()?, 0, &mut HashSet::new(), &mut stores)?;
        Ok(Plan {
            stores,
            hooks: hooks_inside(&config).filter(|p| !p.as_os_str().is_empty()),
        })
    }

    fn build(&self, worktree: &Worktree, dir: &Path, copied: &[String]) -> Result<Plan, GitError> {
        let plan = self.lay_out(worktree, dir, copied)?;
        self.copy_admin(worktree, &dir.join("worktrees").join(&worktree.admin))?;
        if let Some(hooks) = &plan.hooks {
            self.copy_hooks(&worktree.path, hooks, &dir.join("foreman-hooks"))?;
        }
        Ok(plan)
    }

    /// The same for a tree at another place whose registration is in `dir` already.
    pub(crate) fn shadow_of_copy(
        &self,
        worktree: &Worktree,
        tree: &Path,
        dir: &Path,
        copied: &[String],
    ) -> Result<Shadow, GitError> {
        let plan = self.lay_out(worktree, dir, copied)?;
        if let Some(hooks) = &plan.hooks {
            self.copy_hooks(tree, hooks, &dir.join("foreman-hooks"))?;
        }
        self.describe(worktree, tree, dir, &plan)
    }

    /// Everything but what belongs to one tree.
    fn lay_out(
        &self,
        worktree: &Worktree,
        dir: &Path,
        copied: &[String],
    ) -> Result<Plan, GitError> {
        let plan = self.plan()?;
        let repo = self.git()?;
        let make = |path: &str| {
            let path = dir.join(path);
            fs::create_dir_all(&path).map_err(GitError::io("cannot make", &path))
        };
        let write = |path: &str, bytes: &[u8]| {
            let path = dir.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(GitError::io("cannot make", parent))?;
            }
            fs::write(&path, bytes).map_err(GitError::io("cannot write", &path))
        };
        for path in [
            "objects/info",
            "objects/pack",
            "refs/heads",
            "refs/tags",
            "hooks",
            "info",
        ] {
            make(path)?;
        }
        write("HEAD", format!("ref: {}\n", worktree.base_ref()).as_bytes())?;
        self.write_config(&repo, &dir.join("config"))?;
        let refs = collect_refs(&repo, worktree)?;
        write("packed-refs", &refs.packed)?;
        for (name, target) in refs.symbolic {
            write(&name, format!("ref: {target}\n").as_bytes())?;
        }
        let mut alternates = String::new();
        for number in 0..plan.stores.len() {
            alternates.push_str(&format!("{OBJECTS}/{number}\n"));
        }
        write("objects/info/alternates", alternates.as_bytes())?;
        // Bound over the alternates files of the stores, whose paths mean nothing in the cage.
        write("foreman-empty", b"")?;
        for name in ["info/exclude", "info/attributes", "info/grafts", "shallow"] {
            let from = self.common_dir().join(name);
            let found =
                bounded::read_if_there(&from, SMALL).map_err(GitError::io("cannot read", &from))?;
            if let Some(bytes) = found {
                write(name, &bytes)?;
            }
        }
        leave_out(dir, copied)?;
        self.keep_pristine(dir)?;
        write(&format!("{PRISTINE}/copied"), &lines(copied))?;
        Ok(plan)
    }

    /// Keeps the operator's git from looking into the folders of submodules while the run may put
    /// repositories there: `git status` would run what their configuration names. The run's own index, copied
    /// before, is not touched; the host's becomes an ordinary one when the run's commits are collected.
    fn leave_links_alone(&self, worktree: &Worktree) -> Result<(), GitError> {
        const EXTENDED: u16 = 0x4000;
        const SKIP_WORKTREE: u16 = 0x4000;
        let what = "mark the submodules in the worktree's index";
        let path = self.admin_dir(worktree).join("index");
        let mut index = git2::Index::open(&path).map_err(GitError::git(what))?;
        let mut links: Vec<_> = index.iter().filter(|one| one.mode == 0o160_000).collect();
        for link in &mut links {
            link.flags |= EXTENDED;
            link.flags_extended |= SKIP_WORKTREE;
            index.add(link).map_err(GitError::git(what))?;
        }
        if links.is_empty() {
            return Ok(());
        }
        index.write().map_err(GitError::git(what))
    }

    /// A second copy of what decides how files become commits: bound read-only, so that the closing steps
    /// know it as it was.
    fn keep_pristine(&self, dir: &Path) -> Result<(), GitError> {
        let to = dir.join(PRISTINE);
        fs::create_dir(&to).map_err(GitError::io("cannot make", &to))?;
        for (from, name) in [
            ("config", "config"),
            ("info/attributes", "attributes"),
            ("info/exclude", "exclude"),
            ("objects/info/alternates", "alternates"),
        ] {
            let from = dir.join(from);
            if from.is_file() {
                fs::copy(&from, to.join(name)).map_err(GitError::io("cannot copy", &from))?;
            }
        }
        Ok(())
    }

    fn copy_admin(&self, worktree: &Worktree, to: &Path) -> Result<(), GitError> {
        let from = self.admin_dir(worktree);
        fs::create_dir_all(to).map_err(GitError::io("cannot make", to))?;
        for name in ["HEAD", "commondir", "gitdir", "index"] {
            let path = from.join(name);
            let bytes = bounded::read(&path, INDEX).map_err(GitError::io("cannot read", &path))?;
            let path = to.join(name);
            fs::write(&path, bytes).map_err(GitError::io("cannot write", &path))?;
        }
        Ok(())
    }

    /// A private copy of the hooks folder in the tree: what a run writes there never lies in the
    /// worktree on the host, where the operator's git would take it for hooks.
    fn copy_hooks(&self, tree: &Path, hooks: &Path, to: &Path) -> Result<(), GitError> {
        let from = tree.join(hooks);
        // The mount point must be there; git does not show an empty folder.
        fs::create_dir_all(&from).map_err(GitError::io("cannot make", &from))?;
        let inside = from
            .canonicalize()
            .map_err(GitError::io("cannot find", &from))?;
        if inside != from {
            return Err(GitError::Unsupported {
                path: self.common_dir().to_owned(),
                why: format!("its hooks folder {} is a symbolic link", hooks.display()),
                hint: "point core.hooksPath at a real folder".into(),
            });
        }
        copy_dir(&from, to)
    }

    fn write_config(&self, repo: &git2::Repository, path: &Path) -> Result<(), GitError> {
        let theirs = repo
            .config()
            .and_then(|mut config| config.snapshot())
            .map_err(GitError::git("read the configuration"))?;
        let write = |config: &mut git2::Config| -> Result<(), git2::Error> {
            config.set_i32("core.repositoryformatversion", 0)?;
            config.set_bool("core.bare", false)?;
            config.set_bool("core.logallrefupdates", true)?;
            // Only what decides how files look, and only as one of its known values.
            for name in ["core.filemode", "core.ignorecase", "core.symlinks"] {
                if let Ok(value) = theirs.get_bool(name) {
                    config.set_bool(name, value)?;
                }
            }
            for (name, known) in [
                ("core.autocrlf", ["true", "false", "input"].as_slice()),
                ("core.eol", ["lf", "crlf", "native"].as_slice()),
            ] {
                if let Ok(value) = theirs.get_string(name)
                    && known.contains(&value.as_str())
                {
                    config.set_str(name, &value)?;
                }
            }
            let (name, email) = identity(repo);
            config.set_str("user.name", &name)?;
            config.set_str("user.email", &email)?;
            // Pruning in here knows nothing of what the host still needs, and repacking is wasted.
            config.set_i32("gc.auto", 0)?;
            config.set_bool("maintenance.auto", false)
        };
        git2::Config::open(path)
            .and_then(|mut config| write(&mut config))
            .map_err(GitError::git("write the shadow configuration"))
    }

    fn describe(
        &self,
        worktree: &Worktree,
        tree: &Path,
        dir: &Path,
        plan: &Plan,
    ) -> Result<Shadow, GitError> {
        let bind = |source: &Path, target: &Path, writable| CageBind {
            source: source.to_owned(),
            target: target.to_owned(),
            writable,
        };
        let empty = dir.join("foreman-empty");
        let mut binds = vec![
            bind(dir, self.common_dir(), true),
            bind(
                &dir.join(PRISTINE),
                &self.common_dir().join(PRISTINE),
                false,
            ),
        ];
        for (number, store) in plan.stores.iter().enumerate() {
            let target = PathBuf::from(format!("{OBJECTS}/{number}"));
            binds.push(bind(&store.path, &target, false));
            if store.has_alternates {
                binds.push(bind(&empty, &target.join("info/alternates"), false));
            }
        }
        binds.push(bind(tree, &worktree.path, true));
        let dot_git = worktree.path.join(".git");
        binds.push(bind(&tree.join(".git"), &dot_git, false));
        if let Some(hooks) = &plan.hooks {
            binds.push(bind(
                &dir.join("foreman-hooks"),
                &worktree.path.join(hooks),
                true,
            ));
        }
        let (name, email) = identity(&self.git()?);
        let env = [
            ("GIT_AUTHOR_NAME", name.as_str()),
            ("GIT_AUTHOR_EMAIL", email.as_str()),
            ("GIT_COMMITTER_NAME", name.as_str()),
            ("GIT_COMMITTER_EMAIL", email.as_str()),
            // The payload may run under another user than the one who owns `.git` on the host.
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", "*"),
        ];
        let env = env
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        Ok(Shadow { binds, env })
    }
}

impl Shadow {
    /// The same for a run around which nothing can be mounted: everything is opened at its own place, and git
    /// is led to `dir` by variables. Without them it follows the worktree's `.git` to the repository's own
    /// directory, which stays closed. What the worktree keeps as hooks is not covered then.
    ///
    /// # Errors
    /// When the places of the objects cannot be written down.
    pub fn in_place(self, worktree: &Worktree, dir: &Path) -> Result<Self, GitError> {
        let stores = self.binds.iter().filter(|bind| {
            let number = bind.target.strip_prefix(OBJECTS).ok();
            number.is_some_and(|number| number.components().count() == 1)
        });
        let stores: Vec<PathBuf> = stores.map(|bind| bind.source.clone()).collect();
        let mut alternates = Vec::new();
        for store in &stores {
            let store = store.as_os_str().as_bytes();
            if store.contains(&b'\n') || store.starts_with(b"\"") {
                return Err(GitError::BadPlace {
                    path: dir.to_owned(),
                    why: "the path of its objects cannot be written into a list".into(),
                });
            }
            alternates.extend_from_slice(store);
            alternates.push(b'\n');
        }
        for place in ["objects/info/alternates", "foreman-pristine/alternates"] {
            let path = dir.join(place);
            fs::write(&path, &alternates).map_err(GitError::io("cannot write", &path))?;
        }
        let open = |path: PathBuf, writable| CageBind {
            source: path.clone(),
            target: path,
            writable,
        };
        let mut binds = vec![
            open(dir.to_owned(), true),
            open(worktree.path.clone(), true),
        ];
        binds.extend(stores.into_iter().map(|store| open(store, false)));
        let git_dir = dir.join("worktrees").join(&worktree.admin);
        let git_dir = git_dir.to_string_lossy();
        let tree = worktree.path.to_string_lossy();
        let mut env = self.env;
        for (name, value) in [
            ("GIT_DIR", &git_dir),
            ("FOREMAN_GIT_DIR", &git_dir),
            ("GIT_WORK_TREE", &tree),
        ] {
            env.push((name.to_owned(), value.to_string()));
        }
        Ok(Shadow { binds, env })
    }
}

/// Makes git ignore these paths, unless a file of the tree says otherwise.
fn leave_out(dir: &Path, copied: &[String]) -> Result<(), GitError> {
    if copied.is_empty() {
        return Ok(());
    }
    let path = dir.join("info/exclude");
    let found = bounded::read_if_there(&path, SMALL).map_err(GitError::io("cannot read", &path))?;
    let mut text = found.unwrap_or_default();
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    for copied in copied {
        text.push(b'/');
        for byte in copied.bytes() {
            if matches!(byte, b'\\' | b'*' | b'?' | b'[' | b' ' | b'!' | b'#') {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.push(b'\n');
    }
    fs::write(&path, text).map_err(GitError::io("cannot write", &path))
}

/// One path a line, in byte order.
fn lines(paths: &[String]) -> Vec<u8> {
    let mut sorted: Vec<&str> = paths.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let mut text = sorted.join("\n").into_bytes();
    if !text.is_empty() {
        text.push(b'\n');
    }
    text
}

struct Plan {
    stores: Vec<Store>,
    hooks: Option<PathBuf>,
}

struct Store {
    path: PathBuf,
    has_alternates: bool,
}

/// The operator's name and mail address as git would use them, or a stand-in.
pub(crate) fn identity(repo: &git2::Repository) -> (String, String) {
    let clean = |text: &str| -> String {
        text.chars()
            .filter(|c| !c.is_control() && !matches!(c, '<' | '>'))
            .collect()
    };
    let found = repo.signature().ok().and_then(|signature| {
        let name = clean(signature.name().ok()?);
        let email = clean(signature.email().ok()?);
        (!name.trim().is_empty() && !email.trim().is_empty()).then_some((name, email))
    });
    found.unwrap_or_else(|| ("foreman".to_owned(), "foreman@localhost".to_owned()))
}

/// The refs that a run may see.
struct Refs {
    /// Content of a `packed-refs` file.
    packed: Vec<u8>,
    /// Names and targets of symbolic refs, which cannot be packed.
    symbolic: Vec<(String, String)>,
}

fn collect_refs(repo: &git2::Repository, worktree: &Worktree) -> Result<Refs, GitError> {
    let own = worktree.branch_ref();
    let mut direct = Vec::new();
    let mut symbolic = Vec::new();
    let all = repo.references().map_err(GitError::git("list the refs"))?;
    for found in all {
        let found = match found {
            Ok(found) => found,
            // A broken ref of somebody else is no reason to stop.
            Err(error) if error.code() != ErrorCode::GenericError => continue,
            Err(error) => return Err(GitError::git("list the refs")(error)),
        };
        let name = found.name_bytes();
        if is_private(name, own.as_bytes()) {
            continue;
        }
        match (found.target(), found.symbolic_target(), found.name()) {
            (Some(oid), _, _) => direct.push((name.to_owned(), oid)),
            (None, Ok(Some(target)), Ok(name)) => {
                symbolic.push((name.to_owned(), target.to_owned()));
            }
            _ => {}
        }
    }
    direct.sort();
    direct.dedup_by(|a, b| a.0 == b.0);
    let mut packed = b"# pack-refs with: sorted\n".to_vec();
    for (name, oid) in direct {
        packed.extend_from_slice(oid.to_string().as_bytes());
        packed.push(b' ');
        packed.extend_from_slice(&name);
        packed.push(b'\n');
    }
    Ok(Refs { packed, symbolic })
}

/// True for refs that a run has no business with: other runs', the operator's stash and bisection,
/// and whatever belongs to one worktree only.
fn is_private(name: &[u8], own: &[u8]) -> bool {
    if name == own {
        return false;
    }
    let below = [
        "refs/foreman/",
        "refs/heads/foreman/",
        "refs/bisect/",
        "refs/worktree/",
        "refs/rewritten/",
        "refs/prefetch/",
    ];
    name == b"refs/stash"
        || below
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// The object store and those it borrows from, each once.
fn collect_stores(
    objects: &Path,
    depth: usize,
    seen: &mut HashSet<PathBuf>,
    stores: &mut Vec<Store>,
) -> Result<(), GitError> {
    if !seen.insert(objects.to_owned()) {
        return Ok(());
    }
    let file = objects.join("info/alternates");
    let listed =
        bounded::read_if_there(&file, SMALL).map_err(GitError::io("cannot read", &file))?;
    stores.push(Store {
        path: objects.to_owned(),
        has_alternates: listed.is_some(),
    });
    if depth == ALTERNATES {
        return Ok(());
    }
    for line in listed.unwrap_or_default().split(|byte| *byte == b'\n') {
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let path = objects.join(OsStr::from_bytes(&unquote(line)));
        let path = path.canonicalize().map_err(|error| GitError::Corrupt {
            path: file.clone(),
            what: format!("it borrows objects from {}: {error}", path.display()),
        })?;
        collect_stores(&path, depth + 1, seen, stores)?;
    }
    Ok(())
}

/// A line of an alternates file: as it is, or in C quotes.
fn unquote(line: &[u8]) -> Vec<u8> {
    let Some(inner) = line
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""))
    else {
        return line.to_owned();
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'a') => out.push(7),
            Some(b'b') => out.push(8),
            Some(b'f') => out.push(12),
            Some(b'v') => out.push(11),
            Some(digit @ b'0'..=b'3') => {
                let mut value = digit - b'0';
                for next in bytes.by_ref().take(2) {
                    value = (value << 3) | (next.wrapping_sub(b'0') & 7);
                }
                out.push(value);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

/// A path as a line of an alternates file.
pub(crate) fn quote_alternate(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    if !bytes
        .iter()
        .any(|byte| matches!(byte, b'\n' | b'"' | b'\\'))
        && bytes.first() != Some(&b'#')
    {
        return bytes.to_owned();
    }
    let mut out = vec![b'"'];
    for byte in bytes {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            other => out.push(*other),
        }
    }
    out.push(b'"');
    out
}

/// Copies a folder of the base commit's files: folders, files with their modes, links as links.
fn copy_dir(from: &Path, to: &Path) -> Result<(), GitError> {
    fs::create_dir_all(to).map_err(GitError::io("cannot make", to))?;
    for entry in fs::read_dir(from).map_err(GitError::io("cannot read", from))? {
        let entry = entry.map_err(GitError::io("cannot read", from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry
            .file_type()
            .map_err(GitError::io("cannot read", &path))?;
        if kind.is_dir() {
            copy_dir(&path, &target)?;
        } else if kind.is_symlink() {
            fs::read_link(&path)
                .and_then(|link| std::os::unix::fs::symlink(link, &target))
                .map_err(GitError::io("cannot copy", &path))?;
        } else if kind.is_file() {
            fs::copy(&path, &target).map_err(GitError::io("cannot copy", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_a_line_of_an_alternates_file() {
        for path in ["/plain path", "/with\nnewline", "/quo\"te\\slash", "/ünï"] {
            let line = quote_alternate(Path::new(path));
            assert!(!line.contains(&b'\n'), "{path:?}");
            assert_eq!(unquote(&line), path.as_bytes(), "{path:?}");
        }
    }

    #[test]
    fn refs_of_other_runs_and_the_stash_are_private() {
        let own = b"refs/heads/foreman/rbbbbbbb".as_slice();
        assert!(!is_private(own, own));
        assert!(!is_private(b"refs/heads/main", own));
        assert!(is_private(b"refs/heads/foreman/rccccccc", own));
        assert!(is_private(b"refs/foreman/snapshots/rccccccc", own));
        assert!(is_private(b"refs/stash", own));
    }
}
