//! Handing on what an agent kept of its home to the run that goes on with its session.
//!
//! It is a copy: the first run may be gone on from again, from where it was. All of it was written inside a cage, so
//! nothing of it is believed: no link is followed, only folders, plain files and links that stay inside are copied, and
//! all of it is bounded.
//!
//! Agents look for a session by the folder that they work in, which is another one now. A run's worktree has the run's
//! id in its path, and so has whatever an agent makes of that path: the id is replaced, in names and in files of text.

use crate::details::Resumes;
use crate::failures::io;
use crate::provision::copying::stays_inside;
use foreman_domain::{Code, Failure, RunId};
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

/// The most entries, and their bytes.
const ENTRIES: usize = 100_000;
const BYTES: u64 = 2 << 30;
/// The deepest folder that is entered.
const DEPTH: usize = 64;
/// The largest file in which the id is looked for.
const TEXT: u64 = 64 << 20;

/// Copies the folders `keeps` of an earlier run's home to `place`, for the run `to`. Blocking.
pub(crate) fn hand_on(
    resumes: &Resumes,
    place: &Path,
    keeps: &[String],
    to: &RunId,
) -> Result<(), Failure> {
    let mut copy = Copy {
        old: resumes.run.as_str(),
        new: to.as_str(),
        entries: 0,
        bytes: 0,
    };
    for kept in keeps {
        let from = resumes.home.join(kept);
        match from.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            // It kept nothing there.
            Ok(_) => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(unread(&from, &error)),
        }
        let to = place.join(kept);
        if let Some(above) = to.parent() {
            folder(above)?;
        }
        copy.folder(Path::new(""), &from, &to, 0)?;
    }
    Ok(())
}

struct Copy<'a> {
    old: &'a str,
    new: &'a str,
    entries: usize,
    bytes: u64,
}

impl Copy<'_> {
    fn folder(
        &mut self,
        below: &Path,
        from: &Path,
        to: &Path,
        depth: usize,
    ) -> Result<(), Failure> {
        if depth > DEPTH {
            return Err(too_much());
        }
        folder(to)?;
        for entry in fs::read_dir(from).map_err(|error| unread(from, &error))? {
            let entry = entry.map_err(|error| unread(from, &error))?;
            self.entries += 1;
            if self.entries > ENTRIES {
                return Err(too_much());
            }
            let name = entry.file_name();
            let source = entry.path();
            let target = to.join(self.renamed(&name));
            let kind = entry.file_type().map_err(|error| unread(&source, &error))?;
            if kind.is_dir() {
                self.folder(&below.join(&name), &source, &target, depth + 1)?;
            } else if kind.is_file() {
                self.file(&source, &target)?;
            } else if kind.is_symlink() {
                let leads = fs::read_link(&source).map_err(|error| unread(&source, &error))?;
                if stays_inside(&below.join(&name), &leads) {
                    symlink(&leads, &target).map_err(|error| unmade(&target, &error))?;
                }
            }
            // Sockets and pipes are nothing without who made them.
        }
        Ok(())
    }

    fn renamed(&self, name: &std::ffi::OsStr) -> OsString {
        match name.to_str() {
            Some(name) => name.replace(self.old, self.new).into(),
            None => name.to_owned(),
        }
    }

    fn file(&mut self, from: &Path, to: &Path) -> Result<(), Failure> {
        let source = fs::OpenOptions::new()
            .read(true)
            .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
            .open(from)
            .map_err(|error| unread(from, &error))?;
        let meta = source.metadata().map_err(|error| unread(from, &error))?;
        let left = BYTES.saturating_sub(self.bytes);
        if meta.len() > left {
            return Err(too_much());
        }
        let mut target = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600 | (meta.permissions().mode() & 0o100))
            .open(to)
            .map_err(|error| unmade(to, &error))?;
        // One byte more than there is room for: it may have grown.
        let mut source = source.take(left + 1);
        let written = if meta.len() <= TEXT {
            let mut bytes = Vec::new();
            source
                .read_to_end(&mut bytes)
                .map_err(|error| unread(from, &error))?;
            // A database has sums and lengths that a changed word would break.
            let text = std::str::from_utf8(&bytes).ok();
            if let Some(text) = text.filter(|text| !text.contains('\0')) {
                bytes = text.replace(self.old, self.new).into_bytes();
            }
            target
                .write_all(&bytes)
                .map_err(|error| unmade(to, &error))?;
            bytes.len() as u64
        } else {
            std::io::copy(&mut source, &mut target).map_err(|error| unmade(to, &error))?
        };
        self.bytes = self.bytes.saturating_add(written);
        match self.bytes > BYTES {
            true => Err(too_much()),
            false => Ok(()),
        }
    }
}

fn folder(path: &Path) -> Result<(), Failure> {
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|error| unmade(path, &error))
}

fn unread(path: &Path, error: &std::io::Error) -> Failure {
    io(format!("{} cannot be handed on", path.display()), error)
}

fn unmade(path: &Path, error: &std::io::Error) -> Failure {
    io(format!("{} cannot be made", path.display()), error)
}

fn too_much() -> Failure {
    Failure::new(
        Code::Environment,
        "what the agent kept of its session is too much to be handed on",
    )
    .hint("Say it with --afresh: the agent then starts a new session.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_handed_on_under_the_new_runs_name_and_nothing_outside_is_reached() {
        let dir = tempfile::tempdir().unwrap();
        let (first, next) = (RunId::from_random(1), RunId::from_random(2));
        let home = dir.path().join("first");
        let sessions = home.join(format!(".pi/sessions/--w-{first}--"));
        fs::create_dir_all(&sessions).unwrap();
        fs::write(
            sessions.join("a.jsonl"),
            format!("{{\"cwd\":\"/w/{first}\"}}"),
        )
        .unwrap();
        fs::write(sessions.join("a.db"), format!("\0{first}")).unwrap();
        fs::write(dir.path().join("secret"), "SECRET").unwrap();
        symlink("../../../../secret", home.join(".pi/out")).unwrap();
        symlink("sessions", home.join(".pi/in")).unwrap();
        nix::unistd::mkfifo(&home.join(".pi/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(home.join(".other")).unwrap();
        let resumes = Resumes {
            session: "s".into(),
            run: first.clone(),
            home: home.clone(),
        };
        let place = dir.path().join("next");
        let keeps = [".pi".to_owned(), ".absent".to_owned()];
        hand_on(&resumes, &place, &keeps, &next).unwrap();
        let there = place.join(format!(".pi/sessions/--w-{next}--"));
        let text = fs::read_to_string(there.join("a.jsonl")).unwrap();
        assert_eq!(text, format!("{{\"cwd\":\"/w/{next}\"}}"));
        let database = fs::read_to_string(there.join("a.db")).unwrap();
        assert_eq!(database, format!("\0{first}"), "a database is not changed");
        assert!(place.join(".pi/in").is_symlink());
        for absent in [".pi/out", ".pi/pipe", ".other", ".absent"] {
            assert!(place.join(absent).symlink_metadata().is_err(), "{absent}");
        }
        assert!(home.join(".pi/pipe").exists(), "it is a copy");
        // Whoever made the place before is not written over.
        assert!(hand_on(&resumes, &place, &keeps, &next).is_err());
    }
}
