//! A run's folder at a station: everything of it, and nothing of anybody else.

use super::far_end::default_place;
use super::{Folder, Offer, Piece, Presence, Reason, Refused, repository};
use crate::launch::{is_on_its_way, start_shim};
use crate::protocol::{RunFiles, RunSpec, ShimIdentity, Stdio};
use crate::wire::equal_in_constant_time;
use foreman_cage::{Bind, CageSpec, Confinement};
use foreman_domain::RunId;
use nix::unistd::geteuid;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where programs are looked up in a cage of a station.
const PATH: &str = "/run/foreman/bin:/usr/local/bin:/usr/bin:/bin";
/// A home for accounts without a usable one.
const NO_HOME: &str = "/home/agent";
/// Variables that are this machine's business.
const OWN: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"];
/// Longest path of a socket, the terminator left out.
const SOCKET_PATH: usize = 107;
/// Longest spec that is read back.
const SPEC_BYTES: u64 = 16 << 20;
/// Longest wait for a shim that is on its way to say who it is.
const BIRTH: Duration = Duration::from_secs(30);
/// Bytes that are copied at a time.
const BUFFER: usize = 64 << 10;

/// Something of this machine failed.
fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Refused {
    let what = format!("{what} {}", path.display());
    move |error| Reason::Environment.says(format!("{what}: {error}"))
}

impl Folder {
    pub(super) fn of(place: &Path, run: &RunId) -> Self {
        Self(place.join(run.as_str()))
    }

    pub(super) fn files(&self) -> RunFiles {
        let file = |name: &str| self.0.join(name);
        RunFiles {
            journal: file("journal.ndjson"),
            exit: file("exit.json"),
            socket: file("s"),
            identity: file("identity.json"),
            bundle: file("harvest.bundle"),
            log: file("shim.log"),
        }
    }

    fn spec_file(&self) -> PathBuf {
        self.0.join("spec.json")
    }

    fn worktree(&self) -> PathBuf {
        self.0.join("worktree")
    }

    fn repository(&self) -> PathBuf {
        self.0.join("repository")
    }

    /// Who carries the run, once that was written down.
    pub(super) fn identity(&self) -> Option<ShimIdentity> {
        serde_json::from_slice(&std::fs::read(self.files().identity).ok()?).ok()
    }

    pub(super) fn presence(&self) -> Presence {
        match self.identity() {
            Some(shim) if shim.is_alive() => Presence::Alive,
            None if is_on_its_way(&self.spec_file()) => Presence::Unborn,
            Some(_) | None => Presence::Gone,
        }
    }

    /// Refuses who does not know the run's secret, as if there were no such run.
    pub(super) fn prove(&self, nonce: &str) -> Result<(), Refused> {
        let known = File::open(self.spec_file()).and_then(|file| {
            let mut text = Vec::new();
            file.take(SPEC_BYTES).read_to_end(&mut text)?;
            serde_json::from_slice::<RunSpec>(&text).map_err(io::Error::other)
        });
        match known {
            Ok(spec) if equal_in_constant_time(spec.nonce.as_bytes(), nonce.as_bytes()) => Ok(()),
            Ok(_) | Err(_) => Err(Reason::NotFound.says("there is no such run here")),
        }
    }

