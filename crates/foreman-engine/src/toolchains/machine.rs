//! Where toolchains are looked for on this machine, and what a profile collects of them.

use super::trusted::Trust;
use crate::api::ToolchainView;
use crate::path_rules::{Own, closed};
use foreman_cage::{Bind, is_system};
use foreman_policy::Toolchain;
use foreman_shim::ground::contents;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Entries of a folder that are looked at, and installed versions that are shown.
const MOST: usize = 256;

/// What is asked about this machine.
pub(super) struct Machine<'a> {
    pub own: Own<'a>,
    pub trust: Trust,
    /// The operator's search path.
    pub path: Vec<PathBuf>,
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// What the repository says about versions, by file name: untrusted.
    pub wanted: HashMap<&'static str, String>,
}

impl Machine<'_> {
    /// The folder that a variable names, or one below home.
    pub fn folder(&self, variable: &str, below_home: &str) -> PathBuf {
        (self.variable)(variable)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .unwrap_or_else(|| self.own.home.join(below_home))
    }

    /// A program of the operator's search path, as it is found there.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let mut places = self.path.iter().map(|folder| folder.join(name));
        places.find(|path| {
            path.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        })
    }

    /// The version that a file of the repository asks for, as digits and dots.
    pub fn wanted_version(&self, files: &[&str]) -> Option<String> {
        let text = files.iter().find_map(|file| self.wanted.get(file))?;
        version_in(text)
    }
}

/// The version in the first line of a text: `v20.11` is "20.11"; nothing where a word stands instead.
pub(super) fn version_in(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let version = line.strip_prefix('v').unwrap_or(line);
    let plain = version
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    (plain && version.len() <= 32 && version.bytes().any(|byte| byte.is_ascii_digit()))
        .then(|| version.trim_end_matches('.').to_owned())
}

/// Names in a folder, in order; nothing where it is not there.
pub(super) fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .take(MOST)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

/// The installed version that is the wanted one or of its line, the newest of them; where none is
/// wanted, that of `otherwise`, else the newest.
pub(super) fn pick(
    installed: &[String],
    wanted: Option<&str>,
    otherwise: Option<&str>,
) -> Option<String> {
    let of_line = |line: &str| {
        let is_of = |name: &&String| {
            let name = name.strip_prefix('v').unwrap_or(name);
            name.strip_prefix(line)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        installed
            .iter()
            .filter(is_of)
            .max_by(|one, other| by_number(one, other))
    };
    let newest = || {
        installed
            .iter()
            .filter(|name| version_in(name).is_some())
            .max_by(|one, other| by_number(one, other))
    };
    let found = match wanted {
        Some(line) => of_line(line),
        None => otherwise.and_then(of_line).or_else(newest),
    };
    found.cloned()
}

fn by_number(one: &str, other: &str) -> Ordering {
    let numbers = |name: &str| -> Vec<u64> {
        name.split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|part| part.parse().ok())
            .collect()
    };
    numbers(one).cmp(&numbers(other)).then(one.cmp(other))
}

/// One profile while it is put together.
pub(super) struct Draft<'a> {
    machine: &'a Machine<'a>,
    pub view: ToolchainView,
    pub binds: Vec<Bind>,
}

impl<'a> Draft<'a> {
    pub fn new(machine: &'a Machine<'a>, toolchain: Toolchain, chosen_by: String) -> Self {
        Self {
            machine,
            view: ToolchainView {
                toolchain,
                chosen_by,
                found: false,
                mounts: Vec::new(),
                path: Vec::new(),
                set: Vec::new(),
                passes: Vec::new(),
                notes: Vec::new(),
            },
            binds: Vec::new(),
        }
    }

    /// Shows a folder or file at its own place, read-only. False, with a note, where it must not be;
    /// false without one where it is not there.
    pub fn show(&mut self, target: &Path) -> bool {
        if target.symlink_metadata().is_err() {
            return false;
        }
        // Every cage shows it anyway.
        if is_system(target) {
            return true;
        }
        match self.source_of(target) {
            Ok(source) => {
                if !self.binds.iter().any(|bind| bind.target == target) {
                    self.view.mounts.push(target.to_owned());
                    self.binds.push(Bind {
                        source,
                        target: target.to_owned(),
                        writable: false,
                    });
                }
                true
            }
            Err(why) => {
                let note = format!("{} is not shown: it {why}", target.display());
                self.view.notes.push(foreman_domain::sanitize_line(&note));
                false
            }
        }
    }

    fn source_of(&self, target: &Path) -> Result<PathBuf, String> {
        let source = self.machine.trust.resolve(target)?;
        for path in [target, source.as_path()] {
            if let Some(why) = closed(path, false, &self.machine.own) {
                return Err(format!("cannot be opened, because {why}"));
            }
        }
        match contents(&source, false)?.socket {
            Some(socket) => Err(format!("holds the socket {}", socket.display())),
            None => Ok(source),
        }
    }

