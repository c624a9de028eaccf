//! The scratch folder of a throw-away cage; removed when dropped.

use foreman_cage::{Bind, CageSpec, Confinement};
use rand::Rng;
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

/// Host user of the payload when the doctor runs as root: nobody.
const NOBODY: u32 = 65_534;

pub(super) struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    pub(super) fn make() -> io::Result<Self> {
        let base = std::fs::canonicalize(std::env::temp_dir())?;
        let name = format!("foreman-doctor-{:016x}", rand::rng().random::<u64>());
        let scratch = Self {
            folder: base.join(name),
        };
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&scratch.folder)?;
        let worktree = scratch.folder.join("worktree");
        std::fs::create_dir(&worktree)?;
        // A linked worktree's pointer, to nowhere: the probe tries to write it.
        let pointer = worktree.join(".git");
        std::fs::write(&pointer, "gitdir: /nonexistent/worktrees/doctor\n")?;
        if nix::unistd::geteuid().is_root() {
            for path in [&scratch.folder, &worktree, &pointer] {
                chown(path, Some(NOBODY), Some(NOBODY))?;
            }
        }
        Ok(scratch)
    }

    /// Entered by nobody else.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same where the kernel gives no namespaces: at its own place.
    pub(super) fn spec_without_namespaces(&self) -> CageSpec {
        let worktree = self.folder.join("worktree");
        CageSpec {
            home: std::env::var_os("HOME")
                .map_or_else(|| PathBuf::from("/home/doctor"), PathBuf::from),
            binds: vec![Bind {
                source: worktree.clone(),
                target: worktree.clone(),
                writable: true,
            }],
            workdir: worktree,
            confinement: Confinement::Landlock,
            private: Some(self.folder.join("private")),
            ..self.cage_spec()
        }
    }

    pub(super) fn cage_spec(&self) -> CageSpec {
        let worktree = self.folder.join("worktree");
        let workdir = PathBuf::from("/home/doctor/worktree");
        let pointer = workdir.join(".git");
        CageSpec {
            hostname: "doctor".to_owned(),
            home: PathBuf::from("/home/doctor"),
            binds: vec![
                Bind {
                    source: worktree.clone(),
                    target: workdir.clone(),
                    writable: true,
                },
                Bind {
                    source: worktree.join(".git"),
                    target: pointer,
                    writable: false,
                },
            ],
            workdir,
            env: vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())],
            why_program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/bin/true")),
            processes: 64,
            root_maps_to: NOBODY,
            hidden: Vec::new(),
            accept_weaker: Vec::new(),
            confinement: Default::default(),
            private: None,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "a scratch folder stays behind");
        }
    }
}
