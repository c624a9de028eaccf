//! Which program opens a worktree: what the operator set, else what is found. Pure over what is around.

use crate::app::{OpenWith, Settings};
use foreman_domain::{Code, Failure};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Editors with a window, by program name.
const EDITORS: &[&str] = &[
    "code",
    "codium",
    "cursor",
    "windsurf",
    "zed",
    "zeditor",
    "subl",
    "idea",
    "pycharm",
    "webstorm",
    "rustrover",
    "gvim",
    "emacs",
    "kate",
    "gnome-builder",
    "gedit",
    "gnome-text-editor",
];
/// Of those, the ones that open files only.
const FILES_ONLY: &[&str] = &["gedit", "gnome-text-editor"];
/// Editors that need a terminal.
const TERMINAL_EDITORS: &[&str] = &[
    "vi", "vim", "nvim", "nano", "hx", "helix", "micro", "joe", "ne", "mg",
];
/// Terminals, by program name; each starts in the folder that it is started in.
const TERMINALS: &[&str] = &[
    "x-terminal-emulator",
    "gnome-terminal",
    "kgx",
    "ptyxis",
    "konsole",
    "xfce4-terminal",
    "kitty",
    "alacritty",
    "foot",
    "wezterm",
    "ghostty",
    "xterm",
];

/// What a program is chosen from.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// `VISUAL`.
    pub visual: Option<OsString>,
    /// `EDITOR`.
    pub editor: Option<OsString>,
    /// `TERMINAL`.
    pub terminal: Option<OsString>,
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// An absolute path.
    pub program: PathBuf,
    /// What it is given.
    pub arguments: Vec<OsString>,
}

impl Surroundings {
    /// Those of this process.
    #[must_use]
    pub fn of_this_process() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            // A relative folder would be looked up in whatever folder this app was started in.
            path: std::env::split_paths(&path)
                .filter(|folder| folder.is_absolute())
                .collect(),
            visual: std::env::var_os("VISUAL"),
            editor: std::env::var_os("EDITOR"),
            terminal: std::env::var_os("TERMINAL"),
        }
    }

    /// A program by its name, or by its absolute path.
    fn find(&self, name: &OsStr) -> Option<PathBuf> {
        let given = Path::new(name);
        if given.is_absolute() {
            return is_program(given).then(|| given.to_owned());
        }
        if given.components().count() != 1 {
            return None;
        }
        self.path
            .iter()
            .map(|folder| folder.join(given))
            .find(|path| is_program(path))
    }

    fn first_of(&self, names: &[&str]) -> Option<PathBuf> {
        names.iter().find_map(|name| self.find(OsStr::new(name)))
    }
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The command that opens `folder`.
///
/// # Errors
/// [`Code::Environment`] when there is no program for it, or not the one that is set.
pub fn choose(
    with: OpenWith,
    settings: &Settings,
    around: &Surroundings,
    folder: &Path,
) -> Result<Command, Failure> {
    match with {
        OpenWith::Editor => editor(settings, around, folder),
        OpenWith::Terminal => terminal(settings, around, folder),
        OpenWith::Files => {
            let program = around.find(OsStr::new("xdg-open")).ok_or_else(|| {
                missing("the program xdg-open was not found", "Install xdg-utils.")
            })?;
            Ok(Command {
                program,
                arguments: vec![folder.into()],
            })
        }
    }
}

fn editor(settings: &Settings, around: &Surroundings, folder: &Path) -> Result<Command, Failure> {
    if let Some(name) = &settings.editor {
        let program = around
            .find(OsStr::new(name))
            .ok_or_else(|| not_there("editor", name))?;
        return edit_with(program, settings, around, folder);
    }
    let named = [&around.visual, &around.editor].into_iter().flatten();
    let from_environment = named.filter_map(|value| around.find(value)).next();
    let window_editors: Vec<&str> = EDITORS
        .iter()
        .copied()
        .filter(|name| !FILES_ONLY.contains(name))
        .collect();
    let found = from_environment
        .or_else(|| around.first_of(&window_editors))
        .ok_or_else(|| missing("no editor was found", "Name one in the settings."))?;
    edit_with(found, settings, around, folder)
}

fn edit_with(
    program: PathBuf,
    settings: &Settings,
    around: &Surroundings,
    folder: &Path,
) -> Result<Command, Failure> {
    let name = program
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    if FILES_ONLY.contains(&name) {
        return Err(missing(
            &format!("{name} opens files, not folders"),
            "Name an editor in the settings that opens a folder.",
        ));
    }
    if !TERMINAL_EDITORS.contains(&name) {
        return Ok(Command {
            program,
            arguments: vec![folder.into()],
        });
    }
    let mut inside = terminal(settings, around, folder)?;
    let terminal_name = inside
        .program
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    if matches!(terminal_name, "gnome-terminal" | "kgx" | "ptyxis") {
        inside.arguments.push("--".into());
    } else if !matches!(terminal_name, "kitty" | "foot" | "wezterm") {
        inside.arguments.push("-e".into());
    } else if terminal_name == "wezterm" {
        inside.arguments.extend(["--".into()]);
    }
    inside.arguments.push(program.into());
    inside.arguments.push(folder.into());
    Ok(inside)
}

