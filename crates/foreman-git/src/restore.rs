//! Bringing a discarded run back from its snapshot, byte for byte.
//!
//! Everything is built beside its final place and moved there at the end; nothing that exists is
//! ever overwritten, and a restore that fails leaves nothing behind. Set-user-id bits do not come
//! back: the files would be the operator's own.

use crate::deep_stack::on_deep_stack;
use crate::hostile_dir;
use crate::lock::RepositoryLock;
use crate::manifest::{Header, Part, Row, VERSION, What, decode};
use crate::snapshot::snapshot_ref;
use crate::worktree::parse_oid;
use crate::{GitError, Repository, Worktree};
use foreman_domain::RunId;
use git2::{ErrorCode, ObjectType, Oid};
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

impl Repository {
    /// Brings back what [`Repository::snapshot_and_remove`] kept of `run`: worktree, registration
    /// with index, shadow directory, branch. The snapshot stays.
    ///
    /// # Errors
    /// [`GitError::NotFound`] without a snapshot; [`GitError::InTheWay`] and
    /// [`GitError::BranchClash`] when something is there already.
    pub fn restore(&self, run: &RunId, worktree: &Worktree, shadow: &Path) -> Result<(), GitError> {
        on_deep_stack(|| self.bring_back(run, worktree, shadow))
    }

    fn bring_back(&self, run: &RunId, worktree: &Worktree, shadow: &Path) -> Result<(), GitError> {
        let _lock = RepositoryLock::take(self.common_dir())?;
        let repo = self.git()?;
        let name = snapshot_ref(run);
        let (header, rows) = read_snapshot(&repo, &name)?;
        let branch_at = header.branch_at.as_deref().map(parse_oid).transpose()?;
        let head_at = header.head_at.as_deref().map(parse_oid).transpose()?;
        let admin = self.admin_dir(worktree);
        let places = [
            (Part::Worktree, worktree.path.clone()),
            (Part::Admin, admin.clone()),
            (Part::Shadow, shadow.to_owned()),
        ];
        for (_, place) in &places {
            if place.symlink_metadata().is_ok() {
                return Err(GitError::InTheWay {
                    path: place.clone(),
                });
            }
        }
        match repo.refname_to_id(&worktree.branch_ref()) {
            Ok(oid) if Some(oid) != branch_at => {
                return Err(GitError::BranchClash {
                    branch: worktree.branch.clone(),
                    what: format!(" (at {oid})"),
                });
            }
            Ok(_) => {}
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return Err(GitError::git("look for the run's branch")(error)),
        }
        let mut undo = Undo(Vec::new());
        for (part, place) in &places {
            if rows.iter().any(|row| row.part == *part) {
                let building = beside(place);
                hostile_dir::remove(&building)?;
                undo.0.push(building.clone());
                build(&repo, &rows, *part, &building, &name)?;
            }
        }
        let log = format!("foreman: restore of run {run}");
        let set = |name: &str, oid: Option<Oid>| match oid {
            Some(oid) => repo
                .reference(name, oid, true, &log)
                .map(|_| ())
                .map_err(GitError::git("restore the run's refs")),
            None => Ok(()),
        };
        set(&worktree.head_ref(), head_at)?;
        set(&worktree.branch_ref(), branch_at)?;
        for (_, place) in &places {
            let building = beside(place);
            if building.symlink_metadata().is_ok() {
                undo.0.push(place.clone());
                fs::rename(&building, place).map_err(GitError::io("cannot move", &building))?;
            }
        }
        undo.0.clear();
        Ok(())
    }
}

struct Undo(Vec<PathBuf>);

impl Drop for Undo {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = hostile_dir::remove(path);
        }
    }
}

/// The name under which a folder is built.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".restoring");
    path.with_file_name(name)
}

