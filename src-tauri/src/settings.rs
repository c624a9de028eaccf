//! What the operator set in the window, in a small file of the app's own.

use crate::app::Settings;
use foreman_domain::{Code, Failure};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Longest name or path of a program, in bytes.
const LONGEST_PROGRAM: usize = 1024;

/// The file of settings.
#[derive(Debug)]
pub struct SettingsFile {
    path: PathBuf,
    /// What was read or written last.
    known: Mutex<Option<Settings>>,
}

impl SettingsFile {
    /// The settings of this file; nothing is read yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            known: Mutex::default(),
        }
    }

    /// What is set; the defaults where nothing was. A field that is missing has its default, and one
    /// that is not known is left alone.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn read(&self) -> Result<Settings, Failure> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(settings) = &*known {
            return Ok(settings.clone());
        }
        let settings = match fs::read(&self.path) {
            Ok(text) => understand(&text).map_err(|error| self.unusable(&error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Settings::default(),
            Err(error) => return Err(self.unusable(&error)),
        };
        *known = Some(settings.clone());
        Ok(settings)
    }

    /// What is set, or the defaults where that cannot be read.
    #[must_use]
    pub fn read_or_default(&self) -> Settings {
        self.read().unwrap_or_else(|failure| {
            tracing::warn!(%failure, "the defaults are used");
            Settings::default()
        })
    }

    /// Keeps them.
    ///
    /// # Errors
    /// When a program's name cannot be used, or the file cannot be written.
    pub fn save(&self, mut settings: Settings) -> Result<Settings, Failure> {
        settings.editor = program(settings.editor)?;
        settings.terminal = program(settings.terminal)?;
        let mut text = serde_json::to_vec_pretty(&settings).map_err(|error| {
            Failure::new(
                Code::Internal,
                format!("the settings do not encode: {error}"),
            )
        })?;
        text.push(b'\n');
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        replace(&self.path, &text).map_err(|error| {
            let text = format!(
                "the settings cannot be kept in {}: {error}",
                self.path.display()
            );
            Failure::new(Code::Environment, text)
        })?;
        *known = Some(settings.clone());
        Ok(settings)
    }

    fn unusable(&self, error: &dyn std::fmt::Display) -> Failure {
        let text = format!(
            "the settings in {} cannot be read: {error}",
            self.path.display()
        );
        Failure::new(Code::Environment, text).hint("Save the settings to begin with new ones.")
    }
}

fn understand(text: &[u8]) -> Result<Settings, serde_json::Error> {
    let mut all = serde_json::to_value(Settings::default())?;
    let given: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(text)?;
    if let Some(all) = all.as_object_mut() {
        all.extend(given);
    }
    serde_json::from_value(all)
}

/// A program's name or path: one argument, never a command line.
fn program(given: Option<String>) -> Result<Option<String>, Failure> {
    let Some(given) = given
        .map(|given| given.trim().to_owned())
        .filter(|given| !given.is_empty())
    else {
        return Ok(None);
    };
    let refuse = |what: &str| {
        Err(Failure::new(Code::BadInput, what)
            .hint("Give the name of a program on PATH, or its absolute path."))
    };
    if given.len() > LONGEST_PROGRAM || given.chars().any(char::is_control) {
        return refuse("that is no name of a program");
    }
    if given.starts_with('-') {
        return refuse("a program's name does not begin with a dash");
    }
    if given.contains('/') && !given.starts_with('/') {
        return refuse("a program's path has to be absolute");
    }
    Ok(Some(given))
}

/// Replaces a file of this app as a whole; its folder is made where it is not there.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    let beside = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::Theme;

    fn file(folder: &tempfile::TempDir) -> SettingsFile {
        SettingsFile::new(folder.path().join("sdf/settings.json"))
    }

    #[test]
    fn settings_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(file(&folder).read().unwrap(), Settings::default());
        let changed = Settings {
            theme: Theme::Light,
            notify: false,
            editor: Some(" codium ".into()),
            terminal: Some("  ".into()),
            keep_in_tray: false,
            first_run_done: true,
        };
        let kept = file(&folder).save(changed).unwrap();
        assert_eq!(kept.editor.as_deref(), Some("codium"));
        assert_eq!(kept.terminal, None);
        assert_eq!(file(&folder).read().unwrap(), kept);
    }

    #[test]
    fn a_file_of_another_version_is_understood() {
        let settings = understand(br#"{"theme":"dark","zoom":3}"#).unwrap();
        assert_eq!(
            settings,
            Settings {
                theme: Theme::Dark,
                ..Settings::default()
            }
        );
    }

    #[test]
    fn a_damaged_file_is_said_and_can_be_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let settings = file(&folder);
        settings.save(Settings::default()).unwrap();
        std::fs::write(folder.path().join("sdf/settings.json"), "{").unwrap();
        let settings = file(&folder);
        assert_eq!(settings.read().unwrap_err().code, Code::Environment);
        assert_eq!(settings.read_or_default(), Settings::default());
        settings.save(Settings::default()).unwrap();
        assert!(settings.read().is_ok());
    }

    #[test]
    fn a_program_is_a_name_or_an_absolute_path() {
        for good in ["code", "/opt/My Editor/bin/edit"] {
            assert_eq!(program(Some(good.into())).unwrap().as_deref(), Some(good));
        }
        for bad in ["bin/edit", "../edit", "-x", "a\nb", &"x".repeat(2000)] {
            assert_eq!(
                program(Some(bad.into())).unwrap_err().code,
                Code::BadInput,
                "{bad}"
            );
        }
    }
}
