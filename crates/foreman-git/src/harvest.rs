//! Taking a run's commits over from the file that the cage printed.
//!
//! The file is hostile. Its shape is parsed exactly; its objects go into a quarantine beside the
//! object store, where git checks every one of them and that none is missing; only then do they
//! move into the store, and only then does a ref name them. The run's branch moves only from where
//! it was left. Calling it again after a crash, or for the same file, ends in the same place.

use crate::cage_steps::{BUNDLE_REF, FINISH_MESSAGE, NOTE_BRANCH, NOTE_DIVERGED};
use crate::lock::RepositoryLock;
use crate::quarantine::Quarantine;
use crate::{GitError, Harvest, Repository, Worktree, bounded};
use git2::{ErrorCode, ObjectType, Oid, TreeWalkMode, TreeWalkResult};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The largest file that is taken.
const MOST: u64 = 8 << 30;
/// The longest line of the two headers.
const LINE: u64 = 1024;
/// The most commits a bundle may build on.
const PREREQUISITES: usize = 10_000;

impl Repository {
    /// Takes over the commits that [`Worktree::harvest_argv`] printed to `file`: to
    /// `refs/foreman/<run>/head`, to the run's branch, and into the worktree's index.
    ///
    /// # Errors
    /// [`GitError::BadHarvest`] when the file or its objects are not in order (nothing is taken);
    /// [`GitError::BranchMoved`] when the branch was moved by hand (the commits are kept at
    /// `refs/foreman/<run>/head`).
    pub fn harvest(&self, worktree: &Worktree, file: &Path) -> Result<Harvest, GitError> {
        let mut parsed = Parsed::read(file)?;
        let base = worktree.base_oid()?;
        let head = if parsed.bundle { parsed.head } else { base };
        let _lock = RepositoryLock::take(self.common_dir())?;
        if parsed.bundle {
            let known = self.git()?;
            parsed.read_bundle_header(&known)?;
            self.take_objects(worktree, &mut parsed)?;
        }
        // Opened afresh, so that the new objects are seen.
        let repo = self.git()?;
        let commit = repo
            .find_commit(head)
            .map_err(|error| GitError::BadHarvest {
                what: format!("{head} is not a commit: {}", error.message()),
            })?;
        let left_at = match repo.refname_to_id(&worktree.head_ref()) {
            Ok(oid) => oid,
            Err(error) if error.code() == ErrorCode::NotFound => base,
            Err(error) => return Err(GitError::git("read where the run was left")(error)),
        };
        let log = format!("foreman: commits of run {}", worktree.run);
        let mut warnings = parsed.warnings(worktree);
        let moved = self.move_branch(&repo, worktree, left_at, head, &log);
        if head != base || left_at != base {
            repo.reference(&worktree.head_ref(), head, true, &log)
                .map_err(GitError::git("keep the run's commits"))?;
        }
        moved?;
        match self.reset_index(&repo, worktree, &commit) {
            Ok(()) => {}
            Err(error) => warnings.push(format!("the worktree's index was not updated: {error}")),
        }
        warnings.extend(history_warnings(&repo, base, &commit));
        Ok(Harvest {
            head: head.to_string(),
            commits: count(&repo, head, base)?,
            finished_by_us: head != base
                && commit
                    .message_bytes()
                    .starts_with(format!("{FINISH_MESSAGE}{}\n", worktree.run).as_bytes()),
            warnings,
        })
    }

    fn take_objects(&self, worktree: &Worktree, parsed: &mut Parsed) -> Result<(), GitError> {
        let quarantine = Quarantine::make(&self.objects_dir()?, &worktree.run)?;
        quarantine
            .take_pack(self.common_dir(), &mut parsed.rest, MOST)
            .and_then(|()| {
                quarantine.prove_whole(self.common_dir(), &[parsed.head], &worktree.base_commit)
            })
            .map_err(|error| match error {
                GitError::Program { ref detail, .. }
                    if error.code() != foreman_domain::Code::DiskFull
                        && !detail.contains("is not installed") =>
                {
                    bad(detail.clone())
                }
                other => other,
            })?;
        quarantine.release()
    }

