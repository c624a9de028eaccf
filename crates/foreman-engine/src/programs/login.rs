//! Giving a login back that an agent renewed in its cage.
//!
//! An agent renews its tokens now and then, and with some vendors the old ones are worth nothing from then on: a
//! copy that was lent must then come back, or the operator is logged out. It does where the operator said so
//! (`--lend-login=refresh`), when the run has ended and nothing of its cage lives, for files that its profile says
//! hold nothing but tokens.
//!
//! The run's copy is hostile: whatever ran in the cage may have written it. So it is only taken as what it can
//! be: a small plain file that holds one JSON object with the names that were in the one lent. And only in place
//! of what was lent: where the operator's own file has changed meanwhile, it stays. What is in the tokens nobody
//! can tell; they are the same agent's.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::environment::Account;
use crate::failures::join;
use foreman_domain::{EventKind, Failure};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Largest file of tokens.
const LARGEST: u64 = 256 << 10;

/// A file of a login that was lent, and is to be written back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LentFile {
    /// Where, below the home.
    pub path: String,
    /// What it was, as a digest.
    pub digest: String,
}

impl LentFile {
    /// Of what is lent.
    pub fn of(path: &str, bytes: &[u8]) -> Self {
        Self {
            path: path.to_owned(),
            digest: digest(bytes),
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

impl Engine {
    /// Writes back what a run's agent renewed of its login; what is to be told about it. The run's cage must
    /// have ended. Does nothing that was done before.
    pub(crate) async fn give_back_login(
        &self,
        details: &RunDetails,
    ) -> Result<Vec<EventKind>, Failure> {
        let (lent, Some(place)) = (details.lent.clone(), details.agent_home.clone()) else {
            return Ok(Vec::new());
        };
        if lent.is_empty() {
            return Ok(Vec::new());
        }
        let home = Account::of_this_process(|name| std::env::var_os(name)).home;
        // Runs that end together may have borrowed the same.
        let _turn = self.turn_at("logins").lock_owned().await;
        let giving = move || {
            let told = lent.iter().filter_map(|one| give_back(one, &place, &home));
            told.collect()
        };
        tokio::task::spawn_blocking(giving).await.map_err(join)
    }
}

/// One file; nothing is told where the agent left it as it was.
fn give_back(lent: &LentFile, place: &Path, home: &Path) -> Option<EventKind> {
    let path = &lent.path;
    match written(lent, place, home) {
        Ok(false) => None,
        Ok(true) => Some(EventKind::Progress {
            stage: "login".into(),
            message: format!(
                "~/{path} was written back: the agent renewed the login that it was lent"
            ),
        }),
        Err(why) => Some(EventKind::Warning {
            message: format!(
                "the login that the agent changed was not written back to ~/{path}: {why}"
            ),
        }),
    }
}

/// Whether the operator's file is the run's now, and was not.
fn written(lent: &LentFile, place: &Path, home: &Path) -> Result<bool, String> {
    let copy = match open_beneath(place, &lent.path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => {
            content(opened)
                .map_err(|why| format!("the run's copy {why}"))?
                .0
        }
    };
    let renewed = digest(&copy);
    if renewed == lent.digest {
        return Ok(false);
    }
    let own = home.join(&lent.path);
    let (before, found) = own_file(&own)?;
    let is = digest(&before);
    if is == renewed {
        // An engine that was cut short did it.
        return Ok(true);
    }
    if is != lent.digest {
        return Err("yours is not what was lent any more".to_owned());
    }
    if names(&copy)? != names(&before).map_err(|_| "yours is no JSON object".to_owned())? {
        return Err("the run's copy does not have the same entries".to_owned());
    }
    replace(&own, &copy, &found, &lent.digest)?;
    Ok(true)
}

/// The operator's file, where it is one that may be replaced.
fn own_file(path: &Path) -> Result<(Vec<u8>, Metadata), String> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path);
    let (bytes, found) = content(opened).map_err(|why| format!("yours {why}"))?;
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return Err("yours belongs to somebody else".to_owned());
    }
    if found.nlink() != 1 {
        return Err("yours has several names".to_owned());
    }
    Ok((bytes, found))
}

/// Opens what a run left, without following any link that it made on the way.
fn open_beneath(place: &Path, path: &str) -> io::Result<File> {
    let folder = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut at = OpenOptions::new()
        .read(true)
        .custom_flags(folder.bits())
        .open(place)?;
    let path = Path::new(path);
    for part in path.parent().unwrap_or(Path::new("")).components() {
        at = openat(&at, plain(part)?, folder, Mode::empty())?.into();
    }
    let file = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let name = path
        .components()
        .next_back()
        .ok_or(ErrorKind::InvalidInput)?;
    Ok(openat(&at, plain(name)?, file, Mode::empty())?.into())
}

fn plain(part: Component<'_>) -> io::Result<&OsStr> {
    match part {
        Component::Normal(name) => Ok(name),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

/// What is in a small regular file; else what it is, as a phrase behind whose it is.
fn content(opened: io::Result<File>) -> Result<(Vec<u8>, Metadata), String> {
    let unread = |error: io::Error| format!("cannot be read: {error}");
    let file = opened.map_err(unread)?;
    let found = file.metadata().map_err(unread)?;
    if !found.is_file() {
        return Err("is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(unread)?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("is larger than {} KiB", LARGEST >> 10));
    }
    Ok((bytes, found))
}

/// The names on the top of a JSON object.
fn names(bytes: &[u8]) -> Result<Vec<String>, String> {
    let read: Result<Map<String, Value>, _> = serde_json::from_slice(bytes);
    let object = read.map_err(|_| "the run's copy is no JSON object".to_owned())?;
    let mut names: Vec<_> = object.into_iter().map(|(name, _)| name).collect();
    names.sort();
    Ok(names)
}

/// Puts `bytes` in the place of a file whole or not at all, unless it is another one by now.
fn replace(path: &Path, bytes: &[u8], found: &Metadata, wanted: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let part = folder.join(format!(".foreman-{:016x}", rand::random::<u64>()));
    let put = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)?;
        file.write_all(bytes)?;
        let mode = found.permissions().mode() & 0o777;
        file.set_permissions(PermissionsExt::from_mode(mode))?;
        file.sync_all()
    };
    let put = put().map_err(|error| format!("it cannot be written: {error}"));
    let moved = put.and_then(|()| {
        // The agent may run outside as well, and renew its login there in this very moment.
        if digest(&own_file(path)?.0) != wanted {
            return Err("yours is not what was lent any more".to_owned());
        }
        std::fs::rename(&part, path).map_err(|error| format!("it cannot be replaced: {error}"))
    });
    if moved.is_err() {
        let _ = std::fs::remove_file(&part);
        return moved;
    }
    // Only a cut of the power could take it back, to a login that is older.
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        tracing::warn!(path = %PathBuf::from(path).display(), %error, "a login is not on the disk yet");
    }
    Ok(())
}

#[cfg(test)]
#[path = "login/tests.rs"]
mod tests;