fn read_snapshot(repo: &git2::Repository, name: &str) -> Result<(Header, Vec<Row>), GitError> {
    let bad = |what: String| GitError::BadSnapshot {
        name: name.to_owned(),
        what,
    };
    let commit = match repo
        .find_reference(name)
        .and_then(|found| found.peel_to_commit())
    {
        Ok(commit) => commit,
        Err(error) if error.code() == ErrorCode::NotFound => {
            return Err(GitError::NotFound {
                what: format!("the snapshot {name}"),
            });
        }
        Err(error) => return Err(GitError::git("read the snapshot")(error)),
    };
    let tree = commit.tree().map_err(GitError::git("read the snapshot"))?;
    let entry = tree
        .get_name("manifest")
        .ok_or_else(|| bad("it has no manifest".into()))?;
    let blob = repo
        .find_blob(entry.id())
        .map_err(GitError::git("read the manifest"))?;
    let mut lines = blob
        .content()
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let malformed = |error: serde_json::Error| bad(format!("its manifest is damaged: {error}"));
    let header: Header =
        serde_json::from_slice(lines.next().unwrap_or_default()).map_err(malformed)?;
    if header.v != VERSION {
        return Err(bad(format!("its format {} is not known here", header.v)));
    }
    let rows = lines
        .map(|line| serde_json::from_slice(line).map_err(malformed))
        .collect::<Result<Vec<Row>, _>>()?;
    if rows.len() != header.rows {
        return Err(bad("its manifest is cut short".into()));
    }
    Ok((header, rows))
}

fn build(
    repo: &git2::Repository,
    rows: &[Row],
    part: Part,
    root: &Path,
    snapshot: &str,
) -> Result<(), GitError> {
    let bad = |what: String| GitError::BadSnapshot {
        name: snapshot.to_owned(),
        what,
    };
    if let Some(parent) = root.parent() {
        fs::create_dir_all(parent).map_err(GitError::io("cannot make the folder", parent))?;
    }
    let odb = repo.odb().map_err(GitError::git("open the object store"))?;
    let mut folders: HashSet<PathBuf> = HashSet::new();
    let mut made = Vec::new();
    for row in rows.iter().filter(|row| row.part == part) {
        let relative = decode(&row.path).ok_or_else(|| bad("a path in it is malformed".into()))?;
        let inside = relative
            .parent()
            .is_none_or(|parent| folders.contains(parent));
        if !inside {
            return Err(bad(format!("{} lies in no folder", row.path)));
        }
        let path = if relative.as_os_str().is_empty() {
            root.to_owned()
        } else {
            root.join(&relative)
        };
        let content = |oid: &str| -> Result<Vec<u8>, GitError> {
            let oid = parse_oid(oid)?;
            let object = odb
                .read(oid)
                .map_err(GitError::git("read a file of the snapshot"))?;
            match object.kind() {
                ObjectType::Blob => Ok(object.data().to_owned()),
                _ => Err(bad(format!("{oid} is not a file"))),
            }
        };
        match &row.what {
            What::Folder => {
                fs::create_dir(&path).map_err(GitError::io("cannot make", &path))?;
                folders.insert(relative);
            }
            What::File(oid) => {
                let bytes = content(oid)?;
                OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .mode(0o600)
                    .open(&path)
                    .and_then(|mut file| {
                        file.write_all(&bytes)?;
                        file.set_permissions(Permissions::from_mode(row.mode & 0o1777))
                    })
                    .map_err(GitError::io("cannot write", &path))?;
            }
            What::Link(oid) => {
                let target = content(oid)?;
                std::os::unix::fs::symlink(OsStr::from_bytes(&target), &path)
                    .map_err(GitError::io("cannot make", &path))?;
            }
            What::Pipe => {
                nix::unistd::mkfifo(&path, Mode::from_bits_truncate(row.mode & 0o777))
                    .map_err(GitError::io_errno("cannot make", &path))?;
            }
            What::Other => continue,
        }
        made.push((path, row));
    }
    // Innermost first, so that making an entry does not touch a folder's time again.
    for (path, row) in made.iter().rev() {
        if row.what == What::Folder {
            fs::set_permissions(path, Permissions::from_mode(row.mode & 0o3777))
                .map_err(GitError::io("cannot set the mode of", path))?;
        }
        let time = TimeSpec::new(row.time.0, row.time.1);
        utimensat(
            AT_FDCWD,
            path,
            &time,
            &time,
            UtimensatFlags::NoFollowSymlink,
        )
        .map_err(GitError::io_errno("cannot set the time of", path))?;
    }
    Ok(())
}