    fn move_branch(
        &self,
        repo: &git2::Repository,
        worktree: &Worktree,
        left_at: Oid,
        head: Oid,
        log: &str,
    ) -> Result<(), GitError> {
        let moved = |found: String| GitError::BranchMoved {
            branch: worktree.branch.clone(),
            found,
            expected: left_at.to_string(),
            kept: worktree.head_ref(),
        };
        let found = match repo.find_reference(&worktree.branch_ref()) {
            Ok(found) => found.target(),
            Err(error) if error.code() == ErrorCode::NotFound => {
                return Err(moved("gone".to_owned()));
            }
            Err(error) => return Err(GitError::git("read the run's branch")(error)),
        };
        match found {
            // Where a crash came between the branch and the ref that says where it was left.
            Some(at) if at == head => Ok(()),
            Some(at) if at == left_at => repo
                .reference_matching(&worktree.branch_ref(), head, true, left_at, log)
                .map(|_| ())
                .map_err(GitError::git("move the run's branch")),
            Some(at) => Err(moved(at.to_string())),
            None => Err(moved("a symbolic ref".to_owned())),
        }
    }

    /// Makes the worktree's index what the tip holds; the files are left alone.
    fn reset_index(
        &self,
        repo: &git2::Repository,
        worktree: &Worktree,
        commit: &git2::Commit<'_>,
    ) -> Result<(), GitError> {
        let path = self.admin_dir(worktree).join("index");
        let what = "update the worktree's index";
        if !self.admin_dir(worktree).is_dir() {
            return Err(GitError::NotFound {
                what: format!("worktree {}", worktree.admin),
            });
        }
        let mut index = git2::Index::open(&path).map_err(GitError::git(what))?;
        repo.set_index(&mut index).map_err(GitError::git(what))?;
        let tree = commit.tree().map_err(GitError::git(what))?;
        index.read_tree(&tree).map_err(GitError::git(what))?;
        index.write().map_err(GitError::git(what))
    }
}

/// Commits that `head` has and `base` has not.
pub(crate) fn count(repo: &git2::Repository, head: Oid, base: Oid) -> Result<u32, GitError> {
    let mut walk = repo
        .revwalk()
        .map_err(GitError::git("walk the run's commits"))?;
    walk.push(head)
        .and_then(|()| walk.hide(base))
        .map_err(GitError::git("walk the run's commits"))?;
    Ok(u32::try_from(walk.count()).unwrap_or(u32::MAX))
}

fn history_warnings(repo: &git2::Repository, base: Oid, commit: &git2::Commit<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if commit.id() != base && !repo.graph_descendant_of(commit.id(), base).unwrap_or(false) {
        warnings.push(
            "the run's commits do not build on the commit it started from: they cannot be merged \
             by fast-forward"
                .to_owned(),
        );
    }
    let links = |tree: git2::Tree<'_>| {
        let mut found = Vec::new();
        let _ = tree.walk(TreeWalkMode::PreOrder, |dir, entry| {
            if entry.kind() == Some(ObjectType::Commit) {
                found.push((
                    format!("{dir}{}", String::from_utf8_lossy(entry.name_bytes())),
                    entry.id(),
                ));
            }
            TreeWalkResult::Ok
        });
        found
    };
    let before = repo
        .find_commit(base)
        .and_then(|base| base.tree())
        .map(links)
        .unwrap_or_default();
    let after = commit.tree().map(links).unwrap_or_default();
    for link in after.iter().filter(|link| !before.contains(link)) {
        warnings.push(format!(
            "{} is recorded as a link to commit {} of another repository, whose files are not part \
             of what was collected",
            foreman_domain::sanitize_line(&link.0),
            link.1
        ));
    }
    warnings
}

/// The two headers of the harvest file, read; the packed objects follow in `rest`.
struct Parsed {
    head: Oid,
    notes: Vec<String>,
    bundle: bool,
    rest: BufReader<std::io::Take<File>>,
}