    /// Takes the run in: its repository from `bundle`, its spec, its shim. Finds the one that an earlier
    /// start made; `bundle` is then read and forgotten.
    pub(super) fn start(
        &self,
        offer: Offer,
        bundle: &mut impl Read,
    ) -> Result<ShimIdentity, Refused> {
        let lock = self.lock()?;
        if let Some(identity) = self.started_before(&offer)? {
            io::copy(bundle, &mut io::sink()).map_err(|error| cut_off(&error))?;
            return Ok(identity);
        }
        let made = self.make(offer, bundle);
        if made.is_err() && self.identity().is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        }
        drop(lock);
        made
    }

    /// One start of a run at a time; the lock ends with this process.
    fn lock(&self) -> Result<File, Refused> {
        let path = self.0.with_extension("lock");
        loop {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)
                .map_err(failed("cannot open", &path))?;
            file.lock().map_err(failed("cannot lock", &path))?;
            // The one who had it before may have removed it: then this is the lock of nothing.
            let ours = file.metadata().map_err(failed("cannot read", &path))?;
            let is_there = std::fs::symlink_metadata(&path)
                .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
            if is_there {
                return Ok(file);
            }
        }
    }

    fn started_before(&self, offer: &Offer) -> Result<Option<ShimIdentity>, Refused> {
        if self.prove(&offer.spec.nonce).is_err() {
            if self.identity().is_some() {
                return Err(Reason::NotFound.says("a run of that name is here already"));
            }
            return self.clear().map(|()| None);
        }
        // A shim that was being started when its station died still writes down who it is.
        let deadline = Instant::now() + BIRTH;
        while self.presence() == Presence::Unborn {
            if Instant::now() >= deadline {
                return Err(Reason::NotStarted.says("the run's shim does not say who it is"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        match self.identity() {
            Some(identity) => Ok(Some(identity)),
            None => self.clear().map(|()| None),
        }
    }

    /// Removes what a start that was cut short left behind.
    fn clear(&self) -> Result<(), Refused> {
        match std::fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed("cannot remove", &self.0)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn make(&self, offer: Offer, bundle: &mut impl Read) -> Result<ShimIdentity, Refused> {
        if self.files().socket.as_os_str().len() > SOCKET_PATH {
            return Err(Reason::Environment.says(format!(
                "the path {} is too long for a socket; name a shorter place with --place",
                self.files().socket.display()
            )));
        }
        DirBuilder::new()
            .mode(0o700)
            .create(&self.0)
            .map_err(failed("cannot make", &self.0))?;
        let file = self.0.join("repository.bundle");
        take_in(&file, bundle)?;
        repository::make(&self.repository(), &self.worktree(), &file, &offer)?;
        std::fs::remove_file(&file).map_err(failed("cannot remove", &file))?;
        if !offer.spec.handed_over().is_empty() {
            let why = "secrets are not handed to a run elsewhere";
            return Err(Reason::Malformed.says(why));
        }
        let spec = self.spec(offer.spec)?;
        repository::give_away(
            &[self.repository(), self.worktree()],
            spec.cage.root_maps_to,
        )?;
        let path = self.spec_file();
        let text = serde_json::to_vec(&spec)
            .map_err(|error| Reason::Environment.says(format!("the spec is none: {error}")))?;
        write_private(&path, &text).map_err(failed("cannot write", &path))?;
        let shim = own_program()?;
        start_shim(&shim, &path, &[]).map_err(|error| {
            let log = last_words(&self.files().log);
            Reason::NotStarted.says(format!("{error}{log}"))
        })
    }

    /// The spec with everything of this machine filled in.
    fn spec(&self, offered: RunSpec) -> Result<RunSpec, Refused> {
        let files = self.files();
        let bind = |source: PathBuf, writable| Bind {
            target: source.clone(),
            source,
            writable,
        };
        let repository = self.repository();
        let binds = vec![
            bind(repository.clone(), true),
            bind(repository.join(repository::PRISTINE), false),
            bind(self.worktree(), true),
            bind(self.worktree().join(".git"), false),
        ];
        let (home, user) = account();
        let mut env: Vec<_> = offered.cage.env;
        env.retain(|(name, _)| !OWN.contains(&name.as_str()));
        let own = [
            ("PATH", PATH),
            ("HOME", &home),
            ("USER", &user),
            ("LOGNAME", &user),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let mut steps = offered.steps;
        for step in &mut steps {
            if let Stdio::File { path, .. } = &mut step.stdio {
                path.clone_from(&files.bundle);
            }
        }
        let place = self.0.parent().unwrap_or(&self.0).to_owned();
        Ok(RunSpec {
            files,
            cage: CageSpec {
                workdir: self.worktree(),
                home: PathBuf::from(home),
                binds,
                hidden: hidden(place, |name| std::env::var_os(name)),
                env,
                why_program: own_program()?,
                // Only the user of this machine may ask for less, and there is nobody to ask.
                confinement: Confinement::Namespaces,
                private: None,
                ..offered.cage
            },
            steps,
            ..offered
        })
    }

    /// One of the run's files, from a place on; how many bytes it has there.
    pub(super) fn open(&self, piece: Piece, from: u64) -> Result<(File, u64), Refused> {
        let files = self.files();
        let path = match piece {
            Piece::Journal => files.journal,
            Piece::Exit => files.exit,
            Piece::Bundle => files.bundle,
            Piece::Log => files.log,
        };
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Reason::NotFound.says("the run has no such file"));
            }
            opened => opened.map_err(failed("cannot open", &path))?,
        };
        let size = file.metadata().map_err(failed("cannot read", &path))?.len();
        io::Seek::seek(&mut file, io::SeekFrom::Start(from))
            .map_err(failed("cannot read", &path))?;
        Ok((file, size.saturating_sub(from)))
    }

    /// Kills the run's shim, if it is alive; its cage dies with it.
    pub(super) fn kill(&self) -> Result<(), Refused> {
        let Some(shim) = self.identity() else {
            return Ok(());
        };
        shim.kill().map_err(|error| {
            Reason::Environment.says(format!("the run's shim cannot be killed: {error}"))
        })
    }

    /// Removes everything of the run.
    pub(super) fn remove(&self) -> Result<(), Refused> {
        if self.presence() != Presence::Gone {
            return Err(Reason::Alive.says("the run is still being carried"));
        }
        let lock = self.lock()?;
        // Whoever had the lock may have started it.
        if self.presence() != Presence::Gone {
            return Err(Reason::Alive.says("the run is still being carried"));
        }
        open_up(&self.worktree());
        self.clear()?;
        let _ = std::fs::remove_file(self.0.with_extension("lock"));
        drop(lock);
        Ok(())
    }
}

/// Folders that a run left without permissions can be removed once their owner may enter them.
fn open_up(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        let Ok(found) = std::fs::symlink_metadata(&folder) else {
            continue;
        };
        if !found.is_dir() {
            continue;
        }
        let _ = std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700));
        if let Ok(entries) = std::fs::read_dir(&folder) {
            let folders = entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            waiting.extend(folders.map(|entry| entry.path()));
        }
    }
}

