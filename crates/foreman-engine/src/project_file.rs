//! A repository's own policy file: read from its root on the host, never from a run's worktree, and
//! counted only while the operator trusts exactly its content.

use crate::engine::Engine;
use crate::failures::{OrFail, io};
use crate::tokens;
use foreman_domain::{Code, Failure};
use foreman_git::Repository;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the file in a repository.
pub(crate) const NAME: &str = ".foreman/policy.toml";
/// Longest file that is read.
const LONGEST: u64 = 1 << 20;

/// The file as found now.
#[derive(Debug, Clone)]
pub(crate) struct ProjectFile {
    pub path: PathBuf,
    pub text: String,
    pub hash: String,
    pub trusted: bool,
    /// Another content of it was trusted before.
    pub trusted_before: bool,
}

impl ProjectFile {
    /// `trusted`, `untrusted` or `changed`.
    pub fn standing(&self) -> &'static str {
        match (self.trusted, self.trusted_before) {
            (true, _) => "trusted",
            (false, true) => "changed",
            (false, false) => "untrusted",
        }
    }
}

impl Engine {
    /// The policy file of a repository; `None` when it has none.
    pub async fn project_file(&self, repo: &Repository) -> Result<Option<ProjectFile>, Failure> {
        let path = repo.root().join(NAME);
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        let hash = tokens::of_text(&text);
        let key = repo.slug();
        let trusted = self.store.is_trusted(&key, &hash).await.or_fail()?;
        let trusted_before = self.store.was_ever_trusted(&key).await.or_fail()?;
        Ok(Some(ProjectFile {
            path,
            text,
            hash,
            trusted,
            trusted_before,
        }))
    }
}

/// The text of a file that may be absent. Links are not followed: what is trusted is the file itself.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => {
            return Err(Failure::new(
                Code::BadPolicy,
                format!("{} is a link; a policy file must be a file", path.display()),
            ));
        }
        Err(error) => return Err(io(format!("{} cannot be read", path.display()), &error)),
    };
    let mut bytes = Vec::new();
    file.take(LONGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| io(format!("{} cannot be read", path.display()), &error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(Failure::new(
            Code::BadPolicy,
            format!("{} is too large", path.display()),
        ));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| {
        Failure::new(
            Code::BadPolicy,
            format!("{} is not UTF-8 text", path.display()),
        )
    })
}

/// Replaces the file's text, whole or not at all. Blocking.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let fail = |error: std::io::Error| io(format!("{} cannot be written", path.display()), &error);
    let folder = path.parent().unwrap_or(Path::new("/"));
    match std::fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => {
            return Err(Failure::new(
                Code::Conflict,
                format!("{} is not a folder", folder.display()),
            ));
        }
        Err(_) => std::fs::create_dir(folder).map_err(fail)?,
    }
    let draft = folder.join(format!(".policy.toml.{:08x}", rand::random::<u32>()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| std::fs::rename(&draft, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&draft);
        fail(error)
    })
}
