//! Identities: the product is for ordinary users, must also work as root, and tests run as either.
//!
//! Started as root, [`Who::Ordinary`] makes a user of its own, with a home, a runtime directory and
//! copies of the binaries where that user can read them; all is removed again when the bench drops.
//! Started by an ordinary user, that user is it, with a scratch home, and [`Who::Root`] is refused.

use crate::Binaries;
use anyhow::{Context, Result, ensure};
use nix::unistd::{Gid, Uid, User, chown};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// As whom the product runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A user without any privilege.
    Ordinary,
    /// Root.
    Root,
}

impl Who {
    /// Both, or the ordinary user alone when these tests were not started as root.
    #[must_use]
    pub fn all() -> &'static [Who] {
        if Uid::effective().is_root() {
            &[Who::Ordinary, Who::Root]
        } else {
            &[Who::Ordinary]
        }
    }

    /// `ordinary` or `root`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordinary => "ordinary",
            Self::Root => "root",
        }
    }
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// An identity with a home, a runtime directory, the binaries, and room for scratch files.
#[derive(Debug)]
pub struct Bench {
    who: Who,
    uid: Uid,
    gid: Gid,
    made_user: Option<String>,
    root: PathBuf,
}

impl Bench {
    /// Makes one.
    ///
    /// # Errors
    /// [`Who::Root`] without being root; a user or folder could not be made; no binaries.
    pub fn new(who: Who) -> Result<Self> {
        let us = Uid::effective();
        ensure!(
            who == Who::Ordinary || us.is_root(),
            "these tests were not started as root"
        );
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let tag = format!("fm-test-{}-{number}", std::process::id());
        let parent = match std::env::var_os("FOREMAN_TEST_SCRATCH") {
            Some(folder) => PathBuf::from(folder),
            // Not below a system directory: those are seen in every cage.
            None if us.is_root() => PathBuf::from("/var/lib"),
            None => Binaries::checkout().join("target/tmp"),
        };
        fs::create_dir_all(&parent)?;
        let root = parent.join(&tag);
        let mut bench = Self {
            who,
            uid: us,
            gid: Gid::effective(),
            made_user: None,
            root,
        };
        fs::create_dir(&bench.root).with_context(|| bench.root.display().to_string())?;
        if who == Who::Ordinary && us.is_root() {
            bench.make_user(&tag)?;
        }
        for (name, mode) in [
            ("bin", 0o755),
            ("home", 0o700),
            ("run", 0o700),
            ("scratch", 0o755),
        ] {
            let folder = bench.root.join(name);
            fs::create_dir(&folder)?;
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode))?;
            bench.own(&folder)?;
        }
        // A session's own bus, where the product is to find one.
        if let Some(bus) =
            std::env::var_os("FOREMAN_TEST_BUS").filter(|bus| Path::new(bus).exists())
        {
            std::os::unix::fs::symlink(bus, bench.runtime().join("bus"))?;
        }
        Binaries::find()?.copy_to(&bench.bin())?;
        bench.write(
            &bench.home().join(".gitconfig"),
            "[user]\n\tname = Test Operator\n\temail = operator@example.org\n\
             [gc]\n\tauto = 0\n[init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n\
             [protocol \"file\"]\n\tallow = always\n",
        )?;
        Ok(bench)
    }

    fn make_user(&mut self, name: &str) -> Result<()> {
        let home = self.home();
        run(Command::new("useradd")
            .args(["--no-create-home", "--shell", "/bin/bash", "--home-dir"])
            .arg(&home)
            .arg(name))?;
        self.made_user = Some(name.to_owned());
        let user = User::from_name(name)?.context("a user just made is not there")?;
        (self.uid, self.gid) = (user.uid, user.gid);
        Ok(())
    }

    /// As whom it runs.
    #[must_use]
    pub fn who(&self) -> Who {
        self.who
    }

    /// The user's id.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// The user's name.
    #[must_use]
    pub fn user(&self) -> String {
        User::from_uid(self.uid)
            .ok()
            .flatten()
            .map_or_else(String::new, |user| user.name)
    }

    /// Folder of the binaries.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// One of the binaries.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin().join(name)
    }

    /// The user's home.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The user's runtime directory.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Where the product keeps its data by default: under the home.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.home().join(".local/share/foreman")
    }

    /// A new, empty folder of the user's.
    ///
    /// # Errors
    /// It could not be made.
    pub fn scratch(&self, name: &str) -> Result<PathBuf> {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = self.root.join("scratch").join(format!("{name}-{number}"));
        fs::create_dir(&folder)?;
        self.own(&folder)?;
        Ok(folder)
    }

    /// Gives a file or folder to the user.
    ///
    /// # Errors
    /// Not allowed.
    pub fn own(&self, path: &Path) -> Result<()> {
        if self.made_user.is_some() {
            chown(path, Some(self.uid), Some(self.gid))
                .with_context(|| format!("give {} to the test user", path.display()))?;
        }
        Ok(())
    }

    /// Writes a file that belongs to the user, with the folders above it.
    ///
    /// # Errors
    /// It could not be written.
    pub fn write(&self, path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
        let mut missing = Vec::new();
        let mut folder = path.parent();
        while let Some(above) = folder.filter(|above| !above.exists()) {
            missing.push(above.to_path_buf());
            folder = above.parent();
        }
        for above in missing.iter().rev() {
            fs::create_dir(above)?;
            self.own(above)?;
        }
        fs::write(path, content).with_context(|| path.display().to_string())?;
        self.own(path)
    }

    /// A command that runs as the user, with the user's environment and nothing else of ours.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.home())
            .env("USER", self.user())
            .env("LOGNAME", self.user())
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env(
                "PATH",
                format!(
                    "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                    self.bin().display()
                ),
            )
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .current_dir(self.home())
            .stdin(Stdio::null());
        if self.made_user.is_some() {
            // `uid` also empties the list of supplementary groups.
            command.gid(self.gid.as_raw()).uid(self.uid.as_raw());
        }
        command
    }

    /// Runs a shell script as the user in a folder and gives its output.
    ///
    /// # Errors
    /// It failed; the message has its output.
    pub fn shell(&self, folder: &Path, script: &str) -> Result<String> {
        run(self
            .command("/bin/sh")
            .args(["-euc", script])
            .current_dir(folder))
        .with_context(|| format!("in {}: {script}", folder.display()))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(name) = &self.made_user {
            end_processes_of(self.uid);
            let _ = Command::new("userdel")
                .arg(name)
                .stderr(Stdio::null())
                .status();
        }
        if std::env::var_os("FOREMAN_TEST_KEEP").is_some() {
            eprintln!("kept {}", self.root.display());
            return;
        }
        // Caged agents may have left folders without permissions.
        let _ = Command::new("chmod")
            .args(["-R", "u+rwX"])
            .arg(&self.root)
            .stderr(Stdio::null())
            .status();
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Ends what a user made for one test has left running.
fn end_processes_of(uid: Uid) {
    use std::os::unix::fs::MetadataExt;
    for _ in 0..3 {
        let Ok(entries) = fs::read_dir("/proc") else {
            return;
        };
        let mut any = false;
        for entry in entries.flatten() {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<i32>().ok())
            else {
                continue;
            };
            if entry
                .metadata()
                .is_ok_and(|meta| meta.uid() == uid.as_raw())
            {
                any = true;
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
        if !any {
            return;
        }
    }
}

/// Runs a command to its end and gives its standard output.
///
/// # Errors
/// It did not start or failed; the message has both of its streams.
pub fn run(command: &mut Command) -> Result<String> {
    let out = command
        .output()
        .with_context(|| format!("start {:?}", command.get_program()))?;
    let (stdout, stderr) = (
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
    );
    ensure!(
        out.status.success(),
        "{:?} ended with {}: {stdout}{stderr}",
        command.get_program(),
        out.status
    );
    Ok(stdout.into_owned())
}
