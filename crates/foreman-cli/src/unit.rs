//! The systemd user unit of `foreman serve`.
//!
//! Its options harden without taking away what a cage is made of: no namespaces of the unit's own, no
//! restriction of namespaces, mounts or system calls. `KillMode=process` leaves the runs' supervisors
//! alone when the service ends; they outlive it by design.

use foreman_domain::{Code, Failure};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the unit.
pub const NAME: &str = "foreman.service";
/// First line of a unit that is ours to replace or remove.
const MARK: &str = "# Written by `foreman serve --install`; `--uninstall` removes it.";
/// What ending takes beyond a drain.
const ENDING: Duration = Duration::from_secs(60);

/// The unit's text.
///
/// # Errors
/// [`Code::Environment`] when a path holds what no unit can name.
pub fn text(
    program: &Path,
    data: Option<&Path>,
    drain: Option<Duration>,
) -> Result<String, Failure> {
    let mut command = format!("{} serve", quoted(program)?);
    if let Some(drain) = drain {
        command.push_str(&format!(" --drain-on-exit {}s", drain.as_secs()));
    }
    let environment = match data {
        Some(data) => {
            let pair = format!("FOREMAN_DATA_DIR={}", plain(data)?);
            format!("Environment={}\n", quoted_text(&pair))
        }
        None => String::new(),
    };
    let patience = (drain.unwrap_or_default() + ENDING).as_secs();
    Ok(format!(
        "{MARK}
[Unit]
Description=Foreman's engine: starts orders and collects what runs leave
Documentation=man:systemd.service(5)

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
{environment}KillMode=process
TimeoutStopSec={patience}
Restart=on-failure
RestartSec=2
OOMPolicy=continue
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes

[Install]
WantedBy=default.target
"
    ))
}

/// Where user units are, from the environment.
///
/// # Errors
/// [`Code::Environment`] when there is no home.
pub fn place(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CONFIG_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".config")))
        .map(|config| config.join("systemd/user").join(NAME))
        .ok_or_else(|| {
            Failure::new(
                Code::Environment,
                "there is no home directory to keep a user unit in",
            )
            .hint("Set HOME, or write the text of `foreman serve --print-unit` where you want it.")
        })
}

/// Writes the unit; one that somebody else wrote is left alone.
///
/// # Errors
/// [`Code::Conflict`] for somebody else's unit, [`Code::Environment`] when it cannot be written.
pub fn install(place: &Path, text: &str) -> Result<(), Failure> {
    refuse_foreign(place)?;
    let fail = |error: std::io::Error| {
        crate::error::environment(&format!("{} cannot be written", place.display()), &error)
    };
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder).map_err(fail)?;
    }
    std::fs::write(place, text).map_err(fail)
}

/// Removes the unit; true when there was one.
///
/// # Errors
/// As [`install`].
pub fn uninstall(place: &Path) -> Result<bool, Failure> {
    refuse_foreign(place)?;
    match std::fs::remove_file(place) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(crate::error::environment(
            &format!("{} cannot be removed", place.display()),
            &error,
        )),
    }
}

fn refuse_foreign(place: &Path) -> Result<(), Failure> {
    match std::fs::read_to_string(place) {
        Ok(text) if !text.starts_with(MARK) => Err(Failure::new(
            Code::Conflict,
            format!(
                "{} was not written by `foreman serve --install`",
                place.display()
            ),
        )
        .hint("Move it away first.")),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(crate::error::environment(
            &format!("{} cannot be read", place.display()),
            &error,
        )),
    }
}

fn plain(path: &Path) -> Result<&str, Failure> {
    path.to_str()
        .filter(|text| !text.chars().any(char::is_control))
        .ok_or_else(|| {
            Failure::new(
                Code::Environment,
                format!("no unit can name the path {}", path.display()),
            )
        })
}

/// A program in `ExecStart`, where `$` would be expanded beside what quotes and specifiers are.
fn quoted(path: &Path) -> Result<String, Failure> {
    Ok(quoted_text(&plain(path)?.replace('$', "$$")))
}

fn quoted_text(text: &str) -> String {
    let escaped = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_quotes_its_paths_and_waits_longer_than_the_drain() {
        let drain = Some(Duration::from_secs(600));
        let unit = text(Path::new("/opt/a b/%f$o\"reman"), None, drain).unwrap();
        assert!(
            unit.contains("ExecStart=\"/opt/a b/%%f$$o\\\"reman\" serve --drain-on-exit 600s\n"),
            "{unit}"
        );
        assert!(unit.contains("\nTimeoutStopSec=660\n"), "{unit}");
        assert!(!unit.contains("Environment="));
        let unit = text(Path::new("/f"), Some(Path::new("/d 1")), None).unwrap();
        assert!(
            unit.contains("\nEnvironment=\"FOREMAN_DATA_DIR=/d 1\"\n"),
            "{unit}"
        );
        assert!(text(Path::new("/a\nExecStartPre=x"), None, None).is_err());
    }

    #[test]
    fn runs_outlive_the_service_and_cages_keep_their_namespaces() {
        let unit = text(Path::new("/f"), None, None).unwrap();
        for wanted in [
            "KillMode=process",
            "Restart=on-failure",
            "Type=notify",
            "NoNewPrivileges=yes",
        ] {
            assert!(unit.lines().any(|line| line == wanted), "{wanted}");
        }
        // Each of these takes away namespaces or mounts, or needs a namespace of the unit's own.
        for forbidden in ["RestrictNamespaces", "Private", "Protect", "SystemCall"] {
            assert!(!unit.contains(forbidden), "{forbidden}");
        }
    }

    #[test]
    fn only_a_unit_of_ours_is_replaced_or_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let place = scratch.path().join("systemd/user/foreman.service");
        let unit = text(Path::new("/f"), None, None).unwrap();
        assert!(!uninstall(&place).unwrap());
        install(&place, &unit).unwrap();
        install(&place, &unit).unwrap();
        assert_eq!(std::fs::read_to_string(&place).unwrap(), unit);
        assert!(uninstall(&place).unwrap());
        std::fs::write(&place, "[Service]\n").unwrap();
        assert_eq!(install(&place, &unit).unwrap_err().code, Code::Conflict);
        assert_eq!(uninstall(&place).unwrap_err().code, Code::Conflict);
    }
}
