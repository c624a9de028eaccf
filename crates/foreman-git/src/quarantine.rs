//! A place for objects that somebody else made, until git has checked every one of them.
//!
//! It lies inside the object store, on the same disk, and borrows from it; what is in it is seen by
//! nobody until [`Quarantine::release`] moves the checked packs over. Dropped, it is gone.

use crate::GitError;
use crate::program::Program;
use crate::shadow::quote_alternate;
use git2::Oid;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long git may take over checking the objects.
const CHECK: Duration = Duration::from_secs(30 * 60);

/// A private object directory that borrows from the real one; gone when dropped.
#[derive(Debug)]
pub(crate) struct Quarantine {
    dir: PathBuf,
    store: PathBuf,
}

impl Quarantine {
    /// Makes an empty one inside `store`.
    pub(crate) fn make(store: &Path, run: &str) -> Result<Self, GitError> {
        // The name is of a form that `git gc` cleans up when we cannot.
        let dir = store.join(format!("tmp_objdir-incoming-foreman-{run}"));
        if dir.symlink_metadata().is_ok() {
            fs::remove_dir_all(&dir).map_err(GitError::io("cannot remove", &dir))?;
        }
        let made = Self {
            dir,
            store: store.to_owned(),
        };
        for name in ["info", "pack"] {
            let path = made.dir.join(name);
            fs::create_dir_all(&path).map_err(GitError::io("cannot make", &path))?;
        }
        let path = made.dir.join("info/alternates");
        let mut line = quote_alternate(store);
        line.push(b'\n');
        fs::write(&path, line).map_err(GitError::io("cannot write", &path))?;
        Ok(made)
    }

    /// Where its objects are.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Checks every object of a pack, and that every object it names is in it or known already.
    pub(crate) fn take_pack(
        &self,
        common: &Path,
        pack: &mut dyn Read,
        most: u64,
    ) -> Result<(), GitError> {
        Program::new(common, "index-pack", CHECK)
            .objects(&self.dir)
            .args(["--stdin", "--fix-thin", "--strict"])
            .arg(format!("--max-input-size={most}"))
            .run(|input| {
                let mut chunk = vec![0; 1 << 16];
                loop {
                    let read = pack
                        .read(&mut chunk)
                        .map_err(GitError::io("cannot read", "a pack"))?;
                    if read == 0 {
                        return Ok(());
                    }
                    input
                        .write_all(&chunk[..read])
                        .map_err(GitError::io("cannot write to", "git"))?;
                }
            })
            .map(|_| ())
    }

    /// Proves that everything `tips` reach, beyond what the repository had, is there.
    pub(crate) fn prove_whole(
        &self,
        common: &Path,
        tips: &[Oid],
        base: &str,
    ) -> Result<(), GitError> {
        let mut wanted = String::new();
        for tip in tips {
            wanted.push_str(&format!("{tip}\n"));
        }
        wanted.push_str(&format!("^{base}\n"));
        Program::new(common, "rev-list", CHECK)
            .objects(&self.dir)
            .args(["--objects", "--quiet", "--stdin", "--not", "--all"])
            .run(|input| {
                input
                    .write_all(wanted.as_bytes())
                    .map_err(GitError::io("cannot ask", "git"))
            })
            .map(|_| ())
    }

    /// Moves the checked packs into the store, the index last: it makes a pack visible.
    pub(crate) fn release(self) -> Result<(), GitError> {
        let from = self.dir.join("pack");
        let to = self.store.join("pack");
        fs::create_dir_all(&to).map_err(GitError::io("cannot make", &to))?;
        let mut names: Vec<_> = fs::read_dir(&from)
            .map_err(GitError::io("cannot read", &from))?
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().starts_with("pack-"))
            .collect();
        names.sort_by_key(|name| name.to_string_lossy().ends_with(".idx"));
        for name in names {
            let path = from.join(&name);
            File::open(&path)
                .and_then(|file| file.sync_all())
                .and_then(|()| fs::rename(&path, to.join(&name)))
                .map_err(GitError::io("cannot keep", &path))?;
        }
        Ok(())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