/// Copies everything that comes to a new file.
fn take_in(path: &Path, from: &mut impl Read) -> Result<(), Refused> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(failed("cannot write", path))?;
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(cut_off(&error)),
        };
        file.write_all(buffer.get(..count).unwrap_or_default())
            .map_err(failed("cannot write", path))?;
    }
}

fn cut_off(error: &io::Error) -> Refused {
    Reason::Malformed.says(format!("the repository did not come whole: {error}"))
}

/// Writes a file that only this user can read, on disk when this returns.
fn write_private(path: &Path, text: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&part, path)
}

/// What no cage may show: the station's `place`, and where engines and stations of this account keep
/// their data and sockets unless they are told otherwise. Nothing twice, and nothing below another.
fn hidden(place: PathBuf, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let absolute = |name: &str| {
        let value = variable(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let station = default_place(&variable);
    // An engine's folder is beside it.
    let engine = station.with_file_name("foreman");
    let session = PathBuf::from(format!("/run/user/{}", geteuid()));
    let runtime = [absolute("XDG_RUNTIME_DIR"), Some(session)];
    let others = [Some(station), Some(engine), absolute("FOREMAN_DATA_DIR")]
        .into_iter()
        .chain(runtime.map(|folder| folder.map(|folder| folder.join("foreman"))))
        .flatten()
        .filter_map(|folder| folder.canonicalize().ok())
        // Where everybody may write, the name may be somebody else's link.
        .filter(|folder| {
            std::fs::metadata(folder).is_ok_and(|found| found.uid() == geteuid().as_raw())
        });
    let mut all: Vec<PathBuf> = others.chain([place]).collect();
    // A folder comes before what is below it.
    all.sort();
    all.dedup_by(|later, earlier| later.starts_with(&*earlier));
    all
}

fn own_program() -> Result<PathBuf, Refused> {
    std::env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| {
            Reason::Environment.says(format!("this program cannot be found on disk: {error}"))
        })
}

/// Home and name of this account.
fn account() -> (String, String) {
    let entry = nix::unistd::User::from_uid(geteuid()).ok().flatten();
    let user = entry.map_or_else(|| "agent".to_owned(), |entry| entry.name);
    let plain = |home: &String| {
        let home = Path::new(home);
        home.is_absolute() && home.components().count() > 2 && !home.starts_with("/proc")
    };
    let home = std::env::var("HOME").ok().filter(plain);
    (home.unwrap_or_else(|| NO_HOME.to_owned()), user)
}

/// The end of a log, to stand behind a sentence.
fn last_words(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let end = text.len().saturating_sub(2048);
    let text = String::from_utf8_lossy(text.get(end..).unwrap_or_default()).into_owned();
    match text.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!(" ({})", line.trim()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether somebody waits for the lock on this file.
    fn is_waited_for(file: &File) -> bool {
        let inode = format!(":{}", file.metadata().unwrap().ino());
        let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        locks
            .lines()
            .filter(|line| line.contains("->"))
            .any(|line| line.split_whitespace().any(|word| word.ends_with(&inode)))
    }

    #[test]
    fn a_run_that_was_started_while_its_removal_waited_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunId::from_random(7);
        let folder = Folder::of(dir.path(), &run);
        std::fs::create_dir(&folder.0).unwrap();
        let lock = folder.lock().unwrap();
        let removal = std::thread::spawn({
            let folder = folder.clone();
            move || folder.remove()
        });
        // Where the kernel's list cannot be read, the first look may find the run: no harm.
        let until = Instant::now() + Duration::from_secs(2);
        while !is_waited_for(&lock) && Instant::now() < until {
            std::thread::yield_now();
        }
        let identity = serde_json::to_vec(&ShimIdentity::of_this_process(run).unwrap()).unwrap();
        write_private(&folder.files().identity, &identity).unwrap();
        drop(lock);
        assert_eq!(removal.join().unwrap().unwrap_err().reason, Reason::Alive);
        assert_eq!(folder.presence(), Presence::Alive);

        std::fs::remove_file(folder.files().identity).unwrap();
        folder.remove().unwrap();
        assert!(!folder.0.exists());
    }

    #[test]
    fn default_places_of_the_account_are_hidden_once_each() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let made = |name: &str| {
            let path = base.join(name);
            std::fs::create_dir_all(&path).unwrap();
            path
        };
        let station = made("home/.local/share/foreman-station");
        let engine = made("home/.local/share/foreman");
        let sockets = made("runtime/foreman");
        let data = made("elsewhere");
        std::os::unix::fs::symlink(&data, base.join("link")).unwrap();
        let variable = |name: &str| match name {
            "HOME" => Some(base.join("home").into()),
            "XDG_RUNTIME_DIR" => Some(base.join("runtime").into()),
            "FOREMAN_DATA_DIR" => Some(base.join("link").into()),
            _ => None,
        };
        let ours = |place: &Path| {
            let mut found = hidden(place.to_owned(), variable);
            found.retain(|path| !path.starts_with("/run/user"));
            found
        };
        let mut all = vec![station.clone(), engine.clone(), sockets, data];
        all.sort();
        assert_eq!(ours(&station), all);
        assert_eq!(ours(&engine.join("below")), all);
        all.push(base.join("other"));
        all.sort();
        assert_eq!(ours(&base.join("other")), all);
    }
}
