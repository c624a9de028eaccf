//! The profile of a cage for macOS's sandbox (Seatbelt), made from a specification.
//!
//! A pure function, the same on every system, so that it can be read and tested on any. What such a profile
//! enforces, once `sandbox-exec -p PROFILE COMMAND` has applied it to a program and all that it starts: deny by
//! default; files are read and written only where the specification binds them, at their own places; nothing of
//! the engine's own folders; no network and no Unix socket; signals to its own processes only.
//!
//! What it does not: nothing is held and nothing can be allowed while a program lasts, because the profile is
//! fixed; names, sizes and times of the files on the way to a bound one can be seen; the machine's list of
//! processes can be seen; bounds are those of processes. `sandbox-exec` is called deprecated by its maker, and is
//! what other tools of this kind use.

use crate::CageSpec;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Folders of the system that every program needs to start.
const SYSTEM: [&str; 9] = [
    "/System",
    "/Library/Apple",
    "/Library/Developer/CommandLineTools",
    "/usr",
    "/bin",
    "/sbin",
    "/opt/homebrew",
    "/private/etc",
    "/private/var/db/dyld",
];

/// Devices that a program may use.
const DEVICES: [&str; 6] = ["null", "zero", "random", "urandom", "tty", "ptmx"];

/// What the profile cannot say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The profile's language is text.
    #[error("{} is no text, so no profile can name it", .0.display())]
    NoText(PathBuf),
    /// There is nowhere for home and scratch files.
    #[error("the specification has no private folder")]
    NoPrivate,
}

/// The profile of a specification, in the sandbox's language. Paths must be canonical: the kernel compares
/// them after following links (`/tmp` is `/private/tmp` there).
///
/// # Errors
/// A path that is no text, or no private folder.
pub fn profile(spec: &CageSpec) -> Result<String, ProfileError> {
    let private = spec.private.as_deref().ok_or(ProfileError::NoPrivate)?;
    let mut out = String::from(
        "(version 1)\n\
         (deny default)\n\
         (allow process-fork)\n\
         (allow process-exec)\n\
         (allow process-info* (target same-sandbox))\n\
         (allow signal (target same-sandbox))\n\
         (allow sysctl-read)\n\
         (allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))\n\
         (allow pseudo-tty)\n\
         (allow file-read-metadata)\n\
         (allow file-read* (literal \"/\"))\n",
    );
    for path in SYSTEM {
        rule(&mut out, "allow file-read*", "subpath", Path::new(path))?;
    }
    for device in DEVICES {
        let device = Path::new("/dev").join(device);
        rule(
            &mut out,
            "allow file-read* file-write* file-ioctl",
            "literal",
            &device,
        )?;
    }
    let _ = writeln!(
        out,
        "(allow file-read* file-write* file-ioctl (regex #\"^/dev/ttys[0-9]+$\"))"
    );
    // The last rule that fits decides. What is hidden therefore comes between what is wider and what is bound
    // inside of it on purpose.
    let inside = |path: &Path| spec.hidden.iter().any(|hidden| path.starts_with(hidden));
    let mut binds: Vec<_> = spec.binds.iter().collect();
    binds.sort_by_key(|bind| bind.source.components().count());
    for bind in binds.iter().filter(|bind| !inside(&bind.source)) {
        open(&mut out, &bind.source, bind.writable)?;
    }
    for hidden in &spec.hidden {
        rule(&mut out, "deny file-read* file-write*", "subpath", hidden)?;
    }
    for bind in binds.iter().filter(|bind| inside(&bind.source)) {
        open(&mut out, &bind.source, bind.writable)?;
    }
    open(&mut out, private, true)?;
    // Whatever was opened above: what makes a folder a worktree stays as it is.
    let pointer = spec.workdir.join(".git");
    rule(&mut out, "deny file-write*", "literal", &pointer)?;
    out.push_str("(deny network*)\n");
    Ok(out)
}

/// The command that runs `argv` behind a profile.
#[cfg(target_os = "macos")]
#[must_use]
pub fn command(profile: &str, argv: &[String]) -> std::process::Command {
    let mut command = std::process::Command::new("/usr/bin/sandbox-exec");
    command.args(["-p", profile, "--"]).args(argv);
    command
}

fn open(out: &mut String, path: &Path, writable: bool) -> Result<(), ProfileError> {
    let what = match writable {
        true => "allow file-read* file-write*",
        // A narrower bind inside a writable one protects what it shows.
        false => "deny file-write*",
    };
    if !writable {
        rule(out, "allow file-read*", "subpath", path)?;
    }
    rule(out, what, "subpath", path)
}

fn rule(out: &mut String, what: &str, kind: &str, path: &Path) -> Result<(), ProfileError> {
    let text = path
        .to_str()
        .filter(|text| !text.chars().any(char::is_control))
        .ok_or_else(|| ProfileError::NoText(path.to_owned()))?;
    // In the language's strings a backslash and a quotation mark are written behind a backslash.
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    let _ = writeln!(out, "({what} ({kind} \"{text}\"))");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bind, Confinement};

    fn spec() -> CageSpec {
        let bind = |path: &str, writable| Bind {
            source: path.into(),
            target: path.into(),
            writable,
        };
        CageSpec {
            hostname: "run".into(),
            workdir: "/Users/op/data/worktrees/run".into(),
            home: "/Users/op".into(),
            binds: vec![
                bind("/Users/op/data/worktrees/run", true),
                bind("/Users/op/.cargo/registry", false),
                bind("/Users/op/code/.git/objects", false),
                bind("/Users/op/data/shadows/run", true),
            ],
            hidden: vec!["/Users/op/data".into()],
            env: vec![],
            why_program: "/usr/local/bin/foreman-shim".into(),
            processes: 10,
            root_maps_to: 65534,
            accept_weaker: vec![],
            confinement: Confinement::Landlock,
            private: Some("/Users/op/data/shadows/run/foreman-private".into()),
        }
    }

    #[test]
    fn the_profile_of_a_run_is_the_recorded_one() {
        let made = profile(&spec()).unwrap();
        assert_eq!(made, include_str!("seatbelt/run.sb"), "\n{made}");
    }

    #[test]
    fn what_is_bound_is_decided_after_what_hides_it() {
        let made = profile(&spec()).unwrap();
        let at = |text: &str| {
            made.find(text)
                .unwrap_or_else(|| panic!("{text} in\n{made}"))
        };
        let hidden = at("(deny file-read* file-write* (subpath \"/Users/op/data\"))");
        assert!(
            hidden
                < at("(allow file-read* file-write* (subpath \"/Users/op/data/worktrees/run\"))")
        );
        assert!(
            hidden < at("(allow file-read* file-write* (subpath \"/Users/op/data/shadows/run\"))")
        );
        assert!(made.starts_with("(version 1)\n(deny default)\n"));
        assert!(made.ends_with("(deny network*)\n"));
        assert!(!made.contains("(subpath \"/Users/op\")"), "{made}");
    }

    #[test]
    fn no_path_can_end_its_rule() {
        let mut spec = spec();
        spec.binds[0].source = "/Users/op/a\"))(allow default)(x \"\\".into();
        let made = profile(&spec).unwrap();
        assert!(!made.contains("\n(allow default"), "{made}");
        assert!(
            made.contains(r#"(subpath "/Users/op/a\"))(allow default)(x \"\\")"#),
            "{made}"
        );
        spec.binds[0].source = "/Users/op/a\n(allow default)".into();
        assert!(matches!(profile(&spec), Err(ProfileError::NoText(_))));
        spec.private = None;
        assert_eq!(profile(&spec), Err(ProfileError::NoPrivate));
    }
}