impl Parsed {
    fn read(file: &Path) -> Result<Self, GitError> {
        let opened = bounded::open_regular(file).map_err(GitError::io("cannot read", file))?;
        let size = opened
            .metadata()
            .map_err(GitError::io("cannot read", file))?
            .len();
        if size > MOST {
            return Err(bad(format!("{size} bytes are more than is taken ({MOST})")));
        }
        let mut rest = BufReader::with_capacity(1 << 16, opened.take(MOST));
        let first = line(&mut rest)?;
        let head = first
            .strip_prefix("head ")
            .and_then(full_id)
            .ok_or_else(|| bad("it does not begin with the tip of the run".into()))?;
        let mut notes = Vec::new();
        let bundle = loop {
            let next = line(&mut rest)?;
            match next.as_str() {
                "none" => break false,
                "bundle" => break true,
                note if notes.len() < 4 => match note.strip_prefix("note ") {
                    Some(note @ (NOTE_BRANCH | NOTE_DIVERGED)) => notes.push(note.to_owned()),
                    _ => return Err(bad("it has a line that is not understood".into())),
                },
                _ => return Err(bad("it has too many lines".into())),
            }
        };
        if !bundle {
            let mut more = [0; 1];
            let read = rest
                .read(&mut more)
                .map_err(GitError::io("cannot read", file))?;
            if read != 0 {
                return Err(bad("there is more after its end".into()));
            }
        }
        Ok(Self {
            head,
            notes,
            bundle,
            rest,
        })
    }

    /// Reads up to the packed objects: version 2, known prerequisites, exactly the one ref.
    fn read_bundle_header(&mut self, repo: &git2::Repository) -> Result<(), GitError> {
        if line(&mut self.rest)? != "# v2 git bundle" {
            return Err(bad("its bundle is not of version 2".into()));
        }
        let odb = repo.odb().map_err(GitError::git("open the object store"))?;
        let mut carried = false;
        for _ in 0..PREREQUISITES {
            let next = line(&mut self.rest)?;
            if next.is_empty() {
                return if carried {
                    Ok(())
                } else {
                    Err(bad("its bundle carries no ref".into()))
                };
            }
            if let Some(prerequisite) = next.strip_prefix('-') {
                let name = prerequisite.split(' ').next().unwrap_or_default();
                let oid = full_id(name)
                    .ok_or_else(|| bad("its bundle has a malformed prerequisite".into()))?;
                if !odb.exists(oid) {
                    return Err(bad(format!(
                        "it builds on commit {oid}, which this repository does not have"
                    )));
                }
            } else {
                let (name, refname) = next.split_once(' ').unwrap_or((next.as_str(), ""));
                if carried || refname != BUNDLE_REF || full_id(name) != Some(self.head) {
                    return Err(bad(
                        "its bundle carries another ref than the run's tip".into()
                    ));
                }
                carried = true;
            }
        }
        Err(bad("its bundle builds on too many commits".into()))
    }

    fn warnings(&self, worktree: &Worktree) -> Vec<String> {
        let branch = &worktree.branch;
        self.notes
            .iter()
            .map(|note| match note.as_str() {
                NOTE_BRANCH => format!(
                    "the run ended on an older commit than its branch; what {branch} had was collected"
                ),
                _ => format!(
                    "the run ended away from its branch; where it ended was collected, other \
                     commits of {branch} stay in its private copy"
                ),
            })
            .collect()
    }
}

fn bad(what: String) -> GitError {
    GitError::BadHarvest { what }
}

/// One line of text without its end; an endless or binary one is an error.
fn line(from: &mut impl BufRead) -> Result<String, GitError> {
    let mut bytes = Vec::new();
    from.by_ref()
        .take(LINE)
        .read_until(b'\n', &mut bytes)
        .map_err(GitError::io("cannot read", "the harvest file"))?;
    if bytes.pop() != Some(b'\n') {
        return Err(bad("it ends too early, or a line of it is too long".into()));
    }
    // Comments of prerequisites are commit subjects, in whatever encoding.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn full_id(text: &str) -> Option<Oid> {
    let exact = text.len() == 40
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    exact.then(|| Oid::from_str(text).ok()).flatten()
}
