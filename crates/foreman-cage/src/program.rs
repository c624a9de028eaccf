//! Finding and executing a program the way a shell does, with a sentence when it cannot.

use crate::kernel::c_text;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const SHELL: &CStr = c"/bin/sh";

/// A program with everything that `execve` needs, made before the walls are up.
pub(crate) struct Prepared {
    name: String,
    search_path: String,
    candidates: Vec<CString>,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

impl Prepared {
    /// Takes a command and its environment; `more` wins over `base`.
    pub fn new(
        argv: &[String],
        base: &[(String, String)],
        more: &[(String, String)],
    ) -> io::Result<Self> {
        let kept = base
            .iter()
            .filter(|(name, _)| !more.iter().any(|(other, _)| other == name));
        let all: Vec<&(String, String)> = kept.chain(more).collect();
        let environment = all
            .iter()
            .map(|(name, value)| c_text(format!("{name}={value}")))
            .collect::<io::Result<_>>()?;
        let path = all
            .iter()
            .find(|(name, _)| name == "PATH")
            .map(|(_, value)| value.as_str());
        let search_path = path.unwrap_or(DEFAULT_PATH).to_owned();
        let name = argv.first().cloned().unwrap_or_default();
        let candidates = if name.contains('/') || name.is_empty() {
            vec![c_text(&name)?]
        } else {
            // An empty entry means the working directory.
            let dirs = search_path
                .split(':')
                .map(|dir| if dir.is_empty() { "." } else { dir });
            dirs.map(|dir| c_text(Path::new(dir).join(&name)))
                .collect::<io::Result<_>>()?
        };
        let argv = argv.iter().map(c_text).collect::<io::Result<_>>()?;
        Ok(Self {
            name,
            search_path,
            candidates,
            argv,
            environment,
        })
    }

    /// Becomes the program. Returns only to say why it could not, as a sentence.
    pub fn execute(&self) -> String {
        let mut answer = nix::Error::ENOENT;
        let mut at = None;
        for candidate in &self.candidates {
            match self.become_file(candidate) {
                nix::Error::ENOENT | nix::Error::ENOTDIR => {
                    // The file may be there, and only its interpreter is not.
                    if exists(candidate) {
                        return self.words(nix::Error::ENOENT, Some(candidate));
                    }
                }
                nix::Error::EACCES => (answer, at) = (nix::Error::EACCES, Some(candidate)),
                error => return self.words(error, Some(candidate)),
            }
        }
        self.words(answer, at)
    }

    fn become_file(&self, file: &CStr) -> nix::Error {
        let Err(error) = nix::unistd::execve(file, &self.argv, &self.environment);
        if error != nix::Error::ENOEXEC {
            return error;
        }
        // A script without a first line that says for whom: a shell's, by long custom.
        let mut argv: Vec<&CStr> = vec![c"sh", file];
        argv.extend(self.argv.iter().skip(1).map(CString::as_c_str));
        let Err(error) = nix::unistd::execve(SHELL, &argv, &self.environment);
        error
    }

    fn words(&self, error: nix::Error, at: Option<&CString>) -> String {
        let name = if self.name.is_empty() {
            "an empty command"
        } else {
            &self.name
        };
        match (error, at) {
            (nix::Error::ENOENT, Some(file)) => format!(
                "{} cannot be started in the cage: its interpreter or loader is not there",
                file.to_string_lossy()
            ),
            (nix::Error::ENOENT, None) if self.name.contains('/') => {
                format!("{name} does not exist in the cage")
            }
            (nix::Error::ENOENT, None) => {
                format!(
                    "{name} was not found in the cage; looked in {}",
                    self.search_path
                )
            }
            (nix::Error::EACCES, Some(file)) => {
                format!("{} is not executable in the cage", file.to_string_lossy())
            }
            (nix::Error::E2BIG, _) => {
                format!("{name} cannot be started: its arguments and environment are too long")
            }
            (error, _) => format!("{name} cannot be started in the cage: {}", error.desc()),
        }
    }
}

fn exists(path: &CStr) -> bool {
    Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()))
        .symlink_metadata()
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_bare_name_is_looked_up_in_the_path_of_its_own_environment() {
        let base = pairs(&[("PATH", "/a:/b"), ("X", "1")]);
        let more = pairs(&[("PATH", "/c::/d")]);
        let prepared = Prepared::new(&["tool".into()], &base, &more).unwrap();
        let expected = [c"/c/tool", c"./tool", c"/d/tool"];
        assert!(
            prepared
                .candidates
                .iter()
                .map(CString::as_c_str)
                .eq(expected)
        );
        assert_eq!(
            prepared.environment,
            [c"X=1", c"PATH=/c::/d"].map(CStr::to_owned)
        );
    }

    #[test]
    fn a_name_with_a_slash_is_taken_as_it_is() {
        let prepared = Prepared::new(&["./x".into()], &[], &[]).unwrap();
        assert_eq!(prepared.candidates, [c"./x".to_owned()]);
    }

    #[test]
    fn what_cannot_be_started_is_said_in_a_sentence() {
        let say = |name: &str| Prepared::new(&[name.into()], &[], &[]).unwrap().execute();
        assert!(
            say("no-such-tool").contains("was not found"),
            "{}",
            say("no-such-tool")
        );
        assert!(say("/no/such/tool").contains("does not exist"));
        assert!(say("/etc/passwd").contains("not executable"));
        assert!(say("").contains("empty command"));
    }

    #[test]
    fn a_nul_byte_is_refused() {
        assert!(Prepared::new(&["a\0b".into()], &[], &[]).is_err());
        assert!(Prepared::new(&["a".into()], &[], &pairs(&[("A", "\0")])).is_err());
    }
}