fn terminal(settings: &Settings, around: &Surroundings, folder: &Path) -> Result<Command, Failure> {
    let program = match &settings.terminal {
        Some(name) => around
            .find(OsStr::new(name))
            .ok_or_else(|| not_there("terminal", name))?,
        None => around
            .terminal
            .as_deref()
            .and_then(|name| around.find(name))
            .or_else(|| around.first_of(TERMINALS))
            .ok_or_else(|| missing("no terminal was found", "Name one in the settings."))?,
    };
    let name = program
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or_default();
    // Those that hand over to a process that is up already do not start in our folder by themselves.
    let flag = |text: &str| {
        let mut argument = OsString::from(text);
        argument.push(folder);
        vec![argument]
    };
    let arguments = match name {
        "gnome-terminal" | "xfce4-terminal" | "kgx" | "ptyxis" => flag("--working-directory="),
        "konsole" => vec!["--workdir".into(), folder.into()],
        "wezterm" => vec!["start".into(), "--cwd".into(), folder.into()],
        _ => vec![],
    };
    Ok(Command { program, arguments })
}

fn not_there(what: &str, name: &str) -> Failure {
    missing(
        &format!("the {what} {name} that is set was not found"),
        "Change it in the settings, or install it.",
    )
}

fn missing(text: &str, hint: &str) -> Failure {
    Failure::new(Code::Environment, text).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of programs with these names.
    fn around(names: &[&str]) -> (tempfile::TempDir, Surroundings) {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = vec![folder.path().to_owned()];
        (
            folder,
            Surroundings {
                path,
                ..Surroundings::default()
            },
        )
    }

    fn name(command: &Command) -> &str {
        command.program.file_name().unwrap().to_str().unwrap()
    }

    const HERE: &str = "/w/a b;$(x)\n-rf";

    fn chosen(
        with: OpenWith,
        settings: &Settings,
        around: &Surroundings,
    ) -> Result<Command, Failure> {
        choose(with, settings, around, Path::new(HERE))
    }

    #[test]
    fn what_is_set_comes_first_and_the_path_is_one_argument() {
        let (_folder, around) = around(&["code", "zed"]);
        let settings = Settings {
            editor: Some("zed".into()),
            ..Settings::default()
        };
        let command = chosen(OpenWith::Editor, &settings, &around).unwrap();
        assert_eq!(name(&command), "zed");
        assert_eq!(command.arguments, [OsString::from(HERE)]);
    }

    #[test]
    fn what_is_set_and_not_there_is_said() {
        let (_folder, around) = around(&["code"]);
        for settings in [
            Settings {
                editor: Some("zed".into()),
                ..Settings::default()
            },
            Settings {
                editor: Some("/no/zed".into()),
                ..Settings::default()
            },
        ] {
            let failure = chosen(OpenWith::Editor, &settings, &around).unwrap_err();
            assert!(failure.message.contains("zed"), "{failure}");
        }
    }

    #[test]
    fn the_environments_editor_comes_before_known_ones() {
        let (_folder, mut around) = around(&["code", "subl"]);
        around.visual = Some("subl".into());
        let command = chosen(OpenWith::Editor, &Settings::default(), &around).unwrap();
        assert_eq!(name(&command), "subl");
        // A command line is no program, and is not given to a shell.
        around.visual = Some("subl -w".into());
        let command = chosen(OpenWith::Editor, &Settings::default(), &around).unwrap();
        assert_eq!(name(&command), "code");
    }

    #[test]
    fn an_editor_without_a_window_gets_a_terminal() {
        let (_folder, mut around) = around(&["vim", "xterm"]);
        around.editor = Some("vim".into());
        let command = chosen(OpenWith::Editor, &Settings::default(), &around).unwrap();
        assert_eq!(name(&command), "xterm");
        assert_eq!(command.arguments[0], "-e");
        assert!(command.arguments[1].to_string_lossy().ends_with("/vim"));
        assert_eq!(command.arguments[2], OsString::from(HERE));
    }

    #[test]
    fn terminals_open_in_the_folder() {
        let (_folder, around) = around(&["konsole", "xterm"]);
        let command = chosen(OpenWith::Terminal, &Settings::default(), &around).unwrap();
        assert_eq!(name(&command), "konsole");
        assert_eq!(
            command.arguments,
            [OsString::from("--workdir"), OsString::from(HERE)]
        );
        let settings = Settings {
            terminal: Some("xterm".into()),
            ..Settings::default()
        };
        let command = chosen(OpenWith::Terminal, &settings, &around).unwrap();
        assert_eq!((name(&command), command.arguments.len()), ("xterm", 0));
    }

    #[test]
    fn what_is_not_there_is_said_with_a_remedy() {
        let (_folder, around) = around(&[]);
        for with in [OpenWith::Editor, OpenWith::Terminal, OpenWith::Files] {
            let failure = chosen(with, &Settings::default(), &around).unwrap_err();
            assert_eq!(failure.code, Code::Environment);
            assert!(failure.hint.is_some());
        }
    }

    #[test]
    fn what_is_no_program_is_not_found() {
        let (folder, around) = around(&["code"]);
        std::fs::set_permissions(
            folder.path().join("code"),
            std::fs::Permissions::from_mode(0o644),
        )
        .unwrap();
        assert!(chosen(OpenWith::Editor, &Settings::default(), &around).is_err());
        assert_eq!(around.find(OsStr::new("../code")), None);
    }
}
