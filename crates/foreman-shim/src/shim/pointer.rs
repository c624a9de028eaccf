//! The file that makes a folder a worktree, of a run around which nothing can be mounted: what it did to it
//! is put right again before anybody's git reads it.

use foreman_cage::Confinement;
use foreman_domain::EventKind;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest pointer.
const LONGEST: u64 = 64 << 10;

/// The worktree's `.git` as it was.
pub(super) struct Pointer {
    path: PathBuf,
    text: Vec<u8>,
}

impl Pointer {
    /// Remembers it, where the run could replace it. A worktree without one has nothing to keep.
    pub(super) fn keep(confinement: Confinement, workdir: &Path) -> Option<Self> {
        if confinement.has_namespaces() {
            return None;
        }
        let path = workdir.join(".git");
        let is_small = path
            .symlink_metadata()
            .is_ok_and(|seen| seen.is_file() && seen.len() <= LONGEST);
        let text = is_small.then(|| std::fs::read(&path).ok()).flatten()?;
        Some(Self { path, text })
    }

    /// Puts it back where it is another by now; no program of the run is left. Gives what to tell.
    pub(super) fn put_back(&self) -> Option<EventKind> {
        let path = self.path.display();
        let message = match self.restore() {
            Ok(false) => return None,
            Ok(true) => format!(
                "The run had replaced {path}; it leads to its repository again, and what the run had put there \
                 is out of use"
            ),
            Err(error) => format!(
                "The run has replaced {path}, and it cannot be put back: {error}. Use no git in that folder"
            ),
        };
        Some(EventKind::Warning {
            message: foreman_domain::without_error_numbers(&message),
        })
    }

    /// Whether it had to be.
    fn restore(&self) -> io::Result<bool> {
        match self.path.symlink_metadata() {
            Ok(seen) if seen.is_file() => {
                if seen.len() == self.text.len() as u64 && std::fs::read(&self.path)? == self.text {
                    return Ok(false);
                }
                std::fs::remove_file(&self.path)?;
            }
            Ok(_) => {
                // A new name each time: the run may have taken the first ones.
                let aside = (0_u32..).map(|number| {
                    self.path
                        .with_file_name(format!(".git-out-of-use-{number}"))
                });
                let mut aside = aside.filter(|path| path.symlink_metadata().is_err());
                let aside = aside.next().ok_or(io::ErrorKind::AlreadyExists)?;
                std::fs::rename(&self.path, aside)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut options = std::fs::OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&self.path)?;
        io::Write::write_all(&mut file, &self.text)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_run_put_there_the_pointer_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".git");
        std::fs::write(&path, "gitdir: /r/.git/worktrees/x\n").unwrap();
        assert!(Pointer::keep(Confinement::Namespaces, dir.path()).is_none());
        let pointer = Pointer::keep(Confinement::Landlock, dir.path()).unwrap();
        assert!(pointer.put_back().is_none());
        let replaced: [&dyn Fn(); 4] = [
            &|| std::fs::write(&path, "gitdir: /elsewhere").unwrap(),
            &|| std::fs::remove_file(&path).unwrap(),
            &|| {
                std::fs::remove_file(&path).unwrap();
                std::fs::create_dir(&path).unwrap();
                std::fs::write(path.join("config"), "x").unwrap();
            },
            &|| {
                std::fs::remove_file(&path).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
            },
        ];
        for replace in replaced {
            replace();
            assert!(pointer.put_back().is_some());
            assert_eq!(std::fs::read(&path).unwrap(), pointer.text);
            assert!(pointer.put_back().is_none());
        }
    }
}