    /// Shows what is in a folder, each by itself, so that the folder stays the run's own to write.
    pub fn show_each(&mut self, folder: &Path, names: &[String]) {
        for name in names {
            self.show(&folder.join(name));
        }
    }

    /// Shows the parts of an installation (`bin`, `lib`) and puts its programs on the search path. False
    /// where its `bin` is not shown.
    pub fn installation(&mut self, prefix: &Path, parts: &[&str]) -> bool {
        let bin = prefix.join("bin");
        if !self.show(&bin) {
            return false;
        }
        for part in parts {
            self.show(&prefix.join(part));
        }
        self.put_on_path(bin);
        true
    }

    /// The installation that a program of the search path belongs to. One that lies in a folder shared with
    /// other things is shown alone.
    pub fn installation_of(&mut self, program: &str, parts: &[&str]) -> Option<PathBuf> {
        let found = self.machine.program(program)?;
        if is_system(&found) && found.canonicalize().is_ok_and(|real| is_system(&real)) {
            self.put_on_path(found.parent()?.to_owned());
            return Some(found);
        }
        let real = match self.machine.trust.resolve(&found) {
            Ok(real) => real,
            Err(why) => {
                let note = format!("{} is not used: it {why}", found.display());
                self.view.notes.push(foreman_domain::sanitize_line(&note));
                return None;
            }
        };
        let bin = real.parent().filter(|bin| bin.ends_with("bin"));
        let prefix = bin
            .and_then(Path::parent)
            .filter(|prefix| !self.is_shared(prefix));
        match prefix {
            Some(prefix) => self
                .installation(prefix, parts)
                .then(|| prefix.join("bin").join(program)),
            None => self.program_alone(&found).then_some(found),
        }
    }

    /// Shows one program of the operator's, without what lies beside it.
    pub fn program_alone(&mut self, found: &Path) -> bool {
        let shown = self.show(found);
        if let (true, Some(folder)) = (shown, found.parent()) {
            self.put_on_path(folder.to_owned());
        }
        shown
    }

    /// A program of the search path that is not part of the installation, where there is one.
    pub fn companion(&mut self, program: &str) {
        let Some(found) = self.machine.program(program) else {
            return;
        };
        let is_shown = |bind: &Bind| found.starts_with(&bind.target);
        if !is_system(&found) && !self.binds.iter().any(is_shown) {
            self.program_alone(&found);
        }
    }

    fn is_shared(&self, prefix: &Path) -> bool {
        let home = self.machine.own.home;
        home.starts_with(prefix)
            || prefix.parent() == Some(home)
            || ["/", "/usr", "/usr/local", "/opt"]
                .iter()
                .any(|shared| prefix == Path::new(shared))
    }

    fn put_on_path(&mut self, folder: PathBuf) {
        self.view.found = true;
        // Those of the system are looked in anyway.
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"];
        let is_usual = usual.iter().any(|usual| folder == Path::new(usual));
        if !is_usual && !self.view.path.contains(&folder) && folder.to_str().is_some() {
            self.view.path.push(folder);
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        if let Some(value) = value.as_ref().to_str() {
            self.view.set.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Lets variables of the operator's through, where they are set.
    pub fn passes(&mut self, names: &[&str]) {
        let is_set = |name: &&&str| (self.machine.variable)(name).is_some();
        let names = names.iter().filter(is_set).map(|name| (*name).to_owned());
        self.view.passes.extend(names);
    }

    pub fn note(&mut self, note: &str) {
        self.view.notes.push(note.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_of_a_repository_is_digits_and_dots_or_nothing() {
        assert_eq!(version_in("v20.11.1\n").as_deref(), Some("20.11.1"));
        assert_eq!(version_in("\n 18 \n").as_deref(), Some("18"));
        for text in [
            "lts/*",
            "../../etc",
            "20/..",
            "",
            ".",
            "20;rm",
            "3.12.1-dev",
        ] {
            assert_eq!(version_in(text), None, "{text}");
        }
    }

    #[test]
    fn the_newest_of_the_wanted_line_is_picked_by_number() {
        let installed = ["v9.9.0", "v18.2.0", "v18.10.0", "v20.0.0", "junk"].map(str::to_owned);
        let picked = |wanted, otherwise| pick(&installed, wanted, otherwise);
        assert_eq!(picked(Some("18"), None).as_deref(), Some("v18.10.0"));
        assert_eq!(picked(Some("18.2"), None).as_deref(), Some("v18.2.0"));
        assert_eq!(picked(Some("1"), None), None);
        assert_eq!(picked(None, Some("18.2.0")).as_deref(), Some("v18.2.0"));
        assert_eq!(picked(None, Some("7")).as_deref(), Some("v20.0.0"));
        assert_eq!(picked(None, None).as_deref(), Some("v20.0.0"));
    }
}
