//! Whether a place may be shown to a run without anybody having named it.
//!
//! A profile mounts what it finds, so nothing that somebody else can change may say what that is: every
//! folder and link on the way belongs to the operator or to root, nobody else may write it, and none lies
//! in the repository.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Links that are followed, as the kernel has it.
const MOST_LINKS: u32 = 40;
const BY_GROUP: u32 = 0o020;
const BY_OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Who the operator is, and what may say nothing.
#[derive(Debug, Clone)]
pub(super) struct Trust {
    pub uid: u32,
    pub gid: u32,
    /// Their home. Whoever could change what it hangs on could replace all of it, so that is not asked about.
    pub home: PathBuf,
    /// Canonical; what leads through one of them is refused.
    pub repository: Vec<PathBuf>,
}

impl Trust {
    /// The path without links. Blocking.
    ///
    /// # Errors
    /// Why it is not trusted, or not there, as a phrase that follows the path.
    pub fn resolve(&self, path: &Path) -> Result<PathBuf, String> {
        if !path.is_absolute() {
            return Err("is not a path from the root".to_owned());
        }
        let mut rest: VecDeque<OsString> = parts(path);
        let mut at = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            if let Some(repo) = self.repository.iter().find(|repo| next.starts_with(repo)) {
                return Err(format!("leads through the repository {}", repo.display()));
            }
            let found = std::fs::symlink_metadata(&next)
                .map_err(|error| format!("cannot be looked at ({error})"))?;
            let is_above_home = self.home != next && self.home.starts_with(&next);
            if !is_above_home && found.uid() != 0 && found.uid() != self.uid {
                return Err(format!(
                    "depends on {}, which belongs to another account",
                    next.display()
                ));
            }
            if found.is_symlink() {
                links += 1;
                if links > MOST_LINKS {
                    return Err("has too many links in it".to_owned());
                }
                let to = std::fs::read_link(&next)
                    .map_err(|error| format!("cannot be followed ({error})"))?;
                if to.is_absolute() {
                    at = PathBuf::from("/");
                }
                for part in parts(&to).into_iter().rev() {
                    rest.push_front(part);
                }
                continue;
            }
            let mode = found.mode();
            let by_group = mode & BY_GROUP != 0 && found.gid() != self.gid && found.gid() != 0;
            let by_others = mode & BY_OTHERS != 0;
            // Who may write a sticky folder still cannot replace what is another's.
            if !is_above_home && (by_group || by_others) && !(found.is_dir() && mode & STICKY != 0)
            {
                return Err(format!(
                    "depends on {}, which others may write",
                    next.display()
                ));
            }
            at = next;
        }
        Ok(at)
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Scratch {
        _dir: tempfile::TempDir,
        root: PathBuf,
        trust: Trust,
    }

    fn scratch() -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for name in ["home/tool/bin", "repo/tool/bin"] {
            create_dir_all(root.join(name)).unwrap();
        }
        let trust = Trust {
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
            home: root.join("home"),
            repository: vec![root.join("repo")],
        };
        Scratch {
            _dir: dir,
            root,
            trust,
        }
    }

    fn why_not(scratch: &Scratch, name: &str) -> String {
        scratch.trust.resolve(&scratch.root.join(name)).unwrap_err()
    }

    #[test]
    fn a_place_of_the_operators_is_found_through_links() {
        let scratch = scratch();
        symlink("../home/./tool", scratch.root.join("home/link")).unwrap();
        symlink(scratch.root.join("home/link"), scratch.root.join("other")).unwrap();
        let found = scratch.trust.resolve(&scratch.root.join("other/bin"));
        assert_eq!(found.unwrap(), scratch.root.join("home/tool/bin"));
    }

    #[test]
    fn what_leads_through_the_repository_is_refused_although_it_ends_elsewhere() {
        let scratch = scratch();
        symlink(scratch.root.join("repo/tool"), scratch.root.join("home/to")).unwrap();
        symlink(
            scratch.root.join("home/tool"),
            scratch.root.join("repo/back"),
        )
        .unwrap();
        symlink("../repo/back", scratch.root.join("home/through")).unwrap();
        for name in ["repo/tool", "home/to/bin", "home/through/bin"] {
            let why = why_not(&scratch, name);
            assert!(why.contains("through the repository"), "{name}: {why}");
        }
    }

    #[test]
    fn what_others_may_write_or_own_is_refused() {
        let scratch = scratch();
        let tool = scratch.root.join("home/tool");
        set_permissions(&tool, Permissions::from_mode(0o777)).unwrap();
        assert!(why_not(&scratch, "home/tool/bin").contains("others may write"));
        set_permissions(&tool, Permissions::from_mode(0o1777)).unwrap();
        assert!(scratch.trust.resolve(&tool.join("bin")).is_ok());
        let stranger = Trust {
            uid: scratch.trust.uid + 1,
            ..scratch.trust.clone()
        };
        // A path that is root's alone is everybody's.
        if scratch.trust.uid != 0 {
            let why = stranger.resolve(&tool).unwrap_err();
            assert!(why.contains("another account"), "{why}");
        }
    }

    #[test]
    fn links_without_end_and_missing_places_are_refused() {
        let scratch = scratch();
        symlink("loop", scratch.root.join("home/loop")).unwrap();
        assert!(why_not(&scratch, "home/loop").contains("too many links"));
        assert!(why_not(&scratch, "home/nowhere").contains("cannot be looked at"));
    }
}
